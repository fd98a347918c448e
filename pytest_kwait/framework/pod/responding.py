"""Wait until pods respond to HTTP requests through the API server's pod proxy.

Source: kubernetes/test/e2e/framework/pod/wait.go WaitForPodsResponding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.selectors import Selector, normalize_label_selector
from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.condition import Met, Pending, TerminalState, Verdict
from pytest_kwait.engine.object_sinks import ObjectState
from pytest_kwait.engine.pod_fields import is_finished, phase_label
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.named_objects import controller_uid
from pytest_kwait.framework.pod.list_conditions import SetPodFields
from pytest_kwait.framework.pod.placement import (
    Answers,
    PlacedPod,
    PlacedPodsCondition,
    parse_pod_uids,
)
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import detect_not_running, detect_pod_end
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.named_objects import KubernetesObjects
    from pytest_kwait.framework.registry import ConditionOf

POD_TIMEOUT = 10.0
"""Timeout of one request to a pod, in seconds."""


class RespondingPods(PlacedPodsCondition):
    """Every pod answers, with its own name if required.

    Args:
        selector: their labels; None if they are given by name.
        pods: their UIDs by name, empty where not known; None if they are selected.
        want_name: whether the answer must be the pod's name.
        port: the port of the request; None for the first one of the pod.
    """

    goal = "respond"

    def __init__(
        self,
        namespace: str,
        *,
        selector: str | None,
        pods: Mapping[str, str] | None,
        want_name: bool,
        port: int | None,
        path: str,
    ) -> None:
        super().__init__(namespace, selector, pods, self._state)
        self._want_name = want_name
        self._port = port
        self._path = path
        self._sources = (self._pod_source(SetPodFields),)

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        # A selected pod that has ended may be replaced by another.
        replaced = self._wanted is None and bool(controller_uid(pod))
        ended = detect_pod_end(pod, replaced=replaced)
        terminal = ended if is_finished(pod) else detect_not_running(pod, before)
        return ObjectState(phase_label(pod), keep=True, terminal_state=terminal)

    def verdict(self) -> Verdict:
        """Decide by the existing pods and their answers."""
        missing = self._missing()
        if missing is not None:
            return missing
        stuck = self._pods.terminal_verdict(1, count_others=False)
        if stuck is not None:
            return stuck
        if self._pods.known == len(self._pods):
            return Met()
        reason = self._pods.first_unknown_reason()
        text = f"{self._pods.known} of {len(self._pods)} pods respond"
        return Pending(f"{text}{': ' if reason else ''}{reason}")

    def probe_targets(self) -> Sequence[tuple[str, PlacedPod]]:
        """Return the pods to request: those with a host that have not answered yet."""
        return () if self._missing() is not None else self._pods.unknown()

    def send_requests(
        self, targets: Sequence[tuple[str, PlacedPod]], deadline: Deadline
    ) -> Answers:
        """Request each pod once."""
        self._pods.news = False
        session = self.client_session
        return [
            (uid, self._answer(session, placed.pod["metadata"]["name"], deadline))
            for uid, placed in targets
        ]

    def _answer(self, session: ApiSession, name: str, deadline: Deadline) -> str | None:
        """Return the reason that a pod's answer is not accepted; None if it is."""
        target = name if self._port is None else f"{name}:{self._port}"
        path = f"{PODS.path(self.namespace, target, 'proxy')}/{self._path}"
        try:
            response = session.request("GET", path, deadline=deadline.at_most(POD_TIMEOUT))
        except DeadlineExceeded:
            if deadline.expired:
                raise
            return f"{name} did not answer within {POD_TIMEOUT:g}s"
        except ApiError as error:
            # The API server's own refusals are errors; the other refusals come from the pod.
            if error.status == 401 or (error.status == 403 and error.reason == "Forbidden"):
                raise
            return f"{name} answered {error.status or error.reason}: {error.message}"
        text = response.data.decode(errors="replace").strip()
        if self._want_name and text != name:
            return f"{name} answered {text[:60]!r} instead of its name"
        return None if text else f"{name} answered nothing"

    def summarize(self) -> str:
        """Return a summary of the pods."""
        if not len(self._pods):
            return ""
        return f"{self._pods.summary()}; {self._pods.known} respond"


@wait(
    limit="pod_responding",
    kinds={"pods": PODS},
    summary="pods that answer through the API server's proxy",
)
def wait_for_pods_responding(
    client: ApiClient,
    namespace: str,
    *,
    selector: Selector | None = None,
    pods: KubernetesObjects | None = None,
    want_name: bool = False,
    port: int | None = None,
    path: str = "",
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return pods once each has answered a request through the API server's proxy.

    An answer has status 2xx and a body that is not empty. Each pod is requested every `poll` until
    its first answer. A selector must match at least one pod; an empty list of pods is returned at
    once. Upstream gives every request five minutes; here it times out after 10 seconds and is
    repeated.

    Args:
        selector: a label selector, text or mapping.
        pods: the pods themselves, as dicts, models or a PodList, or their names; one that is
            replaced ends the wait if its UID is known, unless `follow_name` is set.
        want_name: whether the answer must be the pod's name.
        port: the port of the request; the pod's first one if not given.
        path: the path of the request, without a query.

    Raises:
        ApiError: the server refuses, the use of its proxy included.
        InvalidArgument: not exactly one of selector and pods, or an invalid argument.
        WaitFailed: a pod is gone, has ended, or cannot start.

    Source: pod/wait.go WaitForPodsResponding.
    """
    check_namespace(namespace)
    if (selector is None) == (pods is None):
        raise InvalidArgument("arguments", [], "give exactly one of selector and pods")
    text = normalize_label_selector(selector)
    if pods is None and text is None:
        raise InvalidArgument("selector", selector, "use labels that select something")
    named = None if pods is None else parse_pod_uids(pods, namespace)
    value: object = want_name
    if not isinstance(value, bool):
        raise InvalidArgument("want_name", value, "use True or False")
    number: object = port
    if number is not None and (
        isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 65536
    ):
        raise InvalidArgument("port", number, "use a number from 1 to 65535, or None")
    where: object = path
    if not isinstance(where, str):
        raise InvalidArgument("path", where, "use a text, for example 'healthz'")
    return RespondingPods(
        namespace,
        selector=text,
        pods=named,
        want_name=want_name,
        port=port,
        path=path.removeprefix("/"),
    )
