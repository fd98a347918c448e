from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.request_info import Caller
from tests.objects import config_map, job, pod
from tests.simulator.admission.fake_webhooks import GROUP, Webhooks, configure, patch, rule

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

Obj = dict[str, Any]

_ALLOW = {"allowed": True}
_NOTE = patch({"op": "add", "path": "/data", "value": {"note": "yes"}})


def create(api: SimulatedCluster, webhooks: Webhooks, obj: Obj | None = None, **caller: Any) -> Obj:
    made = obj or config_map()
    return webhooks.write(
        lambda who: api.create("configmaps", made, "default", caller=who), Caller(**caller)
    )


def refused(api: SimulatedCluster, webhooks: Webhooks, **caller: Any) -> StatusError:
    with pytest.raises(StatusError) as error:
        create(api, webhooks, **caller)
    return error.value


def test_webhook_receives_the_admission_request(api: SimulatedCluster) -> None:
    configure(api)
    webhooks = Webhooks(w=_ALLOW)
    options = {"fieldManager": "m", "fieldValidation": "Strict"}
    create(api, webhooks, user="bob", groups=("team",), manager="tool", write_options=options)
    ((_, request),) = webhooks.asked
    uid = request["object"]["metadata"].pop("uid")
    assert len(uid) == 36
    assert request == {
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "a",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "bob", "groups": ["team"]},
        "object": {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {
                "name": "a",
                "namespace": "default",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
        },
        "oldObject": None,
        "dryRun": False,
        "options": {
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": "m",
            "fieldValidation": "Strict",
        },
    }


def test_generated_values_survive_the_repeated_write(api: SimulatedCluster) -> None:
    configure(api, rules=[rule("pods", "services")])
    webhooks = Webhooks(w=_ALLOW)
    made = pod()
    made["metadata"] = {"generateName": "p-"}
    stored = webhooks.write(lambda who: api.create("pods", made, "default", caller=who))
    ((_, request),) = webhooks.asked
    assert request["object"]["metadata"]["name"] == request["name"] == stored["metadata"]["name"]
    assert request["object"]["metadata"]["uid"] == stored["metadata"]["uid"]
    assert request["object"]["spec"]["volumes"] == stored["spec"]["volumes"]
    service = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    stored = webhooks.write(lambda who: api.create("services", service, "default", caller=who))
    assert webhooks.asked[1][1]["object"]["spec"] == stored["spec"]
    assert len(webhooks.asked) == 2


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        ({}, 400, "", "denied the request without explanation"),
        ({"message": "no", "code": 200}, 400, "", "denied the request: no"),
        ({"reason": "Forbidden"}, 400, "Forbidden", "denied the request: Forbidden"),
        (
            {"message": "no", "code": 422, "reason": "Invalid"},
            422,
            "Invalid",
            "denied the request: no",
        ),
    ],
)
def test_webhook_denial_has_the_servers_message(
    api: SimulatedCluster, status: Obj, code: int, reason: str, message: str
) -> None:
    configure(api)
    error = refused(api, Webhooks(w={"allowed": False, "status": status}))
    assert (error.code, error.reason) == (code, reason)
    assert error.message == f'admission webhook "w.example.com" {message}'


def test_warnings_go_to_the_client(api: SimulatedCluster) -> None:
    configure(api)
    caller = Caller()
    webhooks = Webhooks(w={"allowed": True, "warnings": ["careful"]})
    webhooks.write(
        lambda who: api.create("configmaps", config_map(), "default", caller=who), caller
    )
    assert caller.warnings == ["careful"]


def test_failed_call_denies_with_policy_fail(api: SimulatedCluster) -> None:
    configure(api)
    error = refused(api, Webhooks(w="nobody there"))
    assert (error.code, error.message) == (
        500,
        'Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: '
        "nobody there",
    )


def test_failed_call_is_ignored_with_policy_ignore(api: SimulatedCluster) -> None:
    configure(api, failurePolicy="Ignore")
    configure(api, "v", failurePolicy="Ignore", mutating=True)
    assert create(api, Webhooks(w="nobody there", v="nobody there"))


