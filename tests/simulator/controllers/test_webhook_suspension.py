"""Controllers' writes that webhooks admit: they wait without blocking others."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.admission.webhooks import webhook_client
from pytest_kwait.simulator.admission.webhooks.webhook_client import WebhookCall, WebhookReply
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.clock import FAST, SimClock
from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager
from pytest_kwait.simulator.controllers.namespace import NamespaceDefaults
from pytest_kwait.simulator.controllers.replicaset import REPLICA_SETS, ReplicaSetController
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.registry import generic_store
from pytest_kwait.simulator.suspendable import SuspendableTask, SuspendableTasks
from tests.simulator.admission.fake_webhooks import configure, rule

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Obj = dict[str, Any]


class Asked:
    """Webhooks that answer on demand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open: list[tuple[Obj, asyncio.Future[Obj]]] = []
        self.requests: list[Obj] = []
        monkeypatch.setattr(webhook_client, "_fetch_reply", self._reply)

    async def _reply(self, call: WebhookCall) -> WebhookReply:
        future: asyncio.Future[Obj] = asyncio.get_running_loop().create_future()
        self.requests.append(call.request)
        self.open.append((call.request, future))
        response = {"uid": "u", **await future}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return WebhookReply("u", json.dumps({**review, "response": response}).encode())

    def answer(self, *, allowed: bool = True, text: str = "") -> None:
        """Answer all pending calls."""
        asked, self.open = self.open, []
        for _, future in asked:
            status = {} if allowed else {"status": {"message": text}}
            future.set_result({"allowed": allowed, **status})

    async def count(self, wanted: int) -> None:
        await until(lambda: len(self.open) >= wanted)
        assert len(self.open) == wanted


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await async_sleep(0.001)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def run(test: Callable[[SimulatedCluster], Coroutine[Any, Any, None]]) -> None:
    async def within() -> None:
        api = SimulatedCluster(SimClock(FAST))
        api.use_tasks(SuspendableTasks(api.has_webhooks))
        api.bootstrap()
        NamespaceDefaults(api)
        ReplicaSetController(api, REPLICA_SETS, ControllerRefManager(api, "pods"))
        await test(api)

    asyncio.run(within())


def replica_set(replicas: int, name: str = "web") -> Obj:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_cluster_serves_requests_during_webhook_calls(asked: Asked) -> None:
    """Regression test of a deadlock: a webhook that reads and writes before it answers."""

    async def test(api: SimulatedCluster) -> None:
        configure(api, rules=[rule("pods", operations=["CREATE"])])
        api.create("replicasets.apps", replica_set(1))
        await asked.count(1)
        assert api.list("pods") == []
        api.create("configmaps", {"metadata": {"name": "noted"}}, "default")
        assert api.get("configmaps", "noted", "default")
        asked.answer()
        await until(lambda: len(api.list("pods")) == 1)
        assert len(asked.requests) == 1

    run(test)


def test_each_pod_calls_webhook_once_and_batches_are_concurrent(asked: Asked) -> None:
    async def test(api: SimulatedCluster) -> None:
        configure(api, rules=[rule("pods", operations=["CREATE"])])
        api.create("replicasets.apps", replica_set(7))
        for batch in (1, 2, 4):
            await asked.count(batch)
            asked.answer()
        await until(lambda: len(api.list("pods")) == 7)
        names = {request["object"]["metadata"]["name"] for request in asked.requests}
        assert len(asked.requests) == len(names) == 7
        assert names == {pod["metadata"]["name"] for pod in api.list("pods")}

    run(test)


def test_webhook_refusal_is_recorded_and_retried(asked: Asked) -> None:
    async def test(api: SimulatedCluster) -> None:
        configure(api, rules=[rule("pods", operations=["CREATE"])])
        api.create("replicasets.apps", replica_set(3))
        await asked.count(1)
        asked.answer(allowed=False, text="not today")
        await until(lambda: bool(api.list("events")))
        (event,) = api.list("events")
        assert (event["reason"], event["message"]) == (
            "FailedCreate",
            'Error creating: admission webhook "w.example.com" denied the request: not today',
        )
        await asked.count(1)
        asked.answer()
        await asked.count(2)
        asked.answer()
        await until(lambda: len(api.list("pods")) == 3)

    run(test)


def test_update_uses_the_state_after_the_webhook(asked: Asked) -> None:
    async def test(api: SimulatedCluster) -> None:
        api.create("configmaps", {"metadata": {"name": "c"}, "data": {"n": "0"}}, "default")
        configure(api, rules=[rule("configmaps", operations=["UPDATE"])])

        def count(_: str) -> None:
            def more(found: Obj) -> None:
                found["data"] = {**found["data"], "n": str(int(found["data"]["n"]) + 1)}

            api.modify("configmaps", "c", "default", more)

        queue: Workqueue[str] = Workqueue(api, count, "counting")
        queue.add("a")
        queue.add("b")
        await asked.count(2)
        asked.answer()
        # The second write finds another object, for which no webhook was called yet.
        await asked.count(1)
        asked.answer()
        await until(lambda: api.get("configmaps", "c", "default")["data"]["n"] == "2")
        assert len(asked.requests) == 3

    run(test)


