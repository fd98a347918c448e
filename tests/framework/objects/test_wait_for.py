from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import (
    BUILT_IN,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    JOBS,
    LEASES,
    NODES,
    PODS,
    Resource,
)
from pytest_kwait.engine.condition import Failed, Met, Pending
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.objects.combinators import any_of, stable_for
from pytest_kwait.framework.objects.wait import wait_for
from tests.objects import condition, created_job, job_pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
WEB = {"app": "web"}
READY = [condition("Ready")]
UNREADY = [condition("Ready", "False", reason="ContainersNotReady", message="no: [main]")]
WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)


@pytest.fixture(autouse=True)
def _kinds(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(kind: str, api_version: str | None = None, **_: Any) -> Resource:
        session.requests.append(f"resolve {kind}")
        found = match_resource([*BUILT_IN.values(), WIDGETS], kind, api_version)
        if found is None:
            raise InvalidArgument("kind", kind, "the server has no such kind")
        return found

    monkeypatch.setattr(session, "resolve", resolve)


def reason(caught: pytest.ExceptionInfo[WaitFailed | WaitTimeout]) -> str:
    return str(caught.value.evidence["reason"])


@MODES
def test_condition_of_one_object(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.at(2, session.put, PODS, job_pod("a", conditions=UNREADY))
    session.at(4, session.put, PODS, job_pod("a", conditions=READY))

    found = wait_for(client, "ci-1", "po/a", "condition=ready", mode=mode)

    assert isinstance(found, dict)
    assert (found["kind"], found["metadata"]["name"]) == ("Pod", "a")
    assert session.clock.monotonic() == 4.0


def widget(generation: int, observed: int | None, **facts: Any) -> Any:
    metadata = {"name": "w", "generation": generation}
    status = {"observedGeneration": observed, "conditions": [condition("Fine", **facts)]}
    return {"metadata": metadata, "status": status}


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (widget(2, 1), "Fine is of generation 1, not yet of 2"),
        (widget(2, 2, observedGeneration=1), "Fine is of generation 1, not yet of 2"),
        (widget(2, 2, status="Unknown"), "Fine is Unknown"),
        (widget(1, 1, status="False", reason="R", message="m"), "Fine is False: R: m"),
        ({"metadata": {"name": "w"}, "status": {"conditions": None}}, "no condition Fine yet"),
        ({"metadata": {"name": "w"}}, "no condition Fine yet"),
        (
            {"metadata": {"name": "w"}, "status": {"conditions": [{}, {"type": None}]}},
            "no condition Fine yet",
        ),
    ],
)
def test_condition_that_does_not_hold(
    client: ApiClient, session: FakeSession, obj: Any, text: str
) -> None:
    session.put(WIDGETS, obj)

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "widgets.example.com/w", "condition=Fine", timeout=1)

    assert reason(caught) == text


def test_requests_refused_to_an_operator_are_in_the_message(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(WIDGETS, widget(2, None))
    running = {"name": "main", "ready": True, "state": {"running": {}}}
    session.put(PODS, job_pod("operator", containerStatuses=[running]))
    session.log_texts = {"operator/main": "ApiException: (403)\n"}

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "widget/w", "condition=Wide", timeout=1)
    (found,) = caught.value.evidence["refusals"]
    assert (found["pod"], found["lines"]) == ("operator", ("ApiException: (403)",))

    # The kubelet and the cluster's controllers have their rights.
    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "pod/operator", "condition=Wide", timeout=1)
    assert caught.value.evidence["refusals"] == ()


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (widget(2, 2), "condition=Fine"),
        (widget(2, None), "condition=fine=TRUE"),
        (widget(2, 1, observedGeneration=2), "condition=Fine=True"),
        (widget(1, 1, status="False"), "condition=Fine=false"),
    ],
)
def test_condition_that_holds(client: ApiClient, session: FakeSession, obj: Any, text: str) -> None:
    session.put(WIDGETS, obj)

    found = wait_for(client, "ci-1", "widget/w", text, timeout=1)

    assert isinstance(found, dict)
    assert (found["apiVersion"], found["kind"]) == ("example.com/v1", "Widget")


@MODES
def test_create(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.at(4, session.put, CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"k": "v"}})

    found = wait_for(client, "ci-1", "cm/c", "create", mode=mode)

    assert isinstance(found, dict)
    assert found["data"] == {"k": "v"}


