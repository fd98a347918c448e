"""Default timeouts and poll intervals of waits, each with its source.

The first entries are the fields of the Go framework's `TimeoutContext` that a wait uses; the others
are constants of its helpers.

Source: kubernetes/test/e2e/framework, release 1.36; files are relative to it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from pytest_kwait.errors import InvalidArgument

__all__ = ["TIMEOUTS", "TimeoutEntry", "Timeouts"]

_SECOND = 1.0
_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class TimeoutEntry:
    """One entry of the table.

    Args:
        name: its name in options, markers and `kwait_timeouts`.
        seconds: the default.
        source: the source of the value.
        kind: `limit` ends an operation; `pause` is an interval and is never scaled.
    """

    name: str
    seconds: float
    source: str
    kind: Literal["limit", "pause"] = "limit"


_CONTEXT = "timeouts.go TimeoutContext."
_ENTRIES = (
    TimeoutEntry("poll", 2 * _SECOND, _CONTEXT + "Poll", "pause"),
    TimeoutEntry("pod_start", 5 * _MINUTE, _CONTEXT + "PodStart"),
    TimeoutEntry("pod_delete", 5 * _MINUTE, _CONTEXT + "PodDelete"),
    TimeoutEntry("claim_provision", 5 * _MINUTE, _CONTEXT + "ClaimProvision"),
    TimeoutEntry("claim_bound", 3 * _MINUTE, _CONTEXT + "ClaimBound"),
    TimeoutEntry("pv_bound", 3 * _MINUTE, _CONTEXT + "PVBound"),
    TimeoutEntry("pv_create", 3 * _MINUTE, _CONTEXT + "PVCreate"),
    TimeoutEntry("pv_delete", 5 * _MINUTE, _CONTEXT + "PVDelete"),
    TimeoutEntry("system_pods_startup", 10 * _MINUTE, _CONTEXT + "SystemPodsStartup"),
    TimeoutEntry("node_schedulable", 30 * _MINUTE, _CONTEXT + "NodeSchedulable"),
    TimeoutEntry("system_daemonset_startup", 5 * _MINUTE, _CONTEXT + "SystemDaemonsetStartup"),
    TimeoutEntry("node_not_ready", 3 * _MINUTE, _CONTEXT + "NodeNotReady"),
    # util.go and framework.go
    TimeoutEntry("pod_get", 2 * _MINUTE, "util.go PodGetTimeout"),
    TimeoutEntry("pod_event", 2 * _MINUTE, "util.go PodEventTimeout"),
    TimeoutEntry("service_start", 3 * _MINUTE, "util.go ServiceStartTimeout"),
    TimeoutEntry("poll_short", 1 * _MINUTE, "util.go PollShortTimeout"),
    TimeoutEntry(
        "service_account_provision", 2 * _MINUTE, "util.go ServiceAccountProvisionTimeout"
    ),
    TimeoutEntry("single_call", 5 * _MINUTE, "util.go SingleCallTimeout"),
    TimeoutEntry("restart_node_ready_again", 5 * _MINUTE, "util.go RestartNodeReadyAgainTimeout"),
    TimeoutEntry("namespace_deletion", 5 * _MINUTE, "framework.go DefaultNamespaceDeletionTimeout"),
    # job/, pod/, node/
    TimeoutEntry("job", 15 * _MINUTE, "job/const.go JobTimeout"),
    TimeoutEntry("pod", 10 * _MINUTE, "pod/wait.go podStartTimeout"),
    TimeoutEntry("pod_deletion", 10 * _MINUTE, "pod/wait.go defaultPodDeletionTimeout"),
    TimeoutEntry("pods_list", 5 * _MINUTE, "pod/wait.go podListTimeout"),
    TimeoutEntry("pod_responding", 15 * _MINUTE, "pod/wait.go podRespondingTimeout"),
    TimeoutEntry("pod_scheduled_before", 320 * _SECOND, "pod/wait.go podScheduledBeforeTimeout"),
    TimeoutEntry("pod_client_deletion", 3 * _MINUTE, "pod/pod_client.go DefaultPodDeletionTimeout"),
    TimeoutEntry("nodes_ready", 7 * _MINUTE, "node/init/init.go AllNodesReady after each test"),
    # workloads
    TimeoutEntry("deployment", 5 * _MINUTE, "deployment/wait.go pollLongTimeout"),
    TimeoutEntry("deployment_short", 1 * _MINUTE, "deployment/wait.go pollShortTimeout"),
    TimeoutEntry("replica_set", 5 * _MINUTE, "replicaset/wait.go WaitForReadyReplicaSet"),
    TimeoutEntry("stateful_set", 10 * _MINUTE, "statefulset/const.go StatefulSetTimeout"),
    TimeoutEntry(
        "controlled_pods", 10 * _MINUTE, "../../utils/runners.go WaitForPodsWithLabelRunning"
    ),
    TimeoutEntry("rolling_update", 300 * _SECOND, "v0.7 pkg/kubecfg/kubecfg.go Update"),
    TimeoutEntry("rolling_update_poll", 5 * _SECOND, "v0.7 pkg/kubecfg/kubecfg.go Update", "pause"),
    # services
    TimeoutEntry("service_responding", 2 * _MINUTE, "service/const.go RespondingTimeout"),
    TimeoutEntry("kube_proxy_lag", 2 * _MINUTE, "service/const.go KubeProxyLagTimeout"),
    TimeoutEntry(
        "load_balancer_create", 15 * _MINUTE, "service/const.go LoadBalancerCreateTimeoutDefault"
    ),
    TimeoutEntry(
        "load_balancer_cleanup", 15 * _MINUTE, "service/const.go LoadBalancerCleanupTimeout"
    ),
    TimeoutEntry(
        "service_reachability", 2 * _MINUTE, "service/const.go ServiceReachabilityShortPollTimeout"
    ),
    TimeoutEntry("endpoint_slice", 2 * _MINUTE, "endpointslice/wait.go ControllerUpdateTimeout"),
    # storage, authorization, autoscaling
    TimeoutEntry("authorization", 5 * _SECOND, "auth/helpers.go policyCachePollTimeout"),
    TimeoutEntry(
        "authorization_poll", 0.1 * _SECOND, "auth/helpers.go policyCachePollInterval", "pause"
    ),
    TimeoutEntry(
        "autoscaling", 15 * _MINUTE, "../autoscaling/horizontal_pod_autoscaling.go timeToWait"
    ),
    # API extensions
    TimeoutEntry(
        "webhook", 30 * _SECOND, "../apimachinery/webhook.go waitWebhookConfigurationReady"
    ),
    TimeoutEntry("api_service", 1 * _MINUTE, "../apimachinery/aggregator.go SetUpSampleAPIServer"),
    TimeoutEntry(
        "serving_poll",
        0.1 * _SECOND,
        "../apimachinery/webhook.go waitWebhookConfigurationReady",
        "pause",
    ),
    # Without a matching upstream constant.
    TimeoutEntry(
        "minions",
        5 * _MINUTE,
        "as pod_start: the ten looks of podsOnMinions' Poll(1s, 10) expected pods that were there",
    ),
    TimeoutEntry("crd", 1 * _MINUTE, "twice the 30 s that apiextensions' own tests give"),
    TimeoutEntry(
        "api_server",
        1 * _MINUTE,
        "as util.go PodListTimeout: a restarted server is ready in seconds",
    ),
    TimeoutEntry("serial", 30 * _MINUTE, "as node_schedulable: nobody may use the cluster before"),
    TimeoutEntry("cache_sync", 5 * _MINUTE, "as pod_start: upstream's has no limit"),
    TimeoutEntry("wait_for", 5 * _MINUTE, "as pod_start: what the Go framework gives Eventually"),
)


class Timeouts(Mapping[str, float]):
    """Limits and pauses in seconds by name, as items and as attributes (`timeouts.job`).

    Args:
        entries: the entries of the table.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, TimeoutEntry] | None = None) -> None:
        self._entries = dict(TIMEOUTS if entries is None else entries)

    def __getitem__(self, name: str) -> float:
        return self._entries[name].seconds

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getattr__(self, name: str) -> float:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._entries[name].seconds
        except KeyError:
            raise AttributeError(f"the timeout table has no {name!r}; {_valid(name)}") from None

    def __repr__(self) -> str:
        return f"Timeouts({', '.join(f'{name}={value:g}' for name, value in self.items())})"

    def entry(self, name: str, *, source: str | None = None) -> TimeoutEntry:
        """Return the entry called `name`, with its source.

        Raises:
            InvalidArgument: an unknown name; the message lists similar ones.
        """
        try:
            return self._entries[name]
        except KeyError:
            raise InvalidArgument("timeout name", name, _valid(name), source) from None

    def merged(self, seconds: Mapping[str, float], *, source: str | None = None) -> Timeouts:
        """Return a copy with the given values instead of the defaults.

        Args:
            seconds: new values in seconds by name.
            source: the origin of the values, for the error and for `entry`.

        Raises:
            InvalidArgument: an unknown name; the message lists similar ones.
        """
        changed = dict(self._entries)
        for name, value in seconds.items():
            entry = self.entry(name, source=source)
            changed[name] = replace(entry, seconds=value, source=source or entry.source)
        return Timeouts(changed)

    def scaled(self, factor: float) -> Timeouts:
        """Return a copy with every limit multiplied by `factor`; pauses keep their value."""
        return Timeouts(
            {
                name: replace(entry, seconds=entry.seconds * factor)
                if entry.kind == "limit"
                else entry
                for name, entry in self._entries.items()
            }
        )


def _valid(name: str) -> str:
    near = difflib.get_close_matches(name.lower().replace("-", "_"), TIMEOUTS, n=3)
    if near:
        return f"the nearest names in the table are {', '.join(near)}"
    return f"the table has {', '.join(TIMEOUTS)}"


TIMEOUTS: Mapping[str, TimeoutEntry] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""The default table."""
