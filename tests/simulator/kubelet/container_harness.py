"""A container on a manual clock, with clients that attach and run commands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.kubelet.container import Container
from pytest_kwait.simulator.kubelet.images import parse_image
from pytest_kwait.simulator.kubelet.volumes import make_container_files
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.network import ExternalNetwork
    from pytest_kwait.simulator.kubelet_api import Session

__all__ = ["ContainerHarness", "take_output"]


def take_output(session: Session) -> dict[int, bytes]:
    """All that a process that has ended wrote, by stream."""

    async def take() -> dict[int, bytes]:
        found = {1: b"", 2: b""}
        while (piece := await asyncio.wait_for(session.output.take(), 30)) is not None:
            found[piece[0]] += piece[1]
        return found

    return asyncio.run(take())


class ContainerHarness:
    """A container.

    Args:
        argv: its own program.
        stdin: whether it has an input.
        tty: whether that is a terminal.
        memory: the bytes that it may hold.
        env: its variables.
        external: what it reaches outside of its pod.
        clock: its time; its own where none is given.
        files: what it starts with.
    """

    def __init__(
        self,
        *argv: str,
        stdin: bool = False,
        tty: bool = False,
        memory: int | None = None,
        env: dict[str, str] | None = None,
        external: ExternalNetwork | None = None,
        clock: ManualClock | None = None,
        **files: bytes,
    ) -> None:
        self.clock = clock or ManualClock()
        self.network = Network()
        image = parse_image("busybox:1")
        self.container = Container(
            self.clock, "c", image, 0, lambda _: None, self.network, stdin=stdin, tty=tty,
            memory=memory,
        )  # fmt: skip
        self.network.address, self.network.external = "10.244.0.9", external
        contents = {f"/{name}": content for name, content in files.items()}
        self.files = make_container_files(self.clock.time, "host", self.network, contents, {}, [])
        argv = argv or ("sleep", "999")
        env = {"PATH": "/bin", "HOME": "/root", **(env or {})}
        self.failure = self.container.start(list(argv), env, self.files, "host")

    def run(self, *argv: str, stdin: bytes | None = None, tty: bool = False) -> Session:
        """Start a command; its input, if any, is all there from the start."""
        session = self.container.run(list(argv), stdin=stdin is not None, tty=tty)
        if stdin is not None and session.stdin is not None:
            session.stdin.send(stdin)
            session.stdin.close()
        self.clock.advance()
        return session

    def sh(self, script: str) -> str:
        """What a script writes that ends at once."""
        return take_output(self.run("sh", "-c", script))[1].decode()

    def ask(self, port: int, data: bytes, *, close: bool = False) -> bytes | None:
        """What comes back from a port once its server is done; None where it is refused."""
        session = self.network.connect(port)
        if session is None or session.stdin is None:
            return None
        session.stdin.send(data)
        if close:
            session.stdin.close()
        self.clock.advance()
        return take_output(session)[1]
