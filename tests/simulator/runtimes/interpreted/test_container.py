"""Sessions with containers: exec, attach, terminals."""

from __future__ import annotations

import pytest

from pytest_kwait.simulator.kubelet_api import StartError
from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness, take_output


@pytest.mark.parametrize(
    ("argv", "stdin", "code", "out", "err"),
    [
        (("sh", "-c", "echo a; echo b >&2; exit 3"), None, 3, b"a\n", b"b\n"),
        (("cat",), b"one\ntwo", 0, b"one\ntwo", b""),
        (("cat", "-"), b"", 0, b"", b""),
        (("sh",), b"echo a\nexit 4\necho b\n", 4, b"a\n", b""),
        (("sh",), b"for i in 1 2; do\necho $i\ndone", 0, b"1\n2\n", b""),
        (("sh",), b"nope; echo $?\n", 0, b"127\n", b"sh: nope: not found\n"),
        (("sh",), b"echo )\necho b\n", 2, b"", b'sh: syntax error: unexpected ")"\n'),
    ],
)
def test_a_command_reads_and_writes(
    argv: tuple[str, ...], stdin: bytes | None, code: int, out: bytes, err: bytes
) -> None:
    session = ContainerHarness().run(*argv, stdin=stdin)
    assert take_output(session) == {1: out, 2: err}
    assert session.output.code == code


def test_a_command_takes_its_time() -> None:
    harness = ContainerHarness()
    session = harness.run("sh", "-c", "sleep 5; echo done")
    harness.clock.advance(4.9)
    assert session.output.code is None
    harness.clock.advance(0.2)
    assert take_output(session)[1] == b"done\n"


def test_commands_wait_for_input() -> None:
    harness = ContainerHarness()
    session = harness.container.run(["cat"], stdin=True, tty=False)
    assert session.stdin is not None
    harness.clock.advance(9)
    session.stdin.send(b"late")
    harness.clock.advance()
    assert session.output.code is None
    session.stdin.close()
    harness.clock.advance()
    assert take_output(session)[1] == b"late"


def test_commands_share_the_files_of_the_container() -> None:
    harness = ContainerHarness()
    harness.run("sh", "-c", "mkdir -p /d; echo x > /d/f")
    assert harness.sh("cat /d/f; ls /d") == "x\nf\n"


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ([], "args must not be empty"),
        (
            ["nope"],
            'unable to start container process: exec: "nope": executable file not found in $PATH',
        ),
        (
            ["/nope"],
            'unable to start container process: exec: "/nope": stat /nope: no such file or '
            "directory",
        ),
    ],
)
def test_exec_of_a_missing_program_is_an_error(argv: list[str], why: str) -> None:
    with pytest.raises(StartError) as error:
        ContainerHarness().container.run(argv, stdin=False, tty=False)
    text = str(error.value)
    assert text.startswith("failed to exec in container: failed to start exec ")
    assert text.endswith(f": OCI runtime exec failed: exec failed: {why}: unknown")


def test_commands_end_with_the_container() -> None:
    harness = ContainerHarness()
    session = harness.run("sleep", "999")
    harness.container.kill()
    assert session.output.code == 137
    assert harness.container.status.exit_code == 137


def test_a_disconnect_ends_the_command() -> None:
    harness = ContainerHarness()
    session = harness.run("sh", "-c", "sleep 1; echo x > /late")
    session.stop()
    harness.clock.advance(2)
    assert harness.files.find("/late") is None


def test_a_command_without_reader_blocks() -> None:
    harness = ContainerHarness(big=b"z" * (1 << 20))
    session = harness.run("sh", "-c", "cat /big; echo x > /written")
    harness.clock.advance(1)
    assert harness.files.find("/written") is None
    # The container's own log never blocks the program.
    assert len(taken_while(harness, session)) == 1 << 20
    assert harness.files.read("/written") == b"x\n"


def taken_while(harness: ContainerHarness, session: object) -> bytes:
    import asyncio

    async def take() -> bytes:
        found = b""
        while (piece := await session.output.take()) is not None:  # type: ignore[attr-defined]
            found += piece[1]
            harness.clock.advance(1)
        return found

    return asyncio.run(take())


