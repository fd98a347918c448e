"""Admission policies and their bindings.

Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import (
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.registry.match_conditions import match_condition_errors
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.registry.webhooks import rule_errors
from pytest_kwait.simulator.validation.formats import label_key_texts
from pytest_kwait.simulator.validation.objectmeta import selector_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "ValidatingAdmissionPolicyBindingStrategy",
    "ValidatingAdmissionPolicyStrategy",
    "match_resources_errors",
    "param_ref_errors",
    "variable_errors",
]

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_MAX_AUDIT_ANNOTATIONS = 20
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_RULES_MESSAGE = "validations or auditAnnotations must contain at least one item"


class ValidatingAdmissionPolicyStrategy(Strategy):
    """ValidatingAdmissionPolicies."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Expressions can be compiled, and it is said what they are about."""
        return [*_validating_policy_errors(obj.get("spec") or {}, name_of(obj))]


class ValidatingAdmissionPolicyBindingStrategy(Strategy):
    """ValidatingAdmissionPolicyBindings."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """A policy is named, with what follows where it is broken."""
        return [*_validating_binding_errors(obj.get("spec") or {})]


def _validating_policy_errors(spec: Obj, name: str) -> Iterator[FieldError]:
    policy = spec.get("failurePolicy", "Fail")
    if policy not in ("Fail", "Ignore"):
        yield not_supported("spec.failurePolicy", policy, ("Fail", "Ignore"))
    kind: Obj | None = spec.get("paramKind")
    if kind is not None:
        for field in ("apiVersion", "kind"):
            if not kind.get(field):
                yield required(f"spec.paramKind.{field}")
    constraints: Obj | None = spec.get("matchConstraints")
    if constraints is None:
        yield required("spec.matchConstraints")
    else:
        if not constraints.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
        yield from match_resources_errors(constraints, "spec.matchConstraints")
    conditions = spec.get("matchConditions") or []
    yield from match_condition_errors(conditions, "spec.matchConditions", params=kind is not None)
    variables: dict[str, Obj] = {}
    for index, variable in enumerate(spec.get("variables") or ()):
        yield from variable_errors(
            variable, variables, kind is not None, f"spec.variables[{index}]"
        )
    validations, notes = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not notes:
        yield required("spec.validations", _NO_RULES_MESSAGE)
        yield required("spec.auditAnnotations", _NO_RULES_MESSAGE)
    for index, validation in enumerate(validations):
        at = f"spec.validations[{index}]"
        yield from _validation_errors(validation, variables, kind is not None, at)
    if len(notes) > _MAX_AUDIT_ANNOTATIONS:
        shown = [
            {"Key": note.get("key", ""), "ValueExpression": note.get("valueExpression", "")}
            for note in notes
        ]
        why = f"must not have more than {_MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        yield invalid_value("spec.auditAnnotations", shown, why)
    keys: set[str] = set()
    for index, note in enumerate(notes):
        at = f"spec.auditAnnotations[{index}]"
        yield from _audit_annotation_errors(note, name, variables, kind is not None, at)
        if note.get("key", "") in keys:
            yield duplicate(f"{at}.key", note.get("key", ""))
        keys.add(note.get("key", ""))


def _audit_annotation_errors(
    note: Obj, policy: str, variables: dict[str, Obj], params: bool, at: str
) -> Iterator[FieldError]:
    """What is wrong with what a policy notes for audits: its value is a text or nothing."""
    key, text = note.get("key", ""), note.get("valueExpression", "").strip()
    if policy:
        for why in label_key_texts(f"{policy}/{key}"):
            yield invalid_value(f"{at}.key", f"{policy}/{key}", why)
    else:
        yield invalid_value(f"{at}.key", key, "requires metadata.name be non-empty")
    if not text:
        yield required(f"{at}.valueExpression", "valueExpression is not specified")
        return
    # Not at import: the expressions' library is loaded where one is met.
    from pytest_kwait.simulator.admission.cel_expressions import value_type
    from pytest_kwait.simulator.cel.expressions import CompilationError

    try:
        found = value_type(text, variables, params=params)
    except CompilationError as error:
        why = f"compilation failed: {error}".replace("null_type", "null")
        yield invalid_value(f"{at}.valueExpression", note["valueExpression"], why)
        return
    if found not in ("STRING", "NULL"):
        why = f"must evaluate to one of [string null_type] but got {found.lower()}"
        yield invalid_value(f"{at}.valueExpression", note["valueExpression"], why)


def match_resources_errors(constraints: Obj, at: str) -> Iterator[FieldError]:
    """What is wrong with what a policy or a binding is about."""
    for field in ("namespaceSelector", "objectSelector"):
        yield from selector_errors(constraints.get(field) or {}, f"{at}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(constraints.get(field) or ()):
            yield from rule_errors(rule, f"{at}.{field}[{index}]")
    policy = constraints.get("matchPolicy", "Equivalent")
    if policy not in ("Equivalent", "Exact"):
        yield not_supported(f"{at}.matchPolicy", policy, ("Equivalent", "Exact"))


def _policy_expression_errors(
    holder: Obj, field: str, wanted: str, variables: dict[str, Obj], params: bool, at: str
) -> Iterator[FieldError]:
    # Not at import: the expressions' library is loaded where one is met.
    from pytest_kwait.simulator.admission.cel_expressions import compilation_error

    text = holder.get(field, "")
    fault, found = compilation_error(text, wanted, variables, params=params)
    if fault:
        yield invalid_value(f"{at}.{field}", text, fault)
    if _IDENTIFIER.fullmatch(holder.get("name", "")):
        variables.setdefault(holder["name"], found)


def variable_errors(
    variable: Obj, variables: dict[str, Obj], params: bool, at: str
) -> Iterator[FieldError]:
    """What is wrong with a policy's variable, which is among `variables` from then on."""
    name = variable.get("name", "")
    if not name:
        yield required(f"{at}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name):
        yield invalid_value(f"{at}.name", name, "must be a valid CEL identifier")
    if name and name in variables:
        yield duplicate(f"{at}.name", name)
    if not variable.get("expression", "").strip():
        yield required(f"{at}.expression", "expression is not specified")
    else:
        yield from _policy_expression_errors(variable, "expression", "", variables, params, at)


def _validation_errors(
    validation: Obj, variables: dict[str, Obj], params: bool, at: str
) -> Iterator[FieldError]:
    text, message = validation.get("expression", "").strip(), validation.get("message", "")
    if not text:
        yield required(f"{at}.expression", "expression is not specified")
    else:
        yield from _policy_expression_errors(
            validation, "expression", "bool", variables, params, at
        )
    if validation.get("messageExpression", "").strip():
        yield from _policy_expression_errors(
            validation, "messageExpression", "string", variables, params, at
        )
    if message and not message.strip():
        yield invalid_value(f"{at}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid_value(f"{at}.message", message, "must not contain line breaks")
    elif "\n" in text and not message:
        why = "message must be specified if expression contains line breaks"
        yield required(f"{at}.message", why)
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{at}.reason", reason, _REASONS)


def param_ref_errors(reference: Obj | None) -> Iterator[FieldError]:
    """What is wrong with where a binding has its parameters from."""
    if reference is None:
        return
    given = [field for field in ("name", "selector") if reference.get(field) is not None]
    if not given:
        yield required("spec.paramRef", "one of name or selector must be specified")
    elif len(given) > 1:
        why = "name and selector are mutually exclusive"
        for field in given:
            yield forbidden_field(f"spec.paramRef.{field}", why)
    action, at = reference.get("parameterNotFoundAction"), "spec.paramRef"
    if action is None:
        yield required(f"{at}.parameterNotFoundAction")
    elif action not in ("Deny", "Allow"):
        yield not_supported(f"{at}.parameterNotFoundAction", action, ("Deny", "Allow"))


def _validating_binding_errors(spec: Obj) -> Iterator[FieldError]:
    name = spec.get("policyName", "")
    if not name:
        yield required("spec.policyName")
    else:
        for why in label_key_texts(name):
            yield invalid_value("spec.policyName", name, why)
    yield from param_ref_errors(spec.get("paramRef"))
    if spec.get("matchResources") is not None:
        yield from match_resources_errors(spec["matchResources"], "spec.matchResources")
    actions: list[str] = spec.get("validationActions") or []
    if not actions:
        why = "at least one validation action is required"
        yield required("spec.validationActions", why)
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"spec.validationActions[{index}]", action, _ACTIONS)
        elif action in actions[:index]:
            yield duplicate(f"spec.validationActions[{index}]", action)
    if {"Deny", "Warn"} <= set(actions):
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        yield invalid_value("spec.validationActions", actions, why)
