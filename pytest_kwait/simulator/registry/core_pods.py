"""Pods: strategy, REST storages of their subresources, and the defaults of pod templates.

Source: k8s.io/kubernetes pkg/registry/core/pod/{strategy.go,storage/storage.go},
pkg/apis/core/v1/{defaults,conversion}.go, pkg/api/pod/util.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import clone, copy_fields
from pytest_kwait.simulator.registry.generic_store import SubresourceREST
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.pods.pod_spec import (
    APP_ARMOR_ANNOTATION_PREFIX,
    validate_pod_create,
)
from pytest_kwait.simulator.validation.core.pods.pod_update import (
    validate_ephemeral_containers_update,
    validate_pod_resize,
    validate_pod_status_update,
    validate_pod_update,
)
from pytest_kwait.simulator.validation.core.pods.security import visit_containers_with_path
from pytest_kwait.simulator.validation.core.pods.warnings import get_name_warnings, get_pod_warnings
from pytest_kwait.simulator.validation.core.resources import (
    aggregate_container_resources,
    qos_class,
)

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

_LISTS = ("initContainers", "containers")
_COMPUTE = ("cpu", "memory")
_HUGE_PAGES_PREFIX = "hugepages-"
_IMAGE_REFERENCE = re.compile(
    # An image's name as far as it may be read: [host[:port]/]path[:tag][@digest].
    r"(?:[A-Za-z0-9][-A-Za-z0-9.]*(?::\d+)?/|\[[0-9a-fA-F:]+\](?::\d+)?/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?P<tag>:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
_DISABLED_SOURCES = ("clusterTrustBundle", "podCertificate")
_REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"
_EPHEMERAL_CONTAINERS = "ephemeralContainers"
_CONTAINER_LISTS = ("containers", "initContainers")


def default_pod_spec(spec: Obj) -> None:
    """Set the defaults of pods and templates that depend on other fields."""
    for field in (*_LISTS, "ephemeralContainers"):
        for container in spec.get(field, ()):
            if not container.get("imagePullPolicy"):
                container["imagePullPolicy"] = _default_pull_policy(container.get("image", ""))
            container.setdefault("resources", {})
    for container in spec.get("ephemeralContainers", ()):
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]


def _default_volume(volume: Obj) -> None:
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}
    elif "image" in volume and not volume["image"].get("pullPolicy"):
        volume["image"]["pullPolicy"] = _default_pull_policy(volume["image"].get("reference", ""))
    elif "azureDisk" in volume:
        volume["azureDisk"].setdefault("readOnly", False)


def _default_pull_policy(image: str) -> str:
    match = _IMAGE_REFERENCE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    latest = match["tag"] == ":latest" or (not match["tag"] and not match["digest"])
    return "Always" if latest else "IfNotPresent"


def default_pod(spec: Obj) -> None:
    """Set the defaults of pods alone: requests from limits, host ports."""
    for field in _LISTS:
        for container in spec.get(field, ()):
            limits = container["resources"].get("limits")
            if limits:
                requests = container["resources"].setdefault("requests", {})
                for name, value in limits.items():
                    requests.setdefault(name, value)
            if spec.get("hostNetwork"):
                for port in container.get("ports", ()):
                    if not port.get("hostPort") and port.get("containerPort"):
                        port["hostPort"] = port["containerPort"]
    if spec.get("resources"):
        _default_pod_resources(spec, spec["resources"])
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1


def _default_pod_resources(spec: Obj, resources: Obj) -> None:
    """Set pod-level requests and limits from those of the containers."""
    limits: dict[str, str] = resources.get("limits", {})
    requests: dict[str, str] = resources.get("requests", {})
    if limits or requests:
        for name, amount in aggregate_container_resources(spec, "limits").items():
            if name.startswith(_HUGE_PAGES_PREFIX) and name not in requests and name not in limits:
                limits[name] = str(amount)
                resources["limits"] = limits
    if not limits:
        return
    for name, amount in aggregate_container_resources(spec, "requests").items():
        if name in _COMPUTE and name not in requests:
            requests[name] = str(amount)
            resources["requests"] = requests
    for name, text in limits.items():
        if name not in requests and (name in _COMPUTE or name.startswith(_HUGE_PAGES_PREFIX)):
            requests[name] = text
            resources["requests"] = requests


def drop_disabled_fields(spec: Obj) -> None:
    """Drop fields of features that are off by default."""
    spec.pop("schedulingGroup", None)
    for volume in spec.get("volumes", ()):
        if "projected" in volume:
            for source in volume["projected"].get("sources") or ():
                for field in _DISABLED_SOURCES:
                    source.pop(field, None)
    for field in (*_LISTS, "ephemeralContainers"):
        for container in spec.get(field, ()):
            lifecycle = container.get("lifecycle", {})
            if "stopSignal" in lifecycle:
                del lifecycle["stopSignal"]
                if not lifecycle:
                    del container["lifecycle"]


class PodStrategy(Strategy):
    """The strategy of pods."""

    returns_deleted_object = True
    validates_metadata_on_update = True
    validate_create = staticmethod(validate_pod_create)
    validate_update = staticmethod(validate_pod_update)
    validate_status = staticmethod(validate_pod_status_update)

    def default(self, obj: Obj) -> None:
        """Set the defaults of the spec."""
        super().default(obj)
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        default_pod(spec)

    def prepare_for_create(self, obj: Obj) -> None:
        """Set phase Pending and the QoS class."""
        sent = (obj.get("status") or {}).get("qosClass")
        super().prepare_for_create(obj)
        spec = obj["spec"]
        drop_disabled_fields(spec)
        quality = sent or qos_class(spec)
        obj["status"] = {"phase": "Pending", "qosClass": quality}
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": obj["metadata"]["creationTimestamp"],
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]
        if "affinity" in spec or "topologySpreadConstraints" in spec:
            _apply_label_keys(spec, obj["metadata"].get("labels", {}))

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Restore the status."""
        super().prepare_for_update(new, old)
        drop_disabled_fields(new["spec"])

    def prepare_for_caller(self, obj: Obj, caller: Caller) -> None:
        """Copy old annotations to fields."""
        annotations = obj["metadata"].get("annotations")
        if annotations:
            _apply_apparmor_annotations(obj["spec"], annotations, caller)

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of fields and names that are not advised."""
        for text in get_name_warnings(obj, "the Pod's hostname"):
            caller.warn(text)
        for text in get_pod_warnings(obj["spec"], obj["metadata"], ""):
            caller.warn(text)

    def check_graceful_delete(self, obj: Obj, requested: int | None) -> int | None:
        """Return the requested or the pod's own period; 0 if pending or ended."""
        spec, status = obj.get("spec", {}), obj.get("status", {})
        period = (
            requested
            if requested is not None
            else int(spec.get("terminationGracePeriodSeconds", 0))
        )
        if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
            return 0
        return 1 if period < 0 else period

    def prepare_for_status_update(self, new: Obj, old: Obj) -> None:
        """Restore the QoS class and the observed generations."""
        super().prepare_for_status_update(new, old)
        before = old.get("status", {})
        status = new.setdefault("status", {})
        for field in ("qosClass", "observedGeneration"):
            if field in before and not status.get(field):
                status[field] = before[field]
        forgotten = any(
            not condition.get("observedGeneration") for condition in status.get("conditions") or ()
        )
        if forgotten and any(
            "observedGeneration" in condition for condition in before.get("conditions", ())
        ):
            status["conditions"] = _keep_condition_generations(
                status["conditions"], before["conditions"]
            )


