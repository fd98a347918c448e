"""CustomResourceDefinitions: strategy, REST storage, accepted names; strategy of custom resources.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/defaults.go,
pkg/registry/customresourcedefinition/{strategy,etcd}.go,
pkg/registry/customresource/{strategy,status_strategy}.go,
pkg/controller/{status/naming_controller.go,establish,apiapproval}, pkg/apihelpers/helpers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import get_condition, is_condition_true
from pytest_kwait.apimachinery.field_errors import aggregate_errors, invalid_value
from pytest_kwait.apimachinery.strfmt import list_unknown_formats
from pytest_kwait.apimachinery.validation import label_key_texts
from pytest_kwait.simulator.api_errors import forbidden
from pytest_kwait.simulator.apiextensions.definition_validation import (
    ValidationOptions,
    approval_errors,
    approval_state,
    is_protected_group,
    names_errors,
    spec_errors,
    stored_version_errors,
)
from pytest_kwait.simulator.objects import clone, copy_fields
from pytest_kwait.simulator.registry.deletion import DeletionPlan
from pytest_kwait.simulator.registry.generic_store import GenericStore
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.objectmeta import (
    STANDARD_FINALIZER_NAMES,
    name_is_dns_subdomain,
    validate_object_meta,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.apiextensions.definition_validation import ApprovalState
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

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

_NAME_TEXT = 'must be spec.names.plural+"."+spec.group'
_APPROVALS: dict[ApprovalState, tuple[str, str]] = {
    "approved": ("True", "ApprovedAnnotation"),
    "bypassed": ("False", "UnapprovedAnnotation"),
    "invalid": ("False", "InvalidAnnotation"),
    "missing": ("False", "MissingAnnotation"),
}


def approval_condition(definition: Obj) -> Obj | None:
    """Return the approval condition that a definition lacks; None if it needs no change."""
    if not is_protected_group(definition["spec"]["group"]):
        return None
    state, message = approval_state(definition)
    status, reason = _APPROVALS[state]
    condition = {
        "type": "KubernetesAPIApprovalPolicyConformant",
        "status": status,
        "reason": reason,
        "message": message,
    }
    current_condition = get_condition(definition, condition["type"]) or {}
    return None if current_condition.items() >= condition.items() else condition


def set_condition(definition: Obj, new: Obj, stamp: str) -> None:
    """Replace the condition of the same type; keep its time if the status is the same."""
    conditions: list[Obj] = definition["status"].get("conditions") or []
    for index, condition in enumerate(conditions):
        if condition.get("type") == new["type"]:
            same = condition.get("status") == new["status"]
            when = condition.get("lastTransitionTime") if same else stamp
            conditions[index] = {**condition, **new, "lastTransitionTime": when or stamp}
            break
    else:
        conditions.append({**new, "lastTransitionTime": stamp})
    definition["status"]["conditions"] = conditions


def accept_names(definition: Obj, other_definitions: Iterable[Obj], stamp: str) -> bool:
    """Accept the names of `definition` that are free.

    Args:
        definition: the definition; its status is changed.
        other_definitions: the other definitions of its group.
        stamp: the time for its conditions.

    Returns:
        True if the names changed.
    """
    status = definition.setdefault("status", {})
    requested: Obj = definition["spec"]["names"]
    accepted: Obj = status.get("acceptedNames") or {"plural": "", "kind": ""}
    if requested == accepted and get_condition(definition, "NamesAccepted"):
        return False
    before = clone(status)
    resources, kinds = _taken_names([*other_definitions, definition])
    names, trouble = clone(accepted), ("NoConflicts", "no conflicts found")
    for field, taken in (("plural", resources), ("singular", resources)):
        if _is_name_free(requested, accepted, field, taken):
            copy_fields(names, requested, field)
        else:
            trouble = (f"{field.title()}Conflict", f'"{requested[field]}" is already in use')
    known = accepted.get("shortNames") or []
    used = [
        name
        for name in requested.get("shortNames") or ()
        if name not in known and name in resources
    ]
    if used:
        text = aggregate_errors(f'"{name}" is already in use' for name in used)
        trouble = ("ShortNamesConflict", text)
    else:
        copy_fields(names, requested, "shortNames")
    for field, reason in (("kind", "KindConflict"), ("listKind", "ListKindConflict")):
        if _is_name_free(requested, accepted, field, kinds):
            copy_fields(names, requested, field)
        else:
            trouble = (reason, f'"{requested[field]}" is already in use')
    copy_fields(names, requested, "categories")
    good = trouble[0] == "NoConflicts"
    status["acceptedNames"] = names
    condition = {
        "type": "NamesAccepted",
        "status": "True" if good else "False",
        "reason": trouble[0],
        "message": trouble[1],
    }
    old = get_condition(definition, "Established") or {}
    set_condition(definition, condition, stamp)
    if old.get("status") != "True":
        why = ("Installing", "the initial names have been accepted")
        if not good:
            why = ("NotAccepted", "not all names are accepted")
            why = (old["reason"], old["message"]) if old else why
        established = {"type": "Established", "status": "False"}
        set_condition(definition, established | {"reason": why[0], "message": why[1]}, stamp)
    return bool(status != before)


def _taken_names(definitions: list[Obj]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for definition in definitions:
        names: Obj = (definition.get("status") or {}).get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", "")}
        resources |= set(names.get("shortNames") or ())
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources, kinds


def _is_name_free(requested: Obj, accepted: Obj, field: str, taken: set[str]) -> bool:
    name = requested.get(field, "")
    return name == accepted.get(field, "") or name not in taken


class CustomResourceDefinitionStrategy(Strategy):
    """Strategy of CustomResourceDefinitions."""

    allows_unconditional_update = False
    resource_prefix = "apiextensions.k8s.io/customresourcedefinitions"

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

    def prepare_for_create(self, obj: Obj) -> None:
        """Record the storage version as stored."""
        super().prepare_for_create(obj)
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": _storage_versions(obj)[:1] or None,
        }

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Add a new storage version to the stored ones."""
        super().prepare_for_update(new, old)
        status = new.get("status") or {}
        stored = list(status.get("storedVersions") or ())
        stored += [name for name in _storage_versions(new)[:1] if name not in stored]
        new["status"] = {**status, "storedVersions": stored}

    def validate_metadata(self, obj: Obj) -> list[FieldError]:
        """Validate metadata; the name is that of the resource and the group."""
        spec = obj["spec"]
        resource = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"

        def validate_name(name: str, prefix: bool) -> list[str]:
            texts = name_is_dns_subdomain(name, prefix)
            return texts if name == resource else [*texts, _NAME_TEXT]

        return validate_object_meta(obj, self.kind, validate_name)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate a new definition."""
        return self._rules(obj, None, ValidationOptions(), [])

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate an update: group and plural are immutable, scope and kind once established."""
        established = is_condition_true(old, "Established")
        conversion = (old["spec"].get("conversion") or {}).get("webhook") or {}
        bundle = (conversion.get("clientConfig") or {}).get("caBundle")
        spec, before = new["spec"], old["spec"]
        names, names_before = spec.get("names") or {}, before.get("names") or {}
        fixed = [("spec.group", spec.get("group"), before.get("group"))]
        fixed.append(("spec.names.plural", names.get("plural"), names_before.get("plural")))
        if established:
            fixed[:0] = [
                ("spec.scope", spec.get("scope"), before.get("scope")),
                ("spec.names.kind", names.get("kind"), names_before.get("kind")),
            ]
        immutable = [
            invalid_value(at, value, "field is immutable")
            for at, value, was in fixed
            if value != was
        ]
        leniency = ValidationOptions(any_ca=not established or bool(bundle), old=old)
        return self._rules(new, old, leniency, immutable)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate the accepted names."""
        accepted = (new.get("status") or {}).get("acceptedNames") or {}
        return [*names_errors(accepted, "status.acceptedNames")]

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of unknown formats."""
        for form in list_unknown_formats(obj["spec"]):
            caller.warn(f'unrecognized format "{form}"')

    def warn_on_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of new unknown formats."""
        known = {*list_unknown_formats(old["spec"])}
        for form in list_unknown_formats(new["spec"]):
            if form not in known:
                caller.warn(f'unrecognized format "{form}"')

    @staticmethod
    def _rules(
        new: Obj, old: Obj | None, leniency: ValidationOptions, immutable: list[FieldError]
    ) -> list[FieldError]:
        spec = new["spec"]
        errors = [*spec_errors(spec, leniency), *immutable]
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


class CustomResourceDefinitionREST(GenericStore):
    """The REST storage of CustomResourceDefinitions."""

    def before_delete(self, obj: Obj, options: Obj) -> DeletionPlan:
        """Mark a definition as terminating, whose objects are deleted first.

        Raises:
            StatusError: 422 for invalid options, 409 if a precondition fails.
        """
        plan = super().before_delete(obj, options)
        if obj["metadata"].get("deletionTimestamp"):
            return plan
        terminating = _mark_as_terminating(obj, self._cluster.clock.stamp())
        return DeletionPlan(terminating, changed=True, remove=False)


def _mark_as_terminating(definition: Obj, stamp: str) -> Obj:
    """Return a definition with the Terminating condition; its generation stays."""
    metadata, status = definition["metadata"], definition.get("status") or {}
    finalizers = metadata.get("finalizers", [])
    if CLEANUP_FINALIZER not in finalizers:
        finalizers = [*finalizers, CLEANUP_FINALIZER]
    conditions = [{**condition} for condition in status.get("conditions") or ()]
    terminating = {
        **definition,
        "metadata": {**metadata, "deletionTimestamp": stamp, "finalizers": finalizers},
        "status": {**status, "conditions": conditions},
    }
    set_condition(terminating, INITIAL_CONDITION, stamp)
    return terminating


def _storage_versions(obj: Obj) -> list[str]:
    versions = obj["spec"].get("versions") or ()
    return [version.get("name", "") for version in versions if version.get("storage")]


class CustomResourceStrategy(Strategy):
    """The strategy of all custom kinds."""

    allows_unconditional_update = False

    def prepare_for_create(self, obj: Obj) -> None:
        """Deny new objects while the definition is being deleted.

        Raises:
            StatusError: 403, the definition is being deleted.
        """
        structure = self.kind.structure
        if structure is not None and structure.terminating:
            name = obj["metadata"].get("name", "")
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(self.kind.group, self.kind.plural, name, why)
        super().prepare_for_create(obj)

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

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of finalizers that are no qualified names."""
        _warn_finalizers(obj, frozenset(), caller)

    def warn_on_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of new finalizers that are no qualified names."""
        _warn_finalizers(new, frozenset(old["metadata"].get("finalizers") or ()), caller)


def _warn_finalizers(obj: Obj, known: frozenset[str], caller: Caller) -> None:
    for name in sorted({*(obj["metadata"].get("finalizers") or ())} - known):
        warning_prefix = f'metadata.finalizers: "{name}": '
        for text in label_key_texts(name):
            caller.warn(warning_prefix + text)
        if "/" in name or name in STANDARD_FINALIZER_NAMES:
            continue
        form = " including a path (/)" if "." in name else ""
        caller.warn(
            f"{warning_prefix}prefer a domain-qualified finalizer name{form} to avoid accidental "
            "conflicts "
            "with other finalizer writers"
        )
