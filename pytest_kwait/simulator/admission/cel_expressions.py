"""CEL expressions about requests: variables, compilation, evaluation, mutations.

Source: k8s.io/apiserver pkg/admission/plugin/cel, pkg/cel/environment,
pkg/admission/plugin/policy/mutating/patch.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.admission.webhooks.admission_reviews import (
    build_admission_request,
    to_reviewed_version,
)
from pytest_kwait.simulator.authorization.attributes import Attributes as AuthorizationAttributes
from pytest_kwait.simulator.cel.expressions import (
    MATCH_CONDITIONS_COST_BUDGET,
    RUNTIME_COST_BUDGET,
    Budget,
    CompilationError,
    CostBudgetExceededError,
    EvaluationError,
    Expression,
    get_checked_type,
)
from pytest_kwait.simulator.cel.library.authz import AUTHORIZER, make_authorizer
from pytest_kwait.simulator.cel.object_literals import (
    declare_types,
    to_checked_form,
    to_json,
    to_runtime_form,
)
from pytest_kwait.simulator.cel.schema_types import SchemaTypes
from pytest_kwait.simulator.cel.values import ErrorValue
from pytest_kwait.simulator.codec.schema import Form
from pytest_kwait.simulator.json_patch import JsonPatchError, apply_operations
from pytest_kwait.simulator.managedfields.apply import merge_configuration
from pytest_kwait.simulator.managedfields.field_manager import object_shape
from pytest_kwait.simulator.managedfields.field_sets import find_type_errors
from pytest_kwait.simulator.request_info import User

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from google.protobuf.descriptor_pool import DescriptorPool

    from pytest_kwait.simulator.admission.attributes import Attributes
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.codec.schema import Shape
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

__all__ = [
    "Activation",
    "MutationError",
    "apply_mutation",
    "compilation_error",
    "mutation_compilation_error",
    "value_type",
    "variable_type",
]

_STRING: Obj = {"type": "string"}
_STRING_LIST: Obj = {"type": "array", "items": _STRING}
_ANY: Obj = {"x-kubernetes-int-or-string": True}


def _string_fields(*names: str) -> Obj:
    return {"type": "object", "properties": dict.fromkeys(names, _STRING)}


_GROUP_VERSION_KIND, _GROUP_VERSION_RESOURCE = (
    _string_fields("group", "version", "kind"),
    _string_fields("group", "version", "resource"),
)
_USER: Obj = {
    "type": "object",
    "properties": {
        "username": _STRING,
        "uid": _STRING,
        "groups": _STRING_LIST,
        "extra": {"type": "object", "additionalProperties": _STRING_LIST},
    },
}
_REQUEST: Obj = {
    "type": "object",
    "properties": {
        "kind": _GROUP_VERSION_KIND,
        "resource": _GROUP_VERSION_RESOURCE,
        "subResource": _STRING,
        "requestKind": _GROUP_VERSION_KIND,
        "requestResource": _GROUP_VERSION_RESOURCE,
        "requestSubResource": _STRING,
        "name": _STRING,
        "namespace": _STRING,
        "operation": _STRING,
        "userInfo": _USER,
        "dryRun": {"type": "boolean"},
        "options": _ANY,
    },
}
_INTEGER: Obj = {"type": "integer"}
_TIME: Obj = {"type": "string", "format": "date-time"}
_STRING_MAP: Obj = {"type": "object", "additionalProperties": _STRING}
_CONDITION: Obj = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("status", "type", "message", "reason"), _STRING),
        "lastTransitionTime": _TIME,
    },
}
_NAMESPACE: Obj = {
    "type": "object",
    "properties": {
        "metadata": {
            "type": "object",
            "properties": {
                **dict.fromkeys(
                    ("name", "generateName", "namespace", "UID", "resourceVersion"), _STRING
                ),
                **dict.fromkeys(("labels", "annotations"), _STRING_MAP),
                **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
                **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), _INTEGER),
                "finalizers": _STRING_LIST,
            },
        },
        "spec": {"type": "object", "properties": {"finalizers": _STRING_LIST}},
        "status": {
            "type": "object",
            "properties": {"conditions": {"type": "array", "items": _CONDITION}, "phase": _STRING},
        },
    },
}
_CEL_TYPES: dict[str, Obj] = {
    "BOOL": {"type": "boolean"},
    "INT": {"type": "integer"},
    "STRING": _STRING,
}
_EMPTY_REQUEST = {"subResource": "", "requestSubResource": "", "name": "", "namespace": ""}


def value_type(
    text: str,
    variables: Mapping[str, Obj] | None,
    *,
    params: bool,
    authorizer: bool = True,
    declare: Callable[[DescriptorPool], None] | None = None,
    shown: Mapping[str, Obj] | None = None,
) -> str:
    """Return the type of an expression about a request.

    Args:
        text: the expression.
        variables: the types of the policy's variables; None where variables are not available.
        params: whether there are parameters.
        authorizer: whether the authorizer is available.
        declare: adds types of this expression alone.
        shown: the known schemas of `object`, `oldObject` and `params`.

    Raises:
        CompilationError: the expression is invalid.
    """
    book = SchemaTypes(verbatim=True)
    types = dict.fromkeys(("object", "oldObject"), "dyn")
    types["namespaceObject"] = book.name_of(_NAMESPACE)
    types["request"] = book.name_of(_REQUEST)
    if variables is not None:
        types["variables"] = book.name_of({"type": "object", "properties": dict(variables)})
    if params:
        types["params"] = "dyn"
    for name, schema in (shown or {}).items():
        types[name] = book.name_of(schema) or "dyn"
    if authorizer:
        types |= {"authorizer": "Authorizer", "authorizer.requestResource": "ResourceCheck"}
    pool = book.pool()
    if declare is not None:
        declare(pool)
    return get_checked_type(text, types, pool)


def compilation_error(
    text: str, wanted: str, variables: Mapping[str, Obj] | None, *, params: bool
) -> tuple[str, Obj]:
    """Return the compilation error of an expression, or else its type.

    Args:
        text: the expression.
        wanted: the required type; empty for any.
        variables: the policy's variables; None where variables are not available.
        params: whether there are parameters.
    """
    try:
        authorizer = wanted != "string"  # Message expressions have no authorizer.
        found = value_type(text, variables, params=params, authorizer=authorizer)
    except CompilationError as error:
        return f"compilation failed: {error}", _ANY
    if wanted and found.lower() != wanted:
        return f"must evaluate to {wanted} but got {found.lower()}", _ANY
    return "", variable_type(found)


def variable_type(name: str) -> Obj:
    """Return the type of a policy's variable, by the type's name."""
    return _CEL_TYPES.get(name, _ANY)


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
        api: the cluster.
        attributes: the request.
        kind: the version of the objects.
        variables: the expressions of a policy's variables.
        params: the policy's parameters.

    Attributes:
        budget: the remaining cost of evaluations.
    """

    def __init__(
        self,
        api: Cluster,
        attributes: Attributes,
        kind: Kind,
        variables: Mapping[str, str] | None = None,
        params: Obj | None = None,
    ) -> None:
        namespace = attributes.namespace
        own = attributes.kind.bucket == "namespaces"
        shown = attributes.subresource_kind or kind
        self.budget = Budget(RUNTIME_COST_BUDGET)
        self._values: dict[str, Any] = {
            "object": to_reviewed_version(shown, attributes.obj),
            "oldObject": to_reviewed_version(shown, attributes.old),
            "request": {
                **_EMPTY_REQUEST,
                **_drop_objects(build_admission_request(kind, attributes)),
            },
            "params": params,
            "namespaceObject": api.find("namespaces", namespace) if namespace and not own else None,
        }
        self._variables = variables or {}
        self.reset_variables()
        self._api = api
        self._values["authorizer"] = _authorizer_variable(attributes)

    def reset_variables(self, budget: Budget | None = None) -> None:
        """Forget the values of variables; continue with the rest of the budget or another one.

        Source: apiserver/pkg/admission/plugin/cel/composition.go, `ForInput`.
        """
        self._values["variables"] = _LazyVariables(self, self._variables)
        if budget is not None:
            self.budget = budget

    def evaluate(self, text: str, form: str = "") -> Any:
        """Evaluate an expression.

        Args:
            text: the expression.
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
            found = self._api.rbac.decide(
                AuthorizationAttributes(user, check["verb"], path=check["path"])
            )
        else:
            fields = ("group", "resource", "subresource", "name", "namespace")
            given = {field: check.get(field, "") for field in fields}
            found = self._api.rbac.decide(AuthorizationAttributes(user, check["verb"], **given))
        return found.allowed, found.reason

    def evaluate_conditions(self, conditions: list[Obj]) -> tuple[bool, str]:
        """Return whether a condition is false, and the errors of the evaluation.

        Conditions have a budget of their own.
        """
        failures, ours = [], self.budget
        self.budget = Budget(MATCH_CONDITIONS_COST_BUDGET)
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
            self.budget = ours
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


MUTATION_FIELDS = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
"""The field of a mutation's expression, by its type."""

