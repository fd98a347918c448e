from __future__ import annotations

import fcntl
import re
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any

import pytest

from pytest_kwait.clusters import ClusterRequest
from pytest_kwait.clusters.local_clusters import (
    K3D,
    KIND,
    MINIKUBE,
    LocalCluster,
    LocalProvider,
    LocalTool,
)
from pytest_kwait.errors import ClusterError, InvalidArgument
from tests.clusters.fake_tool import install, log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Recorded of kind v0.30.0, k3d v5.8.3 and Docker's client 28.2.2 without a running Docker; what
# they print with one is of their sources.
_NO_DOCKER = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"  # noqa: E501
_KIND_LIST_FAILS = (
    'ERROR: failed to list clusters: command "docker ps -a --filter '
    'label=io.x-k8s.kind.cluster --format \'{{.Label "io.x-k8s.kind.cluster"}}\'" failed with '
    f"error: exit status 1\n\nCommand Output: {_NO_DOCKER}\n"
)
_K3D_LIST_FAILS = (
    "\x1b[31mFATA\x1b[0m[0000] runtime failed to list nodes: docker failed to get containers with "
    f"labels 'map[app:k3d]': failed to list containers: {_NO_DOCKER} \n"
)
_KIND_CREATES = (
    'Creating cluster "kwait" ...\n • Ensuring node image (kindest/node:v1.34.0) 🖼 ...\n'
    " ✓ Ensuring node image (kindest/node:v1.34.0) 🖼\n"
)
Dialogue = dict[str, tuple[str, str, int]]

_DIALOGUES: dict[str, Dialogue] = {
    "kind": {
        "get clusters": ("", "No kind clusters found.\n", 0),
        "create cluster": ("WRITE", _KIND_CREATES, 0),
        "export kubeconfig": ("WRITE", 'Set kubectl context to "kind-dev"\n', 0),
        "load docker-image": ("", 'Image: "a:1" with ID "sha256:1" not yet present on node\n', 0),
        "export logs": ("", "Exporting logs for cluster\n", 0),
        "delete cluster": ("", 'Deleting cluster "kwait" ...\n', 0),
    },
    "k3d": {
        "cluster list -o json": ("[]\n", "", 0),
        "cluster list": (
            '[{"name":"x","nodes":[{"name":"k3d-x-server-0","role":"server"},'
            '{"name":"k3d-x-serverlb","role":"loadbalancer"}]}]\n',
            "",
            0,
        ),
        "cluster create": ("\x1b[36mINFO\x1b[0m[0010] Cluster created successfully!\n", "", 0),
        "cluster start": ("\x1b[36mINFO\x1b[0m[0000] All servers already running.\n", "", 0),
        "kubeconfig get": ("KUBECONFIG", "", 0),
        "image import": ("\x1b[36mINFO\x1b[0m[0003] Successfully imported 1 image(s)\n", "", 0),
        "cluster delete": ("\x1b[36mINFO\x1b[0m[0001] Successfully deleted cluster\n", "", 0),
    },
    "minikube": {
        "profile list": ('{"invalid":[],"valid":[]}\n', "", 0),
        "start": ("WRITE* Done! kubectl is now configured\n", "", 0),
        "-p": ("", "", 0),
        "delete": ("* Removed all traces of the cluster.\n", "", 0),
    },
    "docker": {"logs": ("the node's log\n", "", 0)},
}


