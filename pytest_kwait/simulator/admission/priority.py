"""The plugin Priority: resolves the priority class of a pod.

Source: k8s.io/kubernetes plugin/pkg/admission/priority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.validation.scheduling import SYSTEM_PRIORITY_CLASSES

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import StatusError
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

_PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
_DESCRIPTIONS = {
    "system-node-critical": "Used for system critical pods that must not be moved from their "
    "current node.",
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, but "
    "can be moved to another node if necessary.",
}


def system_priority_classes() -> list[Obj]:
    """Return the priority classes of every cluster.

    Source: pkg/apis/scheduling/v1/helpers.go, `SystemPriorityClasses`.
    """
    return [
        {"metadata": {"name": name}, "value": value, "description": _DESCRIPTIONS[name]}
        for name, value in SYSTEM_PRIORITY_CLASSES.items()
    ]


class Priority(AdmissionPlugin):
    """The Priority plugin."""

    buckets = frozenset({"pods", _PRIORITY_CLASSES})

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def admit(self, attributes: Attributes) -> None:
        """Set a new pod's priority; keep an existing one's.

        Raises:
            StatusError: 403, the class is missing or contradicts the pod; 403 for the deletion of a
                system class.
        """
        if attributes.kind.bucket == _PRIORITY_CLASSES:
            if attributes.operation == "DELETE" and attributes.name in SYSTEM_PRIORITY_CLASSES:
                text = "this is a system priority class and cannot be deleted"
                raise attributes.forbidden(text)
            return
        pod = attributes.obj
        if attributes.kind.bucket != "pods" or attributes.subresource or pod is None:
            return
        spec = pod["spec"]
        if attributes.old is not None:
            for field in ("priority", "preemptionPolicy"):
                if field in attributes.old["spec"]:
                    spec.setdefault(field, attributes.old["spec"][field])
            return
        chosen = self._class_of(attributes, spec.get("priorityClassName", ""))
        value, policy = chosen.get("value", 0), chosen.get("preemptionPolicy")
        if chosen:
            spec["priorityClassName"] = name_of(chosen)
        else:
            policy = "PreemptLowerPriority"
        if spec.get("priority", value) != value:
            raise _mismatch_error(attributes, "integer value of priority", spec["priority"], value)
        spec["priority"] = value
        if policy is not None:
            pod_policy = spec.setdefault("preemptionPolicy", policy)
            if pod_policy != policy:
                raise _mismatch_error(
                    attributes, "string value of PreemptionPolicy", pod_policy, policy
                )

    def validate(self, attributes: Attributes) -> None:
        """Allow only one default class.

        Raises:
            StatusError: 403, another class is the default.
        """
        obj = attributes.obj
        if (
            attributes.kind.bucket != _PRIORITY_CLASSES
            or obj is None
            or not obj.get("globalDefault")
        ):
            return
        default_class = self._default()
        if default_class is not None and (
            attributes.operation == "CREATE" or name_of(default_class) != name_of(obj)
        ):
            raise attributes.forbidden(
                f"PriorityClass {name_of(default_class)} is already marked as default. Only one "
                "default "
                "can exist"
            )

    def _class_of(self, attributes: Attributes, name: str) -> Obj:
        """Return the named or the default class; empty for none."""
        if not name:
            return self._default() or {}
        priority_class = self._cluster.find(_PRIORITY_CLASSES, name)
        if priority_class is None:
            raise attributes.forbidden(f"no PriorityClass with name {name} was found")
        return priority_class

    def _default(self) -> Obj | None:
        default_classes = [
            priority_class
            for priority_class in self._cluster.list(_PRIORITY_CLASSES)
            if priority_class.get("globalDefault")
        ]
        return min(
            default_classes,
            key=lambda priority_class: int(priority_class.get("value", 0)),
            default=None,
        )


def _mismatch_error(
    attributes: Attributes, noun: str, value: object, computed: object
) -> StatusError:
    return attributes.forbidden(
        f"the {noun} ({value}) must not be provided in pod spec; priority admission controller "
        f"computed {computed} from the given PriorityClass name"
    )
