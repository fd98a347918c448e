"""Expressions about requests: their variables, checked and evaluated.

Source: k8s.io/apiserver pkg/admission/plugin/cel, pkg/cel/environment.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.admission.webhook_reviews import object_of, request_of
from pytest_kwait.simulator.authorization.attributes import Attributes as Asked
from pytest_kwait.simulator.cel.authorizations import DECIDES, authorizer_of
from pytest_kwait.simulator.cel.cel_values import Failure
from pytest_kwait.simulator.cel.expressions import (
    CONDITIONS_BUDGET,
    OBJECT_BUDGET,
    Budget,
    EvaluationError,
    Expression,
    Invalid,
    OverBudgetError,
    checked_type,
)
from pytest_kwait.simulator.cel.object_types import ObjectTypes
from pytest_kwait.simulator.users import User

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.protobuf.descriptor_pool import DescriptorPool

    from pytest_kwait.simulator.admission.attributes import Attributes
    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind

__all__ = ["Situation", "compile_fault", "kind_of_value", "variable_type"]

_TEXT: Obj = {"type": "string"}
_TEXTS: Obj = {"type": "array", "items": _TEXT}
_ANY: Obj = {"x-kubernetes-int-or-string": True}


def _texts(*names: str) -> Obj:
    return {"type": "object", "properties": dict.fromkeys(names, _TEXT)}


_KIND, _RESOURCE = _texts("group", "version", "kind"), _texts("group", "version", "resource")
_USER: Obj = {
    "type": "object",
    "properties": {
        "username": _TEXT,
        "uid": _TEXT,
        "groups": _TEXTS,
        "extra": {"type": "object", "additionalProperties": _TEXTS},
    },
}
_REQUEST: Obj = {
    "type": "object",
    "properties": {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": _TEXT,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": _TEXT,
        "name": _TEXT,
        "namespace": _TEXT,
        "operation": _TEXT,
        "userInfo": _USER,
        "dryRun": {"type": "boolean"},
        "options": _ANY,
    },
}
_NUMBER: Obj = {"type": "integer"}
_TIME: Obj = {"type": "string", "format": "date-time"}
_TEXT_MAP: Obj = {"type": "object", "additionalProperties": _TEXT}
_CONDITION: Obj = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("status", "type", "message", "reason"), _TEXT),
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
                    ("name", "generateName", "namespace", "UID", "resourceVersion"), _TEXT
                ),
                **dict.fromkeys(("labels", "annotations"), _TEXT_MAP),
                **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
                **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), _NUMBER),
                "finalizers": _TEXTS,
            },
        },
        "spec": {"type": "object", "properties": {"finalizers": _TEXTS}},
        "status": {
            "type": "object",
            "properties": {"conditions": {"type": "array", "items": _CONDITION}, "phase": _TEXT},
        },
    },
}
_KINDS: dict[str, Obj] = {
    "BOOL": {"type": "boolean"},
    "INT": {"type": "integer"},
    "STRING": _TEXT,
}
_EMPTY = {"subResource": "", "requestSubResource": "", "name": "", "namespace": ""}


def kind_of_value(
    text: str,
    variables: Mapping[str, Obj] | None,
    *,
    params: bool,
    authorizer: bool = True,
    declare: Callable[[DescriptorPool], None] | None = None,
    shown: Mapping[str, Obj] | None = None,
) -> str:
    """The type of the value of an expression about a request.

    Args:
        text: the expression.
        variables: the variables of its policy, with what is known of their types; None where
            expressions cannot speak of any.
        params: whether there are parameters.
        authorizer: whether it may ask who may do what.
        declare: what adds types that only this expression knows; None for none.
        shown: the schemas of `object`, `oldObject` and `params`, those that are known; None for
            none of them.

    Raises:
        Invalid: it has no meaning.
    """
    book = ObjectTypes(verbatim=True)
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
    return checked_type(text, types, pool)


def compile_fault(
    text: str, wanted: str, variables: Mapping[str, Obj] | None, *, params: bool
) -> tuple[str, Obj]:
    """Why an expression cannot be taken, empty if it can; and what is known of its type.

    Args:
        text: the expression.
        wanted: the type that it must have, empty for any.
        variables: those of its policy; None where expressions cannot speak of any.
        params: whether there are parameters.
    """
    try:
        authorizer = wanted != "string"  # messages may not ask
        found = kind_of_value(text, variables, params=params, authorizer=authorizer)
    except Invalid as error:
        return f"compilation failed: {error}", _ANY
    if wanted and found.lower() != wanted:
        return f"must evaluate to {wanted} but got {found.lower()}", _ANY
    return "", variable_type(found)


def variable_type(name: str) -> Obj:
    """What is known of a policy's variable by the name of its type."""
    return _KINDS.get(name, _ANY)


