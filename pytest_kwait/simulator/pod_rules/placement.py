"""Where pods go: affinity to nodes and to pods, topology spread.

Source: pkg/apis/core/validation/validation.go, validateAffinity,
validateTopologySpreadConstraints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import (
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    label_value_texts,
)
from pytest_kwait.simulator.validation import selector_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_affinity", "check_node_selector", "check_spread"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATOR = "not a valid selector operator"
_NO_SELECTOR = "must not be specified when labelSelector is not set"
_IN_BOTH = "exists in both matchLabelKeys and "
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSIONS = ("Honor", "Ignore")
_MOST_WEIGHT = 100
_POSITIVE = "must be greater than zero"


def check_affinity(affinity: Obj, at: str, found: Findings) -> None:
    """All affinities of a pod."""
    nodes = affinity.get("nodeAffinity", {})
    if _REQUIRED in nodes:
        check_node_selector(nodes[_REQUIRED], f"{at}.nodeAffinity.{_REQUIRED}", found)
    for index, term in enumerate(nodes.get(_PREFERRED, ())):
        here = f"{at}.nodeAffinity.{_PREFERRED}[{index}]"
        _check_weight(term, here, found)
        _check_node_term(term.get("preference", {}), f"{here}.preference", found, values=False)
    for field in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(field, {})
        for index, term in enumerate(pods.get(_REQUIRED, ())):
            _check_pod_term(term, f"{at}.{field}.{_REQUIRED}[{index}]", found)
        for index, weighted in enumerate(pods.get(_PREFERRED, ())):
            here = f"{at}.{field}.{_PREFERRED}[{index}]"
            _check_weight(weighted, here, found)
            _check_pod_term(weighted.get("podAffinityTerm", {}), f"{here}.podAffinityTerm", found)


def _check_weight(term: Obj, at: str, found: Findings) -> None:
    weight = term.get("weight", 0)
    if not 1 <= weight <= _MOST_WEIGHT:
        found.invalid(f"{at}.weight", weight, "must be in the range 1-100")


def check_node_selector(selector: Obj, at: str, found: Findings) -> None:
    """A selector of nodes: at least one term."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        found.required(f"{at}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        _check_node_term(term, f"{at}.nodeSelectorTerms[{index}]", found, values=True)


def _check_node_term(term: Obj, at: str, found: Findings, *, values: bool) -> None:
    for index, rule in enumerate(term.get("matchExpressions", ())):
        _check_expression(rule, f"{at}.matchExpressions[{index}]", found, values=values)
    for index, rule in enumerate(term.get("matchFields", ())):
        _check_node_field(rule, f"{at}.matchFields[{index}]", found)


def _check_expression(rule: Obj, at: str, found: Findings, *, values: bool) -> None:
    operator, given = rule.get("operator", ""), rule.get("values", [])
    if operator in ("In", "NotIn"):
        if not given:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            found.required(f"{at}.values", text)
    elif operator in ("Exists", "DoesNotExist"):
        if given:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.forbidden(f"{at}.values", text)
    elif operator in ("Gt", "Lt"):
        if len(given) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            found.required(f"{at}.values", text)
    else:
        found.invalid(f"{at}.operator", operator, _OPERATOR)
    key = rule.get("key", "")
    found.texts(f"{at}.key", key, label_key_texts(key))
    for index, value in enumerate(given if values else ()):
        found.texts(f"{at}.values[{index}]", value, label_value_texts(value))


def _check_node_field(rule: Obj, at: str, found: Findings) -> None:
    operator, key, values = rule.get("operator", ""), rule.get("key", ""), rule.get("values", [])
    if operator not in ("In", "NotIn"):
        found.invalid(f"{at}.operator", operator, _OPERATOR)
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        found.required(f"{at}.values", text)
    if key != "metadata.name":
        found.invalid(f"{at}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        found.texts(f"{at}.values[{index}]", value, dns_subdomain_texts(value))


def _check_pod_term(term: Obj, at: str, found: Findings) -> None:
    for field in ("labelSelector", "namespaceSelector"):
        if field in term:
            found += selector_errors(term[field], f"{at}.{field}")
    for name in term.get("namespaces", ()):
        found.texts(f"{at}.namespace", name, dns_label_texts(name))
    _check_keys(term, at, found)
    key = term.get("topologyKey", "")
    if not key:
        found.required(f"{at}.topologyKey", "can not be empty")
    found.texts(f"{at}.topologyKey", key, label_key_texts(key))


def _check_keys(term: Obj, at: str, found: Findings) -> None:
    """The labels whose values are taken from the pod."""
    selector = term.get("labelSelector")
    match, mismatch = term.get("matchLabelKeys", []), term.get("mismatchLabelKeys", [])
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            found.forbidden(f"{at}.{field}", _NO_SELECTOR)
            continue
        for index, key in enumerate(keys):
            found.texts(f"{at}.{field}[{index}]", key, label_key_texts(key))
    seen = set((selector or {}).get("matchLabels", {}))
    for rule in (selector or {}).get("matchExpressions", ()):
        key = rule.get("key", "")
        if key in match and key in seen:
            place = len(match) - 1 - match[::-1].index(key)
            found.invalid(f"{at}[{place}]", key, f"{_IN_BOTH}labelSelector")
        seen.add(key)
    for index, key in enumerate(match):
        if key in mismatch:
            found.invalid(f"{at}.matchLabelKeys[{index}]", key, f"{_IN_BOTH}mismatchLabelKeys")


def check_spread(constraints: list[Obj], at: str, found: Findings) -> None:
    """How pods spread over domains."""
    for index, constraint in enumerate(constraints):
        here = f"{at}[{index}]"
        skew, topology = constraint.get("maxSkew", 0), constraint.get("topologyKey", "")
        action = constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            found.invalid(f"{here}.maxSkew", skew, _POSITIVE)
        if not topology:
            found.required(f"{here}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            found.unsupported(f"{here}.whenUnsatisfiable", action, _ACTIONS)
        for other in constraints[index + 1 :]:
            if (other.get("topologyKey", ""), other.get("whenUnsatisfiable", "")) == (
                topology,
                action,
            ):
                where = f"{here}.{{topologyKey, whenUnsatisfiable}}"
                found.duplicate(where, f"{{{topology}, {action}}}")
                break
        domains = constraint.get("minDomains")
        if domains is not None:
            if domains <= 0:
                found.invalid(f"{here}.minDomains", domains, _POSITIVE)
            if action != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                found.invalid(f"{here}.minDomains", domains, text)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            if policy is not None and policy not in _INCLUSIONS:
                found.unsupported(f"{here}.{field}", policy, _INCLUSIONS)
        _check_keys({**constraint, "mismatchLabelKeys": []}, here, found)
        if "labelSelector" in constraint:
            found += selector_errors(constraint["labelSelector"], f"{here}.labelSelector")
