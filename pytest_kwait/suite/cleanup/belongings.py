"""What a bench made outside of a namespace of its own, and how that goes away again.

What lies in a namespace that the run made goes with it. Everything else - cluster-scoped objects,
objects in other namespaces - is remembered by UID when it is made, carries the run's label, and is
deleted last made first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_kwait.client.resource import REPLICATION_CONTROLLERS
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import Session
    from pytest_kwait.client.write_options import Propagation
    from pytest_kwait.clock import Deadline

__all__ = ["CreatedObject", "CreatedObjects", "delete_by_uid", "with_metadata"]


@dataclass(frozen=True, slots=True)
class CreatedObject:
    """One object that must be deleted.

    Args:
        resource: its kind.
        namespace: where it is; None for cluster-scoped kinds.
        name: its name.
        uid: its identity: a namesake made by somebody else stays.
    """

    resource: Resource
    namespace: str | None
    name: str
    uid: str

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.resource.kind.lower()}/{self.name}{where}"


class CreatedObjects:
    """Objects to delete at the end, last made first.

    Args:
        session: the requests.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._objects: list[CreatedObject] = []

    def add(self, resource: Resource, obj: Mapping[str, Any]) -> None:
        """Remember an object as the server returned it."""
        metadata = obj["metadata"]
        self.remember(
            CreatedObject(resource, metadata.get("namespace"), metadata["name"], metadata["uid"])
        )

    def remember(self, belonging: CreatedObject) -> None:
        """Remember an object by its identity."""
        if belonging not in self._objects:
            self._objects.append(belonging)

    def __len__(self) -> int:
        return len(self._objects)

    def delete(
        self,
        deadline: Callable[[], Deadline],
        see_off: Callable[[CreatedObject], None] | None = None,
    ) -> list[str]:
        """Ask for the deletion of everything that was added; forgets what is on its way.

        Args:
            deadline: makes the limit of one request.
            see_off: called with what is not gone at once, before what was made before it is asked
                to go; with what it owns it goes then as a whole. None to wait for nothing.

        Returns:
            what could not be deleted, each with its reason.
        """
        problems = []
        while self._objects:
            belonging = self._objects.pop()
            policy: Propagation = "Background"
            if see_off is not None and _may_have_dependents(belonging.resource):
                policy = "Foreground"
            problem, stays = _request_deletion(self._session, belonging, deadline(), policy)
            if problem is not None:
                problems.append(f"{belonging}: {problem}")
            elif stays and see_off is not None:
                see_off(belonging)
        return problems

    def keep(self, notes: Mapping[str, str], deadline: Callable[[], Deadline]) -> list[str]:
        """Leave everything that was added, with a note on each; forget it.

        Args:
            notes: the annotations to add.
            deadline: makes the limit of one request.

        Returns:
            what could not be noted, each with its reason.
        """
        problems = []
        while self._objects:
            belonging = self._objects.pop()
            # The UID holds the note off a namesake of somebody else.
            change = {"metadata": {"uid": belonging.uid, "annotations": notes}}
            try:
                request_with_retry(partial(self._note, belonging, change), deadline())
            except ApiError as error:
                if error.status not in (404, 409):
                    problems.append(f"{belonging}: {error}")
            except DeadlineExceeded as error:
                problems.append(f"{belonging}: {error}")
        return problems

    def _note(
        self, belonging: CreatedObject, change: Mapping[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        return self._session.patch(
            belonging.resource, belonging.name, change, belonging.namespace, deadline=deadline
        )


def delete_by_uid(session: Session, belonging: CreatedObject, deadline: Deadline) -> str | None:
    """Ask for the deletion of one object; None if it is on its way or gone, else what kept it."""
    return _request_deletion(session, belonging, deadline, "Background")[0]


def _request_deletion(
    session: Session, belonging: CreatedObject, deadline: Deadline, policy: Propagation
) -> tuple[str | None, bool]:
    """Return what kept an object from going, and whether it was still there on its way."""
    try:
        answer = request_with_retry(
            lambda deadline: session.delete(
                belonging.resource,
                belonging.name,
                belonging.namespace,
                uid=belonging.uid,
                propagation_policy=policy,
                deadline=deadline,
            ),
            deadline,
        )
    except ApiError as error:
        # Gone already, or a namesake with another UID, which is not ours.
        return None if error.status in (404, 409) else str(error), False
    except DeadlineExceeded as error:
        return str(error), False
    return None, bool((answer.get("metadata") or {}).get("deletionTimestamp"))


def _may_have_dependents(resource: Resource) -> bool:
    """Whether objects of a kind may have others that go with them: workloads, custom resources."""
    if resource == REPLICATION_CONTROLLERS or resource.group in ("apps", "batch"):
        return True
    return "." in resource.group and not resource.group.endswith(".k8s.io")


def with_metadata(
    obj: Mapping[str, Any], labels: Mapping[str, str], notes: Mapping[str, str]
) -> dict[str, Any]:
    """Return a copy of an object with labels and annotations added to its own."""
    metadata = dict(obj.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **notes}
    return {**obj, "metadata": metadata}
