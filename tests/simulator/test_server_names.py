from __future__ import annotations

import fcntl
import socket

import pytest

from pytest_kwait.simulator.server_names import server_names


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


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        ("127.0.0.1", ["127.0.0.1"]),
        ("192.0.2.1", ["192.0.2.1", "127.0.0.1"]),
        ("::1", ["::1", "127.0.0.1"]),
    ],
)
def test_a_server_is_known_by_its_address_and_loopback(address: str, hosts: list[str]) -> None:
    assert server_names(address) == hosts


def test_a_server_on_all_addresses_is_known_by_loopback_first_and_the_machines_name() -> None:
    hosts = server_names("0.0.0.0")
    assert hosts[0] == "127.0.0.1"
    assert socket.gethostname() in hosts


def test_a_server_on_all_addresses_is_known_by_the_addresses_of_the_machines_routes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Probe(socket.socket):
        def connect(self, address: object, /) -> None:
            if self.family == socket.AF_INET6:
                raise OSError("no route")

        def getsockname(self) -> tuple[str, int]:
            return ("10.1.2.3", 0)

    def loopback(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", ("127.0.1.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", loopback)
    monkeypatch.setattr(socket, "socket", Probe)
    monkeypatch.setattr(socket, "if_nameindex", list)
    names = ["127.0.0.1", socket.gethostname(), "127.0.1.1", "10.1.2.3"]
    assert server_names("0.0.0.0") == names
