"""What runs of tests print and write, without what differs from run to run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def hide_random_parts(text: str) -> str:
    """Replace the random part of each name of a namespace."""
    return re.sub(r"-([0-9a-f]{8}|[b-df-hj-np-tv-xz2-9]{5})\b", "-########", text)


def list_lines(result: pytest.RunResult) -> list[str]:
    """Return the lines of the output, without random parts."""
    return hide_random_parts(result.stdout.str()).splitlines()


def read_files(folder: Path) -> dict[str, str]:
    """Return the content of each file below a folder by its path, without random parts."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        hide_random_parts(path.relative_to(folder).as_posix()): path.read_text() for path in files
    }


def join_failure(result: pytest.RunResult) -> str:
    """Return the message of the only failure, on one line."""
    return " ".join(line[1:].strip() for line in result.outlines if line.startswith("E  "))
