"""Requests on subresources: status, binding, token, eviction and scale; routing of the others.

Source: k8s.io/kubernetes pkg/registry/core/pod/rest, pkg/registry/core/pod/storage (BindingREST,
eviction.go), pkg/registry/apps/*/storage (ScaleREST); k8s.io/apimachinery
pkg/util/managedfields/scalehandler.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import invalid_value
from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.api_errors import (
    StatusError,
    bad_request,
    invalid,
    method_not_allowed,
    resource_not_found,
)
from pytest_kwait.simulator.apiserver.handlers.patch import (
    APPLY_PATCH,
    apply_patch,
    patch_object,
    read_patch_type,
)
from pytest_kwait.simulator.apiserver.request import PRODUCED, check_produced
from pytest_kwait.simulator.apiserver.request_bodies import (
    BINDING_KIND,
    CREATED_STATUS,
    EVICTION_KIND,
    check_object_name,
    check_subresource_kind,
    read_body,
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
from pytest_kwait.simulator.apiserver.subresources.logs import serve_logs
from pytest_kwait.simulator.authentication.service_accounts import TOKEN_REQUESTS, TOKEN_SECONDS
from pytest_kwait.simulator.conversion import to_version
from pytest_kwait.simulator.managedfields.apply import check_conflicts, read_apply
from pytest_kwait.simulator.managedfields.field_manager import (
    ManagedFieldsEntry,
    read_managed_fields,
    record_update,
    write_managed_fields,
)
from pytest_kwait.simulator.objects import clone, copy_fields, name_of
from pytest_kwait.simulator.registry.generic_store import run_write
from pytest_kwait.simulator.registry.subresources import (
    SCALE_KIND,
    check_binding,
    evict_pod,
    read_eviction_options,
    read_scale,
    replicas_field,
    store_scale,
    write_admitted_scale,
)
from pytest_kwait.simulator.store import Entry, key_of

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.managedfields.field_manager import Path
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind

_REPLICAS: Path = ("f:spec", "f:replicas")

_CONNECT_SUBRESOURCES = ("attach", "exec", "portforward", "proxy")


async def serve_eviction(
    cluster: ApiServerCluster, request: ApiRequest, target: RequestInfo
) -> web.Response:
    """Evict a pod.

    Raises:
        StatusError: 429 if the budget allows no disruption, 404 without the pod, 400 or 422 for an
            invalid eviction.
    """
    caller, namespace = request.read_write_options(), target.namespace or ""
    eviction = await read_subresource_object(cluster, request, EVICTION_KIND, namespace, caller)
    pods = cluster.kinds["pods"]
    record_update(EVICTION_KIND, eviction, None, caller, cluster.clock.stamp(), "eviction")

    def evict() -> None:
        attributes = Attributes(
            "CREATE", pods, namespace, target.name, eviction, None, "eviction", caller,
            subresource_kind=EVICTION_KIND,
        )  # fmt: skip
        cluster.admission.admit_subresource(attributes)
        admitted = attributes.obj or eviction
        options = read_eviction_options(target.name, admitted, dry_run=caller.dry_run)
        if options:
            attributes.obj = {**admitted, "deleteOptions": options}
        cluster.admission.validate_subresource(attributes)
        evict_pod(cluster, cluster.get("pods", target.name, namespace), options)

    size = request.write_size(cluster.store.get(pods.bucket, key_of(target.name, namespace)))
    await run_write(cluster, evict, size=size)
    return json_response(request, CREATED_STATUS, 201)


async def serve_scale(
    cluster: ApiServerCluster, request: ApiRequest, kind: Kind, target: RequestInfo, verb: str
) -> web.Response:
    """Serve a request on the Scale of a workload.

    Raises:
        StatusError: 404 without the object, 409 for a conflict, 400 or 422 for an invalid Scale.
    """
    namespace = target.namespace or ""
    if verb == "get":
        entry = cluster.entry(kind, target.name, namespace)
        return await object_response(
            request, SCALE_KIND, read_scale(kind, await to_requested_version(kind, entry.obj))
        )
    caller = request.read_write_options()
    if verb == "update":
        sent = await read_subresource_object(cluster, request, SCALE_KIND, namespace, caller)
        check_object_name(sent, target.name, namespace)

        def update() -> Obj:
            return store_scale(
                cluster, kind, _find_entry(cluster, kind, target), lambda _: sent, caller
            )

        return await _scale_response(request, kind, await run_write(cluster, update, retry=True))
    media = read_patch_type(request, kind)
    data = await read_body(request)
    if media == APPLY_PATCH:
        applied = read_apply(data, SCALE_KIND, target.name, namespace, caller)
        applied["metadata"].setdefault("name", target.name)
        force = request.flag("force")
        stored = await run_write(
            cluster,
            lambda: _apply_scale(
                cluster, kind, _find_entry(cluster, kind, target), applied, caller, force=force
            ),
            retry=True,
        )
        return await _scale_response(request, kind, stored)

    def patch() -> Obj:
        return store_scale(
            cluster,
            kind,
            _find_entry(cluster, kind, target),
            lambda scale: _patch_scale(cluster, media, scale, data, caller),
            caller,
        )

    return await _scale_response(request, kind, await run_write(cluster, patch, retry=True))


async def _scale_response(request: ApiRequest, kind: Kind, stored: Obj) -> web.Response:
    return await object_response(
        request, SCALE_KIND, read_scale(kind, await to_requested_version(kind, stored))
    )


def _find_entry(cluster: ApiServerCluster, kind: Kind, target: RequestInfo) -> Entry:
    """Return the object in the version of the request."""
    entry = cluster.entry(kind, target.name, target.namespace or "")
    obj = to_version(kind, entry.obj) if kind.custom else entry.obj
    return entry if obj is entry.obj else Entry(entry.key, obj, entry.revision)


def _patch_scale(
    cluster: ApiServerCluster, media: str, scale: Obj, data: bytes, caller: Caller
) -> Obj:
    # JSON patches apply to the stored form, which keeps zeros.
    whole = {**scale, "spec": {"replicas": 0, **scale["spec"]}}
    changed = apply_patch(media, whole, data, SCALE_KIND)
    check_subresource_kind(cluster, changed, SCALE_KIND)
    try:
        return cluster.decode(SCALE_KIND, changed, caller)
    except StatusError as error:
        why = error.message.partition(" cannot be handled as a Scale: ")[2]
        if not why:
            raise
        raise invalid("", "", "", [invalid_value("patch", changed, why)]) from None


def _apply_scale(
    cluster: ApiServerCluster,
    kind: Kind,
    entry: Entry,
    applied: Obj,
    caller: Caller,
    *,
    force: bool,
) -> Obj:
    """Apply the Scale's replicas as a field manager; return the object.

    Replicas that are not applied any more, and have no other owner, become zero. A Scale with an
    empty `spec` keeps its manager.

    Raises:
        StatusError: 409, another manager owns the replicas and `force` is not given; 500 for other
            replicas of a custom object, as upstream.
    """
    path = replicas_field(kind)
    managers = read_managed_fields(entry.obj)
    manager_entry = ManagedFieldsEntry(
        caller.manager, "Apply", kind.api_version, "scale", cluster.clock.stamp(), {path}
    )
    owners = [manager for manager in managers if path in manager.fields]
    others = [owner for owner in owners if owner.identity != manager_entry.identity]
    spec = applied.get("spec")
    sent = (spec or {}).get("replicas")
    before = read_scale(kind, entry.obj)["spec"].get("replicas", 0)
    is_dropped = sent is None and bool(owners) and not others
    replicas = sent if sent is not None else 0 if is_dropped else before
    if replicas != before and not is_dropped:
        check_conflicts([_owner_of_scale(other) for other in others], {_REPLICAS}, force=force)
    if replicas != before and kind.custom:
        metadata, group = entry.obj["metadata"], SCALE_KIND.api_version
        text = (
            f"failed to convert new object ({metadata['namespace']}/{metadata['name']}; {group}, "
            f"Kind={SCALE_KIND.kind}) to proper version: request to convert CR to an invalid "
            f"group/version: {group}"
        )
        raise StatusError(500, "", text)
    scale = cluster.decode(SCALE_KIND, {**applied, "spec": {"replicas": replicas}}, caller)

    def record(new: Obj) -> None:
        kept = [*managers]
        for owner in owners:
            is_own = owner.identity == manager_entry.identity
            if (is_own and spec is None) or (not is_own and replicas != before):
                owner.fields.discard(path)
        if sent is not None:
            kept = [manager for manager in kept if manager.identity != manager_entry.identity]
            kept.append(manager_entry)
        write_managed_fields(new, kept)

    return write_admitted_scale(cluster, kind, entry, scale, caller, record)


def _owner_of_scale(owner: ManagedFieldsEntry) -> ManagedFieldsEntry:
    """Return the owner of an object's replicas as one of its Scale."""
    return replace(owner, api_version=SCALE_KIND.api_version, fields={("f:spec",), _REPLICAS})


