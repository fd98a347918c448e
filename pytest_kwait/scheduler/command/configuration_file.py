"""Loading of the configuration: decode the file, apply flags and defaults, validate.

Unknown fields, wrong types and all violations are reported at once, with Kubernetes' messages. For
a lease duration that is too short the message has its own value; upstream shows the renew
deadline's.

Source: cmd/kube-scheduler/app/options/configfile.go; component-base
config/validation/validation.go; pkg/scheduler/apis/config/validation/validation.go.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from pytest_kwait.apimachinery.field_errors import FieldError, invalid_value, required
from pytest_kwait.apimachinery.go_values import INT32, INT64, parse_duration, quote_go
from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.command import CommandError, aggregate, expand_home
from pytest_kwait.scheduler.command.configuration import (
    API_VERSION,
    JSON_CONTENT,
    KIND,
    ClientConnection,
    Configuration,
    LeaderElection,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
    Profile,
    encode_configuration,
)
from pytest_kwait.scheduler.command.profiles import set_profile_defaults, validate_profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from pytest_kwait.scheduler.command.flags import Flags

_Part = TypeVar("_Part")

_PARTS: dict[str, type[Any]] = {
    "leaderElection": LeaderElection,
    "clientConnection": ClientConnection,
    "profile": Profile,
    "plugins": Plugins,
    "set": PluginSet,
    "plugin": PluginEntry,
    "pluginConfig": PluginConfig,
}
_ZERO_IS_DEFAULT = frozenset(
    {
        "clientConnection.qps",
        "clientConnection.burst",
        "clientConnection.contentType",
        "leaderElection.leaseDuration",
        "leaderElection.renewDeadline",
        "leaderElection.retryPeriod",
        "leaderElection.resourceLock",
        "leaderElection.resourceName",
        "leaderElection.resourceNamespace",
    }
)
"""Fields that are not pointers upstream: zero equals absent."""
_JITTER_FACTOR = 1.2

_ELECTION = {
    "leader_elect": "leader_elect",
    "leader_elect_lease_duration": "lease_duration",
    "leader_elect_renew_deadline": "renew_deadline",
    "leader_elect_retry_period": "retry_period",
    "leader_elect_resource_lock": "resource_lock",
    "leader_elect_resource_name": "resource_name",
    "leader_elect_resource_namespace": "resource_namespace",
}
_CONNECTION = {
    "kubeconfig": "kubeconfig",
    "kube_api_qps": "qps",
    "kube_api_burst": "burst",
    "kube_api_content_type": "content_type",
}
_PROFILING = {
    "profiling": "enable_profiling",
    "contention_profiling": "enable_contention_profiling",
}


class _Loader(yaml.SafeLoader):
    """A YAML loader without timestamps that refuses duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        checked_keys: set[str] = set()
        for key, _value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in checked_keys:
                    raise CommandError(
                        "strict decoding error: yaml: unmarshal errors: "
                        f"line {key.start_mark.line + 1}: key {quote_go(key.value)} "
                        "already set in map"
                    )
                checked_keys.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str) -> dict[str, Any]:
    """Return the object of a file with its kind checked.

    Raises:
        CommandError: no YAML, no mapping, or another kind or version.

    Source: apimachinery pkg/runtime/serializer/json Decode, with strict decoding.
    """
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 # a SafeLoader, and no key twice
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or "it has characters that YAML forbids"
        raise CommandError(f"yaml: {line}{problem}") from None
    except RecursionError:
        raise CommandError("yaml: nested too deeply") from None
    except (AttributeError, ValueError) as error:  # `!!int x`, `!!timestamp x`
        raise CommandError(f"yaml: a tag does not fit its value: {error}") from None
    if data is not None and not isinstance(data, dict):
        raise CommandError(
            f"couldn't get version/kind; json: cannot unmarshal {_json_name(data)} into an object"
        )
    data = data or {}
    kind, version = data.get("kind"), data.get("apiVersion")
    if not kind:
        raise CommandError(f"Object 'Kind' is missing: use kind {KIND} of {API_VERSION}")
    if kind != KIND or version != API_VERSION:
        raise CommandError(
            f"no kind {quote_go(str(kind))} is registered for version "
            f"{quote_go(str(version or ''))}: use kind {KIND} of {API_VERSION}"
        )
    return data


