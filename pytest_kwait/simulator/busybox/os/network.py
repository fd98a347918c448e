"""The network namespace of a pod: listening ports, and connections to other hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytest_kwait.simulator.busybox.os.streams import Pipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.busybox.os.streams import Session, Sink

__all__ = ["ExternalNetwork", "Network"]

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - a pod's own


class ExternalNetwork(Protocol):
    """The network outside a pod."""

    def resolve(self, name: str, *, search: bool = True) -> list[str]:
        """Return the addresses of a name."""
        ...

    def connect(self, address: str, port: int, sink: Sink) -> Session | str:
        """Connect with output to `sink`; return an error text on failure."""
        ...

    @property
    def search(self) -> str:
        """The search domains."""
        ...


class Network:
    """The ports of a pod or node."""

    __slots__ = ("_listeners", "address", "external")

    def __init__(self) -> None:
        self._listeners: dict[int, Callable[[Pipe, Sink | None], Session]] = {}
        self.address = ""
        """The pod's address."""
        self.external: ExternalNetwork | None = None

    def listen(self, port: int, accept: Callable[[Pipe, Sink | None], Session]) -> bool:
        """Serve a port with `accept`; False if it is taken."""
        if port in self._listeners:
            return False
        self._listeners[port] = accept
        return True

    def release(self, port: int) -> None:
        """Free a port."""
        self._listeners.pop(port, None)

    def connect(self, port: int, sink: Sink | None = None) -> Session | None:
        """Connect to a port; None if the connection is refused."""
        accept = self._listeners.get(port)
        return None if accept is None else accept(Pipe(), sink)

    # -- view from inside the pod

    def resolve(self, name: str, *, search: bool = True) -> list[str]:
        """Return the addresses of a name, as the pod's programs resolve it."""
        if name in _LOOPBACK_NAMES:
            return ["127.0.0.1"]
        if name.count(".") == 3 and all(one.isdigit() for one in name.split(".")):
            return [name]
        return self.external.resolve(name, search=search) if self.external is not None else []

    def connect_to(self, address: str, port: int, sink: Sink) -> Session | str:
        """Connect to an address from inside the pod; return an error text on failure."""
        if address in _LOOPBACK_NAMES or address == self.address:
            return self.connect(port, sink) or "Connection refused"
        if self.external is None:
            return "Network is unreachable"
        return self.external.connect(address, port, sink)