class Machine:
    """A machine with the programs, and the folder of its records."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.state = folder / "state"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        for name, dialogue in _DIALOGUES.items():
            install(self.programs, name, dialogue)

    def answer(self, tool: str, **answers: tuple[str, str, int]) -> None:
        given = {name.replace("_", " "): answer for name, answer in answers.items()}
        install(self.programs, tool, {**given, **_DIALOGUES[tool]} | given)

    def provider(self, tool: LocalTool, **settings: Any) -> LocalProvider:
        return LocalProvider(
            tool,
            ClusterRequest(run="r1", **settings),
            environ={"PATH": f"{self.programs}:/usr/bin:/bin", "KUBECONFIG": "/home/mine"},
            state=self.state,
        )

    def start(self, tool: LocalTool, **settings: Any) -> LocalCluster:
        return self.provider(tool, **settings).start()

    def log(self, tool: str) -> list[str]:
        return log(self.programs, tool)

    @property
    def records(self) -> list[str]:
        return [each.name for each in self.state.iterdir()]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(made.temporary))
    monkeypatch.setenv("PATH", f"{made.programs}:/usr/bin:/bin")
    return made


_COMMANDS = {
    "kind": [
        "get clusters",
        "create cluster --name NAME --kubeconfig FILE --wait 5m0s --image node:1 --config CONFIG "
        "--retain",
        "load docker-image a:1 b:1 --name NAME",
        "export logs LOGS --name NAME",
        "delete cluster --name NAME --kubeconfig FILE",
    ],
    "k3d": [
        "cluster list -o json",
        "cluster create NAME --wait --timeout 5m0s --kubeconfig-update-default=false "
        "--kubeconfig-switch-context=false --image node:1 --config CONFIG --retain",
        "kubeconfig get NAME",
        "image import a:1 b:1 --cluster NAME",
        "cluster list NAME -o json",
        "cluster delete NAME",
    ],
    "minikube": [
        "profile list --light -o json",
        "start -p NAME --wait=all --wait-timeout=5m0s --interactive=false --embed-certs "
        "--base-image node:1 --retain",
        "-p NAME image load a:1 b:1",
        "-p NAME logs --file=LOGS/minikube.log",
        "delete -p NAME",
    ],
}


@pytest.mark.parametrize("tool", [KIND, K3D, MINIKUBE], ids=lambda tool: tool.name)
def test_a_new_cluster_is_named_after_the_run_and_deleted_with_it(
    machine: Machine, tmp_path: Path, tool: LocalTool
) -> None:
    config, logs = tmp_path / "config.yaml", tmp_path / "artifacts" / "cluster"
    config.write_text("kind: Cluster\n")
    cluster = machine.start(
        tool,
        node_image="node:1",
        cluster_config=config,
        cluster_args=("--retain",),
        load_image=("a:1", "b:1"),
    )
    assert re.fullmatch(r"kwait-r1-[0-9a-f]{4}", cluster.name)
    assert (cluster.provider, cluster.context, cluster.ends_with_run) == (tool.name, None, True)
    assert cluster.server == "https://127.0.0.1:6443"
    assert cluster.kubeconfig.parent.parent == machine.temporary
    assert machine.records == [f"{tool.name}.{cluster.name}"]
    assert cluster.export_logs(logs) == ""
    file = str(cluster.kubeconfig)
    cluster.stop()
    shown = [
        line.replace(cluster.name, "NAME")
        .replace(file, "FILE")
        .replace(str(config), "CONFIG")
        .replace(str(logs), "LOGS")
        for line in machine.log(tool.name)
    ]
    assert shown == _COMMANDS[tool.name]
    assert machine.records == []
    assert list(machine.temporary.iterdir()) == []
    cluster.stop()
    assert len(machine.log(tool.name)) == len(shown), "it is deleted once"


def test_logs_of_k3d_are_those_of_its_containers(machine: Machine, tmp_path: Path) -> None:
    cluster = machine.start(K3D)
    cluster.export_logs(tmp_path / "logs")
    cluster.stop()
    assert machine.log("docker") == ["logs k3d-x-server-0", "logs k3d-x-serverlb"]
    assert (tmp_path / "logs" / "k3d-x-server-0.log").read_text() == "the node's log\n"


@pytest.mark.parametrize(
    ("tool", "command", "listed", "expected"),
    [
        (KIND, "get clusters", "dev\nprod\n", "export kubeconfig --name dev --kubeconfig FILE"),
        (
            K3D,
            "cluster list -o json",
            '[{"name":"dev"}]',
            "cluster start dev --wait --timeout 5m0s",
        ),
        (
            MINIKUBE,
            "profile list",
            '{"valid":[{"Name":"dev"}],"invalid":[]}',
            "start -p dev --wait=all --wait-timeout=5m0s --interactive=false --embed-certs",
        ),
    ],
    ids=["kind", "k3d", "minikube"],
)
def test_a_cluster_that_is_there_is_used_and_left(
    machine: Machine, tool: LocalTool, command: str, listed: str, expected: str
) -> None:
    machine.answer(tool.name, **{command: (listed, "", 0)})
    cluster = machine.start(tool, cluster_name="dev", node_image="node:1")
    file = str(cluster.kubeconfig)
    assert (cluster.name, cluster.ends_with_run) == ("dev", False)
    cluster.keep()
    assert cluster.notes() == [], "it was there before"
    cluster.stop()
    assert machine.log(tool.name)[1].replace(file, "FILE") == expected
    assert not any("delete" in line for line in machine.log(tool.name))
    assert list(machine.temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("tool", "kubeconfig", "delete"),
    [
        (KIND, "kind export kubeconfig --name dev", "kind delete cluster --name dev"),
        (K3D, "k3d kubeconfig merge dev", "k3d cluster delete dev"),
        (MINIKUBE, "minikube update-context -p dev", "minikube delete -p dev"),
    ],
    ids=["kind", "k3d", "minikube"],
)
def test_a_created_cluster_can_be_kept(
    machine: Machine, tool: LocalTool, kubeconfig: str, delete: str
) -> None:
    cluster = machine.start(tool, cluster_name="dev", keep_cluster="failed")
    assert not cluster.ends_with_run, "a later run may use it"
    assert cluster.notes() == []
    cluster.keep()
    assert cluster.notes() == [
        f"{tool.name} cluster dev is kept: `{kubeconfig}` gives its kubeconfig, `{delete}` deletes "
        "it"
    ]
    cluster.stop()
    assert not any("delete" in line for line in machine.log(tool.name))
    assert machine.records == []


def test_a_missing_tool_is_an_error_that_says_how_to_install_it(machine: Machine) -> None:
    (machine.programs / "kind").unlink()
    with pytest.raises(ClusterError) as caught:
        machine.start(KIND)
    assert str(caught.value) == (
        "kind is not on the PATH, so `kind get clusters` cannot be run; install it "
        "(https://kind.sigs.k8s.io/docs/user/quick-start/#installation)\n"
        "kind needs Docker, Podman or nerdctl, installed and running"
    )
    assert list(machine.temporary.iterdir()) == []


def test_a_machine_without_a_runtime_is_an_error_of_the_tool(machine: Machine) -> None:
    machine.answer("kind", **{"get clusters": ("", _KIND_LIST_FAILS, 1)})
    with pytest.raises(ClusterError) as caught:
        machine.start(KIND)
    first, *_, output, needs = str(caught.value).splitlines()
    assert first == "`kind get clusters` failed (exit status 1):"
    assert output == f"Command Output: {_NO_DOCKER}"
    assert needs == "kind needs Docker, Podman or nerdctl, installed and running"
    machine.answer("k3d", **{"cluster list -o json": ("", _K3D_LIST_FAILS, 1)})
    with pytest.raises(ClusterError) as caught:
        machine.start(K3D)
    assert str(caught.value).splitlines() == [
        "`k3d cluster list -o json` failed (exit status 1):",
        "FATA[0000] runtime failed to list nodes: docker failed to get containers with labels "
        f"'map[app:k3d]': failed to list containers: {_NO_DOCKER}",
        "k3d needs Docker, installed and running",
    ]


def test_a_cluster_that_cannot_be_created_is_removed(machine: Machine) -> None:
    error = f"ERROR: failed to create cluster: {'x' * 2000} no space left on device\n"
    machine.answer("kind", **{"create cluster": ("", error, 1)})
    with pytest.raises(ClusterError) as caught:
        machine.start(KIND, cluster_name="dev")
    first, line = str(caught.value).splitlines()
    assert re.fullmatch(r"`kind create cluster --name dev .*` failed \(exit status 1\):", first)
    assert line.startswith("ERROR: failed to create cluster: xxx")
    assert line.endswith("xx no space left on device")
    assert len(line) < 410
    assert machine.log("kind")[-1].startswith("delete cluster --name dev ")
    assert machine.records == []


def test_images_that_cannot_be_loaded_end_the_start(machine: Machine) -> None:
    error = 'ERROR: image: "a:1" not present locally\n'
    machine.answer("kind", **{"load docker-image": ("", error, 1)})
    with pytest.raises(ClusterError, match=r'image: "a:1" not present locally$'):
        machine.start(KIND, load_image=("a:1",))
    assert machine.log("kind")[-1].startswith("delete cluster ")


def test_a_cluster_that_cannot_be_deleted_is_named(machine: Machine) -> None:
    cluster = machine.start(KIND, cluster_name="dev")
    machine.answer("kind", **{"delete cluster": ("", f"ERROR: {_NO_DOCKER}\n", 1)})
    with pytest.raises(ClusterError) as caught:
        cluster.stop()
    first, *_, last = str(caught.value).splitlines()
    assert first.startswith("kind cluster dev was not deleted: `kind delete cluster --name dev ")
    assert last == "delete it: kind delete cluster --name dev"
    assert machine.records == ["kind.dev"], "a later run deletes it"


def test_logs_that_cannot_be_exported_are_a_problem_to_report(
    machine: Machine, tmp_path: Path
) -> None:
    machine.answer("kind", **{"export logs": ("", "", 1)})
    cluster = machine.start(KIND)
    problem = cluster.export_logs(tmp_path / "logs")
    cluster.stop()
    assert problem.endswith(" failed (exit status 1); it said nothing")


def test_clusters_of_killed_runs_are_deleted(machine: Machine) -> None:
    machine.state.mkdir()
    for name in (
        "kind.kwait-dead",
        "kind.kwait-r1-90e0",
        "kind.kwait-dev",
        "kind.kwait-a11e",
        "k3d.kwait-dead",
    ):
        (machine.state / name).touch()
    names = "kwait-dead\nkwait-dev\nkwait-a11e\n"
    machine.answer("kind", **{"get clusters": (names, "", 0)})
    with (machine.state / "kind.kwait-a11e").open() as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        machine.start(KIND).stop()
    deleted = [line.split()[3] for line in machine.log("kind") if line.startswith("delete")]
    assert deleted[0] == "kwait-dead"
    assert len(deleted) == 2, "and the run's own"
    assert sorted(machine.records) == ["k3d.kwait-dead", "kind.kwait-a11e", "kind.kwait-dev"]


def test_a_named_cluster_of_a_killed_run_is_deleted_by_a_run_of_that_name(machine: Machine) -> None:
    machine.state.mkdir()
    (machine.state / "kind.dev").write_text("1\n")
    machine.answer("kind", **{"get clusters": ("dev\n", "", 0)})
    machine.start(KIND, cluster_name="other").stop()
    assert not any("--name dev" in line for line in machine.log("kind"))
    assert machine.records == ["kind.dev"]
    machine.start(KIND, cluster_name="dev").stop()
    of_dev = [line for line in machine.log("kind") if "--name dev" in line]
    assert of_dev[0].startswith("delete cluster ")
    assert machine.records == []


def _while_waiting(monkeypatch: pytest.MonkeyPatch, end: Callable[[], object]) -> None:
    """Call `end` once a record is to be locked: another run has it until then."""
    pending = [end]

    def flock(file: IO[str], operation: int) -> None:
        while pending:
            pending.pop()()
        fcntl.flock(file, operation)

    waiting = SimpleNamespace(flock=flock, LOCK_EX=fcntl.LOCK_EX, LOCK_NB=fcntl.LOCK_NB)
    monkeypatch.setattr("pytest_kwait.clusters.local_clusters.fcntl", waiting)


def test_a_cluster_that_another_run_keeps_meanwhile_is_used_and_left(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machine.start(KIND, cluster_name="dev", keep_cluster="always")
    first.keep()

    def end() -> None:
        first.stop()
        machine.answer("kind", **{"get clusters": ("dev\n", "", 0)})

    _while_waiting(monkeypatch, end)
    second = machine.start(KIND, cluster_name="dev", keep_cluster="always")
    second.stop()
    lines = [line.partition(" --")[0] for line in machine.log("kind")]
    listed = ["get clusters", "get clusters"]
    assert lines == [*listed, "create cluster", *listed, "export kubeconfig"]
    assert machine.records == []


def test_a_cluster_whose_run_is_killed_meanwhile_is_replaced(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.state.mkdir()
    killed = (machine.state / "kind.dev").open("a")

    def end() -> None:
        killed.write("1\n")
        killed.close()
        machine.answer("kind", **{"get clusters": ("dev\n", "", 0)})

    _while_waiting(monkeypatch, end)
    record = machine.state / "kind.dev"
    monkeypatch.setattr(
        "pytest_kwait.clusters.local_clusters._dead_records", lambda *arguments: iter(())
    )
    cluster = machine.start(KIND, cluster_name="dev")
    lines = [line.partition(" --")[0] for line in machine.log("kind")]
    assert lines == ["get clusters", "get clusters", "delete cluster", "create cluster"]
    assert record.exists()
    cluster.stop()


def test_a_cluster_is_left_if_the_names_cannot_be_listed_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end() -> None:
        machine.answer("kind", **{"get clusters": ("", f"ERROR: {_NO_DOCKER}\n", 1)})

    _while_waiting(monkeypatch, end)
    with pytest.raises(ClusterError):
        machine.start(KIND, cluster_name="dev")
    assert machine.log("kind") == ["get clusters", "get clusters"]
    assert machine.records == []


def test_a_record_that_its_run_removes_meanwhile_is_not_adopted(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.state.mkdir()
    record = machine.state / "kind.kwait-ended"
    record.write_text("1\n")
    machine.answer("kind", **{"get clusters": ("kwait-ended\n", "", 0)})
    _while_waiting(monkeypatch, record.unlink)
    machine.start(KIND).stop()
    assert not any("kwait-ended" in line for line in machine.log("kind"))


def test_output_that_is_no_json_is_an_error(machine: Machine) -> None:
    machine.answer("k3d", **{"cluster list -o json": ("NAME   SERVERS\n", "", 0)})
    with pytest.raises(ClusterError) as caught:
        machine.start(K3D)
    assert str(caught.value).splitlines()[:2] == [
        "`k3d cluster list -o json` printed no JSON:",
        "NAME   SERVERS",
    ]


def test_a_user_without_a_home_has_no_records(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(cls: type[Path]) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", classmethod(fail))
    with pytest.raises(ClusterError, match=r"^this user has no home folder; set HOME$"):
        LocalProvider(KIND, ClusterRequest(), environ={})
    LocalProvider(KIND, ClusterRequest(), environ={"XDG_STATE_HOME": str(machine.state)})


def test_settings_are_checked_before_anything_is_run(machine: Machine, tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    sources = {"cluster_config": "ini kwait_cluster_config"}
    with pytest.raises(ClusterError) as caught:
        machine.provider(KIND, cluster_config=missing, sources=sources)
    assert str(caught.value) == (
        f"cluster configuration {missing} (from ini kwait_cluster_config) does not exist"
    )
    with pytest.raises(InvalidArgument) as refused:
        machine.provider(K3D, context="lab")
    assert str(refused.value) == (
        "context='lab' is not valid: the k3d cluster brings its own; use --kwait-cluster=existing "
        "with it"
    )
    assert machine.log("kind") == machine.log("k3d") == []
