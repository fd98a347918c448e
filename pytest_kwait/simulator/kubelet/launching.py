"""Starting programs by their names: shells, busybox's programs, or nothing of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.archives import tar
from pytest_kwait.simulator.kubelet.processes import Pipe, Process, Surroundings, Write
from pytest_kwait.simulator.kubelet.programs import APPLETS, UNSIMULATED
from pytest_kwait.simulator.kubelet.servers import httpd, netcat
from pytest_kwait.simulator.kubelet.shell import Shell

if TYPE_CHECKING:
    from pytest_kwait.simulator.kubelet.programs import Applet

__all__ = ["SHELLS", "run_program", "shell_of"]

SHELLS = frozenset({"ash", "bash", "sh"})


def _nc(around: Surroundings, args: list[str]) -> Process:
    return (yield from netcat(around, args, run_program))


_MORE: dict[str, Applet] = {"httpd": httpd, "nc": _nc, "tar": tar}


def run_program(around: Surroundings, argv: list[str], complainer: str = "sh") -> Process:
    """Run a program by its arguments as a shell would; 127 where there is none of that name."""
    name = argv[0].rpartition("/")[2]
    if name in SHELLS:
        shell, script = shell_of(around, argv)
        return (yield from shell.run(script))
    if name == "busybox" and len(argv) > 1:
        return (yield from run_program(around, argv[1:], complainer))
    applet = _MORE.get(name) or APPLETS.get(name)
    if applet is not None:
        return (yield from applet(around, argv[1:]))
    if name in UNSIMULATED:
        yield Write(2, f"{name}: not simulated by the embedded kubelet\n".encode())
        return 1
    yield Write(2, f"{complainer}: {argv[0]}: not found\n".encode())
    return 127


def shell_of(around: Surroundings, argv: list[str]) -> tuple[Shell, str | Pipe]:
    """Return the shell that `sh -c SCRIPT…`, `sh FILE` or `sh` starts, and its script."""
    flags, rest = "", argv[1:]
    while rest and rest[0].startswith("-"):
        flags += rest.pop(0)[1:]
    around = around.inner(around.stdin)
    script: str | Pipe
    if "c" in flags:
        script = rest[0] if rest else ""
        shell = Shell(around, rest[1] if len(rest) > 1 else argv[0], arguments=tuple(rest[2:]))
    else:
        source = around.files.get(rest[0], b"") if rest else around.stdin
        script = source if isinstance(source, Pipe) else source.decode()
        shell = Shell(around, argv[0], arguments=tuple(rest[1:]))
    shell.errexit = "e" in flags
    for index, value in enumerate(shell.arguments, start=1):
        around.env[str(index)] = value
    return shell, script