@MODES
def test_delete(client: ApiClient, session: FakeSession, mode: Any) -> None:
    assert wait_for(client, "ci-1", "cm/c", "delete", mode=mode) is None

    session.put(CONFIG_MAPS, {"metadata": {"name": "c"}})
    session.at(4, session.drop, CONFIG_MAPS, "c")
    session.at(4, session.put, CONFIG_MAPS, {"metadata": {"name": "c", "uid": "another"}})
    assert wait_for(client, "ci-1", "cm/c", "Delete", mode=mode) is None
    assert session.clock.monotonic() == 4.0


def config_map(uid: str) -> Any:
    metadata = {"name": "c", "uid": uid, "namespace": "ci-1"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@MODES
@pytest.mark.parametrize(
    "deletion", ["delete", stable_for("2s", "delete"), any_of("delete", "condition=Done")]
)
def test_the_deletion_of_an_object_is_that_of_its_uid(
    client: ApiClient, session: FakeSession, mode: Any, deletion: Any
) -> None:
    session.put(CONFIG_MAPS, config_map("another"))

    assert wait_for(client, "ci-1", config_map("first"), deletion, mode=mode) is None
    several = [config_map("first"), config_map("older")]
    assert wait_for(client, "ci-1", several, deletion, mode=mode) == [None, None]
    with pytest.raises(WaitTimeout, match="did not get deleted within 1s"):
        wait_for(client, "ci-1", config_map("another"), "delete", mode=mode, timeout=1)


@MODES
def test_a_uid_counts_for_deletions_alone(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    session.put(CONFIG_MAPS, config_map("another"))

    found = wait_for(client, "ci-1", config_map("first"), "create", mode=mode)
    assert found["metadata"]["uid"] == "another"


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({}, "still there, not being deleted"),
        ({"deletionTimestamp": "now"}, "being deleted"),
        (
            {"deletionTimestamp": "now", "finalizers": ["example.com/a", "b"]},
            "being deleted, held by example.com/a and b",
        ),
    ],
)
def test_reasons_that_a_deletion_is_delayed(
    client: ApiClient, session: FakeSession, metadata: Any, text: str
) -> None:
    session.put(CONFIG_MAPS, {"metadata": {"name": "c", **metadata}})

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "cm/c", "delete", timeout=1)

    assert reason(caught) == text


def test_objects_of_a_selection_that_are_not_deleted_are_named(
    client: ApiClient, session: FakeSession
) -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/a", "b"]}
    for name, metadata in (("gone", {}), ("held", deleted), ("kept", {})):
        session.put(CONFIG_MAPS, {"metadata": {"name": name, "labels": WEB, **metadata}})
    session.at(1, session.drop, CONFIG_MAPS, "gone")

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "cm", "delete", selector=WEB, timeout=2)

    held = "held (being deleted, held by example.com/a and b, "
    held += "deletionTimestamp 2026-01-01T00:00:00Z)"
    assert reason(caught) == f"2 still there: {held}, kept (not being deleted)"
    objects = caught.value.evidence["objects"]
    assert [(obj["kind"], obj["name"]) for obj in objects] == [
        ("ConfigMap", "held"),
        ("ConfigMap", "kept"),
    ]
    assert "describe configmaps/held" in str(caught.value)


def test_many_objects_that_are_not_deleted_are_counted(
    client: ApiClient, session: FakeSession
) -> None:
    for name in "abcde":
        session.put(CONFIG_MAPS, {"metadata": {"name": name, "labels": WEB}})

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "cm", "delete", selector=WEB, timeout=2)

    named = ", ".join(f"{name} (not being deleted)" for name in "abc")
    assert reason(caught) == f"5 still there: {named} and 2 more"


def test_cluster_scoped_kinds_have_no_namespace(client: ApiClient, session: FakeSession) -> None:
    session.put(NODES, {"metadata": {"name": "n"}, "status": {"conditions": UNREADY}})

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "node/n", "condition=Ready", timeout=1)

    assert caught.value.args == (
        "node n did not have condition Ready=True within 1s: "
        "Ready is False: ContainersNotReady: no: [main]",
    )
    assert str(caught.value).splitlines()[-1] == "  try: kubectl describe nodes/n"


