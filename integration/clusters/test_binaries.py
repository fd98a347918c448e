from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import wait, wait_for_deployment_complete
from pytest_kwait.cli.state_file import ProcessIdentity
from pytest_kwait.client.availability import availability_of
from pytest_kwait.client.resource import DEPLOYMENTS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.clusters import ClusterRequest, binaries
from pytest_kwait.clusters.binaries import BinariesProvider, find_assets
from pytest_kwait.clusters.node_table import NodeTable
from pytest_kwait.errors import ClusterError, InvalidArgument
from pytest_kwait.simulator.protocol.nodes import EmbeddedNode
from pytest_kwait.testing import FakeClock
from tests.clusters.fake_binaries import write

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.clock import Clock

_ADVICE = (
    "give the folder of etcd and kube-apiserver with --kwait-assets=DIR or KUBEBUILDER_ASSETS, for "
    'example export KUBEBUILDER_ASSETS="$(setup-envtest use -p path)"'
)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def provider(folder: Path, clock: Clock | None = None) -> BinariesProvider:
    request = ClusterRequest(assets=folder)
    return BinariesProvider(request) if clock is None else BinariesProvider(request, clock=clock)


def children(pid: int) -> list[ProcessIdentity]:
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [found for each in pids if (found := ProcessIdentity.of(int(each))) is not None]


def await_end(*identities: ProcessIdentity) -> None:
    wait.poll_immediate(0.02, 10, lambda: not any(each.alive for each in identities))


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_cluster_has_its_own_files_and_certificates(tmp_path: Path, temporary: Path) -> None:
    cluster = provider(write(tmp_path / "bin")).start()
    try:
        folder = cluster.kubeconfig.parent
        assert (cluster.provider, cluster.context, cluster.time_scale) == ("binaries", None, 1.0)
        assert (cluster.has_controllers, cluster.ends_with_run) == (False, True)
        assert re.fullmatch(r"https://127\.0\.0\.1:2\d{4}", cluster.server)
        assert folder.parent == temporary
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        private = [*folder.glob("*.key"), cluster.kubeconfig]
        assert [stat.S_IMODE(each.stat().st_mode) for each in private] == [0o600] * 4
        etcd = (folder / "etcd.log").read_text()
        assert f"--data-dir={folder}/etcd " in etcd
        urls = re.findall(r"--listen-(client|peer)-urls=(\S+)", etcd)
        assert dict(urls) == {"client": "unix://etcd:1", "peer": "unix://etcd:2"}
        assert (
            "--disable-admission-plugins=ServiceAccount"
            in (folder / "kube-apiserver.log").read_text()
        )
        assert cluster.outlook == (
            "the control plane of binaries ends with the run; --kwait-artifacts=DIR keeps objects, "
            "events and logs of failed tests"
        )
        cluster.artifacts = "out"
        assert cluster.outlook == (
            "the control plane of binaries ends with the run; out has objects, events and logs of "
            "failed tests"
        )
    finally:
        cluster.stop()


@linux
def test_stop_ends_both_programs_and_removes_their_folder(tmp_path: Path, temporary: Path) -> None:
    cluster = provider(write(tmp_path / "bin")).start()
    running = [*children(cluster.pid), *filter(None, [ProcessIdentity.of(cluster.pid)])]
    assert len(running) == 3
    assert cluster.export_logs(tmp_path / "artifacts") == ""
    cluster.stop()
    assert not any(each.alive for each in running)
    assert list(temporary.iterdir()) == []
    assert sorted(each.name for each in (tmp_path / "artifacts").iterdir()) == [
        "etcd.log",
        "kube-apiserver.log",
    ]
    cluster.stop()


def test_a_program_that_ends_at_the_start_is_reported_with_its_log(
    tmp_path: Path, temporary: Path
) -> None:
    with pytest.raises(ClusterError) as caught:
        provider(write(tmp_path / "bin", server="fails")).start()
    first, *_, error, last = str(caught.value).splitlines()
    assert first == "the control plane of binaries did not start (exit status 1):"
    assert error == "Error: it does not like its flags"
    assert last == "kube-apiserver has ended (exit status 3)"
    assert list(temporary.iterdir()) == []


