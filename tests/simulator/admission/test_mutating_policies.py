"""Mutating policies; the transcripts of the conformance suite have more messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.cel.admission_compiler import to_checked_form, to_runtime_form
from pytest_kwait.simulator.request_info import Caller
from tests.simulator.admission.fake_webhooks import Webhooks, configure, patch

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

Obj = dict[str, Any]

GROUP = "admissionregistration.k8s.io"
CONFIG_MAPS = {
    "operations": ["CREATE", "UPDATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}


def applied(expression: str) -> Obj:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patched(expression: str) -> Obj:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def noted(key: str) -> Obj:
    """A mutation that records the number of entries."""
    count = 'has(object.data) ? string(size(object.data)) : "0"'
    return applied(f'Object{{data: {{"{key}": {count}}}}}')


def bind(api: SimulatedCluster, *mutations: Obj, name: str = "p", **more: Any) -> None:
    binding = more.pop("binding", {})
    spec = {
        "matchConstraints": {"resourceRules": [CONFIG_MAPS]},
        "reinvocationPolicy": "Never",
        "mutations": list(mutations),
        **more,
    }
    api.create(f"mutatingadmissionpolicies.{GROUP}", {"metadata": {"name": name}, "spec": spec})
    bound = {"metadata": {"name": name}, "spec": {"policyName": name, **binding}}
    api.create(f"mutatingadmissionpolicybindings.{GROUP}", bound)


def made(api: SimulatedCluster, name: str = "a", **more: Any) -> Obj:
    return api.create("configmaps", {"metadata": {"name": name}, **more}, "default")


def test_mutations_apply_in_order(api: SimulatedCluster) -> None:
    label = 'Object{metadata: Object.metadata{labels: {"l": object.data.k}}}'
    bind(api, patched('[JSONPatch{op: "add", path: "/data", value: {"k": "v"}}]'), applied(label))
    found = made(api)
    assert (found["data"], found["metadata"]["labels"]) == ({"k": "v"}, {"l": "v"})


def test_mutations_apply_for_each_parameter_object(api: SimulatedCluster) -> None:
    for name in ("one", "two"):
        made(api, name, data={"v": f"of {name}"})
    labels = {"metadata": {"labels": {"param": "yes"}}}
    for name in ("one", "two"):
        api.modify(
            "configmaps",
            name,
            "default",
            lambda found: found["metadata"].update(labels["metadata"]),
        )
    annotate = (
        "Object{metadata: Object.metadata{annotations: {params.metadata.name: params.data.v}}}"
    )
    reference = {
        "selector": {"matchLabels": {"param": "yes"}},
        "parameterNotFoundAction": "Deny",
    }
    bind(
        api,
        applied(annotate),
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        binding={"paramRef": reference},
    )
    assert made(api)["metadata"]["annotations"] == {"one": "of one", "two": "of two"}


def test_json_patch_keys_are_escaped(api: SimulatedCluster) -> None:
    path = '"/metadata/labels/" + jsonpatch.escapeKey("a.b/c")'
    bind(api, patched(f'[JSONPatch{{op: "add", path: {path}, value: "d"}}]'))
    found = api.create("configmaps", {"metadata": {"name": "a", "labels": {"x": "y"}}}, "default")
    assert found["metadata"]["labels"] == {"x": "y", "a.b/c": "d"}


@pytest.mark.parametrize(
    ("first", "second", "data"),
    [
        ("Never", "Never", {"a": "0", "b": "1"}),
        ("IfNeeded", "Never", {"a": "2", "b": "1"}),
        ("IfNeeded", "IfNeeded", {"a": "2", "b": "2"}),
    ],
)
def test_policies_are_reinvoked_after_changes(
    api: SimulatedCluster, first: str, second: str, data: Obj
) -> None:
    bind(api, noted("a"), name="a", reinvocationPolicy=first)
    bind(api, noted("b"), name="b", reinvocationPolicy=second)
    assert made(api)["data"] == data


def test_policies_run_before_webhooks_and_again_after_them(api: SimulatedCluster) -> None:
    bind(api, noted("p"), reinvocationPolicy="IfNeeded")
    configure(api, "w", mutating=True)
    operation = {"op": "add", "path": "/data/w", "value": "x"}
    webhooks = Webhooks(w=patch(operation))
    found = webhooks.write(
        lambda caller: api.create(
            "configmaps", {"metadata": {"name": "a"}}, "default", caller=caller
        ),
        Caller(),
    )
    assert found["data"] == {"p": "2", "w": "x"}
    assert [request["object"]["data"] for _, request in webhooks.asked] == [{"p": "0"}]


def test_binding_restricts_its_policy(api: SimulatedCluster) -> None:
    limits = {"objectSelector": {"matchLabels": {"with": "it"}}}
    bind(api, noted("p"), binding={"matchResources": limits})
    assert "data" not in made(api)
    found = api.create(
        "configmaps", {"metadata": {"name": "b", "labels": {"with": "it"}}}, "default"
    )
    assert found["data"] == {"p": "0"}


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_failure_policy_denies_or_skips(api: SimulatedCluster, policy: str) -> None:
    bind(
        api,
        patched('[JSONPatch{op: "add", path: "/data", value: object.data.x}]'),
        applied('Object{data: {"k": "v"}}'),
        failurePolicy=policy,
    )
    if policy == "Ignore":
        assert made(api)["data"] == {"k": "v"}
        return
    with pytest.raises(StatusError) as refused:
        made(api)
    assert (refused.value.code, refused.value.reason) == (403, "Invalid")
    assert refused.value.message == (
        "policy 'p' with binding 'p' denied request: expression '[JSONPatch{op: \"add\", path: "
        '"/data", value: object.data.x}]\' resulted in error: no such key: data'
    )


def test_all_failures_are_reported(api: SimulatedCluster) -> None:
    wrong = applied("Object{data: Object.wrong{}}")
    bind(api, wrong, wrong)
    with pytest.raises(StatusError) as refused:
        made(api)
    text = (
        "policy 'p' with binding 'p' denied request: type mismatch: unexpected type name "
        '"Object.wrong", expected "Object.data", which matches field name path from root Object '
        "type"
    )
    assert refused.value.details == {
        "name": "a",
        "kind": "configmaps",
        "causes": [{"message": text}, {"message": text}],
    }


@pytest.mark.parametrize(
    ("text", "checked", "run"),
    [
        ("Object{}", "Object{}", '{"@object": "Object"}'),
        (
            "Object{spec: Object.spec{a: 1, b: {'c': d}}}",
            "Object{spec: Object_spec{a: 1, b: {'c': d}}}",
            '{"@object": "Object", "spec": {"@object": "Object.spec", "a": 1, "b": {\'c\': d}}}',
        ),
        ("Object . spec {}", "Object _ spec {}", '{"@object": "Object.spec"}'),
        ("'Object{a: 1}' // Object{", "'Object{a: 1}' // Object{", "'Object{a: 1}' // Object{"),
        ("object.x{a: 1}", "object.x{a: 1}", "object.x{a: 1}"),
        (
            "[JSONPatch{op: a ? b : c, ?value: d}]",
            "[JSONPatch{op: a ? b : c, ?value: d}]",
            '[{"@object": "JSONPatch", "op": a ? b : c, ?"value": d}]',
        ),
        ("Object{a: [x, y].map(z, z)}", "Object{a: [x, y].map(z, z)}", None),
        ("}", "}", "}"),
    ],
)
def test_object_literals_are_type_checked(text: str, checked: str, run: str | None) -> None:
    assert to_checked_form(text) == checked
    if run is not None:
        assert to_runtime_form(text) == run
