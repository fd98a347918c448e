"""Pods that reach each other through services, by name and by address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.objects import container, pod, service
from e2e.services.test_endpoints import WEB, server

if TYPE_CHECKING:
    from pytest_kwait import Kwait
    from pytest_kwait.typing import WaitForPodSuccess


pytestmark = pytest.mark.needs("service network")

# A rule of kube-proxy takes effect some time after its endpoint slice.
ASK = "for i in $(seq 30); do wget -qO- {url} && exit 0; sleep 1; done; exit 1"


def ask(kwait: Kwait, url: str) -> str:
    """Return the page that a pod's `wget` gets from a URL."""
    return kwait.exec("client", "sh", "-c", ASK.format(url=url), timeout="2m").stdout


@pytest.fixture
def web(kwait: Kwait) -> Kwait:
    """A service `web` with the pod `server`, and a pod `client`."""
    kwait.create(service("web"), server("server"), pod("client", container(script="sleep 3600")))
    kwait.wait_for_endpoint_count("web", 1)
    kwait.wait_for_pod_running("client")
    return kwait


def test_a_pod_reaches_a_service_by_its_names(web: Kwait) -> None:
    """Short names are completed by the search domains of `/etc/resolv.conf`."""
    namespace = web.namespace
    for host in ("web", f"web.{namespace}", f"web.{namespace}.svc"):
        assert ask(web, f"http://{host}/") == "server\n"
    assert ask(web, f"http://web.{namespace}.svc.cluster.local/") == "server\n"


def test_a_pod_reaches_a_service_by_its_addresses(web: Kwait) -> None:
    """Cluster IPs, and node ports of every node."""
    spec = web.get("service/web")["spec"]
    assert ask(web, f"http://{spec['clusterIP']}/") == "server\n"
    web.create(service("outside", selector=WEB, type="NodePort"))
    (port,) = web.get("service/outside")["spec"]["ports"]
    address = web.get("pod/server")["status"]["hostIP"]
    assert ask(web, f"http://{address}:{port['nodePort']}/") == "server\n"


def test_headless_services_resolve_to_pods(kwait: Kwait) -> None:
    """One address record for each ready pod, and one for each host name."""
    kwait.create(
        service("peers", selector=WEB, clusterIP="None"),
        server("a", hostname="first", subdomain="peers"),
        server("b", hostname="second", subdomain="peers"),
        pod("client", container(script="sleep 3600")),
    )
    kwait.wait_for_endpoint_count("peers", 2)
    kwait.wait_for_pod_running("client")
    addresses = {name: kwait.get(f"pod/{name}")["status"]["podIP"] for name in ("a", "b")}
    domain = f"peers.{kwait.namespace}.svc.cluster.local"

    assert ask(kwait, "http://first.peers:8080/") == "first\n"
    assert ask(kwait, f"http://second.{domain}:8080/") == "second\n"
    shown = kwait.exec("client", "nslookup", "-type=a", domain).stdout
    found = [line.split()[1] for line in shown.splitlines()[2:] if line.startswith("Address")]
    assert sorted(found) == sorted(addresses.values())


def test_one_service_calls_another(web: Kwait, wait_for_pod_success: WaitForPodSuccess) -> None:
    """A pod that runs to its end calls it and reports the answer."""
    script = f"wget -qO /dev/termination-log http://web.{web.namespace}/ || exit 1"
    caller = pod("caller", container(script=script), restartPolicy="OnFailure")
    web.create(caller)
    wait_for_pod_success("caller")
    (status,) = web.get("pod/caller")["status"]["containerStatuses"]
    assert status["state"]["terminated"]["message"] == "server\n"


def test_names_and_ports_that_nothing_serves(web: Kwait) -> None:
    """The texts and the exit code are those of busybox."""
    command = "wget -qO- http://never-was/ 2>&1; echo $?"
    assert web.exec("client", "sh", "-c", command).stdout == ("wget: bad address 'never-was'\n1\n")
    web.create(service("empty", selector={"app": "none"}))
    address = web.get("service/empty")["spec"]["clusterIP"]
    refused = f"wget: can't connect to remote host ({address}): Connection refused"
    attempt = f"wget http://{address}/ 2>&1 | grep refused && break; sleep 1"
    script = f"for i in $(seq 30); do {attempt}; done"
    assert refused in web.exec("client", "sh", "-c", script, timeout="2m").stdout