@MODES
def test_pods_that_will_not_be_ready_end_the_wait(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    session.put(PODS, job_pod("a", "Pending", waiting=("InvalidImageName", "no")))
    session.at(20, session.put, PODS, job_pod("a", "Failed"))

    with pytest.raises(WaitFailed) as caught:
        wait_for(client, "ci-1", "pod/a", "condition=Ready", mode=mode)
    assert reason(caught) == "InvalidImageName: no"

    session.clock.sleep(20)
    with pytest.raises(WaitFailed) as caught:
        wait_for(client, "ci-1", "pod/a", "condition=Ready", mode=mode)
    assert reason(caught) == "the pod has ended: Failed"


def test_the_terminal_state_of_one_pod_must_hold_without_a_break(
    client: ApiClient, session: FakeSession
) -> None:
    stuck = job_pod("a", "Pending", waiting=("InvalidImageName", "no"))
    session.put(PODS, stuck)
    session.at(3, session.put, PODS, job_pod("a", "Pending"))
    session.at(4, session.put, PODS, stuck)

    with pytest.raises(WaitFailed):
        wait_for(client, "ci-1", "pod/a", "condition=Ready")

    assert session.clock.monotonic() == 9.0


def test_a_failed_job_will_not_be_complete(client: ApiClient, session: FakeSession) -> None:
    session.put(JOBS, created_job(status={"conditions": [condition("Failed")]}))

    with pytest.raises(WaitFailed) as caught:
        wait_for(client, "ci-1", "job/sleepers", "condition=Complete")

    assert reason(caught) == "the job is failed"


@MODES
def test_all_that_are_selected(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PODS, job_pod("stranger"))
    session.at(1, session.put, PODS, job_pod("b", labels=WEB, conditions=UNREADY))
    session.at(1.5, session.put, PODS, job_pod("a", labels=WEB, conditions=READY))
    session.at(3, session.put, PODS, job_pod("b", labels=WEB, conditions=READY))

    found: Any = wait_for(client, "ci-1", "pods", "condition=Ready", selector=WEB, mode=mode)

    assert [obj["metadata"]["name"] for obj in found] == ["a", "b"]


def test_exactly_so_many_of_them(client: ApiClient, session: FakeSession) -> None:
    for name, conditions in (("a", READY), ("b", UNREADY)):
        session.put(PODS, job_pod(name, labels=WEB, conditions=conditions))
    arguments: Any = (client, "ci-1", "pods", "condition=Ready")

    found: Any = wait_for(*arguments, selector="app=web", count=1)
    assert [obj["metadata"]["name"] for obj in found] == ["a"]

    with pytest.raises(WaitTimeout) as caught:
        wait_for(*arguments, selector="app=web", count=2, timeout=1)
    assert reason(caught) == "1 of 2 satisfy it, exactly 2 are awaited"


def test_none_there_is_not_all(client: ApiClient, session: FakeSession) -> None:
    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "pods", "condition=Ready", selector=WEB, timeout=1)
    assert reason(caught) == "none is there yet"

    session.put(PODS, job_pod("a", labels=WEB))
    session.at(2, session.drop, PODS, "a")
    assert wait_for(client, "ci-1", "pods", "delete", selector=WEB) is None


@MODES
def test_code_of_the_user_on_one_object(client: ApiClient, session: FakeSession, mode: Any) -> None:
    def has_key(obj: dict[str, Any]) -> bool:
        assert obj["kind"] == "ConfigMap"
        return "key" in obj["data"]

    session.put(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {}})
    session.at(2, session.put, CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"key": "v"}})

    found = wait_for(client, "ci-1", "cm/c", has_key, mode=mode)

    assert isinstance(found, dict)
    assert found["data"] == {"key": "v"}


def test_code_of_the_user_on_the_list(client: ApiClient, session: FakeSession) -> None:
    def two(pods: list[dict[str, Any]]) -> Any:
        return Met(pods[:1]) if len(pods) == 2 else Pending(f"{len(pods)} pods")

    session.put(PODS, job_pod("b", labels=WEB))
    session.at(2, session.put, PODS, job_pod("a", labels=WEB))

    found: Any = wait_for(client, "ci-1", "pods", two, selector=WEB)

    assert [obj["metadata"]["name"] for obj in found] == ["a"]


