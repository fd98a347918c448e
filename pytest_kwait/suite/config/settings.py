"""Settings in force, each with its source; the precedence of sources, and parsers of values.

A layer is a source of values: ini file, environment, command line, a marker. The last layer
that gives a value wins; timeouts are merged name by name.

Each parser takes the value, the name of the setting and its source; every error names all
three and what is valid. Text comes from options, the environment and ini files, Python
values from markers. `PodSecurity` is the level that PodSecurity admission enforces in the
namespaces of a run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.config.options import SETTING_DEFINITIONS, TIMEOUTS, SettingDefinition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.engine.options import Timeouts
    from pytest_kwait.simulator.image_mapping import ImageMapping
    from pytest_kwait.simulator.network.egress import EgressTarget
    from pytest_kwait.suite.explore.plan import Effort
    from pytest_kwait.suite.shards.split import RequestedShard

Reader = Callable[[Any, str, str | None], Any]

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
            value = reader_of(definition)(raw, name, origin)
            values[name] = Setting(value, origin, _format_given(raw), layer)
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
    def assets(self) -> Path | None:
        """The given folder of etcd and kube-apiserver."""
        return cast("Path | None", self.setting("assets").value)

    @property
    def cluster_name(self) -> str | None:
        """The name of a local cluster; None for a new one."""
        return cast("str | None", self.setting("cluster_name").value)

    @property
    def node_image(self) -> str | None:
        """The image of a local cluster's nodes."""
        return cast("str | None", self.setting("node_image").value)

    @property
    def cluster_config(self) -> Path | None:
        """The configuration file of a new local cluster."""
        return cast("Path | None", self.setting("cluster_config").value)

    @property
    def cluster_args(self) -> tuple[str, ...]:
        """Further arguments of the command that creates a local cluster."""
        return cast("tuple[str, ...]", self.setting("cluster_args").value)

    @property
    def load_image(self) -> tuple[str, ...]:
        """The images to load into the nodes of a local cluster."""
        return cast("tuple[str, ...]", self.setting("load_image").value)

    @property
    def keep_cluster(self) -> Literal["never", "failed", "always"]:
        """Which clusters that the run has created are kept."""
        return cast('Literal["never", "failed", "always"]', self.setting("keep_cluster").value)

    @property
    def timing(self) -> Literal["fast", "real"]:
        """The timing of the embedded cluster."""
        return cast('Literal["fast", "real"]', self.setting("timing").value)

    @property
    def api_only(self) -> bool:
        """True if the embedded cluster is an API server alone."""
        return cast("bool", self.setting("api_only").value)

    @property
    def controllers(self) -> bool:
        """True if a control plane of binaries has controllers, a scheduler and nodes."""
        return cast("bool", self.setting("controllers").value)

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
    def audit(self) -> bool:
        """True if the end of the run lists waits that prove nothing."""
        return cast("bool", self.setting("audit").value)

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
        """Seconds that the end of a test waits for deletions in a given namespace."""
        return cast("float", self.setting("deletion_wait").value)

    @property
    def run_deletion_wait(self) -> float | None:
        """Seconds that the end of the run waits for deletions; None if it only looks once."""
        given = self.setting("deletion_wait")
        return None if given.source == DEFAULT_SOURCE else cast("float", given.value)

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
    def record(self) -> Literal["never", "failed", "always"] | None:
        """Which tests are to be recorded; None if not given."""
        return cast('Literal["never", "failed", "always"] | None', self.setting("record").value)

    @property
    def recorded(self) -> Literal["never", "failed", "always"]:
        """Which tests are recorded: none without a folder; by default on an embedded cluster."""
        if self.artifacts is None:
            return "never"
        return self.record or ("failed" if self.is_embedded else "never")

    @property
    def explore(self) -> Effort | None:
        """The amount of exploring; None for a run that explores nothing."""
        return cast("Effort | None", self.setting("explore").value)

    @property
    def seed(self) -> int | None:
        """The given seed; None for a new one."""
        return cast("int | None", self.setting("seed").value)

    @property
    def explore_level(self) -> Literal["gentle", "usual", "harsh"]:
        """The level of perturbations: how often and how much."""
        return cast('Literal["gentle", "usual", "harsh"]', self.setting("explore_level").value)

    @property
    def perturbations(self) -> tuple[str, ...] | None:
        """The only perturbations; None for all of the level."""
        return cast("tuple[str, ...] | None", self.setting("perturbations").value)

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
    def is_embedded(self) -> bool:
        """Return whether the run uses an embedded cluster that it starts."""
        return self.cluster == "embedded" or (self.cluster == "auto" and not self.is_existing)

    @property
    def is_alone(self) -> bool:
        """Return whether no other run can use the cluster, whatever else is set."""
        return self.is_embedded or self.cluster == "binaries"

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


