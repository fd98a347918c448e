"""The answers to the waits of Kubernetes' e2e framework, and the command that lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools import upstream_waits
from tools.upstream_waits import Function, find_answer, find_folders, read_answers, read_functions

if TYPE_CHECKING:
    from pathlib import Path

POD = """
package pod

// WaitForPodReady waits.
func WaitForPodReady(ctx context.Context, name string) error {
	return WaitForPodReadyTimeout(ctx, name, podStart)
}

func WaitForPodReadyTimeout(ctx context.Context, name string, limit time.Duration) error {}
func WaitForPodReadySlow(ctx context.Context, name string) error {}
func WaitForList[T any](ctx context.Context) []T {}
func (c *PodClient) WaitForFinish(ctx context.Context, name string) {}
func (c *hidden) WaitForNothing() {}
func waitForInternal() {}
func IsSetAsExpected() bool {}
func Waiter() {}
"""
PAGE = """
## Waits by package

| Go | here |
|---|---|
| **`e2epod`** | |
| `WaitForPodReady`, `…Slow` | `wait_for_pod_ready` |
| `PodClient.WaitForFinish` | `wait_for_pod_no_longer_running` |
| **`e2enode`, `e2erc`** | |
| `WaitForNode`, `pod.WaitForList` | `wait_for_node_ready` |

Not here: SSH (`WaitForTunnels`,
`WaitForManager`).

## Other
"""


@pytest.fixture
def framework(tmp_path: Path) -> Path:
    for path, text in (
        ("framework/pod/wait.go", POD),
        ("framework/pod/wait_test.go", "func WaitForTest() {}"),
        ("framework/size.go", "func WaitForTunnels() {}\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path / "framework"


def test_the_functions_of_a_folder(framework: Path) -> None:
    assert [str(each) for each in read_functions(framework)] == [
        "framework.WaitForTunnels",
        "pod.WaitForList",
        "pod.WaitForPodReady",
        "pod.WaitForPodReadySlow",
        "pod.WaitForPodReadyTimeout",
        "pod.PodClient.WaitForFinish",
    ]


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (Function("pod", "", "WaitForPodReady"), "`wait_for_pod_ready`"),
        (Function("pod", "", "WaitForPodReadySlow"), "`wait_for_pod_ready`"),
        (Function("pod", "", "WaitForPodReadyTimeout"), "`wait_for_pod_ready`"),
        (Function("pod", "", "WaitForPodReadyWithTimeout"), "`wait_for_pod_ready`"),
        (Function("statefulset", "", "WaitForPodReady"), ""),
        (Function("pod", "", "WaitForJobSlow"), ""),
        (Function("pod", "PodClient", "WaitForFinish"), "`wait_for_pod_no_longer_running`"),
        (Function("pod", "Other", "WaitForFinish"), ""),
        (Function("rc", "", "WaitForNode"), "`wait_for_node_ready`"),
        (Function("pod", "", "WaitForList"), "`wait_for_node_ready`"),
        (Function("framework", "", "WaitForManager"), "not here"),
    ],
)
def test_the_answer_to_a_function(function: Function, answer: str) -> None:
    assert find_answer(function, read_answers(PAGE)) == answer


def test_a_function_without_an_answer_fails_the_command(
    framework: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(upstream_waits, "PAGE", page)
    page.write_text(PAGE.replace("`…Slow`", "`…Late`").replace(", `pod.WaitForList`", ""))

    assert upstream_waits.main([str(framework)]) == 1
    printed = capsys.readouterr()
    assert printed.err == (
        "2 without an answer in docs/port-go.md:\n  pod.WaitForList\n  pod.WaitForPodReadySlow\n"
    )
    assert "pod.WaitForPodReady: `wait_for_pod_ready`\n" in printed.out
    assert "pod.WaitForList: NO ANSWER\n" in printed.out
    page.write_text(PAGE)
    assert upstream_waits.main([str(framework)]) == 0


def test_a_folder_without_waits_fails_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert upstream_waits.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"no waits in {tmp_path}\n"


def test_the_newest_kubernetes_of_the_module_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text(f"#!/bin/sh\necho {tmp_path}\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="has no Kubernetes: run `go mod download"):
        find_folders()
    for version in ("1.36.10", "1.37.0-beta.0", "1.37.0", "1.36.9"):
        (tmp_path / f"k8s.io/kubernetes@v{version}").mkdir(parents=True)

    (first, _) = find_folders()

    assert first == tmp_path / "k8s.io/kubernetes@v1.37.0/test/e2e/framework"
    monkeypatch.setenv("PATH", str(tmp_path / "k8s.io"))
    with pytest.raises(SystemExit, match="there is no go in PATH"):
        find_folders()