_RESULT_TYPES = {"ApplyConfiguration": "Object", "JSONPatch": "list(JSONPatch)"}
_GENERATED_TYPE = re.compile(r"\bObject_[\w_]+")


class MutationError(ValueError):
    """A mutation failed; the text is the reason."""


def mutation_compilation_error(
    text: str, kind: str, variables: Mapping[str, Obj], *, params: bool
) -> str:
    """Return the compilation error of a mutation's expression; empty if it is valid.

    Args:
        text: the expression.
        kind: the type of the mutation.
        variables: the types of the policy's variables.
        params: whether there are parameters.
    """
    try:
        found = value_type(
            to_checked_form(text),
            variables,
            params=params,
            declare=lambda pool: declare_types(text, pool),
        )
    except CompilationError as error:
        return f"compilation failed: {_restore_type_names(str(error), text)}"
    shown = _type_text(found)
    return (
        ""
        if shown == _RESULT_TYPES[kind]
        else f"must evaluate to {_RESULT_TYPES[kind]} but got {shown}"
    )


def _restore_type_names(message: str, text: str) -> str:
    """Show a compiler message with the type names of the expression."""
    form = to_checked_form(text)
    for ours, theirs in zip(form.splitlines(), text.splitlines(), strict=True):
        message = message.replace(f" | {ours}\n", f" | {theirs}\n")
    message = message.replace(r"'\u003F'", "'?'")
    return _GENERATED_TYPE.sub(lambda found: found[0].replace("_", "."), message)