# -- terminals


def test_a_terminal_echoes_and_merges_streams() -> None:
    harness = ContainerHarness()
    session = harness.container.run(["sh"], stdin=True, tty=True)
    assert session.stdin is not None
    harness.clock.advance()
    session.stdin.send(b"echo hx\x7fi\r")
    harness.clock.advance()
    session.stdin.send(b"nope\r\x04")
    harness.clock.advance()
    assert take_output(session) == {
        1: b"/ # echo hx\b \bi\r\nhi\r\n/ # nope\r\nsh: nope: not found\r\n/ # ",
        2: b"",
    }
    assert session.output.code == 127


def test_a_terminal_interrupts() -> None:
    harness = ContainerHarness()
    session = harness.container.run(["sleep", "99"], stdin=True, tty=True)
    assert session.stdin is not None
    session.stdin.send(b"\x03")
    assert take_output(session)[1] == b"^C\r\n"
    assert session.output.code == 130


# -- attaching


def test_attach_shows_output_and_the_end() -> None:
    harness = ContainerHarness("sh", "-c", "echo a; sleep 1; echo b; exit 3")
    session = harness.container.attach(stdin=False)
    harness.clock.advance(2)
    assert take_output(session)[1] == b"b\n"
    assert session.output.code == 0
    assert [line for _, line in harness.log] == [b"a\n", b"b\n"]


def test_detaching_does_not_end_the_container() -> None:
    harness = ContainerHarness("sh", "-c", "sleep 1; echo b")
    harness.container.attach(stdin=False).stop()
    assert harness.container.running


def test_an_attached_shell_takes_input() -> None:
    harness = ContainerHarness("sh", stdin=True, tty=True)
    session = harness.container.attach(stdin=True)
    assert session.stdin is not None
    session.stdin.send(b"echo hi; exit 2\r")
    harness.clock.advance()
    assert take_output(session)[1] == b"echo hi; exit 2\r\nhi\r\n"
    assert harness.container.status.exit_code == 2


def test_a_container_without_stdin_takes_no_input() -> None:
    harness = ContainerHarness("cat")
    assert harness.container.status.exit_code == 0
    harness = ContainerHarness("sh", "-c", "sleep 9")
    assert harness.container.attach(stdin=True).stdin is None


def make_pair(*argv: str) -> tuple[ContainerHarness, ContainerHarness]:
    """A container, and one that joins its processes."""
    target = ContainerHarness(*argv)
    joined = ContainerHarness(
        "sleep", "998", clock=target.clock, machine=target.machine, target=target.container
    )
    return target, joined


def test_a_container_sees_the_processes_of_its_target() -> None:
    target, joined = make_pair("sleep", "997")
    target.run("sleep", "996")

    seen = ["1 root sleep 997", "2 root sleep 998", "3 root sleep 996", "4 root sh -c ps"]
    assert [" ".join(line.split()) for line in joined.sh("ps").splitlines()[1:]] == seen
    # Process 1 cannot be killed from inside.
    assert joined.sh("kill -9 1; kill 3; echo $?; kill 9") == "0\n"
    assert "996" not in target.sh("ps")
    assert (target.container.running, joined.container.running) == (True, True)


def test_the_end_of_the_target_is_that_of_all_its_processes() -> None:
    target, joined = make_pair("sh", "-c", "trap 'exit 7' USR1; sleep 997 & wait")

    joined.sh("kill -USR1 1")
    target.clock.advance()

    assert (target.container.status.exit_code, target.container.running) == (7, False)
    assert (joined.container.status.exit_code, joined.container.running) == (137, False)


def test_the_end_of_a_joined_container_leaves_its_target() -> None:
    target, joined = make_pair("sleep", "997")

    joined.container.stop(1.0)
    joined.clock.advance(5)

    assert not joined.container.running
    assert target.container.running
    assert "sleep 998" not in target.sh("ps")
