from __future__ import annotations

import re
from typing import Any

from pytest_kwait.suite.report import markdown
from pytest_kwait.suite.report.failures import FailedPhase
from pytest_kwait.suite.report.markdown import (
    MAX_SECTIONS,
    MAX_TESTS,
    count_failures,
    render_failures,
    render_report_failures,
)
from tools.sample_reports import night

_WAIT: dict[str, Any] = {
    "error": "WaitFailed",
    "subject": "pod t-opens-x5d3k/web",
    "goal": "become ready",
    "limit_seconds": 300.0,
    "elapsed_seconds": 12.34,
    "seen": "Pending",
    "timeline": [
        {"at": 0.0, "text": "not found yet"},
        {"at": 1.2, "text": "Pending (ContainerCreating)"},
        {"at": 12.3, "text": "container main: ImagePullBackOff"},
    ],
    "namespace": "t-opens-x5d3k",
    "objects": [{"kind": "Pod", "name": "web", "uid": "1", "resource": "pods", "exists": True}],
    "pods": [
        {
            "name": "web", "uid": "1", "phase": "Pending", "node": "node-1", "note": "",
            "deleting": False, "ready": False, "containers": [], "claims": [],
        }
    ],
    "events": [
        {
            "subject": "pod/web", "others": 0, "reason": "Failed", "message": "no such image",
            "count": 3,
        }
    ],
    "kubectl": ["--context", "kind-e2e"],
}  # fmt: skip


def failed(test: str = "test_opens", **more: Any) -> FailedPhase:
    return FailedPhase(
        f"tests/test_shop.py::{test}",
        **{
            "headline": "pod t-opens-x5d3k/web can no longer become ready: ImagePullBackOff",
            "place": "tests/test_shop.py:31",
            "step": "create the shop > scale it",
            "namespaces": ["t-opens-x5d3k"],
            "cluster": "existing kind-e2e",
            "kubectl": ["kubectl", "--context", "kind-e2e"],
            "waits": [_WAIT],
            "folder": "art/tests-test_shop",
            **more,
        },
    )


def test_failure_has_its_cause_timeline_place_and_commands() -> None:
    again = failed("test_closes", phase="setup", worker="gw1", shard="1/2", attempt=2)
    text = render_failures([failed(), again], ["Run `r1`."], ["report.html"])
    assert (
        text
        == """\
# Failures

2 failed tests, 1 distinct failure. Run `r1`.

All waits of the run: `report.html`.

1. `pod web can no longer become ready: ImagePullBackOff` (2 tests)

## 1. `pod web can no longer become ready: ImagePullBackOff`

2 tests:

- `tests/test_shop.py::test_opens`, at `tests/test_shop.py:31`
- `tests/test_shop.py::test_closes` (setup), attempt 2, shard 1/2, worker gw1,
  at `tests/test_shop.py:31`

Cause:

```text
pod web can no longer become ready: ImagePullBackOff
  awaited  pod web to become ready
  limit    5m0s, ended after 12.3s
  seen     Pending
  pods
    web Pending on node-1
  warnings
    3x Failed (pod/web): no such image
```

Timeline:

```text
       0.0s  not found yet
       1.2s  Pending (ContainerCreating)
      12.3s  container main: ImagePullBackOff
```

Where (`tests/test_shop.py::test_opens`):

- test: `tests/test_shop.py:31`
- step: `create the shop > scale it`
- cluster: `existing kind-e2e`
- namespace: `t-opens-x5d3k`
- object: `pods/web`
- artifacts: `art/tests-test_shop`

Look further:

```sh
# the namespaces of a test are deleted after it, unless --kwait-keep=failed
kubectl --context kind-e2e --namespace t-opens-x5d3k describe pods/web
cat art/tests-test_shop/failure.txt
pytest tests/test_shop.py::test_opens
```
"""
    )


