"""Assigning pods to nodes on request.

Source: k8s.io/kubernetes pkg/registry/core/pod/storage/storage.go, BindingREST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.admission.webhooks.webhook_client import await_webhooks
from pytest_kwait.simulator.api_errors import StatusError, bad_request, not_supported, required
from pytest_kwait.simulator.apiserver.contents import (
    BINDING_KIND,
    CREATED_STATUS,
    read_subresource_object,
)
from pytest_kwait.simulator.apiserver.responses import json_response
from pytest_kwait.simulator.objects import name_of

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["serve_binding"]


async def serve_binding(
    api: SimulatedCluster, request: ApiRequest, target: RequestInfo
) -> web.Response:
    """Assign a pod to a node: beneath the pod, or by a Binding of its name.

    Raises:
        StatusError: 404 without the pod, 409 where it is assigned already, 400 or 500 for what is
            no binding of it.
    """
    caller, namespace = request.writer(), target.namespace or ""
    binding = await read_subresource_object(api, request, BINDING_KIND, namespace, caller)
    name = target.name or name_of(binding)
    if not name:
        raise bad_request("Name parameter required.")
    kind, subresource = api.kinds["pods"], "binding"
    if not target.name:
        kind, subresource = api.kinds["bindings"], ""

    def bind() -> None:
        asked = Attributes(
            "CREATE",
            kind,
            namespace,
            name,
            binding,
            None,
            subresource,
            caller,
            content=BINDING_KIND,
        )
        api.admission.admit_subresource(asked)
        wanted = asked.obj or binding
        if name_of(wanted) != name:
            raise bad_request("name in URL does not match name in Binding object")
        _check_binding(wanted)
        api.admission.validate_subresource(asked)
        api.bind(namespace, name, wanted["target"]["name"], binding=wanted, dry_run=caller.dry_run)

    await await_webhooks(caller, bind)
    return json_response(request, CREATED_STATUS, 201)


def _check_binding(binding: Obj) -> None:
    target = binding.get("target") or {}
    errors = []
    if target.get("kind", "") not in ("", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    if errors:
        texts = [str(error) for error in errors]
        raise StatusError(500, "", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
