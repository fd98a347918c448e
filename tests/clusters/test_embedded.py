from __future__ import annotations

import gc
import sys
from functools import partial
from pathlib import Path

import pytest

from pytest_kwait.cli.state_file import ProcessIdentity
from pytest_kwait.clusters import embedded
from pytest_kwait.clusters.embedded import EmbeddedProvider
from pytest_kwait.clusters.simulator_process import SimulatorProcess, Timing
from pytest_kwait.errors import ClusterError

FAKE = Path(__file__).with_name("fake_simulator.py")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def behave(monkeypatch: pytest.MonkeyPatch, behaviour: str) -> None:
    command = (sys.executable, "-I", "-S", str(FAKE), behaviour)
    monkeypatch.setattr(embedded, "SimulatorProcess", partial(SimulatorProcess, command=command))


def test_it_is_reached_by_a_kubeconfig_of_its_own(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_stopping_leaves_nothing_behind(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behave(monkeypatch, "ready")
    cluster = EmbeddedProvider().start()
    identity = ProcessIdentity.of(cluster.pid)
    assert identity is not None
    cluster.stop()
    assert not identity.alive
    assert list(temporary.iterdir()) == []
    cluster.stop()


@pytest.mark.parametrize(("timing", "scale"), [("fast", 0.1), ("real", 1.0)])
def test_what_is_asked_for_is_handed_to_the_process(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, timing: Timing, scale: float
) -> None:
    behave(monkeypatch, "ready")
    cluster = EmbeddedProvider(nodes=3, timing=timing, port=6443).start()
    log = (cluster.kubeconfig.parent / "log").read_text()
    cluster.stop()
    assert f"--nodes 3 --timing {timing} --port 6443 " in log
    assert cluster.time_scale == scale


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
    monkeypatch.setattr(embedded, "read_kubeconfig", _refuse)
    with pytest.raises(ClusterError, match=r"^unreadable$"):
        EmbeddedProvider().start()
    assert ended == [0]
    assert list(temporary.iterdir()) == []


def _refuse(_path: Path) -> None:
    raise ClusterError("unreadable")
