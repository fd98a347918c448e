"""The templates that a StatefulSet has had: the one it leaves and the one it is to have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_history import (
    REVISIONS,
    compute_revision_hash,
    list_surplus_revisions,
    make_template_patch,
    next_revision_number,
    sort_revisions,
    update_revision_number,
)
from pytest_kwait.simulator.controllers.controller_refs import make_controller_ref
from pytest_kwait.simulator.controllers.statefulset.stateful_pod_control import (
    KIND,
    get_pod_revision,
)
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager

__all__ = ["Revisions", "SetRevisions"]

_HASH = "controller.kubernetes.io/hash"
_MAX_NAME_LENGTH = 223


@dataclass(frozen=True, slots=True)
class SetRevisions:
    """What a set has and is to have.

    Args:
        current: the revision that it leaves.
        update: the revision that it is to have.
        collisions: how many names of revisions were taken.
        known: all revisions that were there.
    """

    current: Obj
    update: Obj
    collisions: int
    known: list[Obj]


class Revisions:
    """Finds or makes them.

    Args:
        api: the cluster.
        revisions: its ControllerRevisions by owner.

    Source: kube-controller-manager, statefulset/stateful_set_control.go,
    `getStatefulSetRevisions`, `truncateHistory`.
    """

    def __init__(self, api: SimulatedCluster, revisions: ControllerRefManager) -> None:
        self._api = api
        self._revisions = revisions

    def of(self, stateful_set: Obj) -> SetRevisions:
        """Return the revisions of a set, the one of its present template among them."""
        status = stateful_set.get("status") or {}
        known = sort_revisions(
            self._revisions.claim(stateful_set, *KIND, stateful_set["spec"]["selector"])
        )
        data, collisions = make_template_patch(stateful_set["spec"]["template"]), 0
        collisions = status.get("collisionCount") or 0
        same = [one for one in known if one["data"] == data]
        if same and known[-1] is same[-1]:
            update = known[-1]
        elif same:
            update = update_revision_number(self._api, same[-1], next_revision_number(known))
        else:
            update, collisions = self._create(
                stateful_set, data, next_revision_number(known), collisions
            )
        named = [one for one in known if name_of(one) == status.get("currentRevision")]
        return SetRevisions(named[0] if named else update, update, collisions, known)

    def _create(
        self, stateful_set: Obj, data: Obj, number: int, collisions: int
    ) -> tuple[Obj, int]:
        metadata, namespace = stateful_set["metadata"], namespace_of(stateful_set)
        template = stateful_set["spec"]["template"]
        while True:
            digest = compute_revision_hash(data, collisions)
            name = f"{name_of(stateful_set)[:_MAX_NAME_LENGTH]}-{digest}"
            labels = (template.get("metadata") or {}).get("labels") or {}
            revision = {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": {**labels, _HASH: digest},
                    "annotations": dict(metadata.get("annotations") or {}),
                    "ownerReferences": [make_controller_ref(stateful_set, *KIND)],
                },
                "data": data,
                "revision": number,
            }
            try:
                return self._api.create(REVISIONS, revision, namespace), collisions
            except StatusError as error:
                found = self._api.find(REVISIONS, name, namespace)
                if error.reason != "AlreadyExists" or found is None:
                    raise
                if found["data"] == data:
                    return found, collisions
                collisions += 1

    def truncate(self, stateful_set: Obj, versions: SetRevisions, pods: Iterable[Obj]) -> None:
        """Remove the oldest revisions beyond the limit that nobody is of."""
        limit = stateful_set["spec"].get("revisionHistoryLimit", 10)
        if len(versions.known) <= limit:
            return
        live = {name_of(versions.current), name_of(versions.update), *map(get_pod_revision, pods)}
        for revision in list_surplus_revisions(versions.known, live, limit):
            try:
                self._api.delete(REVISIONS, name_of(revision), namespace_of(revision))
            except StatusError as error:
                if error.reason != "NotFound":
                    raise
