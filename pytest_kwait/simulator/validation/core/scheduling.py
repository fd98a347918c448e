"""Validation of affinity, node selectors, topology spread constraints and tolerations.

Recently validated values are cached: most pods share some with thousands of others, such as the
default tolerations.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, validateAffinity,
validateTopologySpreadConstraints, ValidateTolerations, validateOnlyAddedTolerations.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.field_errors import ErrorList
from pytest_kwait.apimachinery.validation import (
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    label_value_texts,
)
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.validation.objectmeta import validate_label_selector

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_CAPACITY = 4
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_INVALID_OPERATOR = "not a valid selector operator"
_NO_SELECTOR = "must not be specified when labelSelector is not set"
_IN_BOTH = "exists in both matchLabelKeys and "
_UNSATISFIABLE_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_NODE_INCLUSION_POLICIES = ("Honor", "Ignore")
_MAX_WEIGHT = 100
_POSITIVE = "must be greater than zero"

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_TOLERATION_OPERATORS = ("Equal", "Exists", "Lt", "Gt")


class RecentlyValid:
    """The last few valid values of one type."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: deque[Any] = deque(maxlen=_CAPACITY)

    def __contains__(self, value: object) -> bool:
        return value in self._values

    def add(self, value: object) -> None:
        """Remember a copy of the value."""
        self._values.appendleft(clone(value))


def validate_affinity(affinity: Obj, at: str) -> ErrorList:
    """Validate the affinity of a pod."""
    errors = ErrorList()
    nodes = affinity.get("nodeAffinity", {})
    if _REQUIRED in nodes:
        errors += validate_node_selector(nodes[_REQUIRED], f"{at}.nodeAffinity.{_REQUIRED}")
    for index, term in enumerate(nodes.get(_PREFERRED, ())):
        here = f"{at}.nodeAffinity.{_PREFERRED}[{index}]"
        errors += _validate_weight(term, here)
        errors += _validate_node_selector_term(
            term.get("preference", {}), f"{here}.preference", values=False
        )
    for field in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(field, {})
        for index, term in enumerate(pods.get(_REQUIRED, ())):
            errors += _validate_pod_affinity_term(term, f"{at}.{field}.{_REQUIRED}[{index}]")
        for index, weighted in enumerate(pods.get(_PREFERRED, ())):
            here = f"{at}.{field}.{_PREFERRED}[{index}]"
            errors += _validate_weight(weighted, here)
            errors += _validate_pod_affinity_term(
                weighted.get("podAffinityTerm", {}), f"{here}.podAffinityTerm"
            )
    return errors


