"""Scaling what has replicas, and waiting until its pods are there, or gone.

Source: kubernetes/test/e2e/framework/resource/resources.go ScaleResource,
kubernetes/test/utils/update_resources.go ScaleResourceWithRetries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.options import WaitOptions, check_count, check_namespace, resolve_options
from pytest_kwait.engine.retry import request_with_retry, within_deadline
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.named_targets import NamedTarget, resolve_target
from pytest_kwait.framework.operations.scale import ScaledPods
from pytest_kwait.wait.backoff import Backoff, exponential_backoff

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

__all__ = ["scale"]

_CONFLICTS = Backoff(0.01, factor=1.0, jitter=0.1, steps=5)
"""The pauses of upstream's retry.DefaultRetry."""


def scale(
    client: ApiClient,
    namespace: str,
    target: str,
    replicas: int,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Scale an object, and return it once it has exactly so many pods, all Running and ready.

    Through its `scale` subresource, written again after a conflict. Pods that are being deleted
    count as long as they are there, so that after scaling down they are gone; upstream is content
    with enough Running pods. Custom resources can be scaled whose scale names a selector of pods.
    Jobs have no scale: set their parallelism.

    Args:
        client: the official client.
        namespace: where it is.
        target: `deployment/web`, `statefulset/web`, `rs/web`, `rc/web` or a custom resource.
        replicas: how many pods; 0 or more.
        **options: `timeout` (default: `controlled_pods`, 10 minutes) and the other options of every
            wait.

    Raises:
        ApiError: it is not there, or the server refuses.
        InvalidArgument: an argument that cannot be meant, or a kind that has no scale.
        WaitFailed: it can no longer come: its pods are stuck or refused, somebody has scaled it to
            another number, or it was deleted.
        WaitTimeout: it did not come within the limit.
    """
    session = Session.of(client)
    check_namespace(namespace)
    check_count("replicas", replicas)
    settings = resolve_options(options, timeout="controlled_pods")
    deadline = Deadline.after(settings.timeout, session.clock)
    with within_deadline(deadline, "what kinds the server has could not be found out"):
        found = resolve_target(session, target, deadline)
    if "scale" not in found.resource.subresources or not found.resource.namespaced:
        raise InvalidArgument("target", target, f"a {found.resource.kind} has no scale")
    with within_deadline(deadline, f"the scale of {target} could not be read"):
        before = request_with_retry(
            lambda left: session.get(
                found.resource, found.name, namespace, subresource="scale", deadline=left
            ),
            deadline,
        )
    selector = (before.get("status") or {}).get("selector") or ""
    if not selector:
        raise InvalidArgument(
            "target", target, "its scale names no selector of pods: patch it, and use wait_for"
        )
    with within_deadline(deadline, f"{target} could not be scaled"):
        _write_replicas(session, found, namespace, replicas, deadline)
    condition = ScaledPods(
        found.resource,
        namespace,
        found.name,
        uid=before["metadata"].get("uid") or "",
        selector=selector,
        replicas=replicas,
    )
    return cast("dict[str, Any]", wait_for_condition(session, condition, settings, deadline))


def _write_replicas(
    session: Session, found: NamedTarget, namespace: str, replicas: int, deadline: Deadline
) -> None:
    """Write the number of replicas, again if somebody else has written at the same time."""
    conflicts: list[ApiError] = []

    def written() -> bool:
        try:
            request_with_retry(
                lambda left: session.patch(
                    found.resource,
                    found.name,
                    {"spec": {"replicas": replicas}},
                    namespace,
                    subresource="scale",
                    deadline=left,
                ),
                deadline,
            )
        except ApiError as error:
            if error.status != 409 or len(conflicts) == _CONFLICTS.steps - 1:
                raise
            conflicts.append(error)
            return False
        return True

    exponential_backoff(_CONFLICTS, written, clock=session.clock)
