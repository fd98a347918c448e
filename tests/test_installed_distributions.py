"""Metadata of distributions that are read once, and again where the path has others."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

from tests.installed_distributions import keep_distributions

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_metadata_of_a_path_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_distributions(monkeypatch)
    [first] = [each for each in importlib.metadata.distributions() if each.name == "pytest"]
    [second] = [each for each in importlib.metadata.distributions() if each.name == "pytest"]
    assert second.entry_points is first.entry_points
    assert second.files is first.files
    assert second.metadata is first.metadata

    installed = tmp_path / "other-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Name: other\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = [each.name for each in importlib.metadata.distributions()]
    assert {"other", "pytest"} <= {*names}
    assert [each.name for each in importlib.metadata.distributions(name="other")] == ["other"]
