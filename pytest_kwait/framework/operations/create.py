"""Create an object and wait until it is ready by the rules of its kind.

Source: kubernetes/test/e2e/framework/pod/pod_client.go CreateSync.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import (
    BUILT_IN,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.write_options import describe_unknown_fields
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.failure.redaction import SECRET_VALUES
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.retry import create_once, request_with_retry, within_deadline
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.cluster.webhooks import WriteErrors
from pytest_kwait.framework.job.wait import wait_for_job_complete
from pytest_kwait.framework.objects.wait import wait_for
from pytest_kwait.framework.operations.rollout import wait_for_rollout_status
from pytest_kwait.framework.operations.scale import ScaledPods
from pytest_kwait.framework.pod.wait import wait_for_pod_running_ready
from pytest_kwait.framework.predicates import parse_predicate
from pytest_kwait.framework.registry import condition_of, verb
from pytest_kwait.framework.workload.fields import replicas_of, selector_of

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.framework.objects.combinators import ConditionInput
    from pytest_kwait.framework.predicates import HeldPredicate

_SCHEMA_TIMEOUT = 5.0
"""Maximum seconds of the request for the schema of a refused object."""

_ROLLED_OUT = (DEPLOYMENTS, DAEMON_SETS, STATEFUL_SETS)
_REPLICATED = (REPLICA_SETS, REPLICATION_CONTROLLERS)


def create_and_wait(
    client: ApiClient,
    namespace: str,
    manifest: Mapping[str, Any],
    condition: ConditionInput | HeldPredicate | None = None,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Create an object and return it once it is ready.

    A Pod is ready when Running and ready, a Job when complete, a Deployment, DaemonSet or
    StatefulSet when rolled out, a ReplicaSet or ReplicationController when its pods are ready. Any
    other kind, and any other state, needs a condition.

    While an admission webhook cannot be called, the request is repeated, as upstream's
    `CreatePodWithRetries` does. This fails early once the webhook could not be called for the grace
    period.

    Args:
        namespace: the namespace of the object; ignored for cluster-scoped kinds.
        manifest: the object; `metadata.generateName` is allowed.
        condition: as for `wait_for`; by default the object is ready.

    Raises:
        ApiError: the object exists already or has unknown fields, or the server refuses a request.
        InvalidArgument: an argument is invalid, or the kind needs a condition.
        WaitFailed: the condition can no longer come true, or a webhook that fails the request could
            not be called for the grace period.
        WaitTimeout: the condition did not come true within the limit.

    Source: test/utils/create_resources.go CreatePodWithRetries.
    """
    check_namespace(namespace)
    session = ApiSession.of(client)
    settings = resolve_options(options, timeout="pod", session=session)
    deadline = Deadline.after(settings.timeout, session.clock)
    check_awaitable(manifest, condition)
    errors = WriteErrors(session, options)
    with within_deadline(deadline, f"the {manifest['kind']} could not be created"):
        resource = request_with_retry(
            lambda attempt_deadline: session.resolve(
                manifest["kind"], manifest["apiVersion"], deadline=attempt_deadline
            ),
            deadline,
        )
        where = namespace if resource.namespaced else None
        SECRET_VALUES.learn_manifest(manifest)
        try:
            made = create_once(session, resource, manifest, where, deadline, errors=errors)
        except ApiError as error:
            limit = deadline.at_most(_SCHEMA_TIMEOUT)
            unknown = describe_unknown_fields(session.transport, resource, error, limit)
            if unknown:
                error.add_note(unknown)
            raise
    if condition is not None:
        options["timeout"] = max(deadline.remaining, 0.1)
        return cast(
            "dict[str, Any]", wait_for_created(client, namespace, made, condition, **options)
        )
    awaited = ready_condition(resource, namespace, made)
    return cast("dict[str, Any]", wait_for_condition(session, awaited, settings, deadline))


def check_awaitable(manifest: object, condition: ConditionInput | HeldPredicate | None) -> None:
    """Check that a created object could be awaited; sends no request.

    Raises:
        InvalidArgument: no object, an invalid condition, or a kind that needs one.
    """
    if (
        not isinstance(manifest, Mapping)
        or not all(isinstance(manifest.get(key), str) for key in ("apiVersion", "kind"))
        or not isinstance(manifest.get("metadata"), Mapping)
    ):
        raise InvalidArgument("manifest", manifest, "use an object with apiVersion, kind, metadata")
    if condition is not None:
        parse_predicate(condition)
        return
    resource = match_resource(BUILT_IN.values(), manifest["kind"], manifest["apiVersion"])
    if resource not in (PODS, JOBS, *_ROLLED_OUT, *_REPLICATED):
        raise InvalidArgument(
            "condition",
            condition,
            f"say what is awaited of a {manifest['kind']}, as for wait_for: 'create'",
        )


@verb(limit="pod", summary="a created object that is ready")
def wait_for_created(
    client: ApiClient,
    namespace: str,
    made: Mapping[str, Any],
    condition: ConditionInput | HeldPredicate | None = None,
    **options: Unpack[WaitOptions],
) -> Any:
    """Return a created object once it is ready or satisfies a condition.

    Args:
        namespace: the namespace of the object.
        made: the object as created by the server.
        condition: as for `wait_for`; None for ready.
        **options: `WaitOptions`.
    """
    resource = match_resource(BUILT_IN.values(), made["kind"], made["apiVersion"])
    if condition is not None:
        name = made["metadata"]["name"]
        group, _, version = made["apiVersion"].rpartition("/")
        kind = f"{made['kind']}.{version}.{group}" if group else made["kind"]
        return wait_for(client, namespace, f"{kind}/{name}", condition, **options)
    check_awaitable(made, condition)
    session = ApiSession.of(client)
    settings = resolve_options(options, timeout="pod", session=session)
    awaited = ready_condition(resource, namespace, made)
    return wait_for_condition(session, awaited, settings)


def ready_condition(resource: Resource | None, namespace: str, made: Mapping[str, Any]) -> Any:
    """Return the condition that an object is ready by the rules of its kind.

    Args:
        resource: its kind, of those that need no condition of the caller.
        namespace: the namespace of the object.
        made: the object as stored by the server.
    """
    name = made["metadata"]["name"]
    if resource is not None and resource in _ROLLED_OUT:
        rollout = condition_of(wait_for_rollout_status)(namespace, f"{resource.plural}/{name}")
        rollout.object.uid = made["metadata"].get("uid") or ""
        return rollout
    if resource is not None and resource in _REPLICATED:
        return ScaledPods(
            resource,
            namespace,
            name,
            uid=made["metadata"].get("uid") or "",
            selector=selector_of(resource, made["spec"]) or "",
            replicas=replicas_of(dict(made)),
        )
    if resource == JOBS:
        job = condition_of(wait_for_job_complete)(namespace, name)
        job.object.uid = made["metadata"].get("uid") or ""
        return job
    pod = condition_of(wait_for_pod_running_ready)(namespace, name)
    pod.object.uid = made["metadata"].get("uid") or ""
    return pod
