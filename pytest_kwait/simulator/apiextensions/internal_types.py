"""The internal version of a definition: fields shared by all versions are at the top.

Messages name fields of the internal version and print parts of it.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/{types,types_jsonschema}.go,
pkg/apis/apiextensions/v1/conversion.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.field_errors import FieldError
from pytest_kwait.apimachinery.go_values import dump_go_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.objects import Obj

SHARED_FIELDS = {
    "subresources": "subresources",
    "schema": "validation",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""The fields of a version that move to the spec where all versions agree, with their names."""

_SCHEMA: dict[str, tuple[str, Any]] = {
    "ID": ("id", ""),
    "Schema": ("$schema", ""),
    "Ref": ("$ref", None),
    "Description": ("description", ""),
    "Type": ("type", ""),
    "Nullable": ("nullable", False),
    "Format": ("format", ""),
    "Title": ("title", ""),
    "Default": ("default", None),
    "Maximum": ("maximum", None),
    "ExclusiveMaximum": ("exclusiveMaximum", False),
    "Minimum": ("minimum", None),
    "ExclusiveMinimum": ("exclusiveMinimum", False),
    "MaxLength": ("maxLength", None),
    "MinLength": ("minLength", None),
    "Pattern": ("pattern", ""),
    "MaxItems": ("maxItems", None),
    "MinItems": ("minItems", None),
    "UniqueItems": ("uniqueItems", False),
    "MultipleOf": ("multipleOf", None),
    "Enum": ("enum", None),
    "MaxProperties": ("maxProperties", None),
    "MinProperties": ("minProperties", None),
    "Required": ("required", None),
    "Items": ("items", None),
    "AllOf": ("allOf", None),
    "OneOf": ("oneOf", None),
    "AnyOf": ("anyOf", None),
    "Not": ("not", None),
    "Properties": ("properties", None),
    "AdditionalProperties": ("additionalProperties", None),
    "PatternProperties": ("patternProperties", None),
    "Dependencies": ("dependencies", None),
    "AdditionalItems": ("additionalItems", None),
    "Definitions": ("definitions", None),
    "ExternalDocs": ("externalDocs", None),
    "Example": ("example", None),
    "XPreserveUnknownFields": ("x-kubernetes-preserve-unknown-fields", None),
    "XEmbeddedResource": ("x-kubernetes-embedded-resource", False),
    "XIntOrString": ("x-kubernetes-int-or-string", False),
    "XListMapKeys": ("x-kubernetes-list-map-keys", None),
    "XListType": ("x-kubernetes-list-type", None),
    "XMapType": ("x-kubernetes-map-type", None),
    "XValidations": ("x-kubernetes-validations", None),
}
_RULE: dict[str, tuple[str, Any]] = {
    "Rule": ("rule", ""),
    "Message": ("message", ""),
    "MessageExpression": ("messageExpression", ""),
    "Reason": ("reason", None),
    "FieldPath": ("fieldPath", ""),
    "OptionalOldSelf": ("optionalOldSelf", None),
}
_VERSION: dict[str, tuple[str, Any]] = {
    "Name": ("name", ""),
    "Served": ("served", False),
    "Storage": ("storage", False),
    "Deprecated": ("deprecated", False),
    "DeprecationWarning": ("deprecationWarning", None),
    "Schema": ("schema", None),
    "Subresources": ("subresources", None),
    "AdditionalPrinterColumns": ("additionalPrinterColumns", None),
    "SelectableFields": ("selectableFields", None),
}
_COLUMN: dict[str, tuple[str, Any]] = {
    "Name": ("name", ""),
    "Type": ("type", ""),
    "Format": ("format", ""),
    "Description": ("description", ""),
    "Priority": ("priority", 0),
    "JSONPath": ("jsonPath", ""),
}
_SCALE: dict[str, tuple[str, Any]] = {
    "SpecReplicasPath": ("specReplicasPath", ""),
    "StatusReplicasPath": ("statusReplicasPath", ""),
    "LabelSelectorPath": ("labelSelectorPath", None),
}


def hoist_shared_fields(spec: Obj) -> Obj:
    """Move fields on which all versions agree to the spec."""
    versions: list[Obj] = spec.get("versions") or []
    if not versions:
        return spec
    form = {**spec, "version": versions[0].get("name", "")}
    for field, name in SHARED_FIELDS.items():
        first = versions[0].get(field)
        if all(version.get(field) == first for version in versions):
            if first is not None:
                form[name] = first
            versions = [
                {key: value for key, value in version.items() if key != field}
                for version in versions
            ]
    return {**form, "versions": versions}


def invalid_struct_error(field: str, value: object, detail: str) -> FieldError:
    """Return the error for a value that Go prints field by field."""
    text = dump_go_json(value, sort_keys=False)
    return FieldError("FieldValueInvalid", field, f"Invalid value: {text}: {detail}")


def internal_rule(rule: Obj) -> Obj:
    """Return a rule with Go's field names."""
    return _internal_fields(rule, _RULE)


def internal_version(version: Obj) -> Obj:
    """Return a version with Go's field names."""
    form = _internal_fields(version, _VERSION)
    if form["Schema"] is not None:
        schema = form["Schema"].get("openAPIV3Schema")
        form["Schema"] = {"OpenAPIV3Schema": None if schema is None else internal_schema(schema)}
    if form["Subresources"] is not None:
        below: Obj = form["Subresources"]
        scale = below.get("scale")
        form["Subresources"] = {
            "Status": {} if "status" in below else None,
            "Scale": None if scale is None else _internal_fields(scale, _SCALE),
        }
    if form["AdditionalPrinterColumns"] is not None:
        form["AdditionalPrinterColumns"] = [
            _internal_fields(column, _COLUMN) for column in form["AdditionalPrinterColumns"]
        ]
    if form["SelectableFields"] is not None:
        form["SelectableFields"] = [
            {"JSONPath": field.get("jsonPath", "")} for field in form["SelectableFields"]
        ]
    return form


def internal_schema(schema: Obj) -> Obj:
    """Return a schema and its parts with Go's field names."""
    form = _internal_fields(schema, _SCHEMA)
    for name in ("AllOf", "OneOf", "AnyOf"):
        if form[name] is not None:
            form[name] = [internal_schema(schema_part) for schema_part in form[name]]
    for name in ("Properties", "PatternProperties", "Definitions"):
        if form[name] is not None:
            form[name] = {
                key: internal_schema(schema_part) for key, schema_part in sorted(form[name].items())
            }
    if form["Not"] is not None:
        form["Not"] = internal_schema(form["Not"])
    items = form["Items"]
    if isinstance(items, list):
        form["Items"] = {"Schema": None, "JSONSchemas": [internal_schema(item) for item in items]}
    elif items is not None:
        form["Items"] = {"Schema": internal_schema(items), "JSONSchemas": None}
    for name in ("AdditionalProperties", "AdditionalItems"):
        if isinstance(form[name], dict):
            form[name] = {"Allows": True, "Schema": internal_schema(form[name])}
        elif form[name] is not None:
            form[name] = {"Allows": form[name], "Schema": None}
    if form["XValidations"] is not None:
        form["XValidations"] = [internal_rule(rule) for rule in form["XValidations"]]
    return form


def _internal_fields(value: Obj, fields: Mapping[str, tuple[str, Any]]) -> Obj:
    return {name: value.get(field, empty) for name, (field, empty) in fields.items()}