def _format_given(raw: object) -> str:
    """Return a valid value as an option or an ini file has it."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, Mapping):
        raw = [f"{name}={value}" for name, value in raw.items()]
    return ", ".join(raw) if isinstance(raw, list) else str(raw)


def _format_seconds(seconds: float) -> str:
    from pytest_kwait.apimachinery.times import format_duration

    return format_duration(seconds)


_LONGEST_HEARTBEAT = 24 * 3600.0
"""Seconds; the janitor removes the objects of a dead run after four intervals."""

LEVELS = ("privileged", "baseline", "restricted")

_ENFORCE = "pod-security.kubernetes.io/enforce"
_KUBERNETES_VERSION = re.compile(r"latest|v1\.(0|[1-9][0-9]{0,3})")


class PodSecurity(NamedTuple):
    """A level of the Pod Security Standards, as PodSecurity admission enforces it.

    Args:
        level: one of `LEVELS`.
        version: a Kubernetes release, `latest` or `v1.30`; empty for the server's default.
    """

    level: str
    version: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """The labels of a namespace that enforces it.

        Source: pod-security-admission/api/constants.go.
        """
        labels = {_ENFORCE: self.level}
        if self.version:
            labels[f"{_ENFORCE}-version"] = self.version
        return labels


def parse_pod_security(value: Any, what: str, source: str | None = None) -> PodSecurity:
    """Parse `LEVEL` or `LEVEL:VERSION`."""
    if isinstance(value, PodSecurity):
        return value
    level, colon, version = value.partition(":") if isinstance(value, str) else ("", "", "")
    if level not in LEVELS or (colon and not _KUBERNETES_VERSION.fullmatch(version)):
        valid = (
            f"use {', '.join(LEVELS[:-1])} or {LEVELS[-1]}, and :VERSION behind it for the "
            "standard of one release, for example restricted:v1.30 or restricted:latest"
        )
        raise InvalidArgument(what, value, valid, source)
    return PodSecurity(level, version)


# Compiled on use: most runs parse no label.
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_QUALIFIED = r"([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"


def reader_of(definition: SettingDefinition) -> Reader:
    """Return the parser of a setting's values."""
    if isinstance(definition.kind, tuple):
        return read_choice(*definition.kind)
    read: Reader = globals()[f"read_{definition.kind}"]
    return read


def suggest_name(name: str, known: Sequence[str], *, prefix: str = "") -> str:
    """Return `did you mean poll? ` if a known name is similar, else an empty text.

    The common `prefix` of all names does not count as similarity.
    """
    from difflib import get_close_matches

    endings = [each.removeprefix(prefix) for each in known]
    near = get_close_matches(name.removeprefix(prefix), endings, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(prefix + each for each in near)}? " if near else ""


def read_duration(value: Any, what: str, source: str | None) -> float:
    """Parse a duration of zero or more; return seconds."""
    # Imported on use: most runs set no duration, and loading the plugin must be cheap.
    from pytest_kwait.apimachinery.times import to_seconds

    return to_seconds(value, what=what, source=source)


def read_positive_duration(value: Any, what: str, source: str | None) -> float:
    """Parse a duration above zero; return seconds."""
    from pytest_kwait.apimachinery.times import to_seconds

    return to_seconds(value, what=what, source=source, allow_zero=False)


def read_heartbeat(value: Any, what: str, source: str | None) -> float:
    """Parse a duration above zero, at most a day; return seconds."""
    from pytest_kwait.apimachinery.times import to_seconds

    return to_seconds(value, what=what, source=source, allow_zero=False, at_most=_LONGEST_HEARTBEAT)


def read_choice(*valid: str) -> Reader:
    """Return a parser of one of `valid`."""

    def read(value: Any, what: str, source: str | None) -> str:
        if value not in valid:
            near = suggest_name(value, valid) if isinstance(value, str) else ""
            raise InvalidArgument(what, value, f"{near}use {_join_alternatives(valid)}", source)
        return str(value)

    return read


