"""Subresources as operations on objects: scale, binding, eviction.

A scale shows an object's number of replicas under one shape for all kinds. An eviction is checked
against the disruption budgets of the pod.
Source: k8s.io/kubernetes pkg/registry/apps/deployment/storage/storage.go,
pkg/registry/core/pod/storage/{storage,eviction}.go;
k8s.io/apiextensions-apiserver pkg/registry/customresource/etcd.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import is_condition_true
from pytest_kwait.apimachinery.field_errors import invalid_value, not_supported, required
from pytest_kwait.apimachinery.selectors import format_label_selector, matches_label_selector
from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.api_errors import (
    StatusError,
    bad_request,
    conflict,
    forbidden,
    invalid,
    too_many_requests,
)
from pytest_kwait.simulator.codec.schema import Form, struct_of
from pytest_kwait.simulator.managedfields.field_manager import (
    VersionConverter,
    read_managed_fields,
    record_update,
    write_managed_fields,
)
from pytest_kwait.simulator.objects import clone, labels_of, name_of, namespace_of
from pytest_kwait.simulator.scheme import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.managedfields.field_manager import Path
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.store import Entry

EVICTION_SUCCESS = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
"""The condition of a pod that is evicted, without its times."""

SCALE_KIND = Kind("autoscaling", "v1", "scales", "Scale", namespaced=True)

_SCALE_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_BUDGET_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_MAX_DISRUPTED_PODS = 2000
_RETRY_SECONDS = 10
_BUDGETS = "poddisruptionbudgets.policy"
_UNSAFE_DELETE_OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"


def _scale_paths(kind: Kind) -> tuple[str, str, str]:
    if kind.structure is not None and kind.structure.scale:
        scale = kind.structure.scale
        return (
            scale["specReplicasPath"],
            scale["statusReplicasPath"],
            scale.get("labelSelectorPath", ""),
        )
    return ".spec.replicas", ".status.replicas", ".spec.selector"


def _value_at(obj: Obj, path: str) -> Any:
    value: Any = obj
    for name in path.strip(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _selects_by_map(kind: Kind) -> bool:
    """Return whether the selector of a kind is a map of labels, not a LabelSelector."""
    if kind.custom:
        return False
    spec = struct_of(kind.group, kind.version, kind.kind).fields["spec"]
    return spec.struct.fields["selector"].form is Form.MAP


def read_scale(kind: Kind, obj: Obj) -> Obj:
    """Return the object's Scale."""
    spec_path, status_path, selector_path = _scale_paths(kind)
    spec: Obj = {}
    replicas = _value_at(obj, spec_path)
    if replicas:
        spec["replicas"] = replicas
    status: Obj = {"replicas": _value_at(obj, status_path) or 0}
    selector = _value_at(obj, selector_path) if selector_path else None
    if isinstance(selector, str):
        status["selector"] = selector
    elif isinstance(selector, dict):
        if _selects_by_map(kind):
            selector = {"matchLabels": selector}
        status["selector"] = format_label_selector(selector)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            key: obj["metadata"][key] for key in _SCALE_METADATA if key in obj["metadata"]
        },
        "spec": spec,
        "status": status,
    }


def replicas_path(kind: Kind) -> list[str]:
    """Return the path of the desired number of replicas."""
    return _scale_paths(kind)[0].strip(".").split(".")


def write_scale(kind: Kind, obj: Obj, scale: Obj) -> Obj:
    """Return a copy of the object with the Scale's replicas and resourceVersion.

    Args:
        kind: of the object.
        scale: the Scale, which is decoded.

    Raises:
        StatusError: 400, 409 or 422, the Scale is invalid.
    """
    metadata, name = scale["metadata"], obj["metadata"]["name"]
    if not metadata.get("name"):
        raise bad_request("name must be provided")
    if metadata["name"] != name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({name})"
        )
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0 and not kind.custom:
        error = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", name, [error])
    if metadata.get("uid") and metadata["uid"] != obj["metadata"]["uid"]:
        raise conflict(
            kind.group,
            f"{kind.plural}/scale",
            name,
            f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: "
            f"{obj['metadata']['uid']}",
        )
    changed: Obj = clone(obj)
    parent = changed
    *steps, last = replicas_path(kind)
    for step in steps:
        parent = parent.setdefault(step, {})
    parent[last] = replicas
    if metadata.get("resourceVersion"):
        changed["metadata"]["resourceVersion"] = metadata["resourceVersion"]
    return changed


