"""URLs.

Source: k8s.io/apiserver pkg/cel/library/urls.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS"]


def _url(text: str) -> dict[str, Any]:
    try:
        split = urlsplit(text)
        port = str(split.port) if split.port is not None else ""
    except ValueError as error:
        raise ValueError(f"URL parse error during conversion from string: {error}") from None
    if not text or any(ord(sign) < 32 or ord(sign) == 127 for sign in text):
        raise ValueError(f'URL parse error during conversion from string: parse "{text}": invalid')
    if not split.scheme and not text.startswith("/"):
        raise ValueError(
            f'URL parse error during conversion from string: parse "{text}": '
            "invalid URI for request"
        )
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
