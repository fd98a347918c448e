"""What must not be shown, taken out of texts that are: credentials, tokens, the data of Secrets.

Nothing that the package shows is read from Secrets; but logs, events, messages of webhooks and
errors are written by others. What is known by its form is hidden, and so are the credentials that
the run itself uses, wherever they turn up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["HIDDEN", "redaction"]

HIDDEN = "(hidden)"

_KEYS = (
    r"(?:[\w-]*(?:token|password|passwd|secret[_-]?key|api[_-]?key|client-key-data|private[_-]?key)"
    r"|pwd)"
)

_FORMS = tuple(
    (re.compile(pattern, flags), rf"{kept}{HIDDEN}")
    for pattern, kept, flags in (
        # A private key; one whose end is cut off goes on to the end of the text.
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
        (rf"(\b{_KEYS}[\"']?\s*=\s*[\"']?)[^\s\"',;&]{{3,}}", r"\1", re.IGNORECASE),
        # token: abc in YAML or JSON; after a colon prose may follow, which has no digits.
        (rf"(\b{_KEYS}[\"']?\s*:\s*[\"']?)(?=\S*\d)[^\s\"',;&]{{6,}}", r"\1", re.IGNORECASE),
        (rf"(\b{_KEYS}\"\s*:\s*\")[^\"]+", r"\1", re.IGNORECASE),
        # https://user:password@host
        (r"(\b\w+://[^\s/:@]*:)[^\s/@]+(?=@)", r"\1", 0),
    )
)

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

_SHORTEST = 8
"""Shorter credentials are words that may mean something else."""


def redaction(credentials: Iterable[str]) -> Callable[[str], str]:
    """Return what hides, in a text of any length, everything that must not be shown.

    Args:
        credentials: what the run itself authenticates by; hidden wherever it stands.
    """
    own = sorted({text for text in credentials if len(text) >= _SHORTEST}, key=len, reverse=True)

    def redacted(text: str) -> str:
        for credential in own:
            text = text.replace(credential, HIDDEN)
        if _SECRET.search(text):
            for pattern, kept in _DATA:
                text = pattern.sub(kept, text)
        for pattern, kept in _FORMS:
            text = pattern.sub(kept, text)
        return text

    return redacted
