"""The blocking rolling update: replace a controller's pods one by one.

Each pod is deleted, then its replacement is awaited.

Source: kubernetes v0.7 pkg/kubecfg/kubecfg.go, Update.
"""

from __future__ import annotations

import contextlib
import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from pytest_kwait.apimachinery.times import format_duration, to_seconds
from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import DEPLOYMENTS, PODS
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait
from pytest_kwait.engine.condition import Failed, Met, Pending, Source, TerminalState, Verdict
from pytest_kwait.engine.failure.wait_report import Timeline, WaitReport
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState
from pytest_kwait.engine.options import TIMEOUTS, WaitOptions, resolve_options
from pytest_kwait.engine.pod_fields import (
    PodFields,
    is_finished,
    is_terminating,
    phase_label,
    readiness_label,
)
from pytest_kwait.engine.retry import request_with_retry, within_deadline
from pytest_kwait.engine.waiter import sleep_until_stopped, wait_for_condition
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.cluster.webhooks import WriteErrors
from pytest_kwait.framework.named_objects import ObjectCondition, controller_uid, count_noun
from pytest_kwait.framework.pod.list_conditions import SetPodFields, is_running_and_ready
from pytest_kwait.framework.registry import verb
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure
from pytest_kwait.framework.terminal_states.workloads import detect_replica_failure
from pytest_kwait.framework.workload.conditions import ALIVE, WorkloadCondition, detect_stuck_pods
from pytest_kwait.framework.workload.fields import parse_controller, selector_of
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.apimachinery.times import Duration
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.condition import Condition
    from pytest_kwait.engine.options import WaitSettings

_BACK, _READY = "back", "ready"
_MIN_TIMEOUT = 0.1
"""The minimum timeout of a part, in seconds: enough for one check."""

_log = logging.getLogger("pytest_kwait.wait")


class _ControllerFields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: dict[str, Any] | None


def is_owned_or_orphan(pod: dict[str, Any], resource: Resource, uid: str) -> bool:
    """Return whether a selected pod is the controller's or an orphan, as all were in v0.7."""
    # The pods of a Deployment are controlled by its ReplicaSets.
    return resource == DEPLOYMENTS or controller_uid(pod) in ("", uid)


class ControllerExists(ObjectCondition):
    """A controller exists and is not being deleted.

    Args:
        controller: its name.
        goal: the awaited state of the whole update.
    """

    goal: str

    def __init__(
        self, resource: Resource, namespace: str, controller: str, uid: str, goal: str
    ) -> None:
        super().__init__(resource, namespace, controller, _ControllerFields, uid)
        self.goal = goal

    def verdict(self) -> Verdict:
        """Decide by the object's presence."""
        return self.object.missing_verdict() or self.object.ending() or Met()


class PodsRestored(WorkloadCondition):
    """A controller has its former number of pods again, not counting the deleted ones.

    Args:
        controller: its name.
        count: the former number of pods.
        deleted: the UIDs of the deleted pods.
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
        super().__init__(
            resource,
            namespace,
            controller,
            f"have {count_noun(count, 'pod')} again after its rolling update",
            _ControllerFields,
            pods=None,
            what="target",
        )
        self.object.uid = uid
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
        if not is_owned_or_orphan(pod, self.object.resource, self.object.uid):
            return ObjectState("of another owner")
        if is_terminating(pod) or pod["metadata"].get("uid") in self._deleted:
            return ObjectState("being deleted")
        if is_finished(pod):
            return ObjectState(phase_label(pod))
        return ObjectState(phase_label(pod), (_BACK,), keep=True)

    def verdict(self) -> Verdict:
        """Decide by the count alone, as upstream: the state of the pods does not matter."""
        absent = self.object.missing_verdict() or self.object.ending()
        if absent is not None:
            return absent
        back = self._new.count(_BACK)
        if back == self._count:
            return Met()
        return Pending(
            f"{back} of {count_noun(self._count, 'pod')}: {self._new.summary() or 'none'}"
        )

    def result(self) -> Any:
        """Return the pods, sorted by name."""
        return self._new.objects(PODS)


class ReplacementsReady(WorkloadCondition):
    """A controller has a ready new pod for each pod deleted so far.

    A pod is new if its UID did not exist at the beginning.

    Args:
        controller: its name.
        old: the UIDs of all pods at the beginning, deleted or not.
        deleted: the names of the deleted pods, the last one last.
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
        self.object.uid = uid
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
        if not is_owned_or_orphan(pod, self.object.resource, self.object.uid):
            return ObjectState("of another owner")
        if is_terminating(pod):
            return ObjectState("being deleted")
        if is_finished(pod):
            return ObjectState(phase_label(pod))
        if pod["metadata"].get("uid") in self._old:
            return ObjectState("old", (ALIVE,))
        if is_running_and_ready(pod):
            return ObjectState("ready", (ALIVE, _READY), keep=True)
        label = readiness_label(pod)
        return ObjectState(label, (ALIVE,), terminal_state=detect_owned_pod_failure(pod, before))

    def verdict(self) -> Verdict:
        """Decide by the new pods; stuck or refused pods fail the wait."""
        absent = self.object.missing_verdict() or self.object.ending()
        if absent is not None:
            return absent
        ready = self._pods.count(_READY)
        if ready >= self._deleted:
            return Met()
        failed: Failed | None = None
        if self._pods.count(ALIVE) < len(self._old):
            terminal = detect_replica_failure(self.current)
            failed = None if terminal is None else Failed(terminal.reason, terminal.grace)
        rest = self._pods.summary() or "no pods"
        return (
            failed
            or detect_stuck_pods(self._pods, len(self._old))
            or Pending(f"{ready} of {count_noun(self._deleted, 'replacement')} ready: {rest}")
        )

    def result(self) -> Any:
        """Return the new pods that are ready, sorted by name."""
        return self._pods.objects(PODS)


