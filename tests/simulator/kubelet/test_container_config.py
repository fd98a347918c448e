"""Configurations of containers for their runtimes."""

from __future__ import annotations

import signal

import pytest

from pytest_kwait.simulator.kubelet.container_config import (
    find_stop_signal,
    list_ports,
    make_security_context,
)
from pytest_kwait.simulator.kubelet.cri import LinuxContainerSecurityContext


@pytest.mark.parametrize(
    ("name", "number"),
    [
        (None, 15),
        ("SIGUSR1", 10),
        ("SIGRTMIN+2", signal.SIGRTMIN + 2),
        ("SIGRTMAX-1", signal.SIGRTMAX - 1),
    ],
)
def test_the_stop_signal_is_the_containers(name: str | None, number: int) -> None:
    assert find_stop_signal({"lifecycle": {"stopSignal": name}} if name else {}) == number


def test_ports_of_probes_count_as_declared() -> None:
    container = {
        "ports": [{"containerPort": 53, "protocol": "UDP"}],
        "readinessProbe": {"httpGet": {"port": 80}}, "livenessProbe": {"grpc": {"port": 90}},
        "startupProbe": {"tcpSocket": {"port": "named"}},
    }  # fmt: skip
    assert list_ports(container) == {(53, "UDP"), (80, "TCP"), (90, "TCP")}


def test_rights_are_the_containers_or_else_the_pods() -> None:
    unset = LinuxContainerSecurityContext(run_as_user_origin="the pod")
    container = {"name": "c", "securityContext": {}}
    assert make_security_context({"spec": {}}, container) == unset
    named = {**container, "securityContext": {"runAsUser": None}}
    assert make_security_context({"spec": {"securityContext": None}}, named) == unset
    rights = make_security_context({"spec": {"securityContext": {"runAsUser": 7}}}, container)
    assert (rights.run_as_user, rights.run_as_user_origin) == (7, "the pod")
    own = {"name": "c", "securityContext": {"runAsUser": 8}}
    assert make_security_context({"spec": {}}, own).run_as_user_origin == 'container "c"'