def replicas_field(kind: Kind) -> Path:
    """Return the path of the desired number of replicas in `managedFields`."""
    return tuple(f"f:{name}" for name in replicas_path(kind))


def store_scale(
    cluster: ApiServerCluster,
    kind: Kind,
    entry: Entry,
    change: Callable[[Obj], Obj],
    caller: Caller,
) -> Obj:
    """Apply `change` to the object's Scale, and store and return the object.

    Raises:
        StatusError: 400, 409 or 422, the Scale is invalid, or the request is denied.
    """
    scale = change(read_scale(kind, entry.obj))

    def record(new: Obj) -> None:
        path, managers = replicas_field(kind), read_managed_fields(entry.obj)
        if not any(path in manager.fields for manager in managers):
            # A Scale without managers stays so, as any object before its first apply.
            write_managed_fields(new, managers)
            return
        versions, stamp = VersionConverter(cluster.kinds, kind), cluster.clock.stamp()
        record_update(kind, new, entry.obj, caller, stamp, "scale", versions)
        if not read_scale(kind, new)["spec"]:
            # A Scale without replicas leaves zero out, so that none owns it.
            managers = read_managed_fields(new)
            for manager in managers:
                manager.fields.discard(path)
            write_managed_fields(new, managers)

    return write_admitted_scale(cluster, kind, entry, scale, caller, record)


def write_admitted_scale(
    cluster: ApiServerCluster,
    kind: Kind,
    entry: Entry,
    scale: Obj,
    caller: Caller,
    record: Callable[[Obj], None],
) -> Obj:
    """Admit a Scale, then store and return the object with its replicas.

    Mutating admission sees the Scale of the request, with managers; validating admission that of
    the changed object, without.

    Args:
        record: sets the field managers of the object.

    Raises:
        StatusError: 400, 409 or 422, the Scale is invalid, or the request is denied.
    """
    metadata = entry.obj["metadata"]
    before = read_scale(kind, entry.obj)
    sent, sent_before = {**scale, "metadata": {**scale["metadata"]}}, read_scale(kind, entry.obj)
    if cluster.has_webhooks():
        changed = cluster.decode(kind, write_scale(kind, entry.obj, scale), caller)
        record(changed)
        _copy_managers(kind, changed, sent)
        _copy_managers(kind, entry.obj, sent_before)
    attributes = Attributes(
        "UPDATE", kind, metadata.get("namespace", ""), metadata["name"], sent, sent_before,
        "scale", caller, subresource_kind=SCALE_KIND,
    )  # fmt: skip
    cluster.admission.admit_subresource(attributes)
    new = cluster.decode(kind, write_scale(kind, entry.obj, attributes.obj or sent), caller)
    attributes.obj, attributes.old = read_scale(kind, new), before
    cluster.admission.validate_subresource(attributes)
    return cluster.replace_decoded(kind, entry, new, "scale", caller, record)


def _copy_managers(kind: Kind, obj: Obj, scale: Obj) -> None:
    """Give a Scale the managers of an object's replicas."""
    path = replicas_field(kind)
    managers = [manager for manager in read_managed_fields(obj) if path in manager.fields]
    for manager in managers:
        manager.api_version = SCALE_KIND.api_version
        manager.fields = {("f:spec",), ("f:spec", "f:replicas")}
    write_managed_fields(scale, managers)


