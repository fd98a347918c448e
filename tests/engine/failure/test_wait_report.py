from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_kwait.engine.condition import ObjectReference
from pytest_kwait.engine.failure.evidence import (
    EventGroup,
    Evidence,
    ExistingObjects,
    LogTail,
    PodReport,
)
from pytest_kwait.engine.failure.wait_report import Timeline, VerdictChange, WaitReport
from pytest_kwait.engine.pod_fields import ContainerReport
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout

PULL = (
    'failed to pull and unpack image "example.com/nope:1": failed to resolve reference '
    '"example.com/nope:1": pull access denied, repository does not exist or may require '
    "authorization: server message: insufficient_scope: authorization failed"
)


def timeline(*changes: tuple[float, str], limit: int = 10) -> Timeline:
    result = Timeline(limit)
    for at, text in changes:
        result.record(at, text, is_provisional=text.startswith("final if it holds for "))
    return result


def container_report(
    name: str = "main", state: str = "running", **facts: object
) -> ContainerReport:
    values = {
        "name": name,
        "init": False,
        "state": state,
        "reason": "",
        "message": "",
        "exit_code": None,
        "restarts": 0,
        "ready": False,
        "failing": False,
    }
    return ContainerReport(**(values | facts))  # type: ignore[arg-type]  # the facts of a test


def pod_report(
    name: str, phase: str, node: str, *containers: ContainerReport, **facts: object
) -> PodReport:
    values = {"note": "", "deleting": False, "ready": False}
    return PodReport(name, f"uid-{name}", phase, node, containers=containers, **(values | facts))  # type: ignore[arg-type]  # the facts of a test


FULL = WaitReport(
    subject="job ci-1/sleepers",
    goal="have 3 pods Running",
    failed=True,
    reason=f"pod sleepers-a: ErrImagePull: {PULL}",
    limit=900.0,
    elapsed=7.312,
    mode="watch",
    seen="2 Running, 1 Pending (ErrImagePull); 0 counted as succeeded by the job",
    timeline=timeline(
        (0.0, "not found yet"),
        (0.31, "0 of 3 pods Running"),
        (2.3, f"final if it holds for 5s: pod sleepers-a: ErrImagePull: {PULL}"),
        (7.3, f"pod sleepers-a: ErrImagePull: {PULL}"),
    ),
    findings=Evidence(
        "ci-1",
        (ObjectReference("Job", "sleepers", "uid", "jobs.batch"),),
        (
            pod_report(
                "sleepers-a",
                "Pending",
                "node-1",
                container_report(
                    state="waiting", reason="ErrImagePull", message=PULL, failing=True
                ),
            ),
            pod_report(
                "sleepers-b",
                "Running",
                "node-2",
                container_report("setup", "terminated", init=True, reason="Completed", exit_code=0),
                container_report(restarts=1, exit_code=3),
                container_report("proxy", ready=True, restarts=2),
            ),
            pod_report("sleepers-c", "Running", "node-2", container_report(ready=True), ready=True),
            pod_report(
                "sleepers-d",
                "Failed",
                "",
                deleting=True,
                note="Evicted: The node was low on memory",
            ),
        ),
        (
            EventGroup("pod/sleepers-a", 2, "Failed", "Error: ErrImagePull", 5),
            EventGroup("job/sleepers", 0, "FailedCreate", "exceeded quota", 1),
        ),
        (LogTail("sleepers-b", "main", True, ("connecting to db:5432", "\tno\x1b[31m database")),),
        ("logs of sleepers-d/main: 400 BadRequest: no logs here",),
        ("--kubeconfig", "my kube", "--context", "kind"),
    ),
    last_error=str(ApiError("busy", status=503, reason="ServiceUnavailable")),
    errors=4,
)

