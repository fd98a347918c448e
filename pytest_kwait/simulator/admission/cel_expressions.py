"""Evaluation of CEL expressions about requests, and mutations of policies.

Source: k8s.io/apiserver pkg/admission/plugin/cel, pkg/admission/plugin/policy/mutating/patch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.admission.webhooks.admission_reviews import (
    build_admission_request,
    to_reviewed_version,
)
from pytest_kwait.simulator.cel.admission_compiler import to_json, to_runtime_form
from pytest_kwait.simulator.cel.expressions import (
    MATCH_CONDITIONS_COST_BUDGET,
    RUNTIME_COST_BUDGET,
    CostBudget,
    CostBudgetExceededError,
    EvaluationError,
    Expression,
)
from pytest_kwait.simulator.cel.library.authz import AUTHORIZER, make_authorizer
from pytest_kwait.simulator.cel.values import ErrorValue
from pytest_kwait.simulator.codec.schema import Form
from pytest_kwait.simulator.managedfields.apply import merge_configuration
from pytest_kwait.simulator.managedfields.field_manager import find_type_errors, object_shape
from pytest_kwait.simulator.patch import JsonPatchError, apply_operations
from pytest_kwait.simulator.request_info import AuthorizationAttributes, User
from pytest_kwait.simulator.suspendable import on_loop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kwait.simulator.admission.attributes import Attributes
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.codec.schema import Shape
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

_EMPTY_REQUEST = {"subResource": "", "requestSubResource": "", "name": "", "namespace": ""}


@lru_cache(maxsize=1024)
def _expression(text: str) -> Expression:
    return Expression(text)


class _LazyVariables(dict[str, Any]):
    """The variables of a policy, evaluated on first use."""

    def __init__(self, activation: Activation, expressions: Mapping[str, str]) -> None:
        super().__init__()
        self._situation = activation
        self._expressions = expressions

    def __contains__(self, name: object) -> bool:
        return name in self._expressions

    def __missing__(self, name: str) -> Any:
        text = self._expressions[name]
        try:
            value = self._situation.evaluate(text)
        except EvaluationError as error:
            value = ErrorValue(f'composited variable "{name}" fails to evaluate: {error}')
        self[name] = value
        return value


class Activation:
    """The variables of expressions about one request.

    Args:
        kind: the version of the objects.
        variables: the expressions of a policy's variables.
        params: the policy's parameters.

    Attributes:
        budget: the remaining cost of evaluations.
    """

    def __init__(
        self,
        cluster: Cluster,
        attributes: Attributes,
        kind: Kind,
        variables: Mapping[str, str] | None = None,
        params: Obj | None = None,
    ) -> None:
        namespace = attributes.namespace
        own = attributes.kind.bucket == "namespaces"
        object_kind = attributes.subresource_kind or kind
        self.budget = CostBudget(RUNTIME_COST_BUDGET)
        self._values: dict[str, Any] = {
            "object": to_reviewed_version(object_kind, attributes.obj),
            "oldObject": to_reviewed_version(object_kind, attributes.old),
            "request": {
                **_EMPTY_REQUEST,
                **_drop_objects(build_admission_request(kind, attributes)),
            },
            "params": params,
            "namespaceObject": cluster.find("namespaces", namespace)
            if namespace and not own
            else None,
        }
        self._variables = variables or {}
        self.reset_variables()
        self._cluster = cluster
        self._values["authorizer"] = _authorizer_variable(attributes)

    def reset_variables(self, budget: CostBudget | None = None) -> None:
        """Forget the values of variables; continue with the rest of the budget or another one.

        Source: apiserver/pkg/admission/plugin/cel/composition.go, `ForInput`.
        """
        self._values["variables"] = _LazyVariables(self, self._variables)
        if budget is not None:
            self.budget = budget

    def evaluate(self, text: str, form: str = "") -> Any:
        """Evaluate an expression.

        Args:
            form: the form to run in its place; empty for itself.

        Raises:
            EvaluationError: the evaluation fails.
            CostBudgetExceededError: the budget is exceeded.
        """
        token = AUTHORIZER.set(self._decide)
        try:
            return _expression(form or text).evaluate(self._values, self.budget)
        finally:
            AUTHORIZER.reset(token)

    def _decide(self, check: Obj) -> tuple[bool, str]:
        """Authorize a check of the authorizer."""
        user = User(check["user"]["name"], tuple(check["user"]["groups"]), "", {})
        if "path" in check:
            requested = AuthorizationAttributes(user, check["verb"], path=check["path"])
        else:
            fields = ("group", "resource", "subresource", "name", "namespace")
            values = {field: check.get(field, "") for field in fields}
            requested = AuthorizationAttributes(user, check["verb"], **values)
        decision = on_loop(lambda: self._cluster.rbac.decide(requested))
        return decision.allowed, decision.reason

    def evaluate_conditions(self, conditions: list[Obj]) -> tuple[bool, str]:
        """Return whether a condition is false, and the errors of the evaluation.

        Conditions have a budget of their own.
        """
        failures, own_budget = [], self.budget
        self.budget = CostBudget(MATCH_CONDITIONS_COST_BUDGET)
        try:
            for condition in conditions:
                text = condition["expression"]
                try:
                    if self.evaluate(text) is not True:
                        return True, ""
                except EvaluationError as error:
                    failures.append(f"expression '{text}' resulted in error: {error}")
        except CostBudgetExceededError as error:
            return False, str(error)
        finally:
            self.budget = own_budget
        if len(failures) > 1:
            return False, f"[{', '.join(failures)}]"
        return False, "".join(failures)


def _authorizer_variable(attributes: Attributes) -> Obj:
    kind = attributes.requested_kind or attributes.kind
    user = attributes.caller.identity
    resource = {
        "group": kind.group,
        "resource": kind.plural,
        "subresource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace if kind.namespaced else "",
    }
    return make_authorizer({"name": user.name, "groups": [*user.groups]}, resource)


def _drop_objects(request: Obj) -> Obj:
    return {key: value for key, value in request.items() if key not in ("object", "oldObject")}


class MutationError(ValueError):
    """A mutation failed; the text is the reason."""


def apply_mutation(mutation: Obj, activation: Activation, kind: Kind, obj: Obj) -> Obj:
    """Apply a mutation to an object.

    Args:
        activation: the variables of the request, with the current object.
        kind: the version of the kind.
        obj: the object in that version.

    Raises:
        MutationError: the mutation fails.
    """
    by_patch = mutation["patchType"] == "JSONPatch"
    field = "jsonPatch" if by_patch else "applyConfiguration"
    text: str = mutation[field]["expression"].strip()
    try:
        value = activation.evaluate(text, to_runtime_form(text))
    except EvaluationError as error:
        raise MutationError(f"expression '{text}' resulted in error: {error}") from None
    except CostBudgetExceededError as error:
        raise MutationError(str(error)) from None
    try:
        if by_patch:
            return apply_operations(
                obj, [_to_json_patch_operation(operation) for operation in value]
            )
        return _apply_configuration(to_json(value, ("Object",)), kind, obj)
    except JsonPatchError as error:
        if error.test:
            return obj
        raise MutationError(f"JSON Patch: {error}") from None
    except EvaluationError as error:
        raise MutationError(str(error)) from None


def _to_json_patch_operation(entry: Obj) -> Obj:
    operation = {name: entry[name] for name in ("op", "path", "from") if entry.get(name)}
    if "value" in entry:
        operation["value"] = to_json(entry["value"])
    return {"op": "", "path": "", **operation}


def _apply_configuration(configuration: Obj, kind: Kind, obj: Obj) -> Obj:
    shape = object_shape(kind)
    failed = "error applying patch:"
    errors = find_type_errors(configuration, shape) if kind.structure is None else []
    if errors:
        text = errors[0] if len(errors) == 1 else "errors:\n  " + "\n  ".join(errors)
        raise MutationError(f"{failed} failed to convert patch object to typed object: {text}")
    whole = [*_atomic_fields(configuration, shape, "")]
    if whole:
        raise MutationError(
            f"{failed} invalid ApplyConfiguration: may not mutate atomic arrays, maps or "
            f"structs: {', '.join(whole)}"
        )
    merged: Obj = merge_configuration(obj, configuration, shape)
    return merged


def _atomic_fields(value: Any, shape: Shape | None, path: str) -> Iterator[str]:
    """Yield the paths of atomic fields in an apply configuration."""
    if shape is None or not isinstance(value, dict | list) or shape.form is Form.ANY:
        return
    if shape.atomic:
        yield path
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _atomic_fields(item, shape.item, f"{path}[{index}]")
        return
    for name, item in value.items():
        inner = shape.struct.fields.get(name) if shape.form is Form.STRUCT else shape.item
        yield from _atomic_fields(item, inner, f"{path}.{name}")
