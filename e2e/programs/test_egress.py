"""Programs reach allowed hosts and ports outside of the cluster, and nothing else there."""

from __future__ import annotations

import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from e2e.conftest import MAPPINGS
from e2e.objects import pod
from e2e.programs.test_network import run_python
from e2e.programs.test_programs import web
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Kwait


pytestmark = pytest.mark.needs(MAPPINGS)

_MACHINE = "host.kwait.internal"


class _Greeting(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer with the name that the client used."""
        data = f"hello from {self.headers['Host']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def server_port() -> Iterator[int]:
    """Serve HTTP on this machine; give the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Greeting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def kwait_egress() -> list[str]:
    """Allow hosts that no network has: one that does not exist, and one by its address."""
    return ["nothing.invalid:80", "192.0.2.80:80"]


def list_messages(kwait: Kwait, name: str, reason: str) -> list[str]:
    """Return the messages of events of a pod."""
    return [
        event["message"]
        for event in kwait.events()
        if event["involvedObject"]["name"] == name and event["reason"] == reason
    ]


@pytest.mark.kwait_skip_unless_programs_isolated
def test_machine_is_reached_on_an_allowed_port(kwait: Kwait, server_port: int) -> None:
    """By its name, and on no other port."""
    kwait.create(pod("web", web(), terminationGracePeriodSeconds=5))
    kwait.wait_for_pod_ready("web")
    url = f"http://{_MACHINE}:{server_port}/"
    fetch = f"import urllib.request as u\nprint(u.urlopen({url!r}, timeout=10).read().decode())"
    with kwait.cluster.egress.allow(f"localhost:{server_port}"):
        assert run_python(kwait, fetch) == f"hello from {_MACHINE}:{server_port}\n"
        port = server_port - 1
        connect = (
            "import errno, socket\n"
            f"print(errno.errorcode[socket.socket().connect_ex(({_MACHINE!r}, {port}))])"
        )
        assert run_python(kwait, connect) == "ECONNREFUSED\n"


@pytest.mark.kwait_skip_unless_programs_isolated
def test_a_name_is_known_while_it_is_allowed(kwait: Kwait) -> None:
    """Then it is an event of the pod."""
    kwait.create(pod("web", web(), terminationGracePeriodSeconds=5))
    kwait.wait_for_pod_ready("web")
    resolve = (
        "import socket\n"
        "try: print(socket.gethostbyname('gone.invalid').rpartition('.')[0])\n"
        "except OSError as error: print(error.errno)"
    )
    with kwait.cluster.egress.allow("gone.invalid:80"):
        assert run_python(kwait, resolve) == "198.18.0\n"
    assert list_messages(kwait, "web", "EgressNotAllowed") == []
    assert run_python(kwait, resolve) == f"{socket.EAI_NONAME}\n"
    assert list_messages(kwait, "web", "EgressNotAllowed") == [
        "gone.invalid is outside of the cluster: allow it by --kwait-egress=gone.invalid:PORT"
    ]


def test_interpreted_containers_reach_it_too(kwait: Kwait, server_port: int) -> None:
    """With wget, nc and nslookup."""
    place = f"{_MACHINE}:{server_port}"
    script = (
        f"wget -q -O- http://{place}/; echo; "
        "printf 'GET / HTTP/1.0\\r\\nHost: nc\\r\\n\\r\\n' | "
        f"nc {_MACHINE} {server_port} | tail -n 1; echo; "
        f"nc {_MACHINE} {server_port - 1} 2>&1; nslookup {_MACHINE} >/dev/null; echo $?; "
        "nslookup pypi.org >/dev/null; echo $?"
    )
    shell = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", script]}
    with kwait.cluster.egress.allow(f"localhost:{server_port}"):
        kwait.create(pod("visitor", shell, restartPolicy="Never"))
        kwait.wait_for_pod_success("visitor")
    first, second, refused, found, missing = kwait.logs("visitor").splitlines()
    assert (first, second) == (f"hello from {place}", "hello from nc")
    assert refused.endswith("Connection refused")
    assert (found, missing) == ("0", "1")
    assert list_messages(kwait, "visitor", "EgressNotAllowed") == [
        "pypi.org is outside of the cluster: allow it by --kwait-egress=pypi.org:PORT"
    ]


@pytest.mark.kwait_skip_unless_programs_isolated
def test_first_question_for_a_name_outside_is_an_event(kwait: Kwait) -> None:
    """Once, also if the program asks as soon as it starts; not for names meant for services."""
    unknown = ["pypi.org", "PyPI.org.", "shop", "shop.default", "shop.default.svc"]
    code = (
        "import socket\n"
        f"for name in {[*unknown, 'kubernetes.default']}:\n"
        "    try: socket.getaddrinfo(name, 80)\n"
        "    except OSError as error: print(name, error.errno == socket.EAI_NONAME)"
    )
    asker = {"name": "main", "image": "kwait.test/shop/shell:1", "command": [sys.executable, "-c"]}
    shell = {"name": "main", "image": "busybox:1.36", "command": ["nslookup", "pypi.org"]}
    kwait.create(
        pod("asker", {**asker, "args": [code]}, restartPolicy="Never"),
        pod("visitor", shell, restartPolicy="Never"),
    )
    kwait.wait_for_pod_success("asker")
    with pytest.raises(WaitFailed) as caught:
        kwait.wait_for_pod_success("visitor")
    # The message of the wait has it too.
    assert "EgressNotAllowed (pod/visitor): pypi.org is outside of the" in str(caught.value)
    assert kwait.logs("asker").splitlines() == [f"{name} True" for name in unknown]
    for name in ("asker", "visitor"):
        assert list_messages(kwait, name, "EgressNotAllowed") == [
            "pypi.org is outside of the cluster: allow it by --kwait-egress=pypi.org:PORT"
        ]


@pytest.mark.kwait_skip_unless_programs_isolated
@pytest.mark.parametrize("spec", [{"dnsPolicy": "Default"}, {"hostNetwork": True}])
def test_pods_that_ask_the_dns_server_of_nodes(kwait: Kwait, spec: dict[str, Any]) -> None:
    """They know allowed names, and no services."""
    code = (
        "import socket\n"
        "print(socket.gethostbyname('nothing.invalid').rpartition('.')[0])\n"
        "try: socket.gethostbyname('kubernetes.default.svc.cluster.local')\n"
        "except OSError as error: print(error.errno == socket.EAI_NONAME)"
    )
    asker = {"name": "main", "image": "kwait.test/shop/shell:1", "command": [sys.executable, "-c"]}
    kwait.create(pod("asker", {**asker, "args": [code]}, restartPolicy="Never", **spec))
    kwait.wait_for_pod_success("asker")
    assert kwait.logs("asker").split() == ["198.18.0", "True"]


@pytest.mark.kwait_skip_unless_programs_isolated
def test_target_that_the_machine_does_not_reach_is_an_event(kwait: Kwait) -> None:
    """The program's connection is reset at once."""
    kwait.create(pod("web", web(), terminationGracePeriodSeconds=5))
    kwait.wait_for_pod_ready("web")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code = (
        "import socket\n"
        f"for host, port in (({_MACHINE!r}, {port}), ('nothing.invalid', 80)):\n"
        "    try:\n"  # the reset may come before connect() returns
        "        with socket.create_connection((host, port), timeout=20) as made:\n"
        "            print(made.recv(1))\n"
        "    except ConnectionResetError: print('reset')"
    )
    with kwait.cluster.egress.allow(f"127.0.0.1:{port}"):
        assert run_python(kwait, code) == "reset\nreset\n"
    refused, unknown = list_messages(kwait, "web", "EgressFailed")
    assert refused == f"{_MACHINE}:{port} cannot be reached from this machine: Connection refused"
    assert unknown.startswith("nothing.invalid:80 cannot be reached from this machine: ")


@pytest.mark.kwait_skip_unless_programs_isolated
def test_addresses_outside_are_reached_if_allowed(kwait: Kwait) -> None:
    """Without it there is no route; other ports of an allowed address are refused."""
    kwait.create(pod("web", web(), terminationGracePeriodSeconds=5))
    kwait.wait_for_pod_ready("web")
    code = (
        "import errno, socket\n"
        "for place in (('192.0.2.80', 81), ('192.0.2.81', 80)):\n"
        "    print(errno.errorcode[socket.socket().connect_ex(place)])\n"
        "made = socket.create_connection(('192.0.2.80', 80))\n"
        "print(made.getpeername()[0])"
    )
    assert run_python(kwait, code).split() == ["ECONNREFUSED", "ENETUNREACH", "192.0.2.80"]