def _type_text(name: str) -> str:
    """Format a type as Kubernetes does."""
    found = re.sub(r"\b(?!Object|JSONPatch)[A-Z]+\b", lambda part: part[0].lower(), name)
    found = _GENERATED_TYPE.sub(lambda part: part[0].replace("_", "."), found)
    return found.replace("<", "(").replace(">", ")")


def apply_mutation(mutation: Obj, activation: Activation, kind: Kind, shown: Obj) -> Obj:
    """Apply a mutation to an object.

    Args:
        mutation: the mutation.
        activation: the variables of the request, with the current object.
        kind: the version of the kind.
        shown: the object in that version.

    Raises:
        MutationError: the mutation fails.
    """
    by_patch = mutation["patchType"] == "JSONPatch"
    text: str = mutation[MUTATION_FIELDS[mutation["patchType"]]]["expression"].strip()
    try:
        value = activation.evaluate(text, to_runtime_form(text))
    except EvaluationError as error:
        raise MutationError(f"expression '{text}' resulted in error: {error}") from None
    except CostBudgetExceededError as error:
        raise MutationError(str(error)) from None
    try:
        if by_patch:
            return apply_operations(shown, [_to_json_patch_operation(one) for one in value])
        return _apply_configuration(to_json(value, ("Object",)), kind, shown)
    except JsonPatchError as error:
        if error.test:
            return shown
        raise MutationError(f"JSON Patch: {error}") from None
    except EvaluationError as error:
        raise MutationError(str(error)) from None


def _to_json_patch_operation(found: Obj) -> Obj:
    operation = {name: found[name] for name in ("op", "path", "from") if found.get(name)}
    if "value" in found:
        operation["value"] = to_json(found["value"])
    return {"op": "", "path": "", **operation}


def _apply_configuration(configuration: Obj, kind: Kind, shown: Obj) -> Obj:
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
    merged: Obj = merge_configuration(shown, configuration, shape)
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
