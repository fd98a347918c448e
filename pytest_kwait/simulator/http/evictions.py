"""Evicting pods: a deletion that disruption budgets may refuse.

Source: k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.admission.webhook_calls import consulted
from pytest_kwait.simulator.evictions import EVICTED, budget_to_spend, is_unguarded, spent
from pytest_kwait.simulator.http.answer import json_answer
from pytest_kwait.simulator.http.contents import CREATED, EVICTIONS, read_content
from pytest_kwait.simulator.objects import labels_of, name_of
from pytest_kwait.simulator.selectors import matches
from pytest_kwait.simulator.status_error import bad_request, invalid, invalid_value

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.http.request import ApiRequest, Target
    from pytest_kwait.simulator.objects import Obj

__all__ = ["serve_eviction"]

_BUDGETS = "poddisruptionbudgets.policy"
_BREAKING = "ignoreStoreReadErrorWithClusterBreakingPotential"


async def serve_eviction(api: ClusterApi, request: ApiRequest, target: Target) -> web.Response:
    """Evict a pod.

    Raises:
        StatusError: 429 where its budget allows no disruption, 404 without the pod, 400 or 422
            for what is no eviction of it.
    """
    caller, namespace = request.writer(), target.namespace or ""
    eviction = await read_content(api, request, EVICTIONS, namespace, caller)
    pods = api.kinds["pods"]

    def evict() -> None:
        asked = Attributes(
            "CREATE", pods, namespace, target.name, eviction, None, "eviction", caller,
            content=EVICTIONS,
        )  # fmt: skip
        api.admission.admit_content(asked)
        wanted = asked.obj or eviction
        options = _options(target.name, wanted, dry_run=caller.dry_run)
        api.admission.validate_content(asked)
        _evict(api, api.get("pods", target.name, namespace), options)

    await consulted(caller, evict)
    return json_answer(request, CREATED, 201)


def _options(name: str, eviction: Obj, *, dry_run: bool) -> Obj:
    """How the pod is to be deleted.

    Raises:
        StatusError: 400 for the eviction of another pod, 422 for options that it cannot have.
    """
    if name_of(eviction) != name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = dict(eviction.get("deleteOptions") or {})
    if options.get(_BREAKING):
        why = "can not be set for pod eviction, try after removing the option"
        error = invalid_value(f"deleteOptions.{_BREAKING}", True, why)
        raise invalid("policy", "Eviction", name, [error])
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _evict(api: ClusterApi, pod: Obj, options: Obj) -> None:
    name, namespace = name_of(pod), pod["metadata"]["namespace"]
    dry_run = bool(options.get("dryRun"))
    if not is_unguarded(pod):
        guards = [
            budget
            for budget in api.list(_BUDGETS, namespace)
            if matches(budget["spec"].get("selector"), labels_of(pod))
        ]
        budget = budget_to_spend(pod, guards)
        if budget is not None and not dry_run:
            status = spent(budget, name, api.clock.stamp())
            api.modify(
                _BUDGETS,
                name_of(budget),
                namespace,
                lambda one: one.update(status=status),
                subresource="status",
            )
    wanted = options.get("preconditions") or {}
    if not dry_run and all(
        value == pod["metadata"][field] for field, value in wanted.items() if value
    ):
        marked = api.modify(
            "pods", name, namespace, lambda one: _mark(one, api.clock.stamp()), subresource="status"
        )
        if wanted.get("resourceVersion"):
            version = marked["metadata"]["resourceVersion"]
            options = {**options, "preconditions": {**wanted, "resourceVersion": version}}
    api.delete_admitted("pods", name, namespace, options=options, dry_run=dry_run)


def _mark(pod: Obj, stamp: str) -> None:
    """Say in its conditions that the pod is evicted."""
    status = pod.setdefault("status", {})
    conditions = list(status.get("conditions") or ())
    before = next((one for one in conditions if one["type"] == EVICTED["type"]), None)
    since = stamp
    if before is not None and before["status"] == EVICTED["status"]:
        since = before.get("lastTransitionTime", stamp)
    condition = {"lastProbeTime": None, "lastTransitionTime": since, **EVICTED}
    others = [one for one in conditions if one is not before]
    status["conditions"] = [*others, condition]
