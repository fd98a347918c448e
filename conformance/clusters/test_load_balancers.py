"""Runs with load balancers: programs in pods reach them and are reached, in every isolation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import run

if TYPE_CHECKING:
    from pathlib import Path

SUITE = '''
import socket, sys
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest
from pytest_kwait import wait

PORT = 18080
OPENER = build_opener(ProxyHandler({}))
SERVER = """
import http.server, socket, threading
def echo():
    while True:
        data, client = datagrams.recvfrom(100)
        datagrams.sendto(b"echo " + data, client)
datagrams = socket.socket(type=socket.SOCK_DGRAM)
datagrams.bind(("0.0.0.0", 8080))
threading.Thread(target=echo, daemon=True).start()
http.server.test(http.server.SimpleHTTPRequestHandler, port=8080, bind="0.0.0.0")
"""
CLIENT = """
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for url in sys.argv[1:]:
    print(opener.open(url, timeout=10).status)
"""
BUSYBOX = "mkdir /www; echo web > /www/index.html; httpd -f -p 8080 -h /www"

@pytest.fixture(scope="session")
def kwait_images():
    return {"program:1": [sys.executable, "-c"]}

def pod(name, **container):
    own = {"name": "main", "image": "program:1", **container}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [own], "restartPolicy": "Never",
                     "terminationGracePeriodSeconds": 0}}

def serve(kwait, name, **container):
    """Create a pod behind a load balancer; return the address."""
    ports = [{"name": protocol.lower(), "port": PORT, "targetPort": 8080, "protocol": protocol}
             for protocol in ("TCP", "UDP")]
    ready = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    kwait.create(pod(name, readinessProbe=ready, **container),
                 {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
                  "spec": {"type": "LoadBalancer", "ports": ports, "selector": {"app": name}}})
    (ingress,) = kwait.wait_for_load_balancer(name)["status"]["loadBalancer"]["ingress"]
    return ingress["ip"]

def request(address):
    found = []
    def ask():
        try:
            with OPENER.open(f"http://{address}:{PORT}/", timeout=5) as answer:
                found.append(answer.status)
        except (URLError, ConnectionError):
            return False
        return True
    wait.poll_immediate("200ms", "1m", ask)
    return found[-1]

def check(kwait, name, address):
    kwait.wait_for_pod_ready(name)
    assert request(address) == 200
    kwait.create(pod("customer", args=[CLIENT, f"http://{address}:{PORT}/"]))
    kwait.wait_for_pod_success("customer")
    assert kwait.logs("customer").strip() == "200"

def test_interpreted_pod(kwait):
    address = serve(kwait, "web", image="busybox:1.36", command=["sh", "-c", BUSYBOX])
    check(kwait, "web", address)

@pytest.mark.kwait_skip_unless_programs_isolated
def test_program(kwait):
    address = serve(kwait, "web", args=[SERVER])
    check(kwait, "web", address)
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.settimeout(30)
        client.sendto(b"hello", (address, PORT))
        assert client.recv(100) == b"echo hello"
'''


@pytest.mark.own_cluster
@pytest.mark.parametrize(
    ("isolation", "passed"),
    [("namespaces", "2 passed"), ("intercepted", "2 passed"), ("none", "1 passed, 1 skipped")],
)
def test_programs_reach_load_balancers_and_are_reached(
    tmp_path: Path, isolation: str, passed: str
) -> None:
    """By the test and by each other; plain processes serve no ports of pods."""
    options = ["--kwait-load-balancers", f"--kwait-isolation={isolation}"]
    status, shown = run(tmp_path, None, SUITE, *options)
    refused = [line for line in shown.splitlines() if "this machine refuses it" in line]
    if refused:
        pytest.skip(refused[0])
    assert status == 0, shown
    assert passed in shown


@pytest.mark.own_cluster
def test_load_balancers_of_a_cluster_without_controllers_are_refused(tmp_path: Path) -> None:
    options = ["--kwait-load-balancers", "--kwait-api-only"]
    status, shown = run(tmp_path, None, SUITE, *options)
    assert status == 4
    assert (
        "load_balancers=True (from option --kwait-load-balancers) is not valid: with "
        "--kwait-api-only there are none; leave one of both out"
    ) in shown
