"""Strategies of kinds with a pod template, of their disruption budgets and autoscalers.

Source: pkg/apis/{apps,core}/v1/defaults.go, pkg/apis/autoscaling/v2/defaults.go,
pkg/registry/{apps,core}/*/strategy.go, pkg/registry/policy/poddisruptionbudget/strategy.go,
pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList
from pytest_kwait.apimachinery.validation import dns_subdomain_texts
from pytest_kwait.simulator.objects import clone, copy_fields
from pytest_kwait.simulator.registry.core_pods import default_pod_spec, drop_disabled_fields
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.apps import (
    validate_daemon_set_spec,
    validate_daemon_set_spec_update,
    validate_deployment_spec,
    validate_immutable_selector,
    validate_pod_disruption_budget_spec,
    validate_pod_disruption_budget_status,
    validate_replica_set_spec,
    validate_replication_controller_spec,
    validate_stateful_set_spec,
    validate_stateful_set_spec_update,
    validate_status_counts,
)
from pytest_kwait.simulator.validation.autoscaling import validate_horizontal_pod_autoscaler_spec
from pytest_kwait.simulator.validation.core.pods.pod_spec import validate_pod_template_spec
from pytest_kwait.simulator.validation.core.pods.warnings import get_name_warnings, get_pod_warnings
from pytest_kwait.simulator.validation.objectmeta import name_is_dns_label

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class WorkloadStrategy(Strategy):
    """The base of workloads with a selector and a pod template."""

    warns_of_host_names = True
    """True if the server warns of names that are invalid host names."""

    def default(self, obj: Obj) -> None:
        """Default the template."""
        super().default(obj)
        template = obj.setdefault("spec", {}).setdefault("template", {})
        default_pod_spec(template.setdefault("spec", {}))

    def prepare_for_create(self, obj: Obj) -> None:
        """Drop disabled fields of the template."""
        super().prepare_for_create(obj)
        drop_disabled_fields(obj["spec"].get("template", {}).get("spec", {}))

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Drop disabled fields of the template."""
        drop_disabled_fields(new["spec"].get("template", {}).get("spec", {}))
        super().prepare_for_update(new, old)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate selector, template and counts."""
        return self.validate_spec(obj["spec"])

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; the selector must not change."""
        if new["spec"] == old["spec"]:
            return []
        return self.validate_spec_update(new["spec"], old["spec"])

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate the counts."""
        return validate_status_counts(self.kind.kind, new, old)

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of the name and of the template."""
        if self.warns_of_host_names:
            for text in get_name_warnings(obj, "Pod names and hostnames"):
                caller.warn(text)
        self._warn_template(obj, caller)

    def warn_on_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of the template if the spec changed."""
        if new["metadata"].get("generation") != old["metadata"].get("generation"):
            self._warn_template(new, caller)

    def _warn_template(self, obj: Obj, caller: Caller) -> None:
        template = obj["spec"].get("template", {})
        metadata = template.get("metadata", {})
        for text in get_pod_warnings(template.get("spec", {}), metadata, "spec.template"):
            caller.warn(text)

    def validate_spec(self, spec: Obj) -> ErrorList:
        """Validate a spec."""
        raise NotImplementedError

    def validate_spec_update(self, spec: Obj, before: Obj) -> ErrorList:
        """Validate a change of a spec."""
        return ErrorList([*self.validate_spec(spec), *validate_immutable_selector(spec, before)])


class PodTemplateStrategy(Strategy):
    """The strategy of pod templates."""

    returns_deleted_object = True

    def default(self, obj: Obj) -> None:
        """Default the template."""
        super().default(obj)
        default_pod_spec(obj.setdefault("template", {}).setdefault("spec", {}))

    def prepare_for_create(self, obj: Obj) -> None:
        """Drop disabled fields of the template."""
        super().prepare_for_create(obj)
        drop_disabled_fields(obj["template"]["spec"])

    def increments_generation(self, new: Obj, old: Obj) -> bool:
        """Return whether the template changes."""
        return bool(new.get("template") != old.get("template"))

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the template."""
        return validate_pod_template_spec(obj["template"], "template")

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of the template."""
        template = obj["template"]
        for text in get_pod_warnings(template["spec"], template.get("metadata", {}), "template"):
            caller.warn(text)

    def warn_on_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of a changed template."""
        if new["template"] != old["template"]:
            self.warn_on_create(new, caller)


class DeploymentStrategy(WorkloadStrategy):
    """The strategy of deployments."""

    validate_spec = staticmethod(validate_deployment_spec)

    def default(self, obj: Obj) -> None:
        """Default the strategy: a rolling update by 25 %."""
        super().default(obj)
        strategy = obj["spec"].setdefault("strategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")

    def increments_generation(self, new: Obj, old: Obj) -> bool:
        """Count annotations, too: a rollback is written there."""
        annotations, before = (obj["metadata"].get("annotations") or {} for obj in (new, old))
        return bool(annotations != before) or super().increments_generation(new, old)

    def prepare_for_status_update(self, new: Obj, old: Obj) -> None:
        """Restore the labels."""
        super().prepare_for_status_update(new, old)
        copy_fields(new["metadata"], old["metadata"], "labels")


class ReplicaSetStrategy(WorkloadStrategy):
    """The strategy of replica sets."""

    validate_spec = staticmethod(validate_replica_set_spec)


