from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, CONFIG_MAPS, PODS, Resource
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.objects.combinators import (
    all_of,
    any_of,
    consistently,
    not_,
    stable_for,
)
from pytest_kwait.framework.objects.lists import at_least, at_most, exactly
from pytest_kwait.framework.objects.wait import wait_for
from tests.objects import condition, pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
WEB = {"app": "web"}
READY = [condition("Ready")]
UNREADY = [condition("Ready", "False")]
BAD_FORM = (
    "condition='x' is not valid: use 'create', 'delete', 'condition=Type', 'condition=Type=Value', "
    "'jsonpath={.path}', 'jsonpath={.path}=value', a callable or a combinator"
)


@pytest.fixture(autouse=True)
def _kinds(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(kind: str, **_: Any) -> Resource:
        found = match_resource(BUILT_IN.values(), kind, None)
        assert found is not None
        return found

    monkeypatch.setattr(session, "resolve", resolve)


def first_line(caught: pytest.ExceptionInfo[WaitFailed | WaitTimeout]) -> str:
    return str(caught.value).splitlines()[0]


@pytest.mark.parametrize(
    "text",
    [
        "jsonpath={.status.phase}=Running",
        "jsonpath=status.phase=Running",
        "jsonpath={.status.phase}='Running'",
        'jsonpath={.status.conditions[?(@.type=="Ready")].status}=True',
        'jsonpath={.status.conditions[?(@.type!="Other")].status}=True',
        "jsonpath={.status.count}=3",
        "jsonpath={.status.flag}=true",
        "jsonpath={.status}",
        "jsonpath={.status.flag}",
    ],
)
def test_jsonpath_that_holds(client: ApiClient, session: FakeSession, text: str) -> None:
    session.put(PODS, pod("a", "Running", conditions=READY, status={"count": 3, "flag": True}))

    assert wait_for(client, "ci-1", "pod/a", text, timeout=1)["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("jsonpath={.status.phase}=running", "{.status.phase} is 'Running', not 'running'"),
        ("jsonpath={.status.nothing}=1", "{.status.nothing} is not there yet"),
        ("jsonpath={.status.nil}", "{.status.nil} is not there yet"),
    ],
)
def test_jsonpath_that_may_come(
    client: ApiClient, session: FakeSession, text: str, reason: str
) -> None:
    session.put(PODS, pod("a", "Running", status={"nil": None}))

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "pod/a", text, timeout=1)

    assert caught.value.evidence["reason"] == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("jsonpath={.status.*}=1", "{.status.*} leads to 2 values: it must name one"),
        ("jsonpath={.status.*}", "{.status.*} leads to 2 values: it must name one"),
        (
            "jsonpath={.spec}=1",
            "{.spec} leads to an object, which no text equals: name a value in it",
        ),
        (
            "jsonpath={.status.l}=1",
            "{.status.l} leads to a list, which no text equals: name a value in it",
        ),
    ],
)
def test_jsonpath_that_can_never_hold(
    client: ApiClient, session: FakeSession, text: str, reason: str
) -> None:
    session.put(PODS, pod("a", "Running", status={"l": [1]}))

    with pytest.raises(WaitFailed) as caught:
        wait_for(client, "ci-1", "pod/a", text)

    assert caught.value.evidence["reason"] == reason


@MODES
def test_all_any_and_not(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PODS, pod("a", "Pending", conditions=UNREADY))
    session.at(2, session.put, PODS, pod("a", "Running", conditions=UNREADY))
    session.at(4, session.put, PODS, pod("a", "Running", conditions=READY))
    both = all_of("jsonpath={.status.phase}=Running", not_("condition=Ready"))

    wait_for(client, "ci-1", "pod/a", both, mode=mode)
    assert session.clock.monotonic() == 2.0
    wait_for(client, "ci-1", "pod/a", not_(both), mode=mode)
    assert session.clock.monotonic() == 4.0
    assert wait_for(client, "ci-1", "pod/b", any_of("condition=Ready", "delete"), mode=mode) is None


def test_a_status_of_an_older_generation_is_no_negation(
    client: ApiClient, session: FakeSession
) -> None:
    stale = pod(
        "a", "Running", conditions=UNREADY, observedGeneration=1, metadata={"generation": 2}
    )
    session.put(PODS, stale)

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "pod/a", not_("condition=Ready"), timeout=1)

    assert caught.value.evidence["reason"] == "Ready is of generation 1, not yet of 2"


