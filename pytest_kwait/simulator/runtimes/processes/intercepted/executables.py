"""Files of programs: the interpreter of a script, and the loader of a dynamic program.

The kernel looks for both itself, by the machine's paths.

Source: fs/binfmt_script.c; fs/binfmt_elf.c; man 5 elf; man 8 ld.so.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

# Source: include/uapi/linux/binfmts.h, `BINPRM_BUF_SIZE`.
_SCRIPT_LINE_BYTES = 256
_HEAD_BYTES = 4096
_MAX_LOADER_BYTES = 64 << 20
_ELF_OF_64_BITS = b"\x7fELF\x02\x01"
# Of the header: place of the program headers, their length and their number.
_ELF_HEADER = struct.Struct("<32xQ14xHH")
# Of a program header: type, place in the file, length in it.
_PROGRAM_HEADER = struct.Struct("<I4xQ16xQ16x")
_PT_INTERP = 3


class Executable(NamedTuple):
    """What a program needs to be started.

    Args:
        line: interpreter and argument of a script, with a space between them; None for others.
        loader: path of the loader of a dynamic program; None for others.
    """

    line: bytes | None = None
    loader: bytes | None = None


def read_executable(path: bytes) -> Executable:
    """Return what a program needs; nothing if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return Executable()
    try:
        head = os.read(fd, _HEAD_BYTES)
        if head.startswith(b"#!"):
            return Executable(line=_parse_line(head[2:_SCRIPT_LINE_BYTES]))
        if head.startswith(_ELF_OF_64_BITS):
            return Executable(loader=_read_loader(fd, head))
    except (OSError, struct.error):
        pass  # which the kernel refuses
    finally:
        os.close(fd)
    return Executable()


def _parse_line(text: bytes) -> bytes | None:
    parts = text.split(b"\n", 1)[0].strip(b" \t").split(None, 1)
    return b" ".join(part.strip(b" \t") for part in parts) or None


def _read_loader(fd: int, head: bytes) -> bytes | None:
    start, size, number = _ELF_HEADER.unpack_from(head)
    for place in range(start, start + size * number, size or 1):
        kind, offset, length = _PROGRAM_HEADER.unpack_from(head, place)
        if kind == _PT_INTERP:
            return os.pread(fd, min(length, _HEAD_BYTES), offset).split(b"\0", 1)[0]
    return None


def takes_first_argument(loader: bytes) -> bool:
    """Return whether a loader has an option for the first argument: glibc from 2.33, and musl."""
    try:
        with open(loader, "rb") as file:
            return b"--argv0" in file.read(_MAX_LOADER_BYTES)
    except OSError:
        return False
