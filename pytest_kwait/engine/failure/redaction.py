"""Redaction: hide credentials, tokens and the data of Secrets in shown texts.

The package itself shows nothing read from Secrets, but logs, events, webhook messages and errors
may contain them. Secrets of a known form are hidden, and so are the credentials of the run itself,
wherever they occur.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["HIDDEN", "make_redactor", "redact_object"]

HIDDEN = "(hidden)"

_KEYS = (
    r"(?:[\w-]*(?:token|password|passwd|secret[_-]?key|api[_-]?key|client-key-data|private[_-]?key)"
    r"|(?:[\w-]*-)?pwd)"
)
# The start of a word with all its dashes, so that the search does not start within one.
_START = r"(?<![\w-])"

_FORMS = tuple(
    (re.compile(pattern, flags), rf"{kept}{HIDDEN}")
    for pattern, kept, flags in (
        # A private key; a truncated one extends to the end of the text.
        (
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            "",
            re.DOTALL,
        ),
        # Authorization: Bearer abc, as a header, in JSON, or as a debugging proxy prints it.
        (
            r"(authorization[\"']?\s*[:=]\s*[\[\"']*(?:basic|bearer|digest|negotiate|token)\s+)"
            r"[^\s\"',\]]+",
            r"\1",
            re.IGNORECASE,
        ),
        # A bearer token. An ordinary word in its place is short and has no digit.
        (r"(\bbearer\s+)(?=\S*\d|\S{24})[\w.~+/=-]{8,}", r"\1", re.IGNORECASE),
        (r"\beyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?", "", 0),
        (r"((?:set-)?cookie[\"']?\s*:\s*[\"']?)[^\"'\n]+", r"\1", re.IGNORECASE),
        # token=abc in a query, a command or an environment.
        (rf"({_START}{_KEYS}[\"']?\s*=\s*[\"']?)[^\s\"',;&]{{3,}}", r"\1", re.IGNORECASE),
        # token: abc in YAML or JSON. A colon may be followed by prose, which has no digits.
        (rf"({_START}{_KEYS}[\"']?\s*:\s*[\"']?)(?=\S*\d)[^\s\"',;&]{{6,}}", r"\1", re.IGNORECASE),
        (rf"({_START}{_KEYS}\"\s*:\s*\")[^\"]+", r"\1", re.IGNORECASE),
        # https://user:password@host
        (r"(\b\w+://[^\s/:@]*:)[^\s/@]+(?=@)", r"\1", 0),
    )
)

_HINTS = (
    "private key",
    "authoriz",
    "bearer",
    "eyj",
    "cookie",
    "token",
    "passw",
    "key",
    "pwd",
    "://",
)
"""Every form contains one of these; texts without any need no further search."""

# The data of a Secret as JSON, as Go prints maps, and as YAML.
_DATA = tuple(
    (re.compile(pattern, re.MULTILINE), rf"\1{HIDDEN}")
    for pattern in (
        r"(\b(?:data|stringData)\"\s*:\s*)\{[^{}]*(?:\}|\Z)",
        r"(\b(?:data|stringData):)map\[[^\]]*(?:\]|\Z)",
        r"(^[ \t]*(?:data|stringData):)[ \t]*\n(?:[ \t]+\S.*(?:\n|\Z))+",
    )
)
_SECRET = re.compile(r"kind\"?\s*:\s*\"?Secret\b")

_KEY = re.compile(_KEYS, re.IGNORECASE)
"""Object keys whose values are credentials."""

_VARIABLE = re.compile(rf"{_KEYS}|pgpass|\S*(?:passw|secret|credential|token)\S*", re.IGNORECASE)
"""Container variables whose values are, or lead to, credentials."""

_SHORTEST = 8
"""The minimum length of a credential; a shorter one may be an ordinary word."""


def make_redactor(credentials: Iterable[str]) -> Callable[[str], str]:
    """Return the function that redacts secrets in a text.

    Args:
        credentials: the secrets of the run itself, redacted everywhere.
    """
    own = sorted({text for text in credentials if len(text) >= _SHORTEST}, key=len, reverse=True)

    def redacted(text: str) -> str:
        for credential in own:
            text = text.replace(credential, HIDDEN)
        if _SECRET.search(text):
            for pattern, kept in _DATA:
                text = pattern.sub(kept, text)
        lowered = text.lower()
        if any(hint in lowered for hint in _HINTS):
            for pattern, kept in _FORMS:
                text = pattern.sub(kept, text)
        return text

    return redacted


def redact_object(obj: dict[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    """Return a copy of an object without the data of Secrets and without tokens.

    Managed fields are left out, and so is the annotation in which `kubectl apply` keeps the whole
    object. Other objects keep their data, except values under the name of a credential.

    Args:
        obj: the object, with its kind.
        redact: the redactor of texts, from `make_redactor`.
    """
    shown: dict[str, Any] = _redact_value(obj, redact)
    if obj.get("kind") == "Secret":
        for field in ("data", "stringData"):
            if isinstance(obj.get(field), dict):
                shown[field] = dict.fromkeys(obj[field], HIDDEN)
    metadata = shown.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    return shown


def _redact_value(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redact_value(each, redact) for each in value]
    if not isinstance(value, dict):
        return value
    shown = {key: _redact_member(key, each, redact) for key, each in value.items()}
    # An object with `name` and `value`, such as a container's variable.
    name = value.get("name")
    if isinstance(name, str) and value.get("value") and _VARIABLE.fullmatch(name):
        shown["value"] = HIDDEN
    return shown


def _redact_member(key: str, value: Any, redact: Callable[[str], str]) -> Any:
    if value and isinstance(value, str) and _KEY.fullmatch(key):
        return HIDDEN
    return _redact_value(value, redact)