async def serve_binding(
    cluster: ApiServerCluster, request: ApiRequest, target: RequestInfo
) -> web.Response:
    """Bind a pod to a node, by its subresource or by a Binding of its name.

    Raises:
        StatusError: 404 without the pod, 409 if it is bound already, 400 or 500 for an invalid
            binding.
    """
    caller, namespace = request.read_write_options(), target.namespace or ""
    binding = await read_subresource_object(cluster, request, BINDING_KIND, namespace, caller)
    name = target.name or name_of(binding)
    if not name:
        raise bad_request("Name parameter required.")
    kind, subresource = cluster.kinds["pods"], "binding"
    if not target.name:
        kind, subresource = cluster.kinds["bindings"], ""

    record_update(BINDING_KIND, binding, None, caller, cluster.clock.stamp(), subresource)

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
        cluster.admission.admit_subresource(attributes)
        admitted = attributes.obj or binding
        if name_of(admitted) != name:
            raise bad_request("name in URL does not match name in Binding object")
        check_binding(admitted)
        cluster.admission.validate_subresource(attributes)
        cluster.bind(
            namespace, name, admitted["target"]["name"], binding=admitted, dry_run=caller.dry_run
        )

    await run_write(cluster, bind)
    return json_response(request, CREATED_STATUS, 201)


