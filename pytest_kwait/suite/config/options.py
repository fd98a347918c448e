"""Definitions of all settings: names, help, defaults.

Loaded with the plugin, so it imports nothing of the package at import time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.suite.config.parsers import Reader

__all__ = ["OPTIONS", "SETTING_DEFINITIONS", "TIMEOUTS", "SettingDefinition"]


# A plain class: the code of a dataclass or of a named tuple is compiled each time that the plugin
# is loaded.
class SettingDefinition:
    """What a setting is called, how it is read, what it is unless given.

    Args:
        name: as in `kwait.settings`; `--kwait-…`, `KWAIT_…` and `kwait_…` follow from it.
        kind: what is read: a name as in `values.read_…`, or the texts that are valid.
        default: the value when nobody gave one.
        metavar: what stands for the value in the help.
        help: the help text, without the default.
        scope: `test` if a marker can set it for one test, `run` if it belongs to the whole run.
        option: whether it has an option, an environment name and an ini name.
        repeatable: whether the option may be given several times; what comes with it is a list.
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
    def read(self) -> Reader:
        """What turns what was given into the value, or refuses it."""
        from pytest_kwait.suite.config import parsers as values

        if isinstance(self.kind, tuple):
            return values.read_choice(*self.kind)
        read: Reader = getattr(values, f"read_{self.kind}")
        return read

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
        "where the cluster comes from: auto (a kubeconfig or context given by option, environment "
        "or ini, else embedded), existing (the same, else the standard loading rules: KUBECONFIG, "
        "~/.kube/config, in-cluster), embedded (started for this run)",
    ),
    SettingDefinition(
        "kubeconfig",
        "path",
        None,
        "FILE",
        "kubeconfig file of the cluster to use",
    ),
    SettingDefinition(
        "context",
        "text",
        None,
        "NAME",
        "context of the kubeconfig to use, instead of its current one",
    ),
    SettingDefinition(
        "allowed_contexts",
        "patterns",
        None,
        "NAME,...",
        "contexts that tests may run on, with * for any part of a name (any context); the embedded "
        "cluster is always one",
    ),
    SettingDefinition(
        "timing",
        ("fast", "real"),
        "fast",
        "{fast,real}",
        "how long the embedded cluster's back-offs, leases, graces and batches are: a twentieth of "
        "Kubernetes' own (fast), or as long (real); what manifests and commands say keeps its "
        "length",
    ),
    SettingDefinition(
        "poll",
        "positive_duration",
        2.0,
        "DURATION",
        "pause between two looks in poll mode, and at what cannot be watched",
        "test",
    ),
    SettingDefinition(
        "mode",
        ("watch", "poll"),
        "watch",
        "{watch,poll}",
        "how waits look: watch (list, then watch) or poll (list every poll interval)",
        "test",
    ),
    SettingDefinition(
        "fail_fast",
        "bool",
        True,
        "{true,false}",
        "whether a wait ends at once when what it waits for can no longer come",
        "test",
    ),
    SettingDefinition(
        "grace",
        "duration",
        None,
        "DURATION",
        "how long a trouble that may pass must last before a wait calls it final (45s; on the "
        "embedded cluster as much shorter as its time is faster)",
        "test",
    ),
    SettingDefinition(
        "timeout",
        "positive_duration",
        None,
        "DURATION",
        "limit of each wait of the test, whatever the table says",
        "test",
        option=False,
    ),
    SettingDefinition(
        "stable_for",
        "duration",
        None,
        "DURATION",
        "how long what is awaited must hold without a break",
        "test",
        option=False,
    ),
    SettingDefinition(
        "timeout_scale",
        "scale",
        1.0,
        "FACTOR",
        "multiplies every limit of the timeout table, named ones included, for slow machines",
    ),
    SettingDefinition(
        "namespace",
        "dns_label",
        None,
        "NAME",
        "use this namespace, which must exist; make and delete none",
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
        "Pod Security Standard that the run's namespaces enforce: privileged, baseline or "
        "restricted, of a release or the latest (what the cluster has for all)",
    ),
    SettingDefinition(
        "namespace_limit",
        "positive_int",
        100,
        "N",
        "how many namespaces this run may have at a time in a cluster that outlives it, all "
        "workers together; those that are being deleted count, those that are kept do not",
    ),
    SettingDefinition(
        "namespace_rate",
        "scale",
        20.0,
        "N",
        "how many namespaces this run may make a second there, all workers together",
    ),
    SettingDefinition(
        "deletion_wait",
        "duration",
        120.0,
        "DURATION",
        "how long the end of the run waits there until its namespaces are gone, and names what "
        "holds those that are not; with --kwait-namespace, how long the end of each test waits for "
        "what it has made; 0 for not at all",
    ),
    SettingDefinition(
        "keep",
        ("never", "failed", "always"),
        "never",
        "{never,failed,always}",
        "which namespaces stay after their tests: never, of failed tests, or always; what was made "
        "outside of the namespace stays with it",
        "test",
    ),
    SettingDefinition(
        "run_id",
        "dns_label",
        None,
        "ID",
        "name of this run in the names, labels and annotations of what it makes (random)",
    ),
    SettingDefinition(
        "shard",
        "shard",
        None,
        "{I/N,auto,auto/N}",
        "run one of N parts of the suite, the I-th; auto reads which one, and of how many, from "
        "GitLab, CircleCI, Buildkite or a Kubernetes Indexed Job (auto/N)",
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
        "how many nodes may be not ready, and system pods as well, before the first test; -1 not "
        "to wait for any",
    ),
    SettingDefinition(
        "non_blocking_taints",
        "taints",
        ("node-role.kubernetes.io/control-plane",),
        "KEY,...",
        "taints of nodes that do not make them not ready before the first test",
    ),
    SettingDefinition(
        "min_startup_pods",
        "limit",
        0,
        "N",
        "how many pods of kube-system must be ready at least before the first test; -1 not to wait "
        "for any",
    ),
    SettingDefinition(
        "artifacts",
        "path",
        None,
        "DIR",
        "folder to which each failed test writes one of its own: its failure, the evidence of its "
        "waits, and the objects, events and logs of its namespace",
    ),
    SettingDefinition(
        "heartbeat",
        "positive_duration",
        30.0,
        "DURATION",
        "how often this run says in a Lease that it lives; it counts as dead after four times that",
    ),
    SettingDefinition(
        "janitor",
        "bool",
        True,
        "{true,false}",
        "whether this run removes what dead runs have left in the cluster",
    ),
    SettingDefinition(
        "report",
        "reports",
        (),
        "FILE",
        "write a report of every wait: .html is a page to look at, .json is for `kwait report "
        "merge`; repeatable, as environment and ini a comma-separated list",
        repeatable=True,
    ),
)

SETTING_DEFINITIONS: Mapping[str, SettingDefinition] = {
    definition.name: definition for definition in _ALL
}
"""Every setting but the table of timeouts, which is set name by name."""

TIMEOUTS = SettingDefinition(
    "timeout",
    "timeouts",
    {},
    "NAME=DURATION",
    "one limit of the timeout table, for example job=5m; repeatable, as environment and ini a "
    "comma-separated list",
    "test",
    repeatable=True,
)
"""The option behind the table of timeouts; markers call it `timeouts`."""

OPTIONS = (*(each for each in SETTING_DEFINITIONS.values() if each.option), TIMEOUTS)
"""What has an option, an environment name and an ini name."""
