"""One GET of a kubelet over a pod's network: what probes and hooks send, and what Go says of it.

Source: pkg/probe/http/http.go, `DoHTTPProbe`; pkg/probe/http/request.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from pytest_kwait.simulator.kubelet.outcomes import HandlerResult, ResultKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.busybox.os.streams import Session
    from pytest_kwait.simulator.clock import SimClock, Timer
    from pytest_kwait.simulator.kubelet.dialing import Dial

__all__ = ["HttpGet", "HttpTarget"]

_MAX_HEAD = 64 * 1024
_MAX_BODY = 10 * 1024
_MAX_REDIRECTS = 10
# Not a client's greeting of TLS, but what a server that reads lines makes something of.
_TLS_HELLO = b"\x16\x03\x01\r\n\r\n"


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Where a GET goes.

    Args:
        scheme: `http` or `https`.
        host: an address or a name.
        port: the port.
        path: with its query; begins with a slash.
        headers: further ones, a name may come more than once.
    """

    scheme: str
    host: str
    port: int
    path: str = "/"
    headers: tuple[tuple[str, str], ...] = field(default=())

    @property
    def address(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole of it."""
        return f"{self.scheme}://{self.address}{self.path}"

    def request(self, agent: str) -> bytes:
        """Return what is sent."""
        names = {name.lower() for name, _ in self.headers}
        own = [("Host", self.address), ("User-Agent", agent), ("Accept", "*/*")]
        lines = [f"{name}: {value}" for name, value in own if name.lower() not in names]
        lines += [f"{name}: {value}" for name, value in self.headers if value]
        head = "\r\n".join([f"GET {self.path} HTTP/1.1", *lines, "Connection: close"])
        return f"{head}\r\n\r\n".encode()


class HttpGet:
    """A GET under way, which follows redirects within its host.

    Args:
        clock: the cluster's time.
        dial: what connects.
        target: where to.
        agent: the `User-Agent`.
        timeout: real seconds for all of it.
        done: told once how it went.
    """

    def __init__(
        self,
        clock: SimClock,
        dial: Dial,
        target: HttpTarget,
        agent: str,
        timeout: float,
        done: Callable[[HandlerResult], None],
    ) -> None:
        self._clock = clock
        self._dial = dial
        self._target = target
        self._first = target
        self._agent = agent
        self._done: Callable[[HandlerResult], None] | None = done
        self._session: Session | None = None
        self._data = b""
        self._redirects = 0
        self._timer: Timer | None = clock.call_later(timeout, self._too_late, scaled=False)
        self._connect()

    def cancel(self) -> None:
        """Give up; `done` is not called any more."""
        self._done = None
        self._close()

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._session is not None:
            self._session.outlet.on_news = None
            self._session.stop()
            self._session = None

    def _end(self, verdict: ResultKind, text: str = "") -> None:
        done, self._done = self._done, None
        self._close()
        if done is not None:
            # Never within the call that began it.
            self._clock.call_later(0, done, HandlerResult(verdict, text))

    def _fail(self, why: str) -> None:
        self._end(ResultKind.FAILURE, f'Get "{self._target.url}": {why}')

    def _too_late(self) -> None:
        self._timer = None
        self._fail("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")

    def _connect(self) -> None:
        target = self._target
        trouble, self._session = self._dial(target.host, target.port)
        if trouble:
            self._fail(trouble)
            return
        if self._session is None:
            return
        self._data = b""
        if self._session.stdin is not None:
            plain = target.scheme == "http"
            self._session.stdin.send(target.request(self._agent) if plain else _TLS_HELLO)
        self._session.outlet.on_news = self._news
        self._news()

    def _news(self) -> None:
        session = self._session
        if session is None:
            return
        self._data += b"".join(data for _, data in session.outlet.drain())
        over = session.outlet.code is not None
        if self._target.scheme == "https":
            self._secure(over)
            return
        head, found, body = self._data.partition(b"\r\n\r\n")
        if not found:
            head, found, body = self._data.partition(b"\n\n")
        if not found and not over and len(self._data) <= _MAX_HEAD:
            return
        if not self._data:
            self._fail("EOF")
            return
        lines = head.decode("latin-1").splitlines()
        version, _, rest = lines[0].partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/") or not (len(code) == 3 and code.isdigit()):
            self._fail(
                "net/http: HTTP/1.x transport connection broken: "
                f'malformed HTTP response "{lines[0]}"'
            )
            return
        if not found:
            self._fail("unexpected EOF" if over else "server response headers exceeded the limit")
            return
        self._answered(int(code), lines[1:], body)

    def _secure(self, over: bool) -> None:
        if self._data.startswith(b"HTTP/"):
            self._fail("http: server gave HTTP response to HTTPS client")
        elif self._data:
            self._fail("tls: first record does not look like a TLS handshake")
        elif over:
            self._fail("EOF")

    def _answered(self, code: int, headers: list[str], body: bytes) -> None:
        text = body[:_MAX_BODY].decode(errors="replace")
        if code in (301, 302, 303, 307, 308):
            self._redirected(headers, text)
        elif 200 <= code < 400:
            self._end(ResultKind.SUCCESS, text)
        else:
            self._end(ResultKind.FAILURE, f"HTTP probe failed with statuscode: {code}")

    def _redirected(self, headers: list[str], text: str) -> None:
        where = next(
            (
                value.strip()
                for name, _, value in (line.partition(":") for line in headers)
                if name.strip().lower() == "location"
            ),
            "",
        )
        url = urlsplit(urljoin(self._target.url, where))
        if not where or url.hostname != self._first.host:
            self._end(ResultKind.WARNING, f"Probe terminated redirects, Response body: {text}")
            return
        self._redirects += 1
        if self._redirects >= _MAX_REDIRECTS:
            self._fail("stopped after 10 redirects")
            return
        if self._session is not None:
            self._session.outlet.on_news = None
            self._session.stop()
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        port = url.port or (443 if url.scheme == "https" else 80)
        self._target = replace(self._target, scheme=url.scheme, port=port, path=path)
        self._connect()
