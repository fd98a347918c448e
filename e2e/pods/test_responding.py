"""Waiting for pods that answer through the API server's proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.objects import container, pod
from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


SERVER = "mkdir -p /tmp/www; hostname > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"


def test_pods_respond_with_their_names(kwait: Kwait) -> None:
    server = container(script=SERVER, ports=[{"containerPort": 8080}])
    kwait.create(*(pod(name, server, labels={"app": "web"}) for name in ("a", "b")))

    named = kwait.wait_for_pods_responding(
        pods=["a", "b"], want_name=True, timeout="4m", poll="500ms"
    )
    chosen = kwait.wait_for_pods_responding(
        selector="app=web", port=8080, timeout="4m", poll="500ms"
    )

    assert [each["metadata"]["name"] for each in named] == ["a", "b"]
    assert len(chosen) == 2


def test_a_pod_that_does_not_listen(kwait: Kwait) -> None:
    kwait.create(pod("deaf"))
    kwait.wait_for_pod_ready("deaf")

    times_out(
        "0 of 1 pods respond: deaf answered 50",
        kwait.wait_for_pods_responding,
        pods=["deaf"],
        port=8080,
        poll="500ms",
    )


def test_a_pod_that_has_ended(kwait: Kwait) -> None:
    kwait.create(pod("over", container(script="true")))

    with raises(WaitFailed, "pod over: the pod has succeeded"):
        kwait.wait_for_pods_responding(pods=["over"], timeout="4m", poll="500ms", grace="1s")
