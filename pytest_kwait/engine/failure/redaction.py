"""Redaction: hide credentials, tokens and the data of Secrets in shown texts.

Nothing that the package shows is read from Secrets; but logs, events, messages of webhooks and
errors are written by others. Secrets of a known form are hidden, and so are the credentials that
the run itself uses, wherever they occur.
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
# Where a word with all its dashes begins: a start within one would be tried for each of them.
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
        # A bearer token: a word after it that is none has no digit and is short.
        (r"(\bbearer\s+)(?=\S*\d|\S{24})[\w.~+/=-]{8,}", r"\1", re.IGNORECASE),
        (r"\beyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?", "", 0),
        (r"((?:set-)?cookie[\"']?\s*:\s*[\"']?)[^\"'\n]+", r"\1", re.IGNORECASE),
        # token=abc in a query, a command or an environment.
        (rf"({_START}{_KEYS}[\"']?\s*=\s*[\"']?)[^\s\"',;&]{{3,}}", r"\1", re.IGNORECASE),
        # token: abc in YAML or JSON; after a colon prose may follow, which has no digits.
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
"""Each form has one of these: most texts have none, and need not be searched for any form."""

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
"""Keys of objects whose values are credentials."""

_VARIABLE = re.compile(rf"{_KEYS}|pgpass|\S*(?:passw|secret|credential|token)\S*", re.IGNORECASE)
"""Variables of containers whose values are, or lead to, credentials."""

_SHORTEST = 8
"""Shorter credentials are words that may mean something else."""


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
    """Return a copy of an object as it may be shown: without the data of Secrets, without tokens.

    What a client or server notes of how the object came about is left out: the managed fields, and
    the copy of the whole object that `kubectl apply` keeps in an annotation. Other objects than
    Secrets keep their data, but for values under the name of a credential.

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
    # A variable of a container, or a parameter of whatever has parameters.
    name = value.get("name")
    if isinstance(name, str) and value.get("value") and _VARIABLE.fullmatch(name):
        shown["value"] = HIDDEN
    return shown


def _redact_member(key: str, value: Any, redact: Callable[[str], str]) -> Any:
    if value and isinstance(value, str) and _KEY.fullmatch(key):
        return HIDDEN
    return _redact_value(value, redact)
