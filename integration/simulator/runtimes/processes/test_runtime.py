from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from integration.simulator.runtimes.processes.programs import PYTHON, Programs, Scenario
from pytest_kwait.simulator.runtimes.processes.runtime import (
    EmptyDir,
    Exit,
    Isolation,
    Mount,
    StartFailure,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[[Scenario], None]

_ECHO_SERVER = """
import socket, sys
server = socket.create_server((sys.argv[1], 8080))
print("ready", flush=True)
while True:
    connection, peer = server.accept()
    connection.sendall(b"from " + peer[0].encode() + b": " + connection.recv(100))
    connection.close()
"""
_ASK = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 8080), 5)
connection.sendall(b"hello")
print(connection.recv(100).decode())
"""
_ALLOCATE = "x = []\nwhile True: x.append(b'x' * (8 << 20))"
_FORK_BOMB = """
import os
is_first = True
while True:
    try:
        os.fork()
    except OSError:
        if is_first:
            print("ready", flush=True)
        is_first = False
"""


# -- programs


def test_output_and_exit_code_of_a_program(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        program = programs.shell(
            await programs.create_sandbox(), "echo out; echo err >&2; exit 3", env={"PATH": "/bin"}
        )
        assert await program.wait() == Exit(3)
        assert (program.stdout, program.stderr) == ("out\n", "err\n")

    run_any(scenario)


def test_environment_arguments_and_input(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        program = programs.start(
            await programs.create_sandbox(),
            "sh",
            "-c",
            'cat; echo "$GREETING $1"',
            "sh",
            "a b",
            env={"PATH": "/bin", "GREETING": "hi"},
            stdin=True,
        )
        assert program.process is not None
        assert program.process.stdin is not None
        program.process.stdin.write(b"x" * 300_000)
        await program.process.stdin.drain()
        program.process.stdin.close()
        assert await program.wait() == Exit(0)
        assert program.stdout == "x" * 300_000 + "hi a b\n"

    run_any(scenario)


def test_input_is_empty_unless_asked_for(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        program = programs.start(await programs.create_sandbox(), "cat")
        assert await program.wait() == Exit(0)

    run_any(scenario)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
def test_exit_code_of_a_signal(run_any: Run, number: signal.Signals) -> None:
    async def scenario(programs: Programs) -> None:
        program = programs.start(await programs.create_sandbox(), "sleep", "1000")
        assert await program.started is None
        # A session's program has no handler, but is not process 1.
        session = program.exec("sh", "-c", "echo ready; exec sleep 1000")
        await session.wait_for("ready")
        session.signal(number)
        assert await session.wait() == Exit(128 + number)

    run_any(scenario)


def test_handled_signal(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        script = "trap 'echo stopping; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
        program = programs.shell(await programs.create_sandbox(), script)
        await program.wait_for("ready")
        program.signal(signal.SIGTERM)
        assert await program.wait() == Exit(7)
        assert program.stdout == "ready\nstopping\n"

    run_any(scenario)


def test_program_without_a_handler_ignores_sigterm_as_process_1(run_isolated: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, "cat", stdin=True)
        assert await program.started is None
        program.signal(signal.SIGTERM)
        # Answered after the signal was sent.
        probe = program.exec("true")
        assert await probe.wait() == Exit(0)
        assert not program.exited.done()
        program.signal(signal.SIGKILL)
        assert await program.wait() == Exit(137)

    run_isolated(scenario)


def test_kill_of_a_program_that_ignores_sigterm_ends_its_children(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        script = "trap '' TERM; sleep 1000 & echo ready; wait; wait"
        program = programs.shell(await programs.create_sandbox(), script)
        await program.wait_for("ready")
        program.signal(signal.SIGTERM)
        program.signal(signal.SIGKILL)
        assert await program.wait() == Exit(137)

    run_any(scenario)


def test_stop_ends_containers_and_exec_sessions(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, "sleep", "1000")
        assert await program.started is None
        session = program.exec("sleep", "1000")
        assert await session.started is None
        sandbox.stop()
        sandbox.stop()
        assert (await program.wait()).code == 137
        assert (await session.wait()).code == 137
        late = programs.start(sandbox, "true")
        assert await late.get_failure() == ("unable to start container process: sandbox is stopped")

    run_any(scenario)


def test_exec_runs_in_the_container(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        program = programs.start(
            await programs.create_sandbox(), "sleep", "1000", env={"PATH": "/bin", "A": "1"}
        )
        assert await program.started is None
        session = program.exec("sh", "-c", "cat; echo $A; exit 5", stdin=True)
        assert session.process is not None
        assert session.process.stdin is not None
        session.process.stdin.write(b"in\n")
        session.process.stdin.close()
        assert await session.wait() == Exit(5)
        assert session.stdout == "in\n1\n"
        missing = program.exec("nosuch")
        assert await missing.get_failure() == (
            'unable to start container process: exec: "nosuch": executable file not found in $PATH'
        )
        program.signal(signal.SIGKILL)
        await program.wait()
        late = program.exec("true")
        assert await late.get_failure() == (
            "unable to start container process: container is not running"
        )

    run_any(scenario)


def test_terminal_and_its_size(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        program = programs.shell(
            await programs.create_sandbox(),
            "trap 'stty size; exit 4' WINCH; test -t 0 && test -t 2 && echo ready;"
            " while :; do sleep 0.01; done",
            tty=True,
            stdin=True,
        )
        await program.wait_for("ready\r\n")
        assert program.process is not None
        program.process.resize_terminal(120, 40)
        assert await program.wait() == Exit(4)
        assert program.stdout == "ready\r\n40 120\r\n"
        assert program.stderr == ""

    run_any(scenario)


def test_terminal_input(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        program = programs.start(await programs.create_sandbox(), "sleep", "1000")
        assert await program.started is None
        session = program.exec("sh", "-c", "read line; echo got $line", stdin=True, tty=True)
        assert session.process is not None
        assert session.process.stdin is not None
        session.process.stdin.write(b"abc\n")
        assert await session.wait() == Exit(0)
        assert session.stdout == "abc\r\ngot abc\r\n"

    run_any(scenario)


def test_program_blocks_while_its_output_is_not_read(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.shell(sandbox, "yes 0123456789 | head -c 3000000; echo end")
        assert program.process is not None
        program.process.pause_output()
        other = programs.shell(sandbox, "echo other")
        assert await other.wait() == Exit(0)
        assert program.stdout == ""
        assert not program.exited.done()
        program.process.resume_output()
        assert await program.wait() == Exit(0)
        assert len(program.stdout) == 3_000_004

    run_any(scenario)


def test_flood_of_output_leaves_time_for_others(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        flood = programs.start(sandbox, "yes")
        await flood.wait_for("y\n")
        other = programs.shell(sandbox, "echo other")
        assert await other.wait() == Exit(0)
        flood.signal(signal.SIGKILL)
        assert await flood.wait() == Exit(137)

    run_any(scenario)


def test_program_has_no_descriptors_of_the_runtime(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        script = "ls /proc/$$/fd"
        for tty in (False, True):
            program = programs.shell(sandbox, script, tty=tty, stdin=True)
            assert await program.wait() == Exit(0)
            # The shell itself may keep one of its terminal.
            assert set(program.stdout.split()) - {"10"} == {"0", "1", "2"}
            if not tty:
                sleeper = programs.start(sandbox, "sleep", "1000")
                assert await sleeper.started is None
                session = sleeper.exec("sh", "-c", script)
                assert await session.wait() == Exit(0)
                assert set(session.stdout.split()) == {"0", "1", "2"}

    run_any(scenario)


# -- failures


@pytest.mark.parametrize(
    ("program", "message", "denied"),
    [
        ("nosuch", 'exec: "nosuch": executable file not found in $PATH', ""),
        ("/no/such", 'exec: "/no/such": stat /no/such: no such file or directory', ""),
        (
            "/etc/passwd",
            'exec: "/etc/passwd": permission denied',
            "execute /etc/passwd (mode 0644, owner 0:0)",
        ),
        ("/etc", 'exec: "/etc": permission denied', "execute /etc (a folder)"),
    ],
)
def test_program_that_cannot_be_started(
    run_any: Run, program: str, message: str, denied: str
) -> None:
    async def scenario(programs: Programs) -> None:
        failed = programs.start(await programs.create_sandbox(), program)
        assert await failed.get_failure() == f"unable to start container process: {message}"
        # A namespace with one user shows all others as 65534.
        assert (await failed.get_denied()).replace("65534:65534", "0:0") == denied

    run_any(scenario)


def test_program_that_its_user_may_not_reach(
    run_isolated: Run, isolation: Isolation, tmp_path: Path
) -> None:
    """The first folder that cannot be entered is named, with its mode and owner."""
    if not isolation.any_user:
        pytest.skip("another user needs root")
    (tmp_path / "closed" / "bin").mkdir(parents=True)
    program = tmp_path / "closed" / "bin" / "serve"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "link").symlink_to("closed/bin/serve")
    (tmp_path / "closed").chmod(0o700)
    tmp_path.chmod(0o755)

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        mounts = (Mount("/srv/shop", str(tmp_path)),)
        folder = "/srv/shop/closed"
        denied = f"enter {folder} (mode 0700, owner 0:0)"
        given: dict[str, Any] = {"user": 1000, "mounts": mounts}
        path = f"{folder}/bin/serve"
        failed = programs.start(sandbox, path, **given)
        assert await failed.get_failure() == (
            f'unable to start container process: exec: "{path}": stat {path}: permission denied'
        )
        assert await failed.get_denied() == denied
        linked = programs.start(sandbox, "/srv/shop/link", **given)
        assert await linked.get_denied() == denied
        bare = programs.start(sandbox, "serve", env={"PATH": f"/usr/bin:{folder}/bin"}, **given)
        assert await bare.get_denied() == denied
        assert (await bare.get_failure()).endswith("executable file not found in $PATH")

    run_isolated(scenario)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF-of-another-machine", "exec format error"),
        (b"#!/no/such/interpreter\n", "no such file or directory"),
    ],
)
def test_program_that_cannot_be_executed(
    run_any: Run, tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "program"
    path.write_bytes(content)
    path.chmod(0o755)

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, str(path), visible=(str(tmp_path),))
        assert await program.wait() == Exit(1)
        assert program.stderr == f"exec {path}: {message}\n"

    run_any(scenario)


def test_working_directory_that_is_a_file(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        program = programs.start(await programs.create_sandbox(), "true", workdir="/etc/passwd")
        assert await program.get_failure() == (
            "unable to start container process: error during container init: "
            "mkdir /etc/passwd: not a directory"
        )

    run_pods(scenario)


def test_missing_working_directory_is_created(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        assert await programs.run_shell("pwd", workdir="/srv/app/data") == "/srv/app/data\n"

    run_pods(scenario)


def test_missing_working_directory_of_a_read_only_root(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        output = await programs.run_shell("pwd", workdir="/srv/app/data", read_only_root=True)
        assert output == "/srv/app/data\n"

    run_pods(scenario)


def test_working_directory_that_the_user_may_not_enter(
    run_pods: Run, isolation: Isolation, tmp_path: Path
) -> None:
    if not isolation.any_user:
        pytest.skip("another user needs root")
    tmp_path.chmod(0o700)

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(
            sandbox, "pwd", user=1000, workdir="/data", mounts=(Mount("/data", str(tmp_path)),)
        )
        assert await program.wait() == Exit(0)  # entered before the change of user

    run_pods(scenario)


def test_mount_of_a_missing_source(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, "true", mounts=(Mount("/data", "/no/such"),))
        assert await program.get_failure() == (
            "unable to start container process: error during container init: "
            'error mounting "/no/such" to rootfs at "/data": stat /no/such: '
            "no such file or directory"
        )

    run_pods(scenario)


def test_sandbox_with_an_unknown_sysctl(run_isolated: Run) -> None:
    async def scenario(programs: Programs) -> None:
        failed = await programs.try_sandbox(sysctls={"net.no_such": "1"})
        assert failed == StartFailure(
            "unable to start container process: error during container init: "
            "/proc/sys/net/no_such no such file or directory"
        )

    run_isolated(scenario)


# -- isolation


def test_isolated_programs_have_no_refusal(run_isolated: Run, isolation: Isolation) -> None:
    async def scenario(programs: Programs) -> None:
        assert (await programs.runtime.get_isolation()).refusal == ""

    run_isolated(scenario)
    assert isolation.refusal == ""


def test_pod_has_its_own_names_processes_and_network(run_isolated: Run) -> None:
    async def scenario(programs: Programs) -> None:
        script = "hostname; echo $$; ls /proc | grep -c '^[0-9]'; ls /sys/class/net; cat /etc/hosts"
        sandbox = await programs.create_sandbox(
            hostname="db-0", files={"/etc/hosts": b"10.244.1.1 db-0\n"}
        )
        program = programs.shell(sandbox, script)
        assert await program.wait() == Exit(0)
        assert program.stdout.split("\n")[:2] == ["db-0", "1"]
        assert program.stdout.split("\n")[3:] == ["eth0", "lo", "10.244.1.1 db-0", ""]

    run_isolated(scenario)


def test_files_of_a_pod_can_be_updated(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox(files={"/etc/hosts": b"old\n"})
        script = "cat /etc/hosts; read line; cat /etc/hosts"
        program = programs.shell(sandbox, script, stdin=True)
        await program.wait_for("old\n")
        sandbox.update_file("/etc/hosts", b"new\n")
        probe = program.exec("true")
        assert await probe.wait() == Exit(0)
        assert program.process is not None
        assert program.process.stdin is not None
        program.process.stdin.write(b"\n")
        assert await program.wait() == Exit(0)
        assert program.stdout == "old\nnew\n"

    run_pods(scenario)


def test_writes_stay_in_the_container(run_pods: Run, isolation: Isolation) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        paths = "/tmp/kwait-x /run/kwait-x /var/tmp/kwait-x /kwait-x"
        if isolation.overlay:
            paths += " /etc/kwait-x /usr/kwait-x"
        program = programs.shell(
            sandbox, f"set -e; for f in {paths}; do echo $f > $f; cat $f; done"
        )
        assert await program.wait() == Exit(0)
        assert program.stdout.split() == paths.split()
        other = programs.shell(sandbox, f"ls {paths} 2>/dev/null")
        await other.wait()
        assert other.stdout == ""

    run_pods(scenario)


def test_a_visible_folder_is_a_writable_copy(
    run_pods: Run, isolation: Isolation, tmp_path: Path
) -> None:
    """As folders of the machine elsewhere; folders below it are those of the same copy."""
    if not isolation.overlay:
        pytest.skip("programs cannot write to the machine's folders")
    source = tmp_path / "source"
    (source / "inner" / "deep").mkdir(parents=True)
    (source / "data").write_text("machine\n")
    volume = tmp_path / "volume"
    volume.mkdir()
    link = tmp_path / "link"
    link.symlink_to("source")

    async def scenario(programs: Programs) -> None:
        script = (
            "set -e; pwd; echo changed > data; mv data inner/deep/moved; cat inner/deep/moved;"
            f"touch {source}/new mounted/kept; rm -r inner; ls; ls {link}"
        )
        given: dict[str, Any] = {
            "visible": tuple(map(str, (source / "inner", source / "inner" / "deep", source, link))),
            "workdir": str(source),
            "mounts": (Mount(f"{source}/mounted", str(volume)),),
        }
        for _ in range(2):  # the next container has a fresh copy
            output = await programs.run_shell(script, **given)
            assert output.split() == [
                str(source), "changed", "mounted", "new", "mounted", "new",
            ]  # fmt: skip
        assert (source / "data").read_text() == "machine\n"
        assert sorted(path.name for path in source.iterdir()) == ["data", "inner"]
        assert [path.name for path in volume.iterdir()] == ["kept"]
        refused = await programs.run_shell(
            "touch new 2>/dev/null || echo refused", read_only_root=True, **given
        )
        assert refused == "refused\n"

    run_pods(scenario)


def test_read_only_root(run_pods: Run, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    async def scenario(programs: Programs) -> None:
        folders = "/ /tmp /etc /usr /run /dev/shm /data /var/log /var/cache"
        script = f"for f in {folders}; do touch $f/x 2>/dev/null && echo $f; done; true"
        # The second one is a folder of its own without the volume.
        mounts = tuple(Mount(target, str(tmp_path)) for target in ("/data", "/var/log"))
        output = await programs.run_shell(script, read_only_root=True, mounts=mounts)
        assert output.split() == ["/dev/shm", "/data", "/var/log"]

    run_pods(scenario)


def test_folder_of_the_cluster_is_hidden(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        (programs.folder / "key").write_text("secret")
        script = f"ls {programs.folder} 2>/dev/null; true"
        visible = (str(programs.folder.parent),)
        assert await programs.run_shell(script, visible=visible) == ""
        (programs.folder / "key").unlink()

    run_pods(scenario)


def test_hidden_paths(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox(hidden=("/usr/share", "/etc/passwd"))
        program = programs.shell(sandbox, "ls /usr/share; cat /etc/passwd")
        assert await program.wait() == Exit(0)
        assert program.stdout == ""

    run_pods(scenario)


def test_mounts(run_pods: Run, tmp_path: Path) -> None:
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "key").write_text("one")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "key").symlink_to("..data/key")
    (tmp_path / "out").mkdir()

    async def scenario(programs: Programs) -> None:
        source = str(tmp_path)
        script = (
            "cat /etc/app/config/key /etc/single;"
            "touch /etc/app/config/x 2>/dev/null || echo refused;"
            "echo two > /usr/share/out/file; ls -d /var/lib/new/sub; ls /var/lib/new"
        )
        output = await programs.run_shell(
            script,
            mounts=(
                Mount("/etc/app/config", source, read_only=True),
                Mount("/etc/single", source, sub_path="key", read_only=True),
                Mount("/usr/share/out", source, sub_path="out"),
                Mount("/var/lib/new", source, sub_path="made"),
                Mount("/var/lib/new/sub", source, sub_path="out"),
            ),
        )
        assert output == "oneonerefused\n/var/lib/new/sub\nsub\n"
        assert (tmp_path / "out" / "file").read_text() == "two\n"

    run_pods(scenario)


def test_sub_path_outside_its_volume(run_pods: Run, tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "link").symlink_to("/etc")

    async def scenario(programs: Programs) -> None:
        volume = tmp_path / "volume"
        mounts = (Mount("/data", str(volume), sub_path="link"),)
        program = programs.start(await programs.create_sandbox(), "true", mounts=mounts)
        assert await program.get_failure() == (
            "unable to start container process: error during container init: "
            f"failed to create subPath directory: /etc not within {volume}"
        )

    run_pods(scenario)


def test_empty_folders_are_shared_with_the_server(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox(empty_dirs=(EmptyDir("work"),))
        mounts = (Mount("/scratch", empty_dir="work"),)
        (sandbox.empty_dirs["work"] / "in").write_text("from the server\n")
        script = "cd ${CONTAINER_SANDBOX_MOUNT_POINT}/scratch && cat in && echo answer > out"
        program = programs.shell(sandbox, script, mounts=mounts)
        assert await program.wait() == Exit(0)
        assert program.stdout == "from the server\n"
        other = programs.shell(
            sandbox, "cat ${CONTAINER_SANDBOX_MOUNT_POINT}/scratch/out", mounts=mounts
        )
        assert await other.wait() == Exit(0)
        assert other.stdout == "answer\n"
        assert (sandbox.empty_dirs["work"] / "out").read_text() == "answer\n"

    run_any(scenario)


def test_termination_log(run_any: Run) -> None:
    async def scenario(programs: Programs) -> None:
        script = "head -c 5000 /dev/zero | tr '\\0' x >> $LOG; echo end >> $LOG; exit 1"
        for path in ("/dev/termination-log", "/var/lib/deep/log"):
            program = programs.shell(
                await programs.create_sandbox(),
                f"LOG=${{CONTAINER_SANDBOX_MOUNT_POINT}}{path}; {script}",
                termination_log=path,
            )
            assert await program.wait() == Exit(1, termination_log=b"x" * 4092 + b"end\n")

    run_any(scenario)


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_runtime_without_namespaces_is_plain(
    run_isolated: Run, run_plain: Run, is_plain: bool
) -> None:
    async def scenario(programs: Programs) -> None:
        await programs.runtime.get_isolation()
        assert programs.runtime.is_plain is is_plain

    run = run_plain if is_plain else run_isolated
    run(scenario)


def test_users_and_groups(run_isolated: Run, isolation: Isolation) -> None:
    async def scenario(programs: Programs) -> None:
        output = await programs.run_shell("id -u; id -g", user=1234, group=2345)
        assert output == "1234\n2345\n"
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, "sleep", "1000", user=1234, group=2345, groups=(77,))
        assert await program.started is None
        session = program.exec("sh", "-c", "id -u; id -g; id -G")
        assert await session.wait() == Exit(0)
        user, group, groups = session.stdout.splitlines()
        assert (user, group) == ("1234", "2345")
        if isolation.any_user:
            assert groups.split() == ["2345", "77"]

    run_isolated(scenario)


def test_empty_dirs_have_the_modes_of_their_medium(run_pods: Run, isolation: Isolation) -> None:
    async def scenario(programs: Programs) -> None:
        dirs = (EmptyDir("disk", group=123), EmptyDir("memory", 1 << 20, 123), EmptyDir("plain"))
        sandbox = await programs.create_sandbox(empty_dirs=dirs)
        mounts = [Mount(f"/{one.name}", empty_dir=one.name) for one in dirs]
        mounts.append(Mount("/part", empty_dir="memory", sub_path="a/b"))
        script = "umask 0; cd /; stat -c '%a %g' disk memory plain part"
        program = programs.shell(sandbox, script, mounts=tuple(mounts))
        assert await program.wait() == Exit(0)
        shown = ["2777 123", "3777 123", "777 0", "3777 123"]
        if isolation.any_user:
            assert program.stdout.splitlines() == shown

    run_pods(scenario)


def test_shared_memory_is_of_the_pod(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        first, second = [await programs.create_sandbox() for _ in range(2)]
        script = "stat -c %a /dev/shm; echo shared > /dev/shm/kwait; cat /dev/shm/*"
        assert await (writer := programs.shell(first, script)).wait() == Exit(0)
        assert writer.stdout == "1777\nshared\n"
        reader = programs.shell(first, "cat /dev/shm/kwait", user=1000)
        assert await reader.wait() == Exit(0)
        assert reader.stdout == "shared\n"
        other = programs.shell(second, "ls /dev/shm")
        assert await other.wait() == Exit(0)
        assert other.stdout == ""

    run_pods(scenario)


_STATUS = "grep -E 'CapBnd|NoNewPrivs' /proc/self/status | cut -f2"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "00000000a80425fb 0"),
        ({"capabilities_drop": ("ALL",), "no_new_privs": True}, "0000000000000000 1"),
        (
            {"capabilities_drop": ("ALL",), "capabilities_add": ("NET_ADMIN",)},
            "0000000000001000 0",
        ),
        (
            {"capabilities_add": ("ALL",), "capabilities_drop": ("CHOWN",)},
            "000001fffffffffe 0",
        ),
        (
            {"capabilities_drop": ("ALL",), "capabilities_add": ("KILL",), "user": 9},
            "0000000000000020 0",
        ),
    ],
)
def test_capabilities(run_isolated: Run, config: dict[str, object], expected: str) -> None:
    async def scenario(programs: Programs) -> None:
        assert (await programs.run_shell(_STATUS, **config)).split() == expected.split()

    run_isolated(scenario)


def test_shared_process_namespace(run_isolated: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox(share_pids=True)
        program = programs.shell(sandbox, "sleep 1234 & echo ready; wait")
        await program.wait_for("ready")
        script = "grep -l 1234 /proc/[0-9]*/cmdline | grep -vc self; echo $$"
        other = programs.shell(sandbox, script)
        assert await other.wait() == Exit(0)
        count, own = other.stdout.split()
        assert int(count) >= 1
        assert own != "1"
        program.signal(signal.SIGKILL)
        assert await program.wait() == Exit(137)
        # What it started has ended with it.
        rest = programs.shell(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert await rest.wait() == Exit(0)
        assert "sleep" not in rest.stdout

    run_isolated(scenario)


# -- limits


def test_memory_limit(run_isolated: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, PYTHON, "-c", _ALLOCATE, memory_bytes=64 << 20)
        other = programs.shell(sandbox, "read line; exit 9", stdin=True)
        assert await program.wait() == Exit(137, oom_killed=True)
        assert other.process is not None
        assert other.process.stdin is not None
        other.process.stdin.close()
        assert await other.wait() == Exit(9)

    run_isolated(scenario)


def test_update_of_the_memory_limit(run_isolated: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        code = "print('ready', flush=True); input(); x = b'x' * (200 << 20); print('done')"
        program = programs.start(sandbox, PYTHON, "-c", code, memory_bytes=64 << 20, stdin=True)
        await program.wait_for("ready")
        await program.container.update_memory(512 << 20)
        assert program.process is not None
        assert program.process.stdin is not None
        program.process.stdin.write(b"\n")
        assert await program.wait() == Exit(0)

    run_isolated(scenario)


def test_fork_bomb_leaves_others_alone(run_isolated: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        bomb = programs.start(sandbox, PYTHON, "-c", _FORK_BOMB, pids=50)
        await bomb.wait_for("ready")
        other = programs.shell(await programs.create_sandbox(), "for i in 1 2 3; do ls /; done")
        assert await other.wait() == Exit(0)
        assert other.stderr == ""
        bomb.signal(signal.SIGKILL)
        assert await bomb.wait() == Exit(137)

    run_isolated(scenario)


def test_limit_of_processes(run_isolated: Run) -> None:
    async def scenario(programs: Programs) -> None:
        code = (
            "import os, time\nn = 0\n"
            "try:\n  while n < 200:\n    n += 1\n    os.fork() or time.sleep(1000)\n"
            "except OSError as error: print(error.errno, n < 100, flush=True)\n"
        )
        sandbox = await programs.create_sandbox()
        program = programs.start(sandbox, PYTHON, "-c", code, pids=50)
        assert await program.wait() == Exit(0)
        assert program.stdout == "11 True\n"

    run_isolated(scenario)


def test_full_disk_is_the_pods_own(run_isolated: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox(
            storage_bytes=4 << 20, empty_dirs=(EmptyDir("small", size_bytes=1 << 20),)
        )
        script = (
            "head -c 2000000 /dev/zero > /small/file || echo small is full;"
            "head -c 9000000 /dev/zero > /tmp/file || echo full"
        )
        mounts = (Mount("/small", empty_dir="small"),)
        program = programs.shell(sandbox, script, mounts=mounts)
        assert await program.wait() == Exit(0)
        assert program.stdout == "small is full\nfull\n"
        # What a container wrote is freed with it.
        again = programs.shell(sandbox, "until head -c 3000000 /dev/zero > /tmp/file; do :; done")
        assert await again.wait() == Exit(0)
        assert "No space left" in await _read_stderr(programs)

    run_isolated(scenario)


async def _read_stderr(programs: Programs) -> str:
    sandbox = await programs.create_sandbox(storage_bytes=1 << 20)
    program = programs.shell(sandbox, "head -c 2000000 /dev/zero > /file")
    await program.wait()
    return program.stderr


# -- network


def test_pods_reach_each_other(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        server = programs.start(
            await programs.create_sandbox(), PYTHON, "-c", _ECHO_SERVER, "0.0.0.0"
        )
        await server.wait_for("ready")
        client = programs.start(await programs.create_sandbox(), PYTHON, "-c", _ASK, "10.244.1.1")
        assert await client.wait() == Exit(0)
        assert client.stdout == "from 10.244.1.2: hello\n"

    run_pods(scenario)


@pytest.mark.parametrize("address", ["10.96.0.7", "127.250.0.1"], ids=["cluster", "balancer"])
def test_server_listens_on_a_service_address(run_pods: Run, address: str) -> None:
    async def scenario(programs: Programs) -> None:
        listener = await programs.runtime.listen(address, 8080, "tcp")
        client = programs.start(await programs.create_sandbox(), PYTHON, "-c", _ASK, address)
        loop = asyncio.get_running_loop()
        connection, peer = await loop.sock_accept(listener)
        assert peer[0] == "10.244.1.1"
        await loop.sock_sendall(connection, await loop.sock_recv(connection, 100))
        connection.close()
        assert await client.wait() == Exit(0)
        assert client.stdout == "hello\n"
        with pytest.raises(OSError, match="Address already in use"):
            await programs.runtime.listen(address, 8080, "tcp")
        with pytest.raises(OSError, match="Cannot assign requested address"):
            await programs.runtime.listen("192.0.2.1", 8080, "tcp")
        listener.close()

    run_pods(scenario)


def test_other_networks_are_unreachable_at_once(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        ask = "print(socket.socket().connect_ex(('192.0.2.1', 80)))"
        script = f"import socket\nfor _ in range(3): {ask}"
        program = programs.start(await programs.create_sandbox(), PYTHON, "-c", script)
        assert await program.wait() == Exit(0)
        assert program.stdout == f"{errno.ENETUNREACH}\n" * 3

    run_pods(scenario)


def test_server_connects_to_a_pod(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        server = programs.start(
            await programs.create_sandbox(), PYTHON, "-c", _ECHO_SERVER, "10.244.1.1"
        )
        await server.wait_for("ready")
        loop = asyncio.get_running_loop()
        with await programs.runtime.connect_socket("tcp") as connection:
            await loop.sock_connect(connection, ("10.244.1.1", 8080))
            await loop.sock_sendall(connection, b"hi")
            assert await loop.sock_recv(connection, 100) == b"from 10.244.0.1: hi"

    run_pods(scenario)


def test_container_sees_the_processes_of_its_target(run_isolated: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        target = programs.start(sandbox, "sleep", "98765", id="target")
        assert await target.started is None
        looking = programs.start(
            sandbox, "sh", "-c", "cat /proc/1/cmdline | tr '\\0' ' '", process_target="target"
        )
        assert await looking.wait() == Exit(0)
        assert looking.stdout == "sleep 98765 "
        lost = programs.start(sandbox, "true", process_target="other")
        assert await lost.get_failure() == (
            "unable to start container process: target container other is not running"
        )

    run_isolated(scenario)


def test_server_connects_within_a_pod(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        server = programs.start(sandbox, PYTHON, "-c", _ECHO_SERVER, "127.0.0.1")
        await server.wait_for("ready")
        loop = asyncio.get_running_loop()
        with await sandbox.connect_socket("tcp") as connection:
            await loop.sock_connect(connection, ("127.0.0.1", 8080))
            await loop.sock_sendall(connection, b"hi")
            assert await loop.sock_recv(connection, 100) == b"from 127.0.0.1: hi"
        with (
            await programs.runtime.connect_socket("tcp") as connection,
            pytest.raises(ConnectionRefusedError),
        ):
            await loop.sock_connect(connection, ("127.0.0.1", 8080))

    run_pods(scenario)


@pytest.mark.parametrize(
    ("address", "is_seen"), [("0.0.0.0", True), ("10.244.1.1", True), ("127.0.0.1", False)]
)
def test_server_knows_whether_a_program_listens(run_pods: Run, address: str, is_seen: bool) -> None:
    """Without a connection."""

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        with pytest.raises(ConnectionRefusedError):
            await sandbox.check_port("10.244.1.1", 8080)
        server = programs.start(sandbox, PYTHON, "-c", _ECHO_SERVER, address)
        await server.wait_for("ready")
        if is_seen:
            await sandbox.check_port("10.244.1.1", 8080)
        else:
            with pytest.raises(ConnectionRefusedError):
                await sandbox.check_port("10.244.1.1", 8080)
        with pytest.raises(ConnectionRefusedError):
            await sandbox.check_port("10.244.1.1", 8081)

    run_pods(scenario)


def test_server_knows_of_listeners_for_both_families(run_pods: Run) -> None:
    """As programs in Go open them."""

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        code = (
            "import socket, time\n"
            "with socket.create_server(('', 80), family=socket.AF_INET6, dualstack_ipv6=True): \n"
            "    print('ready', flush=True); input()"
        )
        server = programs.start(sandbox, PYTHON, "-c", code, stdin=True)
        await server.wait_for("ready")
        await sandbox.check_port("10.244.1.1", 80)
        server.signal(signal.SIGKILL)
        await server.wait()

    run_pods(scenario)


def test_server_connects_with_the_address_of_another_pod(run_pods: Run) -> None:
    """Beside connections of that pod itself."""

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox()
        server = programs.start(sandbox, PYTHON, "-c", _ECHO_SERVER, "0.0.0.0")
        await server.wait_for("ready")
        other = await programs.create_sandbox()
        loop = asyncio.get_running_loop()
        with await sandbox.connect_socket("tcp", any_source=True) as connection:
            connection.bind(("10.244.1.2", 0))
            await loop.sock_connect(connection, ("10.244.1.1", 8080))
            await loop.sock_sendall(connection, b"hi")
            assert await loop.sock_recv(connection, 100) == b"from 10.244.1.2: hi"
        client = programs.start(other, PYTHON, "-c", _ASK, "10.244.1.1")
        assert await client.wait() == Exit(0)
        assert client.stdout == "from 10.244.1.2: hello\n"

    run_pods(scenario)


def test_pod_on_the_clusters_network_has_no_sources_of_others(run_isolated: Run) -> None:
    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox(host_network=True)
        with pytest.raises(OSError, match="Operation not supported"):
            await sandbox.connect_socket("tcp", any_source=True)

    run_isolated(scenario)


def test_address_of_an_interpreted_pod(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        for _ in range(2):
            await programs.runtime.add_address("10.244.3.3")
        listener = await programs.runtime.listen("10.244.3.3", 53, "udp")
        code = (
            "import socket; s = socket.socket(2, 2); s.sendto(b'q', ('10.244.3.3', 53));"
            "print(s.recvfrom(9))"
        )
        client = programs.start(await programs.create_sandbox(), PYTHON, "-c", code)
        loop = asyncio.get_running_loop()
        data, peer = await loop.sock_recvfrom(listener, 100)
        await loop.sock_sendto(listener, data + b"!", peer)
        assert await client.wait() == Exit(0)
        assert client.stdout == "(b'q!', ('10.244.3.3', 53))\n"
        listener.close()
        for _ in range(2):
            await programs.runtime.remove_address("10.244.3.3")

    run_pods(scenario)


def test_pod_on_the_clusters_network(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        server = programs.start(
            await programs.create_sandbox(host_network=True),
            PYTHON,
            "-c",
            _ECHO_SERVER,
            "10.96.0.9",
        )
        await server.wait_for("ready")
        client = programs.start(await programs.create_sandbox(), PYTHON, "-c", _ASK, "10.96.0.9")
        assert await client.wait() == Exit(0)

    run_pods(scenario)


def test_pod_cannot_reach_the_machines_network(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        with_machine = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1")
        port = with_machine.sockets[0].getsockname()[1]
        code = f"import socket; print(socket.socket().connect_ex(('127.0.0.1', {port})))"
        program = programs.start(await programs.create_sandbox(), PYTHON, "-c", code)
        assert await program.wait() == Exit(0)
        assert program.stdout == "111\n"
        with_machine.close()

    run_pods(scenario)


def test_low_ports_need_no_root(run_pods: Run) -> None:
    async def scenario(programs: Programs) -> None:
        code = "import socket; socket.create_server(('', 80)); print('bound')"
        program = programs.start(await programs.create_sandbox(), PYTHON, "-c", code, user=1000)
        assert await program.wait() == Exit(0)

    run_pods(scenario)


def test_hidden_folder_with_a_hidden_one_in_it(run_pods: Run, tmp_path: Path) -> None:
    (tmp_path / "work" / "state" / "keys").mkdir(parents=True)
    (tmp_path / "work" / "seen").touch()
    hidden = (str(tmp_path / "work" / "state" / "keys"), str(tmp_path / "work" / "state"))

    async def scenario(programs: Programs) -> None:
        sandbox = await programs.create_sandbox(hidden=hidden)
        work = str(tmp_path / "work")
        program = programs.start(sandbox, "ls", "-R", workdir=work, visible=(work,))
        assert await program.wait() == Exit(0), program.stderr
        assert program.stdout.split() == [".:", "seen", "state", "./state:"]

    run_pods(scenario)


# -- plain processes


def test_isolation_of_plain_processes(run_plain: Run) -> None:
    async def scenario(programs: Programs) -> None:
        isolation = await programs.runtime.get_isolation()
        assert not isolation.namespaces
        assert isolation.missing == (
            "programs are plain processes on the machine's network and files (isolation none was "
            "asked for)",
        )
        assert isolation.refusal == isolation.missing[0]
        assert (isolation.name, isolation.reason) == ("none", "isolation none was asked for")

    run_plain(scenario)


_STRICT = """
import asyncio, pathlib, sys
from pytest_kwait.simulator.runtimes.processes.runtime import ContainerRuntime

