"""Files of /proc that show a pod's network: sockets, interfaces, routes and settings.

Source: man 5 proc_pid_net; net/ipv4/tcp_ipv4.c, `get_tcp4_sock`; net/ipv6/tcp_ipv6.c.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import (
    UNSPECIFIED,
    is_loopback,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Descriptor,
    Failure,
    as_signed,
    read_string,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.interfaces import PodInterfaces
from pytest_kwait.simulator.runtimes.processes.intercepted.network import (
    LOOPBACK6,
    UNSPECIFIED6,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import AddressTable
    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer, SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.network import PodAddress

_SOCKETS = ("tcp", "tcp6", "udp", "udp6")
_PATH = re.compile(r"/proc/(?:(?:self|thread-self|[0-9]+)/)?net/([a-z0-9_]+)")
_MAPPED = f"{0:016X}{int.from_bytes(bytes([0, 0, 255, 255]), sys.byteorder):08X}"
_SETTINGS = "/proc/sys/"
_WORD_DIGITS = 8
# The last 32 bits of `::` and `::1`.
_LAST_WORDS = {UNSPECIFIED6: UNSPECIFIED, LOOPBACK6: IPv4Address(1)}


class KernelFiles:
    """Answers calls that open such a file; others go on to what answers calls with paths.

    Nothing below /proc/sys can be written to: it is the machine's.

    Args:
        pod: the pod.
        table: the cluster's addresses.
        interfaces: the pod's.
        sysctls: settings of the pod by dotted name.
        answer_other: answers all other calls.
    """

    def __init__(
        self,
        pod: PodAddress,
        table: AddressTable,
        interfaces: PodInterfaces,
        sysctls: Mapping[str, str],
        answer_other: Callable[[SystemCall], Answer],
    ) -> None:
        self._pod, self._table, self._interfaces = pod, table, interfaces
        self._settings = {
            f"{_SETTINGS}{name.replace('.', '/')}": "\t".join(value.split()) + "\n"
            for name, value in sysctls.items()
        }
        self._answer_other = answer_other

    def answer_open(self, call: SystemCall) -> Answer:
        """Answer `open`."""
        return self._answer(call, 0)

    def answer_openat(self, call: SystemCall) -> Answer:
        """Answer `openat`."""
        return self._answer(call, 1)

    def _answer(self, call: SystemCall, place: int) -> Answer:
        given = read_string(call.memory, call.arguments[place])
        if b"proc" not in given:
            return self._answer_other(call)
        path = os.fsdecode(os.path.normpath(given))
        flags = as_signed(call.arguments[place + 1])
        is_read = not flags & (os.O_ACCMODE | os.O_TRUNC)
        if path.startswith(_SETTINGS) and not is_read and not flags & os.O_PATH:
            return Failure(errno.EROFS)
        if not is_read or flags & (os.O_PATH | os.O_DIRECTORY):
            return self._answer_other(call)
        text = self._find_text(path)
        if text is None:
            return self._answer_other(call)
        fd = os.memfd_create("kernel")
        try:
            os.write(fd, text.encode())
            os.lseek(fd, 0, os.SEEK_SET)
        except OSError:
            os.close(fd)
            raise
        return Descriptor(fd, not flags & os.O_CLOEXEC)

    def _find_text(self, path: str) -> str | None:
        """Return the content of a file; None if it is the machine's."""
        match = _PATH.fullmatch(path)
        if match is None:
            return self._settings.get(path)
        if match[1] in _SOCKETS:
            return "".join(self.list_lines(match[1]))
        if match[1] in PodInterfaces.FILES:
            return "".join(self._interfaces.list_lines(match[1]))
        return None

    def list_lines(self, name: str) -> Iterator[str]:
        """Yield the lines of a list: its head, and the pod's sockets.

        Args:
            name: `tcp`, `tcp6`, `udp` or `udp6`.

        Raises:
            OSError: the machine has no such list.
        """
        with open(f"/proc/self/net/{name}", encoding="ascii") as file:
            yield next(file)
            for line in file:
                number, local, remote, rest = line.split(maxsplit=3)
                shown = self._show(local, is_own=True)
                if shown is not None:
                    peer = self._show(remote, is_own=False) or remote
                    yield f"{number:>5} {shown} {peer} {rest}"

    def _show(self, text: str, *, is_own: bool) -> str | None:
        """Return the cluster's address and port for those of the machine.

        Args:
            is_own: whether only addresses of the pod are wanted.
        """
        words, _, port = text.partition(":")
        word = int(words[-_WORD_DIGITS:], 16).to_bytes(4, sys.byteorder)
        found = self._table.find_address(IPv4Address(word))
        if found is None:
            return None
        host = found.host
        is_loop = found.owner == self._pod.owner and (host in _LAST_WORDS or is_loopback(host))
        if is_own and host != self._pod.host and not is_loop:
            return None
        if host in _LAST_WORDS:
            host = _LAST_WORDS[host]
            words = words.replace(_MAPPED, "0" * len(_MAPPED))
        shown = f"{int.from_bytes(host.packed, sys.byteorder):08X}"
        number = self._table.from_machine_port(int(port, 16))
        return f"{words[:-_WORD_DIGITS]}{shown}:{number:04X}"
