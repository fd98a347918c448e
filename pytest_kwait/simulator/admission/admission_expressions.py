"""Expressions about requests: their variables, checked and evaluated.

Source: k8s.io/apiserver pkg/admission/plugin/cel, pkg/cel/environment.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.admission.webhook_reviews import object_of, request_of
from pytest_kwait.simulator.authorization.attributes import Attributes as Asked
from pytest_kwait.simulator.cel.authorizations import DECIDES, authorizer_of
from pytest_kwait.simulator.cel.expressions import (
    EvaluationError,
    Expression,
    Invalid,
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

__all__ = ["Situation", "compile_fault", "kind_of_value"]

_TEXT: Obj = {"type": "string"}
_ANY: Obj = {"x-kubernetes-int-or-string": True}


def _texts(*names: str) -> Obj:
    return {"type": "object", "properties": dict.fromkeys(names, _TEXT)}


_KIND, _RESOURCE = _texts("group", "version", "kind"), _texts("group", "version", "resource")
_USER: Obj = {
    "type": "object",
    "properties": {
        "username": _TEXT,
        "uid": _TEXT,
        "groups": {"type": "array", "items": _TEXT},
        "extra": _ANY,
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
_NAMES = (
    "authorizer",
    "namespaceObject",
    "object",
    "oldObject",
    "params",
    "request",
    "variables",
)
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
) -> str:
    """The type of the value of an expression about a request.

    Args:
        text: the expression.
        variables: the variables of its policy, with what is known of their types; None where
            expressions cannot speak of any.
        params: whether there are parameters.
        authorizer: whether it may ask who may do what.
        declare: what adds types that only this expression knows; None for none.

    Raises:
        Invalid: it has no meaning.
    """
    book = ObjectTypes(verbatim=True)
    types = dict.fromkeys(("object", "oldObject", "namespaceObject"), "dyn")
    types["request"] = book.name_of(_REQUEST)
    if variables is not None:
        types["variables"] = book.name_of({"type": "object", "properties": dict(variables)})
    if params:
        types["params"] = "dyn"
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
    return "", _KINDS.get(found, _ANY)


@lru_cache(maxsize=1024)
def _expression(text: str) -> Expression:
    return Expression(text, _NAMES, "")


class Situation:
    """One request, as expressions see it.

    Args:
        api: the cluster.
        attributes: the request.
        kind: the version of the kind that objects are shown in.
        variables: the expressions of a policy's variables by their names.
        params: the policy's parameters, None for none.
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
        self._variables = variables or {}
        self._values: dict[str, Any] = {
            "object": object_of(shown, attributes.obj, attributes.caller),
            "oldObject": object_of(shown, attributes.old, attributes.caller),
            "request": {**_EMPTY, **_without_objects(request_of(kind, attributes))},
            "params": params,
            "namespaceObject": api.find("namespaces", namespace) if namespace and not own else None,
            "variables": {},
        }
        self._api = api
        self._values["authorizer"] = _authorizer(attributes)

    def evaluate(self, text: str, form: str = "") -> Any:
        """The value of an expression; variables get theirs when they are first spoken of.

        Args:
            text: the expression.
            form: what is run in its place; empty for itself.

        Raises:
            EvaluationError: it has none.
        """
        for name in re.findall(r"\bvariables\.(\w+)", text):
            if name in self._variables and name not in self._values["variables"]:
                try:
                    value = self.evaluate(self._variables[name])
                except EvaluationError as error:
                    why = f'composited variable "{name}" fails to evaluate: {error}'
                    raise EvaluationError(why, exhausted=error.exhausted) from None
                self._values["variables"][name] = value
        asked = DECIDES.set(self._decide)
        try:
            return _expression(form or text).evaluate(self._values)
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
        """Whether one of the conditions does not hold, and what went wrong with them."""
        failures = []
        for condition in conditions:
            text = condition["expression"]
            try:
                if self.evaluate(text) is not True:
                    return True, ""
            except EvaluationError as error:
                failures.append(f"expression '{text}' resulted in error: {error}")
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
