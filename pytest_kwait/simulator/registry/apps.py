"""Strategies of kinds with a pod template: apps, replication controllers, pod templates.

Source: pkg/apis/apps/v1/defaults.go, pkg/apis/core/v1/defaults.go,
pkg/registry/{apps,core}/*/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.registry.pod_defaults import default_pod_spec, drop_disabled_fields
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.apps import (
    validate_daemon_set_spec,
    validate_daemon_set_spec_update,
    validate_deployment_spec,
    validate_immutable_selector,
    validate_replica_set_spec,
    validate_replication_controller_spec,
    validate_stateful_set_spec,
    validate_stateful_set_spec_update,
    validate_status_counts,
)
from pytest_kwait.simulator.validation.core.pods.pod_spec import validate_pod_template_spec
from pytest_kwait.simulator.validation.core.pods.warnings import get_name_warnings, get_pod_warnings
from pytest_kwait.simulator.validation.field_errors import ErrorList

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = [
    "DaemonSetStrategy",
    "DeploymentStrategy",
    "PodTemplateStrategy",
    "ReplicaSetStrategy",
    "ReplicationControllerStrategy",
    "StatefulSetStrategy",
    "WorkloadStrategy",
]

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class WorkloadStrategy(Strategy):
    """The base of workloads with a selector and a pod template."""

    names_hosts = True
    """Whether the server warns of names that are none of hosts."""

    def default(self, obj: Obj) -> None:
        """Defaults of the template."""
        super().default(obj)
        template = obj.setdefault("spec", {}).setdefault("template", {})
        default_pod_spec(template.setdefault("spec", {}))

    def prepare_create(self, obj: Obj) -> None:
        """Drop disabled fields of the template."""
        super().prepare_create(obj)
        drop_disabled_fields(obj["spec"].get("template", {}).get("spec", {}))

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Drop disabled fields of the template."""
        drop_disabled_fields(new["spec"].get("template", {}).get("spec", {}))
        super().prepare_update(new, old)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate selector, template and counts."""
        return self.check(obj["spec"])

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; the selector must not change."""
        if new["spec"] == old["spec"]:
            return []
        return self.check_change(new["spec"], old["spec"])

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate the counts."""
        return validate_status_counts(self.kind.kind, new, old)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of the name and of the template."""
        if self.names_hosts:
            for text in get_name_warnings(obj, "Pod names and hostnames"):
                caller.warn(text)
        self._warn_template(obj, caller)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of the template if the spec changed."""
        if new["metadata"].get("generation") != old["metadata"].get("generation"):
            self._warn_template(new, caller)

    def _warn_template(self, obj: Obj, caller: Caller) -> None:
        template = obj["spec"].get("template", {})
        metadata = template.get("metadata", {})
        for text in get_pod_warnings(template.get("spec", {}), metadata, "spec.template"):
            caller.warn(text)

    def check(self, spec: Obj) -> ErrorList:
        """Validate a spec."""
        raise NotImplementedError

    def check_change(self, spec: Obj, before: Obj) -> ErrorList:
        """Validate a change of a spec."""
        return ErrorList([*self.check(spec), *validate_immutable_selector(spec, before)])


class PodTemplateStrategy(Strategy):
    """Pod templates that stand alone."""

    def default(self, obj: Obj) -> None:
        """Defaults of the template."""
        super().default(obj)
        default_pod_spec(obj.setdefault("template", {}).setdefault("spec", {}))

    def prepare_create(self, obj: Obj) -> None:
        """Drop disabled fields of the template."""
        super().prepare_create(obj)
        drop_disabled_fields(obj["template"]["spec"])

    def counts(self, new: Obj, old: Obj) -> bool:
        """Return whether the template changes."""
        return bool(new.get("template") != old.get("template"))

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the template."""
        return validate_pod_template_spec(obj["template"], "template")

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of the template."""
        template = obj["template"]
        for text in get_pod_warnings(template["spec"], template.get("metadata", {}), "template"):
            caller.warn(text)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of a changed template."""
        if new["template"] != old["template"]:
            self.warn_create(new, caller)


