"""Every setting with where its value came from, and the rule which of several values is in force.

A layer is a place that values come from: ini file, environment, command line, a marker. The nearest
layer that gives a value wins; timeouts win name by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.values import (
    Reader,
    read_bool,
    read_choice,
    read_dns_label,
    read_duration,
    read_path,
    read_pause,
    read_scale,
    read_text,
    read_timeouts,
    suggestion,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pytest_kwait.engine.timeouts import Timeouts

__all__ = ["DEFAULT", "DEFINITIONS", "Definition", "Setting", "Settings"]

DEFAULT = "default"
"""The source of a value that nobody gave."""


# Plain classes, where dataclasses or named tuples would do: the code of those is compiled each time
# that the plugin is loaded.


class Setting:
    """A value, where it came from, and the text to show for it."""

    __slots__ = ("given", "source", "value")

    def __init__(self, value: Any, source: str, given: str = "") -> None:
        self.value = value
        self.source = source
        self.given = given


class Definition:
    """What a setting is called, how it is read, what it is unless given.

    Args:
        name: as in `kwait.settings`; `--kwait-…`, `KWAIT_…` and `kwait_…` follow from it.
        read: turns what was given into the value, or refuses it.
        default: the value when nobody gave one.
        metavar: what stands for the value in the help.
        help: the help text, without the default.
        scope: `test` if a marker can set it for one test, `run` if it belongs to the whole run.
        option: whether it has an option, an environment name and an ini name.
    """

    __slots__ = ("default", "help", "metavar", "name", "option", "read", "scope")

    def __init__(
        self,
        name: str,
        read: Reader,
        default: Any,
        metavar: str,
        help: str,
        scope: Literal["run", "test"] = "run",
        *,
        option: bool = True,
    ) -> None:
        self.name = name
        self.read = read
        self.default = default
        self.metavar = metavar
        self.help = help
        self.scope = scope
        self.option = option

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return "--kwait-" + self.name.replace("_", "-")

    @property
    def env(self) -> str:
        """The name in the environment."""
        return "KWAIT_" + self.name.upper()

    @property
    def ini(self) -> str:
        """The name in the ini file."""
        return "kwait_" + self.name


_ALL = (
    Definition(
        "cluster",
        read_choice("auto", "existing", "embedded"),
        "auto",
        "{auto,existing,embedded}",
        "where the cluster comes from: auto (a kubeconfig or context given by option, environment "
        "or ini, else embedded), existing (the same, else the standard loading rules: KUBECONFIG, "
        "~/.kube/config, in-cluster), embedded (started for this run)",
    ),
    Definition(
        "kubeconfig",
        read_path,
        None,
        "FILE",
        "kubeconfig file of the cluster to use",
    ),
    Definition(
        "context",
        read_text,
        None,
        "NAME",
        "context of the kubeconfig to use, instead of its current one",
    ),
    Definition(
        "poll",
        read_pause,
        2.0,
        "DURATION",
        "pause between two looks in poll mode, and at what cannot be watched",
        "test",
    ),
    Definition(
        "mode",
        read_choice("watch", "poll"),
        "watch",
        "{watch,poll}",
        "how waits look: watch (list, then watch) or poll (list every poll interval)",
        "test",
    ),
    Definition(
        "fail_fast",
        read_bool,
        True,
        "{true,false}",
        "whether a wait ends at once when what it waits for can no longer come",
        "test",
    ),
    Definition(
        "grace",
        read_duration,
        None,
        "DURATION",
        "how long a trouble that may pass must last before a wait calls it final (45s; on the "
        "embedded cluster as much shorter as its time is faster)",
        "test",
    ),
    Definition(
        "timeout",
        read_pause,
        None,
        "DURATION",
        "limit of each wait of the test, whatever the table says",
        "test",
        option=False,
    ),
    Definition(
        "stable_for",
        read_duration,
        None,
        "DURATION",
        "how long what is awaited must hold without a break",
        "test",
        option=False,
    ),
    Definition(
        "timeout_scale",
        read_scale,
        1.0,
        "FACTOR",
        "multiplies every limit of the timeout table, named ones included, for slow machines",
    ),
    Definition(
        "namespace",
        read_dns_label,
        None,
        "NAME",
        "use this namespace, which must exist; make and delete none",
    ),
    Definition(
        "namespace_scope",
        read_choice("test", "class", "module", "session"),
        "test",
        "{test,class,module,session}",
        "which tests share a namespace",
    ),
    Definition(
        "keep",
        read_choice("never", "failed", "always"),
        "never",
        "{never,failed,always}",
        "which namespaces stay after their tests: never, of failed tests, or always; what was made "
        "outside of the namespace stays with it",
        "test",
    ),
    Definition(
        "run_id",
        read_dns_label,
        None,
        "ID",
        "name of this run in the names, labels and annotations of what it makes (random)",
    ),
)

DEFINITIONS: Mapping[str, Definition] = {definition.name: definition for definition in _ALL}
"""Every setting but the table of timeouts, which is set name by name."""

TIMEOUTS = Definition(
    "timeout",
    read_timeouts,
    {},
    "NAME=DURATION",
    "one limit of the timeout table, for example job=5m; repeatable, as environment and ini a "
    "comma-separated list",
    "test",
)
"""The option behind the table of timeouts; markers call it `timeouts`."""


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
        source: Callable[[Definition], str],
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
            definition = DEFINITIONS.get(name)
            if definition is None:
                near = suggestion(name, list(DEFINITIONS))
                raise InvalidArgument(name, raw, f"{near}the settings are {', '.join(DEFINITIONS)}")
            origin = source(definition)
            values[name] = Setting(definition.read(raw, name, origin), origin, str(raw))
        several = timeouts if isinstance(timeouts, (list, tuple)) else [timeouts]
        for raw in several:
            if raw is None:
                continue
            origin = source(TIMEOUTS)
            for name, seconds in read_timeouts(raw, "timeout", origin).items():
                limits[name] = Setting(seconds, origin, _written(seconds))
        return Settings(values, limits)

    def setting(self, name: str) -> Setting:
        """Return the value in force with its source.

        Raises:
            InvalidArgument: there is no setting of that name.
        """
        if name not in DEFINITIONS:
            near = suggestion(name, list(DEFINITIONS))
            raise InvalidArgument(
                "setting", name, f"{near}the settings are {', '.join(DEFINITIONS)}"
            )
        if name in self._values:
            return self._values[name]
        if name == "poll" and "poll" in self._timeouts:
            return self._timeouts["poll"]
        return Setting(DEFINITIONS[name].default, DEFAULT)

    def source(self, name: str) -> str:
        """Where the value of a setting came from, for example `env KWAIT_POLL`."""
        return self.setting(name).source

    def changed(self) -> Iterator[tuple[str, Setting]]:
        """Name and value of each setting that somebody gave, in the order of the help."""
        for name in DEFINITIONS:
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
    def keep(self) -> str:
        """Which namespaces stay after their tests."""
        return cast("str", self.setting("keep").value)

    @property
    def run_id(self) -> str | None:
        """The name that the run was given; None for a random one."""
        return cast("str | None", self.setting("run_id").value)

    def timeouts(self) -> Timeouts:
        """Return the timeout table: named limits merged in, then all limits scaled."""
        from pytest_kwait.engine.timeouts import Timeouts

        limits = {name: setting.value for name, setting in self._timeouts.items()}
        table = Timeouts().merged(limits).scaled(self.timeout_scale)
        return table.merged({"poll": self.poll})


def _written(seconds: float) -> str:
    from pytest_kwait.wait.durations import format_duration

    return format_duration(seconds)
