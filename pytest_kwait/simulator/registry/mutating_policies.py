"""MutatingAdmissionPolicies and their bindings.

Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import invalid_value, not_supported, required
from pytest_kwait.simulator.registry.admissionregistration import (
    match_resources_errors,
    param_ref_errors,
    variable_errors,
)
from pytest_kwait.simulator.registry.match_conditions import match_condition_errors
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.formats import dns_subdomain_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["MutatingAdmissionPolicyBindingStrategy", "MutatingAdmissionPolicyStrategy"]

_MUTATING_POLICY_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_PATCH_TYPE_FIELDS = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


class MutatingAdmissionPolicyStrategy(Strategy):
    """MutatingAdmissionPolicies."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Expressions can be compiled, and it is said what they are about."""
        return [*_mutating_policy_errors(obj.get("spec") or {})]


class MutatingAdmissionPolicyBindingStrategy(Strategy):
    """MutatingAdmissionPolicyBindings."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """A policy is named, with its parameters and its limits."""
        return [*_mutating_binding_errors(obj.get("spec") or {})]


def _mutating_policy_errors(spec: Obj) -> Iterator[FieldError]:
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
        yield from match_resources_errors(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
        yield from _operation_errors(constraints, "spec.matchConstraints")
    params = kind is not None
    conditions = spec.get("matchConditions") or []
    yield from match_condition_errors(conditions, "spec.matchConditions", params=params)
    variables: dict[str, Obj] = {}
    for index, variable in enumerate(spec.get("variables") or ()):
        yield from variable_errors(variable, variables, params, f"spec.variables[{index}]")
    mutations = spec.get("mutations") or []
    if not mutations:
        yield required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        yield from _mutation_errors(mutation, variables, params, f"spec.mutations[{index}]")
    again = spec.get("reinvocationPolicy")
    if not again:
        yield required("spec.reinvocationPolicy")
    elif again not in ("IfNeeded", "Never"):
        yield not_supported("spec.reinvocationPolicy", again, ("IfNeeded", "Never"))


def _operation_errors(constraints: Obj, at: str) -> Iterator[FieldError]:
    for rule in constraints.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTATING_POLICY_OPERATIONS:
                yield not_supported(
                    f"{at}.resourceRules.operations", operation, _MUTATING_POLICY_OPERATIONS
                )


def _mutation_errors(
    mutation: Obj, variables: dict[str, Obj], params: bool, at: str
) -> Iterator[FieldError]:
    kind = mutation.get("patchType")
    if not kind:
        yield required(f"{at}.patchType")
        return
    if kind not in _PATCH_TYPE_FIELDS:
        yield not_supported(f"{at}.patchType", kind, tuple(_PATCH_TYPE_FIELDS))
        return
    field = _PATCH_TYPE_FIELDS[kind]
    if mutation.get(field) is None:
        yield required(f"{at}.{field}", f"must be specified when patchType is {kind}")
    else:
        text = mutation[field].get("expression", "").strip()
        yield from _mutation_expression_errors(
            text, kind, variables, params, f"{at}.{field}.expression"
        )
    for other in _PATCH_TYPE_FIELDS.values():
        if other != field and mutation.get(other) is not None:
            why = f"must not be specified when patchType is {kind}"
            yield invalid_value(f"{at}.{other}", f"{{{other}}}", why)


def _mutation_expression_errors(
    text: str, kind: str, variables: dict[str, Obj], params: bool, at: str
) -> Iterator[FieldError]:
    if not text:
        yield required(at)
        return
    # Not at import: the expressions' library is loaded where one is met.
    from pytest_kwait.simulator.admission.mutation_expressions import mutation_compilation_error

    fault = mutation_compilation_error(text, kind, variables, params=params)
    if fault:
        yield invalid_value(at, text, fault)


def _mutating_binding_errors(spec: Obj) -> Iterator[FieldError]:
    name = spec.get("policyName", "")
    if not name:
        yield required("spec.policyName")
    else:
        for why in dns_subdomain_texts(name):
            yield invalid_value("spec.policyName", name, why)
    yield from param_ref_errors(spec.get("paramRef"))
    limits = spec.get("matchResources")
    if limits is not None:
        yield from match_resources_errors(limits, "spec.matchResources")
        yield from _operation_errors(limits, "spec.matchResources")
