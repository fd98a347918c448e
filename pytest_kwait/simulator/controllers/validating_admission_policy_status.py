"""The policy status controller: type-checks the expressions of ValidatingAdmissionPolicies.

Expressions are checked against the kinds that a policy matches.

Source: kube-controller-manager, validatingadmissionpolicystatus/controller.go; k8s.io/apiserver
pkg/admission/plugin/policy/validating/typechecking.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.admission_compiler import get_expression_type, variable_type
from pytest_kwait.simulator.cel.expressions import CompilationError
from pytest_kwait.simulator.codec.schema import Form, Shape, is_known, schemas, shape_of
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, name_of
from pytest_kwait.simulator.request_info import applying_caller

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.scheme import Kind, Scheme

POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"

_FIELD_MANAGER = "validatingadmissionpolicy-status"
_MAX_TYPES = 10
_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_SCALAR_SCHEMAS: dict[Form, Obj] = {
    Form.TEXT: {"type": "string"},
    Form.INTEGER: {"type": "integer"},
    Form.NUMBER: {"type": "number"},
    Form.BOOL: {"type": "boolean"},
    Form.BYTES: {"type": "string", "format": "byte"},
    Form.TIME: {"type": "string", "format": "date-time"},
    Form.INT_OR_TEXT: {"x-kubernetes-int-or-string": True},
    Form.QUANTITY: {},
}
"""Quantities have no type in CEL; fields of that type are undeclared."""


def type_check_warnings(policy: Obj, kinds: Scheme) -> list[Obj]:
    """Return the type warnings for the policy's status."""
    spec = policy["spec"]
    matched = sorted(
        _matched_kinds(spec, kinds), key=lambda kind: (kind.group, kind.version, kind.kind)
    )
    if not matched:
        return []
    params = spec.get("paramKind")
    known: dict[str, Obj] = {}
    if params is not None:
        kind = kinds.of_kind(params.get("apiVersion", ""), params.get("kind", ""))
        if kind is not None:
            known["params"] = _BuiltInSchemas().of(kind)
    checks = [
        _TypeChecker(kind, spec.get("variables") or [], known, params is not None)
        for kind in matched
    ]
    warnings_by_field = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            text = validation.get(field, "")
            warnings = [*(check.warning(text) for check in checks)] if text else []
            if any(warnings):
                at = f"spec.validations[{index}].{field}"
                warnings_by_field.append(
                    {"fieldRef": at, "warning": "\n".join(filter(None, warnings))}
                )
    return warnings_by_field


def _matched_kinds(spec: Obj, kinds: Scheme) -> list[Kind]:
    """Return the kinds that a policy names without wildcards, at most ten."""
    matched_kinds: dict[tuple[str, str, str], Kind] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or [], rule.get("apiVersions") or []
        if any("*" in name for name in (*groups, *versions)):
            continue
        for count, kind in enumerate(_kinds_of_rule(rule, kinds), 1):
            matched_kinds[kind.group, kind.version, kind.kind] = kind
            if count == _MAX_TYPES:
                return [*matched_kinds.values()]
    return [*matched_kinds.values()]


def _kinds_of_rule(rule: Obj, kinds: Scheme) -> Iterator[Kind]:
    resources = [
        resource
        for resource in rule.get("resources") or ()
        if "*" not in resource and "/" not in resource
    ]
    for group in sorted(rule.get("apiGroups") or ()):
        for version in sorted(rule.get("apiVersions") or ()):
            for resource in sorted(resources):
                for served_group, served_version in kinds.group_versions():
                    # The empty name stands for all groups.
                    if served_version == version and group in ("", served_group):
                        served = kinds.served(served_group, served_version) or {}
                        if resource in served:
                            yield served[resource]


class _TypeChecker:
    """Checks expressions against one kind.

    Args:
        known: the schemas of further variables.
        params: whether there are parameters.
    """

    def __init__(
        self, kind: Kind, variables: list[Obj], known: dict[str, Obj], params: bool
    ) -> None:
        own = _BuiltInSchemas().of(kind)
        self._shown = {"object": own, "oldObject": own, **known}
        self._name = f"{kind.group}/{kind.version}, Kind={kind.kind}"
        self._params = params
        self._variables: dict[str, Obj] = {}
        for variable in variables:
            try:
                type_name = self._type(variable["expression"])
            except CompilationError:
                type_name = ""
            self._variables[variable["name"]] = variable_type(type_name)

    def _type(self, text: str) -> str:
        return get_expression_type(text, self._variables, params=self._params, schemas=self._shown)

    def warning(self, text: str) -> str:
        """Return the type error of an expression; empty if there is none."""
        try:
            self._type(text)
        except CompilationError as error:
            return f"{self._name}: {error}\n"
        return ""


class _BuiltInSchemas:
    """Schemas of built-in kinds, one for each type."""

    def __init__(self) -> None:
        self._schemas: dict[str, Obj] = {}

    def of(self, kind: Kind) -> Obj:
        if kind.structure is not None:
            whole = {**dict.fromkeys(("kind", "apiVersion"), _SCALAR_SCHEMAS[Form.TEXT])}
            metadata = self._schema(Shape({"$ref": _META}))
            own: Obj = kind.structure.schema.get("properties") or {}
            return {"type": "object", "properties": {**own, **whole, "metadata": metadata}}
        if not is_known(kind.group, kind.version, kind.kind):
            return {}
        return self._schema(shape_of(kind.group, kind.version, kind.kind))

    def _schema(self, shape: Shape) -> Obj:
        match shape.form:
            case Form.LIST:
                return {"type": "array", "items": self._schema(shape.item)}
            case Form.MAP:
                return {"type": "object", "additionalProperties": self._schema(shape.item)}
            case Form.STRUCT:
                return self._struct(shape)
            case Form.ANY:
                ref = str(shape.node.get("$ref", "")).rpartition("/")[2]
                node: Any = schemas().get(ref, shape.node)
                return {"type": "object"} if node.get("type") == "object" else {}
        return _SCALAR_SCHEMAS[shape.form]

    def _struct(self, shape: Shape) -> Obj:
        name = shape.struct.name
        if name in self._schemas:
            return self._schemas[name]
        properties: Obj = {}
        schema: Obj = {"type": "object", "properties": properties}
        if name:
            self._schemas[name] = schema
        for field, inner in shape.struct.fields.items():
            properties[field] = self._schema(inner)
        return schema


class PolicyStatusController:
    """Type checks each generation of a validating policy once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: Workqueue[str] = Workqueue(
            cluster, self._sync, "validatingadmissionpolicy-status"
        )
        cluster.subscribe(POLICIES, self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "DELETED":
            self._queue.add(name_of(new))

    def _sync(self, name: str) -> None:
        policy = self._cluster.find(POLICIES, name)
        if policy is None:
            return
        generation = policy["metadata"].get("generation", 0)
        if generation <= (policy.get("status") or {}).get("observedGeneration", 0):
            return
        # Imported late: the expressions' library is loaded with the first policy.

        warnings = type_check_warnings(policy, self._cluster.kinds)
        checked: Obj = {"expressionWarnings": warnings} if warnings else {}

        def set_status(changed: Obj) -> None:
            status = changed.get("status") or {}
            changed["status"] = {
                **status,
                "observedGeneration": generation,
                "typeChecking": checked,
            }

        caller = applying_caller(_FIELD_MANAGER)
        self._cluster.modify(POLICIES, name, "", set_status, subresource="status", caller=caller)
