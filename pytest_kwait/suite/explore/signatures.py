"""Signatures of failures: equal for failures that differ in names, numbers and times alone."""

from __future__ import annotations

import re
from hashlib import blake2b

# No vowels, nor what looks like them: the letters of names that Kubernetes generates.
# Source: k8s.io/apimachinery pkg/util/rand, alphanums.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_REPLACEMENTS = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"0x[0-9a-f]+", "N"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "*"),
        # Namespaces of tests.
        (r"(?<![\w-])t-[a-z0-9-]+", "t-*"),
        (rf"(?<=-)(?:[{_SAFE}]{{5}}|[{_SAFE}]{{8,10}})(?![A-Za-z0-9])", "*"),
        (r"(?<![A-Za-z0-9])(?=[0-9a-f]*[0-9])[0-9a-f]{8,}(?![A-Za-z0-9])", "*"),
        (r"(?<![\w.])(?:\d+(?:\.\d+)?(?:ms|us|µs|ns|[smhd]))+(?!\w)", "T"),
        (r"\d+(?:[.:]\d+)*", "N"),
        (r"\s+", " "),
    )
)


def normalize(text: str) -> str:
    """Return a text with generated names, numbers, durations and addresses replaced."""
    for pattern, by in _REPLACEMENTS:
        text = pattern.sub(by, text)
    return text.strip()


def make_signature(kind: str, headline: str, place: str) -> str:
    """Return the signature of a failure, a digest: it shows no value of the failure.

    Of a wait that timed out, only the beginning of what was seen last counts: the rest depends on
    the moment.

    Args:
        kind: the type of the exception.
        headline: the failure in one line.
        place: the failing line, for example `test_shop.py:31`.
    """
    summary = normalize(headline)
    if kind == "WaitTimeout":
        summary = ": ".join(summary.split(": ")[:2])
    text = "\n".join((kind, summary, place))
    return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