def test_a_port_that_was_taken_meanwhile_is_replaced(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = tmp_path / "attempts"
    monkeypatch.setenv("FAKE_ATTEMPTS", str(attempts))
    provider(write(tmp_path / "bin", server="taken")).start().stop()
    assert attempts.read_text() == "2"
    monkeypatch.setenv("FAKE_ALWAYS", "1")
    attempts.unlink()
    with pytest.raises(ClusterError, match="bind: address already in use"):
        provider(tmp_path / "bin").start()
    assert attempts.read_text() == "3"
    assert list(temporary.iterdir()) == []


def test_a_server_that_does_not_become_ready_is_an_error(tmp_path: Path, temporary: Path) -> None:
    with pytest.raises(
        ClusterError, match=r"^kube-apiserver was not ready within 60s: it did not answer"
    ):
        provider(write(tmp_path / "bin", server="mute"), FakeClock()).start()
    assert list(temporary.iterdir()) == []


def test_what_is_not_ready_is_named(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "_PAUSE", 20.0)  # of the fake clock, which then ends the wait
    clock = FakeClock()
    asked = binaries._ControlPlane._request_readiness

    def ask(self: binaries._ControlPlane, context: object) -> str:
        wait.poll_immediate(0.02, 20, lambda: bool(asked(self, context)))  # type: ignore[arg-type]
        return asked(self, context)  # type: ignore[arg-type]

    monkeypatch.setattr(binaries._ControlPlane, "_request_readiness", ask)
    with pytest.raises(ClusterError, match=r"60s: \[-\]etcd failed: reason withheld\n"):
        provider(write(tmp_path / "bin", server="unready"), clock).start()


def test_no_free_port_is_an_error(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(binaries, "_PORTS", range(port, port + 1))
        with pytest.raises(ClusterError, match=f"^no port of {port} to {port} is free$"):
            provider(write(tmp_path / "bin")).start()
    assert list(temporary.iterdir()) == []


def test_the_end_of_a_program_is_reported_to_waits(tmp_path: Path, temporary: Path) -> None:
    cluster = provider(write(tmp_path / "bin")).start()
    try:
        availability = availability_of(cluster.server)
        assert availability.is_watched
        log = (cluster.kubeconfig.parent / "kube-apiserver.log").read_text()
        assert log.startswith("--etcd-servers=unix://etcd:1 ")
        pid = int((cluster.kubeconfig.parent / "etcd.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        assert availability.wait_for_change("") == (
            "the control plane of binaries has ended (exit status 1): etcd has ended (signal 9)"
        )
    finally:
        cluster.stop()


def with_controllers(folder: Path, clock: Clock | None = None) -> BinariesProvider:
    nodes = NodeTable((EmbeddedNode("gpu", {"pool": "gpu"}), EmbeddedNode("plain")))
    request = ClusterRequest(assets=folder, controllers=True, nodes=nodes)
    return BinariesProvider(request) if clock is None else BinariesProvider(request, clock=clock)


_WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {"name": "c", "image": "busybox", "command": ["sh", "-c", "echo up; sleep 99"]}
                ]
            },
        },
    },
}


def test_controllers_schedule_and_run_pods(tmp_path: Path, temporary: Path) -> None:
    cluster = with_controllers(write(tmp_path / "bin", server="embedded")).start()
    try:
        assert (cluster.has_controllers, cluster.time_scale) == (True, 1.0)
        assert cluster.nodes == ("gpu", "plain")
        log = (cluster.kubeconfig.parent / "kube-apiserver.log").read_text()
        assert "--disable-admission-plugins" not in log
        assert "--service-cluster-ip-range=10.0.0.0/16 " in log
        assert "--kubelet-preferred-address-types=InternalIP " in log
        session = ApiSession.of(cluster.client())
        deadline = Deadline.after(30, SYSTEM_CLOCK)
        session.create(DEPLOYMENTS, _WEB, namespace="default", deadline=deadline)
        wait_for_deployment_complete(cluster.client(), "default", "web", timeout=60)
        assert cluster.export_logs(tmp_path / "artifacts") == ""
        assert (tmp_path / "artifacts" / "controllers.log").read_text() == ""
    finally:
        cluster.stop()


@linux
def test_the_end_of_controllers_is_reported_to_waits(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        binaries, "_CONTROLLERS_COMMAND", ("/bin/sh", "-c", "touch controllers.ready; read x <p")
    )
    made = os.mkfifo
    monkeypatch.setattr(
        binaries._ControlPlane, "_write_certificates", _also(lambda self: made(self._folder / "p"))
    )
    cluster = with_controllers(write(tmp_path / "bin")).start()
    try:
        assert len(children(cluster.pid)) == 3
        (shell,) = [
            each
            for each in children(cluster.pid)
            if Path(f"/proc/{each.pid}/comm").read_text().strip() in ("sh", "dash", "bash")
        ]
        os.kill(shell.pid, signal.SIGKILL)
        assert availability_of(cluster.server).wait_for_change("") == (
            "the control plane of binaries has ended (exit status 1): controllers has ended "
            "(signal 9)"
        )
    finally:
        cluster.stop()


