"""Wait until each pod has a host and is known to its kubelet.

`FakePodInfo` can replace the kubelets.

Source: kubernetes v0.7 cmd/integration/integration.go, podsOnMinions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack

import msgspec

from pytest_kwait.apimachinery.arguments import check_answer, check_function
from pytest_kwait.apimachinery.selectors import Selector, normalize_label_selector
from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import JOBS, NODES, PODS
from pytest_kwait.client.responses import ObjectMeta, decode_list_page
from pytest_kwait.engine.condition import (
    EvidenceScope,
    Failed,
    Grace,
    Met,
    Pending,
    Source,
    Verdict,
)
from pytest_kwait.engine.object_sinks import SingleObject, decode_whole
from pytest_kwait.engine.pod_fields import PodFields
from pytest_kwait.engine.retry import ErrorAction, classify_error
from pytest_kwait.engine.user_code import UserCode
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.pod.placement import (
    Answers,
    PlacedPod,
    PlacedPodsCondition,
    parse_pod_uids,
)
from pytest_kwait.framework.registry import condition_func, wait
from pytest_kwait.framework.workload.fields import desired_pods, parse_controller, selector_of
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.named_objects import KubernetesObjects
    from pytest_kwait.framework.registry import ConditionOf
    from pytest_kwait.wait.loop import ConditionFunc

HOST_TIMEOUT = 10.0
"""Timeout of one request to a host's agent, in seconds."""


class PodInfo(Protocol):
    """Protocol: look up a pod at a host's agent.

    Source: kubernetes v0.7 pkg/client/podinfo.go, PodInfoGetter.
    """

    def __call__(self, host: str, pod: dict[str, Any], /) -> dict[str, Any]:
        """Return the pod as the host's agent reports it.

        Args:
            host: the node's name.
            pod: the pod as the API returns it, at least its metadata.

        Raises:
            LookupError: the agent does not know the pod.
        """
        ...


class _Known(TypedDict, total=False):
    metadata: ObjectMeta


class NodeProxyPodInfo:
    """Pod info from kubelets: one request to each through the API server's node proxy.

    Args:
        session: the session for the requests.
        deadline: the end of the requests.
    """

    def __init__(self, session: ApiSession, deadline: Deadline) -> None:
        self._session = session
        self._deadline = deadline
        self._pods: dict[str, dict[str, bytes]] = {}

    def __call__(self, host: str, pod: dict[str, Any], /) -> dict[str, Any]:
        """Return the pod as the host's kubelet reports it.

        Raises:
            ApiError: the kubelet could not be queried.
            DeadlineExceeded: it did not answer in time.
            LookupError: it does not know the pod, or the API server does not know the host.
        """
        if host not in self._pods:
            self._pods[host] = self._ask(host)
        metadata = pod["metadata"]
        annotations = metadata.get("annotations") or {}
        # The kubelet knows a static pod by the hash of its file; the mirror pod carries that hash.
        for uid in (metadata.get("uid"), annotations.get("kubernetes.io/config.mirror")):
            if uid in self._pods[host]:
                return decode_whole(PODS, self._pods[host][uid])
        raise LookupError(f"{host} does not know pod {metadata['name']}")

    def _ask(self, host: str) -> dict[str, bytes]:
        path = NODES.path(name=host, subresource="proxy/pods")
        deadline = self._deadline.at_most(HOST_TIMEOUT)
        try:
            answer = self._session.request("GET", path, deadline=deadline)
        except ApiError as error:
            if error.status == 404:
                raise LookupError(f"there is no node {host}") from error
            raise
        try:
            page, _ = decode_list_page(answer.data, _Known)
        except msgspec.DecodeError as error:
            raise ApiError(
                f"the kubelet of {host} did not answer with a list of pods",
                status=answer.status,
                reason="NotJSON",
                method="GET",
                path=path,
            ) from error
        return {item.object["metadata"].get("uid") or "": item.raw for item in page.items}


class FakePodInfo:
    """A configurable pod info, for unit tests.

    Args:
        known: names of pods by host.
    """

    def __init__(self, known: Mapping[str, Iterable[str]] | None = None) -> None:
        self._known: defaultdict[str, set[str]] = defaultdict(set)
        self.asked: list[tuple[str, str]] = []
        """Host and pod name of every call, in order."""
        for host, names in (known or {}).items():
            self.know(host, *([names] if isinstance(names, str) else names))

    def know(self, host: str, *names: str) -> None:
        """Add pods of these names to those that the agent of `host` knows."""
        self._known[host].update(names)

    def forget(self, host: str, *names: str) -> None:
        """Remove pods of these names from those that the agent of `host` knows."""
        self._known[host].difference_update(names)

    def __call__(self, host: str, pod: dict[str, Any], /) -> dict[str, Any]:
        """Return the pod as it was given.

        Raises:
            LookupError: the host does not know the pod.
        """
        name = pod["metadata"]["name"]
        self.asked.append((host, name))
        if name not in self._known[host]:
            raise LookupError(f"{host} does not know pod {name}")
        return pod


