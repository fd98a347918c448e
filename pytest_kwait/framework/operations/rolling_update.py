"""The blocking rolling update: replace a controller's pods one by one.

Each pod is deleted, then its successor is awaited.

Source: kubernetes v0.7 pkg/kubecfg/kubecfg.go, Update.
"""

from __future__ import annotations

import contextlib
import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from pytest_kwait.apimachinery.durations import format_duration, to_seconds
from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import DEPLOYMENTS, PODS
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait
from pytest_kwait.engine.condition import Source
from pytest_kwait.engine.failure.report import WaitReport
from pytest_kwait.engine.failure.timeline import Timeline
from pytest_kwait.engine.object_counter import ObjectCounter, ObjectState, TerminalState
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.retry import request_with_retry, within_deadline
from pytest_kwait.engine.timeouts import TIMEOUTS
from pytest_kwait.engine.verdicts import Failed, Met, Pending, Verdict
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.named_objects import controller_uid
from pytest_kwait.framework.pod.fields import PodFields, is_finished, is_terminating, phase_label
from pytest_kwait.framework.pod.list_conditions import SetPodFields, is_running_and_ready
from pytest_kwait.framework.registry import verb
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure
from pytest_kwait.framework.terminal_states.workloads import detect_replica_failure
from pytest_kwait.framework.workload.conditions import ALIVE, WorkloadCondition, judge_stuck_pods
from pytest_kwait.framework.workload.fields import parse_controller, selector_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.apimachinery.durations import Duration
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.condition import Condition
    from pytest_kwait.engine.options import WaitSettings

__all__ = ["PodsRestored", "ReplacementsReady", "is_owned_or_orphan", "rolling_update"]

_BACK, _READY = "back", "ready"


class _ControllerFields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: dict[str, Any] | None


def is_owned_or_orphan(pod: dict[str, Any], resource: Resource, uid: str) -> bool:
    """Whether a selected pod is the controller's, or nobody's; upstream knew no owners."""
    # The pods of a Deployment are controlled by its ReplicaSets.
    return resource == DEPLOYMENTS or controller_uid(pod) in ("", uid)


class PodsRestored(WorkloadCondition):
    """A controller has as many pods again as it had, without those that were deleted.

    Args:
        resource: its kind.
        namespace: where it is.
        controller: its name.
        uid: its UID.
        count: how many pods it had.
        deleted: the UIDs of those that were deleted.

    Raises:
        InvalidArgument: a name that cannot be one.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str,
        controller: str,
        uid: str,
        count: int,
        deleted: Collection[str],
    ) -> None:
        noun = "pod" if count == 1 else "pods"
        super().__init__(
            resource,
            namespace,
            controller,
            f"have {count} {noun} again after its rolling update",
            _ControllerFields,
            pods=None,
            what="target",
        )
        self.workload.uid = uid
        self._count = count
        self._deleted = frozenset(deleted)
        self._new = ObjectCounter(self._state)

    def owned(self, selector: str) -> Sequence[Source]:
        """Return the source of its pods."""
        return (Source(PODS, self.namespace, self._new, selector=selector, fields=PodFields),)

    @property
    def tally(self) -> ObjectCounter:
        """Its pods."""
        return self._new

    def _state(self, pod: dict[str, Any], _: TerminalState | None) -> ObjectState:
        if not is_owned_or_orphan(pod, self.workload.resource, self.workload.uid):
            return ObjectState("of another owner")
        if is_terminating(pod) or pod["metadata"].get("uid") in self._deleted:
            return ObjectState("being deleted")
        if is_finished(pod):
            return ObjectState(phase_label(pod))
        return ObjectState(phase_label(pod), (_BACK,), keep=True)

    def verdict(self) -> Verdict:
        """Judge by the count alone, as upstream: what state the pods are in does not matter."""
        absent = self.workload.missing_verdict() or self.workload.ending()
        if absent is not None:
            return absent
        back = self._new.count(_BACK)
        if back == self._count:
            return Met()
        noun = "pod" if self._count == 1 else "pods"
        return Pending(f"{back} of {self._count} {noun}: {self._new.summary() or 'none'}")

    def result(self) -> Any:
        """Return the pods, sorted by name."""
        return self._new.objects(PODS)


class ReplacementsReady(WorkloadCondition):
    """A controller has a ready new pod for each one that was deleted so far.

    New is what has a UID that was not there at the beginning.

    Args:
        resource: its kind.
        namespace: where it is.
        controller: its name.
        uid: its UID.
        old: the UIDs of all pods that it had, deleted or still to be.
        deleted: the names of those that were deleted, the last one last.

    Raises:
        InvalidArgument: a name that cannot be one.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str,
        controller: str,
        uid: str,
        old: Collection[str],
        deleted: Sequence[str],
    ) -> None:
        super().__init__(
            resource,
            namespace,
            controller,
            f"have a ready pod in the place of {deleted[-1]}",
            None,
            pods=None,
            what="target",
        )
        self.workload.uid = uid
        self._old = frozenset(old)
        self._deleted = len(deleted)
        self._pods = ObjectCounter(self._state)

    def owned(self, selector: str) -> Sequence[Source]:
        """Return the source of its pods."""
        return (Source(PODS, self.namespace, self._pods, selector=selector, fields=SetPodFields),)

    @property
    def tally(self) -> ObjectCounter:
        """Its pods."""
        return self._pods

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        if not is_owned_or_orphan(pod, self.workload.resource, self.workload.uid):
            return ObjectState("of another owner")
        if is_terminating(pod):
            return ObjectState("being deleted")
        if is_finished(pod):
            return ObjectState(phase_label(pod))
        if pod["metadata"].get("uid") in self._old:
            return ObjectState("old", (ALIVE,))
        if is_running_and_ready(pod):
            return ObjectState("ready", (ALIVE, _READY), keep=True)
        label = phase_label(pod)
        label = "Running, not ready" if label == "Running" else label
        return ObjectState(label, (ALIVE,), doom=detect_owned_pod_failure(pod, before))

    def verdict(self) -> Verdict:
        """Judge by the new pods; those that are stuck, or refused, end it."""
        absent = self.workload.missing_verdict() or self.workload.ending()
        if absent is not None:
            return absent
        ready = self._pods.count(_READY)
        if ready >= self._deleted:
            return Met()
        hindrance: Failed | None = None
        if self._pods.count(ALIVE) < len(self._old):
            doom = detect_replica_failure(self.current)
            hindrance = None if doom is None else Failed(doom.reason, doom.patience)
        noun = "replacement" if self._deleted == 1 else "replacements"
        return (
            hindrance
            or judge_stuck_pods(self._pods, len(self._old))
            or Pending(
                f"{ready} of {self._deleted} {noun} ready: {self._pods.summary() or 'no pods'}"
            )
        )

    def result(self) -> Any:
        """Return the new pods that are ready, sorted by name."""
        return self._pods.objects(PODS)