async def main():
    failed = asyncio.get_running_loop().create_future()
    folder = pathlib.Path(sys.argv[1])
    runtime = ContainerRuntime(folder, isolation="namespaces", on_failed=failed.set_result)
    try:
        print(await runtime.get_isolation())
    except OSError as error:
        print(error)
        print(await failed)
    finally:
        await runtime.close()

asyncio.run(main())
"""


def test_no_program_runs_plainly_where_namespaces_were_asked_for(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.docker_profile", "--", sys.executable, "-c", _STRICT]
    output = subprocess.check_output([*command, str(tmp_path)], text=True, timeout=60)
    assert output.splitlines() == [
        "create namespaces: not permitted, by a seccomp or AppArmor profile or "
        "kernel.unprivileged_userns_clone",
        "the launcher of programs has ended: isolation namespaces was asked for, and is refused: "
        "create namespaces: not permitted, by a seccomp or AppArmor profile or "
        "kernel.unprivileged_userns_clone",
    ]
    assert list(tmp_path.iterdir()) == []


_DETECT = """
import asyncio, os
from pytest_kwait.simulator.runtimes.processes.runtime import detect_isolation
from tools.docker_profile import impose_profile
from tools.system_call_filter import SystemCallFilter

impose_profile()
{more}
found = asyncio.run(detect_isolation("auto"))
print(found.name, *found.missing, sep="\\n")
"""
_NO_NAMESPACES = (
    "create namespaces: not permitted, by a seccomp or AppArmor profile or "
    "kernel.unprivileged_userns_clone"
)


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        (
            "",
            [
                "intercepted",
                "programs see the machine's processes, and may write without a limit: there are no "
                f"namespaces ({_NO_NAMESPACES})",
            ],
        ),
        (
            "SystemCallFilter(refused=('ptrace',)).load()",
            [
                "none",
                "programs are plain processes on the machine's network and files "
                f"({_NO_NAMESPACES}; intercept system calls: change a call: operation not "
                "permitted)",
            ],
        ),
        (
            "SystemCallFilter(refused=('seccomp',)).load()",
            [
                "none",
                "programs are plain processes on the machine's network and files "
                f"({_NO_NAMESPACES}; intercept system calls: install a filter: operation not "
                "permitted)",
            ],
        ),
    ],
    ids=["docker", "no-tracing", "no-filters"],
)
def test_best_isolation_that_the_machine_permits(more: str, lines: list[str]) -> None:
    command = [sys.executable, "-c", _DETECT.format(more=more)]
    # Programs of any user may enter it.
    environment = {**os.environ, "TMPDIR": "/tmp"}
    output = subprocess.check_output(command, text=True, timeout=60, env=environment)
    one_user = "all programs have the server's user, under the number that they ask for"
    if os.geteuid() != 0 and lines[0] == "intercepted":
        lines = [*lines, one_user]
    assert output.splitlines() == lines


_REACH = """
import errno, socket, sys
with socket.socket() as client:
    client.settimeout(10)
    number = client.connect_ex(("127.0.0.1", int(sys.argv[1])))
    print(errno.errorcode.get(number, "reached"))
try:
    socket.getaddrinfo("host.kwait.internal", 80)
except socket.gaierror:
    print("no such name")
"""


@pytest.mark.parametrize(("is_plain", "outcome"), [(True, "reached"), (False, "ECONNREFUSED")])
def test_plain_processes_reach_the_machine(
    run_isolated: Run, run_plain: Run, is_plain: bool, outcome: str
) -> None:
    """Without namespaces nothing restricts connections, and this machine has no name in pods."""

    async def scenario(programs: Programs) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
            sandbox = await programs.create_sandbox()
            program = programs.start(sandbox, PYTHON, "-c", _REACH, port)
            assert await program.wait() == Exit(0)
            assert program.stdout.split("\n")[:2] == [outcome, "no such name"]

    (run_plain if is_plain else run_isolated)(scenario)


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_daemon_of_a_plain_process_ends_with_the_runtime(run_plain: Run) -> None:
    async def scenario(programs: Programs) -> None:
        program = programs.shell(
            await programs.create_sandbox(),
            "setsid sh -c 'setsid sleep 1000 >/dev/null 2>&1 &'; echo",
        )
        assert await program.wait() == Exit(0)
        # run_scenario looks for processes that stay.

    run_plain(scenario)
