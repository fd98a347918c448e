"""Waits on namespaces, on their default objects, and on events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import (
    BUILT_IN,
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
)
from pytest_kwait.engine.condition import Pending
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.cluster.namespaces import (
    describe_remaining,
    wait_for_namespaces_deleted,
)
from pytest_kwait.framework.events import wait_for_event
from pytest_kwait.framework.registry import WAITS, condition_of
from tests.objects import condition, event

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
GOING: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def namespace(name: str, *conditions: Any, own: tuple[str, ...] = (), **metadata: Any) -> Any:
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"finalizers": ["kubernetes", *own]},
        "status": {"conditions": list(conditions) or None},
    }


KEPT = [
    (namespace("a"), "still there, not being deleted"),
    (namespace("a", **GOING), "being deleted"),
    ({"metadata": {"name": "a", **GOING}}, "being deleted"),
    (
        namespace(
            "a",
            condition("NamespaceDeletionDiscoveryFailure", "False", message="All discovered"),
            condition(
                "NamespaceContentRemaining",
                message="Some resources are remaining: configmaps. has 1 resource instances, "
                "widgets.example.com has 12 resource instances",
            ),
            condition(
                "NamespaceFinalizersRemaining",
                message="Some content in the namespace has finalizers remaining: "
                "example.com/a in 1 resource instances, example.com/b in 12 resource instances",
            ),
            **GOING,
        ),
        "being deleted: 1 configmaps, 12 widgets.example.com left; "
        "held by example.com/a on 1 object, example.com/b on 12 objects",
    ),
    (
        namespace(
            "a",
            condition("NamespaceDeletionDiscoveryFailure", message="metrics.k8s.io/v1: stale"),
            condition("NamespaceDeletionGroupVersionParsingFailure"),
            condition("NamespaceDeletionContentFailure", message="no\nquorum"),
            condition("NamespaceContentRemaining", message="words of another release"),
            condition("NamespaceFinalizersRemaining"),
            **GOING,
        ),
        "being deleted: its kinds cannot be discovered: metrics.k8s.io/v1: stale; "
        "its kinds cannot be read: no message is given; what is in it cannot be deleted: no "
        "quorum; words of another release; held by finalizers",
    ),
    (
        namespace("a", own=("example.com/own",), finalizers=["example.com/meta"], **GOING),
        "being deleted: held by its own finalizers example.com/own, example.com/meta",
    ),
]


@pytest.mark.parametrize(("obj", "text"), KEPT)
def test_reasons_that_a_namespace_remains(obj: Any, text: str) -> None:
    assert describe_remaining(obj) == text


@MODES
def test_namespaces_that_go(client: ApiClient, session: FakeSession, mode: Any) -> None:
    for name in ("a", "b", "c"):
        session.put(NAMESPACES, namespace(name))
    session.at(3, session.drop, NAMESPACES, "a")
    session.at(5, session.drop, NAMESPACES, "b")

    kw.wait_for_namespaces_deleted(client, ["a", "b"], mode=mode)

    assert session.clock.monotonic() == (5.0 if mode == "watch" else 6.0)


def test_another_namespace_of_the_same_name(client: ApiClient, session: FakeSession) -> None:
    session.put(NAMESPACES, namespace("a", uid="new"))

    kw.wait_for_namespaces_deleted(client, [{"metadata": {"name": "a", "uid": "old"}}])
    assert session.clock.monotonic() == 0.0

    def replace() -> None:
        session.drop(NAMESPACES, "a")
        session.put(NAMESPACES, namespace("a", uid="newer"))

    session.at(2, session.silently, replace)
    kw.wait_for_namespaces_deleted(client, "a", mode="poll")
    assert session.clock.monotonic() == 2.0


def test_no_namespace_at_all(client: ApiClient, session: FakeSession) -> None:
    kw.wait_for_namespaces_deleted(client, [])

    assert session.requests == []


def test_namespaces_that_stay(client: ApiClient, session: FakeSession) -> None:
    for name in ("a", "b", "c", "d", "e"):
        session.put(NAMESPACES, namespace(name, **(GOING if name == "b" else {})))

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_namespaces_deleted(client, ["a", "b", "c", "d", "gone"], timeout=2)

    assert caught.value.args == (
        "namespaces a, b, c and 2 more did not get deleted within 2s: a is still there, not being "
        "deleted; b is being deleted; c is still there, not being deleted; 1 more are "
        "still there",
    )
    assert caught.value.evidence["seen"] == "1 of 5 gone"
    assert str(caught.value).endswith("try: kubectl describe namespaces/a")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (3, "namespaces=3 is not valid: use names or objects of kind Namespace, or a list"),
        ([{"metadata": 3}], "=<object without a name> is not valid: use names or objects of kind"),
        (["A"], "namespaces='A' is not valid: use a DNS name"),
        (["a.b"], "namespaces='a.b' is not valid: use a DNS label"),
        ([None], "namespaces=None is not valid: use names or objects of kind Namespace"),
    ],
)
def test_arguments_that_name_no_namespace(given: Any, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        condition_of(wait_for_namespaces_deleted)(given)

    assert text in str(caught.value)


def test_default_objects_of_a_namespace(client: ApiClient, session: FakeSession) -> None:
    session.at(1, session.put, SERVICE_ACCOUNTS, {"metadata": {"name": "default"}})
    session.at(2, session.put, CONFIG_MAPS, {"metadata": {"name": "kube-root-ca.crt"}})

    assert kw.wait_for_default_service_account(client, "ci-1")["kind"] == "ServiceAccount"
    assert kw.wait_for_kube_root_ca(client, "ci-1")["kind"] == "ConfigMap"
    session.drop(SERVICE_ACCOUNTS, "default")
    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_default_service_account(client, "ci-1", timeout=2)
    assert caught.value.args == (
        "serviceaccount ci-1/default did not get created within 2s: not found yet",
    )


def normal_event(name: str, reason: str, message: str | None = "", **fields: Any) -> dict[str, Any]:
    return event(reason, message, name=name, **{"type": "Normal", **fields})


@MODES
def test_an_event(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(EVENTS, normal_event("1", "Scheduled"))
    session.put(EVENTS, normal_event("2", "Killing", "Stopping", about="Pod/other"))
    session.put(EVENTS, normal_event("2a", "Killing", "Stopping", about="Job/web"))
    session.put(EVENTS, normal_event("2b", "Killing", "in vain"))
    session.at(4, session.put, EVENTS, normal_event("3", "Killing", "Stopping container main"))

    found = kw.wait_for_event(client, "ci-1", "Killing", "ping", about="pod/web", mode=mode)

    assert (found["kind"], found["metadata"]["name"]) == ("Event", "3")
    assert session.clock.monotonic() == 4.0


def test_the_latest_event_is_the_result(client: ApiClient, session: FakeSession) -> None:
    old, new = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01.000000Z"
    session.put(EVENTS, normal_event("b", "Pulled", lastTimestamp=old))
    session.put(EVENTS, normal_event("a", "Pulled", eventTime=new))
    session.put(
        EVENTS, normal_event("c", "Pulled", series={"lastObservedTime": old}, eventTime=None)
    )
    session.put(EVENTS, {"metadata": {"name": "d"}, "involvedObject": None, "reason": None})

    assert kw.wait_for_event(client, "ci-1", "Pulled")["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"reason": "Evicted", "about": "po/web"},
            "pod ci-1/web did not have an event with reason Evicted within 2s: 2 other events so "
            "far",
        ),
        (
            {"reason": "Pulled", "message": "again", "about": "pod"},
            "a pod in ci-1 did not have an event with reason Pulled and 'again' in its message "
            "within 2s: Pulled came with another message: from afar",
        ),
        (
            {"message": "again", "type": "Warning"},
            "namespace ci-1 did not have a Warning event with 'again' in its message within 2s: "
            "4 other events so far",
        ),
        (
            {"about": "widgets.example.com/w"},
            "widgets ci-1/w did not have an event within 2s: no event yet",
        ),
    ],
)
def test_events_that_came_instead(
    client: ApiClient, session: FakeSession, given: Any, text: str
) -> None:
    session.put(EVENTS, normal_event("1", "Scheduled"))
    session.put(EVENTS, normal_event("2", "Pulled", "from\nafar"))
    session.put(EVENTS, normal_event("3", "Sync", None, about="Job/pi"))
    session.put(EVENTS, normal_event("4", "Sync", "again", about="Job/pi"))

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_event(client, "ci-1", **given, timeout=2)

    assert caught.value.args == (text,)


def test_an_event_that_is_forgotten_is_not_counted() -> None:
    condition = condition_of(wait_for_event)("ci-1", "Evicted")
    condition.put(
        {**normal_event("1", "Scheduled"), "metadata": {"name": "1", "uid": "u"}}, b"{}", 0.0
    )

    assert condition.summarize() == "1 Scheduled (pod)"
    condition.drop("u")
    assert (condition.summarize(), condition.verdict()) == ("", Pending("no event yet"))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "arguments=[] is not valid: give a reason, a message or what it is about"),
        ({"reason": ""}, "reason='' is not valid: use a text"),
        ({"message": 3}, "message=3 is not valid: use a text"),
        (
            {"reason": "A", "type": "warning"},
            "type='warning' is not valid: use 'Normal' or 'Warning', or None for both",
        ),
        (
            {"about": "pod/"},
            "about='pod/' is not valid: use 'kind/name' or 'kind', for example 'deployment/web'",
        ),
    ],
)
def test_arguments_that_name_no_event(given: Any, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        condition_of(wait_for_event)("ci-1", **given)

    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("wait_for_pod_ready", ("late",)),
        ("wait_for_job_complete", ("late",)),
        ("wait_for_job_pods_running", ("late", 2)),
        ("wait_for_default_service_account", ()),
        ("wait_for_hpa_replicas", ("late", 2)),
        ("wait_for", ("cm/late", "create")),
        ("wait_for", ("pod/late", kw.all_of("condition=Ready", "jsonpath={.status.podIP}"))),
        ("wait_for", ("pod/late", kw.any_of("condition=Ready", "jsonpath={.status.podIP}"))),
        ("wait_for", ("pod/late", kw.stable_for("3s", "condition=Ready"))),
        ("wait_for", (["cm/there", "cm/late"], "create")),
        ("wait_for_number_of_pods", (3,)),
        ("wait_for_pods_with_label_running_ready", ("app=web", 3)),
        ("wait_for_pods_running_ready", (3,)),
    ],
)
def test_nothing_comes_into_a_namespace_that_goes(
    client: ApiClient,
    session: FakeSession,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    arguments: Any,
) -> None:
    def resolve(kind: str, api_version: str | None = None, **_: Any) -> Any:
        return match_resource(BUILT_IN.values(), kind, api_version)

    monkeypatch.setattr(session, "resolve", resolve)
    session.put(NAMESPACES, namespace("ci-1", **GOING))
    session.put(CONFIG_MAPS, {"metadata": {"name": "there"}})

    with pytest.raises(WaitFailed) as caught:
        WAITS[name].function(client, "ci-1", *arguments)

    told = "namespace ci-1 is being deleted: nothing can be created in it"
    assert caught.value.args[0].endswith(told)
    assert session.clock.monotonic() == 10.0


@pytest.mark.parametrize("selector", ["app=web", "app=web,tier=db"])
def test_no_object_of_a_set_comes_either(
    client: ApiClient, session: FakeSession, monkeypatch: pytest.MonkeyPatch, selector: str
) -> None:
    monkeypatch.setattr(session, "resolve", lambda *_, **__: PODS)
    session.put(NAMESPACES, namespace("ci-1", **GOING))

    with pytest.raises(WaitFailed, match="is being deleted: nothing can be created in it"):
        kw.wait_for(client, "ci-1", "pods", "condition=Ready", selector=selector)
    with pytest.raises(WaitFailed, match="is being deleted: nothing can be created in it"):
        kw.wait_for(client, "ci-1", "pods", "create", selector=selector, count=kw.at_least(2))


def test_zero_pods_may_be_awaited_in_a_terminating_namespace(
    client: ApiClient, session: FakeSession
) -> None:
    """Of a set that is to be empty nothing is missing; without a controller the count holds."""
    session.put(NAMESPACES, namespace("ci-1", **GOING))
    session.put(PODS, {"metadata": {"name": "web"}})
    session.at(40, session.drop, PODS, "web")

    assert kw.wait_for_number_of_pods(client, "ci-1", 0) == []
    assert session.clock.monotonic() == 42.0


@pytest.mark.parametrize(
    "arguments",
    [
        ("pod/web", "delete"),
        (["pod/late", "pod/web"], "delete"),
        ("pod/web", kw.any_of("delete", "condition=Ready")),
    ],
)
def test_objects_deleted_with_their_namespace_are_awaited(
    client: ApiClient, session: FakeSession, monkeypatch: pytest.MonkeyPatch, arguments: Any
) -> None:
    monkeypatch.setattr(session, "resolve", lambda *_, **__: PODS)
    session.put(NAMESPACES, namespace("ci-1", **GOING))
    session.put(PODS, {"metadata": {"name": "web"}})
    session.at(40, session.drop, PODS, "web")

    kw.wait_for(client, "ci-1", *arguments)

    assert session.clock.monotonic() == 40.0
