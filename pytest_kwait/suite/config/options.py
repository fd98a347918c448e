"""Declarations of all settings: names, types, defaults, help.

A setting is declared once, as an attribute of its group. Its option, environment name, ini name,
marker key, row in the reference and typed attribute of `Settings` follow from that.

Loaded with the plugin, so it imports nothing of the package at import time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Protocol, Self, overload

    from pytest_kwait.clusters.node_table import RequestedNodes
    from pytest_kwait.simulator.protocol.egress import EgressTarget
    from pytest_kwait.simulator.protocol.image_mapping import ImageMapping
    from pytest_kwait.simulator.protocol.options import RequestedIsolation
    from pytest_kwait.suite.config.clusters import FurtherCluster
    from pytest_kwait.suite.config.values import PodSecurityLevel
    from pytest_kwait.suite.explore.plan import Effort
    from pytest_kwait.suite.shards.split import RequestedShard

    class _Values(Protocol):
        def setting(self, name: str, /) -> Any: ...


_KINDS_BY_LINE = ("images", "egress", "clusters")
"""Kinds of several values that are one per line in the environment and in ini files."""

_Value = TypeVar("_Value")


# A plain class: the code of a dataclass or of a named tuple is compiled each time that the plugin
# is loaded.
class SettingDefinition(Generic[_Value]):
    """Definition of a setting, and the attribute of `Settings` that has its value.

    Args:
        kind: the parser, as in `values.read_…`, or the valid texts.
        default: its value where none is given.
        metavar: its value in the help; empty for a switch.
        help: the text of `pytest --help`, without the default: at most two lines there.
        details: what the reference and `kwait up --help` add to it.
        scope: `test` if a marker can set it for one test, else `run`.
        option: whether it has an option, an environment name and an ini name.
        repeatable: whether the option may be repeated; its value is then a list.
        name: `--kwait-…`, `KWAIT_…` and `kwait_…` follow from it; that of the attribute.
    """

    __slots__ = (
        "default",
        "details",
        "help",
        "kind",
        "metavar",
        "name",
        "option",
        "repeatable",
        "scope",
    )

    def __init__(
        self,
        kind: str | tuple[str, ...],
        default: _Value,
        metavar: str,
        help: str,
        details: str = "",
        *,
        scope: Literal["run", "test"] = "run",
        option: bool = True,
        repeatable: bool = False,
        name: str = "",
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.metavar = metavar
        self.help = help
        self.details = details
        self.scope = scope
        self.option = option
        self.repeatable = repeatable

    def __set_name__(self, _group: type, name: str) -> None:
        self.name = name

    if TYPE_CHECKING:

        @overload
        def __get__(self, settings: None, group: type, /) -> Self: ...

        @overload
        def __get__(self, settings: _Values, group: type, /) -> _Value: ...

    def __get__(self, settings: _Values | None, group: type, /) -> Any:
        """Return the value in force; without settings, this definition."""
        return self if settings is None else settings.setting(self.name).value

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return "--kwait-" + self.name.replace("_", "-")

    @property
    def flags(self) -> tuple[str, ...]:
        """The option, and its opposite if it is a switch."""
        opposite = "--kwait-no-" + self.name.replace("_", "-")
        return (self.flag, opposite) if self.kind == "bool" else (self.flag,)

    @property
    def usage(self) -> str:
        """The option with its value, for the reference."""
        return " / ".join(self.flags) if self.kind == "bool" else f"{self.flag} {self.metavar}"

    @property
    def env(self) -> str:
        """The name in the environment."""
        return "KWAIT_" + self.name.upper()

    @property
    def ini(self) -> str:
        """The name in the ini file."""
        return "kwait_" + self.name

    @property
    def short_help(self) -> str:
        """The text of `pytest --help`, without the default."""
        return f"{self.help}; repeatable" if self.repeatable else self.help

    @property
    def command_help(self) -> str:
        """The text of `kwait up --help`, without the default."""
        return f"{self.short_help}; {self.details}" if self.details else self.short_help

    @property
    def reference(self) -> str:
        """The text of the reference."""
        if not self.repeatable:
            return self.command_help
        form = "one per line" if self.kind in _KINDS_BY_LINE else "a comma-separated list"
        return f"{self.command_help}; as environment and ini {form}"


class ClusterSettings:
    """Settings of the choice of a cluster and of its readiness."""

    cluster: SettingDefinition[str] = SettingDefinition(
        "text",
        "auto",
        "{auto,existing,embedded,binaries,kind,k3d,minikube}",
        "cluster to use; auto: the kubeconfig or context given, else embedded",
        "existing reads kubeconfigs by the standard loading rules (KUBECONFIG, "
        "~/.kube/config, in-cluster), embedded is started for this run, binaries are "
        "envtest's etcd and kube-apiserver, kind, k3d and minikube create a cluster by that "
        "program; plugins add names",
    )
    kubeconfig: SettingDefinition[Path | None] = SettingDefinition(
        "path",
        None,
        "FILE",
        "kubeconfig of the cluster",
    )
    context: SettingDefinition[str | None] = SettingDefinition(
        "text",
        None,
        "NAME",
        "context of the kubeconfig, instead of its current one",
    )
    clusters: SettingDefinition[tuple[FurtherCluster, ...]] = SettingDefinition(
        "clusters",
        (),
        "'NAME=PROVIDER [OPTIONS]'",
        "a further cluster, for kwait_factory(..., cluster=NAME)",
        "OPTIONS are those of one cluster without kwait: 'live=existing --context=staging'",
        repeatable=True,
    )
    allowed_contexts: SettingDefinition[tuple[str, ...] | None] = SettingDefinition(
        "patterns",
        None,
        "NAME,...",
        "contexts in which tests may run, * for any part of a name (any context)",
        "the embedded cluster is always allowed",
    )
    export_kubeconfig: SettingDefinition[bool] = SettingDefinition(
        "bool",
        False,
        "",
        "whether the cluster is started before the collection, and KUBECONFIG names it",
        "for modules that read KUBECONFIG when they are imported",
    )
    session_waits: SettingDefinition[bool] = SettingDefinition(
        "bool",
        True,
        "",
        "whether the first test waits until nodes and system pods of an existing cluster are ready",
    )
    allowed_not_ready_nodes: SettingDefinition[int] = SettingDefinition(
        "limit",
        0,
        "N",
        "nodes and system pods that may be not ready then; -1: no check",
    )
    non_blocking_taints: SettingDefinition[tuple[str, ...]] = SettingDefinition(
        "taints",
        ("node-role.kubernetes.io/control-plane",),
        "KEY,...",
        "taints that nodes may have then",
    )
    min_startup_pods: SettingDefinition[int] = SettingDefinition(
        "limit",
        0,
        "N",
        "system pods that must be ready then; -1: no check",
        "they are those of kube-system",
    )


class EmbeddedSettings:
    """Settings of the embedded cluster."""

    nodes: SettingDefinition[RequestedNodes] = SettingDefinition(
        "nodes",
        2,
        "{N,FILE,TABLE}",
        "nodes of the cluster: their number, a kind configuration, or a table of nodes",
        "an entry a line, for example 'name=gpu count=2 labels=pool=gpu "
        "taints=gpu=true:NoSchedule capacity=cpu=4,nvidia.com/gpu=2'",
    )
    timing: SettingDefinition[Literal["fast", "real"]] = SettingDefinition(
        ("fast", "real"),
        "fast",
        "{fast,real}",
        "back-offs, leases and timers of controllers: a twentieth of Kubernetes' own, or the same",
        "batches too; durations in manifests and commands are never changed",
    )
    api_only: SettingDefinition[bool] = SettingDefinition(
        "bool",
        False,
        "",
        "whether it is an API server alone, as in envtest",
        "no controllers but those of kube-apiserver, no scheduler, no nodes",
    )
    image: SettingDefinition[tuple[ImageMapping, ...]] = SettingDefinition(
        "images",
        (),
        "PATTERN=COMMAND",
        "run COMMAND of this machine in containers of the images that match",
        "for example 'shop/web:*=python -m shop.web'",
        repeatable=True,
    )
    egress: SettingDefinition[tuple[EgressTarget, ...]] = SettingDefinition(
        "egress",
        (),
        "HOST:PORT",
        "let programs in pods connect to HOST",
        "for example pypi.org:443; localhost is this machine, host.kwait.internal in pods",
        repeatable=True,
    )
    isolation: SettingDefinition[RequestedIsolation] = SettingDefinition(
        ("auto", "namespaces", "intercepted", "none"),
        "auto",
        "{auto,namespaces,intercepted,none}",
        "isolation of programs in pods; auto: the first of the others that the machine permits",
        "intercepted needs no namespaces; with none they share the machine's ports and files",
    )
    load_balancers: SettingDefinition[bool] = SettingDefinition(
        "bool",
        False,
        "",
        "whether services of type LoadBalancer get an address of this machine, as in a cloud",
        "in 127.0.0.0/8, so on Linux; without it they stay pending",
    )


class LocalClusterSettings:
    """Settings of binaries, kind, k3d and minikube."""

    controllers: SettingDefinition[bool] = SettingDefinition(
        "bool",
        False,
        "",
        "whether `binaries` has the embedded cluster's controllers and nodes",
        "with its scheduler, beside etcd and kube-apiserver",
    )
    assets: SettingDefinition[Path | None] = SettingDefinition(
        "path",
        None,
        "DIR",
        "etcd and kube-apiserver of binaries (KUBEBUILDER_ASSETS, else /usr/local/kubebuilder/bin)",
    )
    cluster_name: SettingDefinition[str | None] = SettingDefinition(
        "dns_label",
        None,
        "NAME",
        "cluster to use, created if it is not there (a new one)",
        "a new one is named after the run",
    )
    cluster_config: SettingDefinition[Path | None] = SettingDefinition(
        "path",
        None,
        "FILE",
        "configuration of a new cluster of kind or k3d",
    )
    cluster_args: SettingDefinition[tuple[str, ...]] = SettingDefinition(
        "words",
        (),
        "ARGS",
        "further arguments of the command that creates a cluster, as in a shell",
        "for example '--driver=podman --nodes=2'",
    )
    node_image: SettingDefinition[str | None] = SettingDefinition(
        "text",
        None,
        "IMAGE",
        "image of the nodes (that of the program)",
        "base image of minikube",
    )
    load_image: SettingDefinition[tuple[str, ...]] = SettingDefinition(
        "names",
        (),
        "IMAGE",
        "image of this machine to load into the nodes",
        repeatable=True,
    )
    keep_cluster: SettingDefinition[Literal["never", "failed", "always"]] = SettingDefinition(
        ("never", "failed", "always"),
        "never",
        "{never,failed,always}",
        "keep a cluster that the run has created: never, if a test failed, always",
    )


class WaitingSettings:
    """Settings of waits."""

    timeout: SettingDefinition[float | None] = SettingDefinition(
        "positive_duration",
        None,
        "SECONDS",
        "limit of each wait of the test, instead of the timeout table's",
        scope="test",
        option=False,
    )
    poll: SettingDefinition[float] = SettingDefinition(
        "positive_duration",
        2.0,
        "SECONDS",
        "interval of poll mode, and of what cannot be watched",
        scope="test",
    )
    mode: SettingDefinition[Literal["watch", "poll"]] = SettingDefinition(
        ("watch", "poll"),
        "watch",
        "{watch,poll}",
        "list, then watch; or list at each interval",
        scope="test",
    )
    fail_fast: SettingDefinition[bool] = SettingDefinition(
        "bool",
        True,
        "",
        "whether a wait fails early once its condition can no longer come true",
        scope="test",
    )
    grace: SettingDefinition[float | None] = SettingDefinition(
        "duration",
        None,
        "SECONDS",
        "how long a problem that may pass must last before that (45s)",
        "on the embedded cluster a tenth of it with fast timing",
        scope="test",
    )
    stable_for: SettingDefinition[float | None] = SettingDefinition(
        "duration",
        None,
        "SECONDS",
        "how long the condition must hold without interruption",
        scope="test",
        option=False,
    )
    timeout_scale: SettingDefinition[float] = SettingDefinition(
        "scale",
        1.0,
        "FACTOR",
        "factor for every limit of the timeout table, for slow machines",
    )
    audit: SettingDefinition[bool] = SettingDefinition(
        "bool",
        False,
        "",
        "whether the end of the run lists waits that prove nothing",
        "those met by a transient, always met at the first look, or close to their limit",
    )


class NamespaceSettings:
    """Settings of namespaces and of their removal."""

    namespace: SettingDefinition[str | None] = SettingDefinition(
        "dns_label",
        None,
        "NAME",
        "use this existing namespace; create and delete none",
    )
    namespace_scope: SettingDefinition[str] = SettingDefinition(
        ("test", "class", "module", "session"),
        "test",
        "{test,class,module,session}",
        "which tests share a namespace",
        scope="test",
    )
    pod_security: SettingDefinition[PodSecurityLevel | None] = SettingDefinition(
        "pod_security",
        None,
        "LEVEL[:VERSION]",
        "enforce privileged, baseline or restricted in namespaces (the cluster's default)",
        "VERSION is a release or latest",
    )
    namespace_limit: SettingDefinition[int] = SettingDefinition(
        "positive_int",
        100,
        "N",
        "namespaces of this run at a time in an existing cluster",
        "all workers together; namespaces being deleted count, kept ones do not",
    )
    namespace_rate: SettingDefinition[float] = SettingDefinition(
        "scale",
        20.0,
        "N",
        "namespaces created per second there",
        "all workers together",
    )
    keep: SettingDefinition[str] = SettingDefinition(
        ("never", "failed", "always"),
        "never",
        "{never,failed,always}",
        "keep namespaces after tests: never, of failed ones, always",
        "objects that the test created elsewhere are kept with them",
        scope="test",
    )
    deletion_wait: SettingDefinition[float] = SettingDefinition(
        "duration",
        120.0,
        "SECONDS",
        "if given: wait at the end until namespaces are gone",
        "reports those that remain; with --kwait-namespace, how long the end of each test "
        "waits until its objects are gone; 0 to skip",
    )
    reuse: SettingDefinition[Literal["never", "auto", "always"]] = SettingDefinition(
        ("never", "auto", "always"),
        "auto",
        "{never,auto,always}",
        "which environments stay for the next run; auto: those of scope cluster, none in CI",
        "always: those of scope run too; on a cluster that ends with the run none stays",
    )
    renew: SettingDefinition[bool] = SettingDefinition(
        "bool",
        False,
        "",
        "whether environments that have stayed are made again",
    )
    reuse_for: SettingDefinition[float] = SettingDefinition(
        "positive_duration",
        24 * 3600.0,
        "SECONDS",
        "how long an environment stays after its last use (24h)",
    )
    heartbeat: SettingDefinition[float] = SettingDefinition(
        "heartbeat",
        30.0,
        "SECONDS",
        "interval of the run's sign of life; dead after four",
        "it renews a Lease",
    )
    janitor: SettingDefinition[bool] = SettingDefinition(
        "bool",
        True,
        "",
        "whether this run deletes what dead runs left in the cluster",
    )


class RunSettings:
    """Settings of runs and of their reports."""

    run_id: SettingDefinition[str | None] = SettingDefinition(
        "dns_label",
        None,
        "ID",
        "name of this run in its objects (random)",
        "in names, labels and annotations",
    )
    shard: SettingDefinition[RequestedShard | None] = SettingDefinition(
        "shard",
        None,
        "{I/N,auto,auto/N}",
        "run part I of N of the suite; auto: as the CI job says",
        "auto reads I and N from GitLab, CircleCI or Buildkite, auto/N reads I from a "
        "Kubernetes Indexed Job",
    )
    report: SettingDefinition[tuple[Path, ...]] = SettingDefinition(
        "reports",
        (),
        "FILE",
        "write a report of every wait, .html, .json or .md",
        ".html is a page, .json is for `kwait report`, .md has the distinct failures",
        repeatable=True,
    )
    artifacts: SettingDefinition[Path | None] = SettingDefinition(
        "path",
        None,
        "DIR",
        "folder for objects, events and logs of failed tests",
        "one subfolder per failed test, with its failure and the evidence of its waits",
    )
    readable_secrets: SettingDefinition[tuple[str, ...] | None] = SettingDefinition(
        "patterns",
        None,
        "KEY,...",
        "keys of Secrets whose values are not masked, as KEY or SECRET/KEY, * for any part",
        "besides those that name users, hosts and databases",
    )
    record: SettingDefinition[Literal["never", "failed", "always"] | None] = SettingDefinition(
        ("never", "failed", "always"),
        None,
        "{never,failed,always}",
        "record tests in artifacts, for `kwait replay` (failed)",
        "the history of the test's namespaces; the default on other clusters than the embedded "
        "one is never",
    )


class ExplorationSettings:
    """Settings of explorations."""

    explore: SettingDefinition[Effort | None] = SettingDefinition(
        "effort",
        None,
        "{N,DURATION}",
        "run each test N times, or as often as DURATION allows, and perturb the cluster",
        "for example 200 or 10m; on the embedded cluster alone, of which each worker has one",
    )
    # In an ini file or the environment: every run explores the same.
    seed: SettingDefinition[int | None] = SettingDefinition(
        "seed",
        None,
        "S",
        "seed of the perturbations (a new one for each run)",
        "with `--kwait-explore 1` that of the run itself, else those of the runs are derived "
        "from it; as environment or ini every run explores the same",
    )
    explore_level: SettingDefinition[Literal["gentle", "usual", "harsh"]] = SettingDefinition(
        ("gentle", "usual", "harsh"),
        "usual",
        "{gentle,usual,harsh}",
        "how often and how much the cluster is perturbed",
    )
    # In an ini file or the environment: a job that explores one kind of perturbation.
    perturbations: SettingDefinition[tuple[str, ...] | None] = SettingDefinition(
        "perturbations",
        None,
        "LIST",
        "only these perturbations, NAME or NAME@EVENT,... or @FILE (all of the level)",
        "a file has one a line, and is given with =; as environment or ini every run explores "
        "these alone",
    )


GROUPS: tuple[tuple[str, type], ...] = (
    ("cluster", ClusterSettings),
    ("embedded cluster", EmbeddedSettings),
    ("binaries, kind, k3d and minikube", LocalClusterSettings),
    ("waits", WaitingSettings),
    ("namespaces and cleanup", NamespaceSettings),
    ("runs and reports", RunSettings),
    ("exploring", ExplorationSettings),
)
"""Groups of settings with their titles in `pytest --help`."""

SETTING_DEFINITIONS: Mapping[str, SettingDefinition[Any]] = {
    name: definition
    for _, group in GROUPS
    for name, definition in vars(group).items()
    if isinstance(definition, SettingDefinition)
}
"""All settings except the timeout table."""

TIMEOUTS: SettingDefinition[Mapping[str, float]] = SettingDefinition(
    "timeouts",
    {},
    "NAME=SECONDS",
    "a limit of the timeout table, for example job=300",
    scope="test",
    repeatable=True,
    name="timeout",
)
"""The option of the timeout table; markers call it `timeouts`."""

OPTION_GROUPS: tuple[tuple[str, tuple[SettingDefinition[Any], ...]], ...] = tuple(
    (
        title,
        tuple(
            definition
            for definition in SETTING_DEFINITIONS.values()
            if definition.option and definition.name in vars(group)
        )
        + ((TIMEOUTS,) if group is WaitingSettings else ()),
    )
    for title, group in GROUPS
)
"""Definitions with an option, by the groups of `pytest --help`."""

OPTIONS = tuple(definition for _, definitions in OPTION_GROUPS for definition in definitions)
"""Definitions with an option, an environment name and an ini name."""

MARKER_KEYS = tuple(
    key
    for name, definition in SETTING_DEFINITIONS.items()
    if definition.scope == "test"
    for key in ((name, "timeouts") if name == TIMEOUTS.name else (name,))
)
"""Names of the settings that a marker `kwait` takes."""