def _keep_condition_generations(conditions: list[Obj], before: list[Obj]) -> list[Obj]:
    """Return the conditions with their earlier generations."""
    known: dict[str, list[int]] = {}
    for condition in before:
        known.setdefault(condition.get("type", ""), []).append(
            condition.get("observedGeneration", 0)
        )
    merged_conditions = []
    for condition in conditions:
        earlier = known.get(condition.get("type", ""))
        generation = earlier.pop(0) if earlier else 0
        if generation and not condition.get("observedGeneration"):
            condition = {**condition, "observedGeneration": generation}
        merged_conditions.append(condition)
    return merged_conditions


def _apply_label_keys(spec: Obj, labels: dict[str, str]) -> None:
    """Add the pod's own values of `matchLabelKeys` to selectors."""
    affinity = spec.get("affinity", {})
    for field in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(field, {})
        for term in terms.get(_REQUIRED_TERMS, ()):
            _apply_to_term(term, labels)
        for weighted in terms.get(_PREFERRED_TERMS, ()):
            _apply_to_term(weighted.get("podAffinityTerm", {}), labels)
    for constraint in spec.get("topologySpreadConstraints", ()):
        _apply_to_term(constraint, labels)


def _apply_to_term(term: Obj, labels: dict[str, str]) -> None:
    if "labelSelector" not in term:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field, ()):
            if key in labels:
                rule = {"key": key, "operator": operator, "values": [labels[key]]}
                term["labelSelector"].setdefault("matchExpressions", []).append(rule)


