"""Settings in force, each with its source; the precedence of sources.

A layer is a source of values: ini file, environment, command line, a marker. The last layer
that gives a value wins; timeouts are merged name by name. Below all of them are the timeouts of a
suite's fixture `kwait_timeouts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.config import values as parsers
from pytest_kwait.suite.config.options import (
    SETTING_DEFINITIONS,
    TIMEOUTS,
    ClusterSettings,
    EmbeddedSettings,
    ExplorationSettings,
    LocalClusterSettings,
    NamespaceSettings,
    RunSettings,
    SettingDefinition,
    WaitingSettings,
)
from pytest_kwait.suite.config.values import (
    Reader,
    read_choice,
    read_positive_duration,
    read_timeouts,
    suggest_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kwait.engine.options import TimeoutEntry, Timeouts

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


class Settings(
    ClusterSettings,
    EmbeddedSettings,
    LocalClusterSettings,
    WaitingSettings,
    NamespaceSettings,
    RunSettings,
    ExplorationSettings,
):
    """The settings in force, for a run or for one test.

    Each definition of `options` is an attribute.

    Args:
        values: given values by name.
        timeouts: given seconds by name of the timeout table.
        layers: the number of layers that were merged.
        suite_timeouts: entries of the timeout table that the suite changes or adds.
    """

    def __init__(
        self,
        values: Mapping[str, Setting] | None = None,
        timeouts: Mapping[str, Setting] | None = None,
        layers: int = 0,
        suite_timeouts: Mapping[str, TimeoutEntry] | None = None,
    ) -> None:
        self._values = dict(values or {})
        self._timeouts = dict(timeouts or {})
        self._layers = layers
        self._suite_timeouts = dict(suite_timeouts or {})

    def merged(
        self,
        raw_values: Mapping[str, Any],
        source: Callable[[SettingDefinition[Any]], str],
        timeouts: Any = None,
    ) -> Settings:
        """Return these settings overridden by a further layer.

        Args:
            raw_values: raw values by name; None counts as not given.
            source: returns the source of a definition's value.
            timeouts: raw `NAME=DURATION` text or mapping; a list of them is merged in order.

        Raises:
            InvalidArgument: an unknown name or an invalid value.
        """
        values, limits = dict(self._values), dict(self._timeouts)
        layer = self._layers + 1
        for name, raw in raw_values.items():
            if raw is None:
                continue
            definition = SETTING_DEFINITIONS.get(name)
            if definition is None:
                near = suggest_name(name, list(SETTING_DEFINITIONS))
                raise InvalidArgument(
                    name, raw, f"{near}the settings are {', '.join(SETTING_DEFINITIONS)}"
                )
            origin = source(definition)
            value = reader_of(definition)(raw, name, origin)
            values[name] = Setting(value, origin, _format_given(raw), layer)
        several = timeouts if isinstance(timeouts, (list, tuple)) else [timeouts]
        for raw in several:
            if raw is None:
                continue
            origin = source(TIMEOUTS)
            for name, seconds in read_timeouts(raw, "timeout", origin).items():
                limits[name] = Setting(seconds, origin, _format_seconds(seconds), layer)
        return Settings(values, limits, layer, self._suite_timeouts)

    def without(self, names: Iterable[str]) -> Settings:
        """Return these settings with the defaults of some."""
        left_out = set(names)
        values = {name: value for name, value in self._values.items() if name not in left_out}
        return Settings(values, self._timeouts, self._layers, self._suite_timeouts)

    def with_suite_timeouts(self, entries: Mapping[str, TimeoutEntry]) -> Settings:
        """Return these settings with other defaults of the timeout table, below every layer."""
        return Settings(self._values, self._timeouts, self._layers, entries)

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
        if name == "poll" and "poll" in self._suite_timeouts:
            entry = self._suite_timeouts["poll"]
            return Setting(entry.seconds, entry.source)
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
    def run_deletion_wait(self) -> float | None:
        """Seconds that the end of the run waits for deletions; None if it only looks once."""
        deletion_wait = self.setting("deletion_wait")
        return (
            None if deletion_wait.source == DEFAULT_SOURCE else cast("float", deletion_wait.value)
        )

    @property
    def recorded(self) -> Literal["never", "failed", "always"]:
        """Which tests are recorded: none without a folder; by default on an embedded cluster."""
        if self.artifacts is None:
            return "never"
        return self.record or ("failed" if self.is_embedded else "never")

    @property
    def is_existing(self) -> bool:
        """Return whether the run uses a cluster that it does not start."""
        named = self.kubeconfig is not None or self.context is not None
        return self.cluster == "existing" or (self.cluster == "auto" and named)

    @property
    def is_embedded(self) -> bool:
        """Return whether the run uses an embedded cluster that it starts."""
        return self.cluster == "embedded" or (self.cluster == "auto" and not self.is_existing)

    @property
    def is_alone(self) -> bool:
        """Return whether no other run can use the cluster, whatever else is set."""
        return self.is_embedded or self.cluster == "binaries"

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
        return self.unscaled_timeouts().scaled(self.timeout_scale)

    def unscaled_timeouts(self) -> Timeouts:
        """Return the timeout table before its limits are scaled."""
        from pytest_kwait.engine.options import TIMEOUTS as DEFAULTS
        from pytest_kwait.engine.options import Timeouts

        limits = {name: setting.value for name, setting in self._timeouts.items()}
        table = Timeouts({**DEFAULTS, **self._suite_timeouts})
        return table.merged({**limits, "poll": self.poll})


def _format_given(raw: object) -> str:
    """Return a valid value as an option or an ini file has it."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str):
        return "; ".join(line.strip() for line in raw.strip().splitlines())
    if isinstance(raw, Mapping):
        raw = [f"{name}={value}" for name, value in raw.items()]
    if isinstance(raw, list):
        return ", ".join(
            "{" + _format_given(item) + "}" if isinstance(item, Mapping) else item for item in raw
        )
    return str(raw)


def _format_seconds(seconds: float) -> str:
    from pytest_kwait.apimachinery.times import format_duration

    return format_duration(seconds)


def reader_of(definition: SettingDefinition[Any]) -> Reader:
    """Return the parser of a setting's values."""
    if isinstance(definition.kind, tuple):
        return read_choice(*definition.kind)
    read: Reader = getattr(parsers, f"read_{definition.kind}")
    return read


def read_suite_timeouts(fixture_value: Any, table: Timeouts) -> dict[str, TimeoutEntry]:
    """Return the entries by which a suite's fixture `kwait_timeouts` differs from `table`.

    Args:
        fixture_value: a mapping of names to durations; names of a suite's own are kept.
        table: what the plugin's fixture of that name gives to it.

    Raises:
        InvalidArgument: it is no mapping, or one of its values is no duration.
    """
    from pytest_kwait.engine.options import TimeoutEntry

    fixture = "fixture kwait_timeouts"
    if not isinstance(fixture_value, Mapping):
        valid = 'it returns a mapping of names to durations, for example {"job": "5m"}'
        raise InvalidArgument(fixture, fixture_value, valid)
    entries = {}
    for name, duration in fixture_value.items():
        seconds = read_positive_duration(duration, f"timeout {name}", fixture)
        if seconds != table.get(name):
            kind = table.entry(name).kind if name in table else "limit"
            entries[name] = TimeoutEntry(name, seconds, fixture, kind)
    return entries
