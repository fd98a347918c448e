"""Kinds with a pod template: deployments, all sets, replication controllers, pod templates.

Source: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation/validation.go,
pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.selectors import matches
from pytest_kwait.simulator.status_error import invalid_value, required
from pytest_kwait.simulator.strategies.generic import Strategy
from pytest_kwait.simulator.strategies.pods import default_pod_spec, validate_template
from pytest_kwait.simulator.validation import selector_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = [
    "ControllerStrategy",
    "DaemonSetStrategy",
    "DeploymentStrategy",
    "ReplicaSetStrategy",
    "StatefulSetStrategy",
    "TemplateStrategy",
    "WorkloadStrategy",
]

_MISMATCH = "`selector` does not match template `labels`"
_IMMUTABLE = "field is immutable"
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class WorkloadStrategy(Strategy):
    """What controllers with a selector and a template share."""

    def default(self, obj: Obj) -> None:
        """Defaults of the template."""
        super().default(obj)
        template = obj.setdefault("spec", {}).setdefault("template", {})
        default_pod_spec(template.setdefault("spec", {}))

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Selector, template, numbers."""
        spec = obj["spec"]
        errors = self.validate_numbers(spec)
        selector = spec.get("selector")
        wrong = [] if selector is None else selector_errors(selector, "spec.selector")
        if selector is None:
            errors.append(required("spec.selector"))
        elif not wrong and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            text = f"empty selector is invalid for {self.noun}"
            errors.append(invalid_value("spec.selector", selector, text))
        if wrong:
            invalid = invalid_value("spec.selector", selector, "invalid label selector")
            return [*errors, *wrong, invalid]
        labels = spec["template"].get("metadata", {}).get("labels")
        if selector != {} and not matches(selector, labels or {}):
            errors.append(invalid_value("spec.template.metadata.labels", labels, _MISMATCH))
        return errors + validate_template(spec["template"], "spec.template")

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """The selector never changes."""
        errors = []
        selector = new["spec"].get("selector")
        if selector != old["spec"].get("selector"):
            errors.append(invalid_value("spec.selector", selector, _IMMUTABLE))
        return self.validate_create(new) + errors

    @property
    def noun(self) -> str:
        """How messages call the kind."""
        return self.kind.kind[0].lower() + self.kind.kind[1:]

    def validate_numbers(self, spec: Obj) -> list[FieldError]:
        """Counts are not negative."""
        return [
            invalid_value(f"spec.{field}", spec[field], "must be greater than or equal to 0")
            for field in ("replicas", "minReadySeconds", "revisionHistoryLimit")
            if spec.get(field, 0) < 0
        ]


class TemplateStrategy(Strategy):
    """Pod templates that stand alone."""

    def default(self, obj: Obj) -> None:
        """Defaults of the template."""
        super().default(obj)
        default_pod_spec(obj.setdefault("template", {}).setdefault("spec", {}))

    def counts(self, new: Obj, old: Obj) -> bool:
        """Whether the template changes."""
        return bool(new.get("template") != old.get("template"))


class DeploymentStrategy(WorkloadStrategy):
    """Deployments."""

    def default(self, obj: Obj) -> None:
        """A rolling update by quarters."""
        super().default(obj)
        strategy = obj["spec"].setdefault("strategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")

    def validate_numbers(self, spec: Obj) -> list[FieldError]:
        """Counts, and a deadline longer than the readiness that it waits for."""
        errors = super().validate_numbers(spec)
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
            errors.append(
                invalid_value(
                    "spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"
                )
            )
        return errors


class ReplicaSetStrategy(WorkloadStrategy):
    """Replica sets."""


class StatefulSetStrategy(WorkloadStrategy):
    """Stateful sets."""

    noun = "statefulset"

    def default(self, obj: Obj) -> None:
        """Rolling update without partition; claims as claims of their own."""
        super().default(obj)
        spec = obj["spec"]
        strategy = spec.setdefault("updateStrategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        for claim in spec.get("volumeClaimTemplates", ()):
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("status", {}).setdefault("phase", "Pending")


class DaemonSetStrategy(WorkloadStrategy):
    """Daemon sets."""

    noun = "daemonset"

    def default(self, obj: Obj) -> None:
        """One node at a time."""
        super().default(obj)
        strategy = obj["spec"].setdefault("updateStrategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)

    def prepare_create(self, obj: Obj) -> None:
        """The template's own generation starts with the set."""
        super().prepare_create(obj)
        annotations = obj["metadata"].setdefault("annotations", {})
        annotations.setdefault(_TEMPLATE_GENERATION, "1")

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """The template's own generation counts its changes."""
        super().prepare_update(new, old)
        before = old["metadata"].get("annotations", {}).get(_TEMPLATE_GENERATION, "0")
        number = int(before) if before.isdigit() else 0
        if new["spec"].get("template") != old["spec"].get("template"):
            number += 1
        if number:
            new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(number)


class ControllerStrategy(WorkloadStrategy):
    """Replication controllers: the selector is a mapping, and comes from the template."""

    default_propagation = "Orphan"

    def default(self, obj: Obj) -> None:
        """Selector and labels are the template's labels where they are not given."""
        super().default(obj)
        spec = obj["spec"]
        labels = spec["template"].get("metadata", {}).get("labels", {})
        if labels:
            if not spec.get("selector"):
                spec["selector"] = clone(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = clone(labels)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Selector, template, numbers."""
        spec = obj["spec"]
        errors = self.validate_numbers(spec)
        selector = spec.get("selector")
        if not selector:
            errors.append(required("spec.selector"))
        labels = spec["template"].get("metadata", {}).get("labels", {})
        if selector and not all(labels.get(key) == value for key, value in selector.items()):
            errors.append(invalid_value("spec.template.metadata.labels", labels, _MISMATCH))
        return errors + validate_template(spec["template"], "spec.template")

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Its selector may change."""
        del old
        return self.validate_create(new)
