"""Validating policies, and match conditions of webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.request_info import Caller
from tests.objects import config_map

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

GROUP = "admissionregistration.k8s.io"
POLICIES = f"validatingadmissionpolicies.{GROUP}"
BINDINGS = f"validatingadmissionpolicybindings.{GROUP}"
WEBHOOKS = f"validatingwebhookconfigurations.{GROUP}"
CONFIG_MAPS = {
    "operations": ["CREATE", "UPDATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}
DENIED = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "


def bind(api: SimulatedCluster, *validations: dict[str, Any], **more: Any) -> None:
    binding = more.pop("binding", {})
    constraints = more.pop("constraints", {})
    spec = {
        "matchConstraints": {"resourceRules": [CONFIG_MAPS], **constraints},
        "validations": list(validations),
        **more,
    }
    api.create(POLICIES, {"metadata": {"name": "p"}, "spec": spec})
    bound = {"policyName": "p", "validationActions": ["Deny"], **binding}
    api.create(BINDINGS, {"metadata": {"name": "b"}, "spec": bound})


def denial(api: SimulatedCluster, obj: dict[str, Any]) -> StatusError:
    with pytest.raises(StatusError) as refused:
        api.create("configmaps", obj, "default")
    return refused.value


@pytest.mark.parametrize(
    ("validation", "code", "reason", "text"),
    [
        ({}, 422, "Invalid", "failed expression: object.metadata.name != 'a'"),
        ({"message": " not a "}, 422, "Invalid", "not a"),
        ({"messageExpression": "'got ' + request.name"}, 422, "Invalid", "got a"),
        ({"messageExpression": "string(object.nope)", "message": "m"}, 422, "Invalid", "m"),
        ({"reason": "Forbidden", "message": "no"}, 403, "Forbidden", "no"),
    ],
)
def test_policy_denies_with_the_servers_message(
    api: SimulatedCluster, validation: dict[str, Any], code: int, reason: str, text: str
) -> None:
    bind(api, {"expression": "object.metadata.name != 'a'", **validation})
    refused = denial(api, config_map("a"))
    assert (refused.code, refused.reason) == (code, reason)
    assert refused.message == f'configmaps "a" is forbidden: {DENIED}{text}'
    assert refused.details is not None
    assert refused.details["causes"] == [{"message": f"{DENIED}{text}"}]
    api.create("configmaps", config_map("b"), "default")


def test_expressions_read_the_request(api: SimulatedCluster) -> None:
    bind(
        api,
        {"expression": "request.operation != 'CREATE' || oldObject == null"},
        {"expression": "request.operation == 'CREATE' || oldObject.data.a == '1'"},
        {"expression": "request.namespace == 'default'"},
        {"expression": "request.resource.resource == 'configmaps'"},
        {"expression": "namespaceObject.metadata.name == 'default' && !request.dryRun"},
        {"expression": "variables.size < 3", "message": "too much"},
        variables=[
            {"name": "all", "expression": "has(object.data) ? object.data : {}"},
            {"name": "size", "expression": "size(variables.all)"},
        ],
    )
    api.create("configmaps", config_map("a", data={"a": "1"}), "default")
    api.modify("configmaps", "a", "default", lambda obj: obj["data"].update(b="2"))
    with pytest.raises(StatusError, match="too much"):
        api.modify("configmaps", "a", "default", lambda obj: obj["data"].update(c="3"))


def test_evaluation_error_follows_the_failure_policy(api: SimulatedCluster) -> None:
    bind(api, {"expression": "object.data.x == 'y'"})
    assert denial(api, config_map("a")).message.endswith(
        "denied request: expression 'object.data.x == 'y'' resulted in error: no such key: data"
    )
    api.modify(POLICIES, "p", "", lambda obj: obj["spec"].update(failurePolicy="Ignore"))
    api.create("configmaps", config_map("a"), "default")


COSTLY = "lists.range(10).all(x, x >= 0)"
"""An expression with a cost of about 55."""
OVER = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
EXPRESSIONS = "pytest_kwait.simulator.admission.cel_expressions"


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"validations": [{"expression": COSTLY}] * 2}, ""),
        ({"validations": [{"expression": COSTLY}] * 9}, OVER),
        ({"validations": [{"expression": "false"}, *[{"expression": COSTLY}] * 9]}, OVER),
        (
            {"validations": [{"expression": "true", "messageExpression": f"string({COSTLY})"}] * 9},
            f"failed messageExpression: {OVER}",
        ),
        (
            {
                "validations": [{"expression": "variables.a", "messageExpression": "variables.b"}],
                "variables": [
                    {"name": "a", "expression": " && ".join([COSTLY] * 4)},
                    {"name": "b", "expression": "string(variables.a)"},
                ],
            },
            f"failed messageExpression: {OVER}",
        ),
        (
            {
                "validations": [{"expression": "true"}],
                "auditAnnotations": [
                    {"key": f"k{number}", "valueExpression": f"string({COSTLY})"}
                    for number in range(9)
                ],
            },
            OVER,
        ),
        (
            {
                "validations": [{"expression": "false"}],
                "matchConditions": [
                    {"name": f"c{number}", "expression": COSTLY} for number in range(9)
                ],
            },
            OVER,
        ),
    ],
)
def test_exceeded_budget_follows_the_failure_policy(
    api: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, policy: dict[str, Any], text: str
) -> None:
    for name in ("RUNTIME_COST_BUDGET", "MATCH_CONDITIONS_COST_BUDGET"):
        monkeypatch.setattr(f"{EXPRESSIONS}.{name}", 300)
        monkeypatch.setattr(f"pytest_kwait.simulator.cel.expressions.{name}", 300)
    bind(api, *policy.pop("validations"), **policy)
    if text:
        refused = denial(api, config_map("a"))
        assert (refused.code, refused.reason) == (422, "Invalid")
        assert refused.message == f'configmaps "a" is forbidden: {DENIED}{text}'
        api.modify(POLICIES, "p", "", lambda obj: obj["spec"].update(failurePolicy="Ignore"))
    api.create("configmaps", config_map("a"), "default")


def test_warn_action_does_not_deny(api: SimulatedCluster) -> None:
    bind(api, {"expression": "false", "message": "m"}, binding={"validationActions": ["Warn"]})
    caller = Caller()
    api.create("configmaps", config_map("a"), "default", caller=caller)
    assert caller.warnings == [
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': m"
    ]


@pytest.mark.parametrize(
    ("constraints", "binding", "conditions"),
    [
        ({"excludeResourceRules": [CONFIG_MAPS]}, {}, []),
        ({"objectSelector": {"matchLabels": {"x": "y"}}}, {}, []),
        ({}, {"matchResources": {"namespaceSelector": {"matchLabels": {"x": "y"}}}}, []),
        ({}, {}, [{"name": "never", "expression": "object.metadata.name == 'other'"}]),
    ],
)
def test_policy_matches_its_constraints(
    api: SimulatedCluster, constraints: Any, binding: Any, conditions: Any
) -> None:
    bind(
        api,
        {"expression": "false"},
        constraints=constraints,
        binding=binding,
        matchConditions=conditions,
    )
    api.create("configmaps", config_map("a"), "default")


def test_missing_parameters_deny(api: SimulatedCluster) -> None:
    api.create("configmaps", config_map("limits", data={"most": "3"}), "default")
    reference = {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}
    bind(
        api,
        {"expression": "object.metadata.name.size() <= int(params.data.most)"},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        binding={"paramRef": reference},
    )
    api.create("configmaps", config_map("a"), "default")
    assert denial(api, config_map("long")).code == 422
    api.delete("configmaps", "limits", "default")
    assert denial(api, config_map("b")).message.endswith(
        "failed to configure binding: no params found for policy binding with `Deny` "
        "parameterNotFoundAction"
    )


def hook(*conditions: dict[str, Any], **more: Any) -> dict[str, Any]:
    webhook = {
        "name": "a.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [CONFIG_MAPS],
        "matchConditions": list(conditions),
        **more,
    }
    return {"metadata": {"name": "w"}, "webhooks": [webhook]}


def test_webhook_is_called_if_its_conditions_match(api: SimulatedCluster) -> None:
    api.create(WEBHOOKS, hook({"name": "n", "expression": "object.metadata.name == 'asked'"}))
    api.create("configmaps", config_map("a"), "default")
    assert denial(api, config_map("asked")).code == 500


def test_condition_error_follows_the_failure_policy(
    api: SimulatedCluster,
) -> None:
    condition = {"name": "n", "expression": "object.data.x == 'y'"}
    api.create(WEBHOOKS, hook(condition))
    assert denial(api, config_map("a")).message == (
        "configmaps \"a\" is forbidden: expression 'object.data.x == 'y'' resulted in error: no "
        "such key: data"
    )
    api.delete(WEBHOOKS, "w")
    api.create(WEBHOOKS, hook(condition, failurePolicy="Ignore"))
    api.create("configmaps", config_map("a"), "default")


def test_invalid_conditions_are_rejected(api: SimulatedCluster) -> None:
    with pytest.raises(StatusError) as refused:
        api.create(
            WEBHOOKS, hook({"name": "n", "expression": "1"}, {"name": "n", "expression": ""})
        )
    assert [cause["message"] for cause in (refused.value.details or {})["causes"]] == [
        'Invalid value: "1": must evaluate to bool but got int',
        "Required value",
        'Duplicate value: "n"',
    ]


def test_audit_annotation_error_always_denies(
    api: SimulatedCluster,
) -> None:
    notes = [{"key": "k", "valueExpression": "'v' + object.data.x"}]
    bind(api, auditAnnotations=notes, binding={"validationActions": ["Audit"]})
    api.create("configmaps", config_map("a", data={"x": "y"}), "default")
    refused = denial(api, config_map("b"))
    text = "expression ''v' + object.data.x' resulted in error: no such key: data"
    assert refused.message == f'configmaps "b" is forbidden: {DENIED}{text}'
