"""The templates that a DaemonSet has had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_history import (
    REVISIONS,
    make_template_patch,
    next_revision_number,
    sort_revisions,
    update_revision_number,
)
from pytest_kwait.simulator.controllers.controller_refs import make_controller_ref
from pytest_kwait.simulator.controllers.deployment.deployment_util import compute_template_hash
from pytest_kwait.simulator.controllers.placement import HASH_LABEL, KIND
from pytest_kwait.simulator.objects import Obj, labels_of, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager

__all__ = ["Revisions"]

_SETS = "daemonsets.apps"


class Revisions:
    """Finds or makes them.

    Args:
        api: the cluster.
        revisions: its ControllerRevisions by owner.

    Source: kube-controller-manager, daemon/update.go, `constructHistory`, `cleanupHistory`.
    """

    def __init__(self, api: SimulatedCluster, revisions: ControllerRefManager) -> None:
        self._api = api
        self._revisions = revisions

    def of(self, daemon_set: Obj) -> tuple[Obj, list[Obj]]:
        """Return the revision of the present template, and the others.

        Raises:
            StatusError: there is another one by its name, and the next try finds another name.
        """
        found = self._revisions.claim(daemon_set, *KIND, daemon_set["spec"]["selector"])
        data = make_template_patch(daemon_set["spec"]["template"])
        same = sort_revisions(one for one in found if one["data"] == data)
        old = [one for one in found if one["data"] != data]
        number = next_revision_number(old)
        if not same:
            return self._create(daemon_set, data, number), old
        *duplicates, current = same
        for duplicate in duplicates:
            self._delete(duplicate)
        return update_revision_number(self._api, current, max(number, current["revision"])), old

    def _create(self, daemon_set: Obj, data: Obj, number: int) -> Obj:
        collisions = (daemon_set.get("status") or {}).get("collisionCount") or 0
        template, namespace = daemon_set["spec"]["template"], namespace_of(daemon_set)
        digest = compute_template_hash(template, collisions)
        labels = (template.get("metadata") or {}).get("labels") or {}
        name = f"{name_of(daemon_set)}-{digest}"
        revision = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {**labels, HASH_LABEL: digest},
                "annotations": dict(daemon_set["metadata"].get("annotations") or {}),
                "ownerReferences": [make_controller_ref(daemon_set, *KIND)],
            },
            "data": data,
            "revision": number,
        }
        try:
            return self._api.create(REVISIONS, revision, namespace)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                self._collided(daemon_set, collisions)
            raise

    def _collided(self, daemon_set: Obj, collisions: int) -> None:
        status = {**(daemon_set.get("status") or {}), "collisionCount": collisions + 1}
        self._api.update_status(_SETS, {**daemon_set, "status": status})

    def _delete(self, revision: Obj) -> None:
        try:
            self._api.delete(REVISIONS, name_of(revision), namespace_of(revision))
        except StatusError as error:
            if error.reason != "NotFound":
                raise

    def clean_up(self, daemon_set: Obj, old: list[Obj], pods: Iterable[Obj]) -> None:
        """Remove the oldest revisions beyond the limit that no pod is of."""
        surplus = len(old) - daemon_set["spec"].get("revisionHistoryLimit", 10)
        live = {labels_of(pod).get(HASH_LABEL) for pod in pods} if surplus > 0 else set()
        for revision in sort_revisions(old):
            if surplus <= 0:
                break
            if labels_of(revision).get(HASH_LABEL) not in live:
                self._delete(revision)
                surplus -= 1