TEXT = """\
job ci-1/sleepers can no longer have 3 pods Running: pod sleepers-a: ErrImagePull: failed to
    pull and unpack image "example.com/nope:1": failed to resolve reference
    "example.com/nope:1": pull access denied, repository does not exist or may require
    authorization: server message: insufficient_scope: authorization failed
  awaited   job ci-1/sleepers to have 3 pods Running
  limit     15m0s, ended after 7.3s (watch mode)
  seen      2 Running, 1 Pending (ErrImagePull); 0 counted as succeeded by the job
  timeline
       0.0s  not found yet
       0.3s  0 of 3 pods Running
       2.3s  final if it holds for 5s: pod sleepers-a: ErrImagePull: failed to pull and u...
       7.3s  pod sleepers-a: ErrImagePull: failed to pull and unpack image "example.com/n...
  pods
    sleepers-a Pending on node-1
      main: waiting: ErrImagePull
    sleepers-b Running on node-2
      init container setup: terminated, exit code 0: Completed
      main: running, last exit code 3, 1 restart
      proxy: running, 2 restarts
    sleepers-c Running on node-2, ready
      main: running
    sleepers-d Failed, on no node, being deleted: Evicted: The node was low on memory
  warnings
    5x Failed (pod/sleepers-a and 2 more): Error: ErrImagePull
    FailedCreate (job/sleepers): exceeded quota
  log of sleepers-b/main, the run before this one
    | connecting to db:5432
    |  no [31m database
  API error 503 ServiceUnavailable: busy (the last of 4)
  not gathered: logs of sleepers-d/main: 400 BadRequest: no logs here
  try: kubectl --kubeconfig 'my kube' --context kind --namespace ci-1 describe pod/sleepers-a"""


def test_everything_in_its_place() -> None:
    assert FULL.render() == TEXT


def test_a_short_message_has_the_cause_the_first_pod_and_a_log() -> None:
    findings = replace(FULL.findings, pods=FULL.findings.pods[:1])
    message = replace(FULL, reason="pod sleepers-a: ErrImagePull", findings=findings).shorten(72)

    assert (
        "\n".join(message.lines)
        == """\
job ci-1/sleepers can no longer have 3 pods Running: pod sleepers-a:
    ErrImagePull
  limit     15m0s, ended after 7.3s (watch mode)
  seen      2 Running, 1 Pending (ErrImagePull); 0 counted as succeeded
            by the job
  timeline  4 changes, at first: not found yet
  pods
    sleepers-a Pending on node-1
      main: waiting: ErrImagePull: failed to pull and unpack ... server
        message: insufficient_scope: authorization failed
  log of sleepers-b/main, the run before this one
    | connecting to db:5432
    |  no [31m database
  API error 503 ServiceUnavailable: busy (the last of 4)
  try: kubectl --kubeconfig 'my kube' --context kind --namespace ci-1 describe pod/sleepers-a"""
    )
    assert message.omitted == ("message", "timeline", "warnings")


def test_error_says_the_report() -> None:
    error = WaitFailed(report=FULL)

    assert str(error) == TEXT
    assert error.report is FULL
    assert error.args == (FULL.headline,)


def test_evidence_is_json() -> None:
    evidence = json.loads(json.dumps(WaitFailed(report=FULL).evidence))

    assert evidence["outcome"] == "failed"
    assert evidence["elapsed_seconds"] == 7.312
    assert evidence["timeline"][1] == {"at": 0.31, "text": "0 of 3 pods Running"}
    assert evidence["pods"][0]["containers"][0]["reason"] == "ErrImagePull"
    assert evidence["last_api_error"] == "503 ServiceUnavailable: busy"


def test_nothing_known_is_a_short_message() -> None:
    report = WaitReport("job ci-1/pi", "finish", False, "", 1.5, 1.5, "poll")

    assert str(WaitTimeout(report=report)) == (
        "job ci-1/pi did not finish within 1.5s: nothing was seen\n"
        "  awaited   job ci-1/pi to finish\n"
        "  limit     1.5s, ended after 1.5s (poll mode)\n"
        "  try: kubectl get events"
    )