def test_controllers_that_do_not_start_are_reported_with_their_log(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("/bin/sh", "-c", "echo no such server; exit 4")
    monkeypatch.setattr(binaries, "_CONTROLLERS_COMMAND", command)
    with pytest.raises(ClusterError) as caught:
        with_controllers(write(tmp_path / "bin")).start()
    assert str(caught.value) == (
        "the control plane of binaries did not start (exit status 1):\n"
        "no such server\n"
        "controllers has ended (exit status 4)"
    )
    assert list(temporary.iterdir()) == []


def test_nodes_that_do_not_become_ready_are_an_error(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "_CONTROLLERS_COMMAND", ("/bin/sh", "-c", "read x <p"))
    made = os.mkfifo
    monkeypatch.setattr(
        binaries._ControlPlane, "_write_certificates", _also(lambda self: made(self._folder / "p"))
    )
    monkeypatch.setattr(binaries, "_PAUSE", 20.0)  # of the fake clock, which then ends the wait
    asked = binaries._ControlPlane._request_readiness

    def ask(self: binaries._ControlPlane, context: object) -> str:
        wait.poll_immediate(0.02, 20, lambda: bool(asked(self, context)))  # type: ignore[arg-type]
        return asked(self, context)  # type: ignore[arg-type]

    monkeypatch.setattr(binaries._ControlPlane, "_request_readiness", ask)
    with pytest.raises(ClusterError) as caught:
        with_controllers(write(tmp_path / "bin"), FakeClock()).start()
    assert str(caught.value) == "controllers was not ready within 60s: no node is Ready"
    assert list(temporary.iterdir()) == []


def _also(act: Callable[[Any], object]) -> Callable[[Any], None]:
    """Return a method that writes the certificates, then acts."""
    write_certificates = binaries._ControlPlane._write_certificates

    def both(self: Any) -> None:
        write_certificates(self)
        act(self)

    return both


def test_controllers_and_the_api_alone_exclude_each_other(tmp_path: Path) -> None:
    request = ClusterRequest(assets=write(tmp_path), controllers=True, api_only=True)
    with pytest.raises(InvalidArgument) as caught:
        BinariesProvider(request)
    assert str(caught.value) == (
        "controllers=True is not valid: with --kwait-api-only there are none; leave one of both out"
    )


_OWNER = """
import sys
from pathlib import Path
from pytest_kwait.clusters import ClusterRequest
from pytest_kwait.clusters.binaries import BinariesProvider

cluster = BinariesProvider(ClusterRequest(assets=Path(sys.argv[1]))).start()
print(cluster.pid, cluster.kubeconfig.parent, flush=True)
sys.stdin.read()
"""


@linux
@pytest.mark.parametrize("victim", ["owner", "supervisor"])
def test_nothing_outlives_a_killed_owner_or_supervisor(tmp_path: Path, victim: str) -> None:
    command = [sys.executable, "-c", _OWNER, str(write(tmp_path / "bin"))]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": root}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        running = [*children(int(pid)), *filter(None, [ProcessIdentity.of(int(pid))])]
        assert len(running) == 3
        os.kill(owner.pid if victim == "owner" else int(pid), signal.SIGKILL)
        await_end(*running)
        if victim == "owner":
            wait.poll_immediate(0.02, 10, lambda: not Path(folder).exists())
        owner.kill()


def test_programs_are_looked_for_as_envtest_does(tmp_path: Path) -> None:
    given, assets, default = (write(tmp_path / name) for name in ("given", "assets", "default"))
    environ = {"KUBEBUILDER_ASSETS": str(assets)}
    found = find_assets(ClusterRequest(assets=given), environ, default)
    assert found == {"etcd": given / "etcd", "kube-apiserver": given / "kube-apiserver"}
    assert find_assets(ClusterRequest(), environ, default)["etcd"] == assets / "etcd"
    assert find_assets(ClusterRequest(), {}, default)["etcd"] == default / "etcd"
    environ["TEST_ASSET_KUBE_APISERVER"] = str(given / "kube-apiserver")
    assert find_assets(ClusterRequest(), environ, default) == {
        "etcd": assets / "etcd",
        "kube-apiserver": given / "kube-apiserver",
    }


def test_programs_in_the_home_of_a_missing_user_are_an_error() -> None:
    with pytest.raises(ClusterError) as caught:
        find_assets(ClusterRequest(), {"KUBEBUILDER_ASSETS": "~absent-user/bin"})
    assert str(caught.value) == (
        "etcd ~absent-user/bin/etcd (from env KUBEBUILDER_ASSETS) is not valid: there is no such "
        "user"
    )


def test_missing_programs_are_an_error_with_a_way_out(tmp_path: Path) -> None:
    request = ClusterRequest(assets=tmp_path, sources={"assets": "option --kwait-assets"})
    with pytest.raises(ClusterError) as caught:
        BinariesProvider(request, environ={})
    assert str(caught.value) == (
        f"etcd is not there: {tmp_path}/etcd (from option --kwait-assets); {_ADVICE}"
    )
    (tmp_path / "etcd").write_text("text")
    with pytest.raises(ClusterError) as caught:
        BinariesProvider(ClusterRequest(), environ={"KUBEBUILDER_ASSETS": str(tmp_path)})
    assert str(caught.value) == (
        f"etcd is not a program: {tmp_path}/etcd (from env KUBEBUILDER_ASSETS); {_ADVICE}"
    )
    with pytest.raises(ClusterError, match="envtest's default"):
        find_assets(ClusterRequest(), {}, tmp_path / "nowhere")


def test_a_kubeconfig_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        BinariesProvider(ClusterRequest(context="lab"))
    assert str(caught.value) == (
        "context='lab' is not valid: the control plane of binaries brings its own; use "
        "--kwait-cluster=existing with it"
    )
