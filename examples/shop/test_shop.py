"""A web application by its own manifests: requests, configuration, scale, restart, a Job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from pytest_kwait import WaitFailed, wait

if TYPE_CHECKING:
    from pytest_kwait import Kwait

# Elsewhere its programs would share one network and the files of the machine.
pytestmark = pytest.mark.kwait_skip_unless_programs_isolated


def fetch(shop: Kwait, path: str = "/") -> dict[str, Any]:
    """Return the shop's answer to a request, by its service."""
    with urlopen(shop.url("service/web", path=path), timeout=10) as answer:
        body: dict[str, Any] = json.load(answer)
        return body


def test_shop_answers(shop: Kwait) -> None:
    """A forwarded port leads through the service to one of its pods."""
    shop.wait_for_endpoint_count("web", 2)
    assert fetch(shop)["name"] == "Corner Shop"
    assert fetch(shop, "/prices/tea") == {"item": "tea", "price": 3}

    def is_logged() -> bool:
        pods = shop.list("pods", selector="app=web")
        logs = [shop.logs(pod["metadata"]["name"]) for pod in pods]
        return sum(log.count("GET /prices/tea") for log in logs) == 1

    # A line may come after the answer that it is about.
    wait.poll_immediate("100ms", "10s", is_logged)


def test_each_pod_answers_by_itself(shop: Kwait) -> None:
    """`port_forward` leads to one pod, by its container's port."""
    for pod in shop.wait_for_pods_with_label_running_ready("app=web", 2):
        name = pod["metadata"]["name"]
        with (
            shop.port_forward(name, 8080) as forward,
            urlopen(f"http://127.0.0.1:{forward.port}/", timeout=10) as answer,
        ):
            assert json.load(answer)["pod"] == name


def test_shop_is_scaled(shop: Kwait) -> None:
    """`scale` returns once exactly these pods are ready; their endpoints follow."""
    shop.scale("deployment/web", 3)
    shop.wait_for_endpoint_count("web", 3)
    shop.scale("deployment/web", 1)
    shop.wait_for_endpoint_count("web", 1)
    assert len(shop.list("pods", selector="app=web")) == 1


def test_restarted_shop_has_new_configuration(shop: Kwait) -> None:
    """A change of the ConfigMap and a restart: all pods are others, with the new name."""
    before = {pod["metadata"]["uid"] for pod in shop.list("pods", selector="app=web")}
    config = {"name": "Tea House", "prices": {}}
    shop.patch("configmap/shop", {"data": {"shop.json": json.dumps(config)}})
    shop.restart("deployment/web")
    after = shop.wait_for_pods_running(2, selector="app=web")
    assert not before & {pod["metadata"]["uid"] for pod in after}
    assert fetch(shop)["name"] == "Tea House"


def test_invoice_is_written(shop: Kwait) -> None:
    """A Job reaches the shop by the name of its service; its log has the result."""
    shop.apply("manifests/invoice.yaml", items=["tea", "tea", "cake"])
    shop.wait_for_job_complete("invoice")
    assert shop.logs("job/invoice").splitlines()[-1] == "total: 10"


def test_invoice_for_an_unknown_item_says_why_it_fails(shop: Kwait) -> None:
    """The wait ends with the Job, and its message has the end of the log."""
    shop.apply("manifests/invoice.yaml", items=["caviar"])
    with pytest.raises(WaitFailed, match="/prices/caviar is not for sale"):
        shop.wait_for_job_complete("invoice")
