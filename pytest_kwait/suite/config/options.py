"""Definitions of all settings: names, help, defaults.

Loaded with the plugin, so it imports nothing of the package at import time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


# A plain class: the code of a dataclass or of a named tuple is compiled each time that the plugin
# is loaded.
class SettingDefinition:
    """Definition of a setting: name, parser, default and help.

    Args:
        name: as in `kwait.settings`; `--kwait-…`, `KWAIT_…` and `kwait_…` follow from it.
        kind: the parser, as in `settings.read_…`, or the valid texts.
        help: the text of `pytest --help`, without the default: at most two lines there.
        details: what the reference adds to it.
        scope: `test` if a marker can set it for one test, else `run`.
        option: whether it has an option, an environment name and an ini name.
        repeatable: whether the option may be repeated; its value is then a list.
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
        name: str,
        kind: str | tuple[str, ...],
        default: Any,
        metavar: str,
        help: str,
        details: str = "",
        *,
        scope: Literal["run", "test"] = "run",
        option: bool = True,
        repeatable: bool = False,
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


_CLUSTER = (
    SettingDefinition(
        "cluster",
        "text",
        "auto",
        "{auto,existing,embedded,binaries,kind,k3d,minikube}",
        "cluster to use; auto: the kubeconfig or context given, else embedded",
        "existing reads kubeconfigs by the standard loading rules (KUBECONFIG, "
        "~/.kube/config, in-cluster), embedded is started for this run, binaries are "
        "envtest's etcd and kube-apiserver, kind, k3d and minikube create a cluster by that "
        "program; plugins add names",
    ),
    SettingDefinition(
        "kubeconfig",
        "path",
        None,
        "FILE",
        "kubeconfig of the cluster",
    ),
    SettingDefinition(
        "context",
        "text",
        None,
        "NAME",
        "context of the kubeconfig, instead of its current one",
    ),
    SettingDefinition(
        "allowed_contexts",
        "patterns",
        None,
        "NAME,...",
        "contexts in which tests may run, * for any part of a name (any context)",
        "the embedded cluster is always allowed",
    ),
    SettingDefinition(
        "session_waits",
        "bool",
        True,
        "",
        "whether the first test waits until nodes and system pods of an existing cluster are ready",
    ),
    SettingDefinition(
        "allowed_not_ready_nodes",
        "limit",
        0,
        "N",
        "nodes and system pods that may be not ready then; -1: no check",
    ),
    SettingDefinition(
        "non_blocking_taints",
        "taints",
        ("node-role.kubernetes.io/control-plane",),
        "KEY,...",
        "taints that nodes may have then",
    ),
    SettingDefinition(
        "min_startup_pods",
        "limit",
        0,
        "N",
        "system pods that must be ready then; -1: no check",
        "they are those of kube-system",
    ),
)
_EMBEDDED = (
    SettingDefinition(
        "timing",
        ("fast", "real"),
        "fast",
        "{fast,real}",
        "back-offs, leases and grace periods: a twentieth of Kubernetes' own, or the same",
        "batches too; durations in manifests and commands are never changed",
    ),
    SettingDefinition(
        "api_only",
        "bool",
        False,
        "",
        "whether it is an API server alone, as in envtest",
        "no controllers but those of kube-apiserver, no scheduler, no nodes",
    ),
    SettingDefinition(
        "image",
        "images",
        (),
        "PATTERN=COMMAND",
        "run COMMAND of this machine in containers of the images that match; repeatable",
        "for example shop/web:*=python -m shop.web; as environment and ini one per line",
        repeatable=True,
    ),
    SettingDefinition(
        "egress",
        "egress",
        (),
        "HOST:PORT",
        "let programs in pods connect to HOST; repeatable",
        "for example pypi.org:443; localhost is this machine, host.kwait.internal in pods; "
        "as environment and ini one per line",
        repeatable=True,
    ),
)
_LOCAL = (
    SettingDefinition(
        "controllers",
        "bool",
        False,
        "",
        "whether `binaries` has the embedded cluster's controllers and nodes",
        "with its scheduler and two nodes, beside etcd and kube-apiserver",
    ),
    SettingDefinition(
        "assets",
        "path",
        None,
        "DIR",
        "etcd and kube-apiserver of binaries (KUBEBUILDER_ASSETS, else /usr/local/kubebuilder/bin)",
    ),
    SettingDefinition(
        "cluster_name",
        "dns_label",
        None,
        "NAME",
        "cluster to use, created if it is not there (a new one)",
        "a new one is named after the run",
    ),
    SettingDefinition(
        "cluster_config",
        "path",
        None,
        "FILE",
        "configuration of a new cluster of kind or k3d",
    ),
    SettingDefinition(
        "cluster_args",
        "words",
        (),
        "ARGS",
        "further arguments of the command that creates a cluster, as in a shell",
        "for example '--driver=podman --nodes=2'",
    ),
    SettingDefinition(
        "node_image",
        "text",
        None,
        "IMAGE",
        "image of the nodes (that of the program)",
        "base image of minikube",
    ),
    SettingDefinition(
        "load_image",
        "names",
        (),
        "IMAGE",
        "image of this machine to load into the nodes; repeatable",
        "as environment and ini a comma-separated list",
        repeatable=True,
    ),
    SettingDefinition(
        "keep_cluster",
        ("never", "failed", "always"),
        "never",
        "{never,failed,always}",
        "keep a cluster that the run has created: never, if a test failed, always",
    ),
)
_WAITS = (
    SettingDefinition(
        "poll",
        "positive_duration",
        2.0,
        "SECONDS",
        "interval of poll mode, and of what cannot be watched",
        scope="test",
    ),
    SettingDefinition(
        "mode",
        ("watch", "poll"),
        "watch",
        "{watch,poll}",
        "list, then watch; or list at each interval",
        scope="test",
    ),
    SettingDefinition(
        "fail_fast",
        "bool",
        True,
        "",
        "whether a wait fails early once its condition can no longer come true",
        scope="test",
    ),
    SettingDefinition(
        "grace",
        "duration",
        None,
        "SECONDS",
        "how long a problem that may pass must last before that (45s)",
        "on the embedded cluster a tenth of it with fast timing",
        scope="test",
    ),
    SettingDefinition(
        "timeout",
        "positive_duration",
        None,
        "SECONDS",
        "limit of each wait of the test, instead of the timeout table's",
        scope="test",
        option=False,
    ),
    SettingDefinition(
        "stable_for",
        "duration",
        None,
        "SECONDS",
        "how long the condition must hold without interruption",
        scope="test",
        option=False,
    ),
    SettingDefinition(
        "timeout_scale",
        "scale",
        1.0,
        "FACTOR",
        "factor for every limit of the timeout table, for slow machines",
    ),
    SettingDefinition(
        "audit",
        "bool",
        False,
        "",
        "whether the end of the run lists waits that prove nothing",
        "those met by a transient, always met at the first look, or close to their limit",
    ),
)
_NAMESPACES = (
    SettingDefinition(
        "namespace",
        "dns_label",
        None,
        "NAME",
        "use this existing namespace; create and delete none",
    ),
    SettingDefinition(
        "namespace_scope",
        ("test", "class", "module", "session"),
        "test",
        "{test,class,module,session}",
        "which tests share a namespace",
        scope="test",
    ),
    SettingDefinition(
        "pod_security",
        "pod_security",
        None,
        "LEVEL[:VERSION]",
        "enforce privileged, baseline or restricted in namespaces (the cluster's default)",
        "VERSION is a release or latest",
    ),
    SettingDefinition(
        "namespace_limit",
        "positive_int",
        100,
        "N",
        "namespaces of this run at a time in an existing cluster",
        "all workers together; namespaces being deleted count, kept ones do not",
    ),
    SettingDefinition(
        "namespace_rate",
        "scale",
        20.0,
        "N",
        "namespaces created per second there",
        "all workers together",
    ),
    SettingDefinition(
        "keep",
        ("never", "failed", "always"),
        "never",
        "{never,failed,always}",
        "keep namespaces after tests: never, of failed ones, always",
        "objects that the test created elsewhere are kept with them",
        scope="test",
    ),
    SettingDefinition(
        "deletion_wait",
        "duration",
        120.0,
        "SECONDS",
        "if given: wait at the end until namespaces are gone",
        "reports those that remain; with --kwait-namespace, how long the end of each test "
        "waits until its objects are gone; 0 to skip",
    ),
    SettingDefinition(
        "heartbeat",
        "heartbeat",
        30.0,
        "SECONDS",
        "interval of the run's sign of life; dead after four",
        "it renews a Lease",
    ),
    SettingDefinition(
        "janitor",
        "bool",
        True,
        "",
        "whether this run deletes what dead runs left in the cluster",
    ),
)
_RUNS = (
    SettingDefinition(
        "run_id",
        "dns_label",
        None,
        "ID",
        "name of this run in its objects (random)",
        "in names, labels and annotations",
    ),
    SettingDefinition(
        "shard",
        "shard",
        None,
        "{I/N,auto,auto/N}",
        "run part I of N of the suite; auto: as the CI job says",
        "auto reads I and N from GitLab, CircleCI or Buildkite, auto/N reads I from a "
        "Kubernetes Indexed Job",
    ),
    SettingDefinition(
        "report",
        "reports",
        (),
        "FILE",
        "write a report of every wait, .html or .json; repeatable",
        ".html is a page, .json is for `kwait report merge`; as environment and ini a "
        "comma-separated list",
        repeatable=True,
    ),
    SettingDefinition(
        "artifacts",
        "path",
        None,
        "DIR",
        "folder for objects, events and logs of failed tests",
        "one subfolder per failed test, with its failure and the evidence of its waits",
    ),
    SettingDefinition(
        "record",
        ("never", "failed", "always"),
        None,
        "{never,failed,always}",
        "record tests in artifacts, for `kwait replay` (failed)",
        "the history of the test's namespaces; the default on other clusters than the embedded "
        "one is never",
    ),
)
_EXPLORING = (
    SettingDefinition(
        "explore",
        "effort",
        None,
        "{N,DURATION}",
        "run each test N times, or as often as DURATION allows, and perturb the cluster",
        "for example 200 or 10m; on the embedded cluster alone, of which each worker has one",
    ),
    # In an ini file or the environment: every run explores the same.
    SettingDefinition(
        "seed",
        "seed",
        None,
        "S",
        "seed of the perturbations (a new one for each run)",
        "with `--kwait-explore 1` that of the run itself, else those of the runs are derived "
        "from it; as environment or ini every run explores the same",
    ),
    SettingDefinition(
        "explore_level",
        ("gentle", "usual", "harsh"),
        "usual",
        "{gentle,usual,harsh}",
        "how often and how much the cluster is perturbed",
    ),
    # In an ini file or the environment: a job that explores one kind of perturbation.
    SettingDefinition(
        "perturbations",
        "perturbations",
        None,
        "LIST",
        "only these perturbations, NAME or NAME@EVENT,... or @FILE (all of the level)",
        "a file has one a line, and is given with =; as environment or ini every run explores "
        "these alone",
    ),
)
_GROUPS = {
    "cluster": _CLUSTER,
    "embedded cluster": _EMBEDDED,
    "binaries, kind, k3d and minikube": _LOCAL,
    "waits": _WAITS,
    "namespaces and cleanup": _NAMESPACES,
    "runs and reports": _RUNS,
    "exploring": _EXPLORING,
}

SETTING_DEFINITIONS: Mapping[str, SettingDefinition] = {
    definition.name: definition for definitions in _GROUPS.values() for definition in definitions
}
"""All settings except the timeout table."""

TIMEOUTS = SettingDefinition(
    "timeout",
    "timeouts",
    {},
    "NAME=SECONDS",
    "a limit of the timeout table, for example job=300; repeatable",
    "as environment and ini a comma-separated list",
    scope="test",
    repeatable=True,
)
"""The option of the timeout table; markers call it `timeouts`."""

OPTION_GROUPS: tuple[tuple[str, tuple[SettingDefinition, ...]], ...] = tuple(
    (
        title,
        tuple(each for each in definitions if each.option)
        + ((TIMEOUTS,) if title == "waits" else ()),
    )
    for title, definitions in _GROUPS.items()
)
"""Definitions with an option, by the groups of `pytest --help`."""

OPTIONS = tuple(each for _, definitions in OPTION_GROUPS for each in definitions)
"""Definitions with an option, an environment name and an ini name."""
