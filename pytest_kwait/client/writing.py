"""The verbs that change something: create, replace, apply, patch and delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.client.requests import Requests
from pytest_kwait.client.write_options import (
    APPLY_PATCH,
    MERGE_PATCH,
    Propagation,
    delete_options,
    get_object_name,
    get_object_path,
    write_options,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.responses import Object
    from pytest_kwait.clock import Deadline

__all__ = ["Writing"]


class Writing(Requests):
    """Requests that write; each returns the object as the server then has it."""

    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
        field_manager: str = "pytest-kwait",
        dry_run: bool = False,
        deadline: Deadline,
    ) -> Object:
        """Create an object and return it as the server made it.

        Args:
            resource: its kind.
            obj: the object.
            namespace: where; None for the one that the object names.
            name: with `subresource`: of which object to create a part (`binding`, `eviction`).
            subresource: the part to create; None for an object.
            field_manager: who owns the fields.
            dry_run: whether to store nothing.
            deadline: when the answer must be here.
        """
        return self._object(
            "POST",
            get_object_path(resource, obj, namespace, name, subresource),
            query=write_options(field_manager, dry_run),
            body=obj,
            deadline=deadline,
        )

    def replace(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        field_manager: str = "pytest-kwait",
        dry_run: bool = False,
        deadline: Deadline,
    ) -> Object:
        """Write an object whole; refused as a conflict if its resourceVersion is not the latest."""
        return self._object(
            "PUT",
            get_object_path(resource, obj, namespace, get_object_name(obj), subresource),
            query=write_options(field_manager, dry_run),
            body=obj,
            deadline=deadline,
        )

    def apply(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str | None = None,
        *,
        field_manager: str = "pytest-kwait",
        force: bool = True,
        subresource: str | None = None,
        dry_run: bool = False,
        deadline: Deadline,
    ) -> Object:
        """Apply an object on the server's side: created if it is not there, merged if it is.

        Args:
            resource: its kind.
            obj: the object, with the fields that the manager wants to own.
            namespace: where; None for the one that the object names.
            field_manager: who owns the fields.
            force: whether to take fields over from other managers; a conflict otherwise.
            subresource: a part of the object, for example `status`.
            dry_run: whether to store nothing.
            deadline: when the answer must be here.
        """
        return self._object(
            "PATCH",
            get_object_path(resource, obj, namespace, get_object_name(obj), subresource),
            query=write_options(field_manager, dry_run) | {"force": force},
            body=obj,
            content_type=APPLY_PATCH,
            deadline=deadline,
        )

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        *,
        content_type: str = MERGE_PATCH,
        subresource: str | None = None,
        field_manager: str = "pytest-kwait",
        dry_run: bool = False,
        deadline: Deadline,
    ) -> Object:
        """Change a part of an object and return the whole of it.

        Args:
            resource: its kind.
            name: its name.
            patch: a merge patch, or a JSON patch's list of operations.
            namespace: its namespace.
            content_type: which kind of patch it is.
            subresource: a part of the object, for example `status`.
            field_manager: who owns the fields.
            dry_run: whether to store nothing.
            deadline: when the answer must be here.
        """
        return self._object(
            "PATCH",
            resource.path(namespace, name, subresource),
            query=write_options(field_manager, dry_run),
            body=patch,
            content_type=content_type,
            deadline=deadline,
        )

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation_policy: Propagation | None = None,
        dry_run: bool = False,
        deadline: Deadline,
    ) -> Object:
        """Ask for the deletion of an object; return it, or the Status of its being gone.

        Args:
            resource: its kind.
            name: its name.
            namespace: its namespace.
            uid: delete only the object with this UID; a conflict otherwise.
            resource_version: delete only this version of it; a conflict otherwise.
            grace_period_seconds: how long it may take to stop; None for its own time.
            propagation_policy: what happens to what it owns; None for the kind's default.
            dry_run: whether to delete nothing.
            deadline: when the answer must be here.
        """
        options = delete_options(
            uid=uid,
            resource_version=resource_version,
            grace_period_seconds=grace_period_seconds,
            propagation_policy=propagation_policy,
            dry_run=dry_run,
        )
        path = resource.path(namespace, name)
        return self._object("DELETE", path, body=options, deadline=deadline)