class _ControllerFields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: dict[str, Any] | None
    status: dict[str, Any] | None


class PodsOnMinions(PlacedPodsCondition):
    """Every selected pod has a host, and that host's agent knows it.

    Args:
        controller: the store of the controller; None if the pods are selected otherwise.
        selector: the pods' labels; None if they are selected otherwise.
        pods: the pods' UIDs by name, where known; None if they are selected otherwise.
        pod_info: the lookup; None for the kubelets, through `session`.
    """

    def __init__(
        self,
        namespace: str,
        *,
        controller: SingleObject | None = None,
        selector: str | None = None,
        pods: Mapping[str, str] | None = None,
        pod_info: PodInfo | None = None,
    ) -> None:
        super().__init__(namespace, selector, pods)
        self.pod_info = pod_info
        self._user_code = UserCode()
        self._controller = controller
        if controller is None:
            self._sources = (self._pod_source(PodFields),)
        else:
            resource, name = controller.resource, controller.name
            self._sources = (
                Source(resource, namespace, controller, name, fields=_ControllerFields),
            )

    @property
    def subject(self) -> str:
        """The controller, or the pods."""
        if self._controller is not None:
            return f"{self._controller.noun} {self.namespace}/{self._controller.name}"
        return super().subject

    @property
    def goal(self) -> str:
        """The pods have arrived."""
        return "have all pods on minions" if self._controller else "arrive on minions"

    def sources(self) -> Sequence[Source]:
        """Return the controller, and the pods once their selector is known."""
        controller = self._controller
        if controller is not None and controller.current is not None and len(self._sources) == 1:
            self._selector = selector_of(controller.resource, controller.spec)
            self._sources = (*self._sources, self._pod_source(PodFields))
        return self._sources

    def verdict(self) -> Verdict:
        """Decide by the existing pods, their hosts and the agents' answers."""
        return self._incomplete() or self._unplaced() or self._unknown() or Met()

    def _incomplete(self) -> Verdict | None:
        controller = self._controller
        if controller is None:
            return self._missing()
        absent = controller.missing_verdict() or controller.ending()
        if absent is not None:
            return absent
        observed = controller.status.get("observedGeneration")
        generation = (controller.current or {})["metadata"].get("generation") or 0
        if controller.resource is not JOBS and (observed or 0) < generation:
            return Pending(f"generation {generation} is not observed by its controller yet")
        if controller.spec.get("suspend"):
            return Failed(f"the {controller.noun} is suspended", Grace.LONG)
        desired = desired_pods(controller)
        if len(self._pods) < desired:
            return Pending(f"{len(self._pods)} of {desired} pods there")
        return None

    def _unplaced(self) -> Verdict | None:
        if not self._pods.unscheduled:
            return None
        stuck = self._pods.terminal_verdict(1, count_others=False)
        if stuck is not None:
            return stuck
        placed = len(self._pods) - self._pods.unscheduled
        name = self._pods.first_unscheduled()
        return Pending(f"{placed} of {len(self._pods)} pods have a host: {name} has none")

    def _unknown(self) -> Verdict | None:
        if self._pods.known == len(self._pods):
            return None
        reason = self._pods.first_unknown_reason()
        text = f"{self._pods.known} of {len(self._pods)} pods known to their hosts"
        return Pending(f"{text}{': ' if reason else ''}{reason}")

    def probe_targets(self) -> Sequence[tuple[str, PlacedPod]]:
        """Return the pods to query: none before all awaited pods have a host."""
        if any(source.sink is self._pods for source in self._sources) and not (
            self._incomplete() or self._pods.unscheduled
        ):
            return self._pods.unknown()
        return ()

    def send_requests(
        self, targets: Sequence[tuple[str, PlacedPod]], deadline: Deadline
    ) -> Answers:
        """Query each host for its pods."""
        self._pods.news = False
        pod_info = self.pod_info
        if pod_info is not None:
            return self._user_code.run(
                lambda: [(uid, _unknown_reason(pod_info, placed)) for uid, placed in targets],
                deadline,
            )
        if self.session is None:
            raise InvalidArgument("pod_info", None, "give one, or a session to ask the kubelets")
        info = NodeProxyPodInfo(self.session, deadline)
        answers: Answers = []
        failure: ApiError | None = None
        silent: dict[str, str] = {}
        for uid, placed in targets:
            if placed.host in silent:
                answers.append((uid, silent[placed.host]))
                continue
            reason: str | None = None
            try:
                info(placed.host, placed.pod)
            except LookupError as error:
                reason = str(error.args[0]) if error.args else f"{placed.host} does not know it"
            except DeadlineExceeded:
                if deadline.expired:
                    raise
                reason = silent[placed.host] = f"{placed.host} did not answer"
            except ApiError as error:
                if classify_error(error) is not ErrorAction.RETRY:
                    failure = failure or error
                reason = silent[placed.host] = f"{placed.host} could not be asked: {error.message}"
            answers.append((uid, reason))
        if failure is not None:
            raise failure
        return answers

    def summarize(self) -> str:
        """Return a summary of the pods."""
        if not len(self._pods):
            return ""
        placed = len(self._pods) - self._pods.unscheduled
        known = self._pods.known
        return f"{self._pods.summary()}; {placed} have a host, {known} known to it"

    def scope(self) -> EvidenceScope:
        """Return the controller and the pods."""
        scope = super().scope()
        if self._controller is None:
            return scope
        return replace(scope, objects=(self._controller.reference(),))


