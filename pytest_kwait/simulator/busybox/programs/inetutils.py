"""Programs on the network: `wget`, `nslookup`, `nc`, `httpd`, `ip`."""

from __future__ import annotations

import ipaddress
import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from pytest_kwait.simulator.busybox.applets import run_program
from pytest_kwait.simulator.busybox.libbb import (
    NOT_SIMULATED,
    UsageError,
    WorkMeter,
    copy_to_stdout,
    parse_options,
    write_error,
    write_out,
)
from pytest_kwait.simulator.busybox.os.fds import copy_fds
from pytest_kwait.simulator.busybox.os.files import Directory, File, FileSystemError
from pytest_kwait.simulator.busybox.os.network import Connecting
from pytest_kwait.simulator.busybox.os.streams import Pipe
from pytest_kwait.simulator.busybox.os.syscalls import (
    Await,
    Effect,
    Listen,
    Process,
    Read,
    Sleep,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.busybox.os.streams import ProcessSession
    from pytest_kwait.simulator.busybox.os.syscalls import ProcessContext

_MAX_RESPONSE_HEAD = 1 << 16
_MAX_UNREAD = 1 << 20
_MAX_REDIRECTS = 5
# Seconds until the system gives up a connection.
_CONNECT_SECONDS = 127.0
_CONNECT_POLL_SECONDS = 0.01
_LONG_OPTIONS = {"--spider": "s", "--quiet": "q", "--no-check-certificate": "n"}
_LONG_VALUED_OPTIONS = {
    "--timeout": "T", "--output-document": "O", "--header": "h", "--post-data": "p",
    "--tries": "t",
}  # fmt: skip

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

_CHANGES = ("add", "append", "change", "del", "delete", "flush", "replace", "set")


class PipeSink:
    """A sink whose output can be read as a pipe."""

    def __init__(self) -> None:
        self.pipe = Pipe()

    def write(self, stream: int, data: bytes) -> None:
        """Take output of stdout."""
        if stream == 1:
            self.pipe.send(data)

    def must_wait(self, resume: Callable[[], None]) -> bool:
        """Return whether too much output is unread."""
        if len(self.pipe) < _MAX_UNREAD:
            return False
        self.pipe.when_drained(resume)
        return True

    def end(self, code: int) -> None:
        """End the pipe."""
        del code
        self.pipe.close()


class UnreachableError(Exception):
    """A connection failed; `str` is the reason."""


def _get_network(context: ProcessContext) -> Network:
    if context.network is None:
        raise UnreachableError("Network is unreachable")
    return context.network


class _Resolver(NamedTuple):
    """The settings of `/etc/resolv.conf`."""

    servers: list[str]
    search: list[str]
    ndots: int


def _read_resolver(context: ProcessContext) -> _Resolver:
    servers: list[str] = []
    search: list[str] = []
    ndots = 1
    for line in (
        (context.files.read("/etc/resolv.conf") or b"").decode(errors="replace").split("\n")
    ):
        match line.split():
            case ["nameserver", server, *_]:
                servers.append(server)
            case ["search", *domains]:
                search = domains
            case ["options", *options]:
                for option in options:
                    name, _, value = option.partition(":")
                    if name == "ndots" and value.isascii() and value.isdigit():
                        ndots = int(value)
    return _Resolver(servers or ["127.0.0.1"], search, ndots)


def _list_hosts_addresses(context: ProcessContext, host: str) -> list[str]:
    """Return the IPv4 addresses of a host in `/etc/hosts`."""
    addresses = []
    for line in (context.files.read("/etc/hosts") or b"").decode(errors="replace").split("\n"):
        address, *names = line.partition("#")[0].split() or [""]
        if "." in address and host.lower() in [name.lower() for name in names]:
            addresses.append(address)
    return addresses


def _resolve_host(context: ProcessContext, host: str) -> list[str]:
    """Return the addresses of a host: `/etc/hosts` first, then DNS with its search domains."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return [host]
    addresses = _list_hosts_addresses(context, host)
    if addresses:
        return addresses
    resolver = _read_resolver(context)
    names = [host.rstrip(".")]
    if not host.endswith("."):
        searched = [f"{host}.{domain}" for domain in resolver.search]
        names = [*names, *searched] if host.count(".") >= resolver.ndots else [*searched, *names]
    network = _get_network(context)
    for name in names:
        addresses = network.resolve(name, resolver.servers[0])
        if addresses:
            return addresses
    return []


def connect(
    context: ProcessContext, host: str, port: int, seconds: float | None
) -> Generator[Effect, None, tuple[ProcessSession, Pipe, str]]:
    """Connect to a host; return session, input and address.

    Raises:
        UnreachableError: the connection failed.
    """
    network = _get_network(context)
    addresses = _resolve_host(context, host)
    if not addresses:
        raise UnreachableError(f"bad address '{host}'")
    sink = PipeSink()
    session = network.connect_to(addresses[0], port, sink)
    if isinstance(session, Connecting):
        session = yield from _await_connection(
            session, min(seconds or _CONNECT_SECONDS, _CONNECT_SECONDS)
        )
    if isinstance(session, str):
        if session == "Connection timed out":
            limit = min(seconds or _CONNECT_SECONDS, _CONNECT_SECONDS)
            yield Await(lambda: False, seconds=limit)
        raise UnreachableError(f"can't connect to remote host ({addresses[0]}): {session}")
    return session, sink.pipe, addresses[0]


def _await_connection(
    connecting: Connecting, seconds: float
) -> Generator[Effect, None, ProcessSession | str]:
    """Wait for a connection to a real program; return it, or an error text."""
    remaining_seconds = seconds
    try:
        while connecting.result is None and remaining_seconds > 0:
            yield Sleep(_CONNECT_POLL_SECONDS)
            remaining_seconds -= _CONNECT_POLL_SECONDS
    finally:
        if connecting.result is None:
            connecting.cancel()
    return connecting.result or "Operation timed out"


def nslookup(context: ProcessContext, args: list[str]) -> Process:
    """Print the addresses of a name: `-type=A|AAAA`; names without a dot are searched.

    Source: networking/nslookup.c, `add_query_with_search`.
    """
    kinds = ["a", "aaaa"]
    names: list[str] = []
    for arg in args:
        if arg.startswith("-type="):
            kinds = [arg.partition("=")[2].lower()]
        elif not arg.startswith("-"):
            names.append(arg)
    if not names or len(names) > 2:
        raise UsageError("BusyBox: usage: nslookup [-type=QUERY_TYPE] HOST [DNS_SERVER]")
    if kinds[0] not in ("a", "aaaa"):
        raise UsageError(f"nslookup: -type={kinds[0]}: {NOT_SIMULATED}")
    resolver = _read_resolver(context)
    addresses = _resolve_host(context, names[1]) if len(names) > 1 else resolver.servers
    if not addresses:
        raise UsageError(f"nslookup: bad address '{names[1]}'")
    server = addresses[0]
    yield write_out(f"Server:\t\t{server}\nAddress:\t{server}:53\n\n")
    host = names[0].rstrip(".")
    searched = [] if "." in names[0] else [f"{host}.{domain}" for domain in resolver.search]
    code = 0
    for kind in kinds:
        for name in searched or [host]:
            addresses = _get_network(context).resolve(name, server)
            if not addresses:
                code = 1
                yield write_out(f"** server can't find {name}: NXDOMAIN\n")
            elif kind == "a":
                yield write_out(
                    "".join(f"Name:\t{name}\nAddress: {address}\n" for address in addresses)
                )
            yield write_out("\n")
    return code


def netcat_client(
    context: ProcessContext, host: str, port: int, options: dict[str, str]
) -> Process:
    """Connect stdin and stdout to `nc HOST PORT`; `-z`: only connect."""
    seconds = float(options["w"]) if options.get("w", "").isdigit() else None
    try:
        session, received, address = yield from connect(context, host, port, seconds)
    except UnreachableError as fault:
        yield write_error(f"nc: {fault}")
        return 1
    if "v" in options:
        yield write_error(f"{host} ({address}:{port}) open")
    if "z" in options:
        session.stop()
        return 0
    sender = context.tasks.start(
        lambda _: _send_stdin(session),
        context,
        "nc",
        copy_fds(context.fds),
        parent=context.task.pid,
    )
    try:
        while True:
            read = Read(received, seconds=seconds)
            yield read
            if not read.data:
                return 0
            yield Write(1, read.data)
    finally:
        context.tasks.stop(sender, 0)
        session.stop()


def _send_stdin(session: ProcessSession) -> Process:
    while True:
        read = Read(0)
        yield read
        if session.stdin is None:
            return 0
        if not read.data:
            session.stdin.close()
            return 0
        session.stdin.send(read.data)


def _parse_wget_arguments(
    args: list[str],
) -> Generator[Effect, None, tuple[dict[str, str], list[str], list[str]]]:
    """Return the options, headers and URLs of `wget`."""
    options: dict[str, str] = {}
    headers: list[str] = []
    rest: list[str] = []
    words, meter = iter(args), WorkMeter()
    for word in words:
        yield from meter.spend(1)
        name, separator, value = word.partition("=")
        if name in _LONG_OPTIONS:
            options[_LONG_OPTIONS[name]] = "1"
        elif name in _LONG_VALUED_OPTIONS:
            value = value if separator else next(words, "")
            if name == "--header":
                headers.append(value)
            else:
                options[_LONG_VALUED_OPTIONS[name]] = value
        else:
            rest.append(word)
    short, names = yield from parse_options("wget", rest, "qcS", "OTtUoP", "Y")
    return {**options, **short}, headers, names


def wget(context: ProcessContext, args: list[str]) -> Process:
    """Fetch over HTTP: `-q -O FILE -T SECONDS -S --spider --header --post-data`."""
    options, headers, names = yield from _parse_wget_arguments(args)
    if not names:
        raise UsageError("BusyBox: usage: wget [-cqS] [--spider] [-O FILE] [-T SEC] URL...")
    code = 0
    for name in names:
        try:
            code = yield from _fetch(context, name, options, headers, _MAX_REDIRECTS)
        except (UnreachableError, FileSystemError) as fault:
            yield write_error(f"wget: {fault}")
            return 1
    return code


def _fetch(
    context: ProcessContext, name: str, options: dict[str, str], headers: list[str], redirects: int
) -> Process:
    if "://" not in name:
        name = f"http://{name}"
    address = urlsplit(name)
    if address.scheme != "http":
        raise UsageError(f"wget: {address.scheme}: {NOT_SIMULATED}")
    host = address.hostname or ""
    try:
        port = address.port or 80
    except ValueError:
        raise UnreachableError(f"bad port in '{name}'") from None
    try:
        seconds = float(options.get("T", "900"))
    except ValueError:
        raise UsageError(f"wget: invalid number '{options['T']}'") from None
    quiet = "q" in options
    addresses = _resolve_host(context, host)
    if not quiet:
        host_text = host if address.port is None else f"{host}:{port}"
        if addresses:
            yield write_error(f"Connecting to {host_text} ({addresses[0]}:{port})")
    session, received, _ = yield from connect(context, host, port, seconds)
    try:
        body = options.get("p", "")
        path = (address.path or "/") + (f"?{address.query}" if address.query else "")
        lines = [
            f"{'POST' if 'p' in options else 'GET'} {path} HTTP/1.1",
            f"Host: {host}{'' if port == 80 else f':{port}'}",
            f"User-Agent: {options.get('U', 'Wget')}", "Connection: close", *headers,
        ]  # fmt: skip
        if "p" in options:
            lines.append(f"Content-Length: {len(body.encode())}")
            lines.append("Content-Type: application/x-www-form-urlencoded")
        if session.stdin is not None:
            session.stdin.send("\r\n".join([*lines, "", body]).encode(errors="surrogateescape"))
        head, rest = yield from _read_head(received, seconds)
        status, *fields = head.split("\r\n")
        if "S" in options:
            yield write_error("\n".join(f"  {line}" for line in (status, *fields)))
        match = re.match(r"HTTP/\S+ (\d{3})", status)
        if match is None:
            raise UnreachableError("error getting response")
        location = next((f[9:].strip() for f in fields if f.lower().startswith("location:")), "")
        if match[1] in ("301", "302", "303", "307", "308") and location and redirects:
            target = location if "://" in location else f"http://{address.netloc}{location}"
            return (yield from _fetch(context, target, options, headers, redirects - 1))
        if match[1][0] != "2":
            raise UnreachableError(f"server returned error: {status}")
        if "s" in options:
            if not quiet:
                yield write_error("remote file exists")
            return 0
        chunked = any(re.fullmatch(r"transfer-encoding:\s*chunked", f, re.I) for f in fields)
        yield from _save_body(
            context, options, address.path, rest, received, seconds, chunked=chunked
        )
    finally:
        session.stop()
    return 0


def _read_head(received: Pipe, seconds: float) -> Generator[Effect, None, tuple[str, bytes]]:
    data = b""
    while b"\r\n\r\n" not in data:
        read = Read(received, seconds=seconds)
        yield read
        if read.late:
            raise UnreachableError("download timed out")
        if not read.data or len(data) > _MAX_RESPONSE_HEAD:
            raise UnreachableError("error getting response")
        data += read.data
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.decode(errors="replace"), rest


def _save_body(
    context: ProcessContext, options: dict[str, str], path: str, rest: bytes, received: Pipe,
    seconds: float, *, chunked: bool,
) -> Generator[Effect, None, None]:  # fmt: skip
    target = options.get("O") or path.rstrip("/").rpartition("/")[2] or "index.html"
    quiet = "q" in options
    target_text = "stdout" if target == "-" else f"'{target}'"
    if not quiet:
        yield write_error("writing to stdout" if target == "-" else f"saving to {target_text}")
    with context.tasks.account.hold() as hold:
        buffer = bytearray(rest)
        streams = target == "-" and not chunked
        while True:
            if streams and buffer:
                yield Write(1, bytes(buffer))
                buffer.clear()
            read = Read(received, seconds=seconds)
            yield read
            if read.late:
                raise UnreachableError("download timed out")
            if not read.data:
                break
            buffer += read.data
            hold.resize(len(buffer))
        data = _join_chunks(bytes(buffer)) if chunked else bytes(buffer)
        if target == "-":
            if data:
                yield Write(1, data)
        else:
            context.files.write(context.resolve_path(target), data)
    if not quiet:
        name = "-" if target == "-" else target
        yield write_error(f"{name[:20]:<20} 100% |{'*' * 32}| {len(data):5d}  0:00:00 ETA")
        yield write_error("written to stdout" if target == "-" else f"{target_text} saved")


def _join_chunks(data: bytes) -> bytes:
    """Decode a chunked body."""
    pieces: list[bytes] = []
    while data:
        size, _, data = data.partition(b"\r\n")
        try:
            length = int(size.split(b";")[0], 16)
        except ValueError:
            break
        if not length:
            break
        pieces.append(data[:length])
        data = data[length + 2 :]
    return b"".join(pieces)


def httpd(context: ProcessContext, args: list[str]) -> Process:
    """Serve the files under `-h` on port `-p`; in the background without `-f`."""
    try:
        options, _ = yield from parse_options("httpd", args, "ifv", "pchuremd")
        port = int(options.get("p", "80").rpartition(":")[2])
    except (UsageError, ValueError):
        yield Write(2, b"Usage: httpd [-ifv[v]] [-c CONFFILE] [-p [IP:]PORT] [-h HOME]\n")
        return 1
    home = options.get("h", ".").rstrip("/")
    if not isinstance(context.files.find(context.resolve_path(home or "/")), Directory):
        text = f"httpd: can't change directory to '{home}': No such file or directory\n"
        yield Write(2, text.encode())
        return 1
    root = context.resolve_path(home or "/").rstrip("/")
    listen = Listen(port, context, lambda inner, stdin: _answer_request(inner, root, stdin))
    yield listen
    if listen.error:
        yield Write(2, f"httpd: bind: {listen.error}\n".encode())
        return 1
    if "f" not in options:
        context.tasks.start(
            lambda _: _run_idle(), context, "httpd", copy_fds(context.fds), parent=context.task.pid
        )
        return 0
    return (yield from _run_idle())


def _run_idle() -> Process:
    yield Sleep(math.inf)
    return 0


def _answer_request(context: ProcessContext, home: str, stdin: Pipe) -> Process:
    """Answer one request and close the connection."""
    head = b""
    while b"\n\r\n" not in head and b"\n\n" not in head:
        read = Read(stdin)
        yield read
        if not read.data or len(head) > _MAX_REQUEST_HEAD:
            return 0
        head += read.data
    method, _, rest = head.partition(b"\n")[0].decode(errors="replace").strip().partition(" ")
    path = unquote(rest.partition(" ")[0].partition("?")[0])
    date = _format_http_date(context.now())
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
    elif isinstance(context.files.find(name), Directory):
        head_text = f"{_make_head(302, 'Found', date, 'text/html')}Location: {path}/\r\n\r\n"
        yield Write(1, head_text.encode())
        return 0
    node = context.files.find(name)
    content = bytes(node.data) if isinstance(node, File) else None
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


def netcat(context: ProcessContext, args: list[str]) -> Process:
    """`nc -l -p PORT`: serve one connection with its own streams, or with the program of `-e`.

    `-ll -e` serves every connection. Without `-l` it is the client.
    """
    try:
        args, program = _split_program(args)
        options, rest = yield from parse_options("nc", args, "lvzn", "piwf", "u")
        if "l" not in options and len(rest) == 2 and rest[1].isdigit():
            return (yield from netcat_client(context, rest[0], int(rest[1]), options))
        port = int(options.get("p") or (rest[-1] if rest else ""))
    except (UsageError, ValueError):
        options, port, program = {}, 0, []
    if "l" not in options or not port:
        yield Write(2, b"Usage: nc [-iN] [-wN] [-l] [-p PORT] [-f FILE|IPADDR PORT] [-e PROG]\n")
        return 1
    many = len(options["l"]) > 1 and bool(program)
    accepted: list[Pipe] = []
    received, end_signal, sent = Pipe(), Pipe(), Pipe()

    def serve(inner: ProcessContext, stdin: Pipe) -> Process:
        if accepted and not many:
            return 1
        accepted.append(stdin)
        received.close()
        if program:
            code = yield from run_program(inner, program)
        else:
            yield from copy_to_stdout(sent)
            code = 0
        end_signal.close()
        return code

    listen = Listen(port, context, serve)
    yield listen
    if listen.error:
        yield Write(2, f"nc: bind: {listen.error}\n".encode())
        return 1
    if many:
        return (yield from _run_idle())
    if program:
        yield Read(received)
        yield Read(end_signal)
        return 0
    # Read stdin before a client connects, so that a short-lived client gets it too.
    sender = context.tasks.start(
        lambda _: _copy_to(sent), context, "nc", copy_fds(context.fds), parent=context.task.pid
    )
    yield Read(received)
    yield from copy_to_stdout(accepted[0])
    sent.close()
    context.tasks.stop(sender, 0)
    return 0


def _split_program(args: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before `-e`, and the program after it."""
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


def ip(context: ProcessContext, args: list[str]) -> Process:
    """Refuse to change the network, as the kernel does without the right to."""
    words = [arg for arg in args if not arg.startswith("-")]
    if len(words) < 2 or words[1] not in _CHANGES or context.user.is_privileged:
        raise UsageError(f"ip: {NOT_SIMULATED}")
    yield write_error("ip: RTNETLINK answers: Operation not permitted")
    return 2
