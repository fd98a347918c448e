"""Upstream's test of transforms (TestSharedInformerTransformer), and what happens if one fails."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import cache, wait
from pytest_kwait.errors import WaitFailed
from pytest_kwait.testing import FakeClock
from tests.cache.fakes import PATIENCE, Live, event, item, listed, pod_at

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = {"data": "secret"}


def without_spec(obj: dict[str, Any]) -> dict[str, Any]:
    obj.pop("spec", None)
    return obj


def test_store_and_handlers_have_what_the_transform_returns(
    informer_of: Callable[..., cache.SharedInformer],
) -> None:
    live = Live(pod_at("a", spec=SECRET))
    informer = informer_of(live)
    informer.set_transform(without_spec)
    told: queue.Queue[Any] = queue.Queue()
    informer.add_event_handler(add=told.put, update=lambda *both: told.put(both), delete=told.put)
    informer.start()
    watch = live.next_watch()
    watch.put(event("ADDED", pod_at("b", 11, spec=SECRET)))
    watch.put(event("MODIFIED", pod_at("a", 12, spec=SECRET)))
    watch.put(event("DELETED", pod_at("b", 13, spec=SECRET)))
    heard = [told.get(timeout=PATIENCE) for _ in range(4)]

    assert heard == [pod_at("a"), pod_at("b", 11), (pod_at("a"), pod_at("a", 12)), pod_at("b", 13)]
    assert informer.store.list() == [pod_at("a", 12)]


def test_transform_gets_typed_objects_and_cannot_change_their_identity(
    informer_of: Callable[..., cache.SharedInformer],
) -> None:
    bare = pod_at("a")
    del bare["kind"], bare["apiVersion"]
    seen: list[str] = []

    def transform(obj: dict[str, Any]) -> dict[str, Any]:
        seen.append(f"{obj['apiVersion']} {obj['kind']}")
        return {"kept": True}

    live = Live(bare)
    informer = informer_of(live, transform=transform)
    informer.start()
    live.next_watch().put(event("DELETED", pod_at("a", 11)))
    gone: queue.Queue[Any] = queue.Queue()
    informer.add_event_handler(delete=gone.put)

    assert seen[0] == "v1 Pod"
    assert gone.get(timeout=PATIENCE) == {"kept": True}
    assert len(informer.store) == 0


def broken(obj: dict[str, Any]) -> dict[str, Any]:
    if obj["metadata"]["name"] == "bad":
        raise ValueError("no such thing")
    return obj


def test_a_list_that_cannot_be_transformed_fails_the_wait_with_the_reason(
    informer_of: Callable[..., cache.SharedInformer],
) -> None:
    live = Live(pod_at("a"), pod_at("bad"))
    informer = informer_of(live, transform=broken)
    informer.start()
    live.clock.until_blocked()
    with pytest.raises(WaitFailed) as caught:
        cache.wait_for_cache_sync(informer, stop=wait.background(FakeClock()))
    assert str(caught.value) == (
        "the cache of pods cannot sync: list failed: "
        "the transform of default/bad raised ValueError: no such thing"
    )
    assert len(informer.store) == 0

    live.answer = listed(pod_at("a"))
    live.clock.advance(2)
    assert informer.done.wait(PATIENCE)
    live.next_watch()
    assert informer.last_error is None


def test_of_a_watched_change_that_fails_the_store_keeps_the_state_before(
    informer_of: Callable[..., cache.SharedInformer], caplog: pytest.LogCaptureFixture
) -> None:
    live = Live()
    live.answer = listed(pod_at("a", 1))
    fails = False

    def transform(obj: dict[str, Any]) -> dict[str, Any]:
        if fails:
            raise ValueError("not now")
        return obj

    informer = informer_of(live, transform=transform)
    told: queue.Queue[Any] = queue.Queue()
    informer.add_event_handler(update=lambda *both: told.put(both), delete=told.put)
    informer.start()
    watch = live.next_watch()
    fails = True
    watch.put(event("MODIFIED", pod_at("a", 11)))
    watch.put(event("DELETED", pod_at("a", 12)))
    gone = told.get(timeout=PATIENCE)

    assert isinstance(gone, cache.DeletedFinalStateUnknown)
    assert gone == pod_at("a", 1)
    assert len(informer.store) == 0
    assert caplog.messages == [
        "Unable to transform a changed object",
        "Unable to transform the final state of a deleted object",
    ]
    assert live.watch_count == 1


@pytest.mark.parametrize(
    ("returned", "problem"),
    [(None, "returned None, not an object"), ({"a": {1j}}, "returned what is no JSON: ")],
)
def test_transform_must_return_an_object(returned: Any, problem: str) -> None:
    with pytest.raises(cache.TransformError) as caught:
        cache.transform.apply_transform(lambda obj: returned, "ns/a", item(pod_at("a")).raw)
    assert str(caught.value).startswith(f"the transform of ns/a {problem}")


def test_transform_of_a_started_informer_is_refused(
    informer_of: Callable[..., cache.SharedInformer],
) -> None:
    informer = informer_of(Live())
    informer.start()
    with pytest.raises(RuntimeError) as caught:
        informer.set_transform(without_spec)
    assert str(caught.value) == "the informer of pods was started, it is too late"
