"""What kubectl prints without what differs from run to run and from cluster to cluster."""

from __future__ import annotations

import re

__all__ = ["normalize_output"]

_RANDOM = "bcdfghjklmnpqrstvwxz2456789"
_RULES = [
    (re.compile(pattern, re.MULTILINE), shown)
    for pattern, shown in (
        # A node that is busy tries again: it has no part in what is compared.
        (r"^.*\bFailedMount\b.*failed to sync \w+ cache: timed out waiting for.*\n", ""),
        (r"^.*\bFailedCreatePodSandBox\b.*\n", ""),
        (r"\beyJ[\w-]+\.[\w-]+\.[\w-]*", "<token>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "<time>"),
        (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uid>"),
        (r"https?://(127\.0\.0\.1|localhost|\[::1\]):\d+", "<server>"),
        (r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?(/\d+)?\b", "<address>"),
        (r"(containerd|kwait)://\S+|\b\S+@sha256:[0-9a-f]{64}\b|\bsha256:[0-9a-f]{64}\b", "<id>"),
        (r"\b(kwait-)?node-\d+\b", "<node>"),
        # A controller's pods: <name>-<hash>-<suffix>, and what kubectl names itself.
        (rf"-[{_RANDOM}]{{7,10}}-[{_RANDOM}]{{5}}\b", "-<hash>-<suffix>"),
        (rf"(?<=pod-template-hash[=:] )[{_RANDOM}]{{7,10}}\b", "<hash>"),
        (rf"(?<=pod-template-hash=)[{_RANDOM}]{{7,10}}\b", "<hash>"),
        (rf"-(?=[{_RANDOM}]*\d)[{_RANDOM}]{{8,10}}\b", "-<hash>"),
        (rf"-(?=[a-z]*\d|[^aeiou\s]{{5}}\b)[{_RANDOM}]{{5}}\b", "-<suffix>"),
        (r"(?i)(resource ?version\"?: +)\"?\d+\"?", r"\1<revision>"),
        (r"(?<=:)3\d{4}(?=/)|(?<=nodePort: )\d{5}", "<port>"),
        # Columns are as wide as the widest of what differs.
        (r"(?<=\S)[ \t]{2,}", "  "),
        (r"[ \t]+$", ""),
        (r"(?:(?<=  )|^)(\d+[smhd])+(?=  |$)|(?<=\()(\d+[smhd])+ ago(?=\))", "<age>"),
        (r"\(x\d+ over (\d+[smhd])+\)", "(again)"),
        (r"<age> \(again\)", "<age>"),
    )
]


def normalize_output(text: str, names: dict[str, str]) -> list[str]:
    """The lines of `text` with placeholders for what cannot be the same twice.

    Args:
        text: what a command printed.
        names: what to write in place of which text, for example the namespace's name.
    """
    for found, shown in names.items():
        text = text.replace(found, shown)
    for pattern, shown in _RULES:
        text = pattern.sub(shown, text)
    return text.splitlines()
