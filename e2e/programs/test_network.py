"""Programs reach pods, services and the API server by address and name, and are reached."""

from __future__ import annotations

import base64
import socket
import sys
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
import trustme
from kubernetes.client import CoreV1Api
from kubernetes.client.exceptions import ApiException

from e2e.conftest import MAPPINGS, PROGRAMS
from e2e.objects import pod, service
from e2e.programs.test_programs import web
from pytest_kwait import ApiError, wait

if TYPE_CHECKING:
    from pytest_kwait import Kwait
    from pytest_kwait.typing import WaitForPodReady


pytestmark = [pytest.mark.needs(PROGRAMS), pytest.mark.kwait_skip_unless_programs_isolated]

_LABELS = {"app": "shop"}


def open_shop(kwait: Kwait, wait_for_pod_ready: WaitForPodReady, *services: dict[str, Any]) -> None:
    """Create the web server's pod with services, and wait until it is ready."""
    kwait.create(pod("web", web(), labels=_LABELS, terminationGracePeriodSeconds=5), *services)
    wait_for_pod_ready("web")


def entrance(kwait: Kwait, node: str) -> str:
    """Return the address at which this machine reaches a node's ports."""
    return "127.0.0.1" if kwait.cluster.provider == "embedded" else node


def run_python(kwait: Kwait, code: str) -> str:
    """Run Python beside the web server; return what it prints."""
    found = kwait.exec("web", sys.executable, "-c", code)
    assert found.exit_code == 0, found.stderr
    return found.stdout


def test_service_is_reached_by_name_and_address(kwait: Kwait) -> None:
    """By programs, by interpreted containers and by the test."""
    open_shop(kwait, kwait.wait_for_pod_ready, service("shop", externalIPs=["192.0.2.9"]))
    script = "until wget -q -O- http://shop/; do sleep 0.1; done"
    shell = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", script]}
    kwait.create(pod("customer", shell, restartPolicy="Never"))
    kwait.wait_for_pod_success("customer")
    assert "welcome to web" in kwait.logs("customer")
    address = kwait.get("service/shop")["spec"]["clusterIP"]
    hosts = (
        "192.0.2.9",
        "shop",
        f"shop.{kwait.namespace}",
        f"shop.{kwait.namespace}.svc.cluster.local",
        address,
    )
    code = (
        f"import urllib.request as u\nfor h in {hosts}: print(u.urlopen(f'http://{{h}}/').read())"
    )
    assert run_python(kwait, code) == "b'welcome to web'\n" * 5
    with urlopen(kwait.url("service/shop"), timeout=30) as answer:
        assert answer.read() == b"welcome to web"


def test_names_of_headless_and_external_services(kwait: Kwait) -> None:
    """As the cluster's DNS server has them."""
    spec = {"clusterIP": "None", "ports": [{"name": "http", "port": 8080}]}
    alias = f"peers.{kwait.namespace}.svc.cluster.local"
    external = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "alias"},
        "spec": {"type": "ExternalName", "externalName": alias},
    }  # fmt: skip
    kwait.create(
        pod("web", web(), labels=_LABELS, hostname="first", subdomain="peers"),
        service("peers", selector=_LABELS, **spec),
        external,
    )
    kwait.wait_for_pod_ready("web")
    address = kwait.get("pod/web")["status"]["podIP"]
    code = (
        "import socket\n"
        "for name in ('peers', 'first.peers', 'alias'): print(socket.gethostbyname(name))\n"
        "for name in ('never-was', 'example.com'):\n"
        "    try: print(socket.gethostbyname(name))\n"
        "    except socket.gaierror as error: print(error.errno == socket.EAI_NONAME)"
    )
    assert run_python(kwait, code).split() == [address] * 3 + ["True"] * 2


def test_api_server_is_reached_with_the_mounted_token(kwait: Kwait) -> None:
    """Its certificate is that of the mounted authority; the token is the pod's account."""
    open_shop(kwait, kwait.wait_for_pod_ready)
    code = (
        "import os, ssl, json, urllib.request as u\n"
        "folder = '/var/run/secrets/kubernetes.io/serviceaccount'\n"
        "token = open(f'{folder}/token').read()\n"
        "context = ssl.create_default_context(cafile=f'{folder}/ca.crt')\n"
        "group = 'authentication.k8s.io/v1'\n"
        "body = json.dumps({'apiVersion': group, 'kind': 'SelfSubjectReview'})\n"
        "for host in ('kubernetes.default.svc', os.environ['KUBERNETES_SERVICE_HOST']):\n"
        "    url = f'https://{host}/apis/{group}/selfsubjectreviews'\n"
        "    headers = {'Authorization': f'Bearer {token}', 'Content-Type': 'application/json'}\n"
        "    request = u.Request(url, body.encode(), headers)\n"
        "    review = json.load(u.urlopen(request, context=context))\n"
        "    print(review['status']['userInfo']['username'])"
    )
    user = f"system:serviceaccount:{kwait.namespace}:default"
    assert run_python(kwait, code).split() == [user, user]