class _Decoder:
    """Decodes a configuration and collects its errors."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.broken: set[str] = set()
        self.errors: list[FieldError | str] = []

    def part(self, cls: type[_Part], data: Any, path: str) -> _Part:
        """Decode an object; absent and invalid fields get their defaults."""
        if data is None:
            return cls()
        if not isinstance(data, dict):
            self._refuse(data, path, "object")
            return cls()
        known = {entry.metadata["name"]: entry for entry in fields(cls)}  # type: ignore[arg-type] # a dataclass
        values: dict[str, Any] = {}
        for name, value in data.items():
            where = f"{path}.{name}" if path else str(name)
            entry = known.get(name)
            if entry is None:
                if path or name not in {"apiVersion", "kind"}:
                    self.unknown.append(where)
                continue
            if value is None:
                continue
            many = entry.default == ()
            got = (
                self._list(entry.metadata["kind"], value, where)
                if many
                else self._value(entry.metadata["kind"], value, where)
            )
            if got is not None and not (where in _ZERO_IS_DEFAULT and not got):
                values[entry.name] = got
        return cls(**values)

    def _list(self, kind: str, data: Any, path: str) -> tuple[Any, ...] | None:
        if not isinstance(data, list):
            self._refuse(data, path, "list")
            return None
        read = (self._value(kind, value, f"{path}[{i}]") for i, value in enumerate(data))
        if kind in _PARTS:
            return tuple(value if value is not None else _PARTS[kind]() for value in read)
        return tuple(value for value in read if value is not None)

    def _value(self, kind: str, data: Any, path: str) -> Any:
        part = _PARTS.get(kind)
        if part is not None:
            return self.part(part, data, path)
        return _SCALARS[kind](self, data, path)

    def string(self, data: Any, path: str) -> str | None:
        if not isinstance(data, str):
            self._refuse(data, path, "string")
            return None
        return data

    def bool(self, data: Any, path: str) -> bool | None:
        if not isinstance(data, bool):
            self._refuse(data, path, "bool")
            return None
        return data

    def int32(self, data: Any, path: str) -> int | None:
        """Read a 32-bit integer."""
        return self._int(data, path, "int32", INT32)

    def int64(self, data: Any, path: str) -> int | None:
        """Read a 64-bit integer."""
        return self._int(data, path, "int64", INT64)

    def float32(self, data: Any, path: str) -> float | None:
        """Read a finite number."""
        if isinstance(data, bool) or not isinstance(data, int | float) or not abs(data) < 3.4e38:
            self._refuse(data, path, "float32")
            return None
        return float(data)

    def duration(self, data: Any, path: str) -> float | None:
        """Read a duration as seconds."""
        if not isinstance(data, str):
            self._refuse(data, path, "string")
            return None
        try:
            return parse_duration(data)
        except ValueError as error:
            self._note(path, invalid_value(path, data, str(error)))
            return None

    def object(self, data: Any, path: str) -> dict[str, Any] | None:
        """Read an object of unknown fields."""
        if not isinstance(data, dict):
            self._refuse(data, path, "object")
            return None
        return data

    def _int(self, data: Any, path: str, kind: str, most: int) -> int | None:
        if isinstance(data, bool) or not isinstance(data, int):
            self._refuse(data, path, kind)
            return None
        if not -most - 1 <= data <= most:
            text = f"json: cannot unmarshal number {data} into field {path} of type {kind}"
            self._note(path, text)
            return None
        return data

    def _refuse(self, data: Any, path: str, kind: str) -> None:
        self._note(
            path, f"json: cannot unmarshal {_json_name(data)} into field {path} of type {kind}"
        )

    def _note(self, path: str, error: FieldError | str) -> None:
        self.errors.append(error)
        self.broken.add(find_section(path))


_SCALARS: dict[str, Callable[[_Decoder, Any, str], Any]] = {
    "string": _Decoder.string,
    "bool": _Decoder.bool,
    "int32": _Decoder.int32,
    "int64": _Decoder.int64,
    "float32": _Decoder.float32,
    "duration": _Decoder.duration,
    "object": _Decoder.object,
}


@dataclass(frozen=True, slots=True)
class DecodedConfiguration:
    """The valid part of a configuration.

    Args:
        configuration: the fields, with defaults for invalid ones.
        errors: unknown fields and wrong types.
        broken: the sections with a wrong type.
    """

    configuration: Configuration
    errors: tuple[FieldError | str, ...] = ()
    broken: frozenset[str] = frozenset()


def decode_configuration(data: dict[str, Any]) -> DecodedConfiguration:
    """Return the configuration of an object of the supported kind and version, and its errors."""
    reader = _Decoder()
    configuration = reader.part(Configuration, data, "")
    unknown = ", ".join(f'unknown field "{path}"' for path in reader.unknown)
    errors = (*([f"strict decoding error: {unknown}"] if unknown else []), *reader.errors)
    return DecodedConfiguration(configuration, errors, frozenset(reader.broken))


def find_section(path: str) -> str:
    """Return the section of a field, whose fields are validated together."""
    first = path.partition(".")[0].partition("[")[0]
    return "backoff" if first.endswith("BackoffSeconds") else first


def _json_name(data: Any) -> str:
    if isinstance(data, bool):
        return "bool"
    if isinstance(data, int | float):
        return f"number {data}" if isinstance(data, float) else "number"
    if isinstance(data, list):
        return "array"
    return "object" if isinstance(data, dict) else "string"


def validate_configuration(configuration: Configuration) -> list[FieldError]:
    """Return the errors of a completed configuration, in Kubernetes' order."""
    return list(_list_violations(configuration))


