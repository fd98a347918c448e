"""The generic REST storage of a resource: create, update and delete its objects.

A write is decoded, admitted, prepared by the kind's strategy, validated, admitted again and
stored. A deletion removes an object at once, after a grace period, or with its last finalizer.
Resources and subresources that need more have subclasses, listed in `rest_storages`.
Source: k8s.io/apiserver pkg/registry/rest/{create,update,delete}.go,
pkg/registry/generic/registry/{store,dryrun}.go.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from pytest_kwait.apimachinery.field_errors import invalid_value
from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.api_errors import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    object_modified,
)
from pytest_kwait.simulator.codec.go_text import parse_uint
from pytest_kwait.simulator.conversion import to_version
from pytest_kwait.simulator.managedfields.field_manager import (
    VersionConverter,
    keep_unchanged_times,
    keep_valid_managed_fields,
    record_update,
)
from pytest_kwait.simulator.objects import (
    clone,
    copy_fields,
    generate_name,
    name_of,
    namespace_of,
    new_uid,
)
from pytest_kwait.simulator.registry.deletion import plan_deletion
from pytest_kwait.simulator.store import key_of
from pytest_kwait.simulator.suspendable import beside_loop, run_suspendable
from pytest_kwait.simulator.validation.objectmeta import (
    dedup_owner_references,
    validate_common_fields,
    validate_common_fields_update,
    validate_object_meta_update,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.admission.attributes import Operation
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry.deletion import DeletionPlan
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind
    from pytest_kwait.simulator.store import Entry, Store

LARGE_BYTES = 16 * 1024
"""The size of an object whose checks would hold the event loop too long."""
Result = TypeVar("Result")
FinishFunc: TypeAlias = "Callable[[], None]"
"""Ends what a write has reserved."""

_DELETIONS_IN_A_ROW = 10
"""Deletions of a collection without a turn of other requests."""
_MAX_NAME_ATTEMPTS = 8
_MAX_TRIES = 5
"""Tries of a write whose object changes meanwhile; upstream's MaxRetryWhenPatchConflicts."""


def _deleted_status(kind: Kind, obj: Obj) -> Obj:
    """Return the Status for an object that was removed at once."""
    details: Obj = {"name": name_of(obj)}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.plural
    details["uid"] = obj["metadata"]["uid"]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


class ObjectModified(StatusError):
    """409: the object changed between reading it and storing the change."""

    def __init__(self, kind: Kind, name: str) -> None:
        error = object_modified(kind.group, kind.plural, name)
        super().__init__(error.code, error.reason, error.message, error.details)


def retry_on_conflict(write: Callable[[], Result]) -> Result:
    """Run `write` again while its object changes during a webhook call.

    Raises:
        StatusError: 409, the object changed in every try.
    """
    for _ in range(_MAX_TRIES - 1):
        try:
            return write()
        except ObjectModified:
            continue
    return write()