def check_binding(binding: Obj) -> None:
    """Check the target of a Binding.

    Raises:
        StatusError: 500, it is invalid, as upstream.
    """
    target = binding.get("target") or {}
    errors = []
    if target.get("kind", "") not in ("", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    if errors:
        texts = [str(error) for error in errors]
        raise StatusError(500, "", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def bind_pod(pod: Obj, node: str, stamp: str, binding: Obj | None = None) -> Obj:
    """Return the pod with its node and the condition PodScheduled since `stamp`.

    Args:
        node: the node's name.
        stamp: the time.
        binding: the Binding; its labels and annotations become the pod's, its UID and
            resourceVersion must be the pod's.

    Raises:
        StatusError: 409, it is another pod, or is assigned, being deleted or gated.
    """
    metadata, spec = {**pod["metadata"]}, pod["spec"]
    binding_metadata = (binding or {}).get("metadata", {})
    for field, field_text in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        expected_value = binding_metadata.get(field)
        if expected_value and expected_value != metadata[field]:
            raise _uid_conflict(
                pod,
                f"{field_text} in precondition: {expected_value}, {field_text} in object meta: "
                f"{metadata[field]}",
            )
    node_name = spec.get("nodeName")
    if metadata.get("deletionTimestamp"):
        raise _binding_conflict(pod, "is being deleted, cannot be assigned to a host")
    if node_name:
        raise _binding_conflict(pod, f'is already assigned to node "{node_name}"')
    if spec.get("schedulingGates"):
        raise _binding_conflict(pod, "has non-empty .spec.schedulingGates")
    for field in ("annotations", "labels"):
        if binding_metadata.get(field):
            metadata[field] = {**metadata.get(field, {}), **binding_metadata[field]}
    condition: Obj = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": stamp,
    }
    status = dict(pod.get("status", {}))
    other_conditions = [
        condition
        for condition in status.get("conditions", ())
        if condition["type"] != "PodScheduled"
    ]
    status["conditions"] = [*other_conditions, condition]
    # Assigned pods are not nominated.
    status.pop("nominatedNodeName", None)
    return {
        **pod,
        "metadata": metadata,
        "spec": {**spec, "nodeName": node},
        "status": status,
    }


def _uid_conflict(pod: Obj, why: str) -> StatusError:
    name = name_of(pod)
    return conflict(
        "",
        "pods",
        name,
        f"StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace_of(pod)}/{name}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {why}",
    )


def _binding_conflict(pod: Obj, why: str) -> StatusError:
    name = name_of(pod)
    return conflict("", "pods/binding", name, f"pod {name} {why}")


def read_eviction_options(name: str, eviction: Obj, *, dry_run: bool) -> Obj:
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


def evict_pod(cluster: ApiServerCluster, pod: Obj, options: Obj) -> None:
    """Delete a pod, at the cost of its disruption budget, and mark it as disrupted before.

    Args:
        options: the DeleteOptions.

    Raises:
        StatusError: 429 if the budget allows no disruption, 409 if a precondition fails.
    """
    name, namespace = name_of(pod), pod["metadata"]["namespace"]
    dry_run = bool(options.get("dryRun"))
    if not can_ignore_budgets(pod):
        guards = [
            budget
            for budget in cluster.list(_BUDGETS, namespace)
            if matches_label_selector(budget["spec"].get("selector"), labels_of(pod))
        ]
        budget = find_disruption_budget(pod, guards)
        if budget is not None and not dry_run:
            status = decrement_budget(budget, name, cluster.clock.stamp())
            cluster.modify(
                _BUDGETS,
                name_of(budget),
                namespace,
                lambda changed_budget: changed_budget.update(status=status),
                subresource="status",
            )
    admitted = options.get("preconditions") or {}
    if not dry_run and all(
        value == pod["metadata"][field] for field, value in admitted.items() if value
    ):
        marked = cluster.modify(
            "pods",
            name,
            namespace,
            lambda changed_pod: _set_disruption_target(changed_pod, cluster.clock.stamp()),
            subresource="status",
        )
        if admitted.get("resourceVersion"):
            version = marked["metadata"]["resourceVersion"]
            options = {**options, "preconditions": {**admitted, "resourceVersion": version}}
    cluster.delete_admitted("pods", name, namespace, options=options, dry_run=dry_run)


def _set_disruption_target(pod: Obj, stamp: str) -> None:
    """Add the DisruptionTarget condition."""
    status = pod.setdefault("status", {})
    conditions = list(status.get("conditions") or ())
    before = next(
        (condition for condition in conditions if condition["type"] == EVICTION_SUCCESS["type"]),
        None,
    )
    since = stamp
    if before is not None and before["status"] == EVICTION_SUCCESS["status"]:
        since = before.get("lastTransitionTime", stamp)
    condition = {"lastProbeTime": None, "lastTransitionTime": since, **EVICTION_SUCCESS}
    other_conditions = [condition for condition in conditions if condition is not before]
    status["conditions"] = [*other_conditions, condition]


def can_ignore_budgets(pod: Obj) -> bool:
    """Return whether budgets do not apply: the pod is pending, has ended or is being deleted."""
    phase = pod.get("status", {}).get("phase")
    return phase in ("Pending", "Succeeded", "Failed") or bool(
        pod["metadata"].get("deletionTimestamp")
    )


def find_disruption_budget(pod: Obj, budgets: Sequence[Obj]) -> Obj | None:
    """Return the budget that the eviction reduces; None for none.

    Args:
        budgets: the budgets that select it.

    Raises:
        StatusError: 429 if the budget allows no disruption, 500 for more than one budget.
    """
    if len(budgets) > 1:
        text = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
        raise StatusError(500, "", text)
    for budget in budgets:
        if not is_condition_true(pod, "Ready") and _always_allows_unready(budget):
            return None
        _check_budget(budget)
        return budget
    return None


def decrement_budget(budget: Obj, pod: str, stamp: str) -> Obj:
    """Return the budget's status after the eviction of a pod."""
    status = {**budget["status"]}
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: stamp}
    if status["disruptionsAllowed"] == 0:
        other_conditions = [
            condition
            for condition in status.get("conditions") or ()
            if condition["type"] != "DisruptionAllowed"
        ]
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": status.get("observedGeneration", 0),
            "lastTransitionTime": stamp,
            "reason": "InsufficientPods",
            "message": "",
        }
        status["conditions"] = [*other_conditions, condition]
    return status