def test_recorded_failure_is_replayed() -> None:
    recording = "art/a b/recording.jsonl.gz"
    text = render_failures([failed(recording=recording, kubectl=[], cluster="embedded")], [])
    assert "- cluster: `embedded`, which ends with the run\n" in text
    assert (
        "kwait replay 'art/a b/recording.jsonl.gz' --timeline\n"
        "# serves the failed state, and prints the KUBECONFIG for kubectl:\n"
        "kwait replay 'art/a b/recording.jsonl.gz' --at failure\n"
        "kubectl --namespace t-opens-x5d3k describe pods/web\n"
    ) in text


def test_failure_without_a_wait_has_the_explanation_of_pytest() -> None:
    shown = (
        "    def test_it():\n>       assert 1 == 2, 'x'\n"
        "E       AssertionError: x\nE       assert 1 == 2\n"
    )
    text = render_failures([failed(headline="AssertionError: x", waits=[], text=shown)], [])
    assert "Cause:\n\n```text\nAssertionError: x\nassert 1 == 2\n```\n" in text
    assert "Timeline" not in text
    assert "--namespace t-opens-x5d3k get all,events" in text


def test_output_of_a_program_is_no_markup() -> None:
    headline = "`rm` said ```x``` <b> *all* # not\x1ba heading"
    text = render_failures([failed(headline=headline, waits=[], text="E   a\nE   ```\nE   b")], [])
    assert "## 1. ```` `rm` said ```x``` <b> *all* # not a heading ````\n" in text
    # The fence is longer than any in the block.
    assert re.search(r"^````text$.*^````$", text, re.M | re.S)


def test_lines_fit_a_terminal_except_what_is_copied() -> None:
    long = {**_WAIT, "seen": "word " * 60}
    text = render_failures([failed(headline="it failed: " + "reason " * 40, waits=[long])], [])
    copied = ("kubectl", "cat", "pytest")
    assert [
        line for line in text.splitlines() if len(line) > 80 and not line.startswith(copied)
    ] == []


def test_evidence_of_another_version_leaves_the_rest() -> None:
    odd = {**_WAIT, "pods": [{"nombre": 1}], "timeline": [{"when": 1}], "limit_seconds": "5s"}
    text = render_failures([failed(waits=[odd])], [])
    assert "Timeline" not in text
    assert "  awaited  pod web to become ready\n" in text
    assert "get all,events" in text


def test_many_tests_and_failures_are_bounded_and_the_rest_is_named() -> None:
    words = ["".join(pair) for pair in zip("abcdefghijklmnop" * 4, "q" * 64, strict=True)]
    many = [failed(f"test_{number}") for number in range(MAX_TESTS + 5)]
    others = [
        failed(f"test_of_{place}", headline=f"failure {word * (1 + place // 16)}")
        for place, word in enumerate(words)
    ]
    text = render_failures([*many, *others], [])
    assert f"{MAX_TESTS + 5} tests:\n" in text
    assert "\n- 5 more\n" in text
    assert text.count("\n## ") == MAX_SECTIONS + 1
    rest = 1 + len(others) - MAX_SECTIONS
    assert f"## Left out\n\n{rest} more distinct failures, to keep this file short." in text
    assert f", in `{others[-1].folder}`)" in text.replace("\n  ", " ")


def test_size_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(markdown, "MAX_SIZE", 1500)
    text = render_failures([failed(), failed("test_b", headline="another")], [])
    assert "## 2." not in text
    assert "1 more distinct failure, to keep" in text


def test_report_of_several_shards_is_one_list() -> None:
    text = render_report_failures(night(40, shards=2))
    assert text.startswith("# Failures\n\n")
    assert "Runs `nightly-1` (shard 1/2), `nightly-2` (shard 2/2)." in " ".join(text.split())


def test_numbers_are_of_tests_and_of_distinct_failures() -> None:
    assert count_failures([failed()]) == "1 failed test, 1 distinct failure"
    assert count_failures([failed(), failed(phase="teardown", headline="x")]) == (
        "1 failed test, 2 distinct failures"
    )


def test_run_without_failures_says_so() -> None:
    assert render_failures([], ["Run `r1`."]) == "# Failures\n\nNo test failed. Run `r1`.\n"