class StatefulSetStrategy(WorkloadStrategy):
    """The strategy of stateful sets."""

    warns_of_host_names = False
    validate_name = staticmethod(name_is_dns_label)
    validate_spec = staticmethod(validate_stateful_set_spec)
    validate_spec_update = staticmethod(validate_stateful_set_spec_update)

    def default(self, obj: Obj) -> None:
        """Default the update to a rolling one, and the claim templates as claims."""
        super().default(obj)
        spec = obj["spec"]
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
            strategy["rollingUpdate"].setdefault("partition", 0)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for field in ("whenDeleted", "whenScaled"):
            if not retention.get(field):
                retention[field] = "Retain"
        for claim in spec.get("volumeClaimTemplates", ()):
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_for_create(self, obj: Obj) -> None:
        """Drop disabled fields."""
        super().prepare_for_create(obj)
        obj["spec"]["updateStrategy"].get("rollingUpdate", {}).pop("maxUnavailable", None)

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of the template and of a negative history limit."""
        super().warn_on_create(obj, caller)
        if obj["spec"].get("revisionHistoryLimit", 0) < 0:
            caller.warn(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a "
                "value >= 0 is recommended"
            )


class DaemonSetStrategy(WorkloadStrategy):
    """The strategy of daemon sets."""

    warns_of_host_names = False
    validate_spec = staticmethod(validate_daemon_set_spec)
    validate_spec_update = staticmethod(validate_daemon_set_spec_update)

    def default(self, obj: Obj) -> None:
        """Default the update to one node at a time; conversion shows the template generation."""
        super().default(obj)
        metadata = obj["metadata"]
        if _TEMPLATE_GENERATION not in (metadata.get("annotations") or ()):
            annotations = metadata.get("annotations") or {}
            metadata["annotations"] = {**annotations, _TEMPLATE_GENERATION: "0"}
        strategy = obj["spec"].setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
        for field in ("maxUnavailable", "maxSurge") if "rollingUpdate" in strategy else ():
            strategy["rollingUpdate"].setdefault(field, 0)

    def prepare_for_create(self, obj: Obj) -> None:
        """Start the template generation."""
        super().prepare_for_create(obj)
        annotations = obj["metadata"]["annotations"]
        if annotations[_TEMPLATE_GENERATION] == "0":
            annotations[_TEMPLATE_GENERATION] = "1"

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Increase the template generation when the template changes."""
        super().prepare_for_update(new, old)
        known = old["metadata"].get("annotations", {}).get(_TEMPLATE_GENERATION, "0")
        generation = (int(known) if known.isdigit() else 0) + (
            new["spec"]["template"] != old["spec"]["template"]
        )
        annotations = new["metadata"].setdefault("annotations", {})
        annotations[_TEMPLATE_GENERATION] = str(generation)


def _validate_replication_controller_name(name: str, prefix: bool) -> list[str]:
    """Return messages for an invalid name; declarative validation, which counts bytes."""
    # It ignores prefixes.
    texts = [] if prefix else dns_subdomain_texts(name)
    return [text.replace("253 characters", "253 bytes") for text in texts]


class ReplicationControllerStrategy(WorkloadStrategy):
    """The strategy of replication controllers: the selector defaults to the template's labels."""

    resource_prefix = "controllers"
    default_garbage_collection_policy = "Orphan"
    validate_name = staticmethod(_validate_replication_controller_name)
    validate_spec = staticmethod(validate_replication_controller_spec)

    def default(self, obj: Obj) -> None:
        """Default the selector and the labels to the template's labels."""
        if "template" not in obj.setdefault("spec", {}):
            Strategy.default(self, obj)
            return
        super().default(obj)
        spec = obj["spec"]
        labels = spec["template"].get("metadata", {}).get("labels", {})
        if labels:
            if not spec.get("selector"):
                spec["selector"] = clone(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = clone(labels)

    def validate_spec_update(self, spec: Obj, before: Obj) -> ErrorList:
        """Allow a new selector."""
        del before
        return self.validate_spec(spec)


class PodDisruptionBudgetStrategy(Strategy):
    """The strategy of pod disruption budgets."""

    allows_unconditional_update = False
    validates_metadata = False

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the spec."""
        return validate_pod_disruption_budget_spec(obj.get("spec", {}))

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate the counts."""
        del old
        return validate_pod_disruption_budget_status(new.get("status") or {})


class HorizontalPodAutoscalerStrategy(Strategy):
    """The strategy of horizontal pod autoscalers."""

    def default(self, obj: Obj) -> None:
        """Default the stabilization window of scale-up rules to 0."""
        super().default(obj)
        rules = ((obj.get("spec") or {}).get("behavior") or {}).get("scaleUp")
        if rules is not None:
            rules.setdefault("stabilizationWindowSeconds", 0)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the spec."""
        return validate_horizontal_pod_autoscaler_spec(obj.get("spec", {}), None)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate the spec; a present invalid target may stay."""
        return validate_horizontal_pod_autoscaler_spec(new.get("spec", {}), old.get("spec", {}))

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate the counts."""
        del old
        errors = ErrorList()
        errors.require_not_negative(
            new.get("status") or {}, "status", "currentReplicas", "desiredReplicas"
        )
        return errors