class DryRunnableStorage:
    """The stored objects of a resource; a dry run checks a write and leaves it out.

    Args:
        kind: the kind of the resource, in any of its versions.

    Source: pkg/registry/generic/registry/dryrun.go.
    """

    def __init__(self, store: Store, kind: Kind) -> None:
        self._store = store
        self._kind = kind
        self._resource = kind.bucket

    def has(self, key: str) -> bool:
        """Return whether an object is stored."""
        return self._store.get(self._resource, key) is not None

    def create(self, key: str, obj: Obj, written: Obj, attributes: Attributes) -> Obj:
        """Store a new object and return it.

        Args:
            written: the object without the defaults of its schema.
            attributes: the request; its callbacks run just before the object is stored.

        Raises:
            StatusError: 409, the object exists.
        """
        self._check_free(key, name_of(obj))
        if attributes.caller.dry_run:
            return obj
        if attributes.on_store:
            attributes.run_callbacks()
            self._check_free(key, name_of(obj))  # a plugin's own write may have waited
        return self._store.put(self._resource, key, obj, written).obj

    def update(self, entry: Entry, obj: Obj, written: Obj, attributes: Attributes) -> Obj:
        """Replace `entry` by `obj` and return that, as `create`.

        Raises:
            ObjectModified: the object changed or was removed meanwhile.
        """
        if attributes.caller.dry_run:
            return obj
        self._begin_change(entry, attributes)
        return self._store.put(self._resource, entry.key, obj, written).obj

    def delete_without_finalizers(self, entry: Entry, obj: Obj, attributes: Attributes) -> Obj:
        """Remove the object of `entry`, whose update to `obj` removes its last finalizer.

        Raises:
            ObjectModified: the object changed or was removed meanwhile.
        """
        if not attributes.caller.dry_run:
            self._begin_change(entry, attributes)
            self._store.remove(self._resource, entry.key)
        return obj

    def put(self, key: str, obj: Obj, *, dry_run: bool) -> Obj:
        """Replace an object, checked before, and return it."""
        return obj if dry_run else self._store.put(self._resource, key, obj).obj

    def delete(self, key: str, obj: Obj, *, dry_run: bool) -> Obj:
        """Remove `obj`, if it is there, and return its last state."""
        if dry_run or not self.has(key):
            return obj
        return self._store.remove(self._resource, key).obj

    def check_unchanged(self, entry: Entry) -> None:
        """Compare `entry` with what is stored.

        Raises:
            ObjectModified: the object changed or was removed meanwhile.
        """
        stored_entry = self._store.get(self._resource, entry.key)
        if stored_entry is None or stored_entry.revision != entry.revision:
            raise ObjectModified(self._kind, name_of(entry.obj))

    def _begin_change(self, entry: Entry, attributes: Attributes) -> None:
        self.check_unchanged(entry)
        if attributes.on_store:
            attributes.run_callbacks()
            self.check_unchanged(entry)  # a plugin's own write may have waited

    def _check_free(self, key: str, name: str) -> None:
        kind = self._kind
        stored_entry = self._store.get(self._resource, key)
        if stored_entry is None:
            return
        if stored_entry.obj["metadata"].get("deletionTimestamp"):
            raise already_exists(
                kind.group,
                kind.plural,
                name,
                f'object is being deleted: {kind.qualified} "{name}" already exists',
            )
        raise already_exists(kind.group, kind.plural, name)


def finish_nothing() -> None:
    """End a write for which nothing was reserved."""