def _validate_weight(term: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    weight = term.get("weight", 0)
    if not 1 <= weight <= _MAX_WEIGHT:
        errors.invalid(f"{at}.weight", weight, "must be in the range 1-100")
    return errors


def validate_node_selector(selector: Obj, at: str) -> ErrorList:
    """Validate a node selector; at least one term is required."""
    errors = ErrorList()
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        errors.required(f"{at}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        errors += _validate_node_selector_term(
            term, f"{at}.nodeSelectorTerms[{index}]", values=True
        )
    return errors


def _validate_node_selector_term(term: Obj, at: str, *, values: bool) -> ErrorList:
    errors = ErrorList()
    for index, rule in enumerate(term.get("matchExpressions", ())):
        errors += _validate_node_selector_requirement(
            rule, f"{at}.matchExpressions[{index}]", values=values
        )
    for index, rule in enumerate(term.get("matchFields", ())):
        errors += _validate_node_field_selector_requirement(rule, f"{at}.matchFields[{index}]")
    return errors


def _validate_node_selector_requirement(rule: Obj, at: str, *, values: bool) -> ErrorList:
    errors = ErrorList()
    operator, rule_values = rule.get("operator", ""), rule.get("values", [])
    if operator in ("In", "NotIn"):
        if not rule_values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.required(f"{at}.values", text)
    elif operator in ("Exists", "DoesNotExist"):
        if rule_values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.forbidden(f"{at}.values", text)
    elif operator in ("Gt", "Lt"):
        if len(rule_values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.required(f"{at}.values", text)
    else:
        errors.invalid(f"{at}.operator", operator, _INVALID_OPERATOR)
    key = rule.get("key", "")
    errors.invalid_each(f"{at}.key", key, label_key_texts(key))
    for index, value in enumerate(rule_values if values else ()):
        errors.invalid_each(f"{at}.values[{index}]", value, label_value_texts(value))
    return errors


def _validate_node_field_selector_requirement(rule: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    operator, key, values = rule.get("operator", ""), rule.get("key", ""), rule.get("values", [])
    if operator not in ("In", "NotIn"):
        errors.invalid(f"{at}.operator", operator, _INVALID_OPERATOR)
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.required(f"{at}.values", text)
    if key != "metadata.name":
        errors.invalid(f"{at}.key", key, "not a valid field selector key")
        return errors
    for index, value in enumerate(values):
        errors.invalid_each(f"{at}.values[{index}]", value, dns_subdomain_texts(value))
    return errors


def _validate_pod_affinity_term(term: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    for field in ("labelSelector", "namespaceSelector"):
        if field in term:
            errors += validate_label_selector(term[field], f"{at}.{field}")
    for name in term.get("namespaces", ()):
        errors.invalid_each(f"{at}.namespace", name, dns_label_texts(name))
    errors += _validate_match_label_keys(term, at)
    key = term.get("topologyKey", "")
    if not key:
        errors.required(f"{at}.topologyKey", "can not be empty")
    errors.invalid_each(f"{at}.topologyKey", key, label_key_texts(key))
    return errors


def _validate_match_label_keys(term: Obj, at: str) -> ErrorList:
    """Validate label keys whose values come from the pod."""
    errors = ErrorList()
    selector = term.get("labelSelector")
    match, mismatch = term.get("matchLabelKeys", []), term.get("mismatchLabelKeys", [])
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            errors.forbidden(f"{at}.{field}", _NO_SELECTOR)
            continue
        for index, key in enumerate(keys):
            errors.invalid_each(f"{at}.{field}[{index}]", key, label_key_texts(key))
    checked_keys = set((selector or {}).get("matchLabels", {}))
    for rule in (selector or {}).get("matchExpressions", ()):
        key = rule.get("key", "")
        if key in match and key in checked_keys:
            place = len(match) - 1 - match[::-1].index(key)
            errors.invalid(f"{at}[{place}]", key, f"{_IN_BOTH}labelSelector")
        checked_keys.add(key)
    for index, key in enumerate(match):
        if key in mismatch:
            errors.invalid(f"{at}.matchLabelKeys[{index}]", key, f"{_IN_BOTH}mismatchLabelKeys")
    return errors


def validate_topology_spread_constraints(constraints: list[Obj], at: str) -> ErrorList:
    """Validate topology spread constraints."""
    errors = ErrorList()
    for index, constraint in enumerate(constraints):
        here = f"{at}[{index}]"
        skew, topology = constraint.get("maxSkew", 0), constraint.get("topologyKey", "")
        action = constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            errors.invalid(f"{here}.maxSkew", skew, _POSITIVE)
        if not topology:
            errors.required(f"{here}.topologyKey", "can not be empty")
        if action not in _UNSATISFIABLE_ACTIONS:
            errors.not_supported(f"{here}.whenUnsatisfiable", action, _UNSATISFIABLE_ACTIONS)
        for other_constraint in constraints[index + 1 :]:
            if (
                other_constraint.get("topologyKey", ""),
                other_constraint.get("whenUnsatisfiable", ""),
            ) == (
                topology,
                action,
            ):
                where = f"{here}.{{topologyKey, whenUnsatisfiable}}"
                errors.duplicate(where, f"{{{topology}, {action}}}")
                break
        domains = constraint.get("minDomains")
        if domains is not None:
            if domains <= 0:
                errors.invalid(f"{here}.minDomains", domains, _POSITIVE)
            if action != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                errors.invalid(f"{here}.minDomains", domains, text)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            errors.require_supported(f"{here}.{field}", policy, _NODE_INCLUSION_POLICIES)
        errors += _validate_match_label_keys({**constraint, "mismatchLabelKeys": []}, here)
        if "labelSelector" in constraint:
            errors += validate_label_selector(constraint["labelSelector"], f"{here}.labelSelector")
    return errors


_RECENTLY_VALID = RecentlyValid()


def validate_tolerations(tolerations: list[Obj], at: str) -> ErrorList:
    """Validate each toleration."""
    errors = ErrorList()
    if tolerations in _RECENTLY_VALID:
        return errors
    for index, toleration in enumerate(tolerations):
        here = f"{at}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            errors.invalid_each(f"{here}.key", key, label_key_texts(key))
        elif operator != "Exists":
            text = (
                'operator must be Exists when `key` is empty, which means "match all values and '
                'all keys"'
            )
            errors.invalid(f"{here}.operator", operator, text)
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.invalid(f"{here}.effect", effect, text)
        if operator in ("Equal", ""):
            texts = label_value_texts(value)
            if texts:
                errors.invalid(f"{here}.operator", value, ";".join(texts))
        elif operator == "Exists":
            if value:
                text = "value must be empty when `operator` is 'Exists'"
                errors.invalid(f"{here}.operator", value, text)
        else:
            valid = (
                _TOLERATION_OPERATORS
                if operator in _TOLERATION_OPERATORS
                else _TOLERATION_OPERATORS[:2]
            )
            errors.not_supported(f"{here}.operator", operator, valid)
        if effect and effect not in _TAINT_EFFECTS:
            errors.not_supported(f"{here}.effect", effect, _TAINT_EFFECTS)
    if not errors:
        _RECENTLY_VALID.add(tolerations)
    return errors


def validate_only_added_tolerations(new: list[Obj], old: list[Obj], at: str) -> ErrorList:
    """Validate that tolerations are only added; their seconds may change."""
    errors = ErrorList()
    for old_toleration in old:
        if not any(_is_same_toleration(old_toleration, toleration) for toleration in new):
            text = "existing toleration can not be modified except its tolerationSeconds"
            errors.forbidden(at, text)
            return errors
    errors += validate_tolerations(new, at)
    return errors


def _is_same_toleration(toleration: Obj, other: Obj) -> bool:
    return {**toleration, "tolerationSeconds": None} == {**other, "tolerationSeconds": None}
