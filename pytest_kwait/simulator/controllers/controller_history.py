"""ControllerRevisions: the history of a set's pod templates.

Source: kube-controller-manager, history/controller_history.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.controllers.pod_control import safe_encode_string
from pytest_kwait.simulator.objects import Obj, clone, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster

REVISIONS = "controllerrevisions.apps"

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


def sort_revisions(revisions: Iterable[Obj]) -> list[Obj]:
    """Return the revisions by number, the latest last."""
    return sorted(
        revisions,
        key=lambda one: (one["revision"], one["metadata"]["creationTimestamp"], name_of(one)),
    )


def next_revision_number(revisions: Sequence[Obj]) -> int:
    """Return one more than the highest number."""
    return 1 + max((int(one["revision"]) for one in revisions), default=0)


def update_revision_number(api: Cluster, revision: Obj, number: int) -> Obj:
    """Set a revision's number if it differs; return the revision."""
    if revision["revision"] == number:
        return revision

    def renumber(changed: Obj) -> None:
        changed["revision"] = number

    return api.modify(REVISIONS, name_of(revision), namespace_of(revision), renumber)


def list_surplus_revisions(revisions: Iterable[Obj], live: set[str], limit: int) -> list[Obj]:
    """Return the oldest revisions beyond `limit`, except those named in `live`."""
    history = [one for one in sort_revisions(revisions) if name_of(one) not in live]
    return history[: max(0, len(history) - limit)]
