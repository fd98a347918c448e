"""The ReplicaSet of the present template, and the revision numbers of all of them."""

from __future__ import annotations

from pytest_kwait.simulator.conditions import get_condition
from pytest_kwait.simulator.controllers.deployments import arithmetic
from pytest_kwait.simulator.controllers.deployments.view import (
    KIND,
    REPLICA_SET_RESOURCE,
    DeploymentView,
)
from pytest_kwait.simulator.controllers.ownership import make_controller_ref
from pytest_kwait.simulator.controllers.pods import is_namespace_terminating
from pytest_kwait.simulator.events import WARNING
from pytest_kwait.simulator.objects import Obj, clone, name_of, namespace_of
from pytest_kwait.simulator.status_error import StatusError

__all__ = ["Revisions"]


class Revisions:
    """Finds or makes the newest ReplicaSet."""

    def __init__(self, view: DeploymentView) -> None:
        self.view = view

    def sync(self, *, create: bool) -> None:
        """Find or make the ReplicaSet of the present template, and keep the revision numbers.

        Source: kube-controller-manager, sync.go, `getNewReplicaSet`.
        """
        number = arithmetic.calculate_next_revision(self.view.old_sets)
        if self.view.new_set is not None:
            self._update_new_set(number)
        elif create:
            self._create_new_set(number)

    def _update_new_set(self, number: int) -> None:
        new_set = clone(self.view.new_set)
        annotations = new_set["metadata"].setdefault("annotations", {})
        annotations.update(arithmetic.select_annotations(self.view.deployment))
        last = arithmetic.get_revision(new_set)
        if last < number:
            if last:
                history = annotations.get(arithmetic.REVISION_HISTORY)
                annotations[arithmetic.REVISION_HISTORY] = (
                    f"{history},{last}" if history else str(last)
                )
            annotations[arithmetic.REVISION] = str(number)
        min_ready = self.view.deployment["spec"].get("minReadySeconds")
        if min_ready:
            new_set["spec"]["minReadySeconds"] = min_ready
        else:
            new_set["spec"].pop("minReadySeconds", None)
        if new_set != self.view.new_set:
            # Upstream has a conflict with its own write here, and goes on in the next try.
            new_set = self.view.new_set = self.view.api.update(REPLICA_SET_RESOURCE, new_set)
        changed = self._set_revision(arithmetic.get_revision(new_set))
        if (
            arithmetic.get_progress_deadline(self.view.deployment) is not None
            and get_condition(self.view.deployment, "Progressing") is None
        ):
            message = f'Found new replica set "{name_of(new_set)}"'
            self.view.write_condition("True", "FoundNewReplicaSet", message)
        elif changed:
            self.view.write()

    def _set_revision(self, number: int) -> bool:
        annotations = self.view.deployment["metadata"].setdefault("annotations", {})
        if annotations.get(arithmetic.REVISION) == str(number):
            return False
        annotations[arithmetic.REVISION] = str(number)
        return True

    def _create_new_set(self, number: int) -> None:
        deployment, spec = self.view.deployment, self.view.deployment["spec"]
        status = deployment.get("status") or {}
        digest = arithmetic.compute_template_hash(
            spec["template"], status.get("collisionCount") or 0
        )
        template = clone(spec["template"])
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[arithmetic.HASH_LABEL] = digest
        selector = clone(spec["selector"])
        selector.setdefault("matchLabels", {})[arithmetic.HASH_LABEL] = digest
        count = arithmetic.calculate_new_replicas(deployment, self.view.old_sets, None)
        surge, _ = arithmetic.resolve_fenceposts(deployment)
        annotations = {
            **arithmetic.select_annotations(deployment),
            arithmetic.DESIRED_REPLICAS: str(arithmetic.get_desired_replicas(deployment)),
            arithmetic.MAX_REPLICAS: str(arithmetic.get_desired_replicas(deployment) + surge),
            arithmetic.REVISION: str(number),
        }
        new_set: Obj = {
            "metadata": {
                "name": f"{name_of(deployment)}-{digest}",
                "namespace": namespace_of(deployment),
                "labels": dict(labels),
                "annotations": annotations,
                "ownerReferences": [make_controller_ref(deployment, *KIND)],
            },
            "spec": {"replicas": count, "selector": selector, "template": template},
        }
        if spec.get("minReadySeconds"):
            new_set["spec"]["minReadySeconds"] = spec["minReadySeconds"]
        try:
            self.view.new_set = self.view.api.create(
                REPLICA_SET_RESOURCE, new_set, namespace_of(deployment)
            )
        except StatusError as error:
            self._creation_refused(error, name_of(new_set))
            raise
        if count > 0:
            self.view.tell(f"Scaled up replica set {name_of(self.view.new_set)} from 0 to {count}")
        self._set_revision(number)
        if arithmetic.get_progress_deadline(deployment) is not None:
            message = f'Created new replica set "{name_of(self.view.new_set)}"'
            self.view.write_condition("True", "NewReplicaSetCreated", message)
        else:
            self.view.write()

    def _creation_refused(self, error: StatusError, name: str) -> None:
        if error.reason == "AlreadyExists":
            # Another template has this name: the next try computes another one.
            status = self.view.deployment.setdefault("status", {})
            status["collisionCount"] = (status.get("collisionCount") or 0) + 1
            self.view.write()
        elif not is_namespace_terminating(error):
            message = f'Failed to create new replica set "{name}": {error.message}'
            if arithmetic.get_progress_deadline(self.view.deployment) is not None:
                self.view.write_condition("False", "ReplicaSetCreateError", message)
            self.view.recorder.event(
                self.view.deployment, KIND, WARNING, "ReplicaSetCreateError", message
            )
