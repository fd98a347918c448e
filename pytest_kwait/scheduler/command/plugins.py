"""The plugins of Kubernetes' scheduler that this one has, and what each stands for here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.command.configuration import PluginEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DEFAULT_PLUGINS",
    "EXTENSION_POINTS",
    "PLUGINS",
    "REQUIRED_PLUGINS",
    "UPSTREAM_PLUGINS",
    "Plugin",
]

_CPU_AND_MEMORY = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin; its filter and its score are the predicate and the priority of its name.

    Args:
        points: the extension points that it extends.
        weight: what its score counts by default; 0 if it has none.
        args: what it is told: these values and no others.
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
"""By name, in the order in which Kubernetes' scheduler enables them.

Source: pkg/scheduler/apis/config/v1/default_plugins.go getDefaultPlugins.
"""

DEFAULT_PLUGINS = tuple(PluginEntry(name, plugin.weight) for name, plugin in PLUGINS.items())
"""What a profile has that says nothing."""

REQUIRED_PLUGINS = ("SchedulingGates", "PrioritySort", "DefaultBinder")
"""What the queue and the binder do in any case: they cannot be without."""

EXTENSION_POINTS = ("multiPoint", "preEnqueue", "queueSort", "filter", "score", "bind")
"""The extension points at which something can be enabled or disabled."""

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
"""All of Kubernetes 1.36: what this scheduler has not can be disabled, not enabled."""
