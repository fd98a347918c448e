"""ResourceQuota: refuse what exceeds a quota of the namespace.

Source: k8s.io/apiserver pkg/admission/plugin/resourcequota/controller.go, `CheckRequest`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.pod_resources import (
    ResourceList,
    add_resources,
    parse_resource_list,
)
from pytest_kwait.simulator.admission.quota_evaluator import (
    IGNORED_RESOURCES,
    is_counted_change,
    is_in_scopes,
    matching_resource_names,
    missing_resources,
    object_usage,
)
from pytest_kwait.simulator.objects import name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kwait.apimachinery.quantities import Quantity
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["ResourceQuota"]


class ResourceQuota(AdmissionPlugin):
    """The ResourceQuota plugin."""

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._quotas = api.store.present("resourcequotas")

    def validate(self, attributes: Attributes) -> None:
        """Charge the request to every quota, or deny it.

        Usage is written together with the object, so denied requests charge nothing.

        Raises:
            StatusError: 403, a quota is exceeded or the pod lacks requests or limits.
        """
        kind = attributes.kind
        if (
            not kind.namespaced
            or attributes.operation == "DELETE"
            or kind.bucket in IGNORED_RESOURCES
        ):
            return
        if not self._quotas or attributes.obj is None:
            return
        quotas = self._api.list("resourcequotas", attributes.namespace)
        if not quotas or not is_counted_change(attributes):
            return
        self._check(attributes, attributes.obj, quotas)

    def _check(self, attributes: Attributes, obj: Obj, quotas: Iterable[Obj]) -> None:
        resource, now = attributes.kind.bucket, self._api.clock.time()
        chosen = [
            (quota, names)
            for quota in quotas
            if (names := matching_resource_names(resource, quota.get("status", {}).get("hard", ())))
            and is_in_scopes(quota["spec"], resource, obj)
        ]
        for quota, names in chosen:
            why = missing_resources(resource, obj, names)
            if why:
                raise attributes.forbidden(f"failed quota: {name_of(quota)}: {why}")
            used = quota["status"].get("used", {})
            if any(name not in used for name in names):
                raise attributes.forbidden(
                    f"status unknown for quota: {name_of(quota)}, resources: {','.join(names)}"
                )
        if not chosen:
            return
        taken = object_usage(resource, obj, now)
        negative = sorted(name for name, amount in taken.items() if amount.amount < 0)
        if negative:
            raise attributes.forbidden(
                f"quota usage is negative for resource(s): {','.join(negative)}"
            )
        before = object_usage(resource, attributes.old, now) if attributes.old is not None else {}
        for quota, names in chosen:
            more = taken
            if attributes.old is not None and is_in_scopes(quota["spec"], resource, attributes.old):
                more = _usage_increase(taken, before)
            more = {name: more[name] for name in names if name in more and more[name].amount}
            if more:
                self._charge(attributes, quota, more)

    def _charge(self, attributes: Attributes, quota: Obj, more: ResourceList) -> None:
        used, hard = (
            parse_resource_list(quota["status"]["used"]),
            parse_resource_list(quota["status"]["hard"]),
        )
        wanted = dict(used)
        add_resources(wanted, more)
        exceeded = sorted(name for name in more if wanted[name] > hard[name])
        if exceeded and attributes.subresource != "status":
            raise attributes.forbidden(
                f"exceeded quota: {name_of(quota)}, "
                f"requested: {_format_resources(more, exceeded)}, "
                f"used: {_format_resources(used, exceeded)}, "
                f"limited: {_format_resources(hard, exceeded)}"
            )
        attributes.on_store.append(lambda: self._record_usage(quota, more))

    def _record_usage(self, quota: Obj, more: ResourceList) -> None:
        def take(changed: Obj) -> None:
            used = parse_resource_list(changed["status"].get("used"))
            add_resources(used, more)
            changed["status"]["used"] = {name: str(amount) for name, amount in used.items()}

        name, namespace = name_of(quota), namespace_of(quota)
        if self._api.find("resourcequotas", name, namespace) is not None:
            self._api.modify("resourcequotas", name, namespace, take, subresource="status")


def _usage_increase(taken: ResourceList, before: ResourceList) -> ResourceList:
    """Return the increase of usage, at least zero."""
    return {
        name: amount - before[name] if name in before else amount
        for name, amount in taken.items()
        if name not in before or amount > before[name]
    }


def _format_resources(listed: Mapping[str, Quantity], names: Iterable[str]) -> str:
    return ",".join(f"{name}={listed[name]}" for name in names)
