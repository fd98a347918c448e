"""CustomResourceDefinitions: names, versions, schemas that can be served.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/{v1/defaults.go,validation}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.status_error import (
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.simulator.strategies.generic import Strategy
from pytest_kwait.simulator.validation import name_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["CLEANUP", "DefinitionStrategy"]

_SCOPES = ("Cluster", "Namespaced")
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until its objects are gone."""


class DefinitionStrategy(Strategy):
    """CustomResourceDefinitions."""

    def default(self, obj: Obj) -> None:
        """Singular and list names follow from the kind."""
        super().default(obj)
        names = obj.setdefault("spec", {}).setdefault("names", {})
        if names.get("kind"):
            names.setdefault("singular", names["kind"].lower())
            names.setdefault("listKind", names["kind"] + "List")
        for version in obj["spec"].get("versions", ()):
            if "served" not in version:
                version["served"] = False

    def prepare_create(self, obj: Obj) -> None:
        """The storage version is what objects are stored in from now on."""
        super().prepare_create(obj)
        stored = [one["name"] for one in obj["spec"].get("versions", ()) if one.get("storage")]
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored,
        }

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """A new storage version joins those that objects may be stored in."""
        super().prepare_update(new, old)
        status = new.get("status") or {}
        stored = list(status.get("storedVersions") or ())
        for version in new["spec"].get("versions", ()):
            if version.get("storage") and version["name"] not in stored:
                stored.append(version["name"])
        new["status"] = {**status, "storedVersions": stored}

    def prepare_delete(self, obj: Obj) -> Obj:
        """Kept until its objects are gone."""
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            return obj
        finalizers = [one for one in metadata.get("finalizers", ()) if one != CLEANUP]
        return {**obj, "metadata": {**metadata, "finalizers": [*finalizers, CLEANUP]}}

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """The name is made of plural and group; one version is stored; each has a schema."""
        spec = obj["spec"]
        group, names = spec.get("group", ""), spec.get("names", {})
        errors: list[FieldError] = []
        wanted = f"{names.get('plural', '')}.{group}"
        if obj["metadata"].get("name") != wanted:
            errors.append(
                invalid_value(
                    "metadata.name",
                    obj["metadata"].get("name", ""),
                    'must be spec.names.plural+"."+spec.group',
                )
            )
        if not group:
            errors.append(required("spec.group"))
        elif "." not in group:
            errors.append(
                invalid_value("spec.group", group, "should be a domain with at least one dot")
            )
        else:
            errors += [invalid_value("spec.group", group, text) for text in name_errors(group)]
        if spec.get("scope") not in _SCOPES:
            errors.append(
                required("spec.scope")
                if not spec.get("scope")
                else not_supported("spec.scope", spec["scope"], _SCOPES)
            )
        errors += [
            required(f"spec.names.{field}") for field in ("plural", "kind") if not names.get(field)
        ]
        versions = spec.get("versions", [])
        if sum(bool(version.get("storage")) for version in versions) != 1:
            text = "must have exactly one version marked as storage version"
            errors.append(invalid_value("spec.versions", versions, text))
        for index, version in enumerate(versions):
            at = f"spec.versions[{index}].schema.openAPIV3Schema"
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if schema is None:
                errors.append(required(at, "schemas are required"))
            elif schema.get("type") != "object":
                if not schema.get("type"):
                    errors.append(required(f"{at}.type", "must not be empty at the root"))
                else:
                    errors.append(
                        invalid_value(f"{at}.type", schema["type"], "must be object at the root")
                    )
        if spec.get("preserveUnknownFields"):
            text = (
                "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
                "spec.versions[*].schema instead"
            )
            errors.append(invalid_value("spec.preserveUnknownFields", True, text))
        return errors

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Group, scope and names of the kind never change."""
        errors = self.validate_create(new)
        for field in ("group", "scope"):
            if new["spec"].get(field) != old["spec"].get(field):
                errors.append(
                    invalid_value(f"spec.{field}", new["spec"].get(field), "field is immutable")
                )
        for field in ("kind", "plural"):
            value = new["spec"].get("names", {}).get(field)
            if value != old["spec"].get("names", {}).get(field):
                errors.append(invalid_value(f"spec.names.{field}", value, "field is immutable"))
        if old["metadata"].get("deletionTimestamp") and new["spec"] != old["spec"]:
            errors.append(forbidden_field("spec", "the definition is being deleted"))
        return errors