def _always_allows_unready(budget: Obj) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired = status.get("desiredHealthy", 0)
    return bool(0 < desired <= status.get("currentHealthy", 0))


def _check_budget(budget: Obj) -> None:
    name, status = name_of(budget), budget.get("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        text = f"The disruption budget {name} is still being processed by the server."
        raise _too_many_requests(text, _RETRY_SECONDS)
    allowed = status.get("disruptionsAllowed", 0)
    for wrong, why in (
        (allowed < 0, "pdb disruptions allowed is negative"),
        (
            len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED_PODS,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ),
    ):
        if wrong:
            raise forbidden("policy", "poddisruptionbudget", name, why)
    if allowed == 0:
        raise _too_many_requests(_not_ready_message(name, status))


def _not_ready_message(name: str, status: Obj) -> str:
    condition = next(
        (
            condition
            for condition in status.get("conditions") or ()
            if condition["type"] == "DisruptionAllowed"
            and condition["status"] == "False"
            and condition["message"]
        ),
        None,
    )
    start = f"The disruption budget {name} does not allow evicting pods currently"
    if condition is not None and condition["reason"] == "SyncFailed":
        return f"{start} because it failed sync: {condition['message']}"
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if healthy <= desired:
        return (
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    if condition is not None:
        return f"{start} ({condition['reason']}): {condition['message']}"
    return start


def _too_many_requests(text: str, seconds: int = 0) -> StatusError:
    error = too_many_requests(_BUDGET_VIOLATED, [{"reason": "DisruptionBudget", "message": text}])
    if seconds:
        error.details = {**(error.details or {}), "retryAfterSeconds": seconds}
        error.headers = {"Retry-After": str(seconds)}
    return error
