"""The controller of CustomResourceDefinitions: establish, serve, finalize.

The schema of one version of a custom kind (decode, prune, default, validate) comes first.

Source: k8s.io/apiextensions-apiserver pkg/controller/{establish,finalizer,status},
pkg/apiserver/customresource_handler.go, pkg/registry/customresource/{strategy,validator}.go.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import get_condition, is_condition_true
from pytest_kwait.apimachinery.field_errors import FieldError, invalid_value
from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.apiextensions.definition_validation import is_ca_bundle
from pytest_kwait.simulator.apiextensions.pruning import (
    EMBEDDED,
    PRESERVE,
    coerce_embedded_metadata,
    drop_nulls,
    embedded_errors,
    fill_defaults,
    prune,
)
from pytest_kwait.simulator.apiextensions.schema_validation import (
    UNKNOWN_OLD_VALUE,
    format_go_value,
    go_type_name,
    list_type_errors,
    prefix_error,
    validate_value,
)
from pytest_kwait.simulator.apiextensions.strategy import (
    CLEANUP_FINALIZER,
    INITIAL_CONDITION,
    accept_names,
    approval_condition,
    set_condition,
)
from pytest_kwait.simulator.codec.decode import Decoder
from pytest_kwait.simulator.codec.schema import Shape
from pytest_kwait.simulator.objects import clone, name_of, namespace_of
from pytest_kwait.simulator.request_info import server_caller
from pytest_kwait.simulator.scheme import Kind, SubResource

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.codec.schema import Struct
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import VersionWebhook
    from pytest_kwait.simulator.store import Change

CRDS = "customresourcedefinitions.apiextensions.k8s.io"

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_ROOT = ("apiVersion", "kind", "metadata")
_ROOT_PROPERTIES: dict[str, Any] = {
    "metadata": {"$ref": f"#/components/schemas/{_META}"},
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
}
_BLOCKING_ERROR_TYPES = frozenset(
    [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ]
)
_UNVALIDATED_FIELDS = (
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)
_INT32_MAX = 2**31 - 1
_NO_KIND = Kind("", "", "", "", namespaced=False)
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")

_VERSION_PATTERN = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


class CustomResourceSchema:
    """One version of a custom kind.

    Args:
        schema: its OpenAPI v3 schema; empty for one that preserves everything.
        scale: the paths of its scale subresource; None without one.
        columns: its printer columns.
        selectable: its selectable fields.
        deprecation: the warning of a deprecated version; empty for others.
    """

    terminating = False
    """True while the definition is being deleted: new objects are forbidden."""

    conversion: VersionWebhook | None = None
    """The webhook that converts objects between versions."""

    def __init__(
        self,
        schema: Obj,
        scale: Obj | None = None,
        columns: list[Obj] | None = None,
        selectable: tuple[str, ...] = (),
        deprecation: str = "",
    ) -> None:
        self.schema = schema or {"type": "object", PRESERVE: True}
        self.scale = scale
        self.printer_columns = columns or []
        self.selectable = selectable
        self.deprecation = deprecation
        self.tolerated: list[str] = []
        """The ratcheted errors of the object that was validated last."""

    @cached_property
    def shape(self) -> Shape:
        """The type of its objects, for field ownership."""
        schema = _to_openapi(self.schema)
        properties = {**(schema.get("properties") or {}), **_ROOT_PROPERTIES}
        return Shape({**schema, "type": "object", "properties": properties})

    @cached_property
    def content(self) -> Obj:
        """The schema without kind, version and metadata."""
        properties = self.schema.get("properties") or {}
        own = {key: value for key, value in properties.items() if key not in _ROOT}
        return {**self.schema, "properties": own}

    def decode(self, obj: Obj, decoded: Decoder) -> Obj:
        """Decode an object: prune it, set defaults, clean its metadata."""
        object_metadata = obj.get("metadata") or {}
        # The server encodes it first, in the order of its fields.
        ordered = {key: object_metadata[key] for key in sorted(object_metadata)}
        metadata = decoded.struct(ordered, _metadata_struct(), "metadata.")
        clean, removed = self._coerce(obj, keeps_nulls=decoded.keeps_nulls)
        unknown: list[str] = []

        def decode_metadata(value: Obj, at: str) -> Obj:
            return _decode_embedded(value, at, unknown)

        misfit = coerce_embedded_metadata(clean, self.content, decode_metadata)
        if misfit is not None:
            kind = obj.get("kind", "")
            version = str(obj.get("apiVersion", "")).rpartition("/")[2]
            raise bad_request(
                f'{kind} in version "{version}" cannot be handled as a {kind}: {misfit}'
            )
        decoded.unknown += [*sorted(removed), *sorted(unknown)]
        fill_defaults(clean, self.content)
        clean["metadata"] = metadata
        return clean

    def read_stored(self, obj: Obj) -> Obj:
        """Return a stored object by this schema, which may be newer: pruned, with defaults."""
        clean, _ = self._coerce(obj)
        coerce_embedded_metadata(clean, self.content, _repair_embedded)
        fill_defaults(clean, self.content)
        return {**{key: obj[key] for key in _ROOT if key in obj}, **clean}

    def _coerce(self, obj: Obj, *, keeps_nulls: bool = False) -> tuple[Obj, list[str]]:
        """Prune the content of an object and drop nulls; also returns the removed fields."""
        removed: list[str] = []
        rest = {key: value for key, value in obj.items() if key not in _ROOT}
        clean: Obj = prune(rest, self.content, "", removed)
        if not keeps_nulls:
            drop_nulls(clean, self.content)
        return clean, removed

    def prune_converted(self, obj: Obj) -> Obj:
        """Prune an object that was converted from another version."""
        content, _ = self._coerce(obj)
        return {**{key: obj[key] for key in _ROOT if key in obj}, **content}

    def with_defaults(self, obj: Obj) -> Obj:
        """Set the defaults of a stored object, which stays as it is."""
        if not self._has_defaults:
            return obj
        content: Obj = {key: clone(value) for key, value in obj.items() if key not in _ROOT}
        fill_defaults(content, self.content)
        return {**{key: obj[key] for key in _ROOT if key in obj}, **content}

    def errors(self, new: Obj, old: Obj | None = None) -> list[FieldError]:
        """Validate an object.

        Args:
            old: the object that it replaces; None for a new one.
        """
        errors = validate_value(new, self.schema, "", UNKNOWN_OLD_VALUE if old is None else old)
        errors += self._spec_replicas_errors(new)
        errors += self._status_scale_errors(new)
        errors += embedded_errors(new, self.content, "")
        errors += self._list_errors(new, old)
        return errors + self._rule_errors(new, old, errors)

    def status_errors(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate a write of the status."""
        errors: list[FieldError] = []
        schema = (self.schema.get("properties") or {}).get("status")
        if "status" in new and schema is not None:
            status_errors = validate_value(
                new["status"], schema, "", old.get("status", UNKNOWN_OLD_VALUE)
            )
            errors += [prefix_error(error, "status") for error in status_errors]
        errors += self._status_scale_errors(new)
        errors += self._list_errors(new, old)
        return errors + self._rule_errors(new, old, errors)

    @cached_property
    def _has_defaults(self) -> bool:
        return '"default":' in json.dumps(self.schema)

    @cached_property
    def _has_rules(self) -> bool:
        return '"x-kubernetes-validations":' in json.dumps(self.schema)

    def _rule_errors(self, new: Obj, old: Obj | None, errors: list[FieldError]) -> list[FieldError]:
        """Evaluate the rules, unless the object violates the schema."""
        self.tolerated = []
        if not self._has_rules:
            return []
        if any(error.reason in _BLOCKING_ERROR_TYPES for error in errors):
            return [
                FieldError(
                    "FieldValueInvalid", "<nil>", f"Invalid value: null: {_UNVALIDATED_FIELDS}"
                )
            ]
        from pytest_kwait.simulator.apiextensions.cel_rules import rule_errors

        before = UNKNOWN_OLD_VALUE if old is None else old
        return rule_errors(new, self.schema, before, self.tolerated.append)

    def _list_errors(self, new: Obj, old: Obj | None) -> list[FieldError]:
        if old is not None and [*list_type_errors(old, self.schema)]:
            return []
        return [*list_type_errors(new, self.schema)]

    def _spec_replicas_errors(self, obj: Obj) -> list[FieldError]:
        return _replicas_errors(obj, self.scale["specReplicasPath"]) if self.scale else []

    def _status_scale_errors(self, obj: Obj) -> list[FieldError]:
        if not self.scale:
            return []
        errors = _replicas_errors(obj, self.scale["statusReplicasPath"])
        path = self.scale.get("labelSelectorPath")
        if path:
            value, why = _read_path(obj, path, "string")
            del value
            if why:
                errors.append(invalid_value(path, "", why))
        return errors


