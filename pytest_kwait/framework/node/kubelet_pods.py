"""Wait for the pods that kubelets report as running, whatever the API shows.

Source: kubernetes/test/e2e/node/kubelet.go waitTillNPodsRunningOnNodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec

from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import NODES, PODS
from pytest_kwait.client.responses import ObjectMeta, decode_list_page
from pytest_kwait.engine.condition import (
    EvidenceScope,
    Failed,
    Met,
    ObjectReference,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState, decode_whole
from pytest_kwait.engine.options import WaitOptions, check_count, check_text
from pytest_kwait.errors import ApiError
from pytest_kwait.framework.named_objects import (
    ProbeCondition,
    count_noun,
    join_names,
    parse_named_uids,
)
from pytest_kwait.framework.node.wait import NodeFields, describe_node
from pytest_kwait.framework.registry import wait
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline
    from pytest_kwait.framework.named_objects import KubernetesObjects
    from pytest_kwait.framework.registry import ConditionOf

NODE_TIMEOUT = 10.0
"""Timeout of one request to a kubelet, in seconds."""

_Answers = dict[str, "dict[str, bytes] | str"]


class _Known(TypedDict, total=False):
    metadata: ObjectMeta


class _NamedNodeStore(ObjectCounter):
    """Store of the named nodes.

    Args:
        names: the names of the nodes.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(_state)
        self._names = names
        self._uids: dict[str, str] = {}
        self.gone = ""
        """The name of a node that existed and is gone."""

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Store a node, if it is one of them."""
        name = obj["metadata"]["name"]
        if name in self._names:
            super().put(obj, raw, now)
            self._uids[obj["metadata"].get("uid") or name] = name

    def drop(self, uid: str) -> None:
        """Remove a node that is gone."""
        super().drop(uid)
        self.gone = self._uids.pop(uid, self.gone)

    def missing(self) -> str:
        """Return the name of a missing node; empty if none is missing."""
        if len(self._uids) == len(self._names):
            return ""
        there = set(self._uids.values())
        return next((name for name in self._names if name not in there), "")


def _state(node: dict[str, Any], _: TerminalState | None) -> ObjectState:
    return ObjectState(describe_node(node))


class KubeletPods(ProbeCondition):
    """Kubelets report an exact number of running pods of a namespace.

    Args:
        nodes: the names of the nodes to query.
        prefix: the prefix of the pods' names.
        count: the exact number.
    """

    def __init__(self, namespace: str, nodes: Sequence[str], prefix: str, count: int) -> None:
        self.namespace = namespace
        self._names = nodes
        self._prefix = prefix
        self._count = count
        self._nodes = _NamedNodeStore(nodes)
        self._answers: _Answers = {}
        self._agreeing = 0
        only_node = nodes[0] if len(nodes) == 1 else None
        self._sources = (Source(NODES, None, self._nodes, only_node, fields=NodeFields),)

    @property
    def subject(self) -> str:
        """The kubelets."""
        noun = "kubelet" if len(self._names) == 1 else "kubelets"
        return f"{noun} of {join_names(self._names)}"

    @property
    def goal(self) -> str:
        """The number of pods they run."""
        like = f" {self._prefix}*" if self._prefix else ""
        return f"run exactly {count_noun(self._count, 'pod')}{like} of {self.namespace}"

    def verdict(self) -> Verdict:
        """Decide by the last reports of the kubelets."""
        missing = self._nodes.missing()
        if missing and self._nodes.gone == missing:
            return Failed(f"node {missing} was deleted")
        if missing:
            return Pending(f"there is no node {missing}")
        if len(self._answers) < len(self._names):
            return Pending("the kubelets have not been asked yet")
        silent = [text for text in self._answers.values() if isinstance(text, str)]
        if silent:
            return Pending(silent[0])
        running = self._running()
        if len(running) == self._count:
            if self._agreeing > 1:
                return Met()
            return Pending(f"{len(running)} run, to be confirmed")
        return Pending(f"{len(running)} of {self._count} run")

    def _running(self) -> dict[str, bytes]:
        return {
            name: raw
            for answer in self._answers.values()
            if isinstance(answer, dict)
            for name, raw in answer.items()
        }

    def probe_targets(self) -> Sequence[str]:
        """Return all nodes to query: pods on a kubelet may end any time."""
        return () if self._nodes.missing() else self._names

    def send_requests(self, targets: Sequence[str], deadline: Deadline) -> _Answers:
        """Query each kubelet once."""
        session = self.client_session
        return {name: self._ask(session, name, deadline) for name in targets}

    def _ask(self, session: ApiSession, name: str, deadline: Deadline) -> dict[str, bytes] | str:
        path = f"{NODES.path(name=name, subresource='proxy/runningpods')}/"
        try:
            response = session.request("GET", path, deadline=deadline.at_most(NODE_TIMEOUT))
        except DeadlineExceeded:
            if deadline.expired:
                raise
            return f"the kubelet of {name} did not answer within {NODE_TIMEOUT:g}s"
        except ApiError as error:
            if error.status and error.status < 500 and error.status not in (404, 408, 429):
                raise
            return f"the kubelet of {name} could not be asked: {error.message}"
        try:
            page, _ = decode_list_page(response.data, _Known)
        except msgspec.DecodeError:
            return f"the kubelet of {name} did not answer with a list of pods"
        return {
            item.object["metadata"]["name"]: item.raw
            for item in page.items
            if item.object["metadata"].get("namespace") == self.namespace
            and item.object["metadata"]["name"].startswith(self._prefix)
        }

    def record_answers(self, answers: _Answers) -> None:
        """Record the reports, and how many in succession show the awaited number.

        The kubelets know of no controller, so one report may show a number in passing.
        """
        self._answers = answers
        complete = all(isinstance(answer, dict) for answer in answers.values())
        agrees = complete and len(self._running()) == self._count
        self._agreeing = self._agreeing + 1 if agrees else 0

    def summarize(self) -> str:
        """Return a summary of the reports."""
        return f"{len(self._running())} run; nodes: {self._nodes.summary() or 'none'}"

    def result(self) -> list[dict[str, Any]]:
        """Return the pods as the kubelets report them, sorted by name."""
        return [decode_whole(PODS, raw) for _, raw in sorted(self._running().items())]

    def scope(self) -> EvidenceScope:
        """Return the nodes."""
        references = tuple(
            ObjectReference("Node", name, "", NODES.qualified) for name in self._names[:3]
        )
        return EvidenceScope(None, objects=references)


@wait(
    limit="pod_start",
    kinds={"nodes": NODES},
    summary="an exact number of running pods, as kubelets report them",
)
def wait_for_pods_running_on_nodes(
    client: ApiClient,
    namespace: str,
    nodes: KubernetesObjects,
    count: int,
    prefix: str = "",
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the pods that kubelets report as running once there are exactly `count`.

    The kubelets are queried every `poll` through the API server's node proxy. Their answers are
    built from the container runtime: names, UIDs, containers and little else. A kubelet that does
    not answer is pending; upstream counts it as one without pods.

    Args:
        nodes: the names of the nodes to query; at least one.
        count: the exact number of pods on all of them together; 0 or more.
        prefix: the prefix of the pods' names; empty for all pods of the namespace.

    Raises:
        ApiError: the server refuses, the use of its proxy included.
        WaitFailed: a node was deleted.

    Source: kubernetes/test/e2e/node/kubelet.go waitTillNPodsRunningOnNodes.
    """
    check_namespace(namespace)
    names = list(parse_named_uids("nodes", nodes, NODES.kind))
    number = check_count("count", count)
    return KubeletPods(namespace, names, check_text("prefix", prefix, empty=True), number)
