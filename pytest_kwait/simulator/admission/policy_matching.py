"""Which policies a request is held to, by which bindings, and with which parameters.

Source: k8s.io/apiserver pkg/admission/plugin/policy/{generic,matching}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.webhooks.matching import match_kind
from pytest_kwait.simulator.objects import labels_of, name_of
from pytest_kwait.simulator.selectors import matches_selector

if TYPE_CHECKING:
    from pytest_kwait.simulator.admission.attributes import Attributes
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["list_params", "match_policy"]

_NO_PARAMS = (
    "failed to configure binding: no params found for policy binding with `Deny` "
    "parameterNotFoundAction"
)
_ALL_RESOURCES = {
    "operations": ["*"],
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "resources": ["*/*"],
}


def match_policy(
    api: SimulatedCluster, policy: Obj, binding: Obj, attributes: Attributes
) -> Kind | None:
    """The version of the kind that a bound policy looks at, None where it does not look.

    Args:
        api: the cluster.
        policy: the policy's spec.
        binding: the binding's spec.
        attributes: the request.
    """
    kind = _match_resources(api, policy.get("matchConstraints") or {}, attributes)
    limits: Obj | None = binding.get("matchResources")
    if kind is None or limits is None:
        return kind
    rules = limits.get("resourceRules") or [_ALL_RESOURCES]
    within = _match_resources(api, {**limits, "resourceRules": rules}, attributes)
    return kind if within is not None else None


def _match_resources(
    api: SimulatedCluster, constraints: Obj, attributes: Attributes
) -> Kind | None:
    excluded = constraints.get("excludeResourceRules") or []
    for rule in excluded:
        named = rule.get("resourceNames") or []
        if (not named or attributes.name in named) and match_kind(
            api, {"rules": [rule]}, attributes
        ):
            return None
    rules = [
        rule
        for rule in constraints.get("resourceRules") or ()
        if not rule.get("resourceNames") or attributes.name in rule["resourceNames"]
    ]
    return match_kind(api, {**constraints, "rules": rules}, attributes)


def list_params(
    api: SimulatedCluster, policy: Obj, binding: Obj, attributes: Attributes
) -> list[Obj | None] | str:
    """The parameters that a policy is held with, one after the other; a text says why not."""
    wanted, reference = policy.get("paramKind"), binding.get("paramRef")
    if wanted is None or reference is None:
        return [None]
    kind = api.kinds.of_kind(wanted["apiVersion"], wanted["kind"])
    if kind is None:
        return (
            f"failed to configure policy: failed to find resource referenced by paramKind: "
            f"'{wanted['apiVersion']}, Kind={wanted['kind']}'"
        )
    namespace = reference.get("namespace") or (attributes.namespace if kind.namespaced else "")
    found: list[Obj | None] = []
    for obj in api.list(kind.qualified, namespace or None):
        named = reference.get("name")
        if (
            name_of(obj) == named
            if named
            else matches_selector(reference.get("selector") or {}, labels_of(obj))
        ):
            found.append(obj)
    if found:
        return found
    if reference.get("parameterNotFoundAction") == "Allow":
        return []
    return _NO_PARAMS
