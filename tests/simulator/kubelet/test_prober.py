"""Network probes: reach listening containers, fail with the kubelet's messages."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.clock import FAST
from tests.simulator.cluster import Cluster, pod_spec

Obj = dict[str, Any]

_SERVE = "mkdir -p /w; echo hi > /w/index.html; echo ok > /w/ok; httpd -f -p 8080 -h /w"
_IP = "10.244.1.2"


def _run(
    cluster: Cluster, script: str, seconds: float = 4.0, field: str = "readinessProbe", **probe: Any
) -> tuple[bool, list[str]]:
    """Return whether the container becomes ready, and the events of its probe."""
    container = {
        field: {"periodSeconds": 1, **probe},
        "ports": [{"name": "web", "containerPort": 8080}],
    }
    cluster.create("pods", "p", pod_spec("sh", "-c", script, container=container))
    cluster.run(seconds)
    (status,) = cluster.get("pods", "p")["status"]["containerStatuses"]
    told = [one for one in cluster.events("p") if one.startswith(("Unhealthy", "ProbeWarning"))]
    return status["ready"], told


@pytest.mark.parametrize(
    "probe",
    [
        {"httpGet": {"port": 8080}},
        {"httpGet": {"port": 8080, "path": "/ok"}},
        {"httpGet": {"port": "web", "path": "/ok?x=1"}},
        {"httpGet": {"port": 8080, "host": _IP}},
        {"tcpSocket": {"port": 8080}},
        {"tcpSocket": {"port": "web"}},
    ],
)
def test_probes_reach_a_listening_container(cluster: Cluster, probe: Obj) -> None:
    assert _run(cluster, _SERVE, **probe) == (True, [])


@pytest.mark.parametrize(
    ("script", "probe", "told"),
    [
        (
            _SERVE,
            {"httpGet": {"port": 8080, "path": "/nope"}},
            "Readiness probe failed: HTTP probe failed with statuscode: 404",
        ),
        (
            "sleep 99",
            {"httpGet": {"port": 8080, "path": "/a"}},
            f'Readiness probe failed: Get "http://{_IP}:8080/a": '
            f"dial tcp {_IP}:8080: connect: connection refused",
        ),
        (
            _SERVE,
            {"httpGet": {"port": 8080, "scheme": "HTTPS"}},
            f'Readiness probe failed: Get "https://{_IP}:8080/": '
            "http: server gave HTTP response to HTTPS client",
        ),
        (
            "nc -l -p 8080; sleep 99",
            {"httpGet": {"port": 8080}},
            f'Readiness probe failed: Get "http://{_IP}:8080/": EOF',
        ),
        (
            "sleep 99",
            {"httpGet": {"port": 8080, "host": "10.9.9.9"}},
            'Readiness probe failed: Get "http://10.9.9.9:8080/": '
            "context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
        ),
        (
            "sleep 99",
            {"httpGet": {"port": 8080, "host": "nobody.invalid"}},
            'Readiness probe failed: Get "http://nobody.invalid:8080/": '
            "dial tcp: lookup nobody.invalid: no such host",
        ),
        (
            _SERVE,
            {"httpGet": {"port": 8080, "host": "localhost"}},
            'Readiness probe failed: Get "http://localhost:8080/": '
            "dial tcp 127.0.0.1:8080: connect: connection refused",
        ),
        (
            _SERVE,
            {"tcpSocket": {"port": 8080, "host": "kwait-node-1"}},
            "Readiness probe failed: dial tcp 172.30.0.2:8080: connect: connection refused",
        ),
        (
            # A node does not use the cluster's DNS.
            _SERVE,
            {"httpGet": {"port": 443, "host": "kubernetes.default.svc", "scheme": "HTTPS"}},
            'Readiness probe failed: Get "https://kubernetes.default.svc:443/": '
            "dial tcp: lookup kubernetes.default.svc: no such host",
        ),
        (
            "sleep 99",
            {"httpGet": {"port": "nope"}},
            "Readiness probe errored and resulted in unknown state: "
            'strconv.Atoi: parsing "nope": invalid syntax',
        ),
        (
            "sleep 99",
            {"tcpSocket": {"port": 8080}},
            f"Readiness probe failed: dial tcp {_IP}:8080: connect: connection refused",
        ),
        (
            "sleep 99",
            {"tcpSocket": {"port": 8080, "host": "10.9.9.9"}},
            "Readiness probe failed: dial tcp 10.9.9.9:8080: i/o timeout",
        ),
        (
            _SERVE,
            {"grpc": {"port": 8080}},
            f'Readiness probe failed: timeout: failed to connect service "{_IP}:8080" '
            "within 1s: context deadline exceeded",
        ),
    ],
)
def test_failed_connections_are_reported(
    cluster: Cluster, script: str, probe: Obj, told: str
) -> None:
    ready, events = _run(cluster, script, 6, **probe)
    assert not ready
    assert events[0].partition(": ")[2] == told


def test_a_late_server_makes_the_container_ready(cluster: Cluster) -> None:
    script = f"sleep 3; {_SERVE}"
    assert _run(cluster, script, 2.5, httpGet={"port": 8080})[0] is False
    cluster.run(4)
    assert cluster.get("pods", "p")["status"]["containerStatuses"][0]["ready"]


@pytest.mark.parametrize("field", ["readinessProbe", "startupProbe"])
@pytest.mark.parametrize(
    ("starts", "period", "ready_after"),
    [
        # Attempts at 0.1, 0.3, 0.7 s.
        (0.5, 10, 0.8),
        # The last attempt is that of the period's end; later periods have one each.
        (0.75, 1, 1.1),
        (1.05, 1, 2.1),
    ],
)
def test_startup_and_readiness_are_tried_early_in_fast_time(
    starts: float, period: int, ready_after: float, field: str
) -> None:
    cluster = Cluster(scale=FAST)
    container = {field: {"periodSeconds": period, "httpGet": {"port": 8080}}}
    script = f"sleep {starts}; {_SERVE}"
    cluster.create("pods", "p", pod_spec("sh", "-c", script, container=container))
    status: Obj = {}
    while "running" not in status.get("state", {}):
        cluster.run(0.01)
        status = next(iter(cluster.get("pods", "p")["status"].get("containerStatuses") or ()), {})
    cluster.run(ready_after - 0.2)
    assert not cluster.get("pods", "p")["status"]["containerStatuses"][0]["ready"]
    cluster.run(0.2)
    assert cluster.get("pods", "p")["status"]["containerStatuses"][0]["ready"]


def test_probes_keep_to_their_period_in_real_time(cluster: Cluster) -> None:
    script = f"sleep 0.5; {_SERVE}"
    assert _run(cluster, script, 9, periodSeconds=10, httpGet={"port": 8080})[0] is False
    cluster.run(5)
    assert cluster.get("pods", "p")["status"]["containerStatuses"][0]["ready"]


def test_early_attempts_that_fail_do_not_count() -> None:
    cluster = Cluster(scale=FAST)
    startup = {"periodSeconds": 2, "failureThreshold": 2, "tcpSocket": {"port": 9}}
    spec = pod_spec("sleep", "99", container={"startupProbe": startup})
    cluster.create("pods", "p", spec)
    cluster.run(2)
    told = [one for one in cluster.events("p") if one.startswith("Unhealthy")]
    assert [one.partition(": ")[0] for one in told] == ["Unhealthy x1"]
    assert not [one for one in cluster.events("p") if one.startswith("Killing")]
    cluster.run(2)
    assert [one for one in cluster.events("p") if one.startswith("Killing")]


def test_a_failed_network_liveness_probe_restarts_the_container(cluster: Cluster) -> None:
    _run(cluster, "sleep 99", 4, "livenessProbe", tcpSocket={"port": 9}, failureThreshold=2)
    assert "Killing x1: Container c failed liveness probe, will be restarted" in cluster.events("p")


def test_probes_of_unsimulated_programs_succeed(cluster: Cluster) -> None:
    probe = {"httpGet": {"port": 80, "path": "/healthz"}, "periodSeconds": 1}
    spec = pod_spec(container={"image": "nginx", "readinessProbe": probe})
    cluster.create("pods", "p", spec)
    cluster.run(4)
    assert cluster.get("pods", "p")["status"]["containerStatuses"][0]["ready"]


def test_a_probe_command_that_cannot_start_does_not_count(cluster: Cluster) -> None:
    ready, events = _run(cluster, "sleep 99", exec={"command": ["nope"]})
    assert not ready
    text = events[0].partition(": ")[2]
    assert text.startswith(
        "Readiness probe errored and resulted in unknown state: rpc error: code = Unknown "
        'desc = failed to exec in container: failed to start exec "'
    )
    assert text.endswith('exec: "nope": executable file not found in $PATH: unknown')


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "KWAIT-node-1"])
def test_host_network_pods_are_reached_by_node_name(cluster: Cluster, host: str) -> None:
    probe = {"httpGet": {"port": 8080, "host": host}, "periodSeconds": 1}
    ports = [{"containerPort": 8080}]
    spec = pod_spec("sh", "-c", _SERVE, container={"readinessProbe": probe, "ports": ports})
    cluster.create("pods", "p", {**spec, "hostNetwork": True})
    cluster.run(5)
    assert cluster.get("pods", "p")["status"]["containerStatuses"][0]["ready"]


@pytest.mark.parametrize(("script", "ready"), [("ready=1s", True), ("ready=never", False)])
def test_a_script_overrides_probe_results(cluster: Cluster, script: str, ready: bool) -> None:
    probe = {"grpc": {"port": 80}, "periodSeconds": 1}
    spec = pod_spec(container={"image": "nginx", "readinessProbe": probe})
    annotations = {"sim.kwait.dev/c": script}
    cluster.create("pods", "p", spec, annotations=annotations)
    cluster.run(5)
    assert cluster.get("pods", "p")["status"]["containerStatuses"][0]["ready"] is ready
