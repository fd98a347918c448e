"""ControllerRevisions: the history of the pod templates of StatefulSets and DaemonSets.

Source: kube-controller-manager, history/controller_history.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.api_errors import StatusError, ignore_not_found
from pytest_kwait.simulator.controllers.controller_refs import make_controller_ref
from pytest_kwait.simulator.controllers.pod_control import safe_encode_string
from pytest_kwait.simulator.objects import Obj, clone, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager

REVISIONS = "controllerrevisions.apps"
HASH_LABEL = "controller.kubernetes.io/hash"

_MAX_PREFIX_LENGTH = 223

# Go's encoder escapes these in every string.
_ESCAPED = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def make_template_patch(template: Obj) -> Obj:
    """Return a revision's data: a patch that restores this template."""
    return {"spec": {"template": {**clone(template), "$patch": "replace"}}}


def compute_revision_hash(data: Any, collisions: int) -> str:
    """Return the hash in a revision's name, the same as a real cluster's.

    Source: kube-controller-manager, history/controller_history.go, `HashControllerRevision`.
    """
    text = msgspec.json.encode(data, order="sorted")
    for sign, escape in _ESCAPED:
        text = text.replace(sign, escape)
    value = 0x811C9DC5
    for byte in text + str(collisions).encode():
        value = ((value * 0x01000193) & 0xFFFFFFFF) ^ byte
    return safe_encode_string(str(value))


def make_revision_name(prefix: str, digest: str) -> str:
    """Return the name of an object's revision.

    Source: kube-controller-manager, history/controller_history.go, `ControllerRevisionName`.
    """
    return f"{prefix[:_MAX_PREFIX_LENGTH]}-{digest}"


def new_revision(
    parent: Obj, kind: tuple[str, str], number: int, name: str, labels: dict[str, str]
) -> Obj:
    """Return a revision of the parent's pod template, not created yet.

    Args:
        parent: the StatefulSet or DaemonSet.
        kind: its `apiVersion` and `kind`.
        number: the revision's number.
        name: the revision's name.
        labels: added to the template's labels.

    Source: kube-controller-manager, history/controller_history.go, `NewControllerRevision`.
    """
    template = parent["spec"]["template"]
    return {
        "metadata": {
            "name": name,
            "namespace": namespace_of(parent),
            "labels": {**((template.get("metadata") or {}).get("labels") or {}), **labels},
            "annotations": dict(parent["metadata"].get("annotations") or {}),
            "ownerReferences": [make_controller_ref(parent, *kind)],
        },
        "data": make_template_patch(template),
        "revision": number,
    }


def sort_revisions(revisions: Iterable[Obj]) -> list[Obj]:
    """Return the revisions by number, the latest last."""
    return sorted(
        revisions,
        key=lambda revision: (
            revision["revision"],
            revision["metadata"]["creationTimestamp"],
            name_of(revision),
        ),
    )


def find_equal_revisions(revisions: Iterable[Obj], data: Obj) -> list[Obj]:
    """Return the revisions with these data, in their order."""
    return [revision for revision in revisions if revision["data"] == data]


def next_revision_number(revisions: Sequence[Obj]) -> int:
    """Return one more than the highest number."""
    return 1 + max((int(revision["revision"]) for revision in revisions), default=0)


class ControllerHistory:
    """Lists, creates, renumbers and deletes the revisions of objects of one kind.

    Args:
        revisions: the cluster's ControllerRevisions by owner.
        kind: `apiVersion` and `kind` of the owners.

    Source: kube-controller-manager, history/controller_history.go, `realHistory`.
    """

    def __init__(
        self, cluster: Cluster, revisions: ControllerRefManager, kind: tuple[str, str]
    ) -> None:
        self._cluster = cluster
        self._revisions = revisions
        self._kind = kind

    def list_revisions(self, parent: Obj) -> list[Obj]:
        """Return the parent's revisions by number; orphans with its labels are adopted."""
        selector = parent["spec"]["selector"]
        return sort_revisions(self._revisions.claim(parent, *self._kind, selector))

    def create_revision(self, revision: Obj) -> Obj:
        """Create a revision, or return the existing one of this name and these data.

        Raises:
            StatusError: `AlreadyExists`, when a revision with other data has the name.
        """
        namespace = namespace_of(revision)
        try:
            return self._cluster.create(REVISIONS, revision, namespace)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            existing = self._cluster.get(REVISIONS, name_of(revision), namespace)
            if existing["data"] != revision["data"]:
                raise
            return existing

    def create_with_unique_name(self, parent: Obj, number: int, collisions: int) -> tuple[Obj, int]:
        """Create the revision of the parent's template under the first free name.

        Args:
            number: the revision's number.
            collisions: the number of name collisions so far.

        Returns:
            The revision, and the number of collisions with those of this call.

        Source: `CreateControllerRevision`; the hash in the label stays that of the first name.
        """
        data = make_template_patch(parent["spec"]["template"])
        labels = {HASH_LABEL: compute_revision_hash(data, collisions)}
        while True:
            name = make_revision_name(name_of(parent), compute_revision_hash(data, collisions))
            revision = new_revision(parent, self._kind, number, name, labels)
            try:
                return self.create_revision(revision), collisions
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
                collisions += 1

    def update_revision(self, revision: Obj, number: int) -> Obj:
        """Set a revision's number if it differs; return the revision."""
        if revision["revision"] == number:
            return revision

        def renumber(changed: Obj) -> None:
            changed["revision"] = number

        return self._cluster.modify(REVISIONS, name_of(revision), namespace_of(revision), renumber)

    def delete_revision(self, revision: Obj) -> None:
        """Delete a revision unless it is gone already."""
        with ignore_not_found():
            self._cluster.delete(REVISIONS, name_of(revision), namespace_of(revision))

    def truncate(
        self, revisions: Iterable[Obj], surplus: int, is_live: Callable[[Obj], bool]
    ) -> None:
        """Delete the `surplus` oldest revisions that are not live."""
        unused = [revision for revision in sort_revisions(revisions) if not is_live(revision)]
        for revision in unused[: max(0, surplus)]:
            self.delete_revision(revision)
