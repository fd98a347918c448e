"""Wait until pods respond to HTTP requests through the API server's pod proxy.

Source: kubernetes/test/e2e/framework/pod/wait.go WaitForPodsResponding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.labels import Selector, normalize_label_selector
from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.object_counter import ObjectState, TerminalState
from pytest_kwait.engine.verdicts import Failed, Met, Pending, Verdict
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.named_objects import controller_uid
from pytest_kwait.framework.pod.fields import is_finished, phase_label
from pytest_kwait.framework.pod.list_conditions import SetPodFields
from pytest_kwait.framework.pod.placement import PlacedPod, PlacedPods, parse_pod_uids
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.containers import detect_pod_end
from pytest_kwait.framework.terminal_states.pods import detect_not_running
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

__all__ = ["RespondingPods", "wait_for_pods_responding"]

POD_TIMEOUT = 10.0
"""Timeout of one request to a pod, in seconds."""

_Answers = list[tuple[str, str | None]]


class RespondingPods:
    """Every pod answers, with its own name if required.

    Args:
        selector: their labels; None if they are given by name.
        pods: their UIDs by name, empty where not known; None if they are selected.
        want_name: whether the answer must be the pod's name.
        port: the port of the request; None for the first one of the pod.
        path: the path of the request.
    """

    runs_user_code = False
    goal = "respond"
    session: Session | None = None
    """The session for the requests; set by the wait."""

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
        self.namespace = namespace
        self._selector = selector
        self._wanted = pods
        self._want_name = want_name
        self._port = port
        self._path = path
        self._pods = PlacedPods(pods, self._state)
        one = next(iter(pods)) if pods is not None and len(pods) == 1 else None
        self._sources = (
            Source(PODS, namespace, self._pods, one, selector=selector, fields=SetPodFields),
        )

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        # A selected pod that has ended may be replaced by another.
        replaced = self._wanted is None and bool(controller_uid(pod))
        ended = detect_pod_end(pod, replaced=replaced)
        doom = ended if is_finished(pod) else detect_not_running(pod, before)
        return ObjectState(phase_label(pod), keep=True, doom=doom)

    @property
    def is_trivial(self) -> bool:
        """True if an empty list of pods is awaited."""
        return self._wanted is not None and not self._wanted

    @property
    def subject(self) -> str:
        """The pods."""
        if self._wanted is None:
            return f"pods with {self._selector} in {self.namespace}"
        names = ", ".join(list(self._wanted)[:3])
        more = f" and {len(self._wanted) - 3} more" if len(self._wanted) > 3 else ""
        return f"{'pod' if len(self._wanted) == 1 else 'pods'} {names}{more} in {self.namespace}"

    def sources(self) -> Sequence[Source]:
        """Return the pods."""
        return self._sources

    def verdict(self) -> Verdict:
        """Decide by the existing pods and their answers."""
        missing = self._missing()
        if missing is not None:
            return missing
        stuck = self._pods.nth_terminal(1)
        if stuck is not None and stuck[0].state.doom is not None:
            entry, patience, since = stuck
            return Failed(f"pod {entry.name}: {stuck[0].state.doom.reason}", patience, since)
        if self._pods.known == len(self._pods):
            return Met()
        reason = self._pods.first_unknown_reason()
        text = f"{self._pods.known} of {len(self._pods)} pods respond"
        return Pending(f"{text}{': ' if reason else ''}{reason}")

    def _missing(self) -> Verdict | None:
        there = self._pods.by_name()
        if self._wanted is None:
            return None if there else Pending("no pod matches yet", absent=True)
        for name, uid in self._wanted.items():
            if name not in there:
                if uid or name in self._pods.dropped:
                    return Failed(f"pod {name} is gone")
                return Pending(f"{len(there)} of {len(self._wanted)} pods there: no {name}")
            if uid and there[name] != uid:
                return Failed(f"pod {name} was deleted and created anew under another UID")
        return None

    def questions(self) -> Sequence[tuple[str, PlacedPod]]:
        """Return the pods to request: those with a host that have not answered yet."""
        return () if self._missing() is not None else self._pods.unknown()

    def is_urgent(self) -> bool:
        """True if a pod was placed since the last requests."""
        return self._pods.news

    def ask(self, questions: Sequence[tuple[str, PlacedPod]], deadline: Deadline) -> _Answers:
        """Request each pod once."""
        self._pods.news = False
        if self.session is None:
            raise InvalidArgument("session", None, "give one to ask the pods with")
        return [
            (uid, self._answer(self.session, placed.pod["metadata"]["name"], deadline))
            for uid, placed in questions
        ]

    def _answer(self, session: Session, name: str, deadline: Deadline) -> str | None:
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

    def record_answers(self, answers: _Answers) -> None:
        """Record the pods that have answered."""
        for uid, reason in answers:
            self._pods.record_answers(uid, reason)

    def seen(self) -> str:
        """Return a summary of the pods."""
        if not len(self._pods):
            return ""
        return f"{self._pods.summary()}; {self._pods.known} respond"

    def result(self) -> list[dict[str, Any]]:
        """Return the pods, sorted by name."""
        return self._pods.objects(PODS)

    def scope(self) -> EvidenceScope:
        """Return the pods."""
        return EvidenceScope(
            self.namespace,
            pods=self._selector,
            pod_names=tuple(self._wanted or ()),
            suspects=self._pods.suspects(),
        )


@wait(limit="pod_responding", summary="pods that answer through the API server's proxy")
def wait_for_pods_responding(
    client: ApiClient,
    namespace: str,
    *,
    selector: Selector | None = None,
    pods: Sequence[dict[str, Any] | str] | None = None,
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
        pods: the pods themselves or their names; one that is replaced ends the wait if its UID is
            known.
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
    if pods is not None and (isinstance(pods, str) or not isinstance(pods, Sequence)):
        raise InvalidArgument("pods", pods, "use a list of pods, or of their names")
    named = None if pods is None else parse_pod_uids(pods)
    given: object = want_name
    if not isinstance(given, bool):
        raise InvalidArgument("want_name", given, "use True or False")
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