class GenericStore:
    """The REST storage of a resource in one version: creates, updates and deletes its objects.

    A resource or subresource that needs more has a subclass, whose methods replace those that
    upstream's storages set as functions: `BeginCreate`, `BeginUpdate`, `ShouldDeleteDuringUpdate`,
    the update strategy.

    Args:
        kind: the kind of the requests.
        subresource: `status`, `scale`…; empty for the resource itself.
    """

    def __init__(self, cluster: ApiServerCluster, kind: Kind, subresource: str = "") -> None:
        stored_kind = kind if kind.stored or kind.custom else cluster.kinds[kind.bucket]
        self.kind = kind
        self.stored_kind = stored_kind
        """The kind in the version of stored objects; custom ones are converted when stored."""
        self.subresource = subresource
        self.strategy = cluster.strategy(stored_kind)
        self.request_strategy = cluster.strategy(kind)
        """The strategy that validates, which does so in the version of the request."""
        self._cluster = cluster
        self._storage = DryRunnableStorage(cluster.store, stored_kind)

    # -- what a resource or subresource may do in another way

    def begin_create(self, new: Obj, caller: Caller) -> FinishFunc:
        """Reserve what a new object needs; return what ends the reservation.

        Raises:
            StatusError: it is not available.
        """
        del new, caller
        return finish_nothing

    def begin_update(self, new: Obj, old: Obj, caller: Caller) -> FinishFunc:
        """Reserve what a changed object needs; return what ends the reservation.

        Raises:
            StatusError: it is not available.
        """
        del new, old, caller
        return finish_nothing

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Restore the fields that an update may not change."""
        self.strategy.prepare_for_update(new, old)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate immutable fields, whose errors precede those of metadata."""
        return self.strategy.validate_immutable(new, old)

    def validate_metadata_as_new(self, new: Obj) -> list[FieldError]:
        """Validate changed metadata by the rules of new metadata, where the kind has that."""
        if self.strategy.validates_metadata_on_update:
            return self.strategy.validate_metadata(new)
        return []

    def validate_update(self, new: Obj, old: Obj, caller: Caller) -> list[FieldError]:
        """Validate a change without its metadata; warn of errors that unchanged parts may have."""
        errors = self.request_strategy.validate_update(new, old)
        self._warn_of_tolerated_errors(caller)
        return errors

    def _warn_of_tolerated_errors(self, caller: Caller) -> None:
        if self.kind.structure is not None:
            for text in self.kind.structure.tolerated:
                caller.warn(text)

    def warn_on_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of valid but suspicious fields of a change."""
        self.strategy.warn_on_update(new, old, caller)

    @staticmethod
    def should_delete_during_update(obj: Obj) -> bool:
        """Return whether an object that is being deleted can be removed."""
        metadata = obj["metadata"]
        return (
            "deletionTimestamp" in metadata
            and not metadata.get("finalizers")
            and metadata.get("deletionGracePeriodSeconds", 0) == 0
        )

    def request_namespace(self, name: str, namespace: str) -> str:
        """Return the namespace of a request, as authorization and admission see it."""
        del name
        return namespace

    # -- create

    def create(
        self,
        obj: Obj,
        namespace: str,
        caller: Caller,
        record: Callable[[Obj], None] | None,
        *,
        decoded: bool = False,
    ) -> Obj:
        """Store a new object and return it as stored; `record` sets its field managers.

        A `decoded` object is taken over without a copy.

        Raises:
            StatusError: the request is invalid or denied.
        """
        with beside_loop():
            new = obj if decoded else self._cluster.decode(self.kind, obj, caller)
        metadata = new["metadata"]
        tries = 1
        if (
            metadata.get("generateName")
            and not metadata.get("name")
            and self._cluster.has_webhooks()
        ):
            tries = _MAX_NAME_ATTEMPTS
        while True:
            tries -= 1
            try:
                return self._create(clone(new) if tries else new, namespace, caller, record)
            except StatusError as error:
                # The generated name was taken while a webhook answered.
                if not tries or error.reason != "AlreadyExists":
                    raise

    def _create(
        self, new: Obj, namespace: str, caller: Caller, record: Callable[[Obj], None] | None
    ) -> Obj:
        kind, metadata = self.stored_kind, new["metadata"]
        namespace = namespace or namespace_of(new)
        _check_namespace(kind, metadata, namespace)
        with beside_loop():
            _drop_repeated_owner_references(metadata, caller)
        if _is_revision(metadata.get("resourceVersion") or "") and not caller.dry_run:
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        attributes = self._attributes_of("CREATE", new, None, caller)
        with beside_loop():
            self._record(new, None, caller, record)
        new = self._admit(attributes, new)
        self.strategy.check_escalation(self._cluster.rbac, new, None, namespace, caller)
        self._fill_system_fields(new, namespace)
        attributes.name = name_of(new)
        finish_create = self.begin_create(new, caller)
        try:
            self.before_create(new, caller)
            self._cluster.admission.validate(attributes)
            for hook in self._cluster.before_write:
                hook(kind, new, None)
            with nullcontext() if attributes.on_store else beside_loop():
                stored, written = self._stored_form(new, caller)
            key = key_of(name_of(new), namespace_of(new))
            return self._storage.create(key, stored, written, attributes)
        finally:
            finish_create()

    def before_create(self, new: Obj, caller: Caller) -> None:
        """Prepare and validate a new object, which has a name, and warn of its fields.

        Source: pkg/registry/rest/create.go, func BeforeCreate.

        Raises:
            StatusError: 422, the object is invalid.
        """
        kind, strategy = self.stored_kind, self.strategy
        strategy.prepare_for_create(new)
        strategy.prepare_for_caller(new, caller)
        with beside_loop():
            errors = strategy.validate_metadata(new) if strategy.validates_metadata else []
            errors += self.request_strategy.validate_create(new)
            if not errors and not strategy.validates_metadata:
                errors = validate_common_fields(new, kind)
            if errors:
                raise invalid(kind.group, kind.kind, name_of(new), errors)
            strategy.warn_on_create(new, caller)

    def _fill_system_fields(self, new: Obj, namespace: str) -> None:
        """Set UID, creation time and a generated name; drop the fields of deletions.

        Source: pkg/registry/rest/meta.go, func FillObjectMetaSystemFields.
        """
        metadata = new["metadata"]
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = new_uid()
        metadata["creationTimestamp"] = self._cluster.clock.stamp()
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = self._generate_name(metadata["generateName"], namespace)
            self.strategy.default(new)

    def _generate_name(self, prefix: str, namespace: str) -> str:
        """Return a name that is free.

        Raises:
            StatusError: 409, none was found.
        """
        for _ in range(_MAX_NAME_ATTEMPTS):
            name = generate_name(prefix)
            if not self._storage.has(key_of(name, namespace)):
                return name
        kind = self.stored_kind
        raise already_exists(
            kind.group,
            kind.plural,
            name,
            f'{kind.qualified} "{name}" already exists, the server was not able to generate a '
            "unique name for the object",
        )

    # -- update

    def update(
        self,
        entry: Entry,
        obj: Obj,
        caller: Caller,
        record: Callable[[Obj], None] | None = None,
        *,
        decoded: bool = False,
    ) -> Obj:
        """Replace `entry` by `obj` and return it as stored; `record` sets its field managers.

        A `decoded` object is taken over without a copy. Nothing is written if nothing changes.

        Raises:
            StatusError: the request is invalid or denied.
        """
        new = obj
        if not decoded:
            with beside_loop():
                new = self._cluster.decode(self.kind, obj, caller)
        old = to_version(self.stored_kind, entry.obj) if self.kind.custom else entry.obj
        metadata, before = new["metadata"], old["metadata"]
        self.strategy.check_escalation(self._cluster.rbac, new, old, namespace_of(old), caller)
        _check_namespace(self.stored_kind, metadata, namespace_of(old))
        _drop_repeated_owner_references(metadata, caller)
        self.check_resource_version(metadata, before, dry_run=caller.dry_run)
        attributes = self._attributes_of("UPDATE", new, old, caller)
        with beside_loop():
            self._record(new, old, caller, record)
        new = self._admit(attributes, new)
        _keep_server_fields(new["metadata"], before)
        finish_update = self.begin_update(new, old, caller)
        try:
            with beside_loop():
                self.before_update(new, old, caller)
            self._cluster.admission.validate(attributes)
            for hook in self._cluster.before_write:
                hook(self.stored_kind, new, old)
            keep_unchanged_times(new, old)
            if new == old:
                return old
            stored, written = self._stored_form(new, caller)
            if self.should_delete_during_update(new):
                return self._storage.delete_without_finalizers(entry, stored, attributes)
            return self._storage.update(entry, stored, written, attributes)
        finally:
            finish_update()

    def before_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Prepare and validate a change, and warn of its fields.

        Upstream validates metadata generically, then by the kind's own rules.
        Source: pkg/registry/rest/update.go, func BeforeUpdate.

        Raises:
            StatusError: 422, the object is invalid.
        """
        kind = self.stored_kind
        self.prepare_for_update(new, old)
        immutable_errors = self.validate_immutable(new, old)
        errors = self.validate_update(new, old, caller)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if _is_metadata_changed(new["metadata"], old["metadata"]):
            metadata_errors = validate_common_fields_update(new, old, kind)
            if self.strategy.validates_metadata:
                metadata_errors += validate_object_meta_update(new, old, kind)
            immutable_errors = [
                *metadata_errors,
                *immutable_errors,
                *self.validate_metadata_as_new(new),
            ]
        if errors := [*immutable_errors, *errors]:
            raise invalid(kind.group, kind.kind, name_of(old), errors)
        self.warn_on_update(new, old, caller)

    def check_resource_version(self, metadata: Obj, before: Obj, *, dry_run: bool = False) -> None:
        """Compare the UID and resourceVersion of an update with the stored object.

        Raises:
            StatusError: 409 if they differ, 422 if a required resourceVersion is missing.
        """
        kind = self.stored_kind
        version = metadata.get("resourceVersion")
        name = before["name"]
        uid = metadata.get("uid")
        if uid and uid != before["uid"]:
            root = "" if dry_run else "/registry"
            raise conflict(
                kind.group,
                kind.plural,
                name,
                f"StorageError: invalid object, Code: 4, Key: {root}/{self._resource_prefix()}/"
                f"{key_of(name, before.get('namespace', ''))}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in "
                f"object meta: {before['uid']}",
            )
        if not version or not version.strip("0"):
            if not self.strategy.allows_unconditional_update:
                error = invalid_value(
                    "metadata.resourceVersion", 0, "must be specified for an update"
                )
                raise invalid(kind.group, kind.plural, name, [error])
            return
        try:
            parse_uint(version)
        except ValueError as error:
            raise StatusError(500, "", str(error)) from None
        if version != before["resourceVersion"]:
            raise object_modified(kind.group, kind.plural, name)

    def _resource_prefix(self) -> str:
        """Return the path of the resource in storage, as upstream's errors show it."""
        kind = self.stored_kind
        if self.strategy.resource_prefix:
            return self.strategy.resource_prefix
        return f"{kind.group}/{kind.plural}" if kind.custom else kind.plural

    # -- delete

    def delete(
        self,
        name: str,
        namespace: str,
        options: Obj,
        caller: Caller,
        *,
        admitted: bool = False,
        is_named: bool = True,
    ) -> Obj:
        """Delete an object, or mark it for deletion; returns the object or a Status.

        Args:
            options: the DeleteOptions.
            caller: the request's caller.
            admitted: skip admission.
            is_named: whether admission sees the name.

        Raises:
            StatusError: 404 not found, 409 a precondition fails.
        """
        kind = self.kind
        entry = self._cluster.entry(kind, name, namespace)
        attributes = Attributes(
            "DELETE",
            kind,
            self.request_namespace(name, namespace),
            name if is_named else "",
            None,
            to_version(kind, entry.obj) if kind.custom else entry.obj,
            "",
            caller,
            options,
        )
        if not admitted:
            self._cluster.admission.admit(attributes)
        with beside_loop():
            plan = self.before_delete(entry.obj, options)
        if not admitted:
            self._cluster.admission.validate(attributes)
        self._storage.check_unchanged(entry)
        return self.finalize_delete(entry, plan, caller)

    def before_delete(self, obj: Obj, options: Obj) -> DeletionPlan:
        """Decide how `obj` is deleted.

        Raises:
            StatusError: 422 for invalid options, 409 if a precondition fails.
        """
        return plan_deletion(self.request_strategy, obj, options, self._cluster.clock.time())

    def finalize_delete(self, entry: Entry, plan: DeletionPlan, caller: Caller) -> Obj:
        """Store what `plan` says and return the response: the object or a Status."""
        obj, dry_run = plan.obj, caller.dry_run
        if plan.changed:
            obj = self._storage.put(entry.key, obj, dry_run=dry_run)
        if plan.remove:
            obj = self._storage.delete(entry.key, obj, dry_run=dry_run)
        if not plan.remove or self.strategy.returns_deleted_object:
            return obj
        return _deleted_status(self.kind, entry.obj)

    # -- steps that writes share

    def _attributes_of(
        self, operation: Operation, new: Obj, old: Obj | None, caller: Caller
    ) -> Attributes:
        obj = new if old is None else old
        return Attributes(
            operation,
            self.stored_kind,
            self.request_namespace(name_of(obj), namespace_of(obj)),
            name_of(obj),
            new,
            old,
            self.subresource,
            caller,
            requested_kind=self.kind,
        )

    def _record(
        self, new: Obj, old: Obj | None, caller: Caller, record: Callable[[Obj], None] | None
    ) -> None:
        """Set the managers of `new`, in the requested version, before admission changes it."""
        if record is not None:
            record(new)
            return
        kind, kinds = self.kind, self._cluster.kinds
        if caller.version:
            group, _, version = caller.version.rpartition("/")
            kind = (kinds.served(group, version) or {}).get(kind.plural, kind)
        seen = new
        if caller.manager and not (kind.stored or kind.custom):
            seen = to_version(kind, {**new, "metadata": {**new["metadata"]}})
            old = old and to_version(kind, old)
        stamp, versions = self._cluster.clock.stamp(), VersionConverter(kinds, kind)
        record_update(kind, seen, old, caller, stamp, self.subresource or None, versions)
        if seen is not new:
            copy_fields(new["metadata"], seen["metadata"], "managedFields")

    def _admit(self, attributes: Attributes, new: Obj) -> Obj:
        """Return what mutating admission makes of `new`, with valid field managers."""
        managers = new["metadata"].get("managedFields")
        self._cluster.admission.admit(attributes)
        admitted = attributes.obj or new
        keep_valid_managed_fields(admitted, managers, attributes.caller)
        return admitted

    def _stored_form(self, new: Obj, caller: Caller) -> tuple[Obj, Obj]:
        """Return an object in its storage version as it is read, and as it is written.

        They differ for custom objects: what a strategy has removed, as a status, has defaults.
        Fields that were given empty are not stored.
        """
        for obj in caller.emptied_objects:
            obj.emptied.clear()
        kind = self.stored_kind
        if kind.structure is None:
            return new, new
        storage_kind = kind if kind.stored else self._cluster.kinds[kind.bucket]
        structure, form = storage_kind.structure, to_version(storage_kind, new)
        return (form if structure is None else structure.with_defaults(form)), form


