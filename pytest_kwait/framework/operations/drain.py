"""`kubectl cordon`, `uncordon`, `taint` and `drain`, and the eviction of one pod.

Source: kubectl/pkg/drain/{drain,cordon,filters}.go, kubectl/pkg/cmd/taint/{taint,utils}.go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.selectors import Selector, normalize_label_selector
from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.apimachinery.validation import (
    check_name,
    check_namespace,
    label_key_texts,
    label_value_texts,
)
from pytest_kwait.client.resource import DAEMON_SETS, NODES, POD_DISRUPTION_BUDGETS, PODS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait
from pytest_kwait.engine.failure.wait_report import Timeline
from pytest_kwait.engine.options import WaitOptions, check_bool, check_count, resolve_options
from pytest_kwait.engine.pod_fields import is_finished
from pytest_kwait.engine.retry import ErrorAction, ErrorLog, request_with_retry, within_deadline
from pytest_kwait.engine.waiter import sleep_until_stopped, wait_for_condition
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.named_objects import count_noun, join_names
from pytest_kwait.framework.operations.delete import DeletedWithPods
from pytest_kwait.framework.operations.edit import Change, change_object
from pytest_kwait.framework.registry import verb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.options import WaitSettings

Obj = dict[str, Any]

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a static pod's mirror, which only its kubelet can end."""

_LAST_TRY = 2.0
"""Seconds that a request at the limit may take."""
_REFUSALS = {
    "ignore_daemon_sets": "pods of DaemonSets",
    "delete_empty_dir_data": "pods with emptyDir volumes",
    "force": "pods without a controller",
}
_CONSENTS = {
    "ignore_daemon_sets": "leaves them",
    "delete_empty_dir_data": "evicts them, and their data is lost",
    "force": "evicts them, and they do not come back",
}


@verb(limit="single_call", kind=NODES, summary="the node without new pods")
def cordon(client: ApiClient, name: str, **options: Unpack[WaitOptions]) -> dict[str, Any]:
    """Mark a node as unschedulable; return it.

    Args:
        name: its name.
    """
    return _change_node(client, name, scheduling_change(False), "cordoned", options)


@verb(limit="single_call", kind=NODES, summary="the schedulable node")
def uncordon(client: ApiClient, name: str, **options: Unpack[WaitOptions]) -> dict[str, Any]:
    """Mark a node as schedulable; return it.

    Args:
        name: its name.
    """
    return _change_node(client, name, scheduling_change(True), "uncordoned", options)


def scheduling_change(schedulable: bool) -> Change:
    """Return the change that lets new pods onto a node, or keeps them off."""

    def changed(node: Obj) -> Obj:
        spec = node.setdefault("spec", {})
        if schedulable:
            spec.pop("unschedulable", None)
        else:
            spec["unschedulable"] = True
        return node

    return changed