class DeploymentStrategy(WorkloadStrategy):
    """Deployments."""

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

    def counts(self, new: Obj, old: Obj) -> bool:
        """Count annotations, too: a rollback is written there."""
        annotations, before = (one["metadata"].get("annotations") or {} for one in (new, old))
        return bool(annotations != before) or super().counts(new, old)

    def prepare_status(self, new: Obj, old: Obj) -> None:
        """Labels are not written with the status."""
        super().prepare_status(new, old)
        if "labels" in old["metadata"]:
            new["metadata"]["labels"] = old["metadata"]["labels"]
        else:
            new["metadata"].pop("labels", None)

    def check(self, spec: Obj) -> ErrorList:
        """Validate a spec."""
        return validate_deployment_spec(spec)


class ReplicaSetStrategy(WorkloadStrategy):
    """Replica sets."""

    def check(self, spec: Obj) -> ErrorList:
        """Validate a spec."""
        return validate_replica_set_spec(spec)


class StatefulSetStrategy(WorkloadStrategy):
    """Stateful sets."""

    names_hosts = False

    def default(self, obj: Obj) -> None:
        """Rolling update without partition; claims as claims of their own."""
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

    def prepare_create(self, obj: Obj) -> None:
        """Nothing that a server does not know."""
        super().prepare_create(obj)
        obj["spec"]["updateStrategy"].get("rollingUpdate", {}).pop("maxUnavailable", None)

    def check(self, spec: Obj) -> ErrorList:
        """Validate a spec."""
        return validate_stateful_set_spec(spec)

    def check_change(self, spec: Obj, before: Obj) -> ErrorList:
        """Validate a change of a spec."""
        return validate_stateful_set_spec_update(spec, before)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Of a history without end too."""
        super().warn_create(obj, caller)
        if obj["spec"].get("revisionHistoryLimit", 0) < 0:
            caller.warn(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a "
                "value >= 0 is recommended"
            )


class DaemonSetStrategy(WorkloadStrategy):
    """Daemon sets."""

    names_hosts = False

    def default(self, obj: Obj) -> None:
        """One node at a time."""
        super().default(obj)
        strategy = obj["spec"].setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
        for field in ("maxUnavailable", "maxSurge") if "rollingUpdate" in strategy else ():
            strategy["rollingUpdate"].setdefault(field, 0)

    def prepare_create(self, obj: Obj) -> None:
        """The template's own generation starts with the set."""
        super().prepare_create(obj)
        annotations = obj["metadata"].setdefault("annotations", {})
        annotations.setdefault(_TEMPLATE_GENERATION, "1")

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """The template's own generation counts its changes."""
        super().prepare_update(new, old)
        known = old["metadata"].get("annotations", {}).get(_TEMPLATE_GENERATION, "0")
        generation = (int(known) if known.isdigit() else 0) + (
            new["spec"]["template"] != old["spec"]["template"]
        )
        annotations = new["metadata"].setdefault("annotations", {})
        annotations[_TEMPLATE_GENERATION] = str(generation)

    def check(self, spec: Obj) -> ErrorList:
        """Validate a spec."""
        return validate_daemon_set_spec(spec)

    def check_change(self, spec: Obj, before: Obj) -> ErrorList:
        """Validate a change of a spec."""
        return validate_daemon_set_spec_update(spec, before)


class ReplicationControllerStrategy(WorkloadStrategy):
    """Replication controllers: the selector is a map and defaults to the template's labels."""

    default_propagation = "Orphan"

    def default(self, obj: Obj) -> None:
        """Selector and labels are the template's labels where they are not given."""
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

    def check(self, spec: Obj) -> ErrorList:
        """Validate a spec."""
        return validate_replication_controller_spec(spec)

    def check_change(self, spec: Obj, before: Obj) -> ErrorList:
        """Its selector may change."""
        del before
        return self.check(spec)
