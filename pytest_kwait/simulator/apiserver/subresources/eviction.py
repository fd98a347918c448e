"""`eviction`: delete a pod if its disruption budget allows it.

Source: k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.labels import matches_label_selector
from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.api_errors import bad_request, invalid, invalid_value
from pytest_kwait.simulator.apiserver.request_bodies import (
    CREATED_STATUS,
    EVICTION_KIND,
    read_subresource_object,
)
from pytest_kwait.simulator.apiserver.responses import json_response
from pytest_kwait.simulator.apiserver.suspended_writes import run_write
from pytest_kwait.simulator.objects import labels_of, name_of
from pytest_kwait.simulator.registry.subresources import (
    EVICTION_SUCCESS,
    can_ignore_budgets,
    decrement_budget,
    find_disruption_budget,
)

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["serve_eviction"]

_BUDGETS = "poddisruptionbudgets.policy"
_UNSAFE_DELETE_OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"


async def serve_eviction(api: Cluster, request: ApiRequest, target: RequestInfo) -> web.Response:
    """Evict a pod.

    Raises:
        StatusError: 429 if the budget allows no disruption, 404 without the pod, 400 or 422 for an
            invalid eviction.
    """
    caller, namespace = request.read_write_options(), target.namespace or ""
    eviction = await read_subresource_object(api, request, EVICTION_KIND, namespace, caller)
    pods = api.kinds["pods"]

    def evict() -> None:
        attributes = Attributes(
            "CREATE", pods, namespace, target.name, eviction, None, "eviction", caller,
            subresource_kind=EVICTION_KIND,
        )  # fmt: skip
        api.admission.admit_subresource(attributes)
        admitted = attributes.obj or eviction
        options = _delete_options(target.name, admitted, dry_run=caller.dry_run)
        api.admission.validate_subresource(attributes)
        _evict(api, api.get("pods", target.name, namespace), options)

    await run_write(api, evict)
    return json_response(request, CREATED_STATUS, 201)


def _delete_options(name: str, eviction: Obj, *, dry_run: bool) -> Obj:
    """Return the options of the pod's deletion.

    Raises:
        StatusError: 400 for the eviction of another pod, 422 for invalid options.
    """
    if name_of(eviction) != name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = dict(eviction.get("deleteOptions") or {})
    if options.get(_UNSAFE_DELETE_OPTION):
        why = "can not be set for pod eviction, try after removing the option"
        error = invalid_value(f"deleteOptions.{_UNSAFE_DELETE_OPTION}", True, why)
        raise invalid("policy", "Eviction", name, [error])
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _evict(api: Cluster, pod: Obj, options: Obj) -> None:
    name, namespace = name_of(pod), pod["metadata"]["namespace"]
    dry_run = bool(options.get("dryRun"))
    if not can_ignore_budgets(pod):
        guards = [
            budget
            for budget in api.list(_BUDGETS, namespace)
            if matches_label_selector(budget["spec"].get("selector"), labels_of(pod))
        ]
        budget = find_disruption_budget(pod, guards)
        if budget is not None and not dry_run:
            status = decrement_budget(budget, name, api.clock.stamp())
            api.modify(
                _BUDGETS,
                name_of(budget),
                namespace,
                lambda one: one.update(status=status),
                subresource="status",
            )
    admitted = options.get("preconditions") or {}
    if not dry_run and all(
        value == pod["metadata"][field] for field, value in admitted.items() if value
    ):
        marked = api.modify(
            "pods",
            name,
            namespace,
            lambda one: _set_disruption_target(one, api.clock.stamp()),
            subresource="status",
        )
        if admitted.get("resourceVersion"):
            version = marked["metadata"]["resourceVersion"]
            options = {**options, "preconditions": {**admitted, "resourceVersion": version}}
    api.delete_admitted("pods", name, namespace, options=options, dry_run=dry_run)


def _set_disruption_target(pod: Obj, stamp: str) -> None:
    """Add the DisruptionTarget condition."""
    status = pod.setdefault("status", {})
    conditions = list(status.get("conditions") or ())
    before = next((one for one in conditions if one["type"] == EVICTION_SUCCESS["type"]), None)
    since = stamp
    if before is not None and before["status"] == EVICTION_SUCCESS["status"]:
        since = before.get("lastTransitionTime", stamp)
    condition = {"lastProbeTime": None, "lastTransitionTime": since, **EVICTION_SUCCESS}
    others = [one for one in conditions if one is not before]
    status["conditions"] = [*others, condition]
