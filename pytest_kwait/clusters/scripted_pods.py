"""Scripted pods of the embedded cluster: what containers do instead of their commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.selectors import parse_label_selector
from pytest_kwait.apimachinery.times import to_seconds
from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.container_scripts import MAX_EXIT_CODE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.apimachinery.times import Duration
    from pytest_kwait.clusters.faults import Fault, Faults


class ScriptedPods:
    """Behaviour of some pods' containers from their next start; `kwait_cluster.pods(…)` in tests.

    Each method creates a rule, which holds until it is undone, its `with` block ends, or the test
    ends. Newer rules precede older ones, and rules precede the pod's annotations.

    Args:
        make: sends a rule to the cluster.
        selection: the rules' selection of pods.
    """

    def __init__(
        self, make: Callable[[dict[str, Any]], Fault], selection: Mapping[str, str]
    ) -> None:
        self._make = make
        self._selection = dict(selection)

    def _rule(self, **script: object) -> Fault:
        fields = {key: value for key, value in script.items() if value is not None}
        return self._make({"kind": "script", **self._selection, "script": fields})

    def run(
        self,
        *,
        for_: Duration | None = None,
        exit: int = 0,  # named after the shell's `exit`
        reason: str | None = None,
        message: str | None = None,
    ) -> Fault:
        """Run for a while and exit, whatever the command is.

        Args:
            for_: real seconds, or a duration; None until they are stopped.
            exit: the exit code.
            reason: the reason in their state; None for the one that the exit code has.
            message: their termination message.

        Raises:
            ClusterError: not an embedded cluster.
        """
        seconds = None if for_ is None else to_seconds(for_, what="for_")
        code = _check_exit_code(exit)
        if seconds is None and code:
            raise InvalidArgument("for_", None, "a duration, as there is an exit code to end with")
        return self._rule(
            run="forever" if seconds is None else seconds,
            exit=code,
            reason=_check_text("reason", reason),
            message=_check_text("message", message),
        )  # fmt: skip

    def crash_loop(self, exit: int = 1) -> Fault:  # as in `run`
        """Exit at once after each start.

        Args:
            exit: the exit code.

        Raises:
            ClusterError: not an embedded cluster.
        """
        return self._rule(run=0.0, exit=_check_exit_code(exit))

    def hold_pending(self) -> Fault:
        """Never start: pods stay Pending, containers ContainerCreating.

        Raises:
            ClusterError: not an embedded cluster.
        """
        return self._rule(start="never")

    def start(self, *, after: Duration) -> Fault:
        """Delay the start of the containers.

        Args:
            after: real seconds, or a duration.

        Raises:
            ClusterError: not an embedded cluster.
        """
        return self._rule(start=to_seconds(after, what="after"))

    def pull(self, *, for_: Duration) -> Fault:
        """Pull the images slowly, even if the node has them.

        Args:
            for_: real seconds, or a duration.

        Raises:
            ClusterError: not an embedded cluster.
        """
        return self._rule(pull=to_seconds(for_, what="for_"))

    def pull_error(self, message: str = "not found") -> Fault:
        """Fail every pull of the images.

        Args:
            message: the container runtime's error; waits decide by it when to fail early.

        Raises:
            InvalidArgument: it is empty.
            ClusterError: not an embedded cluster.
        """
        return self._rule(pull_error=_check_text("message", message))

    def ready(self, *, after: Duration) -> Fault:
        """Become ready a while after the start, whatever the probes are.

        Args:
            after: real seconds, or a duration.

        Raises:
            ClusterError: not an embedded cluster.
        """
        return self._rule(ready=to_seconds(after, what="after"))

    def never_ready(self) -> Fault:
        """Run and never become ready, whatever the probes are.

        Raises:
            ClusterError: not an embedded cluster.
        """
        return self._rule(ready="never")

    def logs(self, lines: Sequence[str]) -> Fault:
        """Write lines at the start, and keep running, whatever the command is.

        Args:
            lines: without line ends.

        Raises:
            ClusterError: not an embedded cluster.
        """
        value: object = lines
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        if not is_list or not all(_is_line(line) for line in lines):
            raise InvalidArgument("lines", lines, "a list of lines")
        return self._rule(log=list(lines))


def _is_line(line: object) -> bool:
    return isinstance(line, str) and "\n" not in line


def _check_exit_code(code: object) -> int:
    if isinstance(code, bool) or not isinstance(code, int) or not 0 <= code <= MAX_EXIT_CODE:
        raise InvalidArgument("exit", code, f"a whole number from 0 to {MAX_EXIT_CODE}")
    return code


def _check_text(what: str, text: object) -> str | None:
    if text is not None and (not isinstance(text, str) or not text):
        raise InvalidArgument(what, text, "a text that is not empty")
    return text


def script_pods(
    faults: Faults, label: str, name: str, container: str, namespace: str | None
) -> ScriptedPods:
    """Return the rules for a selection of pods.

    Args:
        faults: the faults of their cluster.
        label: a label selector; empty for all.
        name: a pod's name; empty for all.
        container: a container's name; empty for all.
        namespace: None for the test's.

    Raises:
        InvalidArgument: an invalid selector or name.
    """
    if namespace:
        check_namespace(namespace)
    for argument, value in (("name", name), ("container", container)):
        if not isinstance(value, str):
            raise InvalidArgument(argument, value, "a name, or nothing for all")
    try:
        parse_label_selector(label)
    except (ValueError, TypeError) as error:
        raise InvalidArgument("label", label, f"a selector as app=web: {error}") from error
    selection = {"label": label, "pod": name, "container": container}
    return ScriptedPods(lambda rule: faults.rule(rule, namespace), selection)
