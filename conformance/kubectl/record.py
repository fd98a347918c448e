"""Record kubectl's output on a real cluster.

python -m conformance.kubectl.record KUBECONFIG [NAME...]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from conformance.kubectl.script import SCRIPTS, find_kubectl, load_script, play_script
from conformance.recordings import add_record_arguments, select_scripts, write_recording


def main() -> None:
    """Write one recording for each script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_record_arguments(parser, SCRIPTS)
    arguments = parser.parse_args()
    kubectl, reason = find_kubectl()
    if kubectl is None:
        parser.error(reason)
    for path in select_scripts(parser, SCRIPTS, arguments.names):
        with tempfile.TemporaryDirectory() as folder:
            outcomes = list(
                play_script(load_script(path), arguments.kubeconfig, kubectl, Path(folder))
            )
        write_recording(path, outcomes, sort_keys=False)
        sys.stdout.write(f"{path.stem}: {len(outcomes)} commands\n")


if __name__ == "__main__":
    main()
