"""The commit of a suite: from git, else from the variables of CI systems."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DIRTY = "-dirty"
"""The end of a commit whose files were changed."""

_VARIABLES = ("GITHUB_SHA", "CI_COMMIT_SHA", "CIRCLE_SHA1", "BUILDKITE_COMMIT")
"""Of GitHub, GitLab, CircleCI and Buildkite."""

_TIMEOUT = 5.0
"""Seconds for git, which reads all files of a repository."""


def find_commit(folder: Path, environ: Mapping[str, str]) -> str:
    """Return the commit of the repository of a folder; empty if it is unknown.

    Args:
        folder: the root of the suite.
        environ: the environment, read where there is no repository.

    Returns:
        the hash, with `-dirty` if tracked files differ from the commit.
    """
    command = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", f"--dirty={DIRTY}"]
    try:
        found = subprocess.run(  # noqa: S603 - a fixed command
            command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        found = ""
    return found or next(filter(None, map(environ.get, _VARIABLES)), "") or ""
