"""Assertion trees as conditions of waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, DEPLOYMENTS, PODS, SECRETS, Resource
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.objects.combinators import all_of, not_, stable_for
from pytest_kwait.framework.objects.wait import wait_for
from pytest_kwait.framework.predicates import ObjectMatch
from tests.objects import condition, job_pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession


@pytest.fixture(autouse=True)
def _kinds(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(kind: str, **_: Any) -> Resource:
        found = match_resource(BUILT_IN.values(), kind, None)
        assert found is not None
        return found

    monkeypatch.setattr(session, "resolve", resolve)


def match(**tree: Any) -> ObjectMatch:
    return ObjectMatch(tree, "expected.yaml")


def deployment(replicas: int, ready: int, observed: int = 1, name: str = "web") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ci-1", "generation": 1, "labels": {"app": "web"}},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": observed, "readyReplicas": ready},
    }


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_one_object(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(DEPLOYMENTS, deployment(3, 1))
    session.at(4, session.put, DEPLOYMENTS, deployment(3, 3))
    test = match(kind="Deployment", spec={"replicas": 3}, status={"readyReplicas": 3})

    found: Any = wait_for(client, "ci-1", "deployment/web", test, mode=mode)

    assert found["status"]["readyReplicas"] == 3
    assert session.clock.monotonic() == 4.0


def test_differences_are_side_by_side(client: ApiClient, session: FakeSession) -> None:
    session.put(DEPLOYMENTS, deployment(2, 1))
    test = match(spec={"replicas": 3, "paused": True}, status={"readyReplicas": "(@ > `2`)"})

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "deployment/web", test, timeout=1)

    reason = "spec.replicas is 2, awaited 3 (and 2 more differences)"
    assert caught.value.evidence["reason"] == reason
    lines = str(caught.value).splitlines()
    first = lines.index("  difference              awaited    seen")
    assert lines[first + 1 : first + 4] == [
        "    spec.replicas         3          2",
        "    spec.paused           true       (not there)",
        "    status.readyReplicas  (@ > `2`)  1",
    ]
    assert caught.value.evidence["differences"][2] == {
        "path": "status.readyReplicas",
        "awaited": "(@ > `2`)",
        "seen": "1",
    }


def test_status_of_an_older_generation_does_not_match(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(DEPLOYMENTS, deployment(3, 3, observed=0))
    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "deployment/web", match(status={"readyReplicas": 3}), timeout=1)
    assert caught.value.evidence["reason"] == "the status is of generation 0, not yet of 1"
    wait_for(client, "ci-1", "deployment/web", match(spec={"replicas": 3}), timeout=1)


def test_negation(client: ApiClient, session: FakeSession) -> None:
    session.put(DEPLOYMENTS, deployment(3, 3))
    session.at(2, session.put, DEPLOYMENTS, deployment(1, 3))
    test = not_(match(spec={"replicas": 3}))

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "deployment/web", test, timeout=1)
    assert str(caught.value).startswith(
        "deployment ci-1/web did not not match expected.yaml within 1s: it does match expected.yaml"
    )
    wait_for(client, "ci-1", "deployment/web", test)
    assert session.clock.monotonic() == 2.0


def test_several_objects(client: ApiClient, session: FakeSession) -> None:
    session.put(DEPLOYMENTS, deployment(1, 1, name="a"))
    session.put(DEPLOYMENTS, deployment(2, 2, name="b"))
    test = match(kind="Deployment", spec={"replicas": 1})

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", "deployments", test, selector="app=web", timeout=1)
    assert "    b: spec.replicas  1        2" in str(caught.value).splitlines()
    found: Any = wait_for(client, "ci-1", "deployments", test, selector="app=web", count=1)
    assert [each["metadata"]["name"] for each in found] == ["a"]

    with pytest.raises(WaitTimeout) as caught:
        wait_for(client, "ci-1", ["deployment/a", "deployment/b"], test, timeout=1)
    assert "    deployment ci-1/b: spec.replicas  1        2" in str(caught.value).splitlines()


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Running"},
        {"conditions": [{"type": "Ready", "status": "True"}]},
        {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    ],
)
def test_pod_that_can_no_longer_match_ends_the_wait(
    client: ApiClient, session: FakeSession, status: Any
) -> None:
    session.put(PODS, job_pod("a", phase="Failed", conditions=[condition("Ready", "False")]))
    test = stable_for("1s", all_of(match(status=status), "create"))
    with pytest.raises(WaitFailed) as caught:
        wait_for(client, "ci-1", "pod/a", test)
    assert caught.value.evidence["reason"] == "the pod has ended: Failed"


def test_values_of_secrets_are_hidden(client: ApiClient, session: FakeSession) -> None:
    session.put(
        SECRETS,
        {"metadata": {"name": "s", "namespace": "ci-1"}, "data": {"key": "aHVudGVyMmh1bnRlcjI="}},
    )
    test = ObjectMatch({"data": {"key": "YXdhaXRlZA=="}}, '{"data": {"key": "YXdhaXRlZA=="}}')
    for each in (test, not_(not_(test)), all_of(test, "create")):
        with pytest.raises(WaitTimeout) as caught:
            wait_for(client, "ci-1", "secret/s", each, timeout=1)
        text = str(caught.value)
        assert "secret ci-1/s did not match the given fields" in text
        assert caught.value.evidence["reason"] == "data.key is another value"
        assert "YXdhaXRlZA" not in text
        assert "aHVudGVyMmh1bnRlcjI=" not in text


def test_comparison() -> None:
    web = deployment(3, 1)
    assert web == match(spec={"replicas": 3})
    assert match(spec={"replicas": 3}) == web
    assert web != match(spec={"replicas": 2})
    assert match(spec={}) != match(spec={})
    assert match(spec={}) != 1
    assert repr(match(spec={})) == "matches(expected.yaml)"


def test_invalid_expression() -> None:
    with pytest.raises(InvalidArgument) as caught:
        match(spec={"replicas": "(x())"})
    assert str(caught.value) == (
        "matches='expected.yaml' is not valid: spec.replicas: 'x()' is no JMESPath expression: "
        "Unknown function: x()"
    )