def _to_openapi(schema: Obj) -> Obj:
    """Return a schema as the server publishes it: embedded objects have metadata.

    Formats of strings are left out: field ownership does not know them.
    """
    form = {**schema}
    if form.get("type") == "string" and form.get("format") not in (None, "", "byte"):
        form["format"] = "int-or-string"
    if isinstance(form.get("properties"), dict):
        form["properties"] = {
            key: _to_openapi(property_schema) for key, property_schema in form["properties"].items()
        }
    for field in ("items", "additionalProperties"):
        if isinstance(form.get(field), dict):
            form[field] = _to_openapi(form[field])
    if form.get(EMBEDDED):
        form["properties"] = {**(form.get("properties") or {}), **_ROOT_PROPERTIES}
    return form


def _metadata_struct() -> Struct:
    return Shape({"$ref": f"#/components/schemas/{_META}"}).struct


def _decode_embedded(metadata: Obj, at: str, unknown: list[str]) -> Obj:
    """Decode the metadata of an embedded object; `unknown` receives what it has too much.

    Raises:
        ValueError: with Go's message, a value has a wrong type.
    """
    decoder = Decoder(_NO_KIND)
    ordered = {key: metadata[key] for key in sorted(metadata)}
    clean = decoder.parse_struct(ordered, _metadata_struct(), f"{at}.")
    unknown += decoder.unknown
    return clean