@pytest.mark.needs(MAPPINGS)
def test_a_pod_has_interfaces_of_its_own(kwait: Kwait) -> None:
    """The loopback interface, and one with its address."""
    open_shop(kwait, kwait.wait_for_pod_ready)
    code = (
        "import fcntl, socket, struct\n"
        "print(*(name for _, name in socket.if_nameindex()))\n"
        "with socket.socket() as made:\n"
        "    answer = fcntl.ioctl(made, 0x8915, struct.pack('40s', b'eth0'))\n"
        "print(socket.inet_ntoa(answer[20:24]))\n"
        "with socket.create_server(('0.0.0.0', 0)) as server:\n"
        "    port = server.getsockname()[1]\n"
        "    with socket.create_connection(('127.0.0.1', port)):\n"
        "        print(server.accept()[1][0])"
    )
    address = kwait.get("pod/web")["status"]["podIP"]
    assert run_python(kwait, code).splitlines() == ["lo eth0", address, "127.0.0.1"]


@pytest.mark.needs(MAPPINGS)
def test_settings_of_a_pod_are_shown_to_it(kwait: Kwait) -> None:
    """Those that are safe."""
    sysctls = [{"name": "net.ipv4.ip_local_port_range", "value": "20000 30000"}]
    kwait.create(pod("web", web(), labels=_LABELS, securityContext={"sysctls": sysctls}))
    kwait.wait_for_pod_ready("web")
    code = "print(*open('/proc/sys/net/ipv4/ip_local_port_range').read().split())"
    assert run_python(kwait, code) == "20000 30000\n"


@pytest.mark.needs(MAPPINGS)
def test_pods_keep_their_way_while_others_end(kwait: Kwait) -> None:
    """The hardware address of their gateway, which they remember, never changes."""
    code = (
        "import socket\n"
        "socket.gethostbyname('kubernetes.default.svc')\n"
        "print(open('/proc/net/arp').read().split()[-3])"
    )
    seen = set()
    for name in ("first", "second", "third"):
        shell = {"name": "main", "image": "kwait.test/shop/shell:1", "command": [sys.executable]}
        kwait.create(pod(name, {**shell, "args": ["-c", code]}))
        kwait.wait_for_pod_success(name)
        seen.add(kwait.logs(name))
        kwait.delete(f"pod/{name}")
        kwait.wait_for_pod_not_found(name)
    assert len(seen) == 1
    assert ":" in seen.pop()


_ASK = """
import errno, socket, sys
# Until the proxy has the service: it follows the endpoints.
for host, expected in (argument.split("=") for argument in sys.argv[1:]):
    while True:
        with socket.socket() as client:
            client.settimeout(5)
            number = client.connect_ex((host, 80))
            answer = errno.errorcode.get(number, "connected")
        if answer == expected:
            break
    print(host, answer, flush=True)
"""


def test_connections_that_nothing_accepts_are_refused(kwait: Kwait) -> None:
    """Without ready endpoints by the proxy, at a closed port by the ready pod."""
    port = {"name": "http", "port": 80, "targetPort": 9999}
    open_shop(
        kwait, kwait.wait_for_pod_ready, service("shop", selector=_LABELS),
        service("closed", selector=_LABELS, ports=[port]), service("empty"),
    )  # fmt: skip
    answers = {"shop": "connected", "closed": "ECONNREFUSED", "empty": "ECONNREFUSED"}
    arguments = [f"{host}={answer}" for host, answer in answers.items()]
    found = kwait.exec("web", sys.executable, "-c", _ASK, *arguments)
    assert found.stdout.splitlines() == [" ".join(one) for one in answers.items()], found.stderr


