"""Apply and create manifests; track the objects outside of the test's namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.client.resource import CUSTOM_RESOURCE_DEFINITIONS, split_api_version
from pytest_kwait.engine.retry import create_once, request_with_retry
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.suite.cleanup.owned_objects import CreatedObjects, kept_annotations, with_seal
from pytest_kwait.suite.cleanup.run_lease import format_kind
from pytest_kwait.suite.manifests import Document, InvalidManifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.suite.cleanup.owned_objects import CreatedObject, Owner

__all__ = ["ManifestWriter"]


class ManifestWriter:
    """Applies and creates objects; tracks those that are not deleted with the namespace.

    Args:
        namespace: the namespace of objects that name none.
        owner: the owner of objects outside of the namespace.
        owned: whether the namespace is deleted with everything in it.
        deadline: returns the deadline of one request.
        established: waits until the CustomResourceDefinition of a name is served.
        gone: waits until the object of a kind, namespace, name and UID is gone.
    """

    def __init__(
        self,
        session: Session,
        namespace: str,
        *,
        owner: Owner,
        owned: bool,
        deadline: Callable[[], Deadline],
        established: Callable[[str], object],
        gone: Callable[[Resource, str | None, str, str], object],
    ) -> None:
        self._session = session
        self._namespace = namespace
        self._owner = owner
        self._owned = owned
        self._deadline = deadline
        self._established = established
        self._gone = gone
        self._created = CreatedObjects(session)

    def apply(self, documents: list[Document]) -> list[dict[str, Any]]:
        """Apply documents server-side, in order."""
        for document in documents:
            if "name" not in document.object["metadata"]:
                raise InvalidManifest(document.place, "apply needs metadata.name; create does not")
        return self._each(documents, self._apply)

    def create(self, documents: list[Document]) -> list[dict[str, Any]]:
        """Create the objects of documents, in order."""
        return self._each(documents, self._create)

    def keep(self) -> list[str]:
        """Annotate tracked objects as kept, with their expiry; return failures with reasons."""
        notes = kept_annotations(self._session.clock.time())
        return self._created.keep(notes, self._deadline)

    def delete(self, see_off: Callable[[CreatedObject], None] | None = None) -> list[str]:
        """Request the deletion of tracked objects, last created first.

        Args:
            see_off: waits for one object before the next deletion; None to wait for none.

        Returns:
            what could not be deleted, each with its reason.
        """
        return self._created.delete(self._deadline, see_off)

    def _each(
        self,
        documents: list[Document],
        write: Callable[[Resource, dict[str, Any], str | None], dict[str, Any]],
    ) -> list[dict[str, Any]]:
        written = []
        for number, document in enumerate(documents, 1):
            resource = self._resource(document)
            own = document.object["metadata"].get("namespace")
            place = (own or self._namespace) if resource.namespaced else None
            try:
                written.append(write(resource, document.object, place))
            except (ApiError, WaitTimeout) as error:
                error.add_note(f"{document.title} of {document.place}")
                raise
            if resource.kind == CUSTOM_RESOURCE_DEFINITIONS.kind and number < len(documents):
                self._established(document.object["metadata"]["name"])
        return written

    def _resource(self, document: Document) -> Resource:
        try:
            return self._resolve(document.object)
        except InvalidArgument as error:
            definition = self._definition(document.object)
            if definition is None:
                raise InvalidManifest(document.place, str(error)) from None
        # Discovery lists a kind some time after its definition is established.
        try:
            self._established(definition)
        except (WaitFailed, WaitTimeout) as error:
            error.add_note(f"{document.title} of {document.place}")
            raise
        return self._resolve(document.object)

    def _resolve(self, obj: dict[str, Any]) -> Resource:
        return request_with_retry(
            lambda left: self._session.resolve(obj["kind"], obj["apiVersion"], deadline=left),
            self._deadline(),
        )

    def _definition(self, obj: dict[str, Any]) -> str | None:
        """Return the name of the definition of a kind; None if it is not known."""
        group, version = split_api_version(obj["apiVersion"])
        if "." not in group:
            return None
        try:
            found = request_with_retry(
                lambda left: self._session.list(CUSTOM_RESOURCE_DEFINITIONS, deadline=left),
                self._deadline(),
            )
        except ApiError:
            return None
        for definition in (each.object for each in found.items):
            spec = definition["spec"]
            served = {each["name"] for each in spec["versions"] if each["served"]}
            if (spec["group"], spec["names"]["kind"]) == (group, obj["kind"]) and version in served:
                return None if _is_terminating(definition) else str(definition["metadata"]["name"])
        return None

    def _apply(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None
    ) -> dict[str, Any]:
        outlives = self._outlives(resource, namespace)
        # A manifest with finalizers means the existing object: removing them completes its
        # deletion.
        meant = "finalizers" in obj["metadata"]
        while True:
            # Objects that existed before stay, without our labels.
            there = self._found(resource, obj, namespace) if outlives else None
            if there is not None and _is_terminating(there) and not meant:
                self._wait_for_deletion(resource, namespace, there)
                there = None
            foreign = outlives and there is None
            labelled = self._with_seal(resource, obj, namespace) if foreign else obj
            applied = self._applied(resource, labelled, namespace)
            if meant or not _is_terminating(applied):
                if foreign:
                    self._created.add(resource, applied)
                return applied
            self._wait_for_deletion(resource, namespace, applied)

    def _applied(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None
    ) -> dict[str, Any]:
        return request_with_retry(
            lambda deadline: self._session.apply(resource, obj, namespace, deadline=deadline),
            self._deadline(),
        )

    def _create(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None
    ) -> dict[str, Any]:
        foreign = self._outlives(resource, namespace)
        labelled = self._with_seal(resource, obj, namespace) if foreign else obj
        while True:
            try:
                created = create_once(
                    self._session, resource, labelled, namespace, self._deadline()
                )
            except ApiError as error:
                created = self._in_the_way(resource, obj, namespace, error)
            if not _is_terminating(created):
                break
            self._wait_for_deletion(resource, namespace, created)
        if foreign:
            self._created.add(resource, created)
        return created

    def _in_the_way(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None, refusal: ApiError
    ) -> dict[str, Any]:
        """Return the terminating object of the same name; raise the error if there is none."""
        if refusal.reason != "AlreadyExists" or "name" not in obj["metadata"]:
            raise refusal
        try:
            there = self._found(resource, obj, namespace)
        except ApiError:
            raise refusal from None
        if there is None or not _is_terminating(there):
            raise refusal
        return there

    def _wait_for_deletion(
        self, resource: Resource, namespace: str | None, going: dict[str, Any]
    ) -> None:
        metadata = going["metadata"]
        try:
            self._gone(resource, namespace, metadata["name"], metadata["uid"])
        except WaitTimeout as error:
            error.add_note("none of that name can be made as long as it is there")
            raise

    def _outlives(self, resource: Resource, namespace: str | None) -> bool:
        """Return whether an object there remains when our namespace is deleted."""
        return not (resource.namespaced and self._owned and namespace == self._namespace)

    def _found(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None
    ) -> dict[str, Any] | None:
        name = obj["metadata"]["name"]
        try:
            return request_with_retry(
                lambda deadline: self._session.get(resource, name, namespace, deadline=deadline),
                self._deadline(),
            )
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def _with_seal(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None
    ) -> dict[str, Any]:
        registration, heartbeat = self._owner.registration, ""
        if registration is not None:
            # The Lease names the kind before its first object exists, for the janitor.
            heartbeat = registration.place()
            registration.record(format_kind(resource))
        now = self._session.clock.time()
        return with_seal(self._owner, resource, obj, namespace, now, heartbeat)


def _is_terminating(obj: dict[str, Any]) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))