def _repair_embedded(metadata: Obj, at: str) -> Obj:
    """Decode the metadata of a stored embedded object without its invalid fields."""
    clean: Obj = {}
    for key, value in metadata.items():
        with suppress(ValueError):
            clean |= _decode_embedded({key: value}, at, [])
    return clean


def _replicas_errors(obj: Obj, path: str) -> list[FieldError]:
    value, why = _read_path(obj, path, "int64")
    if why:
        return [invalid_value(path, 0, why)]
    if value is not None and value < 0:
        return [invalid_value(path, value, "should be a non-negative integer")]
    if value is not None and value > _INT32_MAX:
        return [invalid_value(path, value, f"should be less than or equal to {_INT32_MAX}")]
    return []


def _read_path(obj: Obj, path: str, type_name: str) -> tuple[Any, str]:
    """Return the value at `path`, or an error if its type is not `type_name`."""
    value: Any = obj
    names = path.removeprefix(".").split(".")
    for index, name in enumerate(names):
        if not isinstance(value, dict):
            there = "." + ".".join(names[: index + 1])
            return None, (
                f"{there} accessor error: {format_go_value(value)} is of the type "
                f"{go_type_name(value)}, "
                "expected map[string]interface{}"
            )
        if name not in value:
            return None, ""
        value = value[name]
    if go_type_name(value) != type_name:
        there = "." + ".".join(names)
        return None, (
            f"{there} accessor error: {format_go_value(value)} is of the type "
            f"{go_type_name(value)}, "
            f"expected {type_name}"
        )
    return value, ""


