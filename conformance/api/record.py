"""Record a real API server's responses to the transcripts.

python -m conformance.api.record KUBECONFIG [NAME...]
"""

from __future__ import annotations

import argparse
import sys

from conformance.api.transcript import TRANSCRIPTS, load_transcript, play_transcript
from conformance.recordings import add_record_arguments, select_scripts, write_recording
from tools.raw_api import RawClient


def main() -> None:
    """Write one recording for each transcript."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_record_arguments(parser, TRANSCRIPTS)
    arguments = parser.parse_args()
    scripts = select_scripts(parser, TRANSCRIPTS, arguments.names)
    endpoint = RawClient(arguments.kubeconfig)
    for path in scripts:
        outcomes = list(play_transcript(endpoint, load_transcript(path)))
        write_recording(path, outcomes, sort_keys=True)
        sys.stdout.write(f"{path.stem}: {len(outcomes)} steps\n")


if __name__ == "__main__":
    main()