def test_lines_are_bounded_in_number_and_width() -> None:
    many = tuple(
        pod_report(
            f"p-{n}",
            "Pending",
            "",
            container_report(state="waiting", reason="X", message="word " * 300),
        )
        for n in range(50)
    )
    report = WaitReport(
        subject="job ci-1/" + "x" * 200,
        goal="finish",
        failed=False,
        reason="y" * 5000,
        limit=1.0,
        elapsed=1.0,
        mode="watch",
        timeline=timeline(*((float(n), f"{n} " * 100) for n in range(100))),
        findings=Evidence(
            pods=many,
            events=tuple(EventGroup("pod/p", 0, "R", f"{n}" + "m" * 500, n) for n in range(30)),
            logs=tuple(LogTail("p", "c", False, ("z" * 500,) * 10) for _ in range(3)),
            errors=("e" * 900,) * 20,
        ),
    )

    short = report.shorten(72, "WaitTimeout: ")
    assert len(short.lines) <= 15
    assert max(map(len, short.lines)) <= 72
    assert short.lines[0].startswith("WaitTimeout: job")
    assert short.omitted == ("message", "timeline", "pods", "warnings", "logs")

    lines = report.render().splitlines()

    assert max(map(len, lines)) == 92
    assert len(lines) < 160
    assert "    and 42 more: 42 Pending" in lines
    assert "    and 22 more kinds of warnings" in lines
    assert "             ... 80 more changes ..." in lines


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        ("aba", ["0.0s  a", "1.0s  b", "2.0s  a"]),
        (
            "abab",
            ["0.0s  a", "1.0s  b", "3.0s  the last of 2 changes to and fro between these two"],
        ),
        (
            "xabababay",
            [
                *("0.0s  x", "1.0s  a", "2.0s  b"),
                "7.0s  the last of 5 changes to and fro between these two",
                "8.0s  y",
            ],
        ),
        (
            "ababcdcdc",
            [
                *("0.0s  a", "1.0s  b", "3.0s  the last of 2 changes to and fro between these two"),
                *("4.0s  c", "5.0s  d", "8.0s  the last of 3 changes to and fro between these two"),
            ],
        ),
        ("abcabc", ["0.0s  a", "1.0s  b", "2.0s  c", "3.0s  a", "4.0s  b", "5.0s  c"]),
    ],
)
def test_changes_to_and_fro_take_one_line(texts: str, shown: list[str]) -> None:
    seen = timeline(*((float(at), text) for at, text in enumerate(texts)))
    report = WaitReport("job", "finish", False, "", 9.0, 9.0, "watch", timeline=seen)
    lines = report.render().splitlines()
    first = lines.index("  timeline") + 1
    assert [line.strip() for line in lines[first : first + len(shown)]] == shown
    assert not lines[first + len(shown)].startswith("     ")


def more_pods(count: int) -> str:
    more = f" (and {count} more pod{'s' if count > 1 else ''})" if count else ""
    return f"final if it holds for 45s: pod a{more}: Unschedulable"


def crash_loop(restarts: int) -> str:
    return f"final if it holds for 45s: pod a: CrashLoopBackOff: restarted {restarts} times"


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (
            ["not ready", *(each for n in range(1, 9) for each in (crash_loop(n), "not ready"))],
            [
                "0.0s  not ready",
                f"1.0s  {crash_loop(1)}",
                "9.0s  the last of 8 changes to and fro between these two",
                "10.0s  not ready",
                f"11.0s  {crash_loop(6)}",
                "16.0s  the last of 5 changes to and fro between these two",
            ],
        ),
        (
            ["not ready", crash_loop(1), crash_loop(2), crash_loop(3)],
            [
                "0.0s  not ready",
                *(f"{n}.0s  {crash_loop(n)}" for n in (1, 2, 3)),
            ],
        ),
        (
            ["not ready", *(crash_loop(n) for n in range(1, 6)), "ready"],
            [
                "0.0s  not ready",
                f"1.0s  {crash_loop(1)}",
                "... 3 more changes of its numbers ...",
                f"5.0s  {crash_loop(5)}",
                "6.0s  ready",
            ],
        ),
        (
            [more_pods(n) for n in range(4)],
            [
                f"0.0s  {more_pods(0)}",
                "... 2 more changes of its numbers ...",
                f"3.0s  {more_pods(3)}",
            ],
        ),
        (
            ["0 of 2", "1 of 2", "0 of 3", "1 of 3"],
            ["0.0s  0 of 2", "1.0s  1 of 2", "2.0s  0 of 3", "3.0s  1 of 3"],
        ),
    ],
)
def test_flips_of_a_failed_state_that_counts_on_take_one_line(
    texts: list[str], shown: list[str]
) -> None:
    seen = timeline(*((float(at), text) for at, text in enumerate(texts)))
    report = WaitReport("job", "finish", False, "", 99.0, 99.0, "watch", timeline=seen)
    lines = report.render().splitlines()
    first = lines.index("  timeline") + 1
    assert [line.strip() for line in lines[first : first + len(shown)]] == shown
    assert not lines[first + len(shown)].startswith("     ")


