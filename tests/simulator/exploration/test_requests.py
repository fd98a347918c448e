from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import pytest

from pytest_kwait.simulator.exploration.requests import find_client, find_patch_version

if TYPE_CHECKING:
    from pytest_kwait.simulator.no_exploration import ExplorableRequest


@pytest.mark.parametrize(
    ("user", "agent", "client"),
    [
        ("admin", "kopf/1.37.2", "admin/kopf"),
        ("system:serviceaccount:t-web-x7k2p:operator", "Python/3.11 aiohttp/3", "operator/Python"),
        ("system:node:node-1", "kubelet/v1.33.0 (linux/amd64)", "system:node:node-1/kubelet"),
        ("jane, of sales@example.com", "a,b\n#c/1", "jane--of-sales@example.com/a-b--c"),
        ("admin", "", "admin"),
        ("admin", f"my-{'0' * 8}-1", "admin/my-*-1"),
        ("a" * 1000, "b" * 1000, f"{'a' * 60}/{'b' * 60}"),
    ],
)
def test_client_of_a_request_has_a_stable_name(user: str, agent: str, client: str) -> None:
    request: ExplorableRequest = mock.Mock()
    request.caller.user = user
    with mock.patch.object(request, "header", {"User-Agent": agent}.__getitem__):
        assert find_client(request) == client


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