_MIN_TIMEOUT = 0.1
"""Seconds left to a part for which there is no time: enough for a look."""

_log = logging.getLogger("pytest_kwait.wait")


@verb(limit="rolling_update", summary="the pods that replace the deleted ones")
def rolling_update(
    client: ApiClient,
    namespace: str,
    target: str,
    update_period: Duration = 60.0,
    *,
    strict: bool = False,
    within: Duration | None = None,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Delete the pods of a controller one by one; return those that came in their place.

    After each pod there is a pause of `update_period`; after the last one, what the controller has
    is looked at every 5 s until the count is what it was. Each pod is deleted by its UID, and one
    that is gone already is passed over; upstream deletes by name, gives up at any error, and counts
    pods that are still being deleted as back. The controller makes the new pods from its template
    as it is: change that first. They need not be ready.

    With `strict`, which upstream has not, the next pod is deleted only once a new one is ready for
    each that was deleted before, and all that are returned are ready.

    What it is at is shown and logged as for every wait.

    Args:
        client: the official client.
        namespace: where the controller is.
        target: `rc/web`, or any other controller of pods.
        update_period: the pause after each pod; 0 or more.
        strict: whether each replacement must be ready before the next deletion.
        within: the limit of all of it, pauses included; None for none. Nothing is deleted where
            the pauses alone take longer.
        **options: `timeout` (of the last part, with `strict` of each replacement; default:
            `rolling_update`, 300 s), `poll` (default: 5 s), `mode` (default: `poll`, with `strict`
            `watch`; `watch` ends with the change) and the other options of every wait.

    Raises:
        ApiError: the controller is not there, or the server refuses.
        InvalidArgument: an argument that cannot be meant, or no time for it.
        WaitFailed: the controller was deleted meanwhile, or with `strict` a replacement is stuck.
        WaitTimeout: the count, or a replacement, did not come within the limit, or the server had
            no answer for so long.
    """
    check_namespace(namespace)
    resource, name = parse_controller("target", target)
    period = to_seconds(update_period, what="update_period")
    if not isinstance(strict, bool):
        raise InvalidArgument("strict", strict, "use True or False")
    whole = None if within is None else to_seconds(within, what="within", allow_zero=False)
    given = {key: value for key, value in options.items() if value is not None}
    defaults: dict[str, Any] = {"poll": TIMEOUTS["rolling_update_poll"].seconds}
    if not strict:
        defaults["mode"] = "poll"
    settings = resolve_options({**options, **defaults, **given}, timeout="rolling_update")
    session = Session.of(client)
    update = _RollingUpdate(session, resource, namespace, name, settings, whole)
    uid, pods = _read_pods(session, resource, namespace, name, target, update.deadline)
    if whole is not None and len(pods) * period > whole:
        raise InvalidArgument(
            "update_period",
            update_period,
            f"{len(pods)} pods take {format_duration(len(pods) * period)} with it, and all of it "
            f"must end within {format_duration(whole)}",
        )
    return update.run(uid, pods, period, strict=strict)


class _RollingUpdate:
    """One of them, from its first deletion to its result.

    Args:
        session: who asks the server.
        resource: the controller's kind.
        namespace: where it is.
        name: its name.
        settings: the options of its waits.
        whole: the limit of all of it, in seconds from now; None for none.
    """

    def __init__(
        self,
        session: Session,
        resource: Resource,
        namespace: str,
        name: str,
        settings: WaitSettings,
        whole: float | None,
    ) -> None:
        self._session = session
        self._resource = resource
        self._namespace = namespace
        self._name = name
        self._settings = settings
        self._started = session.clock.monotonic()
        self._timeline = Timeline()
        self._goal = ""
        self.deadline = Deadline.after(whole, session.clock)
        self._expected = self.deadline

    def run(
        self, uid: str, pods: list[dict[str, Any]], period: float, *, strict: bool
    ) -> list[dict[str, Any]]:
        """Delete and wait; return the new pods."""
        count = len(pods)
        noun = "pod" if count == 1 else "pods"
        self._goal = f"have its {count} {noun} replaced one by one"
        most = count * period + self._settings.timeout * (count if strict else 1)
        self._expected = self.deadline.at_most(most)
        old = [pod["metadata"].get("uid") or "" for pod in pods]
        place = (self._resource, self._namespace, self._name, uid)
        names: list[str] = []
        replaced: list[dict[str, Any]] = []
        for pod in pods:
            names.append(pod["metadata"]["name"])
            with self._pending():
                self._say(f"deleting pod {names[-1]}, {len(names)} of {count}")
                self._delete(pod)
            if strict:
                replaced = self._await(ReplacementsReady(*place, old, names))
            with self._pending():
                self._session.clock.sleep(min(period, self.deadline.remaining))
        if strict:
            return replaced
        self._say(f"deleted {count} of {count} {noun}")
        return self._await(PodsRestored(*place, count, old))

    def _await(self, condition: Condition) -> list[dict[str, Any]]:
        limit = self._settings.timeout
        if self.deadline.remaining < limit:
            # In tenths, for the sake of the message.
            limit = max(math.floor(self.deadline.remaining * 10) / 10, _MIN_TIMEOUT)
        begun = self._elapsed
        try:
            found = wait_for_condition(
                self._session, condition, replace(self._settings, timeout=limit)
            )
        except (WaitTimeout, WaitFailed) as error:
            if not isinstance(error.report, WaitReport):
                raise
            kind = WaitTimeout if isinstance(error, WaitTimeout) else WaitFailed
            raise kind(report=self._told_whole(error.report, begun)) from None
        return cast("list[dict[str, Any]]", found)

    def _told_whole(self, report: WaitReport, begun: float) -> WaitReport:
        """Return the facts of a part that failed, with what was done before it."""
        for change in (*report.timeline.first, *report.timeline.latest):
            self._timeline.record(begun + change.at, change.text)
        return replace(report, timeline=self._timeline)

    @property
    def _elapsed(self) -> float:
        return self._session.clock.monotonic() - self._started

    @property
    def _subject(self) -> str:
        noun = self._resource.singular or self._resource.kind.lower()
        return f"{noun} {self._namespace}/{self._name}"

    @contextlib.contextmanager
    def _pending(self) -> Iterator[None]:
        """Let what is done be seen as a wait is."""
        pending = ActiveWait(
            self._subject, self._goal, self._expected, self._timeline, self._started
        )
        with ACTIVE_WAITS.entered(pending):
            yield

    def _say(self, text: str) -> None:
        at = self._elapsed
        self._timeline.record(at, text)
        after = format_duration(round(at, 1))
        _log.info("%s to %s: after %s: %s", self._subject, self._goal, after, text)

    def _delete(self, pod: dict[str, Any]) -> None:
        limit = self.deadline.at_most(TIMEOUTS["single_call"].seconds)
        metadata = pod["metadata"]
        name, uid = metadata["name"], metadata.get("uid")
        try:
            with within_deadline(limit, f"pod {name} could not be deleted"):
                request_with_retry(
                    lambda left: self._session.delete(
                        PODS, name, self._namespace, uid=uid, deadline=left
                    ),
                    limit,
                )
        except ApiError as error:
            # Gone already, or replaced by a namesake, which is new.
            if error.status not in (404, 409):
                raise


def _read_pods(
    session: Session, resource: Resource, namespace: str, name: str, target: str, whole: Deadline
) -> tuple[str, list[dict[str, Any]]]:
    """Return a controller's UID and the pods of its replica selector, sorted by name."""
    deadline = whole.at_most(TIMEOUTS["single_call"].seconds)
    with within_deadline(deadline, f"{target} could not be read"):
        found = request_with_retry(
            lambda left: session.get(resource, name, namespace, deadline=left), deadline
        )
        selector = selector_of(resource, found.get("spec") or {})
        if selector is None:
            raise InvalidArgument("target", target, "its selector selects nothing in particular")
        listed = request_with_retry(
            lambda left: session.list(
                PODS, namespace, label_selector=selector, type=PodFields, deadline=left
            ),
            deadline,
        )
    uid = found["metadata"].get("uid") or ""
    pods = [
        item.object
        for item in listed.items
        if is_owned_or_orphan(item.object, resource, uid)
        and not is_terminating(item.object)
        and not is_finished(item.object)
    ]
    return uid, sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
