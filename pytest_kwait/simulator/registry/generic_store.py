"""The generic store: create, update and delete objects of any kind.

A write is decoded, admitted, prepared by the kind's strategy, validated, admitted again and
stored. A deletion removes an object at once, after a grace period, or with its last finalizer.
Source: k8s.io/apiserver pkg/registry/rest/{create,update,delete}.go,
pkg/registry/generic/registry/store.go; k8s.io/kubernetes
pkg/registry/core/namespace/storage/storage.go.
"""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pytest_kwait.apimachinery.field_errors import FieldError, invalid_value
from pytest_kwait.apimachinery.times import format_time, parse_time
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
from pytest_kwait.simulator.registry.subresources import (
    restore_other_fields,
    validate_pod_subresource,
)
from pytest_kwait.simulator.store import key_of
from pytest_kwait.simulator.suspendable import beside_loop, run_suspendable
from pytest_kwait.simulator.validation.objectmeta import (
    dedup_owner_references,
    validate_common_fields,
    validate_common_fields_update,
    validate_delete_options,
    validate_finalizer_name,
    validate_object_meta,
    validate_object_meta_update,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry.strategy import Strategy
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind
    from pytest_kwait.simulator.store import Entry, Store

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
LARGE_BYTES = 16 * 1024
"""The size of an object whose checks would hold the event loop too long."""
Result = TypeVar("Result")

_MAX_NAME_ATTEMPTS = 8
_MAX_TRIES = 5
"""Tries of a write whose object changes meanwhile; upstream's MaxRetryWhenPatchConflicts."""

_STORAGE_PREFIXES = {
    "customresourcedefinitions.apiextensions.k8s.io": (
        "apiextensions.k8s.io/customresourcedefinitions"
    ),
    "endpoints": "services/endpoints",
    "ingresses.networking.k8s.io": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}
"""The storage paths of kinds that differ from the plural."""


class DeletionPlan(NamedTuple):
    """The outcome of a deletion: store `obj` if it `changed`, or remove it."""

    obj: Obj
    changed: bool
    remove: bool


def plan_deletion(strategy: Strategy, obj: Obj, options: Obj, now: float) -> DeletionPlan:
    """Decide the deletion of `obj` with `options` at `now` (seconds since the epoch).

    Raises:
        StatusError: 422 for invalid options, 409 if a precondition fails.
    """
    errors = validate_delete_options(options)
    if errors:
        raise invalid("meta.k8s.io", "DeleteOptions", "", errors)
    _check_preconditions(strategy, obj, options.get("preconditions") or {})
    new: Obj = {**obj, "metadata": clone(obj["metadata"])}
    metadata = new["metadata"]
    graceful, pending = _decide_grace(strategy, new, options, now)
    finalizers = _deletion_finalizers(strategy, metadata, options)
    changed = graceful
    if finalizers != metadata.get("finalizers", []):
        changed = True
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
    if pending and not changed:
        return DeletionPlan(obj, changed=False, remove=False)
    if finalizers:
        if not graceful and not pending:
            changed = _mark_deleted(metadata, now) or changed
        return DeletionPlan(new, changed, remove=False)
    seconds = metadata.get("deletionGracePeriodSeconds", 0)
    if (graceful or pending) and seconds > 0:
        return DeletionPlan(new, changed, remove=False)
    return DeletionPlan(new, changed, remove=True)


def _check_preconditions(strategy: Strategy, obj: Obj, preconditions: Obj) -> None:
    kind, metadata = strategy.kind, obj["metadata"]
    uid = preconditions.get("uid")
    if uid is not None and uid != metadata["uid"]:
        raise conflict(
            kind.group,
            kind.kind,
            name_of(obj),
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated",
        )
    revision = preconditions.get("resourceVersion")
    if revision is not None and revision != metadata["resourceVersion"]:
        raise conflict(
            kind.group,
            kind.kind,
            name_of(obj),
            f"the ResourceVersion in the precondition ({revision}) does not match the "
            f"ResourceVersion in record ({metadata['resourceVersion']}). The object might have "
            "been modified",
        )


def _decide_grace(strategy: Strategy, obj: Obj, options: Obj, now: float) -> tuple[bool, bool]:
    """Mark for graceful deletion; returns whether that changed `obj`, and whether it is pending."""
    metadata = obj["metadata"]
    grace_seconds = options.get("gracePeriodSeconds")
    if grace_seconds is not None and grace_seconds < 0:
        grace_seconds = 1
    if strategy.grace(obj, grace_seconds) is None:
        return False, False
    if "deletionTimestamp" in metadata:
        before = metadata.get("deletionGracePeriodSeconds", 0)
        if before == 0:
            return False, False
        if grace_seconds is None or grace_seconds >= before:
            return False, True
        start = parse_time(metadata["deletionTimestamp"]) - _go_duration(before)
        end = start + _go_duration(grace_seconds)
        if end < now:
            end, grace_seconds = now, min(grace_seconds, 1)
        metadata["deletionTimestamp"] = format_time(end)
        metadata["deletionGracePeriodSeconds"] = grace_seconds
        return True, False
    seconds = strategy.grace(obj, grace_seconds) or 0
    metadata["deletionTimestamp"] = format_time(now + _go_duration(seconds))
    metadata["deletionGracePeriodSeconds"] = seconds
    if metadata.get("generation"):
        metadata["generation"] += 1
    return True, False


def _go_duration(seconds: int) -> float:
    """Return the length of `time.Second * seconds` in Go, whose 64 bits wrap after 292 years."""
    return ((seconds * 10**9 + 2**63) % 2**64 - 2**63) / 10**9


def _mark_deleted(metadata: Obj, now: float) -> bool:
    """Mark as being deleted now; returns whether `metadata` changed."""
    if "deletionTimestamp" not in metadata:
        if metadata.get("generation"):
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = format_time(now)
    elif metadata.get("deletionGracePeriodSeconds") == 0:
        return False
    metadata["deletionGracePeriodSeconds"] = 0
    return True


def _deletion_finalizers(strategy: Strategy, metadata: Obj, options: Obj) -> list[str]:
    """Return the finalizers with the one that stands for the propagation policy."""
    finalizers: list[str] = metadata.get("finalizers", [])
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        if ORPHAN in finalizers or FOREGROUND in finalizers:
            policy = "Orphan" if ORPHAN in finalizers else "Foreground"
        else:
            policy = strategy.default_propagation or "Background"
    remaining_finalizers = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        remaining_finalizers.append(ORPHAN)
    elif policy == "Foreground":
        remaining_finalizers.append(FOREGROUND)
    if set(remaining_finalizers) == set(finalizers):
        return finalizers
    return remaining_finalizers


def is_deletion_complete(kind: Kind, obj: Obj) -> bool:
    """Return whether an object that is being deleted can be removed."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if kind.bucket == "namespaces":
        return not obj.get("spec", {}).get("finalizers")
    return bool(metadata.get("deletionGracePeriodSeconds", 0) == 0)


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


class GenericStore:
    """Creates, updates and deletes the objects of one cluster."""

    def __init__(self, cluster: ApiServerCluster) -> None:
        self._cluster = cluster
        self._store = cluster.store

    def create(
        self,
        kind: Kind,
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
            new = obj if decoded else self._cluster.decode(kind, obj, caller)
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
                with ExitStack() as reservations:
                    attempt = clone(new) if tries else new
                    return self._create(kind, attempt, namespace, caller, record, reservations)
            except StatusError as error:
                # The generated name was taken while a webhook answered.
                if not tries or error.reason != "AlreadyExists":
                    raise

    def _create(
        self,
        kind: Kind,
        new: Obj,
        namespace: str,
        caller: Caller,
        record: Callable[[Obj], None] | None,
        reservations: ExitStack,
    ) -> Obj:
        requested = kind
        kind = kind if kind.stored or kind.custom else self._cluster.kinds[kind.bucket]
        strategy = self._cluster.strategy(kind)
        metadata = new["metadata"]
        namespace = namespace or namespace_of(new)
        _check_namespace(kind, metadata, namespace)
        with beside_loop():
            _drop_repeated_owner_references(metadata, caller)
        if _is_revision(metadata.get("resourceVersion") or "") and not caller.dry_run:
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        attributes = Attributes(
            "CREATE",
            kind,
            namespace_of(new) or (name_of(new) if kind.bucket == "namespaces" else ""),
            name_of(new),
            new,
            None,
            "",
            caller,
            requested_kind=requested,
        )
        with beside_loop():
            self._record(requested, new, None, caller, record)
        managers = metadata.get("managedFields")
        self._cluster.admission.admit(attributes)
        new = attributes.obj or new
        keep_valid_managed_fields(new, managers, caller)
        metadata = new["metadata"]
        strategy.check_escalation(self._cluster.rbac, new, None, namespace, caller)
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = new_uid()
        metadata["creationTimestamp"] = self._cluster.clock.stamp()
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = self._free_name(kind, metadata["generateName"], namespace)
            strategy.default(new)
        name = attributes.name = name_of(new)
        if kind.bucket == "services":
            reservations.callback(self._cluster.addresses.begin_create(new, caller))
        strategy.prepare_create(new)
        strategy.prepare_by_caller(new, caller)
        # Validation is that of the requested version.
        rules = self._cluster.strategy(requested)
        with beside_loop():
            errors = validate_object_meta(new, kind) if strategy.validates_metadata else []
            errors += rules.validate_create(new)
            if not errors and not strategy.validates_metadata:
                errors = validate_common_fields(new, kind)
            if errors:
                raise invalid(kind.group, kind.kind, name, errors)
            strategy.warn_create(new, caller)
        self._cluster.admission.validate(attributes)
        for hook in self._cluster.before_write:
            hook(kind, new, None)
        with nullcontext() if attributes.on_store else beside_loop():
            stored, written = self._stored_form(kind, new, caller)
        key = key_of(name, namespace_of(new))
        self._check_free(kind, key, name)
        if caller.dry_run:
            return stored
        for callback in attributes.on_store:
            callback()
        if attributes.on_store:
            self._check_free(kind, key, name)  # a plugin's own write may have waited
        return self._store.put(kind.bucket, key, stored, written).obj

    def _stored_form(self, kind: Kind, new: Obj, caller: Caller) -> tuple[Obj, Obj]:
        """Return an object in its storage version as it is read, and as it is written.

        They differ for custom objects: what a strategy has removed, as a status, has defaults.
        What was given empty is not stored.
        """
        for obj in caller.emptied_objects:
            obj.emptied.clear()
        if kind.structure is None:
            return new, new
        storage = kind if kind.stored else self._cluster.kinds[kind.bucket]
        form = to_version(storage, new)
        return (form if storage.structure is None else storage.structure.with_defaults(form)), form

    def _record(
        self,
        kind: Kind,
        new: Obj,
        old: Obj | None,
        caller: Caller,
        record: Callable[[Obj], None] | None,
        subresource: str | None = None,
    ) -> None:
        """Set the managers of `new`, in the requested version, before admission changes it."""
        if record is not None:
            record(new)
            return
        if caller.version:
            group, _, version = caller.version.rpartition("/")
            kind = (self._cluster.kinds.served(group, version) or {}).get(kind.plural, kind)
        seen = new
        if caller.manager and not (kind.stored or kind.custom):
            seen = to_version(kind, {**new, "metadata": {**new["metadata"]}})
            old = old and to_version(kind, old)
        versions = VersionConverter(self._cluster.kinds, kind)
        stamp = self._cluster.clock.stamp()
        record_update(kind, seen, old, caller, stamp, subresource, versions)
        if seen is not new:
            copy_fields(new["metadata"], seen["metadata"], "managedFields")

    def replace(
        self,
        kind: Kind,
        entry: Entry,
        new: Obj,
        subresource: str | None,
        caller: Caller,
        record: Callable[[Obj], None] | None,
    ) -> Obj:
        """Replace `entry` by the decoded `new`; `record` sets its field managers.

        Raises:
            StatusError: the request is invalid or denied.
        """
        with ExitStack() as reservations:
            return self._replace(kind, entry, new, subresource, caller, record, reservations)

    def _replace(
        self,
        kind: Kind,
        entry: Entry,
        new: Obj,
        subresource: str | None,
        caller: Caller,
        record: Callable[[Obj], None] | None,
        reservations: ExitStack,
    ) -> Obj:
        requested = kind
        kind = kind if kind.stored or kind.custom else self._cluster.kinds[kind.bucket]
        strategy = self._cluster.strategy(kind)
        old = to_version(kind, entry.obj) if kind.custom else entry.obj
        metadata, before = new["metadata"], old["metadata"]
        name = name_of(old)
        strategy.check_escalation(self._cluster.rbac, new, old, namespace_of(old), caller)
        _check_namespace(kind, metadata, namespace_of(old))
        _drop_repeated_owner_references(metadata, caller)
        check_resource_version(strategy, metadata, before, dry_run=caller.dry_run)
        attributes = Attributes(
            "UPDATE",
            kind,
            namespace_of(old) or (name if kind.bucket == "namespaces" else ""),
            name,
            new,
            old,
            subresource or "",
            caller,
            requested_kind=requested,
        )
        with beside_loop():
            self._record(requested, new, old, caller, record, subresource)
        managers = metadata.get("managedFields")
        self._cluster.admission.admit(attributes)
        new = attributes.obj or new
        keep_valid_managed_fields(new, managers, caller)
        metadata = new["metadata"]
        _keep_server_fields(metadata, before)
        if kind.bucket == "services" and subresource is None:
            reservations.callback(self._cluster.addresses.begin_update(new, old, caller))
        with beside_loop():
            errors: list[FieldError]
            changes: list[FieldError] = []
            if subresource == "status":
                strategy.prepare_status(new, old)
                strategy.prepare_subresource(new, old, subresource, self._cluster.clock.stamp())
                errors = strategy.validate_status(new, old)
            elif subresource is None:
                strategy.prepare_update(new, old)
                changes = strategy.validate_immutable(new, old)
                errors = self._cluster.strategy(requested).validate_update(new, old)
            else:
                strategy.prepare_subresource(new, old, subresource, self._cluster.clock.stamp())
                errors = strategy.validate_subresource(new, old, subresource)
                if kind.bucket == "pods":
                    restore_other_fields(subresource, new, old)
                    errors = validate_pod_subresource(subresource, new, old)
                if strategy.generation and strategy.counts(new, old):
                    metadata["generation"] = before.get("generation", 0) + 1
            if requested.structure is not None and subresource in (None, "status"):
                for text in requested.structure.tolerated:
                    caller.warn(text)
            metadata["resourceVersion"] = before["resourceVersion"]
            changed = metadata.keys() | before.keys()
            if any(metadata.get(name) != before.get(name) for name in changed - {"managedFields"}):
                # Upstream validates metadata generically, then by the kind's own rules.
                common_errors = validate_common_fields_update(new, old, kind)
                if strategy.validates_metadata:
                    common_errors += validate_object_meta_update(new, old, kind)
                if strategy.validates_metadata_on_update and subresource is None:
                    changes += validate_object_meta(new, kind)
                changes = common_errors + changes
            errors = changes + errors
            if errors:
                raise invalid(kind.group, kind.kind, name, errors)
            if subresource is None:
                strategy.warn_update(new, old, caller)
            elif subresource == "status":
                strategy.warn_status(new, old, caller)
        self._cluster.admission.validate(attributes)
        for hook in self._cluster.before_write:
            hook(kind, new, old)
        keep_unchanged_times(new, old)
        if new == old:
            return old
        stored, written = self._stored_form(kind, new, caller)
        if caller.dry_run:
            return stored
        _check_unchanged(self._store, kind, entry)
        for callback in attributes.on_store:
            callback()
        if attributes.on_store:
            _check_unchanged(self._store, kind, entry)  # a plugin's own write may have waited
        if is_deletion_complete(kind, new):
            self._store.remove(kind.bucket, entry.key)
            return stored
        return self._store.put(kind.bucket, entry.key, stored, written).obj

    def delete(
        self,
        kind: Kind,
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
        where = name if kind.bucket == "namespaces" else namespace
        seen = name if is_named else ""
        attributes = Attributes("DELETE", kind, where, seen, None, None, "", caller, options)
        entry = self._cluster.entry(kind, name, namespace)
        attributes.old = to_version(kind, entry.obj) if kind.custom else entry.obj
        if not admitted:
            self._cluster.admission.admit(attributes)
        strategy = self._cluster.strategy(kind)
        with beside_loop():
            marked = strategy.marked(entry.obj, self._cluster.clock.stamp())
            start = strategy.prepare_delete(entry.obj)
            outcome = plan_deletion(strategy, start, options, self._cluster.clock.time())
        if not admitted:
            self._cluster.admission.validate(attributes)
        _check_unchanged(self._store, kind, entry)
        if kind.bucket == "namespaces":
            return self._delete_namespace(kind, entry, caller)
        if marked is not None:
            return marked if caller.dry_run else self._store.put(kind.bucket, entry.key, marked).obj
        obj = outcome.obj
        if not caller.dry_run:
            if outcome.changed:
                obj = self._store.put(kind.bucket, entry.key, obj).obj
            if outcome.remove and self._store.get(kind.bucket, entry.key) is not None:
                obj = self._store.remove(kind.bucket, entry.key).obj
        if not outcome.remove or strategy.returns_deleted_object:
            return obj
        return _deleted_status(kind, entry.obj)

    def finalize(self, kind: Kind, entry: Entry, obj: Obj, caller: Caller) -> Obj:
        """Write a namespace's `spec.finalizers` and labels; remove it with the last finalizer.

        Raises:
            StatusError: 422, a finalizer's name is invalid.
        """
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        spec = {**entry.obj.get("spec", {}), "finalizers": finalizers}
        if not finalizers:
            del spec["finalizers"]
        metadata = {**entry.obj["metadata"]}
        for field in ("labels", "annotations"):
            sent = (obj.get("metadata") or {}).get(field)
            if sent:
                metadata[field] = sent
            else:
                metadata.pop(field, None)
        new = {**entry.obj, "metadata": metadata, "spec": spec}
        self._cluster.strategy(kind).default(new)
        self._record(kind, new, entry.obj, caller, None, "finalize")
        errors = [
            error
            for index, name in enumerate(finalizers)
            for error in validate_finalizer_name(name, f"spec.finalizers[{index}]")
        ]
        errors += validate_object_meta(new, kind)
        if errors:
            raise invalid(kind.group, kind.kind, name_of(new), errors)
        if caller.dry_run:
            return new
        if is_deletion_complete(kind, new):
            self._store.remove(kind.bucket, entry.key)
            return new
        if new == entry.obj:
            return entry.obj
        return self._store.put(kind.bucket, entry.key, new).obj

    def _delete_namespace(self, kind: Kind, entry: Entry, caller: Caller) -> Obj:
        obj = entry.obj
        if obj["metadata"].get("deletionTimestamp") is None:
            metadata = {**obj["metadata"], "deletionTimestamp": self._cluster.clock.stamp()}
            status = {**obj.get("status", {}), "phase": "Terminating"}
            obj = {**obj, "metadata": metadata, "status": status}
            if caller.dry_run:
                return obj
            # Without finalizers it stays until a second deletion, as upstream.
            return self._store.put(kind.bucket, entry.key, obj).obj
        if is_deletion_complete(kind, obj) and not caller.dry_run:
            self._store.remove(kind.bucket, entry.key)
        return obj

    def _check_free(self, kind: Kind, key: str, name: str) -> None:
        stored_entry = self._store.get(kind.bucket, key)
        if stored_entry is not None:
            if stored_entry.obj["metadata"].get("deletionTimestamp"):
                raise already_exists(
                    kind.group,
                    kind.plural,
                    name,
                    f'object is being deleted: {kind.qualified} "{name}" already exists',
                )
            raise already_exists(kind.group, kind.plural, name)

    def _free_name(self, kind: Kind, prefix: str, namespace: str) -> str:
        for _ in range(_MAX_NAME_ATTEMPTS):
            name = generate_name(prefix)
            if self._store.get(kind.bucket, key_of(name, namespace)) is None:
                return name
        raise already_exists(
            kind.group,
            kind.plural,
            name,
            f'{kind.qualified} "{name}" already exists, the server was not able to generate a '
            "unique name for the object",
        )


def _check_unchanged(store: Store, kind: Kind, entry: Entry) -> None:
    """Raise ObjectModified if `entry` is no longer what is stored."""
    stored_entry = store.get(kind.bucket, entry.key)
    if stored_entry is None or stored_entry.revision != entry.revision:
        raise ObjectModified(kind, name_of(entry.obj))


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


def check_resource_version(
    strategy: Strategy, metadata: Obj, before: Obj, *, dry_run: bool = False
) -> None:
    """Compare the UID and resourceVersion of an update with the stored object.

    Raises:
        StatusError: 409 if they differ, 422 if a required resourceVersion is missing.
    """
    kind = strategy.kind
    version = metadata.get("resourceVersion")
    name = before["name"]
    uid = metadata.get("uid")
    if uid and uid != before["uid"]:
        raise conflict(
            kind.group,
            kind.plural,
            name,
            f"StorageError: invalid object, Code: 4, Key: {_storage_key_prefix(kind, dry_run)}/"
            f"{key_of(name, before.get('namespace', ''))}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in "
            f"object meta: {before['uid']}",
        )
    if not version or not version.strip("0"):
        if strategy.needs_resource_version:
            error = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(kind.group, kind.plural, name, [error])
        return
    try:
        parse_uint(version)
    except ValueError as error:
        raise StatusError(500, "", str(error)) from None
    if version != before["resourceVersion"]:
        raise object_modified(kind.group, kind.plural, name)


def _is_revision(version: str) -> bool:
    """Return whether an object to be created has a revision; others are ignored.

    Source: k8s.io/apiserver pkg/storage/etcd3/store.go, `Create`.
    """
    try:
        return parse_uint(version) != 0
    except ValueError:
        return False


def _storage_key_prefix(kind: Kind, dry_run: bool) -> str:
    """Return the storage path of a kind, as upstream's errors show it."""
    plain = f"{kind.group}/{kind.plural}" if kind.custom else kind.plural
    return f"{'' if dry_run else '/registry'}/{_STORAGE_PREFIXES.get(kind.bucket, plain)}"


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
