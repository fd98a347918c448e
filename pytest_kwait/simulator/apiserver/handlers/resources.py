"""Requests on resources: get, list, watch, create, update, patch, delete.

Source: k8s.io/apiserver pkg/endpoints/handlers, pkg/endpoints/installer.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import (
    StatusError,
    bad_request,
    method_not_allowed,
    not_found,
    resource_not_found,
    verb_not_supported,
)
from pytest_kwait.simulator.apiserver.filters import check_timeout, explore_update
from pytest_kwait.simulator.apiserver.handlers.component_status import (
    COMPONENT_STATUSES,
    get_component_status,
    list_component_statuses,
)
from pytest_kwait.simulator.apiserver.handlers.listing import (
    find_page,
    parse_revision,
    read_list_options,
    wait_for_revision,
)
from pytest_kwait.simulator.apiserver.handlers.patch import patch_object
from pytest_kwait.simulator.apiserver.handlers.reviews import ReviewHandler
from pytest_kwait.simulator.apiserver.handlers.watch import serve_watch
from pytest_kwait.simulator.apiserver.request import PRODUCED, STREAMED, check_produced
from pytest_kwait.simulator.apiserver.request_bodies import (
    check_object_name,
    read_delete_options,
    read_object,
)
from pytest_kwait.simulator.apiserver.responses import (
    entry_to_requested_version,
    json_response,
    list_response,
    object_response,
    stored_object_response,
    to_requested_version,
)
from pytest_kwait.simulator.apiserver.subresources.handler import serve_binding
from pytest_kwait.simulator.apiserver.tables import check_table_options
from pytest_kwait.simulator.registry.generic_store import delete_collection, run_write
from pytest_kwait.simulator.store import key_of

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.apiserver.filters import AuthFilters
    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.apiserver.subresources.handler import SubresourceHandler
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_DEPRECATION_WARNINGS = {
    COMPONENT_STATUSES: "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
}


class ResourceHandler:
    """Serves the requests on resources.

    Args:
        gate: the authentication, for token reviews.
    """

    def __init__(
        self, cluster: ApiServerCluster, subresources: SubresourceHandler, gate: AuthFilters
    ) -> None:
        self._cluster = cluster
        self._subresources = subresources
        self._reviews = ReviewHandler(cluster, gate)

    async def handle(self, request: ApiRequest, target: RequestInfo) -> web.StreamResponse | None:
        """Serve a request; None if the path is unknown.

        Raises:
            StatusError: the request is rejected.
        """
        served = self._cluster.kinds.served(target.group, target.version)
        if served is None:
            if self._cluster.kinds.built_in(target.group):
                raise resource_not_found()
            return None
        kind = served.get(target.resource)
        if not self._cluster.kinds.built_in(target.group):
            if kind is None or not _is_in_scope(request, kind, target):
                return None
            if target.rest or (target.subresource and target.subresource not in kind.subresources):
                raise not_found(kind.group, kind.plural, target.name)
        if kind is None or (target.subresource and target.subresource not in kind.subresources):
            raise resource_not_found()
        if target.rest and target.subresource != "proxy":
            raise resource_not_found()
        if "timeout" in request.query:
            check_timeout(request)
        if target.subresource:
            return await self._subresources.handle(request, kind, target)
        verb = _request_verb(request, kind, target)
        if kind.bucket in _DEPRECATION_WARNINGS:
            request.caller.warn(_DEPRECATION_WARNINGS[kind.bucket])
        if kind.structure is not None and kind.structure.deprecation:
            request.caller.warn(kind.structure.deprecation)
        produced = STREAMED if verb in ("list", "watch") else PRODUCED
        check_produced(request.header("Accept"), produced)
        return await self._verb(request, kind, target, verb)

    async def _verb(
        self, request: ApiRequest, kind: Kind, target: RequestInfo, verb: str
    ) -> web.StreamResponse:
        match verb:
            case "get":
                return await self._get(request, kind, target)
            case "list" | "watch":
                return await self._list(request, kind, target)
            case "create":
                return await self._create(request, kind, target)
            case "update":
                return await self._update(request, kind, target)
            case "patch":
                return await patch_object(self._cluster, request, kind, target)
            case "delete":
                return await self._delete(request, kind, target)
            case _:
                return await self._delete_collection(request, kind, target)

    async def _get(self, request: ApiRequest, kind: Kind, target: RequestInfo) -> web.Response:
        if request.form.convert == "Table":
            check_table_options(request.query)
        if request.query:
            await self._check_get(request)
        if kind.bucket == COMPONENT_STATUSES:
            return await object_response(request, kind, get_component_status(target.name))
        entry = self._cluster.entry(kind, target.name, target.namespace or "")
        return await stored_object_response(
            request, kind, await entry_to_requested_version(kind, entry)
        )

    async def _check_get(self, request: ApiRequest) -> None:
        """Check the query of a GET of one object.

        Raises:
            StatusError: 400, 500 or 504, the resource version is invalid or in the future.
        """
        if request.query.get("export", "").lower() in ("1", "t", "true"):
            raise bad_request(
                "the export parameter, deprecated since v1.14, is no longer supported"
            )
        try:
            revision = parse_revision(request.query.get("resourceVersion", ""))
        except ValueError as error:
            raise StatusError(500, "", str(error)) from None
        await wait_for_revision(self._cluster, revision)

    async def _list(
        self, request: ApiRequest, kind: Kind, target: RequestInfo
    ) -> web.StreamResponse:
        # An unacceptable Accept header is rejected first.
        if request.form.convert == "Table":
            check_table_options(request.query)
        options = await read_list_options(request, kind, name=target.name, watch=target.watch)
        if options.watch:
            if "watch" not in kind.verbs:
                raise verb_not_supported(kind.group, kind.plural, "watch")
            return await serve_watch(self._cluster, request, kind, target.namespace, options)
        if kind.bucket == COMPONENT_STATUSES:
            return await list_response(request, kind, list_component_statuses(options), {})
        page = await find_page(self._cluster, request, kind, target.namespace, options)
        return await list_response(request, kind, page.entries, page.metadata)

    async def _create(self, request: ApiRequest, kind: Kind, target: RequestInfo) -> web.Response:
        _ = request.form
        caller = request.read_write_options()
        if kind.bucket == "bindings":
            return await serve_binding(self._cluster, request, target)
        obj = await read_object(request, kind)
        if "get" not in kind.verbs:
            answer = self._reviews.review(request, kind, obj, target.namespace or "")
            return json_response(request, answer, 201)
        stored = await run_write(
            self._cluster,
            lambda: self._cluster.create(kind, obj, target.namespace or "", caller=caller),
            size=request.body_size,
        )
        return await object_response(request, kind, await to_requested_version(kind, stored), 201)

    async def _update(self, request: ApiRequest, kind: Kind, target: RequestInfo) -> web.Response:
        _ = request.form
        caller = request.read_write_options()
        obj = await read_object(request, kind)
        check_object_name(obj, target.name, target.namespace or "")
        version = obj["metadata"].get("resourceVersion")
        await explore_update(self._cluster, request, kind, target, version)
        key = key_of(target.name, target.namespace or "")
        strategy = self._cluster.strategy(kind)
        entry = self._cluster.store.get(kind.bucket, key)
        if strategy.allows_create_on_update and entry is None:
            stored = await run_write(
                self._cluster,
                lambda: self._cluster.create(kind, obj, target.namespace or "", caller=caller),
                size=request.body_size,
            )
            return await object_response(
                request, kind, await to_requested_version(kind, stored), 201
            )
        stored = await run_write(
            self._cluster,
            lambda: self._cluster.update(kind, obj, caller=caller),
            retry=True,
            size=request.write_size(entry),
        )
        return await object_response(request, kind, await to_requested_version(kind, stored))

    async def _delete(self, request: ApiRequest, kind: Kind, target: RequestInfo) -> web.Response:
        _ = request.form
        options = await read_delete_options(request)
        caller = request.caller
        key = key_of(target.name, target.namespace or "")
        outcome = await run_write(
            self._cluster,
            lambda: self._cluster.delete(
                kind, target.name, target.namespace or "", options=options, caller=caller
            ),
            size=request.write_size(self._cluster.store.get(kind.bucket, key)),
        )
        is_pending = options.get("orphanDependents") is False and _is_deletion_pending(outcome)
        return await object_response(
            request, kind, await to_requested_version(kind, outcome), 202 if is_pending else 200
        )

    async def _delete_collection(
        self, request: ApiRequest, kind: Kind, target: RequestInfo
    ) -> web.Response:
        _ = request.form
        options = await read_delete_options(request)
        chosen = await read_list_options(request, kind)
        page = await find_page(self._cluster, request, kind, target.namespace, chosen)
        await delete_collection(
            self._cluster,
            kind,
            page.entries,
            options,
            request.caller,
            write_size=request.write_size,
        )
        return await list_response(request, kind, page.entries, page.metadata)


def _is_deletion_pending(outcome: Obj) -> bool:
    """Return whether a deletion left the object in place for now."""
    metadata = outcome.get("metadata", {})
    return "deletionTimestamp" in metadata and bool(
        metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    )


def _is_in_scope(request: ApiRequest, kind: Kind, target: RequestInfo) -> bool:
    """Return whether a path is in a custom kind's scope; across namespaces only lists are.

    Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go, func ServeHTTP.
    """
    if target.namespace is not None or not kind.namespaced:
        return kind.namespaced is (target.namespace is not None)
    return target.watch or (request.method == "GET" and not target.name)


def _request_verb(request: ApiRequest, kind: Kind, target: RequestInfo) -> str:
    """Return the verb of a request.

    Raises:
        StatusError: 404 for an unknown route, 405 for an unsupported method.
    """
    method, named = request.method, bool(target.name)
    if kind.namespaced is (target.namespace is None) and (
        named or not kind.namespaced or not ({"list", "create"} & set(kind.verbs))
    ):
        raise resource_not_found()
    if named and "get" not in kind.verbs:
        raise resource_not_found()
    if target.watch:
        if "watch" not in kind.verbs:
            raise resource_not_found()
        if method != "GET":
            raise method_not_allowed()
        return "watch"
    everywhere = kind.namespaced and target.namespace is None
    if method == "GET":
        verb = "get" if named else "list"
    elif method == "DELETE":
        verb = "delete" if named else "deletecollection"
    else:
        verb = _VERBS.get(method, "")
    # A name in the path is ignored when a custom object is created.
    misplaced = method == "POST" and named and not kind.custom
    misplaced = misplaced or (method in ("PUT", "PATCH") and not named)
    if everywhere and method != "GET" and "get" in kind.verbs:
        misplaced = True
    if misplaced or verb not in kind.verbs:
        if kind.custom and misplaced and method in ("PUT", "PATCH"):
            raise bad_request("name must be provided")
        raise method_not_allowed()
    return verb
