"""Configurations of containers for their runtimes."""

from __future__ import annotations

import signal

import pytest

from pytest_kwait.simulator.image_reference import parse_image
from pytest_kwait.simulator.kubelet.container_config import (
    find_stop_signal,
    list_ports,
    make_security_context,
)
from pytest_kwait.simulator.kubelet.cri import Image, ImageSpec, LinuxContainerSecurityContext


@pytest.mark.parametrize(
    ("name", "of_image", "number"),
    [
        (None, "", 15),
        (None, "SIGQUIT", 3),
        (None, "37", 37),
        ("SIGUSR1", "SIGQUIT", 10),
        ("SIGRTMIN+2", "", signal.SIGRTMIN + 2),
        ("SIGRTMAX-1", "", signal.SIGRTMAX - 1),
    ],
)
def test_the_stop_signal_is_that_of_the_container_or_its_image(
    name: str | None, of_image: str, number: int
) -> None:
    image = Image(ImageSpec(parse_image("a"), "a"), stop_signal=of_image)
    container = {"lifecycle": {"stopSignal": name}} if name else {}
    assert find_stop_signal(container, image) == number


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