def test_numbers_alone_do_not_make_a_failed_state() -> None:
    """Only the evaluator says that a state is provisional: the words of a user do not."""
    texts = [crash_loop(restarts) for restarts in range(1, 6)]
    seen = Timeline()
    for at, text in enumerate(texts):
        seen.record(float(at), text)
    report = WaitReport("job", "finish", False, "", 9.0, 9.0, "watch", timeline=seen)
    shown = [line.strip() for line in report.render().splitlines()]
    assert [f"{at}.0s  {text}" for at, text in enumerate(texts)] == shown[4:9]


def test_a_provisional_change_stays_one_when_its_text_is_changed() -> None:
    seen = timeline((0.0, crash_loop(1)), (1.0, "ready")).changed(str.upper)
    assert [(change.text, change.is_provisional) for change in seen.first] == [
        (crash_loop(1).upper(), True),
        ("READY", False),
    ]


def test_a_warning_that_repeats_the_headline_is_left_out() -> None:
    reason = 'secret "registry-credentials-of-the-team" not found in the namespace'
    events = (
        EventGroup("pod/web", 0, "FailedMount", reason, 4),
        EventGroup("pod/web", 0, "Unhealthy", "probe failed", 2),
        EventGroup("pod/web", 0, "Odd", "", 1),
    )
    report = WaitReport("pod web", "become ready", True, reason, 9.0, 9.0, "watch")
    text = replace(report, findings=Evidence("ci-1", events=events)).render()
    assert text[text.index("  warnings") : text.index("  try:")] == (
        "  warnings\n    2x Unhealthy (pod/web): probe failed\n    Odd (pod/web)\n"
    )


def test_a_short_message_keeps_an_error_that_is_further_up_in_a_log() -> None:
    written = ("start", "fatal: no route to host", "", "closing", "closed", "bye")
    logs = (LogTail("a", "c", False, ()), LogTail("b", "c", False, written))
    refused = LogTail("b", "operator", False, ("jobs is forbidden", "pods is forbidden"))
    findings = Evidence("ci-1", logs=logs, refusals=(refused,))
    report = WaitReport("pod web", "become ready", True, "x", 9.0, 9.0, "watch", findings=findings)

    message = report.shorten(72)

    assert message.lines[2:-1] == (
        "  log of b/c",
        "    | fatal: no route to host",
        "    | closed",
        "    | bye",
        "  refused",
        "    b/operator: jobs is forbidden",
    )
    assert message.omitted == ("logs", "refusals")


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/srv/shop/main.py", line 3, in <module>',
    "    connect()",
    "sqlalchemy.exc.OperationalError: could not translate host name "
    '"postgres.shop.svc.cluster.local" to address: Name or service not known',
)


def test_a_short_message_has_the_last_line_of_a_log_whole() -> None:
    """It has the cause of a crash, unlike the kubelet's message."""
    pause = "back-off 40s restarting failed container=main pod=shop-7d9f_ci-1(0f0f0f0f-0f0f-0f0f)"
    stuck = container_report(state="waiting", reason="CrashLoopBackOff", message=pause, restarts=3)
    loop = "pod shop-7d9f: CrashLoopBackOff: container main was restarted 3 times, exit code 1"
    look = "the embedded cluster ends with the run; --kwait-artifacts=DIR keeps its objects, events"
    findings = Evidence(
        "ci-1",
        pods=(pod_report("shop-7d9f", "Running", "node-1", replace(stuck, failing=True)),),
        events=(EventGroup("pod/shop-7d9f", 0, "BackOff", "Back-off restarting", 9),),
        logs=(LogTail("shop-7d9f", "main", True, TRACEBACK),),
        outlook=f"{look} and logs, and --kwait-record its history",
    )
    seen = "1 of 1 updated, 0 available; pods: 1 Running (CrashLoopBackOff)"
    report = WaitReport("deployment ci-1/shop", "become complete", True, loop, 300.0, 75.0, "watch")

    message = replace(report, seen=seen, findings=findings).shorten(72, "WaitFailed: ")

    assert (
        "\n".join(message.lines[6:-3])
        == """\
  pods
    shop-7d9f Running on node-1
  log of shop-7d9f/main, the run before this one
    | sqlalchemy.exc.OperationalError: could not translate host name
    |   "postgres.shop.svc.cluster.local" to address: Name or service
    |   not known"""
    )
    assert len(message.lines) <= 15
    assert message.omitted == ("pods", "warnings", "logs")


