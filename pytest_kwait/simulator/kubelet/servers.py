"""The servers of busybox: what they listen on, and what they answer."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pytest_kwait.simulator.kubelet.inputs import copy
from pytest_kwait.simulator.kubelet.processes import Job, Listen, Pause, Pipe, Process, Read, Write

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.kubelet.processes import Surroundings

__all__ = ["httpd", "netcat"]

_MOST_HEAD = 64 * 1024
_TYPES = {
    "css": "text/css", "gif": "image/gif", "htm": "text/html", "html": "text/html",
    "jpg": "image/jpeg", "js": "application/javascript", "png": "image/png",
    "txt": "text/plain", "xml": "text/xml",
}  # fmt: skip
_FAULTS = {
    400: ("Bad Request", "Unsupported method"),
    404: ("Not Found", "The requested URL was not found"),
    501: ("Not Implemented", "The requested method is not recognized"),
}
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


class _Usage(Exception):
    """Arguments that the program does not take."""


def _options(args: list[str], valued: str, plain: str) -> tuple[dict[str, str], list[str]]:
    """The options of a command line, those in `valued` with their values, and what follows.

    Raises:
        _Usage: one is unknown, or lacks its value.
    """
    found: dict[str, str] = {}
    rest = list(args)
    while rest and rest[0][:1] == "-" and len(rest[0]) > 1:
        letters = rest.pop(0)[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in valued:
                if not letters and not rest:
                    raise _Usage
                found[letter] = letters or rest.pop(0)
                if letter == "e":
                    return found, rest
                break
            if letter not in plain:
                raise _Usage
            found[letter] = found.get(letter, "") + letter
    return found, rest


def httpd(around: Surroundings, args: list[str]) -> Process:
    """Serve the files under `-h` on port `-p`; beside the caller without `-f`."""
    try:
        options, _ = _options(args, "pchuremd", "ifv")
        port = int(options.get("p", "80").rpartition(":")[2])
    except (_Usage, ValueError):
        yield Write(2, b"Usage: httpd [-ifv[v]] [-c CONFFILE] [-p [IP:]PORT] [-h HOME]\n")
        return 1
    home = options.get("h", ".").rstrip("/")
    if home not in ("", ".") and not any(path.startswith(f"{home}/") for path in around.files):
        text = f"httpd: can't change directory to '{home}': No such file or directory\n"
        yield Write(2, text.encode())
        return 1
    listen = Listen(port, lambda stdin: _answer(around, home, stdin))
    yield listen
    if listen.error:
        yield Write(2, f"httpd: bind: {listen.error}\n".encode())
        return 1
    if "f" not in options:
        yield Job(_idle())
        return 0
    return (yield from _idle())


def _idle() -> Process:
    yield Pause(math.inf)
    return 0


def _answer(around: Surroundings, home: str, stdin: Pipe) -> Process:
    """Answer one request, as all of them with the connection closed then."""
    head = b""
    while b"\n\r\n" not in head and b"\n\n" not in head:
        read = Read(stdin)
        yield read
        if not read.data or len(head) > _MOST_HEAD:
            return 0
        head += read.data
    method, _, rest = head.partition(b"\n")[0].decode(errors="replace").strip().partition(" ")
    path = unquote(rest.partition(" ")[0].partition("?")[0])
    date = _http_date(around.now())
    if method not in _METHODS or not path.startswith("/") or ".." in path.split("/"):
        yield Write(1, _fault(400, date))
        return 0
    if method not in ("GET", "HEAD"):
        yield Write(1, _fault(501, date))
        return 0
    where = "" if home == "." else home
    name = f"{where}{path}"
    if path.endswith("/"):
        name += "index.html"
    elif any(file.startswith(f"{name}/") for file in around.files):
        head_text = f"{_start(302, 'Found', date, 'text/html')}Location: {path}/\r\n\r\n"
        yield Write(1, head_text.encode())
        return 0
    content = around.files.get(name, around.files.get(name[1:]) if home == "." else None)
    if content is None:
        yield Write(1, _fault(404, date))
        return 0
    kind = _TYPES.get(name.rpartition(".")[2], "") if method == "GET" else ""
    yield Write(
        1,
        f"{_start(200, 'OK', date, kind)}Accept-Ranges: bytes\r\nLast-Modified: {date}\r\n"
        f"Content-Length: {len(content)}\r\n\r\n".encode(),
    )
    if method == "GET":
        yield Write(1, content)
    return 0


def _http_date(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")


def _start(code: int, reason: str, date: str, kind: str) -> str:
    lines = [f"HTTP/1.1 {code} {reason}", f"Date: {date}", "Connection: close"]
    if kind:
        lines.append(f"Content-type: {kind}")
    return "\r\n".join(lines) + "\r\n"


def _fault(code: int, date: str) -> bytes:
    reason, why = _FAULTS[code]
    return (
        f"{_start(code, reason, date, 'text/html')}\r\n"
        f"<HTML><HEAD><TITLE>{code} {reason}</TITLE></HEAD>\n"
        f"<BODY><H1>{code} {reason}</H1>\n{why}\n</BODY></HTML>\n"
    ).encode()


def netcat(
    around: Surroundings, args: list[str], run: Callable[[Surroundings, list[str]], Process]
) -> Process:
    """`nc -l -p PORT`: one connection, to its own streams or with `-e` to a program.

    With `-ll -e` every connection gets a program of its own. Nothing connects outwards.
    """
    try:
        options, rest = _options(args, "peiwf", "l")
        port = int(options.get("p", ""))
    except (_Usage, ValueError):
        options, rest, port = {}, [], 0
    if "l" not in options or not port:
        yield Write(2, b"Usage: nc [-iN] [-wN] [-l] [-p PORT] [-f FILE|IPADDR PORT] [-e PROG]\n")
        return 1
    program = [options["e"], *rest] if "e" in options else []
    many = len(options["l"]) > 1 and bool(program)
    accepted: list[Pipe] = []
    arrived, left, sent = Pipe(), Pipe(), Pipe()

    def serve(stdin: Pipe) -> Process:
        if accepted and not many:
            return 1
        accepted.append(stdin)
        arrived.close()
        if program:
            code = yield from run(around.inner(stdin), program)
        else:
            yield from copy(sent)
            code = 0
        left.close()
        return code

    listen = Listen(port, serve)
    yield listen
    if listen.error:
        yield Write(2, f"nc: bind: {listen.error}\n".encode())
        return 1
    if many:
        return (yield from _idle())
    yield Read(arrived)
    if program:
        yield Read(left)
        return 0
    own = around.stdin
    if isinstance(own, Pipe):
        yield Job(_carry(own, sent))
    else:
        sent.send(own)
    yield from copy(accepted[0])
    sent.close()
    return 0


def _carry(source: Pipe, target: Pipe) -> Process:
    while True:
        read = Read(source)
        yield read
        if not read.data:
            return 0
        target.send(read.data)
