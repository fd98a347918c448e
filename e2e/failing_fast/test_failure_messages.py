"""Failure messages of waits: complete, and without secrets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait
from e2e.objects import container, definition, job, pod
from e2e.raising import raises, times_out
from pytest_kwait import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.clusters import connect

if TYPE_CHECKING:
    from pytest_kwait import Kwait


NO = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1000}


def _last_line(kwait: Kwait) -> str:
    """The beginning of a message's last line: some clusters end with their run."""
    if kwait.cluster.ends_with_run:
        return f"  look: the {kwait.cluster.title} ends with the run; "
    return "  try: kubectl --kubeconfig "


def test_order_of_message_sections(kwait: Kwait) -> None:
    """From the one reason down to the command to look further."""
    script = "echo no database; sleep 1; exit 3"
    kwait.create(job("broken", container(script=script), backoffLimit=0))

    with pytest.raises(WaitFailed) as caught:
        kwait.wait_for_job_complete("broken", timeout="4m")

    text, evidence = str(caught.value), caught.value.evidence
    parts = (
        "BackoffLimitExceeded",
        "  awaited   job",
        "  limit     4m0s, ended after ",
        "  seen      1 ",  # Failed, or Running where the job's end came before the pod's
        "  timeline",
        "  pods",
        "main: terminated, exit code 3: Error",
        "  log of broken-",
        "    | no database",
        _last_line(kwait),
    )
    assert [part for part in parts if part not in text] == []
    assert sorted(parts, key=text.index) == list(parts)
    named = [line for line in text.splitlines() if kwait.namespace in line]
    if kwait.cluster.ends_with_run:
        assert named == [f"  namespace {kwait.namespace}"]
    else:
        (command,) = named
        assert f"--namespace {kwait.namespace} describe pod/broken-" in command
    assert max(len(line) for line in text.splitlines()[:-1]) <= 92
    assert json.loads(json.dumps(evidence))["pods"][0]["containers"][0]["exit_code"] == 3


def test_a_timeout_names_the_exit_code_of_a_restarted_container(kwait: Kwait) -> None:
    """It is in the headline, though the container may be running again."""
    script = container(script="echo no database; sleep 1; exit 3", readinessProbe=NO)
    kwait.create(pod("shop", script, restartPolicy="Always"))

    times_out(
        r"pod \S+ did not become ready within .*main was restarted (once|\d times), exit code 3",
        kwait.wait_for_pod_ready,
        "shop",
        fail_fast=False,
    )


def test_objects_that_hold_up_a_deletion_are_named(kwait: Kwait) -> None:
    """Of a selection that does not go away each is named, with its finalizers."""
    held = ["example.com/held"]
    for name, finalizers in (("free", []), ("held", held)):
        metadata = {"name": name, "labels": {"app": "web"}, "finalizers": finalizers}
        kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        kwait.delete(f"cm/{name}")

    times_out(
        r"1 still there: held \(being deleted, held by example.com/held, deletionTimestamp 2\S+Z\)",
        kwait.wait_for,
        "cm",
        "delete",
        selector="app=web",
    )
    kwait.patch("cm/held", {"metadata": {"finalizers": None}})
    kwait.wait_for("cm", "delete", selector="app=web")


def test_warnings_are_grouped(kwait: Kwait) -> None:
    """The same trouble of two pods is one line."""
    missing = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "a"}}}]
    kwait.create(*(pod(f"web-{n}", container(env=missing), labels={"app": "web"}) for n in "01"))

    for name in ("web-0", "web-1"):
        kwait.wait_for_event("Failed", about=f"pod/{name}", timeout="4m")
    times_out(
        r'warnings \d+x Failed \(pod/web-\d and 1 more\): .*"no" not found',
        kwait.wait_for_pods_running,
        2,
        selector="app=web",
        fail_fast=False,
    )


