"""Questions to kubectl whose answers a replay must repeat."""

from __future__ import annotations

import re

QUESTIONS = (
    ("get", "all,events,configmaps,serviceaccounts", "-o", "yaml"),
    ("describe", "pods,jobs,replicasets,deployments"),
)

_AGE = re.compile(r"\b(?:\d+[dhms])+(?= |$)|<invalid>", re.MULTILINE)


def without_ages(answer: str) -> str:
    """Return an answer without ages, which kubectl computes from its own clock, and their width.

    Lines of events are sorted: kubectl orders those of the same time by chance.
    """
    lines = [" ".join(_AGE.sub("AGE", line).split()) for line in answer.splitlines()]
    return "\n".join(line for line in lines if set(line) - {"-", " "})
