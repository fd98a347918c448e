from __future__ import annotations

import fcntl
import socket
from typing import TYPE_CHECKING

from pytest_kwait.simulator.server_main import server_names

if TYPE_CHECKING:
    import pytest


def test_a_server_on_all_interfaces_has_the_addresses_of_bridges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses = {"lo": "127.0.0.1", "docker0": "172.17.0.1"}

    def get_address(_socket: socket.socket, _request: int, ifreq: bytes) -> bytes:
        name = ifreq.rstrip(b"\0").decode()
        if name not in addresses:
            raise OSError(99, "Cannot assign requested address")
        return ifreq[:20] + socket.inet_aton(addresses[name]) + ifreq[24:]

    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "ifb0"), (3, "docker0")])
    monkeypatch.setattr(fcntl, "ioctl", get_address)

    assert "172.17.0.1" in server_names("0.0.0.0")  # what is tested; not listened on
    assert server_names("127.0.0.1") == ["127.0.0.1"]


def test_a_server_on_all_interfaces_has_the_address_of_the_machine() -> None:
    assert "127.0.0.1" in server_names("0.0.0.0")  # what is tested; not listened on
