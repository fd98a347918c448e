"""Build the controller, once for each state of its sources.

Run it as `python -m e2e.programs.go_controller.build`: the first build takes minutes of Go.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from e2e.programs.go_programs import build_once, cache_folder, run_go

_SOURCES = Path(__file__).parent
NOT_BUILT = "`python -m e2e.programs.go_controller.build` builds the controller, with Go 1.26"


def find_program() -> Path:
    """Return the path of the program in the user's cache, whether it is built or not."""
    digest = hashlib.sha256()
    for source in (*sorted(_SOURCES.glob("*.go")), _SOURCES / "go.sum"):
        digest.update(source.read_bytes())
    return cache_folder("go-controller") / digest.hexdigest()[:16] / "manager"


def build_program() -> Path:
    """Build the program unless it is there already; return its path."""
    return build_once(find_program(), _build)


def _build(program: Path) -> None:
    run_go("-C", str(_SOURCES), "build", "-trimpath", "-ldflags=-s -w", "-o", str(program), ".")


if __name__ == "__main__":
    print(build_program())