class SubresourceREST(GenericStore):
    """The REST storage of a subresource that writes a part of the object: by itself the scale."""

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Increment the generation if the spec changes."""
        strategy, metadata = self.strategy, new["metadata"]
        if strategy.has_generation and strategy.increments_generation(new, old):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """Return no errors: the subresource does not write these fields."""
        del new, old
        return []

    def validate_metadata_as_new(self, new: Obj) -> list[FieldError]:
        """Return no errors: only changes of the object itself have these rules."""
        del new
        return []

    def validate_update(self, new: Obj, old: Obj, caller: Caller) -> list[FieldError]:
        """Validate custom objects by their schema."""
        del caller
        return self.strategy.validate_update(new, old) if self.kind.custom else []

    def warn_on_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of nothing."""


class StatusREST(SubresourceREST):
    """The REST storage of a status."""

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Restore all but the status."""
        self.strategy.prepare_for_status_update(new, old)

    def validate_update(self, new: Obj, old: Obj, caller: Caller) -> list[FieldError]:
        """Validate a change of the status."""
        errors = self.strategy.validate_status(new, old)
        self._warn_of_tolerated_errors(caller)
        return errors

    def warn_on_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of valid but suspicious fields of a status."""
        self.strategy.warn_on_status_update(new, old, caller)


