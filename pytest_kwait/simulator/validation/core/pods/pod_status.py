"""What may be said of a pod.

Source: pkg/apis/core/validation/validation.go, ValidatePodStatusUpdate, validatePodConditions,
validatePodIPs, validateHostIPs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.formats import dns_subdomain_texts, ip_texts, label_key_texts

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_pod_status_update"]

_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_NOT_NEGATIVE = "must be a non-negative integer"
_ONE_IP_PER_FAMILY = "may specify no more than one IP for each IP family"


def validate_pod_status_update(new: Obj, old: Obj, found: ErrorList) -> None:
    """A pod's status, beside what it was."""
    status, before = new.get("status") or {}, old.get("status") or {}
    for index, condition in enumerate(status.get("conditions") or ()):
        generation, kind = condition.get("observedGeneration", 0), condition.get("type", "")
        if generation < 0:
            here = f"status.conditions[{index}].observedGeneration"
            found.invalid(here, generation, _NOT_NEGATIVE)
        if kind not in _SYSTEM_CONDITIONS:
            found.texts(f"status.conditions[{index}].Type", kind, label_key_texts(kind))
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName"):
        here = "status.nominatedNodeName"
        found.texts(here, nominated, dns_subdomain_texts(nominated))
    if status.get("observedGeneration", 0) < 0:
        found.invalid("status.observedGeneration", status["observedGeneration"], _NOT_NEGATIVE)
    quality = status.get("qosClass", "")
    if quality != before.get("qosClass", ""):
        found.invalid("status.qosClass", quality, "field is immutable")
    _validate_pod_ips(status, before, "podIPs", found)
    hosts = status.get("hostIPs") or []
    if hosts and hosts[0].get("ip") != status.get("hostIP"):
        text = "must be equal to `hostIP`"
        found.invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), text)
    _validate_pod_ips(status, before, "hostIPs", found)


def _validate_pod_ips(status: Obj, before: Obj, field: str, found: ErrorList) -> None:
    addresses = [one.get("ip", "") for one in status.get(field) or ()]
    known = [one.get("ip", "") for one in before.get(field) or ()]
    if addresses == known:
        return
    for index, address in enumerate(addresses):
        if address not in known:
            found.texts(f"status.{field}[{index}]", address, ip_texts(address))
    if len(addresses) > 1:
        families = {":" in address for address in addresses}
        if len(addresses) > len(families):
            shown = [{"IP": address} for address in addresses]
            found.invalid(f"status.{field}", shown, _ONE_IP_PER_FAMILY)
