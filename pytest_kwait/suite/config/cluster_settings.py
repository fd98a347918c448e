"""Settings of a further cluster: those of the run, with another choice of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.config.options import (
    SETTING_DEFINITIONS,
    EmbeddedSettings,
    LocalClusterSettings,
)
from pytest_kwait.suite.config.values import expand_home, suggest_name

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.suite.config.clusters import FurtherCluster
    from pytest_kwait.suite.config.options import SettingDefinition
    from pytest_kwait.suite.config.settings import Settings

_OF_THE_RUN = ("image", "egress")
"""Settings of embedded clusters that further ones share with the run's own."""


def _list_options() -> dict[str, SettingDefinition[Any]]:
    groups = (vars(EmbeddedSettings), vars(LocalClusterSettings))
    own = [name for group in groups for name in group if name in SETTING_DEFINITIONS]
    names = ["kubeconfig", "context", *(name for name in own if name not in _OF_THE_RUN)]
    return {name: SETTING_DEFINITIONS[name] for name in names}


_OPTIONS = _list_options()
"""The settings of one cluster; the options of a further one are called `--context` and so on."""


def settings_of_cluster(cluster: FurtherCluster, run: Settings, folder: Path) -> Settings:
    """Return the settings of a run on a further cluster.

    Args:
        run: the settings of the run; those that choose its own cluster do not count.
        folder: the folder of relative paths.

    Raises:
        InvalidArgument: there is no such option, or its value is invalid.
    """
    source = f"{cluster.source}, cluster {cluster.name}"
    values = {
        name: str(folder / expand_home(value, name, source)) if _is_path(name, value) else value
        for name, value in _read_options(cluster).items()
    }
    own = run.without(["cluster", "clusters", *_OPTIONS])
    return own.merged({"cluster": cluster.provider, **values}, lambda _: source)


def _is_path(name: str, value: Any) -> bool:
    from pytest_kwait.clusters.node_table import is_node_file

    return _OPTIONS[name].kind == "path" or (name == "nodes" and is_node_file(value))


def _read_options(cluster: FurtherCluster) -> dict[str, Any]:
    """Return raw values of settings by name."""
    options: dict[str, Any] = {}
    words = iter(cluster.options)
    for word in words:
        flag, equals, given = word.partition("=")
        definition, is_on = _find_option(flag, cluster)
        if definition.kind == "bool":
            if equals:
                valid = f"{flag} of cluster {cluster.name} takes no value"
                raise InvalidArgument("clusters", word, valid, cluster.source)
            options[definition.name] = "true" if is_on else "false"
            continue
        value = given if equals else next(words, None)
        if not value:
            valid = f"{flag} of cluster {cluster.name} takes a value: {flag}={definition.metavar}"
            raise InvalidArgument("clusters", word, valid, cluster.source)
        if definition.repeatable:
            options[definition.name] = [*options.get(definition.name, ()), value]
        else:
            options[definition.name] = value
    return options


def _find_option(flag: str, cluster: FurtherCluster) -> tuple[SettingDefinition[Any], bool]:
    """Return the setting of an option, and whether the option is not its opposite `--no-…`."""
    for definition in _OPTIONS.values():
        flags = [known.replace("--kwait-", "--") for known in definition.flags]
        if flag in flags:
            return definition, flag == flags[0]
    known = [definition.flag.replace("--kwait-", "--") for definition in _OPTIONS.values()]
    raise InvalidArgument(
        "clusters",
        flag,
        f"cluster {cluster.name} has no such option: {suggest_name(flag, known, prefix='--')}the "
        f"options are {', '.join(known)}",
        cluster.source,
    )
