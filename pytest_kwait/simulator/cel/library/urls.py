"""CEL functions of URLs.

Source: k8s.io/apiserver pkg/cel/library/urls.go.
"""

from __future__ import annotations

import json
import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

from pytest_kwait.simulator.cel.values import OpaqueValue

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS", "find_url_error"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_AUTHORITY_PART = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//([^/?#]*)")
_PORT = re.compile(r"(:[0-9]*)?")
_WITH_PORT = re.compile(r":[0-9]*$")
_INVALID_HOST_CHARACTERS = re.compile(r"[ \\^`{|}]")


def find_url_error(text: str) -> str:
    """Return Go's message about a text that is no request URL; empty if it is one."""
    shown = json.dumps(text, ensure_ascii=False)
    if not text:
        return 'parse "": empty url'
    if any(ord(sign) < 32 or ord(sign) == 127 for sign in text):
        return f"parse {shown}: net/url: invalid control character in URL"
    scheme = _SCHEME.match(text)
    if text.startswith(":"):
        return f"parse {shown}: missing protocol scheme"
    if scheme is None and not text.startswith("/"):
        return f"parse {shown}: invalid URI for request"
    fault = _find_host_error(_get_host(text))
    return f"parse {shown}: {fault}" if fault else ""


def _get_host(text: str) -> str:
    """Return host and port as written."""
    found = _AUTHORITY_PART.match(text)
    return found[1].rpartition("@")[2] if found else ""


def _find_host_error(host: str) -> str:
    name, bracket, rest = host.rpartition("]")
    if host.startswith("["):
        if not bracket:
            return "missing ']' in host"
        name = name[1:]
    else:
        name, colon, port = host.rpartition(":")
        name, rest = (name, colon + port) if colon else (host, "")
    if not _PORT.fullmatch(rest):
        return f'invalid port "{rest}" after host'
    if odd := _INVALID_HOST_CHARACTERS.search(name):
        return f"invalid character {json.dumps(odd[0])} in host name"
    if bracket and host.startswith("["):
        try:
            ip_address(name)
        except ValueError:
            return f'invalid host: ParseAddr("{name}"): unable to parse IP'
    return ""


def _parse_url(text: str) -> OpaqueValue:
    if fault := find_url_error(text):
        raise ValueError(f"URL parse error during conversion from string: {fault}")
    host = _get_host(text)
    # Malformed hosts in brackets were rejected above.
    split = urlsplit(text.replace(f"//{host}", "//host", 1) if host else text)
    name, _, port = host.rpartition(":") if _WITH_PORT.search(host) else (host, "", "")
    return OpaqueValue(
        "URL",
        scheme=split.scheme,
        host=host,
        hostname=name.strip("[]"),
        port=port,
        path=quote(split.path, safe="/%:@!$&'()*+,;=~-._"),
        query=parse_qs(split.query, keep_blank_values=True),
    )


def _is_url(text: str) -> bool:
    try:
        _parse_url(text)
    except ValueError:
        return False
    return True


def _make_getter(name: str) -> Callable[[OpaqueValue], Any]:
    return lambda url: url[name]


FUNCTIONS: dict[tuple[str, tuple[str, ...], str], Callable[..., Any]] = {
    ("url", ("string",), "URL"): _parse_url,
    ("isURL", ("string",), "bool"): _is_url,
    (".getScheme", ("URL",), "string"): _make_getter("scheme"),
    (".getHost", ("URL",), "string"): _make_getter("host"),
    (".getHostname", ("URL",), "string"): _make_getter("hostname"),
    (".getPort", ("URL",), "string"): _make_getter("port"),
    (".getEscapedPath", ("URL",), "string"): _make_getter("path"),
    (".getQuery", ("URL",), "map<string,list<string>>"): _make_getter("query"),
}
"""The implementations by name, argument types and result type."""
