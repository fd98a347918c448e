"""New objects and changed ones, from decoded to stored.

Source: k8s.io/apiserver pkg/registry/rest/{create,update}.go,
pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.api_errors import (
    FieldError,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_value,
)
from pytest_kwait.simulator.authorization.escalation import check_escalation
from pytest_kwait.simulator.codec.go_numbers import parse_uint
from pytest_kwait.simulator.kind_view import to_version
from pytest_kwait.simulator.managedfields.field_manager import VersionConverter, record_update
from pytest_kwait.simulator.names import generate_name, new_uid
from pytest_kwait.simulator.objects import clone, name_of, namespace_of
from pytest_kwait.simulator.registry.pod_parts import restore_other_fields, validate_pod_subresource
from pytest_kwait.simulator.registry.removals import is_deletion_complete
from pytest_kwait.simulator.store import key_of
from pytest_kwait.simulator.validation.objectmeta import (
    metadata_errors,
    metadata_update_errors,
    shared_create_errors,
    shared_update_errors,
)
from pytest_kwait.simulator.validation.owners import dedup_owner_references

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry.strategies_init import Strategy
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind
    from pytest_kwait.simulator.store import Entry

__all__ = ["ObjectWriter", "check_resource_version"]

_CONFLICT_MESSAGE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class ObjectWriter:
    """What stores objects of one cluster.

    Args:
        api: the cluster.
    """

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._store = api.store

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
        """Store a new object and return it as stored; `record` notes who owns what.

        One that is `decoded` is taken over as it is.

        Raises:
            StatusError: whatever the server refuses it for.
        """
        if not decoded:
            new = self._api.decode(kind, obj, caller)
        else:
            new = clone(obj) if caller.comes_again else obj  # it may be wanted once more
        requested = kind
        kind = kind if kind.stored or kind.custom else self._api.kinds[kind.bucket]
        strategy = self._api.strategy(kind)
        metadata = new["metadata"]
        namespace = namespace or namespace_of(new)
        _check_namespace(kind, metadata, namespace)
        _drop_repeated_owner_references(metadata, caller)
        if metadata.get("resourceVersion") and not caller.dry_run:
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        asked = Attributes(
            "CREATE",
            kind,
            namespace_of(new) or (name_of(new) if kind.bucket == "namespaces" else ""),
            name_of(new),
            new,
            None,
            "",
            caller,
            requested=requested,
        )
        self._api.admission.admit(asked)
        new = asked.obj or new
        metadata = new["metadata"]
        check_escalation(self._api.rbac, kind, new, None, namespace, caller)
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = caller.once("uid", new_uid)
        metadata["creationTimestamp"] = caller.once("stamp", self._api.clock.stamp)
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = caller.once(
                "name", lambda: self._free_name(kind, metadata["generateName"], namespace)
            )
            strategy.default(new)
        name = asked.name = name_of(new)
        if kind.bucket == "services":
            self._api.addresses.begin_create(new, caller)
        strategy.prepare_create(new)
        strategy.record_creator(new, caller)
        # The rules are those of the version that was asked for.
        rules = self._api.strategy(requested)
        errors = metadata_errors(new, kind) if strategy.validates_metadata else []
        errors += rules.validate_create(new)
        if not errors and not strategy.validates_metadata:
            errors = shared_create_errors(new, kind)
        if errors:
            raise invalid(kind.group, kind.kind, name, errors)
        strategy.warn_create(new, caller)
        self._api.admission.validate(asked)
        for hook in self._api.before_write:
            hook(kind, new, None)
        if record is None:
            stamp = self._api.clock.stamp()
            record_update(kind, new, None, caller, stamp, versions=self._versions(kind, caller))
        else:
            record(new)
        stored = self._stored_form(kind, new, caller)
        key = key_of(name, namespace_of(new))
        self._check_free(kind, key, name)
        if caller.dry_run:
            return stored
        asked.stored()
        if asked.on_store:
            self._check_free(kind, key, name)  # what that noted may have waited for others
        return self._store.put(kind.bucket, key, stored).obj

    def _stored_form(self, kind: Kind, new: Obj, caller: Caller) -> Obj:
        """A custom object in the version that objects of its kind are stored in."""
        if kind.structure is None or kind.stored:
            return new
        storage = self._api.kinds[kind.bucket]
        form = to_version(storage, new, caller)
        return form if storage.structure is None else storage.structure.with_defaults(form)

    def _versions(self, kind: Kind, caller: Caller) -> VersionConverter | None:
        return VersionConverter(self._api.kinds, kind, caller) if kind.custom else None

    def replace(
        self,
        kind: Kind,
        entry: Entry,
        new: Obj,
        subresource: str | None,
        caller: Caller,
        record: Callable[[Obj], None] | None,
    ) -> Obj:
        """Put `new`, which is decoded, in the place of `entry`; `record` notes who owns what.

        Raises:
            StatusError: whatever the server refuses it for.
        """
        requested = kind
        kind = kind if kind.stored or kind.custom else self._api.kinds[kind.bucket]
        strategy = self._api.strategy(kind)
        old = to_version(kind, entry.obj, caller) if kind.custom else entry.obj
        metadata, before = new["metadata"], old["metadata"]
        name = name_of(old)
        check_escalation(self._api.rbac, kind, new, old, namespace_of(old), caller)
        _check_namespace(kind, metadata, namespace_of(old))
        _drop_repeated_owner_references(metadata, caller)
        check_resource_version(strategy, metadata, before, dry_run=caller.dry_run)
        asked = Attributes(
            "UPDATE",
            kind,
            namespace_of(old) or (name if kind.bucket == "namespaces" else ""),
            name,
            new,
            old,
            subresource or "",
            caller,
            requested=requested,
        )
        self._api.admission.admit(asked)
        new = asked.obj or new
        metadata = new["metadata"]
        _keep_server_fields(metadata, before)
        errors: list[FieldError]
        changes: list[FieldError] = []
        if subresource == "status":
            strategy.prepare_status(new, old)
            strategy.prepare_subresource(new, old, subresource, self._api.clock.stamp())
            errors = strategy.validate_status(new, old)
        elif subresource is None:
            if kind.bucket == "services":
                self._api.addresses.begin_update(new, old, caller)
            strategy.prepare_update(new, old)
            changes = strategy.validate_immutable(new, old)
            errors = self._api.strategy(requested).validate_update(new, old)
        else:
            strategy.prepare_subresource(new, old, subresource, self._api.clock.stamp())
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
        if metadata != before:
            # The server looks at metadata for all kinds, and again by each kind's own rules.
            found = shared_update_errors(new, old, kind)
            if strategy.validates_metadata:
                found += metadata_update_errors(new, old, kind)
            if strategy.validates_metadata_on_update and subresource is None:
                changes += metadata_errors(new, kind)
            changes = found + changes
        errors = changes + errors
        if errors:
            raise invalid(kind.group, kind.kind, name, errors)
        if subresource is None:
            strategy.warn_update(new, old, caller)
        elif subresource == "status":
            strategy.warn_status(new, old, caller)
        self._api.admission.validate(asked)
        for hook in self._api.before_write:
            hook(kind, new, old)
        if record is None:
            stamp, versions = self._api.clock.stamp(), self._versions(kind, caller)
            record_update(kind, new, old, caller, stamp, subresource, versions)
        else:
            record(new)
        if new == old:
            return old
        stored = self._stored_form(kind, new, caller)
        if caller.dry_run:
            return stored
        asked.stored()
        present = self._store.get(kind.bucket, entry.key)
        if present is None or present.revision != entry.revision:
            raise conflict(kind.group, kind.plural, name, _CONFLICT_MESSAGE)
        if is_deletion_complete(kind, new):
            self._store.remove(kind.bucket, entry.key)
            return stored
        return self._store.put(kind.bucket, entry.key, stored).obj

    def _check_free(self, kind: Kind, key: str, name: str) -> None:
        present = self._store.get(kind.bucket, key)
        if present is not None:
            if present.obj["metadata"].get("deletionTimestamp"):
                raise already_exists(
                    kind.group,
                    kind.plural,
                    name,
                    f'object is being deleted: {kind.qualified} "{name}" already exists',
                )
            raise already_exists(kind.group, kind.plural, name)

    def _free_name(self, kind: Kind, prefix: str, namespace: str) -> str:
        for _ in range(8):
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


def _keep_server_fields(metadata: Obj, before: Obj) -> None:
    """What only the server sets stays, whatever the client sent."""
    for field in ("creationTimestamp", "generation", "selfLink"):
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
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
    """Hold what an update starts from to what is stored.

    Raises:
        StatusError: 409 if that is something else or something newer, 422 if it must be told.
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
        raise conflict(kind.group, kind.plural, name, _CONFLICT_MESSAGE)


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
"""Where upstream's storage has kinds that it does not keep under their plain name."""


def _storage_key_prefix(kind: Kind, dry_run: bool) -> str:
    """Where upstream's storage has a kind's objects, as its errors tell."""
    plain = f"{kind.group}/{kind.plural}" if kind.custom else kind.plural
    return f"{'' if dry_run else '/registry'}/{_STORAGE_PREFIXES.get(kind.bucket, plain)}"