def _unknown_reason(pod_info: PodInfo, placed: PlacedPod) -> str | None:
    """Return why a user's lookup does not know a pod; any error means that it does not yet.

    Raises:
        InvalidArgument: it returned no pod, such as None for one that it does not know.
    """
    try:
        answer: object = pod_info(placed.host, placed.pod)
    except LookupError as error:
        return str(error.args[0]) if error.args else f"{placed.host} does not know it"
    except Exception as error:
        text = f": {error}" if str(error) else ""
        return f"{placed.host} could not be asked: {type(error).__name__}{text}"
    check_answer("result of pod_info", answer)
    if not isinstance(answer, Mapping) and not hasattr(answer, "openapi_types"):
        valid = "return the pod as its host knows it, or raise LookupError"
        raise InvalidArgument("result of pod_info", answer, valid)
    return None


@wait(
    limit="minions",
    kinds={"controller": None, "pods": PODS},
    summary="pods that are known to the agents of their hosts",
)
def wait_for_pods_on_minions(
    client: ApiClient,
    namespace: str,
    controller: str | None = None,
    *,
    selector: Selector | None = None,
    pods: KubernetesObjects | None = None,
    pod_info: PodInfo | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the selected pods once each is known to its host's agent.

    A controller must have its desired pods (`spec.replicas`, a Job's parallelism or completions,
    the nodes of a DaemonSet), and a selector must match at least one: upstream's condition holds
    for no pods at all, since its callers counted them before. An empty list of pods is returned at
    once. Pods and their hosts are watched; agents are queried once all pods are placed, then every
    `poll`.

    Args:
        controller: `rc/web`, `rs/web`, `deployment/web`, `statefulset/web`, `daemonset/web` or
            `job/web`; its selector is read from the server.
        selector: a label selector, text or mapping.
        pods: the pods themselves, as dicts, models or a PodList, or their names.
        pod_info: the lookup of a pod at its host; the kubelets if not given. Any error that it
            raises means that the pod is not known yet; a result that is no pod, or a coroutine, is
            an invalid argument. It is called in a thread of its own, which is abandoned when the
            limit passes.

    Raises:
        InvalidArgument: not exactly one of controller, selector and pods, or an invalid one.
        WaitFailed: a pod or the controller is gone, or no node takes a pod.

    Source: kubernetes v0.7 cmd/integration/integration.go, podsOnMinions.
    """
    check_namespace(namespace)
    values = {"controller": controller, "selector": selector, "pods": pods}
    arguments = [name for name, value in values.items() if value is not None]
    if len(arguments) != 1:
        raise InvalidArgument(
            "arguments", arguments, "give exactly one of controller, selector and pods"
        )
    if pod_info is not None:
        check_function("pod_info", pod_info, "use a callable (host, pod), or None")
    if controller is not None:
        return PodsOnMinions(
            namespace,
            controller=SingleObject(*parse_controller("controller", controller)),
            pod_info=pod_info,
        )
    if pods is not None:
        return PodsOnMinions(namespace, pods=parse_pod_uids(pods, namespace), pod_info=pod_info)
    text = normalize_label_selector(selector)
    if text is None:
        raise InvalidArgument("selector", selector, "use labels that select something")
    return PodsOnMinions(namespace, selector=text, pod_info=pod_info)


def pods_on_minions(
    client: ApiClient,
    namespace: str,
    controller: str | None = None,
    *,
    selector: Selector | None = None,
    pods: KubernetesObjects | None = None,
    pod_info: PodInfo | None = None,
) -> ConditionFunc:
    """Return the condition of `wait_for_pods_on_minions`, for `wait.poll_immediate` and its like.

    Its arguments are those of the wait. A call lists the pods, and queries their hosts once all
    have one; it returns False after an error that a wait would retry.

    Raises:
        InvalidArgument: not exactly one of controller, selector and pods, or an invalid one. Calls
            raise what the wait raises, but no WaitTimeout.

    Source: kubernetes v0.7 cmd/integration/integration.go, podsOnMinions.
    """
    return condition_func(
        wait_for_pods_on_minions,
        client,
        namespace,
        controller,
        selector=selector,
        pods=pods,
        pod_info=pod_info,
    )