@pytest.mark.needs(MAPPINGS)
def test_a_service_is_open_once_its_program_listens(kwait: Kwait) -> None:
    """No client is let in before, to be reset: each answer is refused or whole."""
    code = (
        "import http.server as h, pathlib, time\n"
        "while not pathlib.Path('/tmp/open').exists(): time.sleep(.01)\n"
        "h.ThreadingHTTPServer(('', 8080), h.SimpleHTTPRequestHandler).serve_forever()"
    )
    server: dict[str, Any] = {
        "name": "main", "image": "kwait.test/shop/shell:1", "workingDir": "/var/log",
        "command": [sys.executable, "-c", code],
    }  # fmt: skip
    ask = (
        "import pathlib, socket\nseen = pathlib.Path('/tmp/refused')\n"
        "while True:\n"
        "    try:\n"
        "        with socket.create_connection(('late', 80), 5) as c:\n"
        "            c.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(c.recv(100)[:15]); break\n"
        "    except ConnectionRefusedError:\n"
        "        seen.touch()"
    )
    probe = {"exec": {"command": ["test", "-e", "/tmp/refused"]}, "periodSeconds": 1}
    client = {**server, "command": [sys.executable, "-c", ask], "readinessProbe": probe}
    kwait.create(
        pod("late", server, labels={"app": "late"}, terminationGracePeriodSeconds=1),
        service("late"),
    )
    kwait.wait_for_pod_ready("late")
    kwait.create(pod("client", client, restartPolicy="Never"))
    kwait.wait_for_pod_ready("client")
    kwait.exec("late", "touch", "/tmp/open")
    kwait.wait_for_pod_success("client")
    assert kwait.logs("client") == "b'HTTP/1.0 200 OK'\n"


def test_datagrams_reach_a_service(kwait: Kwait) -> None:
    """The answer comes from the address that was asked."""
    ports = [{"name": "echo", "port": 7, "protocol": "UDP"}]
    echo = (
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('', 7))\n"
        "while True: s.sendto(*s.recvfrom(100))"
    )
    image = "kwait.test/shop/shell:1"
    server = {"name": "echo", "image": image, "command": [sys.executable, "-c", echo]}
    kwait.create(
        pod("web", web(), server, labels=_LABELS, terminationGracePeriodSeconds=1),
        service("echo", selector=_LABELS, ports=ports),
    )
    kwait.wait_for_pod_ready("web")
    code = (
        "import socket\n"
        "while True:\n"
        "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "    s.settimeout(1)\n"
        "    s.connect(('echo', 7))\n"
        "    try:\n"
        "        s.send(b'hello'); print(s.recv(100)); break\n"
        "    except OSError: pass"
    )
    found = kwait.exec("web", sys.executable, "-c", code, container="web", timeout=30)
    assert (found.stdout, found.exit_code) == ("b'hello'\n", 0)


def test_node_port_is_open_on_this_machine(kwait: Kwait) -> None:
    """Beside the addresses of the nodes."""
    open_shop(kwait, kwait.wait_for_pod_ready, service("shop", type="NodePort"))
    port = kwait.get("service/shop")["spec"]["ports"][0]["nodePort"]
    nodes = [
        one["address"]
        for node in kwait.list("nodes")
        for one in node.get("status", {}).get("addresses", ())
        if one["type"] == "InternalIP"
    ]
    code = f"import urllib.request as u\nfor h in {nodes}: print(u.urlopen(f'http://{{h}}:{port}').status)"
    assert run_python(kwait, code).split() == ["200"] * len(nodes)
    with urlopen(f"http://{entrance(kwait, nodes[0])}:{port}/", timeout=30) as answer:
        assert answer.read() == b"welcome to web"


def test_server_sees_the_address_of_the_clients_pod(kwait: Kwait) -> None:
    """Behind a cluster IP and directly; of programs and of interpreted containers."""
    open_shop(kwait, kwait.wait_for_pod_ready, service("shop"))
    server = kwait.get("pod/web")["status"]["podIP"]
    script = f"wget -q -O- http://shop/client; echo; wget -q -O- http://{server}:8080/client"
    shell = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", script]}
    kwait.create(pod("customer", shell, restartPolicy="Never"), pod("visitor", web()))
    kwait.wait_for_pod_success("customer")
    customer = kwait.get("pod/customer")["status"]["podIP"]
    assert kwait.logs("customer").split() == [customer, customer]
    kwait.wait_for_pod_ready("visitor")
    visitor = kwait.get("pod/visitor")["status"]["podIP"]
    places = ["shop", f"{server}:8080"]
    code = (
        f"import urllib.request as u\nfor h in {places}: "
        "print(u.urlopen(f'http://{h}/client').read().decode())"
    )
    found = kwait.exec("visitor", sys.executable, "-c", code)
    assert (found.stdout.split(), found.exit_code) == ([visitor, visitor], 0)


