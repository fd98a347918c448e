from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.exec import ExecResult
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.websocket import V4, V5
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait import DeadlineExceeded
from tests.client.scripted_server import Exchange, ScriptedServer, answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.client.conftest import Authority

PATH = "/api/v1/namespaces/a/pods/p/exec"
SUCCESS = {"metadata": {}, "status": "Success"}


def failed(code: str) -> dict[str, Any]:
    return {
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with exit code {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": code}]},
    }


def ended(
    status: object, *messages: tuple[int, bytes], protocol: str = V5
) -> Callable[[Exchange], None]:
    def handle(exchange: Exchange) -> None:
        exchange.upgrade(protocol)
        for channel, data in messages:
            exchange.send_message(channel, data)
        exchange.send_message(3, json.dumps(status).encode())
        exchange.send_close()

    return handle


def run(server: ScriptedServer, deadline: Deadline, *command: str, **options: Any) -> ExecResult:
    client = server.client()
    client.configuration.api_key["BearerToken"] = "Bearer secret"
    return ApiSession.of(client).exec("a", "p", command, deadline=deadline, **options)


def test_output_error_output_and_exit_code(soon: Deadline) -> None:
    messages = [(1, b""), (1, b"caf\xc3"), (2, b"oh\n"), (1, b"\xa9\n"), (7, b"?")]
    with ScriptedServer(ended(failed("3"), *messages)) as server:
        found = run(server, soon, "sh", "-c", "x y", container="c")
    assert (found.exit_code, found.stdout, found.stderr) == (3, "café\n", "oh\n")
    assert (found.stdout_bytes, found.stderr_bytes) == (b"caf\xc3\xa9\n", b"oh\n")
    assert repr(found) == r"ExecResult(exit_code=3, stdout='café\n', stderr='oh\n')"
    (request,) = server.requests
    assert request.path == PATH
    assert request.query == {
        "command": ["sh", "-c", "x y"],
        "container": ["c"],
        "stdout": ["true"],
        "stderr": ["true"],
    }
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["sec-websocket-protocol"] == f"{V5},{V4}"


def test_success_is_zero(soon: Deadline) -> None:
    with ScriptedServer(ended(SUCCESS)) as server:
        assert run(server, soon, "true") == ExecResult(0, b"", b"")


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_input_is_sent_and_ended_while_output_comes(
    tls: bool, authority: Authority, soon: Deadline
) -> None:
    given = bytes(range(256)) * 100

    def echo(exchange: Exchange) -> None:
        exchange.upgrade()
        while (message := exchange.receive_message())[0] == 0:
            exchange.send_message(1, message[1:])
        assert message == b"\xff\x00"
        exchange.send_message(3, json.dumps(SUCCESS).encode())
        exchange.send_close()

    with ScriptedServer(echo, tls=authority.server if tls else None) as server:
        session = ApiSession.of(server.client(ssl_ca_cert=authority.certificate))
        found = session.exec("a", "p", ["cat"], stdin=given, deadline=soon)
    assert found.stdout_bytes == given
    assert server.requests[0].query["stdin"] == ["true"]


def test_input_and_output_in_pieces(soon: Deadline) -> None:
    """Input is made while the command reads; its output is not kept."""
    sent: list[bytes] = []
    written = bytearray()

    def handle(exchange: Exchange) -> None:
        exchange.upgrade()
        while (message := exchange.receive_message())[0] == 0:
            sent.append(message[1:])
            exchange.send_message(1, message[1:])
        exchange.send_message(2, b"oh")
        exchange.send_message(3, json.dumps(failed("1")).encode())
        exchange.send_close()

    with ScriptedServer(handle) as server:
        pieces = iter((b"a" * 10_000, b"", b"bc"))
        found = run(server, soon, "cat", stdin=pieces, stdout=written.extend)
    assert written == b"a" * 10_000 + b"bc"
    assert [len(piece) for piece in sent] == [8192, 1808, 2]
    assert found == ExecResult(1, b"", b"oh")


def test_input_that_cannot_be_made_ends_the_command(soon: Deadline) -> None:
    def handle(exchange: Exchange) -> None:
        exchange.upgrade()
        exchange.receive_message()
        exchange.hold()

    def pieces() -> Iterator[bytes]:
        yield b"a"
        raise OSError("unreadable")

    with ScriptedServer(handle) as server, pytest.raises(OSError, match="unreadable"):
        run(server, soon, "cat", stdin=pieces())


def test_text_as_input_with_an_older_server(soon: Deadline) -> None:
    def handle(exchange: Exchange) -> None:
        exchange.upgrade(V4)
        message = exchange.receive_message()
        exchange.send_message(1, message)
        exchange.send_message(3, json.dumps(SUCCESS).encode())
        exchange.send_close()

    with ScriptedServer(handle) as server:
        assert run(server, soon, "head", stdin="é").stdout_bytes == b"\x00\xc3\xa9"


def said_and_cut(exchange: Exchange) -> None:
    exchange.upgrade()
    exchange.send_message(2, b"no space left\n")
    exchange.close()


@pytest.mark.parametrize(
    ("handle", "message"),
    [
        (
            ended({"status": "Failure", "reason": "InternalError", "message": "no such file"}),
            f"GET {PATH}: 500 InternalError: no such file",
        ),
        (
            ended(failed("many")),
            f"GET {PATH}: 500 NonZeroExitCode: command terminated with exit code many",
        ),
        (
            ended("lost"),
            f'GET {PATH}: ConnectionReset: the connection ended before the command did: "lost"; '
            "it has written: nothing",
        ),
        (
            lambda exchange: (exchange.upgrade(), exchange.close()),
            f"GET {PATH}: ConnectionReset: the connection ended before the command did: "
            "no status came; it has written: nothing",
        ),
        (
            said_and_cut,
            f"GET {PATH}: ConnectionReset: the connection ended before the command did: "
            "no status came; it has written: no space left",
        ),
        (
            answer({"kind": "Status", "message": "no such pod", "reason": "NotFound"}, 404),
            f"GET {PATH}: 404 NotFound: no such pod",
        ),
        (answer(b'container not found ("c")', 500), f'GET {PATH}: 500: container not found ("c")'),
    ],
    ids=[
        "not started",
        "no number",
        "no status",
        "cut",
        "said and cut",
        "refused",
        "refused in text",
    ],
)
def test_interrupted_and_refused_commands_are_errors(
    handle: Callable[[Exchange], None], message: str, soon: Deadline
) -> None:
    with ScriptedServer(handle) as server, pytest.raises(ApiError) as raised:
        run(server, soon, "x")
    assert str(raised.value) == message


def test_a_server_that_speaks_another_protocol_is_an_error(soon: Deadline) -> None:
    with ScriptedServer(lambda exchange: exchange.upgrade("v9.channel.k8s.io")) as server:
        with pytest.raises(ApiError) as raised:
            run(server, soon, "x")
        assert str(raised.value) == (
            f"GET {PATH}: ConnectionFailed: {server.address}: Invalid WebSocket Header"
        )


def test_a_server_that_does_not_answer_is_cut() -> None:
    with (
        ScriptedServer(lambda exchange: exchange.hold()) as server,
        pytest.raises(DeadlineExceeded) as raised,
    ):
        run(server, Deadline.after(0.15, FakeClock()), "x")
    assert str(raised.value) == f"GET {PATH}: no complete answer within 0.15s"


def test_a_command_that_does_not_end_is_left_with_what_it_has_written() -> None:
    def handle(exchange: Exchange) -> None:
        exchange.upgrade()
        exchange.send_message(1, b"still\nhere\n")
        exchange.hold()

    with ScriptedServer(handle) as server, pytest.raises(DeadlineExceeded) as raised:
        run(server, Deadline.after(0.2, FakeClock()), "sleep", "9")
    assert str(raised.value) == (
        "'sleep 9' in pod a/p did not end within 0.2s; it has written: still here"
    )
