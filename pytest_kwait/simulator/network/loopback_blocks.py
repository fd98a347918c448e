"""Blocks of the machine's loopback interface, each of one cluster alone.

All of 127.0.0.0/8 is the loopback interface on Linux; elsewhere it is 127.0.0.1 alone. A block is
2^16 addresses of it.
"""

from __future__ import annotations

import errno
import os
import socket

_BLOCKS = range(1, 255)
# Where a cluster holds its block, at the last address but one.
_BLOCK_PORT = 61337
_PREFIX = "127."


def is_loopback(address: str) -> bool:
    """Return whether an IPv4 address or network is one of the loopback interface."""
    return address.startswith(_PREFIX)


def hold_block(number: int) -> tuple[socket.socket, int]:
    """Take a block that no other cluster has.

    Args:
        number: where to look first.

    Returns:
        The socket that holds it until it is closed, and the second byte of its addresses.

    Raises:
        OSError: no block is free, or the machine's loopback interface carries none of them.
    """
    for offset in range(len(_BLOCKS)):
        block = _BLOCKS[(number + offset) % len(_BLOCKS)]
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            holder.bind((f"127.{block}.255.254", _BLOCK_PORT))
            holder.listen(1)
        except OSError as error:
            holder.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return holder, block
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
