"""Scheduler profiles: known plugins, defaults, validation, and their predicates and priorities.

Source: pkg/scheduler/apis/config/v1/default_plugins.go (`mergePluginSet`) and
pkg/scheduler/framework/runtime/framework.go (`expandMultiPointPlugins`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.field_errors import (
    FieldError,
    duplicate,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.scheduler.command.configuration import PluginEntry, PluginSet
from pytest_kwait.scheduler.framework.pod_info import DEFAULT_SCHEDULER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_kwait.scheduler.command.configuration import PluginConfig, Profile

REQUIRED_PLUGINS = ("SchedulingGates", "PrioritySort", "DefaultBinder")
"""Plugins that the queue and the binder always run, so that they cannot be disabled."""

EXTENSION_POINTS = ("multiPoint", "preEnqueue", "queueSort", "filter", "score", "bind")
"""The extension points at which plugins can be enabled or disabled."""

_CPU_AND_MEMORY = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin; its filter and score are the predicate and priority of its name.

    Args:
        points: the extension points that it extends.
        weight: the default weight of its score; 0 if it has none.
        args: its only valid arguments, with their values.
    """

    points: tuple[str, ...]
    weight: int = 0
    args: Mapping[str, Any] = field(default_factory=dict)


PLUGINS: Mapping[str, Plugin] = {
    "SchedulingGates": Plugin(("preEnqueue",)),
    "PrioritySort": Plugin(("queueSort",)),
    "NodeUnschedulable": Plugin(("filter",)),
    "NodeName": Plugin(("filter",)),
    "TaintToleration": Plugin(("filter", "score"), 3),
    "NodeAffinity": Plugin(("filter", "score"), 2),
    "NodePorts": Plugin(("filter",)),
    "NodeResourcesFit": Plugin(
        ("filter", "score"),
        1,
        {"scoringStrategy": {"type": "LeastAllocated", "resources": _CPU_AND_MEMORY}},
    ),
    "PodTopologySpread": Plugin(("filter", "score"), 2, {"defaultingType": "System"}),
    "InterPodAffinity": Plugin(
        ("filter", "score"),
        2,
        {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False},
    ),
    "NodeResourcesBalancedAllocation": Plugin(("score",), 1, {"resources": _CPU_AND_MEMORY}),
    "ImageLocality": Plugin(("score",), 1),
    "DefaultBinder": Plugin(("bind",)),
}
"""The plugins by name, in the order in which Kubernetes' scheduler enables them.

Source: pkg/scheduler/apis/config/v1/default_plugins.go getDefaultPlugins.
"""

DEFAULT_PLUGINS = tuple(PluginEntry(name, plugin.weight) for name, plugin in PLUGINS.items())
"""The plugins of a profile that configures none."""


UPSTREAM_PLUGINS = frozenset(
    {
        *PLUGINS,
        "DefaultPreemption",
        "DynamicResources",
        "GangScheduling",
        "NodeDeclaredFeatures",
        "NodeVolumeLimits",
        "PodGroupPodsCount",
        "TopologyPlacementGenerator",
        "VolumeBinding",
        "VolumeRestrictions",
        "VolumeZone",
    }
)
"""All plugins of Kubernetes 1.36; missing ones can be disabled but not enabled."""


def set_profile_defaults(profiles: Sequence[Profile], default: Profile) -> tuple[Profile, ...]:
    """Return the profiles with their default plugins; a single unnamed one gets the default name.

    Args:
        profiles: the profiles as configured; none stands for `default`.
        default: an empty profile.
    """
    profiles = profiles or (default,)
    if len(profiles) == 1 and not profiles[0].scheduler_name:
        profiles = (replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER),)
    return tuple(_set_defaults(profile) for profile in profiles)


def validate_profiles(profiles: Sequence[Profile]) -> Iterator[FieldError]:
    """Yield the errors of completed profiles."""
    first: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        path = f"profiles[{index}]"
        name = profile.scheduler_name
        if not name:
            yield required(f"{path}.schedulerName")
        if name in first:
            earlier = f"profiles[{first[name]}].schedulerName"
            yield duplicate(f"{path}.schedulerName", earlier)
        first.setdefault(name, index)
        yield from _check_plugins(profile, f"{path}.plugins")
        yield from _check_plugin_config(profile.plugin_config, f"{path}.pluginConfig")


def list_profile_predicates(profile: Profile) -> list[str]:
    """Return the names of a completed profile's predicates, in the order of its plugins."""
    return list(_expand_point(profile, "filter"))


def list_profile_priorities(profile: Profile) -> dict[str, int]:
    """Return the weights of a completed profile's priorities by their names."""
    return {name: weight or 1 for name, weight in _expand_point(profile, "score").items()}


