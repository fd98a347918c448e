from __future__ import annotations

import base64
import gc
import json
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml

from pytest_kwait.cli.state_file import ProcessIdentity
from pytest_kwait.clusters import provider
from pytest_kwait.clusters.cluster import ClusterRequest
from pytest_kwait.clusters.node_table import NodeTable
from pytest_kwait.clusters.provider import EmbeddedProvider
from pytest_kwait.clusters.simulator_process import SimulatorProcess
from pytest_kwait.errors import ClusterError
from pytest_kwait.simulator.protocol.nodes import EmbeddedNode, Taint
from pytest_kwait.simulator.protocol.options import EmbeddedOptions, Timing
from pytest_kwait.simulator.protocol.options_json import read_options
from tests.clusters.fake_simulator import read_given

FAKE = Path(__file__).with_name("fake_simulator.py")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def behave(monkeypatch: pytest.MonkeyPatch, behaviour: str) -> None:
    command = (sys.executable, "-I", "-S", str(FAKE), behaviour)
    monkeypatch.setattr(provider, "SimulatorProcess", partial(SimulatorProcess, command=command))


def test_cluster_has_its_own_kubeconfig(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behave(monkeypatch, "ready")
    monkeypatch.setenv("KUBECONFIG", "/elsewhere")
    cluster = EmbeddedProvider().start()
    try:
        assert (cluster.provider, cluster.context) == ("embedded", None)
        assert cluster.server == "https://127.0.0.1:6443"
        assert cluster.kubeconfig.parent.parent == temporary
        assert cluster.kubeconfig.parent.stat().st_mode & 0o077 == 0
        token = cluster.client().configuration.get_api_key_with_prefix("BearerToken")
        assert token == "Bearer secret"
    finally:
        cluster.stop()


def test_its_credentials_are_in_the_folder_that_its_process_removes(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, "ready")
    cluster = EmbeddedProvider().start()
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    authority = base64.b64encode(b"an authority").decode()
    content["clusters"][0]["cluster"]["certificate-authority-data"] = authority
    cluster.kubeconfig.write_text(yaml.safe_dump(content))
    certificate = Path(cluster.client().configuration.ssl_ca_cert)
    assert certificate.read_bytes() == b"an authority"
    assert certificate.parent == cluster.kubeconfig.parent
    cluster.stop()
    assert list(temporary.iterdir()) == []


def test_stop_removes_all_files(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behave(monkeypatch, "ready")
    cluster = EmbeddedProvider().start()
    identity = ProcessIdentity.of(cluster.pid)
    assert identity is not None
    cluster.stop()
    assert not identity.alive
    assert list(temporary.iterdir()) == []
    cluster.stop()


@pytest.mark.parametrize(("timing", "scale"), [("fast", 0.1), ("real", 1.0)])
def test_options_are_passed_to_the_process(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, timing: Timing, scale: float
) -> None:
    behave(monkeypatch, "ready")
    given = EmbeddedOptions(nodes=3, timing=timing, port=6443)
    cluster = EmbeddedProvider(given).start()
    log = (cluster.kubeconfig.parent / "log").read_text()
    cluster.stop()
    assert read_options(json.dumps(read_given(log)).encode()) == given
    assert cluster.time_scale == scale


def test_an_api_server_alone_is_requested_from_the_process(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, "ready")
    cluster = EmbeddedProvider.requested(ClusterRequest(api_only=True)).start()
    log = (cluster.kubeconfig.parent / "log").read_text()
    cluster.stop()
    assert read_given(log) == {"api_only": True}
    assert not cluster.has_controllers


def test_nodes_are_requested_from_the_process(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, "ready")
    nodes = (EmbeddedNode("gpu", {"pool": "gpu"}, (Taint("a", "b", "NoSchedule"),), {"cpu": "4"}),)
    cluster = EmbeddedProvider.requested(ClusterRequest(nodes=NodeTable(nodes))).start()
    log = (cluster.kubeconfig.parent / "log").read_text()
    cluster.stop()
    given = read_options(json.dumps(read_given(log)).encode())
    assert given == EmbeddedOptions(nodes=nodes)


@pytest.mark.parametrize(
    ("requested", "given"),
    [
        (ClusterRequest(isolation="none"), {"isolation": "none"}),
        (ClusterRequest(load_balancers=True), {"load_balancers": True}),
    ],
    ids=["isolation", "load balancers"],
)
def test_options_are_requested_from_the_process(
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    requested: ClusterRequest,
    given: dict[str, object],
) -> None:
    behave(monkeypatch, "ready")
    cluster = EmbeddedProvider.requested(requested).start()
    log = (cluster.kubeconfig.parent / "log").read_text()
    cluster.stop()
    assert read_given(log) == given


def test_a_start_that_fails_leaves_nothing_behind(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, "fails")
    with pytest.raises(ClusterError, match=r"^the embedded cluster did not start \(exit status 3"):
        EmbeddedProvider().start()
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_a_kubeconfig_that_cannot_be_used_ends_the_process_too(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, "ready")
    ended: list[int] = []
    stop = SimulatorProcess.stop

    def spy(self: SimulatorProcess) -> None:
        stop(self)
        ended.append(self.wait())

    monkeypatch.setattr(SimulatorProcess, "stop", spy)
    monkeypatch.setattr(provider, "read_kubeconfig", _refuse)
    with pytest.raises(ClusterError, match=r"^unreadable$"):
        EmbeddedProvider().start()
    assert ended == [0]
    assert list(temporary.iterdir()) == []


def _refuse(_path: Path) -> None:
    raise ClusterError("unreadable")
