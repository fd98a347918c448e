"""Change the resources of a running pod.

Source: kubectl patch --subresource=resize;
kubernetes/test/e2e/common/node/framework/podresize/resize.go MakeResizePatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.options import WaitOptions, check_text, resolve_options
from pytest_kwait.engine.retry import request_with_retry, within_deadline
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.operations.edit import send_patch
from pytest_kwait.framework.registry import verb

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

Sizes = Mapping[str, str | int | float]
"""Quantities by resource: `{"memory": "64Mi", "cpu": 0.5}`."""


@verb(limit="single_call", kind=PODS, summary="the pod with its new spec")
def resize(
    client: ApiClient,
    namespace: str,
    name: str,
    *,
    container: str | None = None,
    requests: Sizes | None = None,
    limits: Sizes | None = None,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Change the resources of a container of a pod; return the pod as stored.

    It patches the subresource `resize`. The kubelet makes the resize afterwards:
    `wait_for_pod_resized` waits for it. Resources that are not named stay as they are.

    Args:
        namespace: the namespace of the pod.
        name: its name.
        container: the container, or a sidecar among the init containers; None for the only one of
            the containers.
        requests: the new requests, as quantities by resource.
        limits: the new limits, as quantities by resource.

    Raises:
        ApiError: the pod does not exist, or the server refuses the sizes.
        InvalidArgument: no size is given, a quantity is invalid, or the pod has no such container.
    """
    session = ApiSession.of(client)
    check_namespace(namespace)
    check_name("pod", name)
    if container is not None:
        check_text("container", container)
    resources = {
        field: _check_sizes(field, sizes)
        for field, sizes in (("requests", requests), ("limits", limits))
        if sizes is not None
    }
    if not any(resources.values()):
        raise InvalidArgument("arguments", [], "give requests, limits or both")
    settings = resolve_options(options, timeout="single_call", session=session)
    deadline = Deadline.after(settings.timeout, session.clock)
    with within_deadline(deadline, f"pod {name} could not be resized"):
        pod = request_with_retry(
            lambda attempt_deadline: session.get(PODS, name, namespace, deadline=attempt_deadline),
            deadline,
        )
        field, chosen = _find_container(pod, container)
        patch = {"spec": {field: [{"name": chosen, "resources": resources}]}}
        return send_patch(session, PODS, name, namespace, patch, "strategic", "resize", deadline)


def _check_sizes(field: str, sizes: object) -> dict[str, str]:
    valid = 'use quantities by resource: {"memory": "64Mi", "cpu": "500m"}'
    if not isinstance(sizes, Mapping) or not all(isinstance(each, str) for each in sizes):
        raise InvalidArgument(field, sizes, valid)
    for name, size in sizes.items():
        try:
            number: object = size
            parse_quantity("" if isinstance(number, bool) else str(number))
        except InvalidArgument:
            raise InvalidArgument(f"{field} {name}", size, valid) from None
    return {name: str(size) for name, size in sizes.items()}


def _find_container(pod: dict[str, Any], name: str | None) -> tuple[str, str]:
    """Return the field of the spec that a container is in, and its name."""
    spec = pod["spec"]
    fields = {
        each["name"]: field
        for field in ("containers", "initContainers")
        for each in spec.get(field) or ()
    }
    if name is None:
        first, *others = (each["name"] for each in spec["containers"])
        if others:
            valid = f"name one of {', '.join(fields)}"
            raise InvalidArgument("container", None, f"the pod has several; {valid}")
        return "containers", first
    if name not in fields:
        raise InvalidArgument("container", name, f"the pod has {', '.join(fields)}")
    return fields[name], name