def test_code_of_the_user_can_end_the_wait(client: ApiClient, session: FakeSession) -> None:
    session.put(PODS, job_pod("a"))

    with pytest.raises(WaitFailed) as caught:
        wait_for(client, "ci-1", "pod/a", lambda _: Failed("seen enough"))

    assert str(caught.value).splitlines()[0] == (
        "pod ci-1/a can no longer satisfy <lambda>: seen enough"
    )


@MODES
def test_errors_of_user_callables_propagate(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    session.put(PODS, job_pod("a"))

    with pytest.raises(ZeroDivisionError) as caught:
        wait_for(client, "ci-1", "pod/a", lambda obj: bool(1 // 0), mode=mode)

    assert caught.traceback[-1].name == "<lambda>"


@MODES
@pytest.mark.parametrize(
    ("callable_", "text"),
    [
        (
            lambda obj: obj["status"]["readyReplicas"] == 3,
            "condition raised KeyError 'readyReplicas' (left out while 0; use .get)",
        ),
        (
            lambda obj: obj["status"]["hostIP"] != "",
            "condition raised KeyError 'hostIP' (not there yet; use .get)",
        ),
        (
            lambda obj: obj["status"].get("conditions")[0]["status"] == "True",
            "condition raised TypeError: 'NoneType' object is not subscriptable (not there yet?)",
        ),
        (
            lambda obj: obj["status"].get("address").startswith("10."),
            "condition raised AttributeError: 'NoneType' object has no attribute 'startswith' "
            "(not there yet?)",
        ),
        (
            lambda obj: obj["status"].get("podIPs", [])[0] != "",
            "condition raised IndexError: list index out of range (not there yet?)",
        ),
    ],
)
def test_fields_that_are_not_there_yet_are_awaited(
    client: ApiClient, session: FakeSession, mode: Any, callable_: Any, text: str
) -> None:
    session.put(PODS, job_pod("a"))

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "pod/a", callable_, timeout=5, mode=mode)

    assert caught.value.evidence["reason"] == text
    fields: dict[str, Any] = {
        "readyReplicas": 3,
        "hostIP": "10.0.0.1",
        "conditions": [condition("Ready")],
        "address": "10.0.0.2",
        "podIPs": ["10.0.0.3"],
    }
    session.at(3, session.put, PODS, job_pod("a", status=fields))
    assert wait_for(client, "ci-1", "pod/a", callable_, timeout=60, mode=mode)


@pytest.mark.parametrize(
    "callable_", [lambda obj: obj.nothing, lambda obj: obj + 1 > 1, lambda: True]
)
def test_type_errors_of_other_objects_propagate(
    client: ApiClient, session: FakeSession, callable_: Any
) -> None:
    session.put(PODS, job_pod("a"))
    with pytest.raises((TypeError, AttributeError)):
        wait_for(client, "ci-1", "pod/a", callable_, timeout=5)


def test_a_condition_that_is_not_there_lists_those_that_are(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(PODS, job_pod("a", conditions=[condition("PodScheduled"), condition("Ready")]))
    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "pod/a", "condition=Redy", timeout=5)
    assert caught.value.evidence["reason"] == (
        "no condition Redy yet (there is: PodScheduled, Ready)"
    )


@MODES
def test_a_callable_must_return_a_bool_or_a_verdict(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    session.put(PODS, job_pod("a"))
    answer: Any = len

    with pytest.raises(InvalidArgument) as caught:
        wait_for(client, "ci-1", "pod/a", lambda obj: answer(obj["metadata"]), mode=mode)

    assert str(caught.value) == (
        "what <lambda> returned=5 is not valid: use True, False, Met, Pending or Failed"
    )


def test_an_unknown_kind_is_refused_at_once(client: ApiClient) -> None:
    with pytest.raises(InvalidArgument, match="the server has no such kind"):
        wait_for(client, "ci-1", "gadget/g", "create")


DELETED = "the CustomResourceDefinition widgets.example.com was deleted"


@MODES
@pytest.mark.parametrize(
    ("versions", "metadata", "reason"),
    [
        (None, {}, DELETED),
        (
            ["v1"],
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "the CustomResourceDefinition widgets.example.com is being deleted",
        ),
        (["v0"], {}, "the CustomResourceDefinition widgets.example.com no longer serves v1"),
    ],
    ids=["deleted", "going", "version"],
)
def test_a_deleted_definition_is_the_reason(
    client: ApiClient,
    session: FakeSession,
    mode: Any,
    versions: Any,
    metadata: Any,
    reason: str,
) -> None:
    session.fail("list", WIDGETS, ApiError("404 page not found", status=404))
    if versions:
        served = [{"name": each, "served": True} for each in versions]
        named = {"name": "widgets.example.com", **metadata}
        session.put(CUSTOM_RESOURCE_DEFINITIONS, {"metadata": named, "spec": {"versions": served}})

    with pytest.raises(WaitFailed) as caught:
        wait_for(client, "ci-1", "widget/w", "create", mode=mode)
    assert caught.value.evidence["reason"] == reason


def test_an_object_that_goes_with_its_definition(client: ApiClient, session: FakeSession) -> None:
    session.put(WIDGETS, {"metadata": {"name": "w"}})

    def delete() -> None:
        session.fail("list", WIDGETS, ApiError("404 page not found", status=404))
        session.drop(WIDGETS, "w")

    session.at(1, delete)
    with pytest.raises(WaitFailed) as caught:
        wait_for(client, "ci-1", "widget/w", "condition=Ready")
    assert caught.value.evidence["reason"] == f"the widget was deleted: {DELETED}"


def test_a_deleted_object_of_a_definition_that_is_there(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(WIDGETS, {"metadata": {"name": "w"}})
    session.at(1, session.drop, WIDGETS, "w")
    with pytest.raises(WaitFailed) as caught:
        wait_for(client, "ci-1", "widget/w", "condition=Ready")
    assert caught.value.evidence["reason"] == "the widget was deleted"


def test_a_built_in_kind_has_no_definition(client: ApiClient, session: FakeSession) -> None:
    session.fail("list", LEASES, ApiError("404 page not found", status=404))
    with pytest.raises(ApiError, match="404 page not found"):
        wait_for(client, "ci-1", "lease/l", "create")


@pytest.mark.parametrize("test", ["create", "delete"])
def test_a_kind_that_is_not_served_any_more_is_final(
    client: ApiClient, session: FakeSession, test: str
) -> None:
    session.fail("list", WIDGETS, ApiError("404 page not found", status=404))
    if test == "create":
        # Whether it was deleted cannot be read.
        session.fail("get", CUSTOM_RESOURCE_DEFINITIONS, ApiError("no", status=403))

    with pytest.raises(ApiError, match="404 page not found"):
        wait_for(client, "ci-1", "widget/w", test)


FORMS = (
    "use 'create', 'delete', 'condition=Type', 'condition=Type=Value', 'jsonpath={.path}', "
    "'jsonpath={.path}=value', a callable or a combinator"
)


@pytest.mark.parametrize(
    ("target", "test", "options", "text"),
    [
        ("pod/a", "cond=Ready", {}, f"condition='cond=Ready' is not valid: {FORMS}"),
        ("pod/a", "condition=", {}, f"condition='condition=' is not valid: {FORMS}"),
        ("pod/a", "condition=A=", {}, f"condition='condition=A=' is not valid: {FORMS}"),
        ("pod/a", None, {}, f"condition=None is not valid: {FORMS}"),
        (
            "pods",
            "create",
            {},
            "target='pods' is not valid: name an object ('pod/web-0') or give a selector",
        ),
        (
            "pod/a",
            "create",
            {"count": 1},
            "target='pod/a' is not valid: with a selector or a count name only the kind: 'pod'",
        ),
        (
            "pods",
            "create",
            {"selector": "a=b", "count": -1},
            "count=-1 is not valid: use a whole number, 0 or more, at_least(n) or at_most(n)",
        ),
        (
            "pods",
            bool,
            {"selector": "a=b", "count": 1},
            "count=1 is not valid: leave it out: the callable is given the whole list",
        ),
        (
            "pod/A",
            "create",
            {},
            "target='A' is not valid: use a DNS name: up to 253 lower-case letters, digits, '-' "
            "and '.', with a letter or digit at both ends of each part",
        ),
    ],
)
def test_bad_arguments(
    client: ApiClient, session: FakeSession, target: Any, test: Any, options: Any, text: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        wait_for(client, "ci-1", target, test, **options)

    assert str(caught.value) == text
    assert session.requests == []
