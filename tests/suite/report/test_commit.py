from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.suite.report.commit import find_commit

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.com")
    (tmp_path / "a.txt").write_text("a")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a"]):
        subprocess.run(["git", "-c", "commit.gpgsign=false", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_commit_of_the_repository(repository: Path) -> None:
    commit = find_commit(repository, {"GITHUB_SHA": "other"})
    assert re.fullmatch("[0-9a-f]{40}", commit)
    (repository / "new.txt").write_text("not tracked")
    assert find_commit(repository, {}) == commit
    (repository / "a.txt").write_text("b")
    assert find_commit(repository, {}) == f"{commit}-dirty"


def test_variable_of_ci_where_there_is_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert find_commit(tmp_path, {"CI_COMMIT_SHA": "abc"}) == "abc"
    assert find_commit(tmp_path, {}) == ""
    monkeypatch.setenv("PATH", "")
    assert find_commit(tmp_path, {"GITHUB_SHA": "def"}) == "def"
