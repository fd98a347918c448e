"""Running a pod to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.failure.redaction import SECRET_VALUES
from pytest_kwait.errors import InvalidArgument, WaitFailed
from pytest_kwait.framework.operations.run import run
from tests.objects import secret

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.framework.writable_session import WritingSession


def end_with(session: WritingSession, code: int, log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pod end with this exit code and log."""

    def then(verb: str, name: str, what: Any) -> None:
        if verb == "create":
            ended = {"name": "run", "state": {"terminated": {"exitCode": code, "reason": "Error"}}}
            status = {
                "phase": "Failed" if code else "Succeeded",
                "containerStatuses": [ended],
            }
            metadata = {**what["metadata"], "uid": "uid-made"}
            session.put(PODS, {**what, "metadata": metadata, "status": status})

    session.then = then
    monkeypatch.setattr(session, "logs", lambda *args, **more: log)


def test_output_and_exit_code(
    client: ApiClient, session: WritingSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_with(session, 0, "hello\n", monkeypatch)

    done = run(client, "ci-1", "busybox:1", ["echo", "hello"], env={"A": "1"})

    assert (done.output, done.exit_code, done.pod["status"]["phase"]) == ("hello\n", 0, "Succeeded")
    assert repr(done) == "RunResult(exit_code=0, output='hello\\n')"
    (created, deleted) = session.written
    assert created[3]["spec"] == {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "run",
                "image": "busybox:1",
                "command": ["echo", "hello"],
                "env": [{"name": "A", "value": "1"}],
            }
        ],
    }
    assert (deleted[0], deleted[2], deleted[3]["uid"]) == ("delete", created[2], "uid-made")


def test_a_failure_has_the_output(
    client: ApiClient, session: WritingSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_with(session, 3, "no such thing\n", monkeypatch)

    with pytest.raises(WaitFailed) as caught:
        run(client, "ci-1", "busybox:1")

    assert "exit code 3" in str(caught.value)
    assert str(caught.value).endswith("; its output:\nno such thing")
    assert session.written[-1][0] == "delete"
    assert run(client, "ci-1", "busybox:1", check=False).exit_code == 3


def test_the_output_in_a_failure_is_redacted_before_it_is_cut(
    client: ApiClient, session: WritingSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    SECRET_VALUES.learn(secret(password="gr8-p@ss-of-a-secret"))
    end_with(session, 3, f"gr8-p@ss-of-a-secret\x1b[2J{'x' * 1984}\n", monkeypatch)

    with pytest.raises(WaitFailed) as caught:
        run(client, "ci-1", "busybox:1")

    assert str(caught.value).endswith(f"; its output:\n(hidden)\\x1b[2J{'x' * 1984}")


POD = {"kind": "Pod", "spec": {"restartPolicy": "Always", "containers": [{"name": "a"}]}}


@pytest.mark.parametrize(
    ("image", "more", "said"),
    [
        ("", {}, "image='' is not valid: name an image, or give a Pod"),
        (
            "a",
            {"command": "ls"},
            "command='ls' is not valid: use texts: the program and its arguments",
        ),
        ("a", {"container": "b"}, "container='b' is not valid: name one only with a whole Pod"),
        (
            {"kind": "Pod", "spec": {"containers": [{"name": "a"}]}},
            {"container": "b"},
            "container='b' is not valid: one of the containers of the Pod: a",
        ),
        (3, {}, "image=3 is not valid: use the name of an image, or a Pod"),
    ],
)
def test_bad_arguments(client: ApiClient, image: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        run(client, "ci-1", image, **more)

    assert str(caught.value) == said


def test_a_pod_that_never_ends(client: ApiClient) -> None:
    with pytest.raises(InvalidArgument, match="its restartPolicy is Always, so it never ends"):
        run(client, "ci-1", POD)