def _keep_server_fields(metadata: Obj, before: Obj) -> None:
    """Restore the fields that only the server sets."""
    copy_fields(metadata, before, "creationTimestamp", "generation", "selfLink")
    metadata.setdefault("uid", before["uid"])
    if "deletionTimestamp" in before:
        metadata["deletionTimestamp"] = before["deletionTimestamp"]
        if "deletionGracePeriodSeconds" in before:
            metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])


def _drop_repeated_owner_references(metadata: Obj, caller: Caller) -> None:
    if len(metadata.get("ownerReferences") or ()) > 1 and (
        text := dedup_owner_references(metadata)
    ):
        caller.warn(text)


def _check_namespace(kind: Kind, metadata: Obj, namespace: str) -> None:
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def _is_revision(version: str) -> bool:
    """Return whether an object to be created has a revision; others are ignored.

    Source: k8s.io/apiserver pkg/storage/etcd3/store.go, `Create`.
    """
    try:
        return parse_uint(version) != 0
    except ValueError:
        return False


def _is_metadata_changed(metadata: Obj, before: Obj) -> bool:
    """Return whether metadata differ in more than their field managers."""
    fields = (metadata.keys() | before.keys()) - {"managedFields"}
    return any(metadata.get(field) != before.get(field) for field in fields)