def test_a_short_message_has_the_cause_of_a_probe_that_fails() -> None:
    refused = 'Readiness probe failed: Get "http://10.1.0.4:8080/healthz": dial tcp: refused'
    findings = Evidence(
        "ci-1",
        pods=(pod_report("shop", "Running", "node-1", container_report()),),
        events=(
            EventGroup("pod/shop", 0, "FailedSync", "no answer", 9),
            EventGroup("pod/shop", 0, "Unhealthy", refused, 3),
        ),
        logs=(LogTail("shop", "main", False, tuple(f"line {n} of the log" for n in range(9))),),
        outlook="the embedded cluster ends with the run; " * 4,
    )
    report = WaitReport("pod shop", "become ready", False, "not ready " * 20, 9.0, 9.0, "watch")

    message = replace(report, seen="Running", findings=findings).shorten(72, "WaitTimeout: ")

    assert (
        "\n".join(message.lines[6:-3])
        == """\
  warnings
    3x Unhealthy (pod/shop): Readiness probe failed: Get
      "http://10.1.0.4:8080/healthz": dial tcp: refused
  log of shop/main
    | line 7 of the log
    | line 8 of the log"""
    )


def hint(*pods: PodReport, **reference: object) -> str:
    objects = ()
    if reference:
        values = {"kind": "Job", "name": "pi", "uid": "u", "resource": "jobs.batch"}
        objects = (ObjectReference(**(values | reference)),)  # type: ignore[arg-type,assignment]  # facts
    findings = Evidence("ci-1", objects, pods)
    report = WaitReport("job", "finish", False, "", 1.0, 1.0, "watch", findings=findings)
    return report.render().splitlines()[-1]


def test_existing_objects_are_shown_for_a_missing_name() -> None:
    near = ExistingObjects("pods", "ci-1", "web", ("wed", "api"), 14)
    nodes = ExistingObjects("nodes", None, "n", (), 0)
    report = WaitReport(
        "pod", "run", False, "", 1.0, 1.0, "watch", findings=Evidence(existing=(near, nodes))
    )

    assert report.render().splitlines()[3:5] == [
        "  there are pods in ci-1: wed, api and 12 more",
        "  there are no nodes",
    ]
    assert report.evidence["existing"][0]["missing"] == "web"


def test_command_leads_to_where_the_trouble_is() -> None:
    stuck = pod_report("p", "Pending", "", container_report(state="waiting", failing=True))
    fine = pod_report("q", "Running", "node-1", ready=True)

    assert hint(stuck, name="pi") == "  try: kubectl --namespace ci-1 describe pod/p"
    assert hint(fine, name="pi") == "  try: kubectl --namespace ci-1 describe jobs.batch/pi"
    assert hint(fine) == "  try: kubectl --namespace ci-1 describe pod/q"
    assert hint(uid="", exists=False) == "  try: kubectl --namespace ci-1 get jobs.batch"
    assert hint(uid="u", exists=False) == "  try: kubectl --namespace ci-1 get events"


LONG = "kwait-ci-test-scale-up-0a1b2c3d"
UNSCHEDULABLE = "0/2 nodes are available: 2 node(s) did not match the pod's node affinity"


def unscheduled(outlook: str = "") -> WaitReport:
    return WaitReport(
        subject=f"deployment {LONG}/web",
        goal="become complete",
        failed=True,
        reason=f"pod web-a (and 1 more pod): Unschedulable: {UNSCHEDULABLE}",
        limit=300.0,
        elapsed=45.0,
        mode="watch",
        findings=Evidence(
            LONG,
            (ObjectReference("Deployment", "web", "uid", "deployments.apps"),),
            tuple(
                pod_report(name, "Pending", "", note=f"Unschedulable: {UNSCHEDULABLE}")
                for name in ("web-a", "web-b")
            ),
            (EventGroup("pod/web-a", 1, "FailedScheduling", UNSCHEDULABLE, 4),),
            (LogTail("web-a", "c", False, (f"serving {LONG}/web",)),),
            kubectl=("--context", "kind"),
            existing=(ExistingObjects("pods", LONG, "", ("web-a",), 1),),
            outlook=outlook,
        ),
    )


