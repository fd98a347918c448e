"""The blocking rolling update: order of deletions, pace, polling."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import DEPLOYMENTS, PODS, REPLICATION_CONTROLLERS
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, WaitObserver
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.operations.rolling_update import rolling_update
from pytest_kwait.wait import Canceled
from tests.framework.workload_samples import stuck
from tests.framework.writable_session import WritingSession
from tests.objects import owned_pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.active_waits import ActiveWait

WEB = {"metadata": {"name": "web", "uid": "uid-web"}, "spec": {"selector": {"app": "web"}}}


@pytest.fixture
def session() -> WritingSession:
    session = WritingSession()
    session.put(REPLICATION_CONTROLLERS, WEB)
    for name in ("b", "a"):
        session.put(PODS, owned_pod("web", name))
    return session


def test_one_by_one(client: ApiClient, session: WritingSession) -> None:
    """Each is deleted by its UID after a pause; what is back is looked at every 5 s."""
    moments = []

    def replace(verb: str, name: str, what: Any) -> None:
        moments.append(session.clock.monotonic())
        session.drop(PODS, name)
        session.at(33, session.put, PODS, owned_pod("web", f"new-{name}"))

    session.then = replace
    session.put(PODS, owned_pod("other", "stranger"))
    session.put(PODS, owned_pod("web", "over", "Succeeded"))
    session.put(PODS, owned_pod("web", "going", metadata={"deletionTimestamp": "now"}))
    pods = rolling_update(client, "ci-1", "rc/web", "10s")

    assert [pod["metadata"]["name"] for pod in pods] == ["new-a", "new-b"]
    assert session.written == [
        ("delete", "pods", name, {"uid": f"uid-{name}"}) for name in ("a", "b")
    ]
    assert moments == pytest.approx([0, 10], abs=0.1)
    # Deleted at 0 and 10, the second one is back at 43: looks at 20, 25, 30, 35, 40 and 45.
    assert session.clock.monotonic() == pytest.approx(45, abs=0.1)
    # At the start, and before the second pod.
    assert session.count("get replicationcontrollers web") == 2
    assert session.count("list pods app=web") == 1 + 6
    assert session.count("watch") == 0


def test_the_pause_between_two_pods_can_be_stopped(
    client: ApiClient, session: WritingSession
) -> None:
    with pytest.raises(Canceled, match=r"^the wait was stopped$"):
        rolling_update(client, "ci-1", "rc/web", "10s", stop=lambda: session.clock.monotonic() > 3)

    assert [name for _, _, name, _ in session.written] == ["a"]
    assert session.clock.monotonic() < 4


def test_pods_that_are_still_being_deleted_are_not_back(
    client: ApiClient, session: WritingSession
) -> None:
    def stop(verb: str, name: str, what: Any) -> None:
        session.put(PODS, owned_pod("web", name, metadata={"deletionTimestamp": "now"}))

    session.then = stop
    with pytest.raises(WaitTimeout) as caught:
        rolling_update(client, "ci-1", "rc/web", 1)

    assert caught.value.args == (
        "replicationcontroller ci-1/web did not have 2 pods again after its rolling update within "
        "5m0s: 0 of 2 pods: 2 being deleted",
    )
    # 300 s at one look each 5 s, the first one at once, and one when the time is up.
    assert 61 <= session.count("list pods app=web") - 1 <= 62


def test_watching_ends_with_the_change(client: ApiClient, session: WritingSession) -> None:
    def replace(verb: str, name: str, what: Any) -> None:
        session.drop(PODS, name)
        session.at(1.5, session.put, PODS, owned_pod("web", f"new-{name}"))

    session.then = replace
    rolling_update(client, "ci-1", "rc/web", 1, mode="watch")

    assert session.clock.monotonic() == pytest.approx(2.5, abs=0.1)


def test_deleted_pods_are_skipped(client: ApiClient, session: WritingSession) -> None:
    session.refuse(ApiError("no such pod", status=404, reason="NotFound"))

    def replace(verb: str, name: str, what: Any) -> None:
        session.drop(PODS, "a")
        session.drop(PODS, "b")
        session.put(PODS, owned_pod("web", "c"))
        session.put(PODS, owned_pod("web", "d"))

    session.then = replace
    pods = rolling_update(client, "ci-1", "rc/web", 0)

    assert [pod["metadata"]["name"] for pod in pods] == ["c", "d"]


def test_refused_requests_are_errors(client: ApiClient, session: WritingSession) -> None:
    session.refuse(ApiError("you may not", status=403, reason="Forbidden"))

    with pytest.raises(ApiError, match="you may not"):
        rolling_update(client, "ci-1", "rc/web", 0)

    assert len(session.written) == 1


def test_a_server_that_fails_for_all_of_the_time(
    client: ApiClient, session: WritingSession
) -> None:
    """The limit holds for what it does as well as for what it awaits."""
    errors = [ApiError("no", status=500) for _ in range(99)]
    session.refuse(*errors)
    with pytest.raises(WaitTimeout) as caught:
        rolling_update(client, "ci-1", "rc/web", 0, within=20)
    assert str(caught.value) == "pod a could not be deleted in time: 500: no"
    assert session.clock.monotonic() == pytest.approx(20, abs=0.1)

    session.fail("get", REPLICATION_CONTROLLERS, *errors)
    with pytest.raises(WaitTimeout) as caught:
        rolling_update(client, "ci-1", "rc/web", 0, within=20)
    assert str(caught.value) == "rc/web could not be read in time: 500: no"
    assert session.clock.monotonic() == pytest.approx(40, abs=0.1)


def test_a_controller_that_is_deleted_makes_no_more(
    client: ApiClient, session: WritingSession
) -> None:
    session.at(7, session.drop, REPLICATION_CONTROLLERS, "web")

    with pytest.raises(WaitFailed) as caught:
        rolling_update(client, "ci-1", "rc/web", 1)

    assert caught.value.args == (
        "replicationcontroller ci-1/web can no longer have 2 pods again after its rolling update: "
        "the replicationcontroller was deleted",
    )
    last = caught.value.evidence["timeline"][-1]
    assert caught.value.waited == last["at"] == 7


@pytest.mark.parametrize("strict", [False, True])
def test_pods_of_a_deleted_controller_are_left_alone(
    client: ApiClient, session: WritingSession, strict: bool
) -> None:
    session.at(20, session.drop, REPLICATION_CONTROLLERS, "web")
    if strict:
        session.then = lambda _, name, __: session.put(PODS, ready(f"new-{name}"))

    with pytest.raises(WaitFailed) as caught:
        rolling_update(client, "ci-1", "rc/web", 60, strict=strict)

    assert caught.value.args == (
        "replicationcontroller ci-1/web can no longer have its 2 pods replaced one by one: the "
        "replicationcontroller was deleted",
    )
    assert [name for _, _, name, _ in session.written] == ["a"]
    assert session.clock.monotonic() == pytest.approx(60, abs=0.1)


def test_no_pods_are_back_at_once(client: ApiClient, session: WritingSession) -> None:
    for name in ("a", "b"):
        session.drop(PODS, name)

    assert rolling_update(client, "ci-1", "rc/web") == []
    assert session.written == []
    assert session.clock.monotonic() == pytest.approx(0, abs=0.1)


def test_pods_of_a_deployment_are_those_of_its_replica_sets(
    client: ApiClient, session: WritingSession
) -> None:
    labels = {"matchLabels": {"app": "web"}}
    session.put(DEPLOYMENTS, {**WEB, "spec": {"selector": labels}})
    session.put(PODS, owned_pod("rs", "c"))

    def replace(verb: str, name: str, what: Any) -> None:
        session.drop(PODS, name)
        session.put(PODS, owned_pod("rs", f"new-{name}"))

    session.then = replace
    assert len(rolling_update(client, "ci-1", "deployment/web", 0)) == 3


def ready(name: str) -> dict[str, Any]:
    return owned_pod("web", name, ready=True)


def successors(session: WritingSession, after: float) -> list[tuple[float, str]]:
    """Let each pod that is deleted be followed by one that is ready a while later."""
    deletions: list[tuple[float, str]] = []

    def follow(verb: str, name: str, what: Any) -> None:
        deletions.append((session.clock.monotonic(), name))
        session.drop(PODS, name)
        session.put(PODS, owned_pod("web", f"new-{name}", "Pending"))
        session.at(after, session.put, PODS, ready(f"new-{name}"))

    session.then = follow
    return deletions


def test_each_replacement_is_ready_before_the_next_deletion(
    client: ApiClient, session: WritingSession
) -> None:
    deletions = successors(session, 7)
    pods = rolling_update(client, "ci-1", "rc/web", 10, strict=True)

    assert [pod["metadata"]["name"] for pod in pods] == ["new-a", "new-b"]
    # Watched by itself: 7 s until it is ready, then the pause.
    assert [name for _, name in deletions] == ["a", "b"]
    assert [at for at, _ in deletions] == pytest.approx([0, 17], abs=0.1)
    assert session.clock.monotonic() == pytest.approx(34, abs=0.1)
    assert session.count("list pods app=web") == 1 + 2


def test_a_namesake_with_the_old_uid_is_no_replacement(
    client: ApiClient, session: WritingSession
) -> None:
    """A stateful set makes pods of the same names: the UID tells them apart."""
    session.put(PODS, ready("a"))
    session.put(PODS, ready("b"))

    def follow(verb: str, name: str, what: Any) -> None:
        if name == "a":  # what is deleted lingers for a while, and is ready all the time
            session.at(20, session.drop, PODS, "a")
            another = ready("a")
            another["metadata"]["uid"] = "uid-another"
            session.at(30, session.put, PODS, another)
        else:
            session.drop(PODS, name)
            session.put(PODS, ready("c"))

    session.then = follow
    pods = rolling_update(client, "ci-1", "rc/web", 0, strict=True)

    assert [pod["metadata"]["uid"] for pod in pods] == ["uid-another", "uid-c"]
    assert session.clock.monotonic() == pytest.approx(30, abs=0.1)


def test_a_replacement_that_is_not_ready_keeps_the_others(
    client: ApiClient, session: WritingSession
) -> None:
    successors(session, 500)
    with pytest.raises(WaitTimeout) as caught:
        rolling_update(client, "ci-1", "rc/web", 1, strict=True)

    assert caught.value.args == (
        "replicationcontroller ci-1/web did not have a ready pod in the place of a within 5m0s: "
        "0 of 1 replacement ready: 1 old, 1 Pending",
    )
    assert [name for _, _, name, _ in session.written] == ["a"]


def test_a_replacement_that_is_stuck_ends_it(client: ApiClient, session: WritingSession) -> None:
    def follow(verb: str, name: str, what: Any) -> None:
        session.drop(PODS, name)
        session.put(PODS, stuck("web", "c"))

    session.then = follow
    with pytest.raises(WaitFailed) as caught:
        rolling_update(client, "ci-1", "rc/web", 1, strict=True)

    assert caught.value.args == (
        "replicationcontroller ci-1/web can no longer have a ready pod in the place of a: "
        "pod c: InvalidImageName: nope",
    )
    assert session.clock.monotonic() == pytest.approx(5, abs=0.1)


def test_progress_of_a_rolling_update(
    client: ApiClient, session: WritingSession, caplog: pytest.LogCaptureFixture
) -> None:
    progress: list[str] = []
    outcomes: list[str] = []

    class Onlooker(WaitObserver):
        def on_start(self, wait: ActiveWait) -> None:
            progress.append(f"{wait.left}: {wait.text}")

        def on_end(self, wait: ActiveWait) -> None:
            progress.append(f"{wait.left}: {wait.text}")
            outcomes.append(wait.outcome)

    caplog.set_level(logging.INFO, "pytest_kwait.wait")
    successors(session, 0.5)
    onlooker = Onlooker()
    ACTIVE_WAITS.add(onlooker)
    try:
        rolling_update(client, "ci-1", "rc/web", 10)
    finally:
        ACTIVE_WAITS.remove(onlooker)

    rolling = "replicationcontroller ci-1/web to have its 2 pods replaced one by one"
    back = "replicationcontroller ci-1/web to have 2 pods again after its rolling update"
    assert caplog.messages == [
        f"{rolling}: after 0s: deleting pod a, 1 of 2",
        f"{rolling}: after 10s: deleting pod b, 2 of 2",
        f"{rolling}: after 20s: deleted 2 of 2 pods",
        f"{back}: after 0s: met",
    ]
    assert progress == [
        f"5m20s: {rolling}: nothing seen yet",
        f"5m20s: {rolling}: deleting pod a, 1 of 2",
        f"5m20s: {rolling}: deleting pod a, 1 of 2",
        f"5m10s: {rolling}: deleting pod a, 1 of 2",
        f"5m10s: {rolling}: deleting pod a, 1 of 2",
        f"5m10s: {rolling}: deleting pod b, 2 of 2",
        f"5m10s: {rolling}: deleting pod b, 2 of 2",
        f"5m0s: {rolling}: deleting pod b, 2 of 2",
        f"5m0s: {back}: nothing seen yet",
        f"5m0s: {back}: met",
    ]
    assert outcomes == ["met"] * 5


def test_nothing_is_deleted_where_the_pauses_alone_take_too_long(
    client: ApiClient, session: WritingSession
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        rolling_update(client, "ci-1", "rc/web", "1m", within="100s")

    assert str(caught.value) == (
        "update_period='1m' is not valid: 2 pods take 2m0s with it, and all of it must end within "
        "1m40s"
    )
    assert session.written == []


def test_the_remaining_time_limits_the_last_step(
    client: ApiClient, session: WritingSession
) -> None:
    session.then = lambda verb, name, what: session.drop(PODS, name)
    with pytest.raises(WaitTimeout) as caught:
        rolling_update(client, "ci-1", "rc/web", 10, within=50)

    assert caught.value.args == (
        "replicationcontroller ci-1/web did not have 2 pods again after its rolling update within "
        "30s: 0 of 2 pods: none",
    )
    assert session.clock.monotonic() == pytest.approx(50, abs=0.1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"strict": 1}, "strict=1 is not valid: use True or False"),
        (
            {"within": 0},
            "within=0 is not valid: use seconds (90), a timedelta, or a Go duration "
            "('500ms', '90s', '1m30s'), above zero",
        ),
    ],
)
def test_bad_options(
    client: ApiClient, session: WritingSession, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        rolling_update(client, "ci-1", "rc/web", **options)

    assert str(caught.value) == text
    assert session.requests == []


@pytest.mark.parametrize(
    ("target", "period", "text"),
    [
        (
            "svc/web",
            0,
            "target='svc/web' is not valid: use one of rc, rs, deployment, statefulset, daemonset "
            "and job with a name: 'rc/web'",
        ),
        (
            "rc/web",
            -1,
            "update_period=-1 is not valid: use seconds (90), a timedelta, or a Go duration "
            "('500ms', '90s', '1m30s'), not below zero",
        ),
    ],
)
def test_bad_arguments(
    client: ApiClient, session: WritingSession, target: str, period: float, text: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        rolling_update(client, "ci-1", target, period)

    assert str(caught.value) == text
    assert session.requests == []


def test_a_selector_of_everything_is_refused(client: ApiClient, session: WritingSession) -> None:
    session.put(REPLICATION_CONTROLLERS, {**WEB, "spec": {"selector": {}}})

    with pytest.raises(InvalidArgument) as caught:
        rolling_update(client, "ci-1", "rc/web")

    assert str(caught.value) == (
        "target='rc/web' is not valid: its selector selects nothing in particular"
    )
