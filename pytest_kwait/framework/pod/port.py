"""Wait until a port of a pod takes TCP connections, through the API server's port-forward.

Source: kubectl/pkg/cmd/portforward/portforward.go; kubernetes/test/e2e/framework/pod/dial.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.condition import Failed, Met, Pending, Verdict
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.named_objects import ProbeCondition
from pytest_kwait.framework.pod.wait import RUNNING, NamedPod
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import detect_not_running, detect_not_staying_up
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.condition import TerminalState
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

Obj = dict[str, Any]

PROBE_TIMEOUT = 10.0
"""Timeout of one connection, in seconds."""


class OpenPort(NamedPod, ProbeCondition):
    """A port of a pod takes TCP connections.

    Args:
        port: its number, or its name in the pod's spec.
    """

    def __init__(self, namespace: str, pod: str, port: int | str) -> None:
        super().__init__(namespace, pod)
        self.goal = f"answer on port {port}"
        self._port = port
        self._reason: str | None = "it has not been tried yet"
        self._probed = -1
        self._terminal_state: TerminalState | None = None

    def verdict(self) -> Verdict:
        """Decide by the pod, then by the last connection."""
        if self._reason is None:
            return Met()
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        pod = self.object.current or {}
        running = RUNNING.evaluate(pod)
        failed = running if isinstance(running, Failed) else self._detect_failure(pod)
        if failed is not None:
            return failed
        return running if isinstance(running, Pending) else Pending(self._reason)

    def _detect_failure(self, pod: Obj) -> Failed | None:
        if (ending := self.object.ending()) is not None:
            return ending
        if self._number() is None:
            named = ", ".join(str(port["name"]) for port in _list_ports(pod) if port.get("name"))
            text = f"it has {named}" if named else "its ports have no names"
            return Failed(f"the pod has no TCP port {self._port}, {text}")
        self._terminal_state = detect_not_running(
            pod, self._terminal_state
        ) or detect_not_staying_up(pod, self._terminal_state)
        terminal = self._terminal_state or self.object.marked
        if terminal is None:
            return None
        failed = Failed(terminal.reason, terminal.grace, repeats=terminal.repeats)
        return self.object.date_failure(failed)

    def _number(self) -> int | None:
        """Return the number of the port; None if the pod has none of its name."""
        if isinstance(self._port, int):
            return self._port
        ports = _list_ports(self.object.current or {})
        numbers = (port.get("containerPort") for port in ports if port.get("name") == self._port)
        return next(numbers, None)

    def probe_targets(self) -> Sequence[int]:
        """Return the port to connect to, while the pod runs and it has not answered."""
        pod = self.object.current
        if self._reason is None or pod is None or not isinstance(RUNNING.evaluate(pod), Met):
            return ()
        number = self._number()
        return () if number is None else (number,)

    def is_urgent(self) -> bool:
        """Return whether the pod has changed since the last connection."""
        return self.object.changes != self._probed

    def send_requests(self, targets: Sequence[int], deadline: Deadline) -> Sequence[str | None]:
        """Connect once; return why the port does not answer, or None if it does."""
        self._probed = self.object.changes
        return [self._connect(self.client_session, port, deadline) for port in targets]

    def _connect(self, session: ApiSession, port: int, deadline: Deadline) -> str | None:
        limit = deadline.at_most(PROBE_TIMEOUT)
        try:
            refusal = session.probe_port(
                self.namespace or "", self.object.name, port, deadline=limit
            )
        except DeadlineExceeded:
            if deadline.expired:
                raise
            return f"no connection within {PROBE_TIMEOUT:g}s"
        except ApiError as error:
            # The API server's own refusals are errors; the others come from the node.
            if error.status == 401 or (error.status == 403 and error.reason == "Forbidden"):
                raise
            return f"no connection: {error.status or error.reason}: {error.message}"
        if "connection refused" in refusal:
            return "the connection is refused: nothing listens there yet"
        return f"no connection: {refusal}" if refusal else None

    def record_answers(self, answers: Sequence[str | None]) -> None:
        """Record the answer; after a connection no further one is made."""
        (self._reason,) = answers


def _list_ports(pod: Obj) -> list[Obj]:
    """Return the TCP ports of a pod's containers and init containers, as in its spec."""
    spec = pod.get("spec") or {}
    return [
        port
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
        for port in container.get("ports") or ()
        if port.get("protocol") in (None, "TCP")
    ]


@wait(limit="pod_responding", kind=PODS, summary="a port of a pod that takes TCP connections")
def wait_for_pod_port(
    client: ApiClient,
    namespace: str,
    name: str,
    port: int | str,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once one of its ports takes TCP connections.

    The connection goes through the API server's port-forward, as soon as the pod runs, after each
    change of the pod, and every `poll`. Nothing is sent to the port, so that it suits databases and
    brokers; for HTTP use `wait_for_pods_responding`. The kubelet reports only refusals: a
    connection on which the server says nothing counts once it has been open for a second.

    Args:
        port: its number, or its name in the pod's spec.

    Raises:
        ApiError: the server refuses, port-forward to pods included.
        WaitFailed: the pod has no port of that name, has ended, is being deleted or was, cannot
            start, or crashes again and again.

    Source: pod/dial.go, which connects to pods in the same way.
    """
    value: object = port
    number = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536
    if not number and not (isinstance(value, str) and value):
        raise InvalidArgument("port", value, "use a number from 1 to 65535, or a port's name")
    return OpenPort(namespace, name, port)
