"""KubeSchedulerConfiguration v1: fields, defaults and encoding.

Source: kube-scheduler, pkg/scheduler/apis/config.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from pytest_kwait.apimachinery.times import format_duration

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
JSON_CONTENT = "application/json"


def _field_metadata(name: str, kind: str) -> dict[str, str]:
    """Return the metadata of a field: its name in YAML and its decoder's kind."""
    return {"name": name, "kind": kind}


def _field(name: str, kind: str, default: Any) -> Any:
    return field(default=default, metadata=_field_metadata(name, kind))


def _list_field(name: str, kind: str) -> Any:
    return field(default=(), metadata=_field_metadata(name, kind))


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """Options of the connection to the API server."""

    kubeconfig: str = _field("kubeconfig", "string", "")
    accept_content_types: str = _field("acceptContentTypes", "string", "")
    content_type: str = _field("contentType", "string", JSON_CONTENT)
    qps: float = _field("qps", "float32", 50.0)
    burst: int = _field("burst", "int32", 100)


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Options of leader election; durations in seconds."""

    leader_elect: bool = _field("leaderElect", "bool", True)
    lease_duration: float = _field("leaseDuration", "duration", 15.0)
    renew_deadline: float = _field("renewDeadline", "duration", 10.0)
    retry_period: float = _field("retryPeriod", "duration", 2.0)
    resource_lock: str = _field("resourceLock", "string", "leases")
    resource_name: str = _field("resourceName", "string", "kube-scheduler")
    resource_namespace: str = _field("resourceNamespace", "string", "kube-system")


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """A plugin at an extension point; weight 0 stands for no weight."""

    name: str = _field("name", "string", "")
    weight: int = _field("weight", "int32", 0)


@dataclass(frozen=True, slots=True)
class PluginSet:
    """Plugins that an extension point enables and disables, compared with the default."""

    enabled: tuple[PluginEntry, ...] = _list_field("enabled", "plugin")
    disabled: tuple[PluginEntry, ...] = _list_field("disabled", "plugin")


def _extension_point(point: str) -> dict[str, str]:
    return _field_metadata(point, "set")


@dataclass(frozen=True, slots=True)
class Plugins:
    """The extension points of a profile."""

    pre_enqueue: PluginSet = field(
        default_factory=PluginSet, metadata=_extension_point("preEnqueue")
    )
    queue_sort: PluginSet = field(default_factory=PluginSet, metadata=_extension_point("queueSort"))
    pre_filter: PluginSet = field(default_factory=PluginSet, metadata=_extension_point("preFilter"))
    filter: PluginSet = field(default_factory=PluginSet, metadata=_extension_point("filter"))
    post_filter: PluginSet = field(
        default_factory=PluginSet, metadata=_extension_point("postFilter")
    )
    pre_score: PluginSet = field(default_factory=PluginSet, metadata=_extension_point("preScore"))
    score: PluginSet = field(default_factory=PluginSet, metadata=_extension_point("score"))
    reserve: PluginSet = field(default_factory=PluginSet, metadata=_extension_point("reserve"))
    permit: PluginSet = field(default_factory=PluginSet, metadata=_extension_point("permit"))
    pre_bind: PluginSet = field(default_factory=PluginSet, metadata=_extension_point("preBind"))
    bind: PluginSet = field(default_factory=PluginSet, metadata=_extension_point("bind"))
    post_bind: PluginSet = field(default_factory=PluginSet, metadata=_extension_point("postBind"))
    multi_point: PluginSet = field(
        default_factory=PluginSet, metadata=_extension_point("multiPoint")
    )
    placement_generate: PluginSet = field(
        default_factory=PluginSet, metadata=_field_metadata("placementGenerate", "set")
    )
    placement_score: PluginSet = field(
        default_factory=PluginSet, metadata=_field_metadata("placementScore", "set")
    )


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """The arguments of a plugin."""

    name: str = _field("name", "string", "")
    args: dict[str, Any] | None = field(default=None, metadata=_field_metadata("args", "object"))


@dataclass(frozen=True, slots=True)
class Profile:
    """A scheduler's name, with its plugins and their arguments."""

    scheduler_name: str = _field("schedulerName", "string", "")
    percentage_of_nodes_to_score: int | None = _field("percentageOfNodesToScore", "int32", None)
    plugins: Plugins = field(
        default_factory=Plugins, metadata=_field_metadata("plugins", "plugins")
    )
    plugin_config: tuple[PluginConfig, ...] = _list_field("pluginConfig", "pluginConfig")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The component configuration with its defaults.

    Deliberately different defaults: JSON instead of protobuf to the API server, and no Go
    profiling.

    Source: kube-scheduler config/v1/types.go KubeSchedulerConfiguration and
    pkg/scheduler/apis/config/v1/defaults.go.
    """

    parallelism: int = _field("parallelism", "int32", 16)
    leader_election: LeaderElection = field(
        default_factory=LeaderElection, metadata=_field_metadata("leaderElection", "leaderElection")
    )
    client_connection: ClientConnection = field(
        default_factory=ClientConnection,
        metadata=_field_metadata("clientConnection", "clientConnection"),
    )
    enable_profiling: bool = _field("enableProfiling", "bool", False)
    enable_contention_profiling: bool = _field("enableContentionProfiling", "bool", False)
    percentage_of_nodes_to_score: int = _field("percentageOfNodesToScore", "int32", 0)
    pod_initial_backoff_seconds: int = _field("podInitialBackoffSeconds", "int64", 1)
    pod_max_backoff_seconds: int = _field("podMaxBackoffSeconds", "int64", 10)
    profiles: tuple[Profile, ...] = _list_field("profiles", "profile")
    extenders: tuple[dict[str, Any], ...] = _list_field("extenders", "object")
    delay_cache_until_active: bool = _field("delayCacheUntilActive", "bool", False)


def encode_configuration(configuration: Configuration) -> dict[str, Any]:
    """Return the configuration as a mapping that decodes to the same."""
    return {"apiVersion": API_VERSION, "kind": KIND, **_encode_part(configuration)}


def _encode_part(part: Any) -> dict[str, Any]:
    written = {}
    for entry in fields(part):
        value = getattr(part, entry.name)
        if value is None or value == ():
            continue
        written[entry.metadata["name"]] = _encode_value(value, entry.metadata["kind"])
    return written


def _encode_value(value: Any, kind: str) -> Any:
    if isinstance(value, tuple):
        return [_encode_value(item, kind) for item in value]
    if is_dataclass(value):
        return _encode_part(value)
    if kind == "duration":
        return format_duration(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
