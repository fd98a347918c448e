"""Program of a container: evaluates expressions with calls, and prints the answer to each.

An answer is a value, or the name of an errno. The functions and constants here are those that the
expressions may use, besides Python's modules.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import errno
import os
import platform
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_NUMBERS = {
    "x86_64": {
        "openat2": 437,
        "renameat2": 316,
        "execveat": 322,
        "name_to_handle_at": 303,
        "inotify_init1": 294,
        "inotify_add_watch": 254,
        "fanotify_init": 300,
        "fchmodat2": 452,
        "faccessat2": 439,
        "linkat": 265,
        "unlinkat": 263,
        "newfstatat": 262,
        "utimensat": 280,
        "readlinkat": 267,
        "getdents64": 217,
        "chroot": 161,
        "mknodat": 259,
        "truncate": 76,
    },
    "aarch64": {
        "openat2": 437,
        "renameat2": 276,
        "execveat": 281,
        "name_to_handle_at": 264,
        "inotify_init1": 26,
        "inotify_add_watch": 27,
        "fanotify_init": 262,
        "fchmodat2": 452,
        "faccessat2": 439,
        "linkat": 37,
        "unlinkat": 35,
        "newfstatat": 79,
        "utimensat": 88,
        "readlinkat": 78,
        "getdents64": 61,
        "chroot": 51,
        "mknodat": 33,
        "truncate": 45,
    },
}[platform.machine()]
AT_FDCWD = -100
EMPTY_PATH, NOFOLLOW, SYMLINK_FOLLOW, REMOVEDIR = 0x1000, 0x100, 0x400, 0x200
NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH, IN_ROOT, CACHED = 1, 2, 4, 8, 0x10, 0x20
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def call(name: str, *arguments: object) -> int:
    """Make a system call."""
    values = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(_libc.syscall(ctypes.c_long(_NUMBERS[name]), *values))
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def answer_all(statements: Iterable[ast.stmt], scope: dict[str, Any]) -> None:
    """Execute statements, and print the answer to each that is an expression."""
    for statement in statements:
        text = ast.unparse(statement)
        if isinstance(statement, ast.For):
            for value in eval(ast.unparse(statement.iter), scope):
                scope[ast.unparse(statement.target)] = value
                print(f"-- {value if len(str(value)) < 100 else len(value)}")
                answer_all(statement.body, scope)
        elif isinstance(statement, ast.Expr):
            print(f"{text}: {find_answer(text, scope)}", flush=True)
        else:
            exec(text, scope)


def find_answer(text: str, scope: dict[str, Any]) -> object:
    """Return the value of an expression, or the name of its error."""
    try:
        return eval(text, scope)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    except Exception as error:
        return type(error).__name__


def read(path: str) -> str:
    return Path(path).read_text()


def write(path: str, text: str = "x") -> str:
    Path(path).write_text(text)
    return "written"


def run(script: str) -> str:
    """Run a script of the shell; returns its exit code and output."""
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)
    return f"{done.returncode} {' '.join(done.stdout.split())}"


def open_close(path: str | bytes, flags: int, mode: int = 0o644, **options: int) -> str:
    os.close(os.open(path, flags, mode, **options))
    return "opened"


def open2(folder: str, path: str, resolve: int, flags: int = os.O_RDONLY, size: int = 24) -> str:
    """Open a file below a folder."""
    dirfd = os.open(folder, os.O_RDONLY)
    try:
        how = struct.pack("=QQQ", flags, 0o600 if flags & os.O_CREAT else 0, resolve)
        fd = call("openat2", dirfd, path.encode(), how.ljust(size, b"\0"), size)
        try:
            status = os.fstat(fd)
            return "folder" if stat.S_ISDIR(status.st_mode) else os.read(fd, 10).decode()
        finally:
            os.close(fd)
    finally:
        os.close(dirfd)


def rename2(old: str, new: str, flags: int) -> str:
    call("renameat2", AT_FDCWD, old.encode(), AT_FDCWD, new.encode(), flags)
    return "renamed"


def execute_at(dirfd: int, path: bytes, flags: int, *arguments: str) -> str:
    """Execute a program in a child; returns its output."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(writing, 1)
        argv = (ctypes.c_char_p * (len(arguments) + 1))(
            *(each.encode() for each in arguments), None
        )
        env = (ctypes.c_char_p * 1)(None)
        try:
            call("execveat", dirfd, path, argv, env, flags)
        except OSError as error:
            os.write(1, errno.errorcode[error.errno or 0].encode())
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as output:
        text = output.read()
    os.waitpid(pid, 0)
    return text.strip()


def list_all(path: str, buffer_bytes: int) -> str:
    """List a folder by buffers of a size; returns how many names it has, and how many buffers."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    buffer = ctypes.create_string_buffer(buffer_bytes)
    names, calls = [], 0
    while size := call("getdents64", fd, buffer, buffer_bytes):
        calls += 1
        place = 0
        while place < size:
            (length,) = struct.unpack_from("=H", buffer, place + 16)
            names.append(buffer.raw[place + 19 : place + length].split(b"\0")[0])
            place += length
    os.close(fd)
    return f"{len(names)} {len(set(names))} {calls > 1}"


def watch(path: str, change: Callable[[], object]) -> str:
    """Return the names of the events that a change in a folder or file makes."""
    fd = call("inotify_init1", os.O_NONBLOCK)
    call("inotify_add_watch", fd, path.encode(), 0x100 | 0x200 | 0x2 | 0x40 | 0x80)
    change()
    events = []
    with contextlib.suppress(BlockingIOError):
        data = os.read(fd, 10_000)
        place = 0
        while place < len(data):
            _, mask, _, length = struct.unpack_from("=iIII", data, place)
            name = data[place + 16 : place + 16 + length].rstrip(b"\0").decode()
            events.append(f"{mask:x}:{name}")
            place += 16 + length
    os.close(fd)
    return " ".join(sorted(set(events)))


def ignore(function: Callable[[], object]) -> None:
    """Make a call that may be refused."""
    with contextlib.suppress(OSError):
        function()


def make_path(folder: str, name: str, length: int) -> str:
    """Return a path of a file in a folder with this many bytes."""
    free = length - len(folder) - len(name)
    return folder + "/" * (free % 2) + "./" * (free // 2) + name


if __name__ == "__main__":
    answer_all(ast.parse(sys.argv[1]).body, globals())