async def run_write(
    cluster: ApiServerCluster, write: Callable[[], Result], *, retry: bool = False, size: int = 0
) -> Result:
    """Return what `write` returns; other requests are served while it waits for webhooks.

    Args:
        retry: run it again if the object changes meanwhile; it must read the object itself.
        size: the bytes of the object or the patch; others are served while a large one is checked.

    Raises:
        StatusError: the write is refused.
    """

    def work() -> Result:
        return retry_on_conflict(write) if retry else write()

    large = size >= LARGE_BYTES or cluster.admission.has_policies()
    if not large and not cluster.has_webhooks():
        return write()
    return await run_suspendable(work, large=large)


async def delete_collection(
    cluster: ApiServerCluster,
    kind: Kind,
    entries: Sequence[Entry],
    options: Obj,
    caller: Caller,
    *,
    write_size: Callable[[Entry], int],
) -> None:
    """Delete the objects of `entries`, except those that are gone; other requests are served.

    Admission sees no names.
    Source: pkg/registry/generic/registry/store.go, func DeleteCollection.

    Args:
        options: the DeleteOptions.
        write_size: returns the bytes of a deletion, as for `run_write`.

    Raises:
        StatusError: a deletion is refused, and with it the remaining ones.
    """

    def delete(obj: Obj) -> Obj:
        name, namespace = name_of(obj), namespace_of(obj)
        return cluster.delete(kind, name, namespace, options=options, caller=caller, is_named=False)

    for number, entry in enumerate(entries, 1):
        if not number % _DELETIONS_IN_A_ROW:
            await async_sleep(0)  # let others in
        try:
            await run_write(cluster, partial(delete, entry.obj), size=write_size(entry))
        except StatusError as error:
            if error.code != 404:
                raise
