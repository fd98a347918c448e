"""URLs.

Source: k8s.io/apiserver pkg/cel/library/urls.go.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS", "url_fault"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NO_HOST = re.compile(r"[ \\^`{|}]")


def url_fault(text: str) -> str:
    """Why a text is no address of a request, as Go says it; empty if it is one."""
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
    host = urlsplit(text).netloc.rpartition("@")[2]
    if odd := _NO_HOST.search(host):
        return f"parse {shown}: invalid character {json.dumps(odd[0])} in host name"
    try:
        port = urlsplit(text).port
    except ValueError:
        return f'parse {shown}: invalid port "{host[host.rfind(":") :]}" after host'
    del port
    return ""


def _url(text: str) -> dict[str, Any]:
    if fault := url_fault(text):
        raise ValueError(f"URL parse error during conversion from string: {fault}")
    split = urlsplit(text)
    port = str(split.port) if split.port is not None else ""
    return {
        "@type": "URL",
        "scheme": split.scheme,
        "host": split.netloc.rpartition("@")[2],
        "hostname": split.hostname or "",
        "port": port,
        "path": quote(split.path, safe="/%:@!$&'()*+,;=~-._"),
        "query": parse_qs(split.query, keep_blank_values=True),
    }


def _is_url(text: str) -> bool:
    try:
        _url(text)
    except ValueError:
        return False
    return True


def _part(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda url: url[name]


FUNCTIONS: dict[tuple[str, tuple[str, ...], str], Callable[..., Any]] = {
    ("url", ("string",), "URL"): _url,
    ("isURL", ("string",), "bool"): _is_url,
    (".getScheme", ("URL",), "string"): _part("scheme"),
    (".getHost", ("URL",), "string"): _part("host"),
    (".getHostname", ("URL",), "string"): _part("hostname"),
    (".getPort", ("URL",), "string"): _part("port"),
    (".getEscapedPath", ("URL",), "string"): _part("path"),
    (".getQuery", ("URL",), "map<string,list<string>>"): _part("query"),
}
"""By name, types taken and type given."""
