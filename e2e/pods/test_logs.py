"""Waiting for lines of logs, and reading the logs of several pods."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from e2e.objects import Obj, container, deployment, job, pod
from e2e.raising import raises, times_out
from pytest_kwait import LogMatch, WaitFailed, WaitOptions

if TYPE_CHECKING:
    from pytest_kwait import Kwait

SOON: WaitOptions = {"timeout": "4m", "poll": "200ms"}
FAILING: WaitOptions = {**SOON, "grace": "1s"}


def test_a_line_that_comes_later(kwait: Kwait) -> None:
    script = "echo starting; sleep 2; echo listening on 8080; sleep 300"
    created = kwait.create(pod("web", container(script=script)))[0]

    found = kwait.wait_for_log(created, re.compile("^listening on ([0-9]+)$"), **SOON)

    assert found == LogMatch("web", "main", "listening on 8080")
    assert kwait.wait_for_log("web", "starting", **SOON).line == "starting"


@pytest.mark.kwait_manifests("talker.yaml")
@pytest.mark.wait_for_log("pod/talker", "ready", timeout="4m")
def test_a_line_as_a_precondition(kwait: Kwait) -> None:
    assert kwait.logs("talker") == "ready\n"


def test_async_methods(kwait: Kwait) -> None:
    async def read() -> tuple[LogMatch, str]:
        found = await kwait.aio.wait_for_log("web", "one", **SOON)
        return found, await kwait.aio.logs("web", all_pods=True)

    kwait.create(pod("web", container(script="echo one; sleep 300")))

    assert asyncio.run(read()) == (("web", "main", "one"), "[pod/web/main] one\n")


def test_the_pods_of_a_deployment(kwait: Kwait) -> None:
    script = "echo hello of $HOSTNAME; sleep 300"
    kwait.create(deployment("web", 2, {"command": ["sh", "-c", script]}))
    kwait.wait_for_rollout_status("deployment/web", timeout="4m")
    names = [each["metadata"]["name"] for each in kwait.list("pods", selector="app=web")]

    for name in names:
        found = kwait.wait_for_log("deployment/web", f"hello of {name}", **SOON)
        assert found == (name, "main", f"hello of {name}")
    assert kwait.wait_for_log(selector="app=web", pattern="hello", **SOON).pod in names

    lines = {f"[pod/{name}/main] hello of {name}" for name in names}
    assert set(kwait.logs("deployment/web", all_pods=True).splitlines()) == lines
    assert set(kwait.logs(selector={"app": "web"}, tail=1).splitlines()) == lines
    assert len(kwait.logs("deployment/web").splitlines()) == 1


def test_lines_are_merged_by_time(kwait: Kwait) -> None:
    def talk(name: str, script: str) -> Obj:
        mounts = [{"name": "data", "mountPath": "/data"}]
        return container(name, f"cd /data; {script}; sleep 300", volumeMounts=mounts)

    first = talk("first", "echo 1; touch a; until test -f b; do sleep 0.1; done; echo 3; touch c")
    second = talk(
        "second",
        "until test -f a; do sleep 0.1; done; echo 2; touch b; "
        "until test -f c; do sleep 0.1; done; echo 4",
    )
    kwait.create(pod("web", first, second, volumes=[{"name": "data", "emptyDir": {}}]))
    kwait.wait_for_log("web", "4", container="second", **SOON)

    assert kwait.logs("web", all_pods=True).splitlines() == [
        "[pod/web/first] 1",
        "[pod/web/second] 2",
        "[pod/web/first] 3",
        "[pod/web/second] 4",
    ]
    stamped = kwait.logs("web", all_pods=True, container="first", timestamps=True)
    assert re.match(r"\[pod/web/first\] 20\S+ 1\n", stamped)


def test_each_run_of_a_container_is_read(kwait: Kwait) -> None:
    script = "echo run >> /data/runs; echo run $(wc -l < /data/runs); sleep 1; exit 1"
    main = container(script=script, volumeMounts=[{"name": "data", "mountPath": "/data"}])
    volumes = [{"name": "data", "emptyDir": {}}]
    kwait.create(pod("web", main, volumes=volumes, restartPolicy="Always"))

    assert kwait.wait_for_log("web", "run 1", **SOON).line == "run 1"
    assert kwait.wait_for_log("web", "run 2", **SOON).line == "run 2"


def test_a_line_that_does_not_come(kwait: Kwait) -> None:
    kwait.create(pod("web", container(script="echo one; echo two; sleep 300")))
    kwait.wait_for_log("web", "two", **SOON)

    error = times_out("no line matches yet", kwait.wait_for_log, "web", "ready", poll="200ms")

    assert "  log of web/main\n    | one\n    | two\n" in str(error)


def test_pods_that_have_ended(kwait: Kwait) -> None:
    kwait.create(pod("task", container(script="echo one")), pod("typo", container(image="A:b c")))
    kwait.create(job("failing", container(script="echo one; exit 1"), backoffLimit=0))

    with raises(WaitFailed, "pod task: the pod has succeeded; its only line does not match"):
        kwait.wait_for_log("task", "ready", **FAILING)
    with raises(WaitFailed, "InvalidImageName.*; nothing was logged"):
        kwait.wait_for_log("typo", "ready", **FAILING)
    with raises(WaitFailed, "the job has failed; its only line does not match.*log of failing-"):
        kwait.wait_for_log("job/failing", "ready", **FAILING)
