"""Options that every wait takes, validation of wait arguments, and the table of default timeouts.

The first entries of the table are the fields of the Go framework's `TimeoutContext` that a wait
uses; the others are constants of its helpers.

Source: kubernetes/test/e2e/framework, release 1.36; files are relative to it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypedDict, cast, get_args

from pytest_kwait.apimachinery.times import Duration, to_seconds
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.wait.context import Stop, parse_stop

if TYPE_CHECKING:
    from pytest_kwait.client.session import ApiSession


Mode = Literal["watch", "poll"]

GRACE_SHORT = 5.0
"""Seconds that an unrecoverable failed state must hold."""

GRACE_LONG = 45.0
"""Seconds that a recoverable failed state must hold: at least one retry of the kubelet."""

SETTLE_MIN = 1.0
"""Minimum seconds that an unsettled count must hold; pods on a loaded machine start that apart."""

_SECOND = 1.0
_MINUTE = 60.0
_CONTEXT = "timeouts.go TimeoutContext."


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
    TimeoutEntry(
        "serial", 30 * _MINUTE, "as node_schedulable: no other test may use the cluster before"
    ),
    TimeoutEntry(
        "environment", 10 * _MINUTE, "as stateful_set: environments of a run are often databases"
    ),
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
        entry = self._entries.get(name)
        if entry is None:
            raise InvalidArgument("timeout name", name, _valid(str(name)), source)
        return entry

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
        """Return the table with every limit multiplied by `factor`, up to the longest duration.

        Pauses keep their value.
        """
        from pytest_kwait.apimachinery.times import MAX_SECONDS

        if factor == 1:
            return self
        return Timeouts(
            {
                name: replace(entry, seconds=min(entry.seconds * factor, MAX_SECONDS))
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


class WaitOptions(TypedDict, total=False):
    """Keyword arguments of every wait; None means the default."""

    timeout: Duration | None
    """The limit; a duration above zero. Default: the wait's entry in the timeout table."""

    poll: Duration | None
    """The interval of poll mode, and of parts that cannot be watched. Default: 2 s."""

    mode: Mode | None
    """`watch` (default) or `poll`."""

    fail_fast: bool | None
    """True if the wait ends once the condition can no longer be met. Default: True."""

    grace: Duration | None
    """Duration that a recoverable failed state must hold. Default: 45 s."""

    stable_for: Duration | None
    """Duration that the condition must hold without a break. Default: 0."""

    follow_name: bool | None
    """True if an object that is deleted and created anew under its name counts as the awaited one.
    Default: False with `fail_fast`, True without."""

    stop: Stop | None
    """Ends the wait with `pytest_kwait.wait.Canceled`: an event, a function that returns True, or a
    context of `wait`. It is looked at every 50 ms. Default: None."""


@dataclass(frozen=True, slots=True)
class WaitSettings:
    """Options with their defaults filled in, durations in seconds.

    Args:
        timeout: the limit of the whole wait.
        poll: the interval of poll mode.
        mode: watch or poll.
        fail_fast: whether failed states end the wait.
        grace: how long a recoverable failed state must hold; None for the default.
        stable_for: how long the condition must hold.
        follow_name: whether the identity of an object is its name, not its UID; None if it is so
            without `fail_fast`.
        stop: returns whether the wait is to end; None if nothing stops it.
        time_scale: returns the speed of the cluster's controllers, as a fraction of a real
            cluster's times; the default graces shrink with it. The cluster may say it only in its
            first answer.
        limit_name: the name of the default limit in the timeout table; empty for none.
    """

    timeout: float
    poll: float = TIMEOUTS["poll"].seconds
    mode: Mode = "watch"
    fail_fast: bool = True
    grace: float | None = None
    stable_for: float = 0.0
    follow_name: bool | None = None
    time_scale: Callable[[], float] = field(default=lambda: 1.0, compare=False)
    stop: Callable[[], bool] | None = None
    limit_name: str = field(default="", compare=False)

    @property
    def follows_name(self) -> bool:
        """True if the identity of an object is its name."""
        return not self.fail_fast if self.follow_name is None else self.follow_name

    @property
    def settle_time(self) -> float:
        """Seconds that an exact count must hold if its controllers may want another number.

        One interval of poll mode, so that both modes agree; it shrinks with the cluster's times to
        a second, and never takes more than half of the limit.
        """
        scaled = max(self.poll * self.time_scale(), min(self.poll, SETTLE_MIN))
        return min(scaled, self.timeout / 2)

    @property
    def long_grace(self) -> float:
        """Seconds that a recoverable failed state must hold."""
        return GRACE_LONG * self.time_scale() if self.grace is None else self.grace

    @property
    def outside_grace(self) -> float:
        """Seconds that a failed state must hold which is not the cluster's to end."""
        return GRACE_LONG if self.grace is None else self.grace

    @property
    def short_grace(self) -> float:
        """Seconds that an unrecoverable failed state must hold; at most the long grace."""
        return min(GRACE_SHORT * self.time_scale(), self.long_grace)


