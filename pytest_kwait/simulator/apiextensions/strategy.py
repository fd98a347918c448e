"""Strategies of CustomResourceDefinitions and of custom resources.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/defaults.go,
pkg/registry/customresourcedefinition/strategy.go,
pkg/registry/customresource/{strategy,status_strategy}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import is_condition_true
from pytest_kwait.simulator.api_errors import forbidden, invalid_value
from pytest_kwait.simulator.apiextensions.definition_validation import (
    ValidationOptions,
    approval_errors,
    names_errors,
    spec_errors,
    stored_version_errors,
)
from pytest_kwait.simulator.apiextensions.naming import set_condition
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.strfmt import list_unknown_formats

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = [
    "CLEANUP_FINALIZER",
    "INITIAL_CONDITION",
    "CustomResourceDefinitionStrategy",
    "CustomResourceStrategy",
]

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of definitions whose objects must be deleted first."""

INITIAL_CONDITION = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionPending",
    "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin "
    "soon",
}
"""The Terminating condition of a deleted definition until its objects are gone."""


class CustomResourceDefinitionStrategy(Strategy):
    """Strategy of CustomResourceDefinitions."""

    def default(self, obj: Obj) -> None:
        """Derive singular and list names from the kind."""
        super().default(obj)
        names = obj.setdefault("spec", {}).setdefault("names", {})
        if names.get("kind"):
            if not names.get("singular"):
                names["singular"] = names["kind"].lower()
            if not names.get("listKind"):
                names["listKind"] = names["kind"] + "List"
        for version in obj["spec"].get("versions") or ():
            if "served" not in version:
                version["served"] = False
        webhook = (obj["spec"].get("conversion") or {}).get("webhook") or {}
        service = (webhook.get("clientConfig") or {}).get("service")
        if isinstance(service, dict):
            service.setdefault("port", 443)

    def prepare_create(self, obj: Obj) -> None:
        """Record the storage version as stored."""
        super().prepare_create(obj)
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": _storage_versions(obj)[:1] or None,
        }

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Add a new storage version to the stored ones."""
        super().prepare_update(new, old)
        status = new.get("status") or {}
        stored = list(status.get("storedVersions") or ())
        stored += [name for name in _storage_versions(new)[:1] if name not in stored]
        new["status"] = {**status, "storedVersions": stored}

    def marked(self, obj: Obj, stamp: str) -> Obj | None:
        """Set the Terminating condition; keep the generation."""
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            return None
        finalizers = metadata.get("finalizers", [])
        if CLEANUP_FINALIZER not in finalizers:
            finalizers = [*finalizers, CLEANUP_FINALIZER]
        metadata = {**metadata, "deletionTimestamp": stamp, "finalizers": finalizers}
        status = obj.get("status") or {}
        new = {**obj, "metadata": metadata, "status": {**status}}
        new["status"]["conditions"] = [{**one} for one in status.get("conditions") or ()]
        set_condition(new, INITIAL_CONDITION, stamp)
        return new

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate a new definition."""
        return self._rules(obj, None, ValidationOptions())

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate an update: group and plural are immutable, scope and kind once established."""
        established = is_condition_true(old, "Established")
        conversion = (old["spec"].get("conversion") or {}).get("webhook") or {}
        bundle = (conversion.get("clientConfig") or {}).get("caBundle")
        errors = self._rules(
            new, old, ValidationOptions(any_ca=not established or bool(bundle), old=old)
        )
        spec, before = new["spec"], old["spec"]
        names, names_before = spec.get("names") or {}, before.get("names") or {}
        fixed = [("spec.group", spec.get("group"), before.get("group"))]
        fixed.append(("spec.names.plural", names.get("plural"), names_before.get("plural")))
        if established:
            fixed[:0] = [
                ("spec.scope", spec.get("scope"), before.get("scope")),
                ("spec.names.kind", names.get("kind"), names_before.get("kind")),
            ]
        errors += [
            invalid_value(at, value, "field is immutable")
            for at, value, was in fixed
            if value != was
        ]
        return errors

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate the accepted names."""
        accepted = (new.get("status") or {}).get("acceptedNames") or {}
        return [*names_errors(accepted, "status.acceptedNames")]

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of unknown formats."""
        for form in list_unknown_formats(obj["spec"]):
            caller.warn(f'unrecognized format "{form}"')

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of new unknown formats."""
        known = {*list_unknown_formats(old["spec"])}
        for form in list_unknown_formats(new["spec"]):
            if form not in known:
                caller.warn(f'unrecognized format "{form}"')

    @staticmethod
    def _rules(new: Obj, old: Obj | None, leniency: ValidationOptions) -> list[FieldError]:
        spec = new["spec"]
        errors = spec_errors(spec, leniency)
        accepted = (new.get("status") or {}).get("acceptedNames") or {}
        errors += names_errors(accepted, "status.acceptedNames")
        errors += stored_version_errors(new)
        errors += approval_errors(new, old)
        if spec.get("preserveUnknownFields") and not (
            old is not None and old["spec"].get("preserveUnknownFields")
        ):
            text = (
                "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
                "spec.versions[*].schema instead"
            )
            errors.append(invalid_value("spec.preserveUnknownFields", True, text))
        return errors


def _storage_versions(obj: Obj) -> list[str]:
    versions = obj["spec"].get("versions") or ()
    return [one.get("name", "") for one in versions if one.get("storage")]


class CustomResourceStrategy(Strategy):
    """The strategy of all custom kinds."""

    def prepare_create(self, obj: Obj) -> None:
        """Deny new objects while the definition is being deleted.

        Raises:
            StatusError: 403, the definition is being deleted.
        """
        structure = self.kind.structure
        if structure is not None and structure.terminating:
            name = obj["metadata"].get("name", "")
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(self.kind.group, self.kind.plural, name, why)
        super().prepare_create(obj)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate a new object against the schema."""
        structure = self.kind.structure
        return [] if structure is None else structure.errors(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate the changes of an object."""
        structure = self.kind.structure
        return [] if structure is None else structure.errors(new, old)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate the changes of a status."""
        structure = self.kind.structure
        return [] if structure is None else structure.status_errors(new, old)