def test_a_long_namespace_and_a_long_text_are_shown_once() -> None:
    assert (
        unscheduled().render()
        == f"""\
deployment web can no longer become complete: pod web-a (and 1 more pod): Unschedulable: 0/2
    nodes are available: 2 node(s) did not match the pod's node affinity
  awaited   deployment web to become complete
  limit     5m0s, ended after 45s (watch mode)
  there are pods: web-a
  pods
    web-a Pending, on no node: Unschedulable
    web-b Pending, on no node: Unschedulable
  log of web-a/c
    | serving {LONG}/web
  try: kubectl --context kind --namespace {LONG} describe pod/web-a"""
    )


def test_a_long_line_of_a_log_keeps_its_end() -> None:
    where = "/srv/venv/lib/python3.11/site-packages/shop/"
    line = f"\x1b[31mTraceback: {where}web.py, {where}queue.py: No module named 'yaml'"
    log = LogTail("web-a", "c", False, (line, "    serving"))
    logs = (log, LogTail("web-b", "c", False, ()), LogTail("web-b", "c", True, ()))
    report = replace(FULL, findings=Evidence("ci-1", logs=logs))
    rendered = report.render()
    assert (
        rendered[rendered.index("  log of") : rendered.index("  API error")]
        == """\
  log of web-a/c
    | [31mTraceback: /srv/venv/lib/python3.11/site-packages/shop/web.py,
    |   /srv/venv/lib/python3.11/site-packages/shop/queue.py: No module named 'yaml'
    |     serving
  log of web-b/c: empty
  log of web-b/c, the run before this one: empty
"""
    )


def test_refusals_follow_the_logs() -> None:
    refused = (
        'configmaps "hello" is forbidden: User "system:serviceaccount:ci-1:greeter" cannot patch '
        'resource "configmaps" in API group "" in the namespace "ci-1"'
    )
    findings = Evidence("ci-1", refusals=(LogTail("greeter-a", "operator", False, (refused,)),))
    rendered = replace(FULL, findings=findings).render()
    assert (
        rendered[rendered.index("  refused") : rendered.index("  API error")]
        == """\
  refused by the API server, as logs of the namespace's pods say
    greeter-a/operator: configmaps "hello" is forbidden: User
      "system:serviceaccount:ci-1:greeter" cannot patch resource "configmaps" in API group
      "" in the namespace "ci-1"
"""
    )


SHARED = replace(
    FULL,
    subject="greeting ci-1/hello",
    goal="have condition Ready=True",
    failed=False,
    reason="no condition Ready yet",
    seen="it is there",
    timeline=Timeline(),
    last_error="",
    findings=Evidence(
        "ci-1",
        refusals=(
            LogTail(
                "greeter-a",
                "operator",
                False,
                ('secrets is forbidden: User "greeter" cannot list resource "secrets"',),
                "shared",
            ),
        ),
        records=(
            LogTail(
                "greeter-a",
                "operator",
                False,
                (
                    "kopf.objects [WARNING] [ci-1/hello] Patching failed with inconsistencies",
                    "kopf.objects [ERROR] [ci-1/hello] Handler 'write' failed with an exception "
                    'and will try again in 60 seconds: (422) ConfigMap "hello" is invalid: []: '
                    "Too long: may not be more than 1048576 bytes",
                ),
                "shared",
            ),
            LogTail("greeter-a", "sidecar", False, ("hello is denied",), "shared"),
        ),
    ),
)