def read_bool(value: Any, what: str, source: str | None) -> bool:
    """Parse a bool, or `true` and `false` in any case."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise InvalidArgument(what, value, "use true or false", source)


def read_patterns(value: Any, what: str, source: str | None) -> tuple[str, ...]:
    """Parse names with `*` for any part: a list, or a text with commas between them."""
    names = _split_texts(value)
    if not names or not all(names):
        valid = "use names with commas between them and * for any part, for example kind-*,staging"
        raise InvalidArgument(what, value, valid, source)
    return tuple(names)


def read_taints(value: Any, what: str, source: str | None) -> tuple[str, ...]:
    """Parse keys of taints: a list, or a text with commas between them; an empty one has none."""
    keys = [] if _is_blank(value) else _split_texts(value)
    if keys is not None and all(re.fullmatch(_QUALIFIED, key) for key in keys):
        return tuple(keys)
    raise InvalidArgument(
        what,
        value,
        "use keys of taints with commas between them, for example "
        "node-role.kubernetes.io/control-plane,dedicated",
        source,
    )


def read_limit(value: Any, what: str, source: str | None) -> int:
    """Parse a whole number, 0 or more, or -1 for no limit."""
    if re.fullmatch(r"-1|\d{1,9}", str(value).strip(), re.ASCII):
        return int(value)
    raise InvalidArgument(what, value, "use a whole number, 0 or more, or -1", source)


def read_scale(value: Any, what: str, source: str | None) -> float:
    """Parse a finite number above zero."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not (math.isfinite(number) and number > 0):
        raise InvalidArgument(what, value, "use a number above zero, for example 2 or 0.5", source)
    return number


def read_positive_int(value: Any, what: str, source: str | None) -> int:
    """Parse a whole number above zero."""
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise InvalidArgument(what, value, "use a whole number above zero", source)
    return int(text)


def read_dns_label(value: Any, what: str, source: str | None) -> str:
    """Parse an RFC 1123 label."""
    if not isinstance(value, str) or not re.fullmatch(_DNS_LABEL, value):
        raise InvalidArgument(
            what,
            value,
            "use up to 63 lower-case letters, digits and '-', with a letter or digit at both ends",
            source,
        )
    return value


def read_path(value: Any, what: str, source: str | None) -> Path:
    """Parse a path; its existence is checked where it is used."""
    if not isinstance(value, (str, Path)) or not str(value):
        raise InvalidArgument(what, value, "use the path of a file", source)
    return expand_home(value, what, source)


def expand_home(path: str | Path, what: str, source: str | None) -> Path:
    """Return a path with `~` and `~user` at its start expanded.

    Raises:
        InvalidArgument: there is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InvalidArgument(what, str(path), "there is no such user", source) from None


def read_reports(value: Any, what: str, source: str | None) -> tuple[Path, ...]:
    """Parse paths of reports with a supported ending."""
    paths = []
    for name in value if isinstance(value, (list, tuple)) else [value]:
        if not isinstance(name, str) or Path(name).suffix.lower() not in (".html", ".json"):
            valid = "use the path of a file that ends with .html or .json"
            raise InvalidArgument(what, name, valid, source)
        paths.append(Path(name))
    return tuple(dict.fromkeys(paths))


def read_images(value: Any, what: str, source: str | None) -> tuple[ImageMapping, ...]:
    """Parse image mappings.

    Args:
        value: a list of `PATTERN=COMMAND`, a text with one per line, or a mapping of patterns to
            commands.
        what: the name of the setting.
        source: where the value comes from.
    """
    from pytest_kwait.simulator.image_mapping import parse_image_mapping

    if isinstance(value, Mapping):
        # A command that is no text is refused with its pattern.
        texts: Sequence[Any] = [
            f"{pattern}={command}" if isinstance(command, str) else {pattern: command}
            for pattern, command in value.items()
        ]
    elif isinstance(value, str):
        texts = value.splitlines()
    else:
        texts = value if isinstance(value, (list, tuple)) else [value]
    found = [parse_image_mapping(one, source) for one in texts if not _is_blank(one)]
    if not found and isinstance(value, str):
        parse_image_mapping(value, source)  # a blank text is refused
    return tuple(found)


def read_egress(value: Any, what: str, source: str | None) -> tuple[EgressTarget, ...]:
    """Parse targets of egress, `HOST:PORT` each: a list, or a text with one per line."""
    from pytest_kwait.simulator.network.egress import read_egress_list

    if not isinstance(value, str):
        texts = value if isinstance(value, (list, tuple)) else [value]
        return tuple(read_egress_list(texts, source))
    # A blank text is refused.
    lines = [one for one in value.splitlines() if not _is_blank(one)]
    return tuple(read_egress_list(lines or [value], source))


def _split_texts(value: object) -> list[str] | None:
    """Return the parts between commas, of a text or of each text in a list; else None."""
    texts: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(text, str) for text in texts):
        return None
    return [part.strip() for text in texts for part in text.split(",")]


def _is_blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()


def read_words(value: Any, what: str, source: str | None) -> tuple[str, ...]:
    """Parse arguments of a command: a list, or a text that is split as a shell does."""
    if isinstance(value, (list, tuple)) and all(isinstance(word, str) for word in value):
        return tuple(value)
    import shlex

    try:
        words = tuple(shlex.split(value)) if isinstance(value, str) else ()
    except ValueError:
        words = ()  # a quote is not closed
    if not words:
        raise InvalidArgument(what, value, "use arguments as in a shell, quotes closed", source)
    return words


def read_names(value: Any, what: str, source: str | None) -> tuple[str, ...]:
    """Parse names: a list, or a text with commas between them."""
    names = []
    for text in value if isinstance(value, (list, tuple)) else [value]:
        for name in text.split(",") if isinstance(text, str) else [""]:
            if len(name.split()) != 1:
                raise InvalidArgument(what, text, "use names with commas between them", source)
            names.append(name.strip())
    return tuple(dict.fromkeys(names))


def read_text(value: Any, what: str, source: str | None) -> str:
    """Parse a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(what, value, "use a text that is not empty", source)
    return value.strip()


