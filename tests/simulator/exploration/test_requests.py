from __future__ import annotations

import pytest

from pytest_kwait.simulator.exploration.requests import find_patch_version


@pytest.mark.parametrize(
    ("patch", "version"),
    [
        (b'{"metadata": {"resourceVersion": "7"}}', "7"),
        (b'{"metadata": {"labels": {}}}', ""),
        (b'{"metadata": {"resourceVersion": 7}}', ""),
        (b'["resourceVersion"]', ""),
        (b'{"resourceVersion": ', ""),
        (b'{"resourceVersion": ' + b"[" * 20_000, ""),
        (b'{"metadata": {"resourceVersion": "7", "labels": {"a": "\xff"}}}', "7"),
    ],
)
def test_version_of_a_patch(patch: bytes, version: str) -> None:
    assert find_patch_version(patch) == version
