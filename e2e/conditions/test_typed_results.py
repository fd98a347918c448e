"""Results of waits: dicts, models of the official client, and awaited ones, with precise types."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, assert_type

import pytest
from kubernetes.client import V1Deployment, V1Pod, V1Service

from e2e.objects import pod, service
from pytest_kwait import AsyncKwait, InvalidArgument, Kwait

if TYPE_CHECKING:
    from pytest_kwait.typing import WaitForPodReady

LABELS = {"app": "web"}
POD = pod("web", labels=LABELS, restartPolicy="Always")
SERVICE = service("web")


def uid_of(model: V1Pod | V1Service) -> str | None:
    return model.metadata.uid if model.metadata else None


def test_models(kwait: Kwait, wait_for_pod_ready: WaitForPodReady) -> None:
    kwait.create(POD)

    pod = assert_type(kwait.wait_for_pod_ready("web", as_model=V1Pod), V1Pod)
    pods = assert_type(kwait.wait_for_pods_running(1, selector=LABELS, as_model=V1Pod), list[V1Pod])
    general = assert_type(kwait.wait_for("pod/web", "condition=Ready", as_model=V1Pod), V1Pod)
    by_fixture = assert_type(wait_for_pod_ready(name="web", as_model=V1Pod), V1Pod)
    plain = assert_type(kwait.wait_for_pod_ready(pod), dict[str, Any])
    by_type: WaitForPodReady = kwait.wait_for_pod_ready
    assert assert_type(by_type("web"), dict[str, Any])["metadata"]["uid"] == uid_of(pod)

    uids = {uid_of(each) for each in (pod, *pods, general, by_fixture)}
    assert uids == {plain["metadata"]["uid"]}


def test_presence(kwait: Kwait) -> None:
    kwait.create(SERVICE)

    service = assert_type(kwait.wait_for_service("web"), dict[str, Any])
    model = assert_type(kwait.wait_for_service("web", as_model=V1Service), V1Service)
    assert service["metadata"]["uid"] == uid_of(model)
    kwait.delete("service/web")
    kwait.wait_for_service(name="web", present=False)


def test_awaited_results(kwait: Kwait) -> None:
    async def main() -> None:
        aio = assert_type(kwait.aio, AsyncKwait)
        created = assert_type(await aio.create(POD), list[dict[str, Any]])
        pod = assert_type(await aio.wait_for_pod_ready("web", timeout="4m"), dict[str, Any])
        model = assert_type(await aio.wait_for_pod_ready("web", as_model=V1Pod), V1Pod)
        assert created[0]["metadata"]["uid"] == pod["metadata"]["uid"] == uid_of(model)
        assert assert_type((await aio.exec("web", "true")).exit_code, int) == 0
        assert_type(await aio.list("deployments", as_model=V1Deployment), list[V1Deployment])
        await aio.delete_and_wait("pod/web", grace_period=0)

    asyncio.run(main())


def test_awaited_results_of_each_form(kwait: Kwait) -> None:
    """The overloads of a wait are those of its async form."""

    async def main() -> None:
        aio = kwait.aio
        await aio.create(POD, SERVICE)
        plain = await aio.get("pod/web")
        assert_type(plain, dict[str, Any])
        assert_type(await aio.get("pod/web", as_model=V1Pod), V1Pod)
        one = assert_type(await aio.wait_for("pod/web", "condition=Ready"), dict[str, Any])
        model = assert_type(await aio.wait_for("pod/web", "create", as_model=V1Pod), V1Pod)
        several = assert_type(
            await aio.wait_for("pods", "condition=Ready", selector=LABELS), list[dict[str, Any]]
        )
        models = assert_type(
            await aio.wait_for("pods", "create", selector=LABELS, as_model=V1Pod), list[V1Pod]
        )
        service = assert_type(await aio.wait_for_service("web", as_model=V1Service), V1Service)
        assert {one["metadata"]["uid"], uid_of(model)} == {plain["metadata"]["uid"]}
        assert several[0]["metadata"]["uid"] == uid_of(models[0])
        assert uid_of(service) is not None
        await aio.delete("service/web")
        await aio.wait_for_service("web", present=False)
        other = assert_type(await aio.create_namespace("other"), Kwait)
        assert_type(await other.aio.list("pods"), list[dict[str, Any]])

    asyncio.run(main())


def test_misspelt_option_of_an_awaited_wait(kwait: Kwait) -> None:
    """Type checkers see it, and the wait refuses it."""

    async def main() -> None:
        await kwait.aio.wait_for_pod_ready("web", timout="4m")  # type: ignore[call-arg]

    with pytest.raises(InvalidArgument, match="timout"):
        asyncio.run(main())


def test_a_limit_of_the_task(kwait: Kwait) -> None:
    """The loop goes on during a wait, and the wait ends with its task."""
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1
        asyncio.get_running_loop().call_later(0.01, tick)

    async def main() -> None:
        tick()
        async with asyncio.timeout(0.5):
            await kwait.aio.wait_for_pod_ready("never", timeout="5m")

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert ticks > 5
