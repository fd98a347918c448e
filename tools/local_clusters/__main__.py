"""Command line: `python -m tools.local_clusters` builds kind, k3d and helm."""

from __future__ import annotations

import sys

from tools.controlplane.errors import UNAVAILABLE, UnavailableError
from tools.local_clusters import build

if __name__ == "__main__":
    try:
        print(build())
    except UnavailableError as error:
        print(error, file=sys.stderr)
        sys.exit(UNAVAILABLE)
