"""kubectl: its arguments, its results, and the messages of its failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import ClusterError, InvalidArgument, WaitTimeout
from pytest_kwait.suite.kubectl import KubectlError, KubectlResult, run_kubectl
from tests.suite.fakes import FakeCluster
from tests.suite.test_kwait import make_kwait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_kwait import Kwait

ECHO = 'printf "%s\\n" "$@"'
"""Writes each argument in a line."""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that puts a kubectl of a shell script in PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    def write(script: str) -> None:
        program = tmp_path / "bin" / "kubectl"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return write


@pytest.fixture
def kwait(tmp_path: Path) -> Iterator[Kwait]:
    made = make_kwait(FakeCluster(), tmp_path, owned=True)
    ApiSession.of(made.client).kubectl_args = ("--kubeconfig", "/run/config", "--context", "ours")
    yield made
    made.close()


def test_cluster_and_namespace_come_before_the_arguments(
    kwait: Kwait, install: Callable[[str], None]
) -> None:
    install(ECHO)
    options = ["--kubeconfig", "/run/config", "--context", "ours", "--namespace"]

    assert kwait.kubectl("get", "pods", "-o", "name").stdout.splitlines() == [
        *options,
        "ci-1",
        "get",
        "pods",
        "-o",
        "name",
    ]
    other = kwait.kubectl("get", "a b", namespace="other").stdout.splitlines()
    assert other == [*options, "other", "get", "a b"]


def test_input_and_output_are_text(install: Callable[[str], None]) -> None:
    install("cat; echo warning >&2; printf '\\377'")

    found = run_kubectl(["apply", "-f", "-"], stdin="kind: Päd\n", timeout=30)

    assert found == KubectlResult(("apply", "-f", "-"), 0, "kind: Päd\n\ufffd", "warning\n")
    assert repr(found) == (
        "KubectlResult(exit_code=0, stdout='kind: Päd\\n\ufffd', stderr='warning\\n')"
    )


def test_without_input_it_reads_the_end(install: Callable[[str], None]) -> None:
    install("cat; echo over")
    assert run_kubectl(["apply", "-f", "-"], timeout=30).stdout == "over\n"


def test_the_folder_is_its_working_directory(
    install: Callable[[str], None], tmp_path: Path
) -> None:
    install("pwd")
    assert run_kubectl(["x"], folder=tmp_path, timeout=30).stdout == f"{tmp_path}\n"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo out; echo 'not found' >&2; exit 1", "exit code 1: not found"),
        ("echo out; exit 3", "exit code 3: out"),
        ("exit 2", "exit code 2: no output"),
        ("kill -9 $$", "exit code -9: no output"),
        ("printf 'a%.0s' $(seq 3000); exit 1", f"exit code 1: {'a' * 2000}"),
    ],
)
def test_another_exit_code_is_an_error(
    install: Callable[[str], None], script: str, said: str
) -> None:
    """Options of the cluster are left out."""
    install(script)

    with pytest.raises(KubectlError) as caught:
        run_kubectl(["get", "cm", "x"], ["--kubeconfig", "/run/config"], timeout=30)

    assert str(caught.value) == f"kubectl get cm x ended with {said}"
    assert caught.value.result.args == ("get", "cm", "x")


def test_without_check_any_exit_code_is_a_result(
    kwait: Kwait, install: Callable[[str], None]
) -> None:
    install("echo no >&2; exit 7")

    found = kwait.kubectl("get", "cm", "x", check=False)

    assert (found.exit_code, found.stdout, found.stderr) == (7, "", "no\n")


def test_a_machine_without_kubectl(
    kwait: Kwait, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ClusterError) as caught:
        kwait.kubectl("get", "pods")

    assert str(caught.value) == (
        "kubectl get pods cannot run: no kubectl is in PATH; install it from "
        "https://kubernetes.io/docs/tasks/tools/"
    )


def test_a_command_that_does_not_end_is_killed(
    kwait: Kwait, install: Callable[[str], None]
) -> None:
    install("exec sleep 600")

    with pytest.raises(WaitTimeout) as caught:
        kwait.kubectl("get", "pods", "--watch", timeout="300ms")

    assert str(caught.value) == "kubectl get pods --watch did not end within 300ms"


@pytest.mark.parametrize("args", [(), (1,), ("get", ["pods"])])
def test_arguments_are_texts(kwait: Kwait, args: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        kwait.kubectl(*args)
    assert str(caught.value) == f"args={args!r} is not valid: use texts, for example 'get', 'pods'"
