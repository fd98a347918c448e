"""Ephemeral containers: what is sent, what is awaited, refused names."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import PODS
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.operations.debug import debug
from tests.framework.writable_session import WritingSession
from tests.objects import pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ENDED = {"terminated": {"exitCode": 0}}
WEB: dict[str, Any] = pod(
    "web", "Running", initContainers=[{"name": "setup"}], ephemeralContainers=[{"name": "old"}]
)


@pytest.fixture
def session() -> WritingSession:
    session = WritingSession()
    session.put(PODS, copy.deepcopy(WEB))
    return session


def show(session: WritingSession, state: dict[str, Any], after: float = 0.0) -> None:
    """Let the kubelet report the state of an added container."""

    def report(verb: str, name: str, what: Any) -> None:
        changed = copy.deepcopy(WEB)
        added = what["spec"]["ephemeralContainers"][0]
        changed["spec"]["ephemeralContainers"].append(added)
        status = {"name": added["name"], "state": state}
        session.put(PODS, changed)
        seen = copy.deepcopy(changed)
        seen["status"]["ephemeralContainerStatuses"] = [status]
        session.at(after, session.put, PODS, seen)

    session.then = report


@pytest.mark.parametrize("state", [RUNNING, ENDED], ids=["running", "ended"])
def test_a_container_is_added_and_awaited(
    client: ApiClient, session: WritingSession, state: dict[str, Any]
) -> None:
    show(session, state, after=3.0)

    name = debug(
        client,
        "ci-1",
        "web",
        "busybox:1.36",
        ["sleep", "9"],
        target_container="main",
        container="look",
    )

    assert name == "look"
    added = {
        "name": "look",
        "image": "busybox:1.36",
        "command": ["sleep", "9"],
        "targetContainerName": "main",
    }
    spec = {
        "ephemeralContainers": [added],
        "$setElementOrder/ephemeralContainers": [{"name": "old"}, {"name": "look"}],
    }
    patch = {"metadata": {"uid": "uid-web"}, "spec": spec}
    assert session.written == [("patch", "pods", "web/ephemeralcontainers", patch)]
    assert session.clock.monotonic() == pytest.approx(3, abs=0.1)


def test_a_container_without_a_command(client: ApiClient, session: WritingSession) -> None:
    """Its input is open, so that a shell waits."""
    show(session, RUNNING)

    name = debug(client, "ci-1", "pod/web", "busybox:1.36")

    assert re.fullmatch("debugger-[0-9a-f]{5}", name)
    (added,) = session.written[0][3]["spec"]["ephemeralContainers"]
    assert added == {"name": name, "image": "busybox:1.36", "stdin": True}


def test_an_image_that_cannot_be_pulled(client: ApiClient, session: WritingSession) -> None:
    show(session, {"waiting": {"reason": "InvalidImageName", "message": "nope"}})

    with pytest.raises(WaitFailed) as caught:
        debug(client, "ci-1", "web", "A", container="look")

    assert caught.value.args == (
        "pod ci-1/web can no longer have container look running: InvalidImageName: nope",
    )


def test_a_kubelet_that_does_not_start_it(client: ApiClient, session: WritingSession) -> None:
    show(session, {"waiting": {"reason": "ContainerCreating"}})

    with pytest.raises(WaitTimeout) as caught:
        debug(client, "ci-1", "web", "busybox:1.36", container="look", timeout="5s")

    assert caught.value.args == (
        "pod ci-1/web did not have container look running within 5s: "
        "container look is not running, waiting: ContainerCreating",
    )


def test_a_pod_that_has_ended(client: ApiClient, session: WritingSession) -> None:
    session.put(PODS, pod("web", "Succeeded"))

    with pytest.raises(WaitFailed) as caught:
        debug(client, "ci-1", "web", "busybox:1.36", container="look")

    assert caught.value.args == (
        "pod ci-1/web can no longer have container look running: the pod has succeeded",
    )


DEFECTS: dict[str, tuple[dict[str, Any], str]] = {
    "no image": ({"image": ""}, "image='' is not valid: use a string that is not empty"),
    "command is a text": (
        {"command": "ls"},
        "command='ls' is not valid: use texts: the program and its arguments",
    ),
    "command of numbers": (
        {"command": [1]},
        "command=[1] is not valid: use texts: the program and its arguments",
    ),
    "no DNS label": (
        {"container": "A"},
        "container='A' is not valid: use a DNS label, for example 'debugger', or None for a "
        "generated name",
    ),
    "unknown target": (
        {"target_container": "mian"},
        "target_container='mian' is not valid: the pod has main, setup",
    ),
    "taken by another": (
        {"container": "setup"},
        "container='setup' is not valid: the pod has a container of that name, which cannot be "
        "changed; give another name",
    ),
    "taken by an earlier one": (
        {"container": "old"},
        "container='old' is not valid: the pod has a container of that name, which cannot be "
        "changed; give another name",
    ),
}


@pytest.mark.parametrize(("arguments", "text"), DEFECTS.values(), ids=DEFECTS.keys())
def test_bad_arguments(
    client: ApiClient, session: WritingSession, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        debug(client, "ci-1", "web", **{"image": "busybox:1.36", **arguments})

    assert str(caught.value) == text
    assert session.written == []