def _list_violations(config: Configuration) -> Iterator[FieldError]:
    yield from _check_connection(config.client_connection)
    yield from _check_election(config.leader_election)
    if config.parallelism <= 0:
        yield invalid_value(
            "parallelism", config.parallelism, "should be an integer value greater than zero"
        )
    yield from validate_profiles(config.profiles)
    yield from _check_percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    for index, profile in enumerate(config.profiles):
        path = f"profiles[{index}].percentageOfNodesToScore"
        yield from _check_percentage(path, profile.percentage_of_nodes_to_score)
    initial, most = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid_value("podInitialBackoffSeconds", initial, "must be greater than 0")
    if most < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid_value("podMaxBackoffSeconds", most, detail)
    if config.extenders:
        detail = "this scheduler calls no extenders: leave them out"
        yield invalid_value("extenders", len(config.extenders), detail)
    for name, value in (
        ("enableProfiling", config.enable_profiling),
        ("enableContentionProfiling", config.enable_contention_profiling),
    ):
        if value:
            yield invalid_value(
                name, value, "this scheduler serves no profiles of itself: use false"
            )


def _check_connection(connection: ClientConnection) -> Iterator[FieldError]:
    if connection.burst < 0:
        yield invalid_value("clientConnection.burst", connection.burst, "must be non-negative")
    if connection.burst == 0:
        yield invalid_value("clientConnection.burst", 0, "no request could be sent: use 1 or more")
    if connection.qps <= 0:
        detail = "this scheduler always keeps to a rate: use more than 0"
        yield invalid_value("clientConnection.qps", connection.qps, detail)
    for name, value in (
        ("contentType", connection.content_type),
        ("acceptContentTypes", connection.accept_content_types),
    ):
        if value not in ("", JSON_CONTENT):
            detail = f"this scheduler speaks {JSON_CONTENT}"
            yield invalid_value(f"clientConnection.{name}", value, detail)


