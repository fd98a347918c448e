"""Further clusters of a run: `NAME = PROVIDER [OPTIONS]`, parsed into settings of their own."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.config.options import (
    SETTING_DEFINITIONS,
    EmbeddedSettings,
    LocalClusterSettings,
)
from pytest_kwait.suite.config.values import expand_home, read_dns_label, suggest_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_kwait.suite.config.options import SettingDefinition
    from pytest_kwait.suite.config.settings import Settings

_EXAMPLE = "b = kind --node-image=kindest/node:v1.35.0"
_FORM = f"use NAME = PROVIDER [OPTIONS], for example '{_EXAMPLE}'"
_OF_THE_RUN = ("image", "egress")
"""Settings of embedded clusters that further ones share with the run's own."""


def _list_options() -> dict[str, SettingDefinition[Any]]:
    groups = (vars(EmbeddedSettings), vars(LocalClusterSettings))
    own = [name for group in groups for name in group if name in SETTING_DEFINITIONS]
    names = ["kubeconfig", "context", *(name for name in own if name not in _OF_THE_RUN)]
    return {name: SETTING_DEFINITIONS[name] for name in names}


_OPTIONS = _list_options()
"""The settings of one cluster; the options of a further one are called `--context` and so on."""


@dataclass(frozen=True, slots=True)
class FurtherCluster:
    """A further cluster of a run.

    Args:
        name: its name, as tests give it to `kwait_factory`.
        provider: the name of its provider.
        options: raw values of its settings, by name.
        source: where it is declared, for messages.
    """

    name: str
    provider: str
    options: Mapping[str, Any]
    source: str

    def __str__(self) -> str:
        return f"{self.name} ({self.provider})"

    def settings(self, run: Settings, folder: Path) -> Settings:
        """Return the settings of a run on this cluster.

        Args:
            run: the settings of the run; those that choose its own cluster do not count.
            folder: the folder of relative paths.

        Raises:
            InvalidArgument: a value is invalid.
        """
        source = f"{self.source}, cluster {self.name}"
        values = {
            name: folder / expand_home(value, name, source)
            if _OPTIONS[name].kind == "path" and isinstance(value, str)
            else value
            for name, value in self.options.items()
        }
        own = run.without(["cluster", "clusters", *_OPTIONS])
        return own.merged({"cluster": self.provider, **values}, lambda _: source)


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
    read_dns_label(name, "clusters", source)
    try:
        words = shlex.split(text) if isinstance(text, str) else []
    except ValueError as error:
        raise InvalidArgument("clusters", text, f"{error}; {_FORM}", source) from None
    if not words or words[0].startswith("-"):
        raise InvalidArgument("clusters", text, f"cluster {name} has no provider; {_FORM}", source)
    provider, options = words[0], dict[str, Any]()
    arguments = iter(words[1:])
    for word in arguments:
        flag, equals, given = word.partition("=")
        definition, is_on = _find_option(flag, name, source)
        if definition.kind == "bool":
            if equals:
                valid = f"{flag} of cluster {name} takes no value"
                raise InvalidArgument("clusters", word, valid, source)
            options[definition.name] = "true" if is_on else "false"
            continue
        option_value = given if equals else next(arguments, None)
        if not option_value:
            valid = f"{flag} of cluster {name} takes a value: {flag}={definition.metavar}"
            raise InvalidArgument("clusters", word, valid, source)
        if definition.repeatable:
            options[definition.name] = [*options.get(definition.name, ()), option_value]
        else:
            options[definition.name] = option_value
    return FurtherCluster(name, provider, options, source or "clusters")


def _find_option(
    flag: str, cluster: str, source: str | None
) -> tuple[SettingDefinition[Any], bool]:
    """Return the setting of an option, and whether the option is not its opposite `--no-…`."""
    for definition in _OPTIONS.values():
        flags = [known.replace("--kwait-", "--") for known in definition.flags]
        if flag in flags:
            return definition, flag == flags[0]
    known = [definition.flag.replace("--kwait-", "--") for definition in _OPTIONS.values()]
    raise InvalidArgument(
        "clusters",
        flag,
        f"cluster {cluster} has no such option: {suggest_name(flag, known, prefix='--')}the "
        f"options are {', '.join(known)}",
        source,
    )
