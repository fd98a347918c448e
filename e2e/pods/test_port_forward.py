"""Commands, files and forwarded ports of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.request import urlopen

from e2e.objects import container, pod

if TYPE_CHECKING:
    from pytest_kwait import Kwait


SERVER = "mkdir -p /tmp/www; hostname > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"


def test_a_port_of_a_pod_is_a_port_here(kwait: Kwait) -> None:
    """A pod's server is reachable at a local address, with files that a command created."""
    kwait.create(pod("web", container(script=SERVER, ports=[{"containerPort": 8080}])))
    kwait.wait_for_pods_responding(pods=["web"], timeout="4m", poll="200ms")

    kwait.exec("web", "sh", "-c", "echo changed > /tmp/www/other.html")
    with kwait.port_forward("pod/web", 8080) as forward:
        address = f"http://127.0.0.1:{forward.port}"
        with urlopen(f"{address}/", timeout=30) as answer:
            first = answer.read()
        with urlopen(f"{address}/other.html", timeout=30) as answer:
            second = answer.read()

    assert (first, second) == (b"web\n", b"changed\n")
    assert forward.errors == []


def test_a_port_of_a_service_is_a_port_here(kwait: Kwait) -> None:
    """A service's port leads to its target port, as kubectl forwards it."""
    labelled = pod("web", container(script=SERVER, ports=[{"containerPort": 8080, "name": "http"}]))
    labelled["metadata"]["labels"] = {"app": "web"}
    ports = [{"port": 80, "targetPort": "http"}]
    spec = {"selector": {"app": "web"}, "ports": ports}
    kwait.create(
        labelled,
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec},
    )
    kwait.wait_for_pods_responding(pods=["web"], timeout="4m", poll="200ms")

    with (
        kwait.port_forward("service/web", 80) as forward,
        urlopen(f"http://127.0.0.1:{forward.port}/", timeout=30) as answer,
    ):
        assert answer.read() == b"web\n"

    assert kwait.exec(kwait.get("pod/web"), "hostname").stdout == "web\n"