def test_records_of_an_operator_follow_the_refusals() -> None:
    rendered = SHARED.render()
    assert (
        rendered[rendered.index("  refused") : rendered.index("  try:")]
        == """\
  refused by the API server, as logs of pods of operators say
    shared/greeter-a/operator: secrets is forbidden: User "greeter" cannot list resource
      "secrets"
  operator, by its log
    shared/greeter-a/operator: kopf.objects [WARNING] [ci-1/hello] Patching failed with
      inconsistencies
    shared/greeter-a/operator: kopf.objects [ERROR] [ci-1/hello] Handler 'write' failed with
      an exception and will try again in 60 seconds: (422) ConfigMap "hello" is invalid: []:
      Too long: may not be more than 1048576 bytes
    shared/greeter-a/sidecar: hello is denied
"""
    )


def test_a_short_message_has_the_last_error_of_the_operator() -> None:
    message = SHARED.shorten(72, "WaitTimeout: ")

    assert (
        "\n".join(message.lines)
        == """\
WaitTimeout: greeting ci-1/hello did not have condition Ready=True
    within 15m0s: no condition Ready yet
  limit     15m0s, ended after 7.3s (watch mode)
  seen      it is there
  refused
    shared/greeter-a/operator: secrets is forbidden: User "greeter"
      cannot list resource "secrets"
  operator
    shared/greeter-a/operator: kopf.objects [ERROR] [ci-1/hello] Handler
      'write' failed with an exception and will try again in 60 seconds:
      (422) ConfigMap "hello" is invalid: []: Too long: may not be more
      than 1048576 bytes
  try: kubectl --namespace ci-1 get events"""
    )
    assert message.omitted == ("records",)


def test_a_text_cut_out_of_the_headline_is_shown_below() -> None:
    text = "lookup registry.invalid on 10.0.0.10:53: no such host"
    reason = f"{'one ' * 150}{text} {'two ' * 150}"
    waiting = (
        container_report("a", "waiting", message=text),
        container_report("b", "waiting", message=text),
    )
    report = WaitReport(
        "pod web",
        "become ready",
        True,
        reason,
        300.0,
        1.0,
        "watch",
        findings=Evidence("ci-1", pods=(pod_report("web", "Pending", "node-1", *waiting),)),
    )

    assert report.render().count(text) == 1
    assert f"a: waiting: {text}" in report.render()


def test_a_cluster_that_ends_with_the_run_has_no_command() -> None:
    lines = unscheduled("the embedded cluster ends with the run").render().splitlines()
    assert lines[-1] == "  look: the embedded cluster ends with the run"
    assert lines[4] == f"  namespace {LONG}"
    assert sum(LONG in line for line in lines) == 2


@pytest.mark.parametrize(
    ("subject", "reason", "failed", "summary"),
    [
        (
            f"job {LONG}/pi",
            f"pod pi-x (and 2 more pods): ImagePullBackOff: of {LONG}/y",
            True,
            "job/pi: 3 pods: ImagePullBackOff: of y",
        ),
        (f"job {LONG}/pi", "pod pi-x: Evicted", True, "job/pi: 1 pod: Evicted"),
        (f"job {LONG}/pi", "not found\nyet", False, "job/pi: not found yet (limit 5m0s)"),
        (f"pods with a=b in {LONG}", "", False, "pods with a=b: nothing was seen (limit 5m0s)"),
        ("node one", "not ready", True, "node one: not ready"),
    ],
)
def test_summary_begins_with_the_object_and_the_cause(
    subject: str, reason: str, failed: bool, summary: str
) -> None:
    report = WaitReport(subject, "x", failed, reason, 300.0, 1.0, "watch", findings=Evidence(LONG))
    assert report.summary == summary


def test_only_changes_are_kept() -> None:
    timeline = Timeline()

    told = [timeline.record(float(at), text) for at, text in enumerate(["a", "a", "b", "a"])]

    assert told == [True, False, True, True]
    assert timeline.first == (
        VerdictChange(0.0, "a"),
        VerdictChange(2.0, "b"),
        VerdictChange(3.0, "a"),
    )
    assert timeline.last == "a"
    assert timeline.left_out == 0


def test_many_changes_keep_both_ends() -> None:
    timeline = Timeline(limit=2)

    for at in range(10):
        timeline.record(float(at), str(at))

    assert [change.text for change in timeline.first] == ["0", "1"]
    assert [change.text for change in timeline.latest] == ["8", "9"]
    assert timeline.left_out == 6
    assert timeline.changes == 10
