"""One watch per collection and process, shared by waits and informers, counted at a proxy."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from conformance.faults.core_families import PodSetWait
from conformance.faults.family import Place, template
from e2e.kubelet_nodes import first_kubelet_node
from e2e.objects import config_map
from pytest_kwait import cache, wait_for, wait_for_pods_running
from pytest_kwait.client.resource import CONFIG_MAPS, NODES, PODS
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.scheduler import Algorithm, ConfigFactory, Scheduler
from tools.fault_proxy.faults import STALLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from conformance.faults.trial import Trial, Trials
    from pytest_kwait import Kwait

LIMIT = 30.0
UNDER_WAY = 0.3
"""Seconds within which a wait that has listed opens its watch."""


class Silent(PodSetWait):
    """A wait for an object that the test creates."""

    def prepare(self) -> None:
        """Create nothing."""


@pytest.fixture
def place(kwait: Kwait) -> Place:
    """The test's namespace, reached without the proxy."""
    return Place(kwait.client, kwait.namespace, first_kubelet_node(kwait))


@contextmanager
def informed(
    trial: Trial, place: Place, *resources: str, watches: int = 1
) -> Iterator[cache.SharedInformerFactory]:
    """Run synced informers over the proxy, with so many open watches in all."""
    factory = cache.SharedInformerFactory(trial.client, place.namespace)
    for resource in resources:
        factory.informer_for(resource)
    with factory:
        cache.wait_for_cache_sync(factory, timeout=LIMIT)
        trial.proxy.wait_until_watched(watches)
        yield factory


def sent(trial: Trial, verb: str) -> list[str]:
    """Return the requests of a verb, in order, without further pages of lists."""
    requests = [request for request in trial.proxy.requests if "continue=" not in request.target]
    labels = [request.label for request in requests]
    return [label for label in labels if label.startswith(f"{verb} ")]


def contains(keys: Callable[[], Sequence[str]], key: str) -> bool:
    """Return whether a store has a key."""
    return key in keys()


def test_waits_and_informers_beside_an_informer_open_no_watch(trials: Trials, place: Place) -> None:
    """Waits by name, by label or for all objects list separately and share one watch."""
    with trials.of(Silent(place, "shared")) as [trial], informed(trial, place, "cm") as factory:
        configs = factory.informer_for("cm")
        other = cache.SharedInformerFactory(trial.client, place.namespace)
        theirs = other.informer_for("configmaps")
        with other, ThreadPoolExecutor(3) as pool:
            cache.wait_for_cache_sync(other, timeout=LIMIT)
            wait = partial(wait_for, trial.client, place.namespace, timeout=LIMIT)
            waits: list[Future[Any]] = [
                pool.submit(wait, "configmap/a", "create"),
                pool.submit(wait, "configmaps", "create", selector="app=web"),
                pool.submit(
                    wait,
                    "configmaps",
                    lambda found: [c["metadata"]["name"] for c in found] == ["b"],
                    selector="app in (web,api)",
                ),
            ]
            trial.proxy.wait_until_received(2 + 1 + len(waits))
            b = config_map("b")
            b["metadata"]["labels"] = {"app": "web"}
            for obj in (config_map("a"), b):
                place.create(CONFIG_MAPS, obj)
            found = [each.result(LIMIT) for each in waits]
            for informer in (configs, theirs):
                has_b = partial(contains, informer.store.list_keys, f"{place.namespace}/b")
                cache.wait_for_cache_sync(has_b, timeout=LIMIT)
        assert found[0]["metadata"]["name"] == "a"
        assert sent(trial, "watch") == ["watch configmaps"]
        assert sent(trial, "list") == ["list configmaps"] * 5


def test_wait_sees_earlier_writes_despite_a_stale_informer(trials: Trials, place: Place) -> None:
    """A wait after a write is never decided by an older state."""
    with trials.of(Silent(place, "fresh")) as [trial], informed(trial, place, "cm"):
        for round in range(20):
            text = {"round": str(round)}
            place.create(CONFIG_MAPS, config_map(f"c{round}") | {"data": text})
            found = wait_for(
                trial.client,
                place.namespace,
                f"configmap/c{round}",
                lambda obj, text=text: obj["data"] == text,
                timeout=LIMIT,
            )
            assert isinstance(found, dict)
        assert sent(trial, "watch") == ["watch configmaps"]


