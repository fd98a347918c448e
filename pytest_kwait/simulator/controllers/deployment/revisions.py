"""The ReplicaSet of the present template, and the revision numbers of all of them."""

from __future__ import annotations

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.conditions import get_condition
from pytest_kwait.simulator.controllers.controller_refs import make_controller_ref
from pytest_kwait.simulator.controllers.deployment import deployment_util
from pytest_kwait.simulator.controllers.deployment.view import (
    KIND,
    REPLICA_SET_RESOURCE,
    DeploymentView,
)
from pytest_kwait.simulator.controllers.pod_control import is_namespace_terminating
from pytest_kwait.simulator.event_recorder import WARNING
from pytest_kwait.simulator.objects import Obj, clone, name_of, namespace_of

__all__ = ["Revisions"]


class Revisions:
    """Finds or makes the newest ReplicaSet."""

    def __init__(self, view: DeploymentView) -> None:
        self.view = view

    def sync(self, *, create: bool) -> None:
        """Find or make the ReplicaSet of the present template, and keep the revision numbers.

        Source: kube-controller-manager, sync.go, `getNewReplicaSet`.
        """
        number = deployment_util.calculate_next_revision(self.view.old_sets)
        if self.view.new_set is not None:
            self._update_new_set(number)
        elif create:
            self._create_new_set(number)

    def _update_new_set(self, number: int) -> None:
        new_set = clone(self.view.new_set)
        annotations = new_set["metadata"].setdefault("annotations", {})
        annotations.update(deployment_util.select_annotations(self.view.deployment))
        last = deployment_util.get_revision(new_set)
        if last < number:
            if last:
                history = annotations.get(deployment_util.REVISION_HISTORY)
                annotations[deployment_util.REVISION_HISTORY] = (
                    f"{history},{last}" if history else str(last)
                )
            annotations[deployment_util.REVISION] = str(number)
        min_ready = self.view.deployment["spec"].get("minReadySeconds")
        if min_ready:
            new_set["spec"]["minReadySeconds"] = min_ready
        else:
            new_set["spec"].pop("minReadySeconds", None)
        if new_set != self.view.new_set:
            # Upstream has a conflict with its own write here, and goes on in the next try.
            new_set = self.view.new_set = self.view.api.update(REPLICA_SET_RESOURCE, new_set)
        changed = self._set_revision(deployment_util.get_revision(new_set))
        if (
            deployment_util.get_progress_deadline(self.view.deployment) is not None
            and get_condition(self.view.deployment, "Progressing") is None
        ):
            message = f'Found new replica set "{name_of(new_set)}"'
            self.view.write_condition("True", "FoundNewReplicaSet", message)
        elif changed:
            self.view.write()

    def _set_revision(self, number: int) -> bool:
        annotations = self.view.deployment["metadata"].setdefault("annotations", {})
        if annotations.get(deployment_util.REVISION) == str(number):
            return False
        annotations[deployment_util.REVISION] = str(number)
        return True

    def _create_new_set(self, number: int) -> None:
        deployment, spec = self.view.deployment, self.view.deployment["spec"]
        status = deployment.get("status") or {}
        digest = deployment_util.compute_template_hash(
            spec["template"], status.get("collisionCount") or 0
        )
        template = clone(spec["template"])
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels[deployment_util.HASH_LABEL] = digest
        selector = clone(spec["selector"])
        selector.setdefault("matchLabels", {})[deployment_util.HASH_LABEL] = digest
        count = deployment_util.calculate_new_replicas(deployment, self.view.old_sets, None)
        surge, _ = deployment_util.resolve_fenceposts(deployment)
        annotations = {
            **deployment_util.select_annotations(deployment),
            deployment_util.DESIRED_REPLICAS: str(deployment_util.get_desired_replicas(deployment)),
            deployment_util.MAX_REPLICAS: str(
                deployment_util.get_desired_replicas(deployment) + surge
            ),
            deployment_util.REVISION: str(number),
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
        if deployment_util.get_progress_deadline(deployment) is not None:
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
            if deployment_util.get_progress_deadline(self.view.deployment) is not None:
                self.view.write_condition("False", "ReplicaSetCreateError", message)
            self.view.recorder.event(
                self.view.deployment, KIND, WARNING, "ReplicaSetCreateError", message
            )
