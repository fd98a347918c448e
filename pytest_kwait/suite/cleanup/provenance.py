"""Whose an object is, as its own labels and annotations say, and whether they are to be believed.

Labels alone prove nothing: people copy them. What a run makes carries hashes of run and test as
labels, the same to read as annotations, and a seal over all of it and the object's own place and
name. What does not fit together belongs to somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pytest_kwait.suite.cleanup.belongings import with_metadata
from pytest_kwait.suite.cleanup.owned_objects import (
    ANNOTATION_PREFIX,
    LABEL_OWNER,
    LABEL_RUN,
    Owner,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.client.resource import Resource

__all__ = ["Provenance", "parse_time", "read_provenance", "with_seal"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who made an object.

    Args:
        owner: whose it is; without the title, which is not noted.
        heartbeat: namespace/name of the Lease that says whether the run lives; empty where the
            run could not make one.
        kept: whether it was left on purpose.
        expires: seconds since the epoch after which it may go in any case.
    """

    owner: Owner
    heartbeat: str
    kept: bool
    expires: float


def with_seal(
    owner: Owner,
    resource: Resource,
    obj: Mapping[str, Any],
    namespace: str | None,
    now: float,
    heartbeat: str = "",
) -> dict[str, Any]:
    """Return a copy of an object with the labels, annotations and seal of an owner.

    Args:
        owner: whose it is to be.
        resource: its kind.
        obj: the object, with a name or what to generate one from.
        namespace: where it is to be; None for cluster-scoped kinds.
        now: seconds since the epoch.
        heartbeat: namespace/name of the run's Lease; empty for none.
    """
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or f"{metadata.get('generateName')}*"
    notes = owner.annotations(now, heartbeat)
    notes[ANNOTATION_PREFIX + "seal"] = owner.seal(resource, namespace, name)
    return with_metadata(obj, owner.labels, notes)


def read_provenance(resource: Resource, obj: Mapping[str, Any]) -> Provenance | None:
    """Return who made an object; None unless everything that it says of itself fits together.

    Args:
        resource: its kind.
        obj: the object as the server has it.
    """
    metadata = obj.get("metadata") or {}
    labels = metadata.get("labels") or {}
    notes = metadata.get("annotations") or {}
    attempt = str(notes.get(ANNOTATION_PREFIX + "attempt", ""))
    expires = parse_time(notes.get(ANNOTATION_PREFIX + "expires"))
    if not attempt.isdecimal() or expires is None:
        return None
    owner = Owner(
        str(notes.get(ANNOTATION_PREFIX + "run", "")),
        str(notes.get(ANNOTATION_PREFIX + "test", "")),
        "",
        worker=str(notes.get(ANNOTATION_PREFIX + "worker", "")),
        shard=str(notes.get(ANNOTATION_PREFIX + "shard", "")),
        attempt=int(attempt),
        nonce=str(notes.get(ANNOTATION_PREFIX + "nonce", "")),
    )
    if any(labels.get(name) != owner.labels[name] for name in (LABEL_RUN, LABEL_OWNER)):
        return None
    name, prefix = str(metadata.get("name", "")), metadata.get("generateName")
    names = [name, *([f"{prefix}*"] if prefix and name.startswith(prefix) else [])]
    seals = {owner.seal(resource, metadata.get("namespace"), each) for each in names}
    if notes.get(ANNOTATION_PREFIX + "seal") not in seals:
        return None
    return Provenance(
        owner,
        str(notes.get(ANNOTATION_PREFIX + "heartbeat", "")),
        notes.get(ANNOTATION_PREFIX + "kept") == "true",
        expires,
    )


def parse_time(text: object) -> float | None:
    """Return a time of the API as seconds since the epoch; None for what is none."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None
