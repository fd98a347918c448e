"""Type checking warnings in the status of a validating policy."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.apiextensions.controller import CustomResourceSchema
from pytest_kwait.simulator.cel.admission_compiler import compilation_error
from pytest_kwait.simulator.controllers.validating_admission_policy_status import (
    POLICIES,
    PolicyStatusController,
    type_check_warnings,
)
from pytest_kwait.simulator.scheme import Kind
from tests.simulator.cluster import new_cluster
from tests.simulator.manual_clock import ManualClock


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[request.operation, 'CREATE', request.userInfo.groups[0]].size() == 3", ""),
        ("[request.userInfo.extra, {'a': ['b']}].size() == 2", ""),
        ("[namespaceObject.metadata.labels['a'], variables.v].size() == 2", ""),
        ("[object.spec.replicas + 1, 2].size() == 2", ""),
        ("[object.a, 'b'].size() == 2", "1:12: expected type 'dyn' but found 'string'"),
        ("[params.a, 'b'].size() == 2", "1:12: expected type 'dyn' but found 'string'"),
    ],
)
def test_request_variables_are_typed(text: str, why: str) -> None:
    """The messages are those of a real server."""
    fault, _ = compilation_error(text, "bool", {"v": {"type": "string"}}, params=True)
    assert fault.partition("\n")[0] == (f"compilation failed: ERROR: <input>:{why}" if why else "")


Obj = dict[str, Any]
DEPLOYMENTS: Obj = {
    "operations": ["*"],
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "resources": ["deployments"],
}


def policy(*expressions: str, rule: Obj | None = None, **spec: Any) -> Obj:
    return {
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [{**DEPLOYMENTS, **(rule or {})}]},
            "validations": [{"expression": text} for text in expressions],
            **spec,
        },
    }


def warned(found: Obj) -> list[Obj]:
    return type_check_warnings(found, new_cluster().kinds)


@pytest.mark.parametrize(
    "text",
    [
        "object.spec.replicas > 1 && oldObject.metadata.namespace == 'a'",
        "object.metadata.creationTimestamp > timestamp('2020-01-01T00:00:00Z')",
        "object.spec.template.spec.containers.all(c, c.ports.all(p, p.containerPort > 1))",
        "object.spec.strategy.rollingUpdate.maxSurge > 1",
        "object.metadata.labels['a'] == 'b' && namespaceObject.metadata.labels['a'] == 'b'",
    ],
)
def test_valid_expressions_cause_no_warning(text: str) -> None:
    assert warned(policy(text)) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "object.spec.nope.more == 1",
            "ERROR: <input>:1:12: undefined field 'nope'\n | object.spec.nope.more == 1\n"
            " | ...........^",
        ),
        (
            "object.metadata.labels['a'] == 1",
            "ERROR: <input>:1:29: found no matching overload for '_==_' applied to "
            "'(string, int)'\n | object.metadata.labels['a'] == 1\n"
            " | ............................^",
        ),
        (
            "object.spec.template.spec.overhead['cpu'] == '1'",
            "ERROR: <input>:1:26: undefined field 'overhead'\n"
            " | object.spec.template.spec.overhead['cpu'] == '1'\n | .........................^",
        ),
        (
            "object.metadata.managedFields[0].fieldsV1.x == 1",
            "ERROR: <input>:1:42: undefined field 'x'\n"
            " | object.metadata.managedFields[0].fieldsV1.x == 1\n"
            " | .........................................^",
        ),
    ],
)
def test_type_errors_cause_warnings(text: str, why: str) -> None:
    assert warned(policy(text)) == [
        {
            "fieldRef": "spec.validations[0].expression",
            "warning": f"apps/v1, Kind=Deployment: {why}\n".replace("\\\n", "\n"),
        }
    ]


def test_warnings_list_kinds_in_order() -> None:
    rule = {"apiGroups": ["apps", ""], "resources": ["statefulsets", "configmaps", "pods/status"]}
    [found] = warned(policy("object.data == object.data", rule=rule))
    assert found["warning"] == (
        "apps/v1, Kind=StatefulSet: ERROR: <input>:1:7: undefined field 'data'\n"
        " | object.data == object.data\n | ......^\n"
        "ERROR: <input>:1:22: undefined field 'data'\n"
        " | object.data == object.data\n | .....................^\n"
    )
    [found] = warned(policy("object.nope == 1", rule={**rule, "resources": ["events"]}))
    assert [line for line in found["warning"].splitlines() if "Kind=" in line] == [
        "/v1, Kind=Event: ERROR: <input>:1:7: undefined field 'nope'",
        "events.k8s.io/v1, Kind=Event: ERROR: <input>:1:7: undefined field 'nope'",
    ]


@pytest.mark.parametrize(
    "rule",
    [
        {"apiGroups": ["*"]},
        {"apiVersions": ["*"]},
        {"resources": ["*", "deployments/scale"]},
        {"resources": ["nopes"]},
    ],
)
def test_wildcard_kinds_are_not_checked(rule: Obj) -> None:
    assert warned(policy("object.nope == 1", rule=rule)) == []


def test_variables_are_typed_by_their_expressions() -> None:
    variables = [
        {"name": "count", "expression": "object.spec.replicas"},
        {"name": "wrong", "expression": "object.nope"},
    ]
    found = warned(policy("variables.wrong == 1", "variables.count == 'a'", variables=variables))
    assert [one["fieldRef"] for one in found] == ["spec.validations[1].expression"]


def test_parameters_and_messages_are_checked() -> None:
    found = policy("params.data.a == 'b'", paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    found["spec"]["validations"][0]["messageExpression"] = "'no ' + params.nope"
    assert [one["fieldRef"] for one in warned(found)] == ["spec.validations[0].messageExpression"]


def test_custom_kinds_are_checked_by_their_schema() -> None:
    kinds = new_cluster().kinds
    schema = {"properties": {"spec": {"type": "object", "properties": {"a-b": {"type": "string"}}}}}
    kinds.add(
        [
            Kind(
                group="example.com",
                version="v1",
                plural="things",
                kind="Thing",
                namespaced=True,
                verbs=("get",),
                structure=CustomResourceSchema(schema, None, None, (), ""),
            )
        ]
    )
    rule = {"apiGroups": ["example.com"], "resources": ["things"]}
    fine = policy("object.spec.a__dash__b == object.metadata.labels['x']", rule=rule)
    assert type_check_warnings(fine, kinds) == []
    assert len(type_check_warnings(policy("object.spec.c == ''", rule=rule), kinds)) == 1


def test_each_generation_is_checked_once() -> None:
    api = new_cluster()
    PolicyStatusController(api)
    assert isinstance(api.clock, ManualClock)
    api.create(POLICIES, policy("object.spec.replicas > 1"))
    api.clock.advance(0)
    found = api.get(POLICIES, "p")
    assert found["status"] == {"observedGeneration": 1, "typeChecking": {}}

    def broken(changed: Obj) -> None:
        changed["spec"]["validations"] = [{"expression": "object.nope == 1"}]

    api.modify(POLICIES, "p", "", broken)
    api.clock.advance(0)
    status = api.get(POLICIES, "p")["status"]
    assert status["observedGeneration"] == 2
    [warning] = status["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[0].expression"
    told = api.get(POLICIES, "p")["metadata"]["resourceVersion"]
    api.modify(POLICIES, "p", "", lambda changed: changed["metadata"].update(labels={"a": "b"}))
    api.clock.advance(0)
    assert int(api.get(POLICIES, "p")["metadata"]["resourceVersion"]) == int(told) + 1