@verb(
    limit="rolling_update", kinds={"target": None}, summary="the pods that replace the deleted ones"
)
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
    """Delete the pods of a controller one by one; return their replacements.

    A pause of `update_period` follows each pod. After the last one, the pods are checked every 5 s
    until their number is restored. Each pod is deleted by its UID, and a pod that is already gone
    is skipped; upstream deletes by name, stops at any error, and counts terminating pods as
    restored. The controller creates the new pods from its current template: change that first. They
    need not be ready.

    With `strict`, which upstream lacks, the next pod is deleted only once each deleted pod has a
    ready replacement, and all returned pods are ready.

    Progress is shown and logged as for every wait.

    Args:
        namespace: the namespace of the controller.
        target: `rc/web`, or any other controller of pods.
        update_period: the pause after each pod; 0 or more.
        strict: require a ready replacement before the next deletion.
        within: the limit of the whole update, pauses included; None for none. Nothing is deleted if
            the pauses alone take longer.
        **options: `timeout` (of the last part, with `strict` of each replacement; default:
            `rolling_update`, 300 s), `poll` (default: 5 s), `mode` (default: `poll`, with `strict`
            `watch`; `watch` ends with the change) and the rest of `WaitOptions`.

    Raises:
        ApiError: the controller does not exist, or the server refuses a request.
        InvalidArgument: an argument is invalid, or `within` is too short.
        WaitFailed: the controller was deleted meanwhile, or with `strict` a replacement is stuck.
        WaitTimeout: the count was not restored, or a replacement not ready, within the limit, or
            the server did not answer in that time.
    """
    check_namespace(namespace)
    resource, name = parse_controller("target", target)
    period = to_seconds(update_period, what="update_period")
    if not isinstance(strict, bool):
        raise InvalidArgument("strict", strict, "use True or False")
    whole = None if within is None else to_seconds(within, what="within", allow_zero=False)
    overrides = {key: value for key, value in options.items() if value is not None}
    defaults: dict[str, Any] = {"poll": TIMEOUTS["rolling_update_poll"].seconds}
    if not strict:
        defaults["mode"] = "poll"
    session = ApiSession.of(client)
    defaults |= session.default_options("rolling_update", "rolling_update_poll")
    settings = resolve_options({**options, **defaults, **overrides}, timeout="rolling_update")
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
    """One rolling update, from its first deletion to its result.

    Args:
        session: the client for requests.
        resource: the controller's kind.
        settings: the options of its waits.
        whole: the limit of the whole update, in seconds from now; None for none.
    """

    def __init__(
        self,
        session: ApiSession,
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
        time_budget = session.time_budget()
        if time_budget is not None:
            self.deadline = self.deadline.at_most(time_budget.seconds)
        self._expected = self.deadline

    def run(
        self, uid: str, pods: list[dict[str, Any]], period: float, *, strict: bool
    ) -> list[dict[str, Any]]:
        """Delete and wait; return the new pods."""
        count = len(pods)
        self._goal = f"have its {count_noun(count, 'pod')} replaced one by one"
        most = count * period + self._settings.timeout * (count if strict else 1)
        self._expected = self.deadline.at_most(most)
        old = [pod["metadata"].get("uid") or "" for pod in pods]
        place = (self._resource, self._namespace, self._name, uid)
        names: list[str] = []
        replaced: list[dict[str, Any]] = []
        for pod in pods:
            if names and not self._is_present(uid):
                self._await(ControllerExists(*place, self._goal))
            names.append(pod["metadata"]["name"])
            with self._pending():
                self._say(f"deleting pod {names[-1]}, {len(names)} of {count}")
                self._delete(pod)
            if strict:
                replaced = self._await(ReplacementsReady(*place, old, names))
            with self._pending():
                sleep_until_stopped(
                    self._session.clock,
                    min(period, self.deadline.remaining),
                    self._settings.stop,
                )
        if strict:
            return replaced
        self._say(f"deleted {count} of {count_noun(count, 'pod')}")
        return self._await(PodsRestored(*place, count, old))

    def _is_present(self, uid: str) -> bool:
        limit = self.deadline.at_most(TIMEOUTS["single_call"].seconds)
        try:
            controller = request_with_retry(
                lambda attempt_deadline: self._session.get(
                    self._resource, self._name, self._namespace, deadline=attempt_deadline
                ),
                limit,
            )
        except (ApiError, DeadlineExceeded):
            return False
        metadata = controller["metadata"]
        return metadata.get("uid") == uid and not metadata.get("deletionTimestamp")

    def _await(self, condition: Condition) -> list[dict[str, Any]]:
        limit = self._settings.timeout
        if self.deadline.remaining < limit:
            # Tenths of a second, for a readable message.
            limit = max(math.floor(self.deadline.remaining * 10) / 10, _MIN_TIMEOUT)
        begun = self._elapsed
        try:
            result = wait_for_condition(
                self._session, condition, replace(self._settings, timeout=limit)
            )
        except (WaitTimeout, WaitFailed) as error:
            if not isinstance(error.report, WaitReport):
                raise
            kind = WaitTimeout if isinstance(error, WaitTimeout) else WaitFailed
            raise kind(report=self._told_whole(error.report, begun)) from None
        return cast("list[dict[str, Any]]", result)

    def _told_whole(self, report: WaitReport, begun: float) -> WaitReport:
        """Return the report of a failed part, with the update's time and earlier changes."""
        for change in (*report.timeline.first, *report.timeline.latest):
            self._timeline.record(
                begun + change.at, change.text, is_provisional=change.is_provisional
            )
        return replace(report, timeline=self._timeline, elapsed=begun + report.elapsed)

    @property
    def _elapsed(self) -> float:
        return self._session.clock.monotonic() - self._started

    @property
    def _subject(self) -> str:
        noun = self._resource.singular or self._resource.kind.lower()
        return f"{noun} {self._namespace}/{self._name}"

    @contextlib.contextmanager
    def _pending(self) -> Iterator[None]:
        """Register the update as an active wait."""
        pending = ActiveWait(
            self._subject, self._goal, self._expected, self._timeline, self._started
        )
        with ACTIVE_WAITS.entered(pending):
            yield
            pending.record_outcome("met")

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
                    lambda attempt_deadline: self._session.delete(
                        PODS, name, self._namespace, uid=uid, deadline=attempt_deadline
                    ),
                    limit,
                    WriteErrors(self._session),
                )
        except ApiError as error:
            # Gone already, or replaced by a new pod of the same name.
            if error.status not in (404, 409):
                raise


def _read_pods(
    session: ApiSession, resource: Resource, namespace: str, name: str, target: str, whole: Deadline
) -> tuple[str, list[dict[str, Any]]]:
    """Return a controller's UID and the pods of its replica selector, sorted by name."""
    deadline = whole.at_most(TIMEOUTS["single_call"].seconds)
    with within_deadline(deadline, f"{target} could not be read"):
        controller = request_with_retry(
            lambda attempt_deadline: session.get(
                resource, name, namespace, deadline=attempt_deadline
            ),
            deadline,
        )
        selector = selector_of(resource, controller.get("spec") or {})
        if selector is None:
            raise InvalidArgument("target", target, "its selector selects nothing in particular")
        listed = request_with_retry(
            lambda attempt_deadline: session.list(
                PODS, namespace, label_selector=selector, type=PodFields, deadline=attempt_deadline
            ),
            deadline,
        )
    uid = controller["metadata"].get("uid") or ""
    pods = [
        item.object
        for item in listed.items
        if is_owned_or_orphan(item.object, resource, uid)
        and not is_terminating(item.object)
        and not is_finished(item.object)
    ]
    return uid, sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
