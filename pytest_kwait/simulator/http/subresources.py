"""What is served beneath objects: status, scale, binding, eviction, logs, streams, proxies.

Source: k8s.io/kubernetes pkg/registry/core/pod/rest, pkg/registry/core/pod/storage,
pkg/registry/apps/*/storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.webhook_calls import consulted
from pytest_kwait.simulator.authentication.service_accounts import TOKEN_REQUESTS
from pytest_kwait.simulator.http.answer import json_answer, object_answer, stored_answer
from pytest_kwait.simulator.http.bodies import read_body, read_object
from pytest_kwait.simulator.http.logs import serve_logs
from pytest_kwait.simulator.http.node_proxy import serve_node_proxy
from pytest_kwait.simulator.http.patching import patch_object, patched, read_patch_form
from pytest_kwait.simulator.http.pod_streams import serve_exec
from pytest_kwait.simulator.objects import labels_of, name_of
from pytest_kwait.simulator.ownership import record_update
from pytest_kwait.simulator.scales import read_scale, write_scale
from pytest_kwait.simulator.selectors import matches
from pytest_kwait.simulator.status_error import (
    StatusError,
    bad_request,
    method_not_allowed,
    too_many_requests,
)

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.http.request import ApiRequest, Target
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind

__all__ = ["SubResources"]

_CREATED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}
_NO_PORTS = "containers of the embedded cluster listen on no ports: there is nothing to connect to"
_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


class SubResources:
    """The handlers, over one cluster.

    Args:
        api: the cluster.
    """

    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    async def handle(self, request: ApiRequest, kind: Kind, target: Target) -> web.StreamResponse:
        """The answer.

        Raises:
            StatusError: the request is refused.
        """
        match target.subresource:
            case "log":
                return await serve_logs(self._api, request, target)
            case "exec" | "attach":
                return await serve_exec(self._api, request, target)
            case "portforward" | "proxy" if kind.bucket in ("pods", "services"):
                raise bad_request(_NO_PORTS)
            case "proxy" if kind.bucket == "nodes":
                return serve_node_proxy(self._api, request, target)
        method = request.method
        verbs = kind.subresources[target.subresource].verbs
        verb = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, "")
        if verb not in verbs:
            raise method_not_allowed()
        if verb == "create":
            return await self._create(request, kind, target)
        if target.subresource == "scale":
            return await self._scale(request, kind, target, verb)
        if verb == "get":
            entry = self._api.entry(kind, target.name, target.namespace or "")
            return stored_answer(request, kind, entry)
        if verb == "patch":
            return await patch_object(self._api, request, kind, target)
        caller = request.writer()
        obj = await read_object(request, kind)
        metadata = obj.setdefault("metadata", {})
        if metadata.setdefault("name", target.name) != target.name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL "
                f"({target.name})"
            )
        if target.namespace:
            metadata.setdefault("namespace", target.namespace)
        stored = await consulted(
            caller,
            lambda: self._api.update(kind, obj, subresource=target.subresource, caller=caller),
        )
        return object_answer(request, kind, stored)

    def bind(self, request: ApiRequest, target: Target, pod: str, binding: Obj) -> web.Response:
        """Serve the assignment of a pod to a node.

        Raises:
            StatusError: 404 or 409, it cannot be assigned.
        """
        node = (binding.get("target") or {}).get("name", "")
        if not node:
            raise bad_request("target.name: Required value")
        self._api.bind(target.namespace or "", pod, node)
        return json_answer(request, _CREATED, 201)

    async def _create(self, request: ApiRequest, kind: Kind, target: Target) -> web.Response:
        obj = await read_object(request, kind, any_kind=True)
        match target.subresource:
            case "binding":
                return self.bind(request, target, target.name, obj)
            case "eviction":
                return await self._evict(request, target, obj)
            case "token":
                return json_answer(request, self._token(request, target, obj), 201)
        raise method_not_allowed()

    def _token(self, request: ApiRequest, target: Target, asked: Obj) -> Obj:
        caller = request.writer()
        clean = self._api.decode(TOKEN_REQUESTS, asked, caller)
        account = self._api.get("serviceaccounts", target.name, target.namespace or "")
        issued = self._api.accounts.issue(account, clean)
        stamp = self._api.clock.stamp()
        record_update(TOKEN_REQUESTS, issued, None, caller, stamp, "token")
        return issued

    async def _evict(self, request: ApiRequest, target: Target, eviction: Obj) -> web.Response:
        namespace = target.namespace or ""
        pod = self._api.get("pods", target.name, namespace)
        if name_of(eviction) not in ("", target.name):
            raise bad_request(
                f"name in URL does not match name in Eviction object: {target.name} vs "
                f"{name_of(eviction)}"
            )
        options = dict(eviction.get("deleteOptions") or {})
        caller = request.writer()
        ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed", "Pending")
        if not ended and not pod["metadata"].get("deletionTimestamp"):
            self._spend_budget(pod, dry_run=caller.dry_run)
        await consulted(
            caller,
            lambda: self._api.delete(
                "pods", target.name, namespace, options=options, caller=caller
            ),
        )
        return json_answer(request, _CREATED, 201)

    def _spend_budget(self, pod: Obj, *, dry_run: bool) -> None:
        namespace = pod["metadata"]["namespace"]
        budgets = [
            budget
            for budget in self._api.list("poddisruptionbudgets.policy", namespace)
            if matches(budget["spec"].get("selector"), labels_of(pod))
        ]
        if len(budgets) > 1:
            raise StatusError(
                500,
                "InternalError",
                "Internal error occurred: This pod has more than one PodDisruptionBudget, which "
                "the eviction subresource does not support.",
            )
        for budget in budgets:
            name, status = name_of(budget), budget.get("status", {})
            allowed = status.get("disruptionsAllowed", 0)
            if allowed <= 0:
                healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
                text = (
                    f"The disruption budget {name} needs {desired} healthy pods and has {healthy} "
                    "currently"
                )
                cause = {"reason": "DisruptionBudget", "message": text}
                raise too_many_requests(_BUDGET, [cause])
            if not dry_run:
                self._api.modify(
                    "poddisruptionbudgets.policy", name, namespace, _spend, subresource="status"
                )

    async def _scale(
        self, request: ApiRequest, kind: Kind, target: Target, verb: str
    ) -> web.Response:
        entry = self._api.entry(kind, target.name, target.namespace or "")
        scale = read_scale(kind, entry.obj)
        if verb == "get":
            return json_answer(request, scale)
        caller = request.writer()
        if verb == "patch":
            media = read_patch_form(request, kind)
            wanted = patched(media, scale, await read_body(request), kind)
        else:
            wanted = await read_object(request, kind, any_kind=True)
        changed = write_scale(kind, entry.obj, wanted)
        stored = self._api.replace(kind, entry, changed, "scale", caller)
        return json_answer(request, read_scale(kind, stored))


def _spend(budget: Obj) -> None:
    budget["status"]["disruptionsAllowed"] -= 1
