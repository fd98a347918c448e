from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait.clusters.provider as provider
from pytest_kwait.cli import main
from pytest_kwait.client.resource import NAMESPACES
from pytest_kwait.errors import ApiError, ClusterError
from pytest_kwait.suite.cleanup.owned_objects import Owner, kept_annotations
from tests.suite.fakes import FakeCluster

if TYPE_CHECKING:
    from pathlib import Path

_LEFT = Owner("r1", "tests/x.py::t", "t").manifest(0.0, "default/gone")
_NAME = _LEFT["metadata"]["name"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    made.transport.now = 1000.0
    _LEFT["metadata"]["uid"] = "u"
    made.transport.objects[NAMESPACES.path(None, _NAME)] = _LEFT
    chosen: list[Any] = []

    class Provider:
        def start(self) -> FakeCluster:
            return made

    def choose(*args: Any, **options: Any) -> Provider:
        chosen.append((args, options))
        return Provider()

    monkeypatch.setattr(provider, "choose_provider", choose)
    return made


def test_what_dead_runs_left_goes(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["janitor"]) == 0
    assert capsys.readouterr().out == (
        f"deleted namespaces/{_NAME} (tests/x.py::t)\n"
        "removed 1 namespace and 0 other objects of 1 run\n"
    )
    assert cluster.transport.objects == {}
    assert cluster.stopped


def test_a_dry_run_only_says_so(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["janitor", "--dry-run"]) == 0
    assert capsys.readouterr().out == (
        f"would delete namespaces/{_NAME} (tests/x.py::t)\n"
        "would remove 1 namespace and 0 other objects of 1 run\n"
    )
    assert len(cluster.transport.objects) == 1


def test_what_a_run_has_kept_goes_before_it_expires_if_asked_for(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _LEFT["metadata"]
    notes = found["annotations"] | kept_annotations(0)
    kept = {**_LEFT, "metadata": {**found, "annotations": notes}}
    path = NAMESPACES.path(None, _NAME)
    cluster.transport.objects[path] = kept

    assert main(["janitor", "--run-id", "r1"]) == 0
    assert capsys.readouterr().out == (
        f"left namespaces/{_NAME}: kept, expires 1970-01-02T00:00:00Z\nnothing to remove\n"
    )
    assert main(["janitor", "--run-id", "r2", "--kept"]) == 0
    assert capsys.readouterr().out == "nothing to remove\n"
    assert main(["janitor", "--run-id", "r1", "--kept", "--dry-run"]) == 0
    assert capsys.readouterr().out == (
        f"would delete namespaces/{_NAME} (tests/x.py::t)\n"
        "would remove 1 namespace and 0 other objects of 1 run\n"
    )
    assert path in cluster.transport.objects

    assert main(["janitor", "--run-id", "r1", "--kept"]) == 0
    assert capsys.readouterr().out == (
        f"deleted namespaces/{_NAME} (tests/x.py::t)\n"
        "removed 1 namespace and 0 other objects of 1 run\n"
    )
    assert cluster.transport.objects == {}


def test_what_others_have_kept_is_not_asked_for(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["janitor", "--kept"]) == 2
    assert capsys.readouterr().err == (
        "kwait janitor: --kept=True is not valid: give --run-id ID as well: what others have kept "
        "is theirs to remove\n"
    )
    assert cluster.transport.requests == []


def test_what_cannot_be_deleted_is_status_1(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    path = NAMESPACES.path(None, _NAME)
    denied = ApiError("namespaces is forbidden", status=403, reason="Forbidden")
    cluster.transport.refuse("DELETE", path, denied)
    assert main(["janitor", "--no-wait"]) == 1
    said = capsys.readouterr().out
    assert f"namespaces/{_NAME} could not be deleted: " in said
    assert "namespaces is forbidden" in said


def test_namespaces_that_are_not_shown_are_a_problem(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = ApiError("namespaces is forbidden", status=403, reason="Forbidden")
    cluster.transport.refuse("GET", "/api/v1/namespaces", denied)
    assert main(["janitor"]) == 1
    assert capsys.readouterr().out.startswith("namespaces cannot be looked at: ")


def test_leases_that_are_not_shown_end_it(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = ApiError("leases is forbidden", status=403, reason="Forbidden")
    for path in ("leases", "namespaces/default/leases"):
        cluster.transport.refuse("GET", f"/apis/coordination.k8s.io/v1/{path}", denied)
    assert main(["janitor"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("kwait janitor: the cluster could not be swept: ")
    assert said.out == ""
    assert len(cluster.transport.objects) == 1


def test_a_cluster_that_does_not_answer_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def choose(*args: Any, **options: Any) -> Any:
        raise ClusterError("server https://x cannot be reached")

    monkeypatch.setattr(provider, "choose_provider", choose)
    assert main(["janitor"]) == 1
    assert capsys.readouterr().err == "kwait janitor: server https://x cannot be reached\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--timeout", "soon"],
            "kwait janitor: --timeout='soon' is not valid: ",
        ),
        (["--timeout", "0s"], "kwait janitor: --timeout='0s' is not valid: "),
        (["--run-id", "A b"], "kwait janitor: --run-id='A b' is not valid: use up to 63 "),
        (["--namespace", "A b"], "kwait janitor: --namespace='A b' is not valid: use up to 63 "),
    ],
)
def test_what_cannot_be_meant_is_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["janitor", *arguments]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_a_kubeconfig_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["janitor", "--kubeconfig", str(tmp_path / "no")]) == 1
    said = capsys.readouterr().err
    assert str(tmp_path / "no") in said
    assert "(option --kubeconfig)" in said or "from option --kubeconfig" in said
