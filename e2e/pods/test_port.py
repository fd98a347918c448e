"""Waiting for ports of pods that take TCP connections."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.request import urlopen

from e2e.objects import container, pod
from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait

LATE = (
    "sleep 2; mkdir -p /tmp/www; echo here > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"
)
PORTS = [{"containerPort": 8080, "name": "web"}]


def test_a_port_that_opens_late(kwait: Kwait) -> None:
    """By number and by name, on a server that says nothing by itself."""
    kwait.create(pod("late", container(script=LATE, ports=PORTS)))

    found = kwait.wait_for_pod_port("late", 8080, poll="500ms")

    assert found["status"]["phase"] == "Running"
    with urlopen(kwait.url("pod/late", 8080), timeout=30) as answer:
        assert answer.read() == b"here\n"
    assert kwait.wait_for_pod_port("pod/late", "web")["metadata"]["name"] == "late"


def test_a_port_on_which_nothing_listens(kwait: Kwait) -> None:
    kwait.create_and_wait(pod("deaf"))

    times_out(
        "did not answer on port 8080 within .*: the connection is refused",
        kwait.wait_for_pod_port,
        "deaf",
        8080,
        poll="500ms",
    )


def test_a_port_of_a_pod_that_has_ended(kwait: Kwait) -> None:
    kwait.create(pod("over", container(script="true", ports=PORTS)))

    with raises(WaitFailed, "can no longer answer on port web: the pod has succeeded"):
        kwait.wait_for_pod_port("over", "web")