def _apply_apparmor_annotations(spec: Obj, annotations: dict[str, str], caller: Caller) -> None:
    """Copy AppArmor annotations to fields, with a warning that refused pods have as well.

    Source: pkg/registry/core/pod/strategy.go, func applyAppArmorVersionSkew.
    """
    if (spec.get("os") or {}).get("name") == "windows":
        return
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container, _ in visit_containers_with_path(spec, ""):
        key = APP_ARMOR_ANNOTATION_PREFIX + container.get("name", "")
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        if key not in annotations or own is not None:
            continue
        profile = _parse_apparmor_profile(annotations[key])
        if profile is not None and profile != of_pod:
            container.setdefault("securityContext", {})["appArmorProfile"] = profile
        if profile is None or profile != of_pod:
            text = 'deprecated since v1.30; use the "appArmorProfile" field instead'
            caller.warn(f"metadata.annotations[{key}]: {text}")


def _parse_apparmor_profile(annotation: str) -> Obj | None:
    kind, _, local = annotation.partition("/")
    if annotation == "unconfined":
        return {"type": "Unconfined"}
    if annotation == "runtime/default":
        return {"type": "RuntimeDefault"}
    if kind == "localhost" and local:
        return {"type": "Localhost", "localhostProfile": local} if local == local.strip() else None
    return None


class EphemeralContainersREST(SubresourceREST):
    """The REST storage of `pods/ephemeralcontainers`."""

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Restore all but the ephemeral containers."""
        spec = clone(old["spec"])
        containers = new.get("spec", {}).get(_EPHEMERAL_CONTAINERS)
        if containers:
            spec[_EPHEMERAL_CONTAINERS] = containers
        else:
            spec.pop(_EPHEMERAL_CONTAINERS, None)
        new["spec"] = spec
        _restore_metadata_and_status(new, old)
        super().prepare_for_update(new, old)

    def validate_update(self, new: Obj, old: Obj, caller: Caller) -> list[FieldError]:
        """Validate that ephemeral containers are added alone."""
        del caller
        return validate_ephemeral_containers_update(new, old)


class ResizeREST(SubresourceREST):
    """The REST storage of `pods/resize`."""

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Restore all but resources; a change of the number of containers is refused later."""
        if all(
            len(_containers_in(new, field)) == len(_containers_in(old, field))
            for field in _CONTAINER_LISTS
        ):
            _restore_all_but_resources(new, old)
            _restore_metadata_and_status(new, old)
        super().prepare_for_update(new, old)

    def validate_update(self, new: Obj, old: Obj, caller: Caller) -> list[FieldError]:
        """Validate the new resources."""
        del caller
        return validate_pod_resize(new, old)


def _restore_metadata_and_status(new: Obj, old: Obj) -> None:
    before, metadata = old["metadata"], new["metadata"]
    copy_fields(metadata, before, "labels", "annotations", "finalizers", "ownerReferences")
    new["status"] = old["status"]


def _containers_in(pod: Obj, field: str) -> list[Obj]:
    containers: list[Obj] = (pod.get("spec") or {}).get(field) or []
    return containers


def _restore_all_but_resources(new: Obj, old: Obj) -> None:
    spec = clone(old["spec"])
    for field in _CONTAINER_LISTS:
        sent, containers = _containers_in(new, field), _containers_in({"spec": spec}, field)
        if any(
            sent_container.get("name") != was.get("name")
            for sent_container, was in zip(sent, containers, strict=True)
        ):
            spec[field] = sent  # which is refused
            continue
        for container, sent_container in zip(containers, sent, strict=True):
            copy_fields(container, sent_container, "resources", "resizePolicy")
    copy_fields(spec, new.get("spec") or {}, "resources")
    new["spec"] = spec
