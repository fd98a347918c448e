"""Waiting for a line of a log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import pytest_kwait as kw
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.client.resource import DEPLOYMENTS, JOBS, PODS, SERVICES
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.wait.context import DeadlineExceeded
from tests.objects import condition, deployment, job, owned_pod, pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
DAY = "2026-01-01T00:00:"


class Asked(NamedTuple):
    """A request for a log."""

    log: str
    since_time: float | None
    since_seconds: int | None
    lines: int


class LogServer:
    """Serves the logs of containers as a kubelet does: `pod/container` or with ` previous`."""

    def __init__(self, session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.logs: dict[str, str | Exception] = {}
        self.asked: list[Asked] = []
        monkeypatch.setattr(session, "logs", self.read)

    def write(self, log: str, *lines: str) -> None:
        """Append lines: `SECONDS text`."""
        stamped = (f"{DAY}{line}\n".replace(" ", "Z ", 1) for line in lines)
        self.logs[log] = str(self.logs.get(log, "")) + "".join(stamped)

    def read(self, namespace: str, name: str, **options: Any) -> str:
        log = f"{name}/{options['container']}{' previous' if options['previous'] else ''}"
        text = self.logs.get(log, ApiError("it is waiting to start", status=400))
        if isinstance(text, Exception):
            raise text
        since = options.get("since_time")
        lines = [
            line
            for line in text.splitlines(keepends=True)
            if since is None or not line.startswith("2026") or parse_time(line.split()[0]) >= since
        ]
        if not options.get("timestamps"):
            return "".join(line.partition(" ")[2] for line in lines)
        self.asked.append(Asked(log, since, options["since_seconds"], len(lines)))
        return "".join(lines)


@pytest.fixture
def server(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> LogServer:
    return LogServer(session, monkeypatch)


def status(
    state: str = "running", *, name: str = "main", restarts: int = 0, **facts: Any
) -> dict[str, Any]:
    """Return the status of a container; one that waits has run before if it was restarted."""
    last = {"terminated": {"exitCode": 1}} if restarts else {}
    made = {"name": name, "restartCount": restarts, "state": {state: facts}, "lastState": last}
    return made | {"ready": state == "running"}


def running(name: str = "web", **fields: Any) -> dict[str, Any]:
    return pod(name, "Running", **{"containerStatuses": [status()], **fields})


def ended(name: str = "web", phase: str = "Succeeded", **fields: Any) -> dict[str, Any]:
    statuses = [status("terminated", exitCode=int(phase != "Succeeded"))]
    return pod(name, phase, containerStatuses=statuses, **fields)


@MODES
def test_a_log_is_read_on(
    client: ApiClient, session: FakeSession, server: LogServer, mode: Any
) -> None:
    session.put(PODS, running())
    server.write("web/main", "01.5 one", "03.25 two", "04.5 again", "04.5 again")
    session.at(2, server.write, "web/main", "04.5 again", "04.75 three", "06.5 four")
    session.at(3, server.write, "web/main", "06.5 ready to serve\r")

    found = kw.wait_for_log(client, "ci-1", "web", "ready", mode=mode, poll=1)

    assert found == kw.LogMatch("web", "main", "ready to serve")
    assert session.clock.monotonic() == 3.0
    start = parse_time(f"{DAY}00Z")
    assert server.asked == [
        Asked("web/main", None, None, 4),
        Asked("web/main", start + 3, None, 3),
        Asked("web/main", start + 3, None, 6),
        Asked("web/main", start + 5, None, 2),
    ]


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("a.c", "has a.c in it"),
        (re.compile("a.c"), "has abc in it"),
        (re.compile("^port ([0-9]+)$"), "port 8080"),
    ],
)
def test_patterns(
    client: ApiClient, session: FakeSession, server: LogServer, pattern: Any, line: str
) -> None:
    session.put(PODS, running())
    server.write(
        "web/main", "01 has abc in it", "02 a port 8080", "03 port 8080", "04 has a.c in it"
    )

    assert kw.wait_for_log(client, "ci-1", "pod/web", pattern).line == line
    assert session.clock.monotonic() == 0.0


@pytest.mark.parametrize(
    ("target", "selector"),
    [
        ("deployment/web", None),
        ("svc/web", None),
        ({"kind": "Deployment", "metadata": {"name": "web", "uid": "uid-web"}}, None),
        (None, {"app": "web"}),
        (None, "app=web"),
    ],
)
def test_the_logs_of_all_pods_are_merged(
    client: ApiClient, session: FakeSession, server: LogServer, target: Any, selector: Any
) -> None:
    session.put(DEPLOYMENTS, deployment(2, 2, 2))
    service = {"metadata": {"name": "web", "uid": "uid-web"}, "spec": {"selector": {"app": "web"}}}
    session.put(SERVICES, service)
    for name in ("a", "b"):
        session.put(PODS, owned_pod("web-1", name, containerStatuses=[status()]))
    session.put(PODS, running("other"))
    server.write("other/main", "01 ready")
    server.write("a/main", "03 ready a")
    server.write("b/main", "02 ready b")

    found = kw.wait_for_log(client, "ci-1", target=target, selector=selector, pattern="ready")  # type: ignore[call-overload]  # one of both is None

    assert found == ("b", "main", "ready b")


def test_pods_and_containers_that_start_later(
    client: ApiClient, session: FakeSession, server: LogServer
) -> None:
    first, second = status(name="setup"), status(name="main")
    session.at(2, session.put, DEPLOYMENTS, deployment(1, 1, 1))
    session.at(3, session.put, PODS, owned_pod("web-1", "a", "Pending"))
    session.at(
        5, session.put, PODS, owned_pod("web-1", "a", "Pending", initContainerStatuses=[first])
    )
    session.at(7.5, session.put, PODS, owned_pod("web-1", "a", containerStatuses=[first, second]))
    server.write("a/setup", "01 ready for set-up")
    server.write("a/main", "02 ready")

    found = kw.wait_for_log(client, "ci-1", "deployment/web", "ready", container="main", poll=60)

    assert found == ("a", "main", "ready")
    assert session.clock.monotonic() == 7.5, "a container that has started is read at once"
    assert [asked.log for asked in server.asked] == ["a/main"]


def test_restarted_containers(client: ApiClient, session: FakeSession, server: LogServer) -> None:
    session.put(PODS, running())
    server.write("web/main", "01 one")
    session.at(2.5, server.logs.update, {"web/main": "", "web/main previous": ""})
    session.at(2.5, server.write, "web/main previous", "01 one", "02 last words")
    session.at(2.5, server.write, "web/main", "02.5 anew")
    session.at(2.5, session.put, PODS, running(containerStatuses=[status(restarts=1)]))
    session.at(4.5, server.write, "web/main", "05 never")

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_log(client, "ci-1", "web", "ready", timeout=5, poll=1)

    assert [(asked.log, asked.lines) for asked in server.asked[3:6]] == [
        ("web/main previous", 2),
        ("web/main", 1),
        ("web/main", 1),
    ]
    assert caught.value.args == (
        "pod web in ci-1 did not log 'ready' within 5s: no line matches yet",
    )
    server.logs["web/main previous"] = f"{DAY}03Z ready\n"
    session.put(PODS, running())
    session.at(1.5, session.put, PODS, running(containerStatuses=[status(restarts=1)]))

    assert kw.wait_for_log(client, "ci-1", "web", "ready").line == "ready"


def test_lines_that_are_too_old(client: ApiClient, session: FakeSession, server: LogServer) -> None:
    # The server has left out a line of the same second that is too old.
    server.write("web/main", "01.5 new")
    session.at(2.5, session.put, PODS, running())
    session.at(2.75, server.logs.update, {"web/main": f"{DAY}01.25Z ready, before\n"})
    session.at(2.75, server.write, "web/main", "01.5 new", "02 ready")

    found = kw.wait_for_log(client, "ci-1", "web", "ready", since="1.5s", poll=1)

    assert found.line == "ready"
    assert [asked.since_seconds for asked in server.asked] == [4, None]


@MODES
def test_pods_that_have_ended(
    client: ApiClient, session: FakeSession, server: LogServer, mode: Any
) -> None:
    session.put(PODS, running())
    server.write("web/main", "01 one")
    session.at(1.5, server.write, "web/main", "02 two")
    session.at(1.5, session.put, PODS, ended())

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_log(client, "ci-1", "web", "ready", mode=mode, grace=0)

    assert caught.value.args == (
        "pod web in ci-1 can no longer log 'ready': pod web: the pod has succeeded; "
        "none of 2 lines matches",
    )
    server.write("web/main", "03 ready")
    assert kw.wait_for_log(client, "ci-1", "web", "ready", mode=mode) == ("web", "main", "ready")


def test_pods_that_write_nothing(
    client: ApiClient, session: FakeSession, server: LogServer
) -> None:
    server.logs["web/main"] = "unable to retrieve container logs for containerd://1"
    session.put(PODS, ended(phase="Failed"))
    with pytest.raises(
        WaitFailed, match="has failed: container main ended with exit code 1; nothing"
    ):
        kw.wait_for_log(client, "ci-1", "web", "ready")

    session.put(PODS, pod("web", "Pending", waiting=("InvalidImageName", "it is not valid")))
    with pytest.raises(WaitFailed, match="InvalidImageName: it is not valid; nothing was logged"):
        kw.wait_for_log(client, "ci-1", "web", "ready")

    session.put(PODS, running())
    with pytest.raises(WaitFailed, match="the pod has no container mian, it has main; nothing"):
        kw.wait_for_log(client, "ci-1", "web", "ready", container="mian")

    session.at(1, session.drop, PODS, "web")
    with pytest.raises(WaitFailed, match="pod web is gone"):
        kw.wait_for_log(client, "ci-1", "web", "ready")


def test_containers_that_have_ended(
    client: ApiClient, session: FakeSession, server: LogServer
) -> None:
    statuses = [status("terminated", exitCode=0), status(name="proxy")]
    session.put(PODS, running(restartPolicy="Never", containerStatuses=statuses))
    server.write("web/main", "01 one")
    server.write("web/proxy", "01 one")

    with pytest.raises(WaitFailed, match="container main ended with exit code 0, to stay so; its"):
        kw.wait_for_log(client, "ci-1", "web", "ready", container="main")
    with pytest.raises(WaitTimeout):
        kw.wait_for_log(client, "ci-1", "web", "ready", timeout=10)


def test_jobs_that_have_ended(client: ApiClient, session: FakeSession, server: LogServer) -> None:
    owned = {"labels": {"job": "j"}, "ownerReferences": [{"uid": "uid-j", "controller": True}]}
    selector = {"matchLabels": {"job": "j"}}
    session.put(JOBS, job(selector=selector))
    session.put(PODS, ended("j-1", "Failed", **owned))
    server.write("j-1/main", "01 one")
    session.at(5, session.put, PODS, ended("j-2", "Failed", **owned))
    session.at(5, server.write, "j-2/main", "02 two")
    session.at(9, session.put, JOBS, job(selector=selector, conditions=[condition("Failed")]))

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_log(client, "ci-1", "job/j", "ready", grace=0)

    assert caught.value.args == (
        "job ci-1/j can no longer log 'ready': the job has failed; none of 2 lines matches",
    )
    text = str(caught.value)
    assert [text.count(f"log of j-{number}/main\n    | ") for number in (1, 2)] == [1, 1]


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (None, "not found yet"),
        (deployment(), "it has no pods yet"),
        (deployment(conditions=[condition("ReplicaFailure", message="no quota")]), "no quota"),
        (job(suspend=True), "the job is suspended"),
        (job(conditions=[condition("Complete")]), "the job has completed"),
        ({"kind": "Service", "metadata": {"name": "j"}, "spec": {}}, "the service selects no pods"),
    ],
)
def test_owners_without_pods(
    client: ApiClient, session: FakeSession, server: LogServer, owner: Any, reason: str
) -> None:
    kinds = {"Deployment": DEPLOYMENTS, "Job": JOBS, "Service": SERVICES}
    kind = "Deployment" if owner is None else owner["kind"]
    if owner is not None:
        if kind == "Job":
            owner["spec"]["selector"] = {"matchLabels": {"job": "j"}}
        session.put(kinds[kind], owner)
    name = "web" if kind == "Deployment" else "j"

    with pytest.raises((WaitFailed, WaitTimeout), match=reason):
        kw.wait_for_log(client, "ci-1", f"{kind.lower()}/{name}", "ready", timeout="2m")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ApiError("it is waiting to start", status=400), "it is waiting to start"),
        (ApiError("no route to the kubelet", status=500), "no route to the kubelet"),
        (DeadlineExceeded("late"), "the log of web/main did not come within 10s"),
        ("failed to open its file", "failed to open its file"),
    ],
)
def test_logs_that_cannot_be_read(
    client: ApiClient, session: FakeSession, server: LogServer, answer: Any, reason: str
) -> None:
    session.put(PODS, running())
    server.logs["web/main"] = answer

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_log(client, "ci-1", "web", re.compile("a+"), timeout=3)

    assert caught.value.args == (
        "pod web in ci-1 did not log a line that matches 'a+' within 3s: no line matches yet: "
        f"{reason}",
    )


def test_a_log_that_does_not_come_within_the_limit(
    client: ApiClient, session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold(*names: str, **options: Any) -> str:
        session.clock.sleep(5)
        raise DeadlineExceeded("late")

    session.put(PODS, running())
    monkeypatch.setattr(session, "logs", hold)

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_log(client, "ci-1", "web", "ready", timeout=3)

    assert caught.value.args == (
        "pod web in ci-1 did not log 'ready' within 3s: no log was read yet",
    )


def test_logs_that_are_forbidden(
    client: ApiClient, session: FakeSession, server: LogServer
) -> None:
    session.put(PODS, running())
    server.logs["web/main"] = ApiError("no", status=403, reason="Forbidden")

    with pytest.raises(ApiError, match="no"):
        kw.wait_for_log(client, "ci-1", "web", "ready")


def test_the_message_has_the_last_lines(
    client: ApiClient, session: FakeSession, server: LogServer
) -> None:
    labels = {"app": "web"}
    waiting = status("waiting", restarts=2, reason="CrashLoopBackOff")
    for number in range(3):
        session.put(PODS, running(f"web-{number}", labels=labels))
    session.put(PODS, pod("web-3", "Running", labels=labels, containerStatuses=[waiting]))
    server.write("web-0/main", *(f"{number:02} line {number}" for number in range(12)))
    server.write("web-1/main", f"01 {'x' * 90} the end")
    server.write("web-3/main", "01 connection refused")
    server.logs["web-2/main"] = ""

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_log(client, "ci-1", selector="app=web", pattern="ready", timeout=3)

    text = str(caught.value)
    lines = "".join(f"    | line {number}\n" for number in range(2, 12))
    assert text[text.index("  log of") :] == (
        "  log of web-3/main\n"
        "    | connection refused\n"
        "  log of web-0/main\n"
        f"{lines}"
        "  log of web-1/main\n"
        f"    | {'x' * 86}\n"
        "    |   xxxx the end\n"
        "  try: kubectl --namespace ci-1 describe pod/web-3"
    )


def test_the_message_has_the_lines_of_a_deleted_pod(
    client: ApiClient, session: FakeSession, server: LogServer
) -> None:
    session.put(PODS, running())
    server.write("web/main", "01 one", "02 with own-credential in it")
    session.at(1, session.drop, PODS, "web")

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_log(client, "ci-1", "web", "ready")

    assert "  log of web/main\n    | one\n    | with (hidden) in it\n" in str(caught.value)


def test_the_message_has_each_log_once(
    client: ApiClient, session: FakeSession, server: LogServer
) -> None:
    session.put(PODS, running(containerStatuses=[status() | {"ready": False}]))
    server.write("web/main", "01 one")

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_log(client, "ci-1", "web", "ready", timeout=2)

    assert str(caught.value).count("one\n") == 1


def test_a_pod_that_is_created_anew(
    client: ApiClient, session: FakeSession, server: LogServer
) -> None:
    owners = [{"uid": "uid-set", "controller": True}]
    session.put(PODS, ended(phase="Failed", ownerReferences=owners))
    server.write("web/main", "01 one")
    session.at(20, session.drop, PODS, "web")
    session.at(20, server.write, "web/main", "03 ready")
    session.at(22, session.put, PODS, running(uid="new"))

    found = kw.wait_for_log(client, "ci-1", "web", "ready", follow_name=True)

    assert found.line == "ready"
    assert session.clock.monotonic() == 22.0


def test_the_pods_of_a_deleted_owner(
    client: ApiClient, session: FakeSession, server: LogServer
) -> None:
    session.put(DEPLOYMENTS, deployment(1, 1, 1))
    session.put(PODS, owned_pod("web-1", "a", containerStatuses=[status()]))
    server.write("a/main", "01 one")
    session.at(2, session.drop, DEPLOYMENTS, "web")
    session.at(4.5, server.write, "a/main", "05 ready to end")
    session.at(
        4.5,
        session.put,
        PODS,
        owned_pod("web-1", "a", "Failed", containerStatuses=[status("terminated", exitCode=143)]),
    )
    session.at(6, session.drop, PODS, "a")

    assert kw.wait_for_log(client, "ci-1", "deployment/web", "ready to end").pod == "a"
    assert session.clock.monotonic() == 4.5

    session.put(DEPLOYMENTS, deployment(1, 1, 1))
    session.at(1, session.drop, DEPLOYMENTS, "web")
    with pytest.raises(WaitFailed, match="the deployment was deleted"):
        kw.wait_for_log(client, "ci-1", "deployment/web", "anything", timeout="2m")


VALID_TARGET = "use the name of a pod, 'pod/name', or what selects pods: 'deployment/web'"


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "arguments=[] is not valid: give exactly one of target and selector"),
        (
            ("web", "a"),
            {"selector": "app=web"},
            "arguments=[] is not valid: give exactly one of target and selector",
        ),
        (
            (),
            {"selector": "", "pattern": "a"},
            "selector='' is not valid: use labels that select something",
        ),
        (
            ("web",),
            {},
            "pattern='' is not valid: use a text without line breaks, or a compiled regular "
            "expression of text",
        ),
        (
            ("web", "a\nb"),
            {},
            "pattern='a\\nb' is not valid: use a text without line breaks, or a compiled regular "
            "expression of text",
        ),
        (("cm/web", "a"), {}, f"target='cm/web' is not valid: {VALID_TARGET}"),
        (("pods", "a"), {"container": ""}, "container='' is not valid: use a text"),
        (
            ("web", "a"),
            {"since": 0},
            "since=0 is not valid: use seconds (90), a timedelta, or a Go duration "
            "('500ms', '90s', '1m30s'), above zero",
        ),
    ],
)
def test_invalid_arguments(
    client: ApiClient, session: FakeSession, args: Any, kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        kw.wait_for_log(client, "ci-1", *args, **kwargs)

    assert str(caught.value) == message
    assert session.requests == []