@lru_cache(maxsize=1024)
def _expression(text: str) -> Expression:
    return Expression(text)


class _Variables(dict[str, Any]):
    """The variables of a policy, each evaluated when it is first spoken of.

    Args:
        situation: what they are about.
        expressions: their expressions.
    """

    def __init__(self, situation: Situation, expressions: Mapping[str, str]) -> None:
        super().__init__()
        self._situation = situation
        self._expressions = expressions

    def __contains__(self, name: object) -> bool:
        return name in self._expressions

    def __missing__(self, name: str) -> Any:
        text = self._expressions[name]
        try:
            value = self._situation.evaluate(text)
        except EvaluationError as error:
            value = Failure(f'composited variable "{name}" fails to evaluate: {error}')
        self[name] = value
        return value


class Situation:
    """One request, as expressions see it.

    Args:
        api: the cluster.
        attributes: the request.
        kind: the version of the kind that objects are shown in.
        variables: the expressions of a policy's variables by their names.
        params: the policy's parameters, None for none.

    Attributes:
        budget: what pays for evaluations.
    """

    def __init__(
        self,
        api: ClusterApi,
        attributes: Attributes,
        kind: Kind,
        variables: Mapping[str, str] | None = None,
        params: Obj | None = None,
    ) -> None:
        namespace = attributes.namespace
        own = attributes.kind.bucket == "namespaces"
        shown = attributes.content or kind
        self.budget = Budget(OBJECT_BUDGET)
        self._values: dict[str, Any] = {
            "object": object_of(shown, attributes.obj, attributes.caller),
            "oldObject": object_of(shown, attributes.old, attributes.caller),
            "request": {**_EMPTY, **_without_objects(request_of(kind, attributes))},
            "params": params,
            "namespaceObject": api.find("namespaces", namespace) if namespace and not own else None,
        }
        self._variables = variables or {}
        self.anew()
        self._api = api
        self._values["authorizer"] = _authorizer(attributes)

    def anew(self, budget: Budget | None = None) -> None:
        """Let variables be evaluated again, for what is left or for another budget.

        Source: apiserver/pkg/admission/plugin/cel/composition.go, `ForInput`.
        """
        self._values["variables"] = _Variables(self, self._variables)
        if budget is not None:
            self.budget = budget

    def evaluate(self, text: str, form: str = "") -> Any:
        """The value of an expression; variables get theirs when they are first spoken of.

        Args:
            text: the expression.
            form: what is run in its place; empty for itself.

        Raises:
            EvaluationError: it has none.
            OverBudgetError: it costs more than the budget has.
        """
        asked = DECIDES.set(self._decide)
        try:
            return _expression(form or text).evaluate(self._values, self.budget)
        finally:
            DECIDES.reset(asked)

    def _decide(self, check: Obj) -> tuple[bool, str]:
        """What the cluster says of a check."""
        user = User(check["user"]["name"], tuple(check["user"]["groups"]), "", {})
        if "path" in check:
            found = self._api.rbac.decide(Asked(user, check["verb"], path=check["path"]))
        else:
            fields = ("group", "resource", "subresource", "name", "namespace")
            given = {field: check.get(field, "") for field in fields}
            found = self._api.rbac.decide(Asked(user, check["verb"], **given))
        return found.allowed, found.reason

    def unmet(self, conditions: list[Obj]) -> tuple[bool, str]:
        """Whether one of the conditions does not hold, and what went wrong with them.

        They have a budget of their own.
        """
        failures, ours = [], self.budget
        self.budget = Budget(CONDITIONS_BUDGET)
        try:
            for condition in conditions:
                text = condition["expression"]
                try:
                    if self.evaluate(text) is not True:
                        return True, ""
                except EvaluationError as error:
                    failures.append(f"expression '{text}' resulted in error: {error}")
        except OverBudgetError as error:
            return False, str(error)
        finally:
            self.budget = ours
        if len(failures) > 1:
            return False, f"[{', '.join(failures)}]"
        return False, "".join(failures)


def _authorizer(attributes: Attributes) -> Obj:
    kind = attributes.requested or attributes.kind
    user = attributes.caller.identity
    resource = {
        "group": kind.group,
        "resource": kind.plural,
        "subresource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace if kind.namespaced else "",
    }
    return authorizer_of({"name": user.name, "groups": [*user.groups]}, resource)


def _without_objects(request: Obj) -> Obj:
    return {key: value for key, value in request.items() if key not in ("object", "oldObject")}