def test_a_warning_that_repeats_the_headline_is_left_out(kwait: Kwait) -> None:
    """The scheduler's text is in the headline; its event says no more."""
    kwait.create(pod("web", nodeSelector={"disk": "none"}))
    kwait.wait_for_event("FailedScheduling", about="pod/web", timeout="4m")

    with pytest.raises(WaitFailed, match="Unschedulable: ") as caught:
        kwait.wait_for_pod_running("web", grace="1s", timeout="4m")

    assert "FailedScheduling" not in str(caught.value)
    assert caught.value.evidence["events"][0]["reason"] == "FailedScheduling"


def test_the_log_of_the_run_before(kwait: Kwait) -> None:
    """A container that runs again and is not ready has two logs, that of its last run first."""
    script = 'echo "run with $LATE"; test "$LATE" = yes || exit 1; sleep 300'
    late = [{"name": "LATE", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "key"}}}]
    # A kubelet may start some more runs with the old data: only one with the new data has started.
    started = {"exec": {"command": ["sh", "-c", 'test "$LATE" = yes']}, "periodSeconds": 1}
    probes: dict[str, Any] = {
        "startupProbe": {**started, "failureThreshold": 1000},
        "readinessProbe": NO,
    }
    kwait.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "late"},
            "data": {"key": "no"},
        },
        pod("web", container(script=script, env=late, **probes), restartPolicy="Always"),
    )
    kwait.wait_for("pod/web", has_ended)
    kwait.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "late"},
            "data": {"key": "yes"},
        }
    )
    kwait.wait_for("pod/web", runs_again)

    with pytest.raises(WaitTimeout) as caught:
        kwait.wait_for_pod_ready("web", timeout="1s")

    evidence = caught.value.evidence
    tails = [(tail["previous"], tail["lines"]) for tail in evidence["logs"]]
    assert tails == [(True, ("run with no",)), (False, ("run with yes",))], evidence["errors"]


def test_the_log_of_a_container_that_is_not_ready(kwait: Kwait) -> None:
    """It runs, and its log says what it waits for."""
    script = "echo waiting for the database; sleep 300"
    kwait.create(pod("web", container(script=script, readinessProbe=NO)))

    times_out(
        r"log of web/main \| waiting for the database (look|try):", kwait.wait_for_pod_ready, "web"
    )


def test_an_empty_log_is_named(kwait: Kwait) -> None:
    """A container that has printed nothing is not left out."""
    kwait.create(pod("web", container(script="sleep 300", readinessProbe=NO)))

    times_out("main: running .*log of web/main: empty", kwait.wait_for_pod_ready, "web")


def runs_again(pod: dict[str, Any]) -> bool:
    return has_ended(pod) and pod["status"]["containerStatuses"][0]["started"] is True


def has_ended(pod: dict[str, Any]) -> bool:
    statuses = pod["status"].get("containerStatuses") or [{}]
    return bool((statuses[0].get("lastState") or {}).get("terminated"))


def test_secrets_are_redacted(kwait: Kwait) -> None:
    """Of what a container gives away in its log, and of the data of a Secret."""
    script = "echo Authorization: Bearer s3cr3t-t0ken; echo password=hunter2; exit 1"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    kwait.create(pod("careless", container(script=script)), {**secret, "stringData": {"a": "b"}})

    with pytest.raises(WaitFailed) as failed:
        kwait.wait_for_pod_success("careless", timeout="4m")
    with pytest.raises(WaitTimeout) as late:
        kwait.wait_for("secret/s", "jsonpath={.data.a}=Yw==", timeout="500ms")

    output = "".join(f"{error.value}{json.dumps(error.value.evidence)}" for error in (failed, late))
    assert "Authorization: Bearer (hidden)" in output
    assert "{.data.a} is another value" in " ".join(output.split())
    assert [word for word in ("s3cr3t", "hunter2", "Yg==", "Yw==") if word in output] == []


def test_names_that_are_values_of_secrets_are_shown(kwait: Kwait) -> None:
    """Names of users, hosts and databases, and names in manifests; never a password."""
    values = {"username": "zalando", "stage": "staging-17", "password": "gr8-p@ss", "a": "other-1"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}}
    script = "echo zalando staging-17 gr8-p@ss other-1; exit 1"
    client = pod("client", container(script=script))
    client["metadata"]["labels"] = {"stage": "staging-17"}
    kwait.create({**secret, "stringData": values}, client)

    with pytest.raises(WaitFailed) as failed:
        kwait.wait_for_pod_success("client", timeout="4m")

    output = f"{failed.value}{json.dumps(failed.value.evidence)}"
    assert "zalando staging-17 (hidden) (hidden)" in output
    assert [word for word in ("gr8-p@ss", "other-1") if word in output] == []


