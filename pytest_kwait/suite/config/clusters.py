"""Further clusters of a run, as settings declare them: `NAME = PROVIDER [OPTIONS]`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

_FORM = "use NAME = PROVIDER [OPTIONS], for example 'b = kind --node-image=kindest/node:v1.35.0'"


@dataclass(frozen=True, slots=True)
class FurtherCluster:
    """A further cluster of a run.

    Args:
        name: its name, as tests give it to `kwait_factory`.
        provider: the name of its provider.
        options: the words behind it, as in `--context=NAME`.
        source: where it is declared, for messages.
    """

    name: str
    provider: str
    options: tuple[str, ...]
    source: str

    def __str__(self) -> str:
        return f"{self.name} ({self.provider})"


def parse_clusters(value: Any, source: str | None) -> tuple[FurtherCluster, ...]:
    """Parse further clusters.

    Args:
        value: texts `NAME = PROVIDER [OPTIONS]`, one text with one a line, or a mapping of names to
            `PROVIDER [OPTIONS]`.
        source: where the value comes from.

    Raises:
        InvalidArgument: names the text, and what is valid.
    """
    clusters = [_parse_cluster(name, text, source) for name, text in _split(value, source)]
    names = [cluster.name for cluster in clusters]
    for cluster in clusters:
        if names.count(cluster.name) > 1:
            raise InvalidArgument("clusters", cluster.name, "use each name once", source)
    if not clusters and not isinstance(value, (list, tuple)):
        raise InvalidArgument("clusters", value, _FORM, source)
    return tuple(clusters)


def _split(value: Any, source: str | None) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    texts = value.splitlines() if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)):
        raise InvalidArgument("clusters", value, _FORM, source)
    pairs = []
    for text in texts:
        if isinstance(text, str) and not text.strip():
            continue
        name, equals, rest = text.partition("=") if isinstance(text, str) else ("", "", "")
        if not equals:
            raise InvalidArgument("clusters", text, _FORM, source)
        pairs.append((name.strip(), rest))
    return pairs


def _parse_cluster(name: Any, text: Any, source: str | None) -> FurtherCluster:
    try:
        words = shlex.split(text) if isinstance(text, str) else []
    except ValueError as error:
        raise InvalidArgument("clusters", text, f"{error}; {_FORM}", source) from None
    if not words or words[0].startswith("-"):
        raise InvalidArgument("clusters", text, f"cluster {name} has no provider; {_FORM}", source)
    return FurtherCluster(name, words[0], tuple(words[1:]), source or "clusters")