@pytest.mark.parametrize(
    ("effects", "asked"), [("None", True), ("NoneOnDryRun", True), ("Some", False)]
)
def test_dry_run_requires_webhooks_without_side_effects(
    api: SimulatedCluster, effects: str, *, asked: bool
) -> None:
    configure(api)
    resource = f"validatingwebhookconfigurations.{GROUP}"
    entry = api.entry(api.kind_of(resource), "w")
    # New configurations may not have side effects; existing ones may.
    entry.obj["webhooks"][0]["sideEffects"] = effects
    webhooks = Webhooks(w=_ALLOW)
    if asked:
        create(api, webhooks, dry_run=True)
        assert webhooks.asked[0][1]["dryRun"] is True
        assert api.find("configmaps", "a", "default") is None
    else:
        error = refused(api, webhooks, dry_run=True)
        text = 'admission webhook "w.example.com" does not support dry run'
        assert (error.code, error.message) == (400, text)


def test_patched_object_is_validated_and_stored(api: SimulatedCluster) -> None:
    configure(api, mutating=True)
    assert create(api, Webhooks(w=_NOTE))["data"] == {"note": "yes"}
    wrong = patch({"op": "add", "path": "/metadata/labels", "value": {"a b": "c"}})
    with pytest.raises(StatusError, match=r"is invalid: metadata\.labels: Invalid value"):
        create(api, Webhooks(w=wrong), config_map("b"))


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (
            {"op": "add", "path": "/x/y", "value": 1},
            'add operation does not apply: doc is missing path: "/x/y": missing value',
        ),
        (
            {"op": "remove", "path": "/data/n"},
            "error in remove for path: '/data/n': Unable to remove nonexistent key: n: missing "
            "value",
        ),
        (
            {"op": "replace", "path": "/x/y", "value": 1},
            "replace operation does not apply: doc is missing path: /x/y: missing value",
        ),
        (
            {"op": "test", "path": "/data/k", "value": "x"},
            "testing value /data/k failed: test failed",
        ),
        ({"op": "odd", "path": "/data"}, "Unexpected kind: odd"),
        (
            {"op": "add", "path": "/data/n", "value": 5},
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
    ],
)
def test_invalid_patch_is_an_error(api: SimulatedCluster, operation: Obj, why: str) -> None:
    configure(api, mutating=True)
    with pytest.raises(StatusError) as error:
        create(api, Webhooks(w=patch(operation)), config_map(k="v"))
    assert (error.value.code, error.value.message) == (500, f"Internal error occurred: {why}")


def test_patch_may_replace_a_missing_field(api: SimulatedCluster) -> None:
    configure(api, mutating=True)
    made = patch({"op": "replace", "path": "/data/n", "value": "x"})
    assert create(api, Webhooks(w=made), config_map(k="v"))["data"] == {"k": "v", "n": "x"}


def test_webhooks_see_earlier_changes(api: SimulatedCluster) -> None:
    configure(api, "b", mutating=True)
    configure(api, "a", mutating=True)
    configure(api, "z")
    webhooks = Webhooks(a=_NOTE, b=_ALLOW, z=_ALLOW)
    create(api, webhooks)
    assert webhooks.names == ["a", "b", "z"]
    seen = [request["object"].get("data") for _, request in webhooks.asked]
    assert seen == [None, {"note": "yes"}, {"note": "yes"}]


def test_webhooks_are_reinvoked_after_later_changes(api: SimulatedCluster) -> None:
    configure(api, "a", mutating=True, reinvocationPolicy="IfNeeded")
    configure(api, "b", mutating=True)
    webhooks = Webhooks(a=_ALLOW, b=_NOTE)
    create(api, webhooks)
    assert webhooks.names == ["a", "b", "a"]
    assert webhooks.asked[2][1]["object"]["data"] == {"note": "yes"}


def test_last_changing_webhook_is_not_reinvoked(api: SimulatedCluster) -> None:
    configure(api, "a", mutating=True, reinvocationPolicy="IfNeeded")
    webhooks = Webhooks(a=_NOTE)
    create(api, webhooks)
    assert webhooks.names == ["a"]


def test_updates_and_deletions_include_the_old_object(api: SimulatedCluster) -> None:
    api.create("configmaps", config_map(k="v"), "default")
    configure(api)
    webhooks = Webhooks(w=_ALLOW)
    changed = {**config_map(k="w"), "metadata": {"name": "a", "namespace": "default"}}
    webhooks.write(lambda who: api.update("configmaps", changed, caller=who))
    webhooks.write(lambda who: api.delete("configmaps", "a", "default", grace=0, caller=who))
    (_, update), (_, deletion) = webhooks.asked
    assert (update["operation"], deletion["operation"]) == ("UPDATE", "DELETE")
    assert (update["object"]["data"], update["oldObject"]["data"]) == ({"k": "w"}, {"k": "v"})
    assert (deletion["object"], deletion["oldObject"]["data"]) == (None, {"k": "w"})
    assert deletion["options"]["gracePeriodSeconds"] == 0


