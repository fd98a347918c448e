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

    from pytest_kwait.engine.timeouts import Timeouts
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
"""The source of a value that nobody gave."""


class Setting:
    """A value, where it came from, and the text to show for it."""

    __slots__ = ("given", "source", "value")

    def __init__(self, value: Any, source: str, given: str = "") -> None:
        self.value = value
        self.source = source
        self.given = given


class Settings:
    """The settings in force, for a run or for one test.

    Args:
        values: by name, only those that somebody gave.
        timeouts: seconds by name of the timeout table, only those that somebody gave.
    """

    def __init__(
        self,
        values: Mapping[str, Setting] | None = None,
        timeouts: Mapping[str, Setting] | None = None,
    ) -> None:
        self._values = dict(values or {})
        self._timeouts = dict(timeouts or {})

    def merged(
        self,
        given: Mapping[str, Any],
        source: Callable[[SettingDefinition], str],
        timeouts: Any = None,
    ) -> Settings:
        """Return these settings with a nearer layer on top.

        Args:
            given: raw values by name; None counts as not given.
            source: says where the value of a definition came from.
            timeouts: raw `NAME=DURATION` text or mapping; a list of them is merged in order.

        Raises:
            InvalidArgument: a name is not known, or a value cannot be read.
        """
        values, limits = dict(self._values), dict(self._timeouts)
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
            values[name] = Setting(definition.read(raw, name, origin), origin, shown)
        several = timeouts if isinstance(timeouts, (list, tuple)) else [timeouts]
        for raw in several:
            if raw is None:
                continue
            origin = source(TIMEOUTS)
            for name, seconds in read_timeouts(raw, "timeout", origin).items():
                limits[name] = Setting(seconds, origin, _format_seconds(seconds))
        return Settings(values, limits)

    def setting(self, name: str) -> Setting:
        """Return the value in force with its source.

        Raises:
            InvalidArgument: there is no setting of that name.
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
        """Where the value of a setting came from, for example `env KWAIT_POLL`."""
        return self.setting(name).source

    def given_source(self, name: str) -> str | None:
        """Where the value of a setting came from; None for the default."""
        return self.source(name) if name in self._values else None

    def changed(self) -> Iterator[tuple[str, Setting]]:
        """Name and value of each setting that somebody gave, in the order of the help."""
        for name in SETTING_DEFINITIONS:
            if name in self._values:
                yield name, self._values[name]
        for name in sorted(self._timeouts):
            yield f"timeout {name}", self._timeouts[name]

    @property
    def cluster(self) -> str:
        """Where the cluster comes from."""
        return cast("str", self.setting("cluster").value)

    @property
    def kubeconfig(self) -> Path | None:
        """The kubeconfig that was given."""
        return cast("Path | None", self.setting("kubeconfig").value)

    @property
    def context(self) -> str | None:
        """The context that was given."""
        return cast("str | None", self.setting("context").value)

    @property
    def allowed_contexts(self) -> tuple[str, ...] | None:
        """The contexts that tests may run on, as patterns; None for any."""
        return cast("tuple[str, ...] | None", self.setting("allowed_contexts").value)

    @property
    def timing(self) -> Literal["fast", "real"]:
        """How long the pauses of the embedded cluster are."""
        return cast('Literal["fast", "real"]', self.setting("timing").value)

    @property
    def poll(self) -> float:
        """Seconds between two looks."""
        return cast("float", self.setting("poll").value)

    @property
    def mode(self) -> Literal["watch", "poll"]:
        """How waits look."""
        return cast('Literal["watch", "poll"]', self.setting("mode").value)

    @property
    def fail_fast(self) -> bool:
        """Whether waits end when what they wait for can no longer come."""
        return cast("bool", self.setting("fail_fast").value)

    @property
    def grace(self) -> float | None:
        """Seconds a trouble that may pass must last; None leaves it to the cluster's time."""
        return cast("float | None", self.setting("grace").value)

    @property
    def timeout(self) -> float | None:
        """Seconds each wait of the test may take; None leaves it to the table."""
        return cast("float | None", self.setting("timeout").value)

    @property
    def stable_for(self) -> float | None:
        """Seconds that what is awaited must hold; None for not at all."""
        return cast("float | None", self.setting("stable_for").value)

    @property
    def timeout_scale(self) -> float:
        """What every limit of the table is multiplied with."""
        return cast("float", self.setting("timeout_scale").value)

    @property
    def namespace(self) -> str | None:
        """The existing namespace to use; None to make one."""
        return cast("str | None", self.setting("namespace").value)

    @property
    def namespace_scope(self) -> str:
        """Which tests share a namespace."""
        return cast("str", self.setting("namespace_scope").value)

    @property
    def pod_security(self) -> PodSecurity | None:
        """What pods may do in the namespaces of the run; None to leave it to the cluster."""
        return cast("PodSecurity | None", self.setting("pod_security").value)

    @property
    def namespace_limit(self) -> int:
        """How many namespaces the run may have at a time."""
        return cast("int", self.setting("namespace_limit").value)

    @property
    def namespace_rate(self) -> float:
        """How many namespaces the run may make a second."""
        return cast("float", self.setting("namespace_rate").value)

    @property
    def deletion_wait(self) -> float:
        """Seconds that the end of the run waits until its namespaces are gone."""
        return cast("float", self.setting("deletion_wait").value)

    @property
    def keep(self) -> str:
        """Which namespaces stay after their tests."""
        return cast("str", self.setting("keep").value)

    @property
    def run_id(self) -> str | None:
        """The name that the run was given; None for a random one."""
        return cast("str | None", self.setting("run_id").value)

    @property
    def shard(self) -> RequestedShard | None:
        """The part of the suite that is asked for; None for all of it."""
        return cast("RequestedShard | None", self.setting("shard").value)

    @property
    def session_waits(self) -> bool:
        """Whether tests wait until an existing cluster is ready for them."""
        return cast("bool", self.setting("session_waits").value)

    @property
    def allowed_not_ready_nodes(self) -> int:
        """How many nodes may be not ready before the first test; -1 for any number."""
        return cast("int", self.setting("allowed_not_ready_nodes").value)

    @property
    def non_blocking_taints(self) -> tuple[str, ...]:
        """Keys of taints that nodes may have before the first test."""
        return cast("tuple[str, ...]", self.setting("non_blocking_taints").value)

    @property
    def min_startup_pods(self) -> int:
        """How many system pods must be ready before the first test; -1 not to look at them."""
        return cast("int", self.setting("min_startup_pods").value)

    @property
    def artifacts(self) -> Path | None:
        """Where failed tests write what there is to know of them; None for nowhere."""
        return cast("Path | None", self.setting("artifacts").value)

    @property
    def heartbeat(self) -> float:
        """Seconds between two signs of life of the run."""
        return cast("float", self.setting("heartbeat").value)

    @property
    def janitor(self) -> bool:
        """Whether the run removes what dead runs have left."""
        return cast("bool", self.setting("janitor").value)

    @property
    def is_existing(self) -> bool:
        """Whether the run uses a cluster that it does not start itself."""
        named = self.kubeconfig is not None or self.context is not None
        return self.cluster == "existing" or (self.cluster == "auto" and named)

    @property
    def report(self) -> tuple[Path, ...]:
        """Where reports of the waits are written to; empty for none."""
        return cast("tuple[Path, ...]", self.setting("report").value)

    def timeouts(self) -> Timeouts:
        """Return the timeout table: named limits merged in, then all limits scaled."""
        from pytest_kwait.engine.timeouts import Timeouts

        limits = {name: setting.value for name, setting in self._timeouts.items()}
        table = Timeouts().merged(limits).scaled(self.timeout_scale)
        return table.merged({"poll": self.poll})


def _format_seconds(seconds: float) -> str:
    from pytest_kwait.apimachinery.durations import format_duration

    return format_duration(seconds)