class SubresourceHandler:
    """Serves the requests on subresources."""

    def __init__(self, cluster: ApiServerCluster) -> None:
        self._cluster = cluster

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
            await admit_connection(self._cluster, request, kind, target)
            return await self._connect(request, kind, target)
        if target.subresource == "log":
            return await serve_logs(self._cluster, request, target)
        method = request.method
        verbs = kind.subresources[target.subresource].verbs
        verb = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, "")
        if verb not in verbs:
            raise method_not_allowed()
        check_produced(request.header("Accept"), PRODUCED)
        if verb == "create":
            return await self._create(request, kind, target)
        if target.subresource == "scale":
            return await serve_scale(self._cluster, request, kind, target, verb)
        if verb == "get":
            entry = self._cluster.entry(kind, target.name, target.namespace or "")
            return await stored_object_response(
                request, kind, await entry_to_requested_version(kind, entry)
            )
        if verb == "patch":
            return await patch_object(self._cluster, request, kind, target)
        caller = request.read_write_options()
        obj = await read_object(request, kind)
        check_object_name(obj, target.name, target.namespace or "")
        version = obj["metadata"].get("resourceVersion")
        await self._cluster.exploration.hold_update(
            self._cluster.store, kind.bucket, request, target, version
        )
        key = key_of(target.name, target.namespace or "")
        stored = await run_write(
            self._cluster,
            lambda: self._cluster.update(kind, obj, subresource=target.subresource, caller=caller),
            retry=True,
            size=request.write_size(self._cluster.store.get(kind.bucket, key)),
        )
        return await object_response(request, kind, await to_requested_version(kind, stored))

    async def _connect(
        self, request: ApiRequest, kind: Kind, target: RequestInfo
    ) -> web.StreamResponse:
        # Streams are not needed to start a cluster.
        if target.subresource in ("attach", "exec"):
            from pytest_kwait.simulator.apiserver.subresources.streaming import serve_remote_command

            return await serve_remote_command(self._cluster, request, target)
        if target.subresource == "portforward":
            from pytest_kwait.simulator.apiserver.subresources.streaming import serve_port_forward

            return await serve_port_forward(self._cluster, request, target)
        if kind.bucket == "nodes":
            from pytest_kwait.simulator.apiserver.subresources.proxy import serve_node_proxy

            return await serve_node_proxy(self._cluster, request, target)
        from pytest_kwait.simulator.apiserver.subresources.proxy import (
            serve_pod_proxy,
            serve_service_proxy,
        )

        serve = serve_pod_proxy if kind.bucket == "pods" else serve_service_proxy
        return await serve(self._cluster, request, target)

    async def _create(self, request: ApiRequest, kind: Kind, target: RequestInfo) -> web.Response:
        match target.subresource:
            case "binding":
                return await serve_binding(self._cluster, request, target)
            case "eviction":
                return await serve_eviction(self._cluster, request, target)
            case "token":
                obj = await read_object(request, kind, any_kind=True)
                check_subresource_kind(self._cluster, obj, TOKEN_REQUESTS)
                return json_response(request, await self._token(request, target, obj), 201)
        raise method_not_allowed()

    async def _token(self, request: ApiRequest, target: RequestInfo, attributes: Obj) -> Obj:
        caller = request.read_write_options()
        namespace = target.namespace or ""
        clean = self._cluster.decode(TOKEN_REQUESTS, attributes, caller)
        account = self._cluster.get("serviceaccounts", target.name, namespace)
        clean["metadata"].setdefault("name", target.name)
        clean["metadata"].setdefault("namespace", namespace)

        def issue() -> Obj:
            attributes = Attributes(
                "CREATE",
                self._cluster.kinds["serviceaccounts"],
                namespace,
                target.name,
                clone(clean),
                None,
                "token",
                caller,
                subresource_kind=TOKEN_REQUESTS,
            )
            self._cluster.admission.admit_subresource(attributes)
            self._cluster.admission.validate_subresource(attributes)
            return self._cluster.accounts.issue(account, attributes.obj or clean)

        clean.setdefault("spec", {}).setdefault("expirationSeconds", TOKEN_SECONDS)
        record_update(TOKEN_REQUESTS, clean, None, caller, self._cluster.clock.stamp(), "token")
        issued = await run_write(self._cluster, issue)
        copy_fields(issued["metadata"], clean["metadata"], "managedFields")
        return issued
