"""The blocking rolling update: the pods of a controller are deleted one by one, and come back.

Source: kubernetes v0.7 pkg/kubecfg/kubecfg.go, Update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from pytest_kwait.api.objects import ObjectMeta
from pytest_kwait.api.resource import DEPLOYMENTS, PODS
from pytest_kwait.api.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.condition import Source
from pytest_kwait.engine.error_policy import retrying
from pytest_kwait.engine.options import WaitOptions, check_namespace, resolve
from pytest_kwait.engine.tally import Doom, State, Tally
from pytest_kwait.engine.timeouts import TIMEOUTS
from pytest_kwait.engine.verdicts import Met, Pending, Verdict
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.resources.controllers import parse_controller, selector_of
from pytest_kwait.resources.pods import (
    PodFields,
    controller_uid,
    is_finished,
    is_terminating,
    phase_label,
)
from pytest_kwait.resources.workload_conditions import WorkloadCondition
from pytest_kwait.wait.durations import to_seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.api.resource import Resource
    from pytest_kwait.wait.durations import Duration

__all__ = ["PodsAreBack", "rolling_update"]

_BACK = "back"


class _ControllerFields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: dict[str, Any] | None


class PodsAreBack(WorkloadCondition):
    """A controller has as many pods again as it had, without those that were deleted.

    Args:
        resource: its kind.
        namespace: where it is.
        controller: its name.
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
        count: int,
        deleted: Collection[str],
    ) -> None:
        noun = "pod" if count == 1 else "pods"
        super().__init__(
            resource,
            namespace,
            controller,
            f"have {count} {noun} again",
            _ControllerFields,
            pods=None,
            what="target",
        )
        self._count = count
        self._deleted = frozenset(deleted)
        self._new = Tally(self._state)

    def owned(self, selector: str) -> Sequence[Source]:
        """Return the source of its pods."""
        return (Source(PODS, self.namespace, self._new, selector=selector, fields=PodFields),)

    @property
    def tally(self) -> Tally:
        """Its pods."""
        return self._new

    def _state(self, pod: dict[str, Any], _: Doom | None) -> State:
        if not _is_of(pod, self.workload.resource, self.workload.uid):
            return State("of another owner")
        if is_terminating(pod) or pod["metadata"].get("uid") in self._deleted:
            return State("being deleted")
        if is_finished(pod):
            return State(phase_label(pod))
        return State(phase_label(pod), (_BACK,), keep=True)

    def verdict(self) -> Verdict:
        """Judge by the count alone, as upstream: what state the pods are in does not matter."""
        absent = self.workload.absence() or self.workload.ending()
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


def rolling_update(
    client: ApiClient,
    namespace: str,
    target: str,
    update_period: Duration = 60.0,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Delete the pods of a controller one by one; return those that came in their place.

    After each pod there is a pause of `update_period`; after the last one, what the controller has
    is looked at every 5 s until the count is what it was. Each pod is deleted by its UID, and one
    that is gone already is passed over; upstream deletes by name, gives up at any error, and counts
    pods that are still being deleted as back. The controller makes the new pods from its template
    as it is: change that first. They need not be ready.

    Args:
        client: the official client.
        namespace: where the controller is.
        target: `rc/web`, or any other controller of pods.
        update_period: the pause after each pod; 0 or more.
        **options: `timeout` (of the last part; default: `rolling_update`, 300 s), `poll` (default:
            5 s), `mode` (default: `poll`; `watch` ends with the change) and the other options of
            every wait.

    Raises:
        ApiError: the controller is not there, or the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: the controller was deleted meanwhile.
        WaitTimeout: the count did not come back within the limit.
    """
    check_namespace(namespace)
    resource, name = parse_controller("target", target)
    period = to_seconds(update_period, what="update_period")
    given = {key: value for key, value in options.items() if value is not None}
    defaults = {"mode": "poll", "poll": TIMEOUTS["rolling_update_poll"].seconds}
    settings = resolve({**options, **defaults, **given}, timeout="rolling_update")
    session = Session.of(client)
    uid, pods = _read(session, resource, namespace, name, target)
    for pod in pods:
        _delete(session, namespace, pod)
        session.clock.sleep(period)
    deleted = [pod["metadata"].get("uid") or "" for pod in pods]
    condition = PodsAreBack(resource, namespace, name, len(pods), deleted)
    condition.workload.uid = uid
    return cast("list[dict[str, Any]]", wait_for_condition(session, condition, settings))


def _read(
    session: Session, resource: Resource, namespace: str, name: str, target: str
) -> tuple[str, list[dict[str, Any]]]:
    """Return a controller's UID and the pods of its replica selector, sorted by name."""
    deadline = Deadline.after(TIMEOUTS["single_call"].seconds, session.clock)
    found = retrying(lambda left: session.get(resource, name, namespace, deadline=left), deadline)
    selector = selector_of(resource, found.get("spec") or {})
    if selector is None:
        raise InvalidArgument("target", target, "its selector selects nothing in particular")
    listed = retrying(
        lambda left: session.list(
            PODS, namespace, label_selector=selector, type=PodFields, deadline=left
        ),
        deadline,
    )
    uid = found["metadata"].get("uid") or ""
    pods = [
        item.object
        for item in listed.items
        if _is_of(item.object, resource, uid)
        and not is_terminating(item.object)
        and not is_finished(item.object)
    ]
    return uid, sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))


def _is_of(pod: dict[str, Any], resource: Resource, uid: str) -> bool:
    """Whether a selected pod is the controller's, or nobody's; upstream knew no owners."""
    # The pods of a Deployment are controlled by its ReplicaSets.
    return resource == DEPLOYMENTS or controller_uid(pod) in ("", uid)


def _delete(session: Session, namespace: str, pod: dict[str, Any]) -> None:
    deadline = Deadline.after(TIMEOUTS["single_call"].seconds, session.clock)
    metadata = pod["metadata"]
    try:
        retrying(
            lambda left: session.delete(
                PODS, metadata["name"], namespace, uid=metadata.get("uid"), deadline=left
            ),
            deadline,
        )
    except ApiError as error:
        # Gone already, or replaced by a namesake, which is new.
        if error.status not in (404, 409):
            raise
