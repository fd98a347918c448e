"""The one entrance to the cluster's objects: what HTTP requests, controllers and kubelets call.

All calls are synchronous and made from one thread. Objects that come out are never to be changed;
objects that go in are taken over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.admission import Admission
from pytest_kwait.simulator.caller import Caller, internal
from pytest_kwait.simulator.crds import Definitions
from pytest_kwait.simulator.deletion import plan
from pytest_kwait.simulator.names import generate_name, new_uid
from pytest_kwait.simulator.objects import clone, name_of, namespace_of
from pytest_kwait.simulator.ownership import record_update
from pytest_kwait.simulator.registry import Registry
from pytest_kwait.simulator.schema import Decoded, struct_of
from pytest_kwait.simulator.sim_clock import SimClock
from pytest_kwait.simulator.status_error import (
    FieldError,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
    resource_not_found,
)
from pytest_kwait.simulator.store import Change, Entry, Store, key_of
from pytest_kwait.simulator.strategies import Strategy, strategy_of
from pytest_kwait.simulator.validation import metadata_errors, metadata_update_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.kubelets import Kubelet
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind

__all__ = ["ClusterApi", "StatusError"]

_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class ClusterApi:
    """The objects of one cluster and the rules for changing them.

    Args:
        clock: the cluster's time.
        store: where the objects are kept.
    """

    def __init__(self, clock: SimClock | None = None, store: Store | None = None) -> None:
        self.clock = clock or SimClock()
        self.store = store or Store()
        self.kinds = Registry()
        self.admission = Admission(self)
        self.kubelets: dict[str, Kubelet] = {}
        self.root_ca = ""
        """The certificate authority that clients inside the cluster trust, as PEM."""
        self._strategies: dict[tuple[str, str], Strategy] = {}
        self.before_write: list[Callable[[Kind, Obj, Obj | None], None]] = []
        """Called with each object before it is stored, with the one that it replaces or None."""

    def bootstrap(self) -> None:
        """Make the namespaces that every cluster has; what came before is no history."""
        Definitions(self)
        for name in _SYSTEM_NAMESPACES:
            self.create("namespaces", {"metadata": {"name": name}})
        self.store.forget_history()

    # -- reading

    def kind_of(self, resource: str) -> Kind:
        """The kind of `pods`, `jobs.batch`.

        Raises:
            StatusError: 404, the cluster does not serve it.
        """
        kind = self.kinds.find(resource)
        if kind is None:
            raise resource_not_found()
        return kind

    def strategy(self, kind: Kind) -> Strategy:
        """The rules of `kind`."""
        key = (kind.api_version, kind.plural)
        found = self._strategies.get(key)
        if found is None or found.kind is not kind:
            found = self._strategies[key] = strategy_of(kind)
        return found

    def entry(self, kind: Kind, name: str, namespace: str = "") -> Entry:
        """The stored form of an object.

        Raises:
            StatusError: 404, there is none.
        """
        entry = self.store.get(kind.bucket, key_of(name, namespace if kind.namespaced else ""))
        if entry is None:
            raise not_found(kind.group, kind.plural, name)
        return entry

    def get(self, resource: str, name: str, namespace: str = "") -> Obj:
        """The object.

        Raises:
            StatusError: 404, there is none.
        """
        return self.entry(self.kind_of(resource), name, namespace).obj

    def find(self, resource: str, name: str, namespace: str = "") -> Obj | None:
        """The object, None if there is none."""
        kind = self.kind_of(resource)
        entry = self.store.get(kind.bucket, key_of(name, namespace if kind.namespaced else ""))
        return None if entry is None else entry.obj

    def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        """The objects in the order of their keys; None means all namespaces."""
        return [entry.obj for entry in self.store.entries(self.kind_of(resource).bucket, namespace)]

    # -- following

    def subscribe(
        self, resource: str, handler: Callable[[str, Obj, Obj | None], None]
    ) -> Callable[[], None]:
        """Call `handler(type, new, old)` for each object that is there, then for each change.

        Returns:
            A function that ends the calls.
        """
        bucket = self.kind_of(resource).bucket
        for entry in self.store.entries(bucket):
            handler("ADDED", entry.obj, None)

        def on_change(change: Change) -> None:
            handler(change.type, change.new.obj, change.old.obj if change.old else None)

        return self.store.watch(bucket, on_change)

    def subscribe_all(self, handler: Callable[[str, str, Obj, Obj | None], None]) -> None:
        """Call `handler(resource, type, new, old)` for each object, then for each change."""
        for resource in self.store.resources():
            for entry in self.store.entries(resource):
                handler(resource, "ADDED", entry.obj, None)

        def on_change(resource: str, change: Change) -> None:
            handler(resource, change.type, change.new.obj, change.old.obj if change.old else None)

        self.store.listen(on_change)

    # -- decoding

    def decode(self, kind: Kind, obj: Obj, caller: Caller) -> Obj:
        """`obj` as the kind has it: typed, pruned, defaulted.

        Raises:
            StatusError: 400 for a value of a wrong type, or for unknown fields if they are refused.
        """
        metadata = obj.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            raise bad_request(f"{kind.kind}.metadata: expected an object")
        decoded = Decoded(kind)
        if kind.structure is not None:
            clean = kind.structure.decode(obj, decoded)
        else:
            clean = decoded.struct(obj, struct_of(kind.group, kind.version, kind.kind))
        if decoded.unknown and caller.field_validation != "Ignore":
            fields = sorted(decoded.unknown) if kind.custom else decoded.unknown
            texts = [f'unknown field "{field}"' for field in fields]
            if caller.field_validation == "Strict":
                raise bad_request(
                    f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                    f"strict decoding error: {', '.join(texts)}"
                )
            for text in texts:
                caller.warn(text)
        ordered: Obj = {"kind": kind.kind, "apiVersion": kind.api_version}
        ordered["metadata"] = clean.pop("metadata", None) or {}
        clean.pop("kind", None)
        clean.pop("apiVersion", None)
        ordered.update(clean)
        self.strategy(kind).default(ordered)
        return ordered

    # -- writing

    def create(
        self,
        resource: str | Kind,
        obj: Obj,
        namespace: str = "",
        *,
        caller: Caller | None = None,
        record: Callable[[Obj], None] | None = None,
    ) -> Obj:
        """Store a new object and return it as stored; `record` notes who owns what.

        Raises:
            StatusError: whatever the server refuses it for.
        """
        caller = caller or internal()
        kind = self.kind_of(resource) if isinstance(resource, str) else resource
        strategy = self.strategy(kind)
        new = self.decode(kind, obj, caller)
        metadata = new["metadata"]
        self._check_namespace(kind, metadata, namespace or namespace_of(new))
        if metadata.get("resourceVersion"):
            raise StatusError(
                500, "", "resourceVersion should not be set on objects to be created"
            )
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = new_uid()
        metadata["creationTimestamp"] = self.clock.stamp()
        generated = bool(metadata.get("generateName")) and not metadata.get("name")
        if generated:
            metadata["name"] = self._free_name(kind, metadata["generateName"], namespace)
            strategy.default(new)
        name = name_of(new)
        self.admission.namespace_open(kind, namespace_of(new), name)
        self.admission.admit_create(kind, new)
        strategy.prepare_create(new)
        errors = strategy.validate_create(new) + metadata_errors(new, kind)
        if errors:
            raise invalid(kind.group, kind.kind, name, _ordered(errors))
        if kind.structure is not None:
            kind.structure.validate(kind, new)
        strategy.warn_create(new, caller)
        for hook in self.before_write:
            hook(kind, new, None)
        if record is None:
            record_update(kind, new, None, caller, self.clock.stamp())
        else:
            record(new)
        key = key_of(name, namespace_of(new))
        present = self.store.get(kind.bucket, key)
        if present is not None:
            if present.obj["metadata"].get("deletionTimestamp"):
                raise already_exists(
                    kind.group,
                    kind.plural,
                    name,
                    f'object is being deleted: {kind.qualified} "{name}" already exists',
                )
            raise already_exists(kind.group, kind.plural, name)
        if caller.dry_run:
            return new
        return self.store.put(kind.bucket, key, new).obj

    def update(
        self,
        resource: str | Kind,
        obj: Obj,
        *,
        subresource: str | None = None,
        caller: Caller | None = None,
    ) -> Obj:
        """Replace an object, or with `subresource` a part of it, and return it as stored.

        Raises:
            StatusError: 404 if it is not there, 409 if it is newer, whatever else is refused.
        """
        caller = caller or internal()
        kind = self.kind_of(resource) if isinstance(resource, str) else resource
        entry = self.entry(kind, name_of(obj), namespace_of(obj))
        if kind.bucket == "namespaces" and subresource == "finalize":
            return self.finalize(kind, entry, obj, caller)
        return self.replace(kind, entry, obj, subresource, caller)

    def update_status(self, resource: str, obj: Obj) -> Obj:
        """Replace an object's status and return the object as stored.

        Raises:
            StatusError: 404 if it is not there, 409 if it is newer.
        """
        return self.update(resource, obj, subresource="status")

    def modify(
        self,
        resource: str,
        name: str,
        namespace: str,
        change: Callable[[Obj], None],
        *,
        subresource: str | None = None,
    ) -> Obj:
        """Let `change` edit a copy of the object, write that, and return what is stored then.

        Raises:
            StatusError: 404 if it is not there, whatever else is refused.
        """
        kind = self.kind_of(resource)
        entry = self.entry(kind, name, namespace)
        obj = clone(entry.obj)
        change(obj)
        return self.replace(kind, entry, obj, subresource, internal())

    def replace(
        self, kind: Kind, entry: Entry, obj: Obj, subresource: str | None, caller: Caller
    ) -> Obj:
        """Put `obj` in the place of `entry`; nothing is written where nothing changes.

        Raises:
            StatusError: whatever the server refuses it for.
        """
        new, old = self.decode(kind, obj, caller), entry.obj
        return self.store_update(kind, entry, new, old, subresource, caller)

    def store_update(
        self,
        kind: Kind,
        entry: Entry,
        new: Obj,
        old: Obj,
        subresource: str | None,
        caller: Caller,
        record: Callable[[Obj], None] | None = None,
    ) -> Obj:
        """The second half of `replace`: `new` is decoded; `record` notes who owns what.

        Raises:
            StatusError: whatever the server refuses it for.
        """
        strategy = self.strategy(kind)
        metadata, before = new["metadata"], old["metadata"]
        name = name_of(old)
        self._check_namespace(kind, metadata, namespace_of(old))
        self._check_version(strategy, metadata, before)
        for field in ("creationTimestamp", "generation", "selfLink"):
            if field in before:
                metadata[field] = before[field]
            else:
                metadata.pop(field, None)
        metadata.setdefault("uid", before["uid"])
        if "deletionTimestamp" in before:
            metadata["deletionTimestamp"] = before["deletionTimestamp"]
            if "deletionGracePeriodSeconds" in before:
                metadata.setdefault(
                    "deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"]
                )
        else:
            metadata.pop("deletionTimestamp", None)
            metadata.pop("deletionGracePeriodSeconds", None)
        errors: list[FieldError]
        if subresource == "status":
            strategy.prepare_status(new, old)
            errors = strategy.validate_status(new, old)
        elif subresource is None:
            strategy.prepare_update(new, old)
            self.admission.admit_update(kind, new, old)
            errors = strategy.validate_update(new, old)
        else:
            errors = []
            if strategy.generation and strategy.counts(new, old):
                metadata["generation"] = before.get("generation", 0) + 1
        shared = metadata_update_errors(new, old, kind)
        # The rules of built-in kinds check the metadata once more, and report it twice.
        errors = (shared if kind.custom else shared * 2) + errors
        if errors:
            raise invalid(kind.group, kind.kind, name, _ordered(errors))
        if kind.structure is not None:
            kind.structure.validate(kind, new, old)
        for hook in self.before_write:
            hook(kind, new, old)
        metadata["resourceVersion"] = before["resourceVersion"]
        if record is None:
            record_update(kind, new, old, caller, self.clock.stamp(), subresource)
        else:
            record(new)
        if new == old:
            return old
        if caller.dry_run:
            return new
        if self._finished(kind, new):
            self.store.remove(kind.bucket, entry.key)
            return new
        return self.store.put(kind.bucket, entry.key, new).obj

    def delete(
        self,
        resource: str | Kind,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
        options: Obj | None = None,
        caller: Caller | None = None,
    ) -> Obj:
        """Delete an object, or mark it for deletion; returns the object or a Status.

        Raises:
            StatusError: 404 if it is not there, 409 if it is not the one that is meant.
        """
        caller = caller or internal()
        kind = self.kind_of(resource) if isinstance(resource, str) else resource
        asked = dict(options or {})
        if uid is not None:
            asked["preconditions"] = {**(asked.get("preconditions") or {}), "uid": uid}
        if grace is not None:
            asked["gracePeriodSeconds"] = grace
        if propagation is not None:
            asked["propagationPolicy"] = propagation
        self.admission.admit_delete(kind, name)
        entry = self.entry(kind, name, namespace)
        strategy = self.strategy(kind)
        outcome = plan(strategy, strategy.prepare_delete(entry.obj), asked, self.clock.time())
        if kind.bucket == "namespaces":
            return self._delete_namespace(kind, entry, caller)
        obj = outcome.obj
        if not caller.dry_run:
            if outcome.changed:
                obj = self.store.put(kind.bucket, entry.key, obj).obj
            if outcome.remove and self.store.get(kind.bucket, entry.key) is not None:
                obj = self.store.remove(kind.bucket, entry.key).obj
        if not outcome.remove or strategy.shown_when_deleted:
            return obj
        return deleted_status(kind, entry.obj)

    def bind(self, namespace: str, pod: str, node: str) -> None:
        """Assign a pod to a node and note that it is scheduled, in one write.

        Raises:
            StatusError: 404 if it is not there, 409 if it is assigned or being deleted.
        """
        kind = self.kinds["pods"]
        entry = self.entry(kind, pod, namespace)
        metadata = entry.obj["metadata"]
        present = entry.obj["spec"].get("nodeName")
        if metadata.get("deletionTimestamp"):
            raise conflict(
                "",
                "pods/binding",
                pod,
                f"pod {pod} is being deleted, cannot be assigned to a host",
            )
        if present:
            raise conflict("", "pods/binding", pod, f'pod {pod} is already assigned to node "{present}"')
        if entry.obj["spec"].get("schedulingGates"):
            raise conflict(
                "", "pods/binding", pod, f"pod {pod} has non-empty .spec.schedulingGates"
            )
        status = dict(entry.obj.get("status", {}))
        conditions = [
            one for one in status.get("conditions", ()) if one["type"] != "PodScheduled"
        ]
        condition: Obj = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self.clock.stamp(),
        }
        if metadata.get("generation"):
            condition["observedGeneration"] = metadata["generation"]
        status["conditions"] = [*conditions, condition]
        new = {
            **entry.obj,
            "metadata": {**metadata},
            "spec": {**entry.obj["spec"], "nodeName": node},
            "status": status,
        }
        self.store.put(kind.bucket, entry.key, new)

    def finalize(self, kind: Kind, entry: Entry, obj: Obj, caller: Caller) -> Obj:
        """Write a namespace's `spec.finalizers`; without any left it goes.

        Raises:
            StatusError: 409 if the namespace is newer.
        """
        self._check_version(self.strategy(kind), obj.get("metadata", {}), entry.obj["metadata"])
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        spec = {**entry.obj.get("spec", {}), "finalizers": finalizers}
        if not finalizers:
            del spec["finalizers"]
        new = {**entry.obj, "metadata": {**entry.obj["metadata"]}, "spec": spec}
        if caller.dry_run:
            return new
        if self._finished(kind, new):
            self.store.remove(kind.bucket, entry.key)
            return new
        if new == entry.obj:
            return entry.obj
        return self.store.put(kind.bucket, entry.key, new).obj

    # -- parts

    def _delete_namespace(self, kind: Kind, entry: Entry, caller: Caller) -> Obj:
        obj = entry.obj
        if obj["metadata"].get("deletionTimestamp") is None:
            metadata = {**obj["metadata"], "deletionTimestamp": self.clock.stamp()}
            status = {**obj.get("status", {}), "phase": "Terminating"}
            obj = {**obj, "metadata": metadata, "status": status}
            if caller.dry_run:
                return obj
            if self._finished(kind, obj):
                self.store.remove(kind.bucket, entry.key)
                return obj
            return self.store.put(kind.bucket, entry.key, obj).obj
        if self._finished(kind, obj) and not caller.dry_run:
            self.store.remove(kind.bucket, entry.key)
        return obj

    def _finished(self, kind: Kind, obj: Obj) -> bool:
        """Whether nothing keeps an object that is being deleted."""
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
            return False
        if kind.bucket == "namespaces":
            return not obj.get("spec", {}).get("finalizers")
        return bool(metadata.get("deletionGracePeriodSeconds", 0) == 0)

    def _check_namespace(self, kind: Kind, metadata: Obj, namespace: str) -> None:
        if not kind.namespaced:
            return
        if metadata.get("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on "
                "the request"
            )
        metadata["namespace"] = namespace

    def _check_version(self, strategy: Strategy, metadata: Obj, before: Obj) -> None:
        kind = strategy.kind
        version = metadata.get("resourceVersion")
        name = before["name"]
        uid = metadata.get("uid")
        if uid and uid != before["uid"]:
            raise conflict(
                kind.group,
                kind.plural,
                name,
                f"StorageError: invalid object, Code: 4, Key: /registry/{kind.plural}/"
                f"{key_of(name, before.get('namespace', ''))}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in "
                f"object meta: {before['uid']}",
            )
        if not version:
            if strategy.needs_version:
                error = invalid_value(
                    "metadata.resourceVersion", 0, "must be specified for an update"
                )
                raise invalid(kind.group, kind.plural, name, [error])
            return
        if not version.isdigit():
            message = f'strconv.ParseUint: parsing "{version}": invalid syntax'
            raise StatusError(500, "", message)
        if version != before["resourceVersion"]:
            raise conflict(kind.group, kind.plural, name, _MODIFIED)

    def _free_name(self, kind: Kind, prefix: str, namespace: str) -> str:
        for _ in range(8):
            name = generate_name(prefix)
            if self.store.get(kind.bucket, key_of(name, namespace)) is None:
                return name
        raise already_exists(
            kind.group,
            kind.plural,
            name,
            f'{kind.qualified} "{name}" already exists, the server was not able to generate a '
            "unique name for the object",
        )


def deleted_status(kind: Kind, obj: Obj) -> Obj:
    """What answers the deletion of an object that is gone at once."""
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


def _ordered(errors: list[Any]) -> list[Any]:
    """Metadata first, as the server reports it."""
    return sorted(errors, key=lambda error: not error.field.startswith("metadata."))
