"""Run commands in containers."""

from __future__ import annotations

import selectors
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from pytest_kwait.client.errors import excerpt, make_status_error
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.responses import Object, decode_object
from pytest_kwait.client.transport import format_seconds
from pytest_kwait.client.websocket import V4, V5, ChannelWebSocket
from pytest_kwait.errors import ApiError, describe_value
from pytest_kwait.wait import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kwait.client.transport import Transport
    from pytest_kwait.clock import Deadline

_STDIN, _STDOUT, _STDERR, _ERROR = range(4)
# Small enough to be written to a ready socket without blocking.
_PIECE = 8192

Input = bytes | str | Iterable[bytes]
"""The standard input of a command, whole or in pieces that are made while it reads."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The result of a finished command.

    Args:
        exit_code: its exit code.
        stdout_bytes: its standard output.
        stderr_bytes: its standard error.
    """

    exit_code: int
    stdout_bytes: bytes
    stderr_bytes: bytes

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(exit_code={self.exit_code}, "
            f"stdout={describe_value(self.stdout)}, stderr={describe_value(self.stderr)})"
        )

    @property
    def stdout(self) -> str:
        """Its standard output as text."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Its standard error as text."""
        return self.stderr_bytes.decode("utf-8", "replace")


def execute(
    transport: Transport,
    namespace: str,
    pod: str,
    command: Sequence[str],
    *,
    container: str | None = None,
    stdin: Input | None = None,
    stdout: Callable[[bytes], object] | None = None,
    deadline: Deadline,
) -> ExecResult:
    """Run a command in a container until it ends; see `ApiSession.exec`.

    Source: apimachinery/pkg/util/remotecommand/constants.go; client-go tools/remotecommand/v4.go.
    """
    path = PODS.path(namespace, pod, "exec")
    query = {
        "command": list(command),
        "container": container,
        "stdin": stdin is not None or None,
        "stdout": True,
        "stderr": True,
    }
    written = {_STDOUT: bytearray(), _STDERR: bytearray(), _ERROR: bytearray()}
    sinks: dict[int, Callable[[bytes], object]] = {
        channel: data.extend for channel, data in written.items()
    }
    if stdout is not None:
        sinks[_STDOUT] = stdout
    guard = transport.guard("GET", path, deadline)
    channels = ChannelWebSocket(transport, path, query, (V5, V4), guard)
    try:
        _stream(channels, None if stdin is None else _split(stdin), sinks)
    except DeadlineExceeded as error:
        raise DeadlineExceeded(
            f"{' '.join(command)!r} in pod {namespace}/{pod} did not end within "
            f"{format_seconds(guard.limit)}; {_describe_output(written)}"
        ) from error
    finally:
        channels.close()
    exit_code = _parse_exit_code(bytes(written[_ERROR]), path, _describe_output(written))
    return ExecResult(exit_code, bytes(written[_STDOUT]), bytes(written[_STDERR]))


def _stream(
    channels: ChannelWebSocket,
    pieces: Iterator[bytes] | None,
    sinks: Mapping[int, Callable[[bytes], object]],
) -> None:
    """Send the input and receive the output until the server closes the stream.

    Both alternate on one thread: a command whose output is not read stops reading its input.
    """
    finished = pieces is None
    with selectors.DefaultSelector() as selector:
        selector.register(channels.fileno(), selectors.EVENT_READ)
        while True:
            event_mask = selectors.EVENT_READ | (0 if finished else selectors.EVENT_WRITE)
            selector.modify(channels.fileno(), event_mask)
            ready = 0 if channels.pending else selector.select()[0][1]
            if channels.pending or ready & selectors.EVENT_READ:
                message = channels.receive()
                if message is None:
                    return
                channel, data = message
                if channel in sinks:
                    sinks[channel](data)
            elif pieces is not None and (piece := next(pieces, b"")):
                channels.send(_STDIN, piece)
            else:
                if channels.protocol == V5:
                    channels.finish(_STDIN)
                finished = True


def _split(data: Input) -> Iterator[bytes]:
    """Return the pieces of an input, none of them empty."""
    whole = data.encode() if isinstance(data, str) else data
    for part in (whole,) if isinstance(whole, bytes) else whole:
        view = memoryview(part)
        for start in range(0, len(view), _PIECE):
            yield bytes(view[start : start + _PIECE])


def _describe_output(written: Mapping[int, bytearray]) -> str:
    output_text = excerpt(bytes(written[_STDERR] or written[_STDOUT]))
    return f"it has written: {output_text or 'nothing'}"


def _parse_exit_code(status: bytes, path: str, output: str) -> int:
    """Return the exit code from the last message, a Status object.

    Args:
        output: what the command has written, for the message of a connection that was lost.
    """
    try:
        body: Object = decode_object(status)
    except msgspec.DecodeError:
        body = {}
    if body.get("status") == "Success":
        return 0
    details = body.get("details") or {}
    if body.get("reason") == "NonZeroExitCode":
        for cause in details.get("causes") or ():
            if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdecimal():
                return int(cause["message"])
    if body:
        raise make_status_error(body, "GET", path)
    raise ApiError(
        f"the connection ended before the command did: {excerpt(status) or 'no status came'}; "
        f"{output}",
        reason="ConnectionReset",
        method="GET",
        path=path,
    )
