"""A worker of a shop: does what its arguments say; a program of `e2e/programs`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def main() -> int:
    """Run `exit CODE`, `write PATH TEXT`, `read PATH`, `hold MIB`, `fail TEXT` or `sleep`."""
    task, *rest = sys.argv[1:] or ["sleep"]
    print(f"task {task} as {os.getuid()}", flush=True)
    if task == "exit":
        return int(rest[0])
    if task == "write":
        Path(rest[0]).write_text(rest[1])
    elif task == "read":
        print(Path(rest[0]).read_text(), flush=True)
    elif task == "hold":
        kept = b"x" * (int(rest[0]) << 20)
        print(len(kept), flush=True)
    elif task == "fail":
        print(rest[0], file=sys.stderr, flush=True)
        return 1
    elif task == "sleep":
        time.sleep(3600)  # noqa: TID251 - a program of its own, not the plugin
    return 0


if __name__ == "__main__":
    sys.exit(main())