@MODES
def test_stable_for_starts_anew_after_a_break(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    for second, state in ((0, READY), (4, UNREADY), (6, READY)):
        session.at(second, session.put, PODS, pod("a", "Running", conditions=state))

    wait_for(client, "ci-1", "pod/a", stable_for(10, "condition=Ready"), mode=mode)

    assert session.clock.monotonic() == 16.0


@MODES
def test_consistently_holds_to_the_end(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PODS, pod("a", "Running", conditions=READY))

    wait_for(client, "ci-1", "pod/a", consistently("10s", "condition=Ready"), mode=mode)

    assert session.clock.monotonic() == 10.0


@MODES
def test_consistently_ends_at_the_first_break(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    session.put(PODS, pod("a", "Running", conditions=READY))
    session.at(4, session.put, PODS, pod("a", "Running", conditions=UNREADY))
    steady = consistently("10s", "condition=Ready")

    with pytest.raises(WaitFailed) as caught:
        wait_for(client, "ci-1", "pod/a", steady, mode=mode)
    assert first_line(caught).startswith(
        "pod ci-1/a can no longer have condition Ready=True from now for 10s: "
    )
    assert caught.value.evidence["reason"] == "it held for 4s only: Ready is False"

    with pytest.raises(WaitFailed) as caught:
        wait_for(client, "ci-1", "pod/a", steady, mode=mode)
    assert caught.value.evidence["reason"] == "it does not hold to begin with: Ready is False"


@MODES
def test_several_objects_under_one_limit(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    session.at(2, session.put, PODS, pod("a", "Running"))
    session.at(4, session.put, CONFIG_MAPS, {"metadata": {"name": "c"}})

    found = wait_for(client, "ci-1", ["pod/a", "cm/c"], "create", mode=mode)

    assert [obj["kind"] for obj in found] == ["Pod", "ConfigMap"]
    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", ["pod/a", "cm/d"], "create", mode=mode, timeout=1)
    assert caught.value.evidence["reason"] == "configmap ci-1/d: not found yet"


@pytest.mark.parametrize(
    ("count", "holds"),
    [
        (2, True),
        (1, False),
        (exactly(2), True),
        (at_least(1), True),
        (at_least(3), False),
        (at_most(2), True),
        (at_most(1), False),
    ],
)
@pytest.mark.parametrize("test", ["condition=Ready", all_of(lambda obj: bool(obj["spec"]))])
def test_counts(
    client: ApiClient, session: FakeSession, count: Any, holds: bool, test: Any
) -> None:
    for name in "ab":
        session.put(PODS, pod(name, "Running", labels=WEB, conditions=READY))
    arguments: Any = (client, "ci-1", "pods", test)

    if holds:
        assert len(wait_for(*arguments, selector=WEB, count=count, timeout=1)) == 2
    else:
        with pytest.raises(WaitTimeout):
            wait_for(*arguments, selector=WEB, count=count, timeout=1)


def test_only_the_users_frames_follow_the_call(client: ApiClient, session: FakeSession) -> None:
    session.put(PODS, pod("a", "Running"))

    def deeper(obj: dict[str, Any]) -> bool:
        return bool(1 // (len(obj) - len(obj)))

    def outer(obj: dict[str, Any]) -> bool:
        return deeper(obj)

    with pytest.raises(ZeroDivisionError) as caught:
        wait_for(client, "ci-1", "pod/a", all_of(outer))

    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:] == ["call", "wait_for", "outer", "deeper"]


def test_an_unknown_name_lists_the_existing_ones(client: ApiClient, session: FakeSession) -> None:
    for name in ("wed", "api"):
        session.put(PODS, pod(name, "Running"))
    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", ["pod/web", "pod/api", "pod/db"], "create", timeout=1)

    assert "  there are pods in ci-1: wed, api\n" in str(caught.value)
    assert [found["missing"] for found in caught.value.evidence["existing"]] == ["web", "db"]


def test_a_forbidden_read_is_final(client: ApiClient, session: FakeSession) -> None:
    text = 'pods is forbidden: User "u" cannot list resource "pods"'
    session.fail("list", PODS, ApiError(text, status=403, reason="Forbidden"))

    with pytest.raises(ApiError, match='User "u" cannot list resource "pods"'):
        wait_for(client, "ci-1", "pod/a", "condition=Ready")
    assert session.clock.monotonic() == 0.0


@pytest.mark.parametrize(
    "status",
    [None, [], {"conditions": {}}, {"conditions": [None, 1, {"type": "Ready"}]}, {"unknown": 1}],
)
def test_odd_objects_crash_nothing(client: ApiClient, session: FakeSession, status: Any) -> None:
    session.put(CONFIG_MAPS, {"metadata": {"name": "c"}, "status": status})
    test = any_of(lambda _: False, "condition=Ready", "jsonpath={.status.x[0].y}=1")

    with pytest.raises(WaitTimeout):
        wait_for(client, "ci-1", "cm/c", test, timeout=1)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (all_of, "all_of=() is not valid: name at least one condition"),
        (lambda: at_least(0), "count=0 is not valid: use a whole number, 1 or more"),
        (lambda: at_most(-1), "count=-1 is not valid: use a whole number, 0 or more"),
        (lambda: all_of(stable_for(1, "create"), "x"), BAD_FORM),
        (lambda: stable_for(1, any_of()), "any_of=() is not valid: name at least one condition"),
    ],
)
def test_invalid_combinations(make: Any, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make()

    assert str(caught.value) == text


@pytest.mark.parametrize("duration", [0, -1, "x"])
def test_times_above_zero(duration: Any) -> None:
    with pytest.raises(InvalidArgument, match="consistently="):
        consistently(duration, "create")
    with pytest.raises(InvalidArgument, match="stable_for="):
        stable_for(duration, "create")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("jsonpath={.a}=", "name a value after the '=', or leave it out"),
        ("jsonpath={.a}=b=c", "one '=' may follow the path, before a value"),
    ],
)
def test_jsonpath_forms(client: ApiClient, session: FakeSession, text: str, why: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        wait_for(client, "ci-1", "pod/a", text)

    assert str(caught.value) == f"condition={text!r} is not valid: {why}"
    assert session.requests == []