def _set_defaults(profile: Profile) -> Profile:
    custom = profile.plugins.multi_point
    disabled = {entry.name for entry in custom.disabled}
    indexes = {entry.name: index for index, entry in enumerate(custom.enabled)}
    placed: set[int] = set()
    enabled = []
    for entry in () if "*" in disabled else DEFAULT_PLUGINS:
        if entry.name in disabled:
            continue
        index = indexes.get(entry.name)
        if index is not None:
            placed.add(index)
            entry = custom.enabled[index]  # reconfigured in place
        enabled.append(entry)
    enabled += [entry for index, entry in enumerate(custom.enabled) if index not in placed]
    merged = PluginSet(tuple(enabled), custom.disabled)
    return replace(profile, plugins=replace(profile.plugins, multi_point=merged))


def _points(profile: Profile) -> dict[str, PluginSet]:
    return {
        entry.metadata["name"]: getattr(profile.plugins, entry.name)
        for entry in fields(profile.plugins)
    }


def _expand_point(profile: Profile, point: str) -> dict[str, int]:
    """Return the weights of the plugins of an extension point, in order."""
    points = _points(profile)
    own = {entry.name: entry.weight for entry in points[point].enabled}
    disabled = {entry.name for entry in points[point].disabled}
    everywhere = {
        entry.name: entry.weight
        for entry in points["multiPoint"].enabled
        if entry.name in PLUGINS and point in PLUGINS[entry.name].points
    }
    overriding = {name: weight for name, weight in own.items() if name in everywhere}
    spread = {
        name: weight
        for name, weight in everywhere.items()
        if name not in disabled and "*" not in disabled and name not in own
    }
    return overriding | spread | {n: w for n, w in own.items() if n in PLUGINS}


def _check_plugins(profile: Profile, path: str) -> Iterator[FieldError]:
    sound = True
    for point, plugins in _points(profile).items():
        where = f"{path}.{point}"
        if (plugins.enabled or plugins.disabled) and point not in EXTENSION_POINTS:
            names = [entry.name for entry in (*plugins.enabled, *plugins.disabled)]
            valid = f"plugins can be enabled and disabled at {', '.join(EXTENSION_POINTS)}"
            yield invalid_value(where, names, valid)
            continue
        for error in _check_enabled(plugins, point, where):
            sound = False
            yield error
        for index, entry in enumerate(plugins.disabled):
            if entry.name != "*" and entry.name not in UPSTREAM_PLUGINS:
                valid_names = ("*", *sorted(UPSTREAM_PLUGINS))
                yield not_supported(f"{where}.disabled[{index}].name", entry.name, valid_names)
    if sound:
        for name in REQUIRED_PLUGINS:
            if name not in _expand_point(profile, PLUGINS[name].points[0]):
                text = "must be enabled: this scheduler does it in any case"
                yield invalid_value(path, name, text)


def _check_enabled(plugins: PluginSet, point: str, where: str) -> Iterator[FieldError]:
    checked_names: set[str] = set()
    extending = [
        name for name, plugin in PLUGINS.items() if point in ("multiPoint", *plugin.points)
    ]
    for index, entry in enumerate(plugins.enabled):
        at = f"{where}.enabled[{index}]"
        if entry.name not in extending:
            yield not_supported(f"{at}.name", entry.name, extending)
        elif entry.name in checked_names:
            yield duplicate(f"{at}.name", entry.name)
        if entry.weight < 0:
            yield invalid_value(f"{at}.weight", entry.weight, "must not be negative")
        checked_names.add(entry.name)


def _check_plugin_config(configs: Sequence[PluginConfig], path: str) -> Iterator[FieldError]:
    checked_names: set[str] = set()
    for index, config in enumerate(configs):
        at = f"{path}[{index}]"
        plugin = PLUGINS.get(config.name)
        if plugin is None:
            yield not_supported(f"{at}.name", config.name, list(PLUGINS))
            continue
        if config.name in checked_names:
            yield duplicate(at, config.name)
        checked_names.add(config.name)
        args = dict(config.args or {})
        kind = args.pop("kind", f"{config.name}Args")
        args.pop("apiVersion", None)
        if kind != f"{config.name}Args":
            yield invalid_value(f"{at}.args", kind, "has to match plugin args")
            continue
        for name, value in args.items():
            yield from _check_argument(plugin.args, name, value, f"{at}.args.{name}")


def _check_argument(valid: Any, name: str, value: Any, path: str) -> Iterator[FieldError]:
    if name not in valid:
        yield invalid_value(path, value, "this scheduler does not have it: leave it out")
    elif value is not None and value != valid[name]:
        yield invalid_value(
            path, value, f"this scheduler has nothing but {_compact(valid[name])} here"
        )


def _compact(value: Any) -> str:
    import json

    return json.dumps(value, separators=(",", ":"))