@pytest.mark.usefixtures("short_timeouts")
@pytest.mark.parametrize("end", ["stopped", "silent"])
def test_wait_survives_its_informer(trials: Trials, place: Place, end: str) -> None:
    """The wait opens its own watch when the informer stops or its connection is half-open."""
    with (
        trials.of(Silent(place, "left")) as [trial],
        informed(trial, place, "cm") as factory,
        ThreadPoolExecutor(1) as pool,
    ):
        wait = pool.submit(
            wait_for, trial.client, place.namespace, "configmap/late", "create", timeout=LIMIT
        )
        trial.proxy.wait_until_received(3)
        if end == "stopped":
            factory.stop()
        else:
            # Only open watches stall; further requests are answered.
            trial.proxy.inject(STALLS[0], 0)
        trial.proxy.wait_until_watched(2, ever=True)
        place.create(CONFIG_MAPS, config_map("late"))
        found: Any = wait.result(LIMIT)
        assert found["metadata"]["name"] == "late"


def test_pods_are_waited_for_by_the_scope_of_all_namespaces(trials: Trials, place: Place) -> None:
    """A scheduler's informer of all pods is enough for waits in any namespace."""
    with trials.of(PodSetWait(place, "wide")) as [trial]:
        factory = cache.SharedInformerFactory(trial.client)
        factory.informer_for("pods")
        with factory, ThreadPoolExecutor(1) as pool:
            cache.wait_for_cache_sync(factory, timeout=LIMIT)
            trial.proxy.wait_until_watched(1)
            before = len(trial.proxy.requests)
            wait = pool.submit(
                wait_for_pods_running,
                trial.client,
                place.namespace,
                1,
                selector="app=wide",
                timeout=LIMIT,
            )
            trial.proxy.wait_until_received(before + 1)
            SYSTEM_CLOCK.sleep(UNDER_WAY)
            trial.family.fulfill()
            assert trial.family.is_expected_result(wait.result(LIMIT))
        assert sent(trial, "watch") == ["watch pods"]
        # The informer's, the wait's, and one more as no controller wants this number of pods.
        assert sent(trial, "list") == ["list pods"] * 3


def test_a_scheduler_an_informer_and_a_wait_have_one_watch_of_pods(
    trials: Trials, place: Place
) -> None:
    """The wait shares the scheduler's informers without an argument."""
    with trials.of(Silent(place, "scheduled")) as [trial], ThreadPoolExecutor(2) as pool:
        stop = threading.Event()
        # An algorithm that needs only nodes and pods.
        fits = Algorithm(["NodeResourcesFit"], {})
        scheduler = ConfigFactory(trial.client, scheduler_names={"one-watch": fits}).create()
        running = pool.submit(Scheduler(scheduler).run, stop)
        try:
            cache.wait_for_cache_sync(scheduler.informers, timeout=LIMIT)
            trial.proxy.wait_until_watched(2)
            with informed(trial, place, "pods", watches=2) as factory:
                before = len(trial.proxy.requests)
                wait = pool.submit(
                    wait_for,
                    trial.client,
                    place.namespace,
                    "pod/placed",
                    "jsonpath={.spec.nodeName}",
                    timeout=LIMIT,
                )
                trial.proxy.wait_until_received(before + 1)
                SYSTEM_CLOCK.sleep(UNDER_WAY)
                pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", **template("placed")}
                pod["spec"]["schedulerName"] = "one-watch"
                place.create(PODS, pod)
                found: Any = wait.result(LIMIT)
                pods = factory.informer_for("pods").store
                has_it = partial(contains, pods.list_keys, f"{place.namespace}/placed")
                cache.wait_for_cache_sync(has_it, timeout=LIMIT)
            nodes = scheduler.informers.informer_for(NODES).lister()
            assert nodes.get(found["spec"]["nodeName"])["kind"] == "Node"
            assert sorted(sent(trial, "watch")) == ["watch nodes", "watch pods"]
        finally:
            stop.set()
        running.result(LIMIT)
