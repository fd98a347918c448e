"""Messages between the server and the launcher: JSON with descriptors, on a Unix socket."""

from __future__ import annotations

import json
import os
import socket
import struct
from array import array
from typing import Any

# Descriptors that one message may have; source: include/net/scm.h, `SCM_MAX_FD`.
_MAX_FDS = 253
_HEADER = struct.Struct("=II")

Message = dict[str, Any]


def pack_message(message: Message, fds: int) -> bytes:
    """Return the bytes of a message that comes with a number of descriptors."""
    body = json.dumps(message).encode("utf-8", "surrogateescape")
    return _HEADER.pack(len(body), fds) + body


def receive(connection: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Receive data and descriptors; programs that are executed do not inherit them.

    Unlike `socket.recv_fds`, which ignores its flags.
    """
    fds = array("i")
    space = socket.CMSG_SPACE(_MAX_FDS * fds.itemsize)
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    data, controls, _, _ = connection.recvmsg(size, space, flags)
    for level, kind, content in controls:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    if not flags:
        for fd in fds:
            os.set_inheritable(fd, False)
    return data, list(fds)


class MessageReader:
    """Splits what a Unix socket receives into messages with descriptors."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = bytearray()
        self._fds: list[int] = []

    def read(self) -> list[tuple[Message, list[int]]] | None:
        """Receive once; returns the complete messages, None at the end of the connection."""
        try:
            data, fds = receive(self._connection, 1 << 18)
        except BlockingIOError:
            return []
        except ConnectionError:
            return None
        if not data:
            return None
        self._data += data
        self._fds += fds
        messages = []
        while len(self._data) >= _HEADER.size:
            length, count = _HEADER.unpack_from(self._data)
            end = _HEADER.size + length
            if len(self._data) < end:
                break
            body = self._data[_HEADER.size : end].decode("utf-8", "surrogateescape")
            messages.append((json.loads(body), self._fds[:count]))
            del self._data[:end], self._fds[:count]
        return messages
