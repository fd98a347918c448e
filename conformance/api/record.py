"""Record a real API server's responses to the transcripts.

python -m conformance.api.record KUBECONFIG [NAME...]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from conformance.api.transcript import load_transcript, play_transcript
from tools.raw_api import RawClient

TRANSCRIPTS = Path(__file__).with_name("transcripts")
RECORDINGS = Path(__file__).with_name("recordings")


def main() -> None:
    """Write one recording for each transcript."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("names", nargs="*", help="the transcripts (default: all)")
    arguments = parser.parse_args()
    endpoint = RawClient(arguments.kubeconfig)
    RECORDINGS.mkdir(exist_ok=True)
    for path in sorted(TRANSCRIPTS.glob("*.yaml")):
        if arguments.names and path.stem not in arguments.names:
            continue
        outcomes = list(play_transcript(endpoint, load_transcript(path)))
        text = json.dumps(outcomes, indent=1, sort_keys=True) + "\n"
        RECORDINGS.joinpath(f"{path.stem}.json").write_text(text)
        sys.stdout.write(f"{path.stem}: {len(outcomes)} steps\n")


if __name__ == "__main__":
    main()