def resolve_options(
    options: WaitOptions | Mapping[str, Any],
    *,
    timeout: str,
    poll: str = "poll",
    session: ApiSession | None = None,
) -> WaitSettings:
    """Return the options with their defaults filled in.

    Args:
        options: the given options.
        timeout: the entry of the default limit in the timeout table.
        poll: the entry of the default interval.
        session: the session whose settings in force fill in what is not given; None for none.

    Raises:
        InvalidArgument: an unknown option, or an invalid value.
    """
    given = {name: value for name, value in options.items() if value is not None}
    unknown = sorted(set(options) - set(WaitOptions.__annotations__))
    if unknown:
        raise InvalidArgument("wait option", unknown[0], f"a wait takes {list_option_names()}")
    if session is not None:
        given = {**session.default_options(timeout, poll), **given}
    mode = given.get("mode", "watch")
    if mode not in get_args(Mode):
        raise InvalidArgument("mode", mode, "use 'watch' or 'poll'")
    fail_fast = check_bool("fail_fast", given.get("fail_fast", True))
    follow_name = None
    if "follow_name" in given:
        follow_name = check_bool("follow_name", given["follow_name"])
    return WaitSettings(
        timeout=_seconds(given, "timeout", TIMEOUTS[timeout].seconds, allow_zero=False),
        poll=_seconds(given, "poll", TIMEOUTS[poll].seconds, allow_zero=False),
        mode=cast("Mode", mode),
        fail_fast=fail_fast,
        grace=_seconds(given, "grace", 0.0) if "grace" in given else None,
        stable_for=_seconds(given, "stable_for", 0.0),
        follow_name=follow_name,
        stop=None if given.get("stop") is None else parse_stop(given["stop"]),
        limit_name=timeout,
    )


def _seconds(
    given: Mapping[str, Any], name: str, default: float, *, allow_zero: bool = True
) -> float:
    if name not in given:
        return default
    return to_seconds(given[name], what=name, allow_zero=allow_zero)


def list_option_names() -> str:
    """Return the names of all options, and of those that only methods and fixtures take."""
    names = ", ".join(WaitOptions.__annotations__)
    return f"{names}; methods and fixtures also take namespace and as_model"


def check_count(what: str, value: object, *, least: int = 0) -> int:
    """Return `value` as a count.

    Raises:
        InvalidArgument: not a whole number, or less than `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgument(what, value, f"use a whole number, {least} or more")
    return value


def check_text(what: str, value: object, *, empty: bool = False) -> str:
    """Return `value` as a text.

    Raises:
        InvalidArgument: not a text, or empty without `empty`.
    """
    if not isinstance(value, str) or not (value or empty):
        raise InvalidArgument(what, value, f"use a text{', or an empty one' if empty else ''}")
    return value


def check_bool(what: str, value: object) -> bool:
    """Return `value` as a bool.

    Raises:
        InvalidArgument: not a bool.
    """
    if not isinstance(value, bool):
        raise InvalidArgument(what, value, "use True or False")
    return value


class Target(NamedTuple):
    """A kind, and one object of it.

    Args:
        kind: a kind, plural, singular or short name, perhaps with its group.
        name: the object's name; empty for all objects of the kind.
        uid: its UID, where the object itself was given; else empty.
    """

    kind: str
    name: str
    uid: str = ""


class TargetText(str):
    """The `kind/name` of an object that was given itself.

    Args:
        uid: its UID; empty if unknown.
    """

    __slots__ = ("uid",)

    uid: str

    def __new__(cls, text: str, uid: str) -> Self:
        """Return the text with the UID."""
        target = super().__new__(cls, text)
        target.uid = uid
        return target


def parse_target(what: str, value: object) -> Target:
    """Return the kind and name of a text such as `deployment/web` or `pods`.

    Raises:
        InvalidArgument: any other text.
    """
    if isinstance(value, str):
        kind, slash, name = value.partition("/")
        if kind and bool(slash) == bool(name) and "/" not in name and not set(value) & set(" %"):
            return Target(kind, name, value.uid if isinstance(value, TargetText) else "")
    raise InvalidArgument(what, value, "use 'kind/name' or 'kind', for example 'deployment/web'")
