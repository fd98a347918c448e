"""Settings in force, each with its source, and the precedence of sources.

A layer is a source of values: ini file, environment, command line, a marker. The last layer
that gives a value wins; timeouts are merged name by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.config.options import SETTING_DEFINITIONS, TIMEOUTS, SettingDefinition
from pytest_kwait.suite.config.parsers import read_timeouts, suggest_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pytest_kwait.engine.options import Timeouts
    from pytest_kwait.simulator.image_mapping import ImageMapping
    from pytest_kwait.simulator.network.egress import EgressTarget
    from pytest_kwait.suite.config.parsers import PodSecurity
    from pytest_kwait.suite.shards.split import RequestedShard

__all__ = [
    "DEFAULT_SOURCE",
    "SETTING_DEFINITIONS",
    "TIMEOUTS",
    "Setting",
    "SettingDefinition",
    "Settings",
]

DEFAULT_SOURCE = "default"
"""The source of a default value."""


class Setting:
    """A value, its source, its text for messages, and the number of its layer."""

    __slots__ = ("given", "layer", "source", "value")

    def __init__(self, value: Any, source: str, given: str = "", layer: int = 0) -> None:
        self.value = value
        self.source = source
        self.given = given
        self.layer = layer


class Settings:
    """The settings in force, for a run or for one test.

    Args:
        values: given values by name.
        timeouts: given seconds by name of the timeout table.
        layers: the number of layers that were merged.
    """

    def __init__(
        self,
        values: Mapping[str, Setting] | None = None,
        timeouts: Mapping[str, Setting] | None = None,
        layers: int = 0,
    ) -> None:
        self._values = dict(values or {})
        self._timeouts = dict(timeouts or {})
        self._layers = layers

    def merged(
        self,
        given: Mapping[str, Any],
        source: Callable[[SettingDefinition], str],
        timeouts: Any = None,
    ) -> Settings:
        """Return these settings overridden by a further layer.

        Args:
            given: raw values by name; None counts as not given.
            source: returns the source of a definition's value.
            timeouts: raw `NAME=DURATION` text or mapping; a list of them is merged in order.

        Raises:
            InvalidArgument: an unknown name or an invalid value.
        """
        values, limits = dict(self._values), dict(self._timeouts)
        layer = self._layers + 1
        for name, raw in given.items():
            if raw is None:
                continue
            definition = SETTING_DEFINITIONS.get(name)
            if definition is None:
                near = suggest_name(name, list(SETTING_DEFINITIONS))
                raise InvalidArgument(
                    name, raw, f"{near}the settings are {', '.join(SETTING_DEFINITIONS)}"
                )
            origin = source(definition)
            shown = ", ".join(raw) if isinstance(raw, list) else str(raw)
            values[name] = Setting(definition.read(raw, name, origin), origin, shown, layer)
        several = timeouts if isinstance(timeouts, (list, tuple)) else [timeouts]
        for raw in several:
            if raw is None:
                continue
            origin = source(TIMEOUTS)
            for name, seconds in read_timeouts(raw, "timeout", origin).items():
                limits[name] = Setting(seconds, origin, _format_seconds(seconds), layer)
        return Settings(values, limits, layer)

    def setting(self, name: str) -> Setting:
        """Return the value in force with its source.

        Raises:
            InvalidArgument: an unknown name.
        """
        if name not in SETTING_DEFINITIONS:
            near = suggest_name(name, list(SETTING_DEFINITIONS))
            raise InvalidArgument(
                "setting", name, f"{near}the settings are {', '.join(SETTING_DEFINITIONS)}"
            )
        if name in self._values:
            return self._values[name]
        if name == "poll" and "poll" in self._timeouts:
            return self._timeouts["poll"]
        return Setting(SETTING_DEFINITIONS[name].default, DEFAULT_SOURCE)

    def source(self, name: str) -> str:
        """The source of a setting's value, for example `env KWAIT_POLL`."""
        return self.setting(name).source

    def given_source(self, name: str) -> str | None:
        """The source of a setting's value; None for the default."""
        return self.source(name) if name in self._values else None

    def changed(self) -> Iterator[tuple[str, Setting]]:
        """Names and values of given settings, in the order of the help."""
        for name in SETTING_DEFINITIONS:
            if name in self._values:
                yield name, self._values[name]
        for name in sorted(self._timeouts):
            yield f"timeout {name}", self._timeouts[name]

    @property
    def cluster(self) -> str:
        """The source of the cluster."""
        return cast("str", self.setting("cluster").value)

    @property
    def kubeconfig(self) -> Path | None:
        """The given kubeconfig."""
        return cast("Path | None", self.setting("kubeconfig").value)

    @property
    def context(self) -> str | None:
        """The given context."""
        return cast("str | None", self.setting("context").value)

    @property
    def allowed_contexts(self) -> tuple[str, ...] | None:
        """Patterns of contexts in which tests may run; None for any."""
        return cast("tuple[str, ...] | None", self.setting("allowed_contexts").value)

    @property
    def timing(self) -> Literal["fast", "real"]:
        """The timing of the embedded cluster."""
        return cast('Literal["fast", "real"]', self.setting("timing").value)

    @property
    def api_only(self) -> bool:
        """True if the embedded cluster is an API server alone."""
        return cast("bool", self.setting("api_only").value)

    @property
    def image(self) -> tuple[ImageMapping, ...]:
        """The images that are mapped to programs."""
        return cast("tuple[ImageMapping, ...]", self.setting("image").value)

    @property
    def egress(self) -> tuple[EgressTarget, ...]:
        """The hosts and ports outside of the cluster that pods may reach."""
        return cast("tuple[EgressTarget, ...]", self.setting("egress").value)

    @property
    def poll(self) -> float:
        """Seconds between requests in poll mode."""
        return cast("float", self.setting("poll").value)

    @property
    def mode(self) -> Literal["watch", "poll"]:
        """The method by which waits observe the cluster."""
        return cast('Literal["watch", "poll"]', self.setting("mode").value)

    @property
    def fail_fast(self) -> bool:
        """Return whether waits fail early."""
        return cast("bool", self.setting("fail_fast").value)

    @property
    def grace(self) -> float | None:
        """Seconds that a problem must last before a wait fails early; None for the default."""
        return cast("float | None", self.setting("grace").value)

    @property
    def timeout(self) -> float | None:
        """Seconds of each wait of the test; None for the timeout table."""
        return cast("float | None", self.setting("timeout").value)

    @property
    def stable_for(self) -> float | None:
        """Seconds that conditions must hold; None for none."""
        return cast("float | None", self.setting("stable_for").value)

    @property
    def timeout_scale(self) -> float:
        """Factor for every limit of the timeout table."""
        return cast("float", self.setting("timeout_scale").value)

    @property
    def namespace(self) -> str | None:
        """The existing namespace to use; None to create namespaces."""
        return cast("str | None", self.setting("namespace").value)

    @property
    def namespace_scope(self) -> str:
        """Which tests share a namespace."""
        return cast("str", self.setting("namespace_scope").value)

    @property
    def pod_security(self) -> PodSecurity | None:
        """The level enforced in the run's namespaces; None for the cluster's default."""
        return cast("PodSecurity | None", self.setting("pod_security").value)

    @property
    def namespace_limit(self) -> int:
        """Maximum number of namespaces at a time."""
        return cast("int", self.setting("namespace_limit").value)

    @property
    def namespace_rate(self) -> float:
        """Maximum number of namespaces created per second."""
        return cast("float", self.setting("namespace_rate").value)

    @property
    def deletion_wait(self) -> float:
        """Seconds that the end of the run waits for deletions of namespaces."""
        return cast("float", self.setting("deletion_wait").value)

    @property
    def keep(self) -> str:
        """Which namespaces are kept after their tests."""
        return cast("str", self.setting("keep").value)

    @property
    def run_id(self) -> str | None:
        """The given id of the run; None for a random one."""
        return cast("str | None", self.setting("run_id").value)

    @property
    def shard(self) -> RequestedShard | None:
        """The requested shard; None for the whole suite."""
        return cast("RequestedShard | None", self.setting("shard").value)

    @property
    def session_waits(self) -> bool:
        """Return whether tests wait until an existing cluster is ready."""
        return cast("bool", self.setting("session_waits").value)

    @property
    def allowed_not_ready_nodes(self) -> int:
        """Nodes that may be not ready before the first test; -1 to skip the check."""
        return cast("int", self.setting("allowed_not_ready_nodes").value)

    @property
    def non_blocking_taints(self) -> tuple[str, ...]:
        """Taints that do not make a node count as not ready."""
        return cast("tuple[str, ...]", self.setting("non_blocking_taints").value)

    @property
    def min_startup_pods(self) -> int:
        """System pods that must be ready before the first test; -1 to skip the check."""
        return cast("int", self.setting("min_startup_pods").value)

    @property
    def artifacts(self) -> Path | None:
        """The folder for artifacts; None for none."""
        return cast("Path | None", self.setting("artifacts").value)

    @property
    def heartbeat(self) -> float:
        """Seconds between two renewals of the run's Lease."""
        return cast("float", self.setting("heartbeat").value)

    @property
    def janitor(self) -> bool:
        """Return whether the run deletes objects of dead runs."""
        return cast("bool", self.setting("janitor").value)

    @property
    def is_existing(self) -> bool:
        """Return whether the run uses a cluster that it does not start."""
        named = self.kubeconfig is not None or self.context is not None
        return self.cluster == "existing" or (self.cluster == "auto" and named)

    @property
    def report(self) -> tuple[Path, ...]:
        """The paths of reports."""
        return cast("tuple[Path, ...]", self.setting("report").value)

    def wait_timeout(self, name: str) -> float | None:
        """Return the seconds of waits that a `timeout` sets; None where the table applies.

        A named timeout of the same layer as `timeout`, or of a later one, applies instead.

        Args:
            name: the name of the wait's timeout in the table.
        """
        every, named = self._values.get("timeout"), self._timeouts.get(name)
        if every is None or (named is not None and named.layer >= every.layer):
            return None
        return cast("float", every.value)

    def wait_options(self, timeout: str, poll: str) -> dict[str, Any]:
        """Return the options of a wait that differ from the defaults.

        Args:
            timeout: the name of its limit in the timeout table.
            poll: the name of its pause there.
        """
        from pytest_kwait.engine.options import TIMEOUTS as DEFAULTS

        options = {
            name: self.setting(name).value
            for name in ("mode", "fail_fast", "grace", "stable_for")
            if self.source(name) != DEFAULT_SOURCE
        }
        table = self.timeouts()
        limit = self.wait_timeout(timeout) or table[timeout]
        if limit != DEFAULTS[timeout].seconds:
            options["timeout"] = limit
        pause = table[poll] if self.source("poll") == DEFAULT_SOURCE else self.poll
        if pause != DEFAULTS[poll].seconds:
            options["poll"] = pause
        return {name: value for name, value in options.items() if value is not None}

    def timeouts(self) -> Timeouts:
        """Return the timeout table: named limits merged in, then all limits scaled."""
        from pytest_kwait.engine.options import Timeouts

        limits = {name: setting.value for name, setting in self._timeouts.items()}
        table = Timeouts().merged(limits).scaled(self.timeout_scale)
        return table.merged({"poll": self.poll})


def _format_seconds(seconds: float) -> str:
    from pytest_kwait.apimachinery.times import format_duration

    return format_duration(seconds)