def test_a_log_in_a_message_controls_no_terminal(kwait: Kwait) -> None:
    """Colours are left out, other sequences are shown."""
    script = r"printf '\033[31mno database\033[0m\033[2J\n'; exit 1"
    kwait.create(pod("colourful", container(script=script)))

    with pytest.raises(WaitFailed) as failed:
        kwait.wait_for_pod_success("colourful", timeout="4m")

    assert r"| no database\x1b[2J" in str(failed.value)
    assert "\x1b" not in f"{failed.value}{failed.value.evidence}"


def test_message_lists_existing_names(kwait: Kwait) -> None:
    """The nearest name first."""
    kwait.create(pod("database"), pod("web-0"))

    end = _last_line(kwait).strip().partition(" ")[0]
    times_out(rf"there are pods: web-0, database {end}", kwait.wait_for_pod_ready, "wbe-0")
    times_out(rf"there are no jobs.batch {end}", kwait.wait_for, "job/pi", "create")
    with raises(InvalidArgument, r"kind='pdo' is not valid: .* near: pods \(v1\)"):
        kwait.wait_for("pdo/web-0", "condition=Ready")


def test_the_pods_of_a_custom_object(kwait: Kwait) -> None:
    """They are found through the Job between, and others of the namespace are not shown."""
    kwait.apply(definition("shops.example.com", "shops", "Shop"))
    api_version = "shops.example.com/v1"
    shop = {"apiVersion": api_version, "kind": "Shop", "metadata": {"name": "corner"}}
    [created] = kwait.create(shop)
    owner = {"apiVersion": api_version, "kind": "Shop", **_name_and_uid(created)}
    failing = job("import", container(script="echo no supplier; exit 3"), backoffLimit=0)
    failing["metadata"]["ownerReferences"] = [owner]
    kwait.create(failing, pod("neighbour", container()))
    kwait.wait_for_job_failed("import")

    error = times_out(
        "main: terminated, exit code 3", kwait.wait_for, "shop/corner", "condition=Ready"
    )
    assert "no supplier" in str(error)
    assert "neighbour" not in str(error)


def _name_and_uid(obj: dict[str, Any]) -> dict[str, str]:
    return {part: obj["metadata"][part] for part in ("name", "uid")}


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_a_read_that_is_forbidden(kwait: Kwait, mode: Any) -> None:
    """At once, and by name of what is missing."""
    client = connect(kwait.cluster.kubeconfig).client()
    client.set_default_header("Impersonate-User", "robot")  # type: ignore[no-untyped-call]

    with raises(ApiError, 'User "robot" cannot list resource "pods" in API group ""'):
        pytest_kwait.wait_for_pod_ready(client, kwait.namespace, "web", timeout="4m", mode=mode)


@pytest.mark.kwait(grace="2s")
def test_a_stuck_pod_fails_only_waits_that_need_it(kwait: Kwait) -> None:
    """Two of three come, in more time than it takes to be sure of the third."""
    late = {"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1}
    script = "sleep 4; touch /tmp/up; sleep 300"
    slow = container(script=script, readinessProbe={**late, "failureThreshold": 60})
    labels = {"app": "web"}
    kwait.create(
        pod("stuck", container(image="Not an image"), labels=labels),
        pod("slow-0", slow, labels=labels),
        pod("slow-1", slow, labels=labels),
    )

    ready = kwait.wait_for_pods_running(2, selector="app=web", timeout="4m")

    assert [each["metadata"]["name"] for each in ready] == ["slow-0", "slow-1"]
    with raises(WaitFailed, "pod stuck: InvalidImageName"):
        kwait.wait_for_pods_running(3, selector="app=web", timeout="4m")