def test_deletion_cannot_be_patched(api: SimulatedCluster) -> None:
    api.create("configmaps", config_map(k="v"), "default")
    configure(api, mutating=True)
    with pytest.raises(StatusError) as error:
        Webhooks(w=_NOTE).write(lambda who: api.delete("configmaps", "a", "default", caller=who))
    assert error.value.message == (
        'Internal error occurred: admission webhook "w.example.com" attempted to modify the '
        "object, which is not supported for this operation"
    )


@pytest.mark.parametrize(
    ("webhook", "asked"),
    [
        ({"rules": [rule("*")]}, True),
        ({"rules": [rule("*/*")]}, True),
        ({"rules": [rule("configmaps/*")]}, True),
        ({"rules": [rule("configmaps/status")]}, False),
        ({"rules": [rule("secrets")]}, False),
        ({"rules": [rule("configmaps", operations=["UPDATE"])]}, False),
        ({"rules": [rule("configmaps", apiGroups=["apps"])]}, False),
        ({"rules": [rule("configmaps", apiVersions=["v2"])]}, False),
        ({"rules": [rule("configmaps", scope="Cluster")]}, False),
        ({"rules": [rule("configmaps", scope="Namespaced")]}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}, False),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, True),
        (
            {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}},
            False,
        ),
    ],
)
def test_webhooks_match_by_rules_and_selectors(
    api: SimulatedCluster, webhook: Obj, *, asked: bool
) -> None:
    configure(api, **webhook)
    webhooks = Webhooks(w=_ALLOW)
    made = config_map()
    made["metadata"]["labels"] = {"a": "b"}
    create(api, webhooks, made)
    assert bool(webhooks.asked) == asked


@pytest.mark.parametrize(("policy", "asked"), [("Equivalent", True), ("Exact", False)])
def test_webhook_receives_the_version_of_its_rule(
    api: SimulatedCluster, policy: str, *, asked: bool
) -> None:
    configure(api, rules=[rule("events", apiGroups=[""])], matchPolicy=policy)
    kind = (api.kinds.served("events.k8s.io", "v1") or {})["events"]
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    made = {"metadata": {"name": "e"}, "regarding": about, "note": "told", "type": "Normal"}
    made |= {"action": "a", "reason": "r", "reportingController": "c", "reportingInstance": "i"}
    made["eventTime"] = "2026-01-01T00:00:00.000000Z"
    webhooks = Webhooks(w=_ALLOW)
    webhooks.write(lambda who: api.create(kind, made, "default", caller=who))
    assert bool(webhooks.asked) == asked
    if asked:
        ((_, request),) = webhooks.asked
        assert (request["object"]["apiVersion"], request["object"]["message"]) == ("v1", "told")
        assert request["kind"]["group"] == ""
        assert request["requestKind"]["group"] == "events.k8s.io"


def test_namespaces_match_by_their_new_labels(api: SimulatedCluster) -> None:
    selector = {"matchLabels": {"a": "b"}}
    configure(api, rules=[rule("namespaces", scope="Cluster")], namespaceSelector=selector)
    webhooks = Webhooks(w=_ALLOW)

    def make(name: str, labels: dict[str, str]) -> None:
        made = {"metadata": {"name": name, "labels": labels}}
        webhooks.write(lambda who: api.create("namespaces", made, caller=who))

    make("one", {"a": "b"})
    make("two", {})
    assert [request["name"] for _, request in webhooks.asked] == ["one"]


def test_webhook_configurations_are_exempt(api: SimulatedCluster) -> None:
    configure(api, rules=[rule("*")])
    configure(api, "v", rules=[rule("*")])
    assert api.list(f"validatingwebhookconfigurations.{GROUP}")


def test_webhook_matches_the_status_subresource(api: SimulatedCluster) -> None:
    api.create("jobs.batch", job(), "default")
    configure(api, rules=[rule("jobs/status")])
    webhooks = Webhooks(w=_ALLOW)
    changed = {**api.get("jobs.batch", "j", "default"), "status": {"active": 1}}
    webhooks.write(lambda who: api.update("jobs.batch", changed, subresource="status", caller=who))
    ((_, request),) = webhooks.asked
    assert request["subResource"] == request["requestSubResource"] == "status"
