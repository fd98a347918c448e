"""Routing of subresources to their handlers; status, binding and token requests.

Source: k8s.io/kubernetes pkg/registry/core/pod/rest, pkg/registry/core/pod/storage (BindingREST),
pkg/registry/apps/*/storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.api_errors import (
    StatusError,
    bad_request,
    method_not_allowed,
    not_supported,
    required,
    resource_not_found,
)
from pytest_kwait.simulator.apiserver.handlers.patch import patch_object
from pytest_kwait.simulator.apiserver.negotiation import PRODUCED, check_produced
from pytest_kwait.simulator.apiserver.request_bodies import (
    BINDING_KIND,
    CREATED_STATUS,
    check_object_name,
    check_subresource_kind,
    read_object,
    read_subresource_object,
)
from pytest_kwait.simulator.apiserver.responses import (
    entry_to_requested_version,
    json_response,
    object_response,
    stored_object_response,
    to_requested_version,
)
from pytest_kwait.simulator.apiserver.subresources.connect import admit_connection
from pytest_kwait.simulator.apiserver.subresources.eviction import serve_eviction
from pytest_kwait.simulator.apiserver.subresources.logs import serve_logs
from pytest_kwait.simulator.apiserver.subresources.scale import serve_scale
from pytest_kwait.simulator.apiserver.suspended_writes import run_write
from pytest_kwait.simulator.authentication.service_accounts import TOKEN_REQUESTS
from pytest_kwait.simulator.managedfields.field_manager import record_update
from pytest_kwait.simulator.objects import clone, name_of

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["SubresourceHandler", "serve_binding"]


async def serve_binding(api: Cluster, request: ApiRequest, target: RequestInfo) -> web.Response:
    """Bind a pod to a node, by its subresource or by a Binding of its name.

    Raises:
        StatusError: 404 without the pod, 409 if it is bound already, 400 or 500 for an invalid
            binding.
    """
    caller, namespace = request.read_write_options(), target.namespace or ""
    binding = await read_subresource_object(api, request, BINDING_KIND, namespace, caller)
    name = target.name or name_of(binding)
    if not name:
        raise bad_request("Name parameter required.")
    kind, subresource = api.kinds["pods"], "binding"
    if not target.name:
        kind, subresource = api.kinds["bindings"], ""

    def bind() -> None:
        attributes = Attributes(
            "CREATE",
            kind,
            namespace,
            name,
            binding,
            None,
            subresource,
            caller,
            subresource_kind=BINDING_KIND,
        )
        api.admission.admit_subresource(attributes)
        admitted = attributes.obj or binding
        if name_of(admitted) != name:
            raise bad_request("name in URL does not match name in Binding object")
        _check_binding(admitted)
        api.admission.validate_subresource(attributes)
        api.bind(
            namespace, name, admitted["target"]["name"], binding=admitted, dry_run=caller.dry_run
        )

    await run_write(api, bind)
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


_CONNECT_SUBRESOURCES = ("attach", "exec", "portforward", "proxy")


class SubresourceHandler:
    """Serves the requests on subresources."""

    def __init__(self, api: Cluster) -> None:
        self._api = api

    async def handle(
        self, request: ApiRequest, kind: Kind, target: RequestInfo
    ) -> web.StreamResponse:
        """Serve a request.

        Raises:
            StatusError: the request is rejected.
        """
        if target.rest and target.subresource != "proxy":
            raise resource_not_found()
        if target.subresource in _CONNECT_SUBRESOURCES:
            await admit_connection(self._api, request, kind, target)
            return await self._connect(request, kind, target)
        if target.subresource == "log":
            return await serve_logs(self._api, request, target)
        method = request.method
        verbs = kind.subresources[target.subresource].verbs
        verb = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, "")
        if verb not in verbs:
            raise method_not_allowed()
        check_produced(request.header("Accept"), PRODUCED)
        if verb == "create":
            return await self._create(request, kind, target)
        if target.subresource == "scale":
            return await serve_scale(self._api, request, kind, target, verb)
        if verb == "get":
            entry = self._api.entry(kind, target.name, target.namespace or "")
            return stored_object_response(
                request, kind, await entry_to_requested_version(kind, entry)
            )
        if verb == "patch":
            return await patch_object(self._api, request, kind, target)
        caller = request.read_write_options()
        obj = await read_object(request, kind)
        check_object_name(obj, target.name, target.namespace or "")
        stored = await run_write(
            self._api,
            lambda: self._api.update(kind, obj, subresource=target.subresource, caller=caller),
            retry=True,
        )
        return object_response(request, kind, await to_requested_version(kind, stored))

    async def _connect(
        self, request: ApiRequest, kind: Kind, target: RequestInfo
    ) -> web.StreamResponse:
        # Streams are not needed to start a cluster.
        if target.subresource in ("attach", "exec"):
            from pytest_kwait.simulator.apiserver.subresources.remotecommand import (
                serve_remote_command,
            )

            return await serve_remote_command(self._api, request, target)
        if target.subresource == "portforward":
            from pytest_kwait.simulator.apiserver.subresources.portforward import serve_port_forward

            return await serve_port_forward(self._api, request, target)
        if kind.bucket == "nodes":
            from pytest_kwait.simulator.apiserver.subresources.proxy import serve_node_proxy

            return await serve_node_proxy(self._api, request, target)
        from pytest_kwait.simulator.apiserver.subresources.proxy import (
            serve_pod_proxy,
            serve_service_proxy,
        )

        serve = serve_pod_proxy if kind.bucket == "pods" else serve_service_proxy
        return await serve(self._api, request, target)

    async def _create(self, request: ApiRequest, kind: Kind, target: RequestInfo) -> web.Response:
        match target.subresource:
            case "binding":
                return await serve_binding(self._api, request, target)
            case "eviction":
                return await serve_eviction(self._api, request, target)
            case "token":
                obj = await read_object(request, kind, any_kind=True)
                check_subresource_kind(self._api, obj, TOKEN_REQUESTS)
                return json_response(request, await self._token(request, target, obj), 201)
        raise method_not_allowed()

    async def _token(self, request: ApiRequest, target: RequestInfo, attributes: Obj) -> Obj:
        caller = request.read_write_options()
        namespace = target.namespace or ""
        clean = self._api.decode(TOKEN_REQUESTS, attributes, caller)
        account = self._api.get("serviceaccounts", target.name, namespace)
        clean["metadata"].setdefault("name", target.name)
        clean["metadata"].setdefault("namespace", namespace)

        def issue() -> Obj:
            attributes = Attributes(
                "CREATE",
                self._api.kinds["serviceaccounts"],
                namespace,
                target.name,
                clone(clean),
                None,
                "token",
                caller,
                subresource_kind=TOKEN_REQUESTS,
            )
            self._api.admission.admit_subresource(attributes)
            self._api.admission.validate_subresource(attributes)
            return self._api.accounts.issue(account, attributes.obj or clean)

        issued = await run_write(self._api, issue)
        stamp = self._api.clock.stamp()
        record_update(TOKEN_REQUESTS, issued, None, caller, stamp, "token")
        return issued
