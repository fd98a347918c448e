"""Writing manifests into a cluster so that nothing of them outlives the bench."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.api.resource import CUSTOM_RESOURCE_DEFINITIONS
from pytest_kwait.engine.creation import create
from pytest_kwait.engine.error_policy import retrying
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.suite.belongings import Belongings
from pytest_kwait.suite.heartbeat import kind_name
from pytest_kwait.suite.manifests import Document, InvalidManifest
from pytest_kwait.suite.owners import kept_notes
from pytest_kwait.suite.provenance import sealed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.api.resource import Resource
    from pytest_kwait.api.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.suite.owners import Owner

__all__ = ["Writer"]


class Writer:
    """Applies and creates objects, and remembers those that do not go away with the namespace.

    Args:
        session: the requests.
        namespace: where what names no namespace goes.
        owner: whose labels and annotations what lies elsewhere gets.
        owned: whether the namespace goes away with everything in it.
        deadline: makes the limit of one request.
        established: called with the name of a CustomResourceDefinition; returns once it is
            served.
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
    ) -> None:
        self._session = session
        self._namespace = namespace
        self._owner = owner
        self._owned = owned
        self._deadline = deadline
        self._established = established
        self._belongings = Belongings(session)

    def apply(self, documents: list[Document]) -> list[dict[str, Any]]:
        """Apply on the server's side, in order.

        Raises:
            InvalidManifest: an unknown kind, or an object without a name.
            ApiError: refused by the server; a note names the manifest.
        """
        for document in documents:
            if "name" not in document.object["metadata"]:
                raise InvalidManifest(document.place, "apply needs metadata.name; create does not")
        return self._each(documents, self._apply)

    def create(self, documents: list[Document]) -> list[dict[str, Any]]:
        """Create, in order.

        Raises:
            InvalidManifest: an unknown kind.
            ApiError: refused by the server, or there already; a note names the manifest.
        """
        return self._each(documents, self._create)

    def keep(self) -> list[str]:
        """Leave what does not go away with the namespace; note on it that and for how long.

        Returns:
            what could not be noted, each with its reason.
        """
        notes = kept_notes(self._session.clock.time())
        return self._belongings.keep(notes, self._deadline)

    def delete(self) -> list[str]:
        """Ask for the deletion of what does not go away with the namespace, last made first.

        Returns:
            what could not be deleted, each with its reason.
        """
        return self._belongings.delete(self._deadline)

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
            except ApiError as error:
                error.add_note(f"{document.title} of {document.place}")
                raise
            if resource.kind == CUSTOM_RESOURCE_DEFINITIONS.kind and number < len(documents):
                self._established(document.object["metadata"]["name"])
        return written

    def _resource(self, document: Document) -> Resource:
        api_version, kind = document.object["apiVersion"], document.object["kind"]
        try:
            return retrying(
                lambda deadline: self._session.resolve(kind, api_version, deadline=deadline),
                self._deadline(),
            )
        except InvalidArgument as error:
            raise InvalidManifest(document.place, str(error)) from None

    def _apply(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None
    ) -> dict[str, Any]:
        foreign = self._outlives(resource, namespace) and not self._exists(resource, obj, namespace)
        labelled = self._sealed(resource, obj, namespace) if foreign else obj
        applied = retrying(
            lambda deadline: self._session.apply(resource, labelled, namespace, deadline=deadline),
            self._deadline(),
        )
        if foreign:
            self._belongings.add(resource, applied)
        return applied

    def _create(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None
    ) -> dict[str, Any]:
        foreign = self._outlives(resource, namespace)
        labelled = self._sealed(resource, obj, namespace) if foreign else obj
        created = create(self._session, resource, labelled, namespace, self._deadline())
        if foreign:
            self._belongings.add(resource, created)
        return created

    def _outlives(self, resource: Resource, namespace: str | None) -> bool:
        """Whether what is written there stays when our namespace goes."""
        return not (resource.namespaced and self._owned and namespace == self._namespace)

    def _exists(self, resource: Resource, obj: dict[str, Any], namespace: str | None) -> bool:
        # What was there before us must be there after us, and without our labels.
        name = obj["metadata"]["name"]
        try:
            retrying(
                lambda deadline: self._session.get(resource, name, namespace, deadline=deadline),
                self._deadline(),
            )
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _sealed(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None
    ) -> dict[str, Any]:
        pulse, heartbeat = self._owner.pulse, ""
        if pulse is not None:
            # A janitor must know of the kind before there is anything of it to be left behind.
            heartbeat = pulse.place()
            pulse.record(kind_name(resource))
        now = self._session.clock.time()
        return sealed(self._owner, resource, obj, namespace, now, heartbeat)