def test_host_port_is_open_on_the_node_and_this_machine(kwait: Kwait) -> None:
    """While its pod runs; a second pod with it finds no place on the node."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ports = [{"containerPort": 8080, "hostPort": port}]
    kwait.create(pod("web", web(ports=ports), terminationGracePeriodSeconds=5))
    kwait.wait_for_pod_ready("web")
    found = kwait.get("pod/web")
    node = found["status"]["hostIP"]
    assert run_python(
        kwait, f"import urllib.request as u\nprint(u.urlopen('http://{node}:{port}').status)"
    ).split() == ["200"]
    with urlopen(f"http://{entrance(kwait, node)}:{port}/", timeout=30) as answer:
        assert answer.read() == b"welcome to web"
    script = f"wget -q -O- http://{node}:{port}/"
    shell = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", script]}
    place = {"kubernetes.io/hostname": found["spec"]["nodeName"]}
    kwait.create(
        pod("customer", shell, restartPolicy="Never"),
        pod("second", web(ports=ports), nodeSelector=place),
    )
    kwait.wait_for_pod_success("customer")
    assert "welcome to web" in kwait.logs("customer")
    kwait.wait_for("pod/second", "condition=PodScheduled=False")
    [condition] = kwait.get("pod/second")["status"]["conditions"]
    assert "1 node(s) didn't have free ports for the requested pod ports" in condition["message"]


def test_machine_is_out_of_reach(kwait: Kwait) -> None:
    """A program has its own loopback interface, and no way out of the cluster."""
    open_shop(kwait, kwait.wait_for_pod_ready)
    port = kwait.client.configuration.host.rpartition(":")[2]
    code = (
        "import socket\n"
        f"for place in (('127.0.0.1', {port}), ('192.0.2.1', 80)):\n"
        "    s = socket.socket()\n"
        "    s.settimeout(5)\n"
        "    print(s.connect_ex(place) in (101, 111, 113))"
    )
    assert run_python(kwait, code).split() == ["True", "True"]


def price_check(kwait: Kwait) -> list[dict[str, Any]]:
    """Return a webhook that refuses goods without a price; the pod that answers it is the last."""
    host = f"check.{kwait.namespace}.svc"
    authority = trustme.CA()
    certificate = authority.issue_cert(host)
    pem = {
        "tls.crt": b"".join(one.bytes() for one in certificate.cert_chain_pems).decode(),
        "tls.key": certificate.private_key_pem.bytes().decode(),
    }
    secret = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls"},
        "type": "kubernetes.io/tls", "stringData": pem,
    }  # fmt: skip
    container = {
        "name": "check",
        "image": "kwait.test/shop/price-check:1",
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
    }
    volumes = [{"name": "tls", "secret": {"secretName": "tls"}}]
    webhook = {
        "name": "price.kwait.test",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {
            "service": {"name": "check", "namespace": kwait.namespace},
            "caBundle": base64.b64encode(authority.cert_pem.bytes()).decode(),
        },
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kwait.namespace}},
        "rules": [
            {
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"],
            }
        ],
    }  # fmt: skip
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": kwait.namespace},
        "webhooks": [webhook],
    }
    return [
        secret,
        service("check", selector=_LABELS, ports=[{"port": 443, "targetPort": 8443}]),
        configuration,
        pod("check", container, labels=_LABELS, volumes=volumes, terminationGracePeriodSeconds=1),
    ]


GOODS: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "goods"}}


def test_api_server_calls_a_webhook_in_the_cluster(kwait: Kwait) -> None:
    """Through its service, with the certificate of the configuration."""
    *others, configuration, check = price_check(kwait)
    kwait.create(*others, check)
    kwait.wait_for_pod_ready("check")
    kwait.create(configuration)
    kwait.wait_for_webhook_ready(
        f"validatingwebhookconfiguration/{kwait.namespace}", GOODS, denial="a price is missing"
    )
    with pytest.raises(
        ApiError, match=r'"price\.kwait\.test" denied the request: a price is missing'
    ):
        kwait.create(GOODS)
    kwait.create({**GOODS, "data": {"price": "3"}})


def test_a_webhook_that_is_still_starting_is_awaited(kwait: Kwait) -> None:
    """An object of it is created once its pod is ready."""
    goods = {**GOODS, "data": {"price": "3"}}
    *others, check = price_check(kwait)
    kwait.create(*others)
    core: Any = CoreV1Api(kwait.client)

    def is_called() -> bool:
        try:
            core.create_namespaced_config_map(kwait.namespace, goods, dry_run="All")
        except ApiException:
            return True
        return False

    # A server calls a new webhook only once it has seen the configuration.
    wait.poll_immediate(0.1, 60, is_called)
    kwait.create(check, goods)
    assert kwait.get("pod/check")["status"]["containerStatuses"][0]["ready"]
