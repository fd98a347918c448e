"""Record kubectl's output on a real cluster.

python -m conformance.kubectl.record KUBECONFIG [NAME...]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from conformance.kubectl.script import find_kubectl, load_script, play_script

SCRIPTS = Path(__file__).with_name("scripts")
RECORDINGS = Path(__file__).with_name("recordings")


def main() -> None:
    """Write one recording for each script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("names", nargs="*", help="the scripts (default: all)")
    parser.add_argument("--into", type=Path, default=RECORDINGS, help="the folder to write to")
    arguments = parser.parse_args()
    kubectl, reason = find_kubectl()
    if kubectl is None:
        parser.error(reason)
    arguments.into.mkdir(exist_ok=True)
    for path in sorted(SCRIPTS.glob("*.yaml")):
        if arguments.names and path.stem not in arguments.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            outcomes = list(
                play_script(load_script(path), arguments.kubeconfig, kubectl, Path(folder))
            )
        text = json.dumps(outcomes, indent=1) + "\n"
        arguments.into.joinpath(f"{path.stem}.json").write_text(text)
        sys.stdout.write(f"{path.stem}: {len(outcomes)} commands\n")


if __name__ == "__main__":
    main()
