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
    """What a pod reaches outside of itself."""

    def addresses(self, name: str, *, search: bool = True) -> list[str]:
        """The addresses of a name; none where nobody has it."""
        ...

    def connect(self, address: str, port: int, sink: Sink) -> Session | str:
        """A connection whose other side writes to `sink`; why there is none."""
        ...

    @property
    def search(self) -> str:
        """The domains that names are looked for in."""
        ...


class Network:
    """Who listens where."""

    __slots__ = ("_listeners", "address", "external")

    def __init__(self) -> None:
        self._listeners: dict[int, Callable[[Pipe, Sink | None], Session]] = {}
        self.address = ""
        """The pod's."""
        self.external: ExternalNetwork | None = None

    def listen(self, port: int, accept: Callable[[Pipe, Sink | None], Session]) -> bool:
        """Let `accept` serve the port; False where somebody else does."""
        if port in self._listeners:
            return False
        self._listeners[port] = accept
        return True

    def release(self, port: int) -> None:
        """Nobody listens on the port any more."""
        self._listeners.pop(port, None)

    def connect(self, port: int, sink: Sink | None = None) -> Session | None:
        """A connection to the port; None where it is refused."""
        accept = self._listeners.get(port)
        return None if accept is None else accept(Pipe(), sink)

    # -- as its own programs see it

    def addresses(self, name: str, *, search: bool = True) -> list[str]:
        """The addresses of a name; none where nobody has it."""
        if name in _LOOPBACK_NAMES:
            return ["127.0.0.1"]
        if name.count(".") == 3 and all(one.isdigit() for one in name.split(".")):
            return [name]
        return self.external.addresses(name, search=search) if self.external is not None else []

    def reach(self, address: str, port: int, sink: Sink) -> Session | str:
        """A connection to an address; why there is none."""
        if address in _LOOPBACK_NAMES or address == self.address:
            return self.connect(port, sink) or "Connection refused"
        if self.external is None:
            return "Network is unreachable"
        return self.external.connect(address, port, sink)