def read_shard(value: Any, what: str, source: str | None) -> Any:
    """Parse a shard."""
    from pytest_kwait.suite.shards.split import parse_shard

    return parse_shard(value, what, source)


def read_effort(value: Any, what: str, source: str | None) -> Any:
    """Parse how much is explored."""
    from pytest_kwait.suite.explore.plan import parse_effort

    return parse_effort(value, what, source)


def read_seed(value: Any, what: str, source: str | None) -> int:
    """Parse the seed of an exploration."""
    from pytest_kwait.suite.explore.plan import parse_seed

    return parse_seed(value, what, source)


def read_perturbations(value: Any, what: str, source: str | None) -> tuple[str, ...]:
    """Parse the perturbations of an exploration."""
    from pytest_kwait.suite.explore.plan import parse_perturbations

    return parse_perturbations(value, what, source)


def read_pod_security(value: Any, what: str, source: str | None) -> Any:
    """Parse the level enforced in the run's namespaces."""
    return parse_pod_security(value, what, source)


def read_timeouts(value: Any, what: str, source: str | None) -> dict[str, float]:
    """Parse limits of the timeout table from a mapping or `NAME=DURATION,…` text."""
    pairs: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        pairs.extend(value.items())
    elif isinstance(value, str):
        for part in filter(None, (part.strip() for part in value.split(","))):
            name, equals, duration = part.partition("=")
            if not equals:
                raise InvalidArgument(what, part, "use NAME=DURATION, for example job=5m", source)
            pairs.append((name.strip(), duration.strip()))
    else:
        raise InvalidArgument(what, value, 'use a mapping, for example {"job": "5m"}', source)
    from pytest_kwait.engine.options import Timeouts

    table = Timeouts()
    return {
        table.entry(name, source=source).name: read_positive_duration(
            duration, f"{what} {name}", source
        )
        for name, duration in pairs
    }


def complete_timeouts(given: Any, table: Timeouts) -> Timeouts:
    """Return the table that a conftest's fixture `kwait_timeouts` gives, completed from `table`.

    Args:
        given: a table, or a mapping of names to durations; names of a suite's own are kept.
        table: the table of the settings.

    Raises:
        InvalidArgument: it is no mapping, or one of its values is no duration.
    """
    from pytest_kwait.engine.options import TimeoutEntry, Timeouts

    if isinstance(given, Timeouts):
        return given
    fixture = "fixture kwait_timeouts"
    if not isinstance(given, Mapping):
        valid = 'it returns a mapping of names to durations, for example {"job": "5m"}'
        raise InvalidArgument(fixture, given, valid)
    entries = {name: table.entry(name) for name in table}
    for name, duration in given.items():
        seconds = read_positive_duration(duration, f"timeout {name}", fixture)
        kind = entries[name].kind if name in entries else "limit"
        entries[name] = TimeoutEntry(name, seconds, fixture, kind)
    return Timeouts(entries)


def _join_alternatives(valid: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(valid[:-1]), valid[-1])))
