"""The servers of busybox: what they listen on, and what they answer."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pytest_kwait.simulator.busybox.libbb import UsageError, copy_to_stdout, parse_options
from pytest_kwait.simulator.busybox.os.fds import copy_fds
from pytest_kwait.simulator.busybox.os.files import Directory, File
from pytest_kwait.simulator.busybox.os.syscalls import Listen, Pipe, Process, Read, Sleep, Write

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.syscalls import ProcessContext

__all__ = ["httpd", "netcat"]

_MAX_REQUEST_HEAD = 64 * 1024
_CONTENT_TYPES = {
    "css": "text/css", "gif": "image/gif", "htm": "text/html", "html": "text/html",
    "jpg": "image/jpeg", "js": "application/javascript", "png": "image/png",
    "txt": "text/plain", "xml": "text/xml",
}  # fmt: skip
_ERROR_PAGES = {
    400: ("Bad Request", "Unsupported method"),
    404: ("Not Found", "The requested URL was not found"),
    501: ("Not Implemented", "The requested method is not recognized"),
}
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


def httpd(around: ProcessContext, args: list[str]) -> Process:
    """Serve the files under `-h` on port `-p`; beside the caller without `-f`."""
    try:
        given, _ = parse_options("httpd", args, "ifv", "pchuremd")
        port = int(given.get("p", "80").rpartition(":")[2])
    except (UsageError, ValueError):
        yield Write(2, b"Usage: httpd [-ifv[v]] [-c CONFFILE] [-p [IP:]PORT] [-h HOME]\n")
        return 1
    home = given.get("h", ".").rstrip("/")
    if not isinstance(around.files.find(around.path(home or "/")), Directory):
        text = f"httpd: can't change directory to '{home}': No such file or directory\n"
        yield Write(2, text.encode())
        return 1
    root = around.path(home or "/").rstrip("/")
    listen = Listen(port, around, lambda inner, stdin: _answer_request(inner, root, stdin))
    yield listen
    if listen.error:
        yield Write(2, f"httpd: bind: {listen.error}\n".encode())
        return 1
    if "f" not in given:
        around.tasks.start(
            lambda _: _run_idle(), around, "httpd", copy_fds(around.fds), parent=around.task.pid
        )
        return 0
    return (yield from _run_idle())


def _run_idle() -> Process:
    yield Sleep(math.inf)
    return 0


def _answer_request(around: ProcessContext, home: str, stdin: Pipe) -> Process:
    """Answer one request, as all of them with the connection closed then."""
    head = b""
    while b"\n\r\n" not in head and b"\n\n" not in head:
        read = Read(stdin)
        yield read
        if not read.data or len(head) > _MAX_REQUEST_HEAD:
            return 0
        head += read.data
    method, _, rest = head.partition(b"\n")[0].decode(errors="replace").strip().partition(" ")
    path = unquote(rest.partition(" ")[0].partition("?")[0])
    date = _format_http_date(around.now())
    if method not in _METHODS or not path.startswith("/") or ".." in path.split("/"):
        yield Write(1, _make_error(400, date))
        return 0
    if method not in ("GET", "HEAD"):
        yield Write(1, _make_error(501, date))
        return 0
    name = f"{home}{path}"
    if path.startswith("/cgi-bin/"):
        yield Write(1, _make_error(501, date))
        return 0
    if path.endswith("/"):
        name += "index.html"
    elif isinstance(around.files.find(name), Directory):
        head_text = f"{_make_head(302, 'Found', date, 'text/html')}Location: {path}/\r\n\r\n"
        yield Write(1, head_text.encode())
        return 0
    found = around.files.find(name)
    content = bytes(found.data) if isinstance(found, File) else None
    if content is None:
        yield Write(1, _make_error(404, date))
        return 0
    kind = _CONTENT_TYPES.get(name.rpartition(".")[2], "") if method == "GET" else ""
    yield Write(
        1,
        f"{_make_head(200, 'OK', date, kind)}Accept-Ranges: bytes\r\nLast-Modified: {date}\r\n"
        f"Content-Length: {len(content)}\r\n\r\n".encode(),
    )
    if method == "GET":
        yield Write(1, content)
    return 0


def _format_http_date(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")


def _make_head(code: int, reason: str, date: str, kind: str) -> str:
    lines = [f"HTTP/1.1 {code} {reason}", f"Date: {date}", "Connection: close"]
    if kind:
        lines.append(f"Content-type: {kind}")
    return "\r\n".join(lines) + "\r\n"


def _make_error(code: int, date: str) -> bytes:
    reason, why = _ERROR_PAGES[code]
    return (
        f"{_make_head(code, reason, date, 'text/html')}\r\n"
        f"<HTML><HEAD><TITLE>{code} {reason}</TITLE></HEAD>\n"
        f"<BODY><H1>{code} {reason}</H1>\n{why}\n</BODY></HTML>\n"
    ).encode()


def netcat(around: ProcessContext, args: list[str]) -> Process:
    """`nc -l -p PORT`: one connection, to its own streams or with `-e` to a program.

    With `-ll -e` every connection gets a program of its own. Without `-l` it is the client.
    """
    try:
        args, program = _split_program(args)
        given, rest = parse_options("nc", args, "lvzn", "piwf", "u")
        if "l" not in given and len(rest) == 2 and rest[1].isdigit():
            # Only who connects needs it.
            from pytest_kwait.simulator.busybox.programs.inetutils import netcat_client

            return (yield from netcat_client(around, rest[0], int(rest[1]), given))
        port = int(given.get("p") or (rest[-1] if rest else ""))
    except (UsageError, ValueError):
        given, port, program = {}, 0, []
    if "l" not in given or not port:
        yield Write(2, b"Usage: nc [-iN] [-wN] [-l] [-p PORT] [-f FILE|IPADDR PORT] [-e PROG]\n")
        return 1
    many = len(given["l"]) > 1 and bool(program)
    accepted: list[Pipe] = []
    arrived, left, sent = Pipe(), Pipe(), Pipe()

    def serve(inner: ProcessContext, stdin: Pipe) -> Process:
        if accepted and not many:
            return 1
        accepted.append(stdin)
        arrived.close()
        if program:
            # Programs may be servers: the two modules need each other.
            from pytest_kwait.simulator.busybox.applets import run_program

            code = yield from run_program(inner, program)
        else:
            yield from copy_to_stdout(sent)
            code = 0
        left.close()
        return code

    listen = Listen(port, around, serve)
    yield listen
    if listen.error:
        yield Write(2, f"nc: bind: {listen.error}\n".encode())
        return 1
    if many:
        return (yield from _run_idle())
    if program:
        yield Read(arrived)
        yield Read(left)
        return 0
    # Before anybody connects: what is there to send is sent to who is gone at once as well.
    sender = around.tasks.start(
        lambda _: _copy_to(sent), around, "nc", copy_fds(around.fds), parent=around.task.pid
    )
    yield Read(arrived)
    yield from copy_to_stdout(accepted[0])
    sent.close()
    around.tasks.stop(sender, 0)
    return 0


def _split_program(args: list[str]) -> tuple[list[str], list[str]]:
    """The arguments before `-e`, and the program after it."""
    for index, arg in enumerate(args):
        if arg.startswith("-") and arg.endswith("e") and not arg.startswith("--"):
            before = [arg[:-1]] if len(arg) > 2 else []
            return [*args[:index], *before], args[index + 1 :]
    return args, []


def _copy_to(target: Pipe) -> Process:
    while True:
        read = Read(0)
        yield read
        if not read.data:
            target.close()
            return 0
        target.send(read.data)
