"""The plugin LimitRanger: defaults and bounds of pods and claims, from LimitRanges.

Source: k8s.io/kubernetes plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import Quantity
from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.pod_resources import (
    ResourceList,
    parse_resource_list,
    total_pod_resources,
)
from pytest_kwait.simulator.suspendable import beside_loop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

_ANNOTATION = "kubernetes.io/limit-ranger"
_MAX_MILLI = (2**63 - 1) // 1000
"""The largest amount that is compared in thousandths."""

_ZERO = Quantity(Fraction(0))


class LimitRanger(AdmissionPlugin):
    """The LimitRanger plugin."""

    buckets = frozenset({"pods", "persistentvolumeclaims"})

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ranges = cluster.store.present("limitranges")

    def admit(self, attributes: Attributes) -> None:
        """Set the default requests and limits of a pod's containers, and annotate the pod."""
        pod = attributes.obj
        if attributes.kind.bucket != "pods" or pod is None:
            return
        if ranges := [*self._limits(attributes)]:
            with beside_loop():
                for limits in ranges:
                    _apply_defaults(pod, limits)

    def validate(self, attributes: Attributes) -> None:
        """Deny resources beyond a limit range.

        Raises:
            StatusError: 403, with all violations of one limit range.
        """
        obj = attributes.obj
        if obj is None:
            return
        find = _pod_violations if attributes.kind.bucket == "pods" else _claim_violations
        for limits in [*self._limits(attributes)]:
            with beside_loop():
                violations = [text for limit in limits for text in find(limit, obj)]
            texts = list(dict.fromkeys(violations))
            if texts:
                text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
                raise attributes.forbidden(text)

    def _limits(self, attributes: Attributes) -> Iterator[list[Obj]]:
        """Yield the limits of each limit range that applies to the request."""
        if not self._ranges or not _is_limited(attributes):
            return
        for limit_range in self._cluster.list("limitranges", attributes.namespace):
            yield limit_range.get("spec", {}).get("limits", [])


def _is_limited(attributes: Attributes) -> bool:
    old = attributes.old
    if attributes.operation == "DELETE" or (old and "deletionTimestamp" in old["metadata"]):
        return False
    if attributes.kind.bucket == "pods":
        change = attributes.operation == "UPDATE"
        return attributes.subresource == ("resize" if change else "")
    return attributes.kind.bucket == "persistentvolumeclaims" and not attributes.subresource


def _apply_defaults(pod: Obj, limits: Iterable[Obj]) -> None:
    defaults: dict[str, dict[str, str]] = {"limits": {}, "requests": {}}
    for limit in limits:
        if limit.get("type") == "Container":
            defaults["limits"].update(limit.get("default", {}))
            defaults["requests"].update(limit.get("defaultRequest", {}))
    notes: list[str] = []
    for field, container_noun in (
        ("containers", "container"),
        ("initContainers", "init container"),
    ):
        for container in pod["spec"].get(field, ()):
            resources = dict(container.get("resources", {}))
            for part, word in (("requests", "request"), ("limits", "limit")):
                amounts, usual = resources.get(part, {}), defaults[part]
                missing = {name: usual[name] for name in usual if name not in amounts}
                if missing:
                    resources[part] = {**amounts, **missing}
                    names = ", ".join(sorted(missing))
                    notes.append(f"{names} {word} for {container_noun} {container.get('name', '')}")
            container["resources"] = resources
    if notes:
        annotations = pod["metadata"].get("annotations", {})
        note = f"LimitRanger plugin set: {'; '.join(notes)}"
        pod["metadata"]["annotations"] = {**annotations, _ANNOTATION: note}


def _pod_violations(limit: Obj, pod: Obj) -> Iterator[str]:
    spec, kind = pod["spec"], limit.get("type", "")
    if kind == "Container":
        for field in ("containers", "initContainers"):
            for container in spec.get(field, ()):
                resources = container.get("resources", {})
                requests = parse_resource_list(resources.get("requests"))
                yield from _violations(
                    limit, requests, parse_resource_list(resources.get("limits"))
                )
    elif kind == "Pod":
        requests = total_pod_resources(spec, "requests", overhead=False)
        yield from _violations(limit, requests, total_pod_resources(spec, "limits", overhead=False))


def _claim_violations(limit: Obj, claim: Obj) -> Iterator[str]:
    kind = limit.get("type", "")
    if kind != "PersistentVolumeClaim":
        return
    requests = parse_resource_list(claim["spec"].get("resources", {}).get("requests"))
    for name, least in sorted(parse_resource_list(limit.get("min")).items()):
        yield from _min_violations(kind, name, least, requests, {})
    for name, most in sorted(parse_resource_list(limit.get("max")).items()):
        start = f"maximum {name} usage per {kind} is {most}"
        if name not in requests:
            yield f"{start}.  No request is specified"
        elif _exceeds(requests[name], most):
            yield f"{start}, but request is {requests[name]}"


def _violations(limit: Obj, requests: ResourceList, limits: ResourceList) -> Iterator[str]:
    kind = limit["type"]
    for name, least in sorted(parse_resource_list(limit.get("min")).items()):
        yield from _min_violations(kind, name, least, requests, limits)
    for name, most in sorted(parse_resource_list(limit.get("max")).items()):
        yield from _max_violations(kind, name, most, requests, limits)
    for name, ratio in sorted(parse_resource_list(limit.get("maxLimitRequestRatio")).items()):
        yield from _ratio_violations(kind, name, ratio, requests, limits)


def _min_violations(
    kind: str, name: str, least: Quantity, requests: ResourceList, limits: ResourceList
) -> Iterator[str]:
    start = f"minimum {name} usage per {kind} is {least}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif _exceeds(least, requests[name]):
        yield f"{start}, but request is {requests[name]}"
    elif name in limits and _exceeds(least, limits[name]):
        yield f"{start}, but limit is {limits[name]}"


def _max_violations(
    kind: str, name: str, most: Quantity, requests: ResourceList, limits: ResourceList
) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {most}"
    if name not in limits:
        yield f"{start}.  No limit is specified"
    elif _exceeds(limits[name], most):
        yield f"{start}, but limit is {limits[name]}"
    elif name in requests and _exceeds(requests[name], most):
        yield f"{start}, but request is {requests[name]}"


def _ratio_violations(
    kind: str, name: str, ratio: Quantity, requests: ResourceList, limits: ResourceList
) -> Iterator[str]:
    start = f"{name} max limit to request ratio per {kind} is {ratio}"
    request, limit = requests.get(name, _ZERO), limits.get(name, _ZERO)
    if not request.amount:
        yield f"{start}, but no request is specified or request is 0"
    elif not limit.amount:
        yield f"{start}, but no limit is specified or limit is 0"
    else:
        observed = limit.amount / request.amount
        if observed > ratio.amount:
            yield f"{start}, but provided ratio is {float(observed):f}"


def _exceeds(first: Quantity, second: Quantity) -> bool:
    """Compare in thousandths, or huge amounts in whole units, rounded up."""
    unit = 1000 if max(first.amount, second.amount) <= _MAX_MILLI else 1
    return math.ceil(first.amount * unit) > math.ceil(second.amount * unit)