class DefinitionController:
    """Registers the kinds of definitions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._served: dict[str, Any] = {}

    def on_change(self, event: str, new: Obj, old: Obj | None) -> None:
        """Handle a created, changed or deleted definition."""
        name = name_of(new)
        if event == "DELETED":
            self.serve(name, None)
            self._requeue_conflicting(new, name)
            return
        if new["metadata"].get("deletionTimestamp"):
            self._clean_up(new)
            return
        if approval_condition(new) is not None:
            self._write_status(name, self._record_approval)
            return
        accepted = (new.get("status") or {}).get("acceptedNames")
        if new["spec"]["names"] != accepted or get_condition(new, "NamesAccepted") is None:
            self._write_status(name, self._reconcile_names)
            return
        if is_condition_true(new, "NamesAccepted") and not is_condition_true(new, "Established"):
            self._write_status(name, self._establish)
            return
        self.serve(name, new if is_condition_true(new, "Established") else None)
        was = ((old or {}).get("status") or {}).get("acceptedNames")
        if was != accepted:
            self._requeue_conflicting(new, name)

    def serve(self, name: str, definition: Obj | None) -> None:
        """Register the kinds of `definition` under its accepted names; None removes them."""
        served = None
        if definition is not None:
            served = {**definition["spec"], "names": definition["status"]["acceptedNames"]}
        if self._served.get(name) == served:
            return
        self._cluster.kinds.remove(name)
        self._served.pop(name, None)
        if served is not None:
            self._served[name] = served
            kinds = kinds_of_definition(served)
            self._convert(name, served.get("conversion") or {}, kinds)
            self._cluster.kinds.add(kinds)
            if self._cluster.kinds.is_built_in(name):
                return
            versions = {kind.api_version: kind.structure for kind in kinds}

            def read(obj: Obj) -> Obj:
                schema = versions.get(obj["apiVersion"])
                return obj if schema is None else schema.read_stored(obj)

            self._cluster.store.read_again(name, read)

    def _convert(self, name: str, conversion: Obj, kinds: list[Kind]) -> None:
        if conversion.get("strategy") != "Webhook":
            return
        # Few definitions have a conversion webhook.
        from pytest_kwait.simulator.apiextensions.webhook_converter import WebhookConverter

        webhook = WebhookConverter(self._cluster, name, conversion["webhook"])
        for kind in kinds:
            if kind.structure is not None:
                kind.structure.conversion = webhook

    def _write_status(self, name: str, change: Callable[[Obj], None]) -> None:
        self._cluster.modify(CRDS, name, "", change, subresource="status", caller=server_caller())

    def _record_approval(self, definition: Obj) -> None:
        condition = approval_condition(definition)
        if condition is not None:
            set_condition(definition, condition, self._cluster.clock.stamp())

    def _reconcile_names(self, definition: Obj) -> None:
        accept_names(definition, self._other_definitions(definition), self._cluster.clock.stamp())

    def _other_definitions(self, definition: Obj) -> list[Obj]:
        return [
            other_definition
            for other_definition in self._cluster.list(CRDS)
            if other_definition["spec"]["group"] == definition["spec"]["group"]
            and name_of(other_definition) != name_of(definition)
        ]

    def _requeue_conflicting(self, definition: Obj, name: str) -> None:
        """Reconcile definitions that wait for names, which may have become free."""
        for other_definition in self._other_definitions(definition):
            waits = other_definition["spec"]["names"] != (other_definition.get("status") or {}).get(
                "acceptedNames"
            )
            crd = self._cluster.find(CRDS, name_of(other_definition))
            if waits and name_of(other_definition) != name and crd is other_definition:
                self._write_status(name_of(other_definition), self._reconcile_names)

    def _establish(self, definition: Obj) -> None:
        webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
        bundle = (webhook.get("clientConfig") or {}).get("caBundle")
        condition = {
            "type": "Established",
            "status": "True",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        }
        if bundle and not is_ca_bundle(bundle):
            condition |= {
                "status": "False",
                "reason": "InvalidCABundle",
                "message": "The conversion webhook CABundle is invalid",
            }
        set_condition(definition, condition, self._cluster.clock.stamp())

    def _clean_up(self, definition: Obj) -> None:
        name = name_of(definition)
        if CLEANUP_FINALIZER not in definition["metadata"].get("finalizers", ()):
            return
        if (get_condition(definition, "Terminating") or {}).get("reason") == INITIAL_CONDITION[
            "reason"
        ]:
            for version in definition["spec"]["versions"]:
                served = (
                    self._cluster.kinds.served(definition["spec"]["group"], version["name"]) or {}
                )
                kind = served.get(definition["spec"]["names"]["plural"])
                if kind is not None and kind.structure is not None:
                    kind.structure.terminating = True
            self._write_status(name, self._terminate)
            return
        kind = self._cluster.kinds.find(name)
        if kind is not None and kind.custom:
            for obj in self._cluster.list(name):
                if not obj["metadata"].get("deletionTimestamp"):
                    self._cluster.delete(kind, name_of(obj), namespace_of(obj))
            if self._cluster.store.count(name):
                self._wait_until_empty(name)
                return
        self._release(name)

    def _terminate(self, definition: Obj) -> None:
        condition = {
            "type": "Terminating",
            "status": "True",
            "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
        }
        set_condition(definition, condition, self._cluster.clock.stamp())

    def _wait_until_empty(self, name: str) -> None:
        def on_change(_change: Change) -> None:
            if not self._cluster.store.count(name):
                stop()
                self._release(name)

        stop = self._cluster.store.watch(name, on_change)

    def _release(self, name: str) -> None:
        if self._cluster.find(CRDS, name) is not None:
            self._cluster.modify(CRDS, name, "", _remove_finalizer, caller=server_caller())


def _remove_finalizer(definition: Obj) -> None:
    finalizers = definition["metadata"].get("finalizers", [])
    definition["metadata"]["finalizers"] = [
        finalizer for finalizer in finalizers if finalizer != CLEANUP_FINALIZER
    ]


def _version_hash(group: str, version: str, kind: str) -> str:
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def version_priority(name: str) -> tuple[int, int, int, str]:
    """Return a version's sort key: stable, beta, alpha, then others; newer first.

    Source: k8s.io/apimachinery pkg/version/helpers.go, func CompareKubeAwareVersionStrings.
    """
    match = _VERSION_PATTERN.fullmatch(name)
    if match is None:
        return (3, 0, 0, name)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), name)


def _deprecation_warning(spec: Obj, version: Obj) -> str:
    """Return the warning for requests of a deprecated version; empty for others."""
    if not version.get("deprecated"):
        return ""
    deprecation_warning = version.get("deprecationWarning")
    if deprecation_warning is not None:
        return str(deprecation_warning)
    text = f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
    newer = [
        other_version["name"]
        for other_version in spec["versions"]
        if other_version.get("served")
        and not other_version.get("deprecated")
        and version_priority(other_version["name"]) < version_priority(version["name"])
    ]
    if not newer:
        return text
    best = min(newer, key=version_priority)
    return f"{text}; use {spec['group']}/{best} {spec['names']['kind']}"


def _storage_version_hash(spec: Obj) -> str:
    """Return the discovery hash of the storage version; empty if it is not served."""
    for version in spec["versions"]:
        if version.get("storage") and version.get("served"):
            return _version_hash(spec["group"], version["name"], spec["names"]["kind"])
    return ""


def kinds_of_definition(spec: Obj) -> list[Kind]:
    """Return a kind for each served or stored version, in version priority."""
    names, group = spec["names"], spec["group"]
    kinds = []
    versions = [
        version for version in spec["versions"] if version.get("served") or version.get("storage")
    ]
    versions.sort(key=lambda version: version_priority(version["name"]))
    for version in versions:
        subresources: dict[str, SubResource] = {}
        enabled = version.get("subresources") or {}
        verbs = ("get", "patch", "update")
        if "status" in enabled:
            subresources["status"] = SubResource(
                "status", group, version["name"], names["kind"], verbs
            )
        if enabled.get("scale"):
            subresources["scale"] = SubResource("scale", "autoscaling", "v1", "Scale", verbs)
        kinds.append(
            Kind(
                group=group,
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                singular=names.get("singular", ""),
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                verbs=_VERBS,
                subresources=subresources,
                converted=not version.get("storage"),
                hidden=not version.get("served"),
                list_kind=names.get("listKind", names["kind"] + "List"),
                storage_version_hash=_storage_version_hash(spec),
                structure=CustomResourceSchema(
                    (version.get("schema") or {}).get("openAPIV3Schema") or {},
                    enabled.get("scale"),
                    version.get("additionalPrinterColumns"),
                    tuple(
                        field["jsonPath"].lstrip(".")
                        for field in version.get("selectableFields") or ()
                    ),
                    _deprecation_warning(spec, version),
                ),
            )
        )
    return kinds