@verb(limit="single_call", kind=NODES, summary="the tainted node")
def taint(
    client: ApiClient,
    name: str,
    taints: str | Sequence[str],
    *,
    overwrite: bool = False,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Set and remove taints of a node; return it.

    Args:
        name: its name.
        taints: as for kubectl: `key=value:NoSchedule` or `key:NoSchedule` sets a taint,
            `key:NoSchedule-` removes it, `key-` removes it with every effect. One or a list.
        overwrite: whether a taint with the same key and effect is replaced.

    Raises:
        InvalidArgument: a taint is not valid, exists already, or is to be removed and does not
            exist.
    """
    return _change_node(client, name, taints_change(taints, overwrite), "tainted", options)


def taints_change(taints: str | Sequence[str], overwrite: bool) -> Change:
    """Return the change that sets and removes taints of a node."""
    texts: Any = [taints] if isinstance(taints, str) else taints
    valid = "use 'key=value:NoSchedule', 'key:NoSchedule', 'key:NoSchedule-' or 'key-'"
    if not isinstance(texts, Sequence) or not texts:
        raise InvalidArgument("taints", taints, valid)
    added: dict[tuple[str, str], Obj] = {}
    removed: list[tuple[str, str]] = []
    for text in texts:
        key, value, effect, removes = _parse_taint(text, valid)
        if removes:
            removed.append((key, effect))
        elif (key, effect) in added:
            raise InvalidArgument("taints", text, "name each key and effect once")
        else:
            added[key, effect] = {
                "key": key,
                "effect": effect,
                **({"value": value} if value else {}),
            }
    check_bool("overwrite", overwrite)

    def changed(node: Obj) -> Obj:
        spec = node.setdefault("spec", {})
        taints_by_key = {
            (spec_taint["key"], spec_taint["effect"]): spec_taint
            for spec_taint in spec.get("taints") or ()
        }
        there = [f"{key}:{effect}" for key, effect in added if (key, effect) in taints_by_key]
        if there and not overwrite:
            valid = f"the node has {', '.join(there)} already, which overwrite=True replaces"
            raise InvalidArgument("taints", taints, valid)
        for key, effect in removed:
            matches = [
                taint_key
                for taint_key in taints_by_key
                if taint_key[0] == key and effect in ("", taint_key[1])
            ]
            if not matches:
                name = f"{key}:{effect}" if effect else key
                raise InvalidArgument("taints", taints, f"the node has no taint {name}")
            for taint_key in matches:
                del taints_by_key[taint_key]
        taints_by_key.update(added)
        if taints_by_key:
            spec["taints"] = list(taints_by_key.values())
        else:
            spec.pop("taints", None)
        return node

    return changed


def _parse_taint(text: object, valid: str) -> tuple[str, str, str, bool]:
    """Return key, value, effect and whether it is to be removed."""
    if not isinstance(text, str):
        raise InvalidArgument("taints", text, valid)
    removes = text.endswith("-")
    named, _, effect = text.removesuffix("-").partition(":")
    key, equals, value = named.partition("=")
    if (
        label_key_texts(key)
        or (equals and (removes or label_value_texts(value)))
        or not (effect in _EFFECTS or (removes and not effect))
    ):
        raise InvalidArgument("taints", text, f"{valid}; effects are {', '.join(_EFFECTS)}")
    return key, value, effect, removes


def _change_node(
    client: ApiClient, node: str, change: Change, done: str, options: WaitOptions
) -> Obj:
    session = ApiSession.of(client)
    name = check_name("node", node)
    settings = resolve_options(options, timeout="single_call", session=session)
    deadline = Deadline.after(settings.timeout, session.clock)
    with within_deadline(deadline, f"node {name} could not be {done}"):
        return change_object(session, NODES, name, None, change, deadline)


@verb(limit="pod_deletion", kind=PODS, summary="the evicted pod")
def evict(
    client: ApiClient,
    namespace: str,
    name: str,
    *,
    grace_period: int | None = None,
    **options: Unpack[WaitOptions],
) -> None:
    """Evict a pod and return once it is gone.

    An eviction that a PodDisruptionBudget refuses is tried again until the limit.

    Args:
        namespace: its namespace.
        name: its name.
        grace_period: seconds until it is killed; None for its own grace period.

    Raises:
        ApiError: the pod does not exist, or the server refuses a request.
        WaitTimeout: a budget refused it until the limit, or it is not gone; names the budget.
    """
    session = ApiSession.of(client)
    check_namespace(namespace)
    check_name("pod", name)
    if grace_period is not None:
        check_count("grace_period", grace_period)
    settings = resolve_options(options, timeout="pod_deletion", session=session)
    deadline = Deadline.after(settings.timeout, session.clock)
    with within_deadline(deadline, f"pod {name} could not be read"):
        pod = request_with_retry(
            lambda attempt_deadline: session.get(PODS, name, namespace, deadline=attempt_deadline),
            deadline,
        )
    subject = f"pod {namespace}/{name}"
    _Eviction(session, subject, "be evicted", settings, deadline, grace_period).run([pod])


@verb(limit="pod_deletion", kind=NODES, summary="the drained node")
def drain(
    client: ApiClient,
    name: str,
    *,
    ignore_daemon_sets: bool = False,
    delete_empty_dir_data: bool = False,
    force: bool = False,
    selector: str | Mapping[str, str] | None = None,
    grace_period: int | None = None,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Cordon a node and evict its pods, as `kubectl drain`; return it once they are gone.

    Pods of DaemonSets and mirrors of static pods stay. An eviction that a PodDisruptionBudget
    refuses is tried again until the limit.

    Args:
        name: its name.
        ignore_daemon_sets: whether pods of DaemonSets are left; an error otherwise, as they would
            come back.
        delete_empty_dir_data: whether to evict pods with `emptyDir` volumes; an error otherwise.
        force: whether to evict pods without a controller, which do not come back; an error
            otherwise.
        selector: only pods with these labels, as text or mapping.
        grace_period: seconds until a pod is killed; None for its own grace period.

    Raises:
        ApiError: the node does not exist, or the server refuses a request.
        InvalidArgument: pods must not be evicted without one of these arguments.
        WaitTimeout: budgets refused evictions until the limit, or pods are not gone; names pods
            and budgets.
    """
    session = ApiSession.of(client)
    name = check_name("node", name)
    label_selector = check_drain(
        ignore_daemon_sets, delete_empty_dir_data, force, selector, grace_period
    )
    settings = resolve_options(options, timeout="pod_deletion", session=session)
    deadline = Deadline.after(settings.timeout, session.clock)
    with within_deadline(deadline, f"node {name} could not be drained"):
        drained = change_object(session, NODES, name, None, scheduling_change(False), deadline)
        listed = request_with_retry(
            lambda attempt_deadline: session.list(
                PODS,
                field_selector={"spec.nodeName": name},
                label_selector=label_selector,
                deadline=attempt_deadline,
            ),
            deadline,
        )
        pods = _select_pods(
            session,
            name,
            [item.object for item in listed.items],
            deadline,
            ignore_daemon_sets=ignore_daemon_sets,
            delete_empty_dir_data=delete_empty_dir_data,
            force=force,
        )
    subject = f"node {name}"
    _Eviction(session, subject, "be drained", settings, deadline, grace_period).run(pods)
    return drained


def check_drain(
    ignore_daemon_sets: object,
    delete_empty_dir_data: object,
    force: object,
    selector: Selector | None,
    grace_period: object,
) -> str | None:
    """Check the arguments of `drain`; return the selector as text, None for all pods.

    Raises:
        InvalidArgument: one of them is not valid.
    """
    check_bool("ignore_daemon_sets", ignore_daemon_sets)
    check_bool("delete_empty_dir_data", delete_empty_dir_data)
    check_bool("force", force)
    if grace_period is not None:
        check_count("grace_period", grace_period)
    return normalize_label_selector(selector)


def _select_pods(
    session: ApiSession,
    node: str,
    pods: list[Obj],
    deadline: Deadline,
    *,
    ignore_daemon_sets: bool,
    delete_empty_dir_data: bool,
    force: bool,
) -> list[Obj]:
    """Return the pods to evict.

    Raises:
        InvalidArgument: a pod must not be evicted.

    Source: kubectl/pkg/drain/filters.go.
    """
    refused: dict[str, list[str]] = {}
    evicted = []
    for pod in pods:
        metadata = pod["metadata"]
        title = f"{metadata['namespace']}/{metadata['name']}"
        if _MIRROR in (metadata.get("annotations") or {}):
            continue
        owner = next(
            (
                reference
                for reference in metadata.get("ownerReferences") or ()
                if reference.get("controller")
            ),
            None,
        )
        finished = is_finished(pod)
        if owner is not None and owner["kind"] == "DaemonSet" and not finished:
            if _exists(session, metadata["namespace"], owner["name"], deadline):
                if not ignore_daemon_sets:
                    refused.setdefault("ignore_daemon_sets", []).append(title)
                continue
            owner = None
        volumes = (pod.get("spec") or {}).get("volumes") or ()
        holds_data = any("emptyDir" in volume for volume in volumes) and not finished
        if holds_data and not delete_empty_dir_data:
            refused.setdefault("delete_empty_dir_data", []).append(title)
        if owner is None and not finished and not force:
            refused.setdefault("force", []).append(title)
        evicted.append(pod)
    for argument, titles in refused.items():
        raise InvalidArgument(
            argument,
            False,
            f"node {node} has {_REFUSALS[argument]}: {join_names(titles)}; "
            f"{argument}=True {_CONSENTS[argument]}",
        )
    return evicted


def _exists(session: ApiSession, namespace: str, name: str, deadline: Deadline) -> bool:
    try:
        request_with_retry(
            lambda attempt_deadline: session.get(
                DAEMON_SETS, name, namespace, deadline=attempt_deadline
            ),
            deadline,
        )
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


class _EvictionErrors(ErrorLog):
    """The errors of an eviction; a refusal by a budget is not retried at once."""

    def decide(self, error: ApiError) -> ErrorAction:
        """Return the reaction: the refusals of the eviction itself are answers."""
        action = super().decide(error)
        refused = error.status == 429 or "more than one PodDisruptionBudget" in error.message
        return ErrorAction.STOP if refused else action


@dataclass(frozen=True, slots=True)
class _Blocked:
    """A pod whose eviction was refused.

    Args:
        title: its namespace and name.
        reason: the refusal, with the budget.
    """

    title: str
    reason: str

    def __str__(self) -> str:
        return f"pod {self.title} is blocked by {self.reason}"


class _Eviction:
    """The eviction of pods, tried again while budgets refuse it.

    Args:
        session: the client for requests.
        subject: the object of the whole, for messages.
        goal: what is to become of it, as a verb.
        settings: the options; `poll` is the pause between two tries.
        deadline: the limit of the whole.
        grace_period: seconds until a pod is killed; None for its own grace period.
    """

    def __init__(
        self,
        session: ApiSession,
        subject: str,
        goal: str,
        settings: WaitSettings,
        deadline: Deadline,
        grace_period: int | None,
    ) -> None:
        self._session = session
        self._subject = subject
        self._goal = goal
        self._settings = settings
        self._deadline = deadline
        self._grace_period = grace_period
        self._timeline = Timeline()
        self._started = session.clock.monotonic()
        budget = session.time_budget()
        if budget is not None:
            self._deadline = deadline.at_most(max(budget.seconds, 0.1))

    def run(self, pods: list[Obj]) -> None:
        """Evict pods, and return once all are gone.

        Raises:
            WaitFailed: a pod cannot be evicted at all.
            WaitTimeout: something refused or lasted until the limit.
        """
        remaining_pods = pods
        pause = max(self._settings.poll * self._session.time_scale, 0.1)
        with self._shown():
            while remaining_pods:
                refusals = [(pod, self._evict(pod)) for pod in remaining_pods]
                blocked = [refusal for _, refusal in refusals if refusal is not None]
                remaining_pods = [pod for pod, refusal in refusals if refusal is not None]
                if remaining_pods:
                    self._record(str(blocked[0]), len(blocked))
                    if self._deadline.expired:
                        raise self._timeout("; ".join(map(str, blocked[:3])), len(blocked) - 3)
                    sleep_until_stopped(
                        self._session.clock,
                        min(pause, self._deadline.remaining),
                        self._settings.stop,
                    )
        for pod in pods:
            self._await_end(pod)

    def _evict(self, pod: Obj) -> _Blocked | None:
        """Request the eviction of a pod; return the refusal of a budget."""
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        options: Obj = {"preconditions": {"uid": metadata["uid"]}}
        if self._grace_period is not None:
            options["gracePeriodSeconds"] = self._grace_period
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        # The last try, at the limit, must have time for its answer.
        limit = Deadline.after(max(self._deadline.remaining, _LAST_TRY), self._session.clock)
        try:
            with within_deadline(limit, f"pod {namespace}/{name} could not be evicted"):
                request_with_retry(
                    lambda attempt_deadline: self._session.create(
                        PODS,
                        body,
                        namespace,
                        name=name,
                        subresource="eviction",
                        deadline=attempt_deadline,
                    ),
                    limit,
                    _EvictionErrors(self._session.clock),
                )
        except ApiError as error:
            if error.status in (404, 409) or "NamespaceTerminating" in str(error.body):
                # Gone already, replaced by another pod, or deleted with its namespace.
                return None
            if error.status != 429:
                if "more than one PodDisruptionBudget" in error.message:
                    raise WaitFailed(
                        f"{self._subject} cannot {self._goal}: pod {namespace}/{name}: "
                        f"{error.message}"
                    ) from error
                raise
            return _Blocked(f"{namespace}/{name}", self._describe(pod, error))
        return None

    def _describe(self, pod: Obj, error: ApiError) -> str:
        """Return the budgets that select a pod, with what the server says."""
        causes = (error.body.get("details") or {}).get("causes") or ()
        text = next(
            (cause.get("message") for cause in causes if cause.get("message")), error.message
        )
        namespace = pod["metadata"]["namespace"]
        named = [
            budget
            for budget in self._budgets(namespace)
            if any(
                f"disruption budget {budget} " in f"{message} " for message in (text, error.message)
            )
        ]
        lead = f"PodDisruptionBudget {namespace}/{named[0]}" if named else "the server"
        return f"{lead}: {text}"

    def _budgets(self, namespace: str) -> list[str]:
        with contextlib.suppress(ApiError, WaitTimeout):
            listed = request_with_retry(
                lambda attempt_deadline: self._session.list(
                    POD_DISRUPTION_BUDGETS, namespace, deadline=attempt_deadline
                ),
                Deadline.after(_LAST_TRY, self._session.clock),
            )
            return [item.object["metadata"]["name"] for item in listed.items]
        return []

    def _await_end(self, pod: Obj) -> None:
        metadata = pod["metadata"]
        condition = DeletedWithPods(PODS, metadata["namespace"], metadata["name"], metadata["uid"])
        wait_for_condition(self._session, condition, self._settings, self._deadline)

    def _timeout(self, reason: str, more: int) -> WaitTimeout:
        limit = format_duration(round(self._session.clock.monotonic() - self._started, 1))
        rest = f"; {count_noun(more, 'pod')} more" if more > 0 else ""
        return WaitTimeout(f"{self._subject} could not {self._goal} within {limit}: {reason}{rest}")

    def _record(self, text: str, count: int) -> None:
        other_text = f", and {count_noun(count - 1, 'other pod')}" if count > 1 else ""
        self._timeline.record(
            self._session.clock.monotonic() - self._started, f"{text}{other_text}"
        )

    @contextlib.contextmanager
    def _shown(self) -> Iterator[None]:
        """Show the evictions as an active wait."""
        active = ActiveWait(
            self._subject, self._goal, self._deadline, self._timeline, self._started
        )
        with ACTIVE_WAITS.entered(active):
            try:
                yield
            except WaitTimeout:
                active.record_outcome("timed out")
                raise
            active.record_outcome("met")
