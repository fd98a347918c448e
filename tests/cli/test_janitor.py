from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait.clusters.provider as provider
from pytest_kwait.cli import main
from pytest_kwait.client.resource import NAMESPACES
from pytest_kwait.errors import ApiError, ClusterError
from pytest_kwait.suite.cleanup.owned_objects import Owner, kept_annotations
from pytest_kwait.temp_dir import TempDir
from tests.suite.fakes import FakeCluster

if TYPE_CHECKING:
    from pathlib import Path

_LEFT = Owner("r1", "tests/x.py::t", "t").manifest(0.0, "default/gone")
_NAME = _LEFT["metadata"]["name"]


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The temporary folder of the machine: empty."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


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


def test_leftovers_of_dead_runs_are_deleted(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["janitor"]) == 0
    assert capsys.readouterr().out == (
        f"deleted namespaces/{_NAME} (tests/x.py::t)\n"
        "removed 1 namespace and 0 other objects of 1 run\n"
    )
    assert cluster.transport.objects == {}
    assert cluster.stopped


def test_dry_run_only_prints(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["janitor", "--dry-run"]) == 0
    assert capsys.readouterr().out == (
        f"would delete namespaces/{_NAME} (tests/x.py::t)\n"
        "would remove 1 namespace and 0 other objects of 1 run\n"
    )
    assert len(cluster.transport.objects) == 1


def test_folders_of_killed_runs_are_deleted(
    cluster: FakeCluster, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if (child := os.fork()) == 0:
        folders = [TempDir()]
        os._exit(len(folders))
    os.waitpid(child, 0)
    (folder,) = temporary.iterdir()
    cluster.transport.objects.clear()
    for option, verb in (("--dry-run", "would delete"), ("--no-wait", "deleted")):
        assert main(["janitor", option]) == 0
        first, _, _ = capsys.readouterr().out.partition("\n")
        assert first == f"{verb} {folder} (folder of a killed run)"
    assert not folder.exists()


def test_kept_objects_of_a_run_are_deleted_on_request(
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


def test_kept_objects_of_other_runs_stay(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["janitor", "--kept"]) == 2
    assert capsys.readouterr().err == (
        "kwait janitor: --kept=True is not valid: give --run-id ID as well: what others have kept "
        "is theirs to remove\n"
    )
    assert cluster.transport.requests == []


def test_environments_that_stay_are_of_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["janitor", "--environments", "--run-id", "r1"]) == 2
    assert capsys.readouterr().err == (
        "kwait janitor: --environments=True is not valid: leave out --run-id: an environment that "
        "stays is of no run\n"
    )


def test_environments_alone_are_removed_if_asked(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["janitor", "--environments"]) == 0
    assert capsys.readouterr().out == "nothing to remove\n"
    assert NAMESPACES.path(None, _NAME) in cluster.transport.objects


def test_failed_deletion_is_status_1(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    path = NAMESPACES.path(None, _NAME)
    denied = ApiError("namespaces is forbidden", status=403, reason="Forbidden")
    cluster.transport.refuse("DELETE", path, denied)
    assert main(["janitor", "--no-wait"]) == 1
    said = capsys.readouterr().out
    assert f"namespaces/{_NAME} could not be deleted: " in said
    assert "namespaces is forbidden" in said


def test_unlistable_namespaces_are_a_problem(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = ApiError("namespaces is forbidden", status=403, reason="Forbidden")
    cluster.transport.refuse("GET", "/api/v1/namespaces", denied)
    assert main(["janitor"]) == 1
    assert capsys.readouterr().out.startswith("namespaces cannot be looked at: ")


def test_unlistable_leases_end_the_command(
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


def test_unreachable_cluster_is_an_error(
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
def test_invalid_usage_is_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["janitor", *arguments]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_missing_kubeconfig_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["janitor", "--kubeconfig", str(tmp_path / "no")]) == 1
    said = capsys.readouterr().err
    assert str(tmp_path / "no") in said
    assert "(option --kubeconfig)" in said or "from option --kubeconfig" in said
