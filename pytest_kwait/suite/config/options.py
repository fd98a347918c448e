"""Definitions of all settings: names, help, defaults.

Loaded with the plugin, so it imports nothing of the package at import time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OPTIONS", "SETTING_DEFINITIONS", "TIMEOUTS", "SettingDefinition"]


# A plain class: the code of a dataclass or of a named tuple is compiled each time that the plugin
# is loaded.
class SettingDefinition:
    """Definition of a setting: name, parser, default and help.

    Args:
        name: as in `kwait.settings`; `--kwait-…`, `KWAIT_…` and `kwait_…` follow from it.
        kind: the parser, as in `settings.read_…`, or the valid texts.
        help: the help text, without the default.
        scope: `test` if a marker can set it for one test, else `run`.
        option: whether it has an option, an environment name and an ini name.
        repeatable: whether the option may be repeated; its value is then a list.
    """

    __slots__ = ("default", "help", "kind", "metavar", "name", "option", "repeatable", "scope")

    def __init__(
        self,
        name: str,
        kind: str | tuple[str, ...],
        default: Any,
        metavar: str,
        help: str,
        scope: Literal["run", "test"] = "run",
        *,
        option: bool = True,
        repeatable: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.metavar = metavar
        self.help = help
        self.scope = scope
        self.option = option
        self.repeatable = repeatable

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
    SettingDefinition(
        "cluster",
        ("auto", "existing", "embedded"),
        "auto",
        "{auto,existing,embedded}",
        "source of the cluster: auto (the kubeconfig or context given by option, environment or "
        "ini, else embedded), existing (the same, else the standard loading rules: KUBECONFIG, "
        "~/.kube/config, in-cluster), embedded (started for this run)",
    ),
    SettingDefinition(
        "kubeconfig",
        "path",
        None,
        "FILE",
        "kubeconfig file of the cluster",
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
        "contexts in which tests may run, with * for any part of a name (any context); the "
        "embedded cluster is always allowed",
    ),
    SettingDefinition(
        "timing",
        ("fast", "real"),
        "fast",
        "{fast,real}",
        "duration of the embedded cluster's back-offs, leases, grace periods and batches: a "
        "twentieth of Kubernetes' own (fast) or the same (real); durations in manifests and "
        "commands are never changed",
    ),
    SettingDefinition(
        "api_only",
        "bool",
        False,
        "{true,false}",
        "whether the embedded cluster is an API server alone, as in envtest: no controllers but "
        "those of kube-apiserver, no scheduler, no nodes",
    ),
    SettingDefinition(
        "image",
        "images",
        (),
        "PATTERN=COMMAND",
        "run COMMAND, a program of this machine, in containers of the images that match PATTERN "
        "on the embedded cluster, for example shop/web:*=python -m shop.web; repeatable, as "
        "environment and ini one per line",
        repeatable=True,
    ),
    SettingDefinition(
        "egress",
        "egress",
        (),
        "HOST:PORT",
        "let programs in pods of the embedded cluster connect to HOST outside of it, for example "
        "pypi.org:443; localhost is this machine, host.kwait.internal in pods; repeatable, as "
        "environment and ini one per line",
        repeatable=True,
    ),
    SettingDefinition(
        "poll",
        "positive_duration",
        2.0,
        "DURATION",
        "interval between requests in poll mode, and for resources that cannot be watched",
        "test",
    ),
    SettingDefinition(
        "mode",
        ("watch", "poll"),
        "watch",
        "{watch,poll}",
        "how waits observe the cluster: watch (list, then watch) or poll (list at each interval)",
        "test",
    ),
    SettingDefinition(
        "fail_fast",
        "bool",
        True,
        "{true,false}",
        "whether a wait fails early once its condition can no longer come true",
        "test",
    ),
    SettingDefinition(
        "grace",
        "duration",
        None,
        "DURATION",
        "how long a problem that may pass must last before a wait fails early (45s; on the "
        "embedded cluster a twentieth of it with fast timing)",
        "test",
    ),
    SettingDefinition(
        "timeout",
        "positive_duration",
        None,
        "DURATION",
        "limit of each wait of the test, instead of the timeout table's",
        "test",
        option=False,
    ),
    SettingDefinition(
        "stable_for",
        "duration",
        None,
        "DURATION",
        "how long the condition must hold without interruption",
        "test",
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
    ),
    SettingDefinition(
        "pod_security",
        "pod_security",
        None,
        "LEVEL[:VERSION]",
        "Pod Security Standard enforced in the run's namespaces: privileged, baseline or "
        "restricted, of a release or the latest (the cluster's default)",
    ),
    SettingDefinition(
        "namespace_limit",
        "positive_int",
        100,
        "N",
        "maximum number of namespaces of this run at a time in an existing cluster, all workers "
        "together; namespaces being deleted count, kept ones do not",
    ),
    SettingDefinition(
        "namespace_rate",
        "scale",
        20.0,
        "N",
        "maximum number of namespaces created per second there, all workers together",
    ),
    SettingDefinition(
        "deletion_wait",
        "duration",
        120.0,
        "DURATION",
        "how long the end of the run waits there until its namespaces are gone; those that "
        "remain are reported with the reason; with --kwait-namespace, how long the end of each "
        "test waits until its objects are gone; 0 to skip",
    ),
    SettingDefinition(
        "keep",
        ("never", "failed", "always"),
        "never",
        "{never,failed,always}",
        "which namespaces are kept after their tests: never, those of failed tests, or always; "
        "objects that the test created elsewhere are kept with them",
        "test",
    ),
    SettingDefinition(
        "run_id",
        "dns_label",
        None,
        "ID",
        "name of this run in names, labels and annotations of its objects (random)",
    ),
    SettingDefinition(
        "shard",
        "shard",
        None,
        "{I/N,auto,auto/N}",
        "run part I of N of the suite; auto reads I and N from GitLab, CircleCI or Buildkite, "
        "auto/N reads I from a Kubernetes Indexed Job",
    ),
    SettingDefinition(
        "session_waits",
        "bool",
        True,
        "{true,false}",
        "whether the first test that uses an existing cluster waits until its nodes and the pods "
        "of kube-system are ready",
    ),
    SettingDefinition(
        "allowed_not_ready_nodes",
        "limit",
        0,
        "N",
        "how many nodes, and how many system pods, may be not ready before the first test; -1 to "
        "skip the check",
    ),
    SettingDefinition(
        "non_blocking_taints",
        "taints",
        ("node-role.kubernetes.io/control-plane",),
        "KEY,...",
        "taints that do not make a node count as not ready before the first test",
    ),
    SettingDefinition(
        "min_startup_pods",
        "limit",
        0,
        "N",
        "minimum number of ready pods in kube-system before the first test; -1 to skip the check",
    ),
    SettingDefinition(
        "artifacts",
        "path",
        None,
        "DIR",
        "folder for artifacts: one subfolder per failed test, with its failure, the evidence of "
        "its waits, and objects, events and logs of its namespace",
    ),
    SettingDefinition(
        "heartbeat",
        "heartbeat",
        30.0,
        "DURATION",
        "interval at which this run renews its Lease; it counts as dead after four intervals",
    ),
    SettingDefinition(
        "janitor",
        "bool",
        True,
        "{true,false}",
        "whether this run deletes objects that dead runs left in the cluster",
    ),
    SettingDefinition(
        "report",
        "reports",
        (),
        "FILE",
        "write a report of every wait: .html is a page, .json is for `kwait report merge`; "
        "repeatable, as environment and ini a comma-separated list",
        repeatable=True,
    ),
)

SETTING_DEFINITIONS: Mapping[str, SettingDefinition] = {
    definition.name: definition for definition in _ALL
}
"""All settings except the timeout table."""

TIMEOUTS = SettingDefinition(
    "timeout",
    "timeouts",
    {},
    "NAME=DURATION",
    "a limit of the timeout table, for example job=5m; repeatable, as environment and ini a "
    "comma-separated list",
    "test",
    repeatable=True,
)
"""The option of the timeout table; markers call it `timeouts`."""

OPTIONS = (*(each for each in SETTING_DEFINITIONS.values() if each.option), TIMEOUTS)
"""Definitions with an option, an environment name and an ini name."""
