"""Replacing the pods of a workload one after another, as `kubectl rollout restart` does.

Source: kubectl/pkg/polymorphichelpers/objectrestarter.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline, rfc3339_micro
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.retry import request_with_retry, within_deadline
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.operations.rollout import rollout_status

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

__all__ = ["restart"]

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""The annotation of the pod template that kubectl changes to have all pods replaced."""


def restart(
    client: ApiClient, namespace: str, target: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Have all pods of a workload replaced, and return it once that is rolled out.

    As kubectl, this refuses a paused Deployment; beyond kubectl, a workload that is not updated by
    rolling, of which nothing would come. kubectl notes the time in seconds and refuses a second
    restart within one; here it is noted finer.

    Args:
        client: the official client.
        namespace: where it is.
        target: `deployment/web`, `statefulset/web` or `daemonset/web`.
        **options: `timeout` (default: `deployment`, 5 minutes) and the other options of every wait.

    Raises:
        ApiError: it is not there, or the server refuses.
        InvalidArgument: an argument that cannot be meant, or a workload that cannot be restarted.
        WaitFailed: it can no longer come: the new pods are stuck or refused, a progress deadline
            was missed, or it was deleted.
        WaitTimeout: it did not come within the limit.
    """
    session = Session.of(client)
    condition = rollout_status(namespace, target)
    settings = resolve_options(options, timeout="deployment")
    deadline = Deadline.after(settings.timeout, session.clock)
    resource, name = condition.workload.resource, condition.workload.name
    with within_deadline(deadline, f"{target} could not be read"):
        before = request_with_retry(
            lambda left: session.get(resource, name, namespace, deadline=left), deadline
        )
    spec = before.get("spec") or {}
    if spec.get("paused"):
        raise InvalidArgument("target", target, "it is paused: resume it first")
    strategy = (spec.get("updateStrategy") or {}).get("type")
    if strategy not in (None, "RollingUpdate"):
        raise InvalidArgument(
            "target", target, f"its update strategy is {strategy}: delete its pods instead"
        )
    stamp = {RESTARTED_AT: rfc3339_micro(session.clock.time())}
    patch = {"spec": {"template": {"metadata": {"annotations": stamp}}}}
    with within_deadline(deadline, f"{target} could not be restarted"):
        request_with_retry(
            lambda left: session.patch(resource, name, patch, namespace, deadline=left), deadline
        )
    condition.workload.uid = before["metadata"].get("uid") or ""
    return cast("dict[str, Any]", wait_for_condition(session, condition, settings, deadline))
