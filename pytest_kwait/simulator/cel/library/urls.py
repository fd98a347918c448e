"""URLs.

Source: k8s.io/apiserver pkg/cel/library/urls.go.
"""

from __future__ import annotations

import json
import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote

from pytest_kwait.apimachinery.go_values import quote_go
from pytest_kwait.simulator.cel.values import OpaqueValue, is_valid_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cel.library.overloads import Overloads

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PORT = re.compile(r"(:[0-9]*)?")
_WITH_PORT = re.compile(r":[0-9]*$")
_INVALID_USER_CHARACTERS = re.compile(r"[^A-Za-z0-9\-._:~!$&'()*+,;=%@]")
_INVALID_HOST_CHARACTERS = re.compile(r"[ #/?@\\^`{|}]")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})(.{0,2})", re.DOTALL)
_HOST_ESCAPE = re.compile(r"%(?!25|[89A-Fa-f][0-9A-Fa-f])(.{0,2})", re.DOTALL)
_ESCAPED_PATH = re.compile(r"[A-Za-z0-9\-_.~/!$&'()*+,;=:@\[\]%]*")


class _URL(NamedTuple):
    """The parts of a request URL; path and query as they are written."""

    scheme: str
    host: str
    path: str
    query: str


def find_url_error(text: str) -> str:
    """Return Go's message about a text that is no request URL; empty if it is one."""
    try:
        _split_url(text)
    except ValueError as error:
        return f"parse {quote_go(text)}: {error}"
    return ""


def _split_url(text: str) -> _URL:
    """Split a request URL, in which `#` has no meaning.

    Source: Go's net/url, funcs ParseRequestURI, parseAuthority and unescape.

    Raises:
        ValueError: with Go's message, the text is no request URL.
    """
    if any(ord(sign) < 32 or ord(sign) == 127 for sign in text):
        raise ValueError("net/url: invalid control character in URL")
    if not text:
        raise ValueError("empty url")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    rest, _, query = text[match.end() if match else 0 :].partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise ValueError("invalid URI for request")
        return _URL(scheme, "", "", query)
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, _, host = authority.rpartition("@")
        host = _read_host(host)
        if _INVALID_USER_CHARACTERS.search(user):
            raise ValueError("net/url: invalid userinfo")
        _check_escapes(user, _ESCAPE)
    _check_escapes(rest, _ESCAPE)
    return _URL(scheme, host, rest, query)


def _check_escapes(text: str, wrong: re.Pattern[str]) -> None:
    if invalid_escape := wrong.search(text):
        raise ValueError(f"invalid URL escape {json.dumps(invalid_escape[0], ensure_ascii=False)}")


def _read_host(host: str) -> str:
    name, bracket, rest = host.rpartition("]")
    if host.startswith("["):
        if not bracket:
            raise ValueError("missing ']' in host")
        name = name[1:]
    else:
        name, colon, port = host.partition(":")
        rest = colon + port
    if not _PORT.fullmatch(rest):
        raise ValueError(f'invalid port "{rest}" after host')
    _check_escapes(name, _HOST_ESCAPE)
    if odd := _INVALID_HOST_CHARACTERS.search(name):
        raise ValueError(f"invalid character {json.dumps(odd[0])} in host name")
    if bracket and host.startswith("["):
        try:
            ip_address(name)
        except ValueError:
            raise ValueError(f'invalid host: ParseAddr("{name}"): unable to parse IP') from None
    return unquote(host)


def _escape_path(path: str) -> str:
    """Return a path as it is written if that is a valid encoding, else encoded anew."""
    return path if _ESCAPED_PATH.fullmatch(path) else quote(unquote(path), safe="$&+,/:;=@-_.~")


def _parse_url(text: str) -> OpaqueValue:
    if fault := find_url_error(text):
        raise ValueError(f"URL parse error during conversion from string: {fault}")
    # Only here does Go know fragments.
    url = _split_url(text.partition("#")[0])
    pairs = [pair for pair in url.query.split("&") if ";" not in pair and not _ESCAPE.search(pair)]
    host = url.host
    name, _, port = host.rpartition(":") if _WITH_PORT.search(host) else (host, "", "")
    return OpaqueValue(
        "URL",
        scheme=url.scheme,
        host=host,
        hostname=name.strip("[]"),
        port=port,
        path=_escape_path(url.path),
        query=parse_qs("&".join(pairs), keep_blank_values=True),
    )


def _make_getter(name: str) -> Callable[[OpaqueValue], Any]:
    return lambda url: url[name]


URL_FUNCTIONS: Overloads = {
    ("url", ("string",), "URL"): _parse_url,
    ("isURL", ("string",), "bool"): is_valid_for(_parse_url),
    (".getScheme", ("URL",), "string"): _make_getter("scheme"),
    (".getHost", ("URL",), "string"): _make_getter("host"),
    (".getHostname", ("URL",), "string"): _make_getter("hostname"),
    (".getPort", ("URL",), "string"): _make_getter("port"),
    (".getEscapedPath", ("URL",), "string"): _make_getter("path"),
    (".getQuery", ("URL",), "map<string,list<string>>"): _make_getter("query"),
}