def test_suspended_key_is_not_handled_concurrently(asked: Asked) -> None:
    async def test(api: SimulatedCluster) -> None:
        configure(api, rules=[rule("configmaps", operations=["CREATE"])])
        log: list[str] = []

        def work(key: str) -> None:
            log.append(f"{key} begins")
            metadata = {"name": f"{key}{len(log)}"}
            api.create("configmaps", {"metadata": metadata}, "default")
            log.append(f"{key} ends")

        queue: Workqueue[str] = Workqueue(api, work, "working")
        queue.add("a")
        await asked.count(1)
        queue.add("a")
        queue.add("b")
        await asked.count(2)
        assert log == ["a begins", "b begins"]
        asked.answer()
        await asked.count(1)
        asked.answer()
        await until(lambda: log.count("a ends") == 2)
        assert sorted(log[2:5]) == ["a begins", "a ends", "b ends"]

    run(test)


def test_suspended_keys_are_limited_by_workers(asked: Asked) -> None:
    async def test(api: SimulatedCluster) -> None:
        configure(api, rules=[rule("configmaps", operations=["CREATE"])])
        done: list[int] = []

        def work(key: int) -> None:
            api.create("configmaps", {"metadata": {"name": f"c-{key}"}}, "default")
            done.append(key)

        queue: Workqueue[int] = Workqueue(api, work, "working")
        for key in range(8):
            queue.add(key)
        await asked.count(5)
        assert len(queue) == 3
        asked.answer()
        await asked.count(3)
        asked.answer()
        await until(lambda: sorted(done) == list(range(8)))

    run(test)


def test_default_objects_are_created_once_webhook_allows(asked: Asked) -> None:
    async def test(api: SimulatedCluster) -> None:
        configure(api, rules=[rule("configmaps", operations=["CREATE"])])
        api.create("namespaces", {"metadata": {"name": "new"}})
        await asked.count(1)
        seen: list[str] = []
        api.subscribe("secrets", lambda change, _new, _old: seen.append(change))
        api.create("secrets", {"metadata": {"name": "s"}}, "default")
        assert seen == ["ADDED"]
        asked.answer()
        await until(lambda: bool(api.list("configmaps", "new")))

    run(test)


def set_number(obj: Obj, number: int) -> None:
    obj["data"] = {"n": str(number)}


def begin(write: Callable[[], Obj]) -> list[SuspendableTask[Obj]]:
    """Start a write in a task; the list holds the task once it has ended."""
    ended: list[SuspendableTask[Obj]] = []
    SuspendableTask(write, ended.append)
    return ended


def test_services_created_meanwhile_get_addresses_of_their_own(asked: Asked) -> None:
    async def test(api: SimulatedCluster) -> None:
        configure(api, rules=[rule("services")])
        spec = {"type": "NodePort", "ports": [{"port": 80}]}
        ended = [
            begin(
                partial(api.create, "services", {"metadata": {"name": n}, "spec": spec}, "default")
            )
            for n in "ab"
        ]
        await asked.count(2)
        asked.answer()
        await until(lambda: all(ended))
        specs = [task.result["spec"] for (task,) in ended]
        assert len({one["clusterIP"] for one in specs}) == 2
        assert len({one["ports"][0]["nodePort"] for one in specs}) == 2

    run(test)


def test_deletion_starts_from_the_object_that_is_there_after_the_answer(asked: Asked) -> None:
    async def test(api: SimulatedCluster) -> None:
        metadata = {"name": "c", "finalizers": ["example.com/kept"]}
        api.create("configmaps", {"metadata": metadata}, "default")
        configure(api, rules=[rule("configmaps", operations=["DELETE"])])
        ended = begin(lambda: api.delete("configmaps", "c", "default"))
        await asked.count(1)
        api.modify("configmaps", "c", "default", lambda one: one.update(data={"n": "1"}))
        asked.answer()
        await asked.count(1)
        asked.answer()
        await until(lambda: bool(ended))
        left = api.get("configmaps", "c", "default")
        assert left["data"] == {"n": "1"}
        assert left["metadata"]["deletionTimestamp"]

    run(test)


def test_write_of_a_constantly_changing_object_ends_with_a_conflict(asked: Asked) -> None:
    async def test(api: SimulatedCluster) -> None:
        api.create("configmaps", {"metadata": {"name": "c"}}, "default")
        configure(api, rules=[rule("configmaps", operations=["DELETE"])])
        ended = begin(lambda: api.delete("configmaps", "c", "default"))
        for number in range(5):
            await asked.count(1)
            change = partial(set_number, number=number)
            api.modify("configmaps", "c", "default", change)
            asked.answer()
        await until(lambda: bool(ended))
        with pytest.raises(StatusError, match="the object has been modified") as caught:
            _ = ended[0].result
        assert caught.value.code == 409

    run(test)


def test_generated_name_taken_meanwhile_is_generated_again(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["c-1", "c-2"])
    monkeypatch.setattr(generic_store, "generate_name", lambda _: next(names))

    async def test(api: SimulatedCluster) -> None:
        configure(api, rules=[rule("configmaps", operations=["CREATE"])])
        ended = begin(
            lambda: api.create("configmaps", {"metadata": {"generateName": "c-"}}, "default")
        )
        await asked.count(1)
        api.store.put("configmaps", "default/c-1", {"metadata": {"name": "c-1"}})
        asked.answer()
        await asked.count(1)
        asked.answer()
        await until(lambda: bool(ended))
        assert ended[0].result["metadata"]["name"] == "c-2"

    run(test)