def _check_election(election: LeaderElection) -> Iterator[FieldError]:
    if not election.leader_elect:
        return
    path = "leaderElection"
    lease, renew = election.lease_duration, election.renew_deadline
    retry = election.retry_period
    for name, value in (("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry)):
        if value <= 0:
            yield invalid_value(
                f"{path}.{name}", format_duration(value), "must be greater than zero"
            )
    if lease <= renew:
        detail = "must be greater than `RenewDeadline`"
        yield invalid_value(f"{path}.leaseDuration", format_duration(lease), detail)
    if 0 < renew <= retry * _JITTER_FACTOR:
        # Kubernetes reports this only at the start of the election.
        detail = "must be greater than retryPeriod*JitterFactor"
        yield invalid_value(f"{path}.renewDeadline", format_duration(renew), detail)
    for name, text in (
        ("resourceLock", election.resource_lock),
        ("resourceNamespace", election.resource_namespace),
        ("resourceName", election.resource_name),
    ):
        if not text:
            yield required(f"{path}.{name}")
    yield from _check_lock_name(f"{path}.resourceNamespace", election.resource_namespace)
    yield from _check_lock_name(f"{path}.resourceName", election.resource_name)
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        yield invalid_value(f"{path}.resourceLock", election.resource_lock, detail)


def _check_lock_name(path: str, name: str) -> Iterator[FieldError]:
    if name:
        try:
            check_name(path, name)
        except InvalidArgument as error:
            yield invalid_value(path, name, error.valid)


def _check_percentage(path: str, percentage: int | None) -> Iterator[FieldError]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid_value(path, percentage, "not in valid range [0-100]")


def load_configuration(flags: Flags) -> Configuration:
    """Return the configuration of the file and given flags, with defaults.

    In Kubernetes' scheduler a file overrides the deprecated flags; here every flag overrides it.

    Raises:
        CommandError: the file is unreadable or the configuration invalid: all errors
            with flags and fields at once.

    Source: cmd/kube-scheduler/app/options/options.go ApplyTo.
    """
    read = (
        read_configuration(Path(flags.config))
        if flags.config
        else DecodedConfiguration(Configuration())
    )
    configuration = read.configuration
    flag_names = flags.given
    election = {
        field: getattr(flags, name) for name, field in _ELECTION.items() if name in flag_names
    }
    connection = {
        field: getattr(flags, name) for name, field in _CONNECTION.items() if name in flag_names
    }
    profiling = {
        field: getattr(flags, name) for name, field in _PROFILING.items() if name in flag_names
    }
    configuration = replace(
        configuration,
        **profiling,
        leader_election=replace(configuration.leader_election, **election),
        client_connection=replace(configuration.client_connection, **connection),
        profiles=set_profile_defaults(configuration.profiles, Profile()),
    )
    # An invalid field gets its default, which must not cause further errors.
    sound = [
        error
        for error in validate_configuration(configuration)
        if find_section(error.field) not in read.broken
    ]
    errors = [*read.errors, *sound, *flags.errors()]
    if errors:
        raise aggregate(errors)
    return configuration


def read_configuration(path: Path) -> DecodedConfiguration:
    """Return the configuration of a file.

    Raises:
        CommandError: the file is unreadable or invalid.

    Source: cmd/kube-scheduler/app/options/configfile.go LoadConfigFromFile.
    """
    try:
        text = expand_home(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CommandError(f"open {path}: it is not text") from None
    except OSError as error:
        raise CommandError(f"open {path}: {_lower_field_name(error)}") from None
    return decode_configuration(parse_yaml(text))


def write_configuration(configuration: Configuration, path: Path) -> None:
    """Write the configuration as YAML; reading it gives the same.

    Raises:
        CommandError: the file cannot be written.

    Source: cmd/kube-scheduler/app/options/configfile.go LogOrWriteConfig.
    """
    try:
        expand_home(path).write_text(format_yaml(configuration), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"open {path}: {_lower_field_name(error)}") from None


def format_yaml(configuration: Configuration) -> str:
    """Return the configuration as YAML."""
    return yaml.safe_dump(encode_configuration(configuration), sort_keys=True, allow_unicode=True)


def _lower_field_name(error: OSError) -> str:
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
