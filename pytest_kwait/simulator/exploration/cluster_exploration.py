"""The hooks of a running exploration: what it does to the components of its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.exploration.events import ExploredEvents
from pytest_kwait.simulator.exploration.kubelets import (
    delay_step,
    hold_renewal,
    hold_status,
    hold_sync,
)
from pytest_kwait.simulator.exploration.queues import ExploredQueue
from pytest_kwait.simulator.exploration.requests import (
    expires_list,
    find_client,
    find_patch_version,
    find_webhook_delay,
    hold_update,
    refuse_request,
)
from pytest_kwait.simulator.exploration.watches import ExploredWatch
from pytest_kwait.simulator.no_exploration import Key, NoExploration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from pytest_kwait.simulator.exploration.exploration import Exploration, Held
    from pytest_kwait.simulator.faults import RequestTarget
    from pytest_kwait.simulator.no_exploration import (
        ExplorableEvents,
        ExplorableQueue,
        ExplorableRequest,
        ExplorableWatch,
    )
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.store import Store


class ClusterExploration(NoExploration):
    """The hooks of an exploration.

    Args:
        exploration: the decisions.
    """

    is_active = True

    def __init__(self, exploration: Exploration) -> None:
        self.exploration = exploration

    def end(self) -> None:
        """Release what is held back, and perturb nothing any more."""
        self.exploration.end()

    def report(self) -> dict[str, object]:
        """Return the seed and the decisions as JSON has them."""
        return self.exploration.report()

    # -- work queues, watches and events

    def explore_queue(self, queue: ExplorableQueue[Key]) -> None:
        """Hold back keys of a queue from now on."""
        if not queue.explored.is_of(self.exploration):
            queue.explored = ExploredQueue(self.exploration, queue)

    def explore_watch(self, watch: ExplorableWatch) -> None:
        """Hold back events of a watch, once those of an earlier exploration are sent.

        A watch from before this exploration has no number until an event of it is sent: that of a
        deleted namespace, which a client still has open, would take the number of a new one.
        """
        explored = watch.explored
        if not explored.is_of(self.exploration) and not explored.is_late:
            watch.explored = ExploredWatch(self.exploration, watch, find_client(watch.request))

    def explore_events(self, events: ExplorableEvents) -> None:
        """Hold back events of a recorder, once those of an earlier exploration are written."""
        explored = events.explored
        if not explored.is_of(self.exploration) and not explored.is_late:
            events.explored = ExploredEvents(self.exploration, events.component)

    def drops_repetition(self, event: str) -> bool:
        """Return whether the repetition of an event is not counted."""
        return self.exploration.decide("event-drop", event) is not None

    def recounts_repetition(self, event: str) -> bool:
        """Return whether the repetition of an event is written as a new one."""
        return self.exploration.decide("event-recount", event) is not None

    # -- requests

    def refuse_request(
        self, request: ExplorableRequest, target: RequestTarget, subresource: str
    ) -> None:
        """Refuse a request, if the exploration decides so."""
        refuse_request(self.exploration, request, target, subresource)

    async def hold_update(
        self,
        store: Store,
        bucket: str,
        request: ExplorableRequest,
        target: RequestTarget,
        version: object,
    ) -> None:
        """Hold an update until another write of its object, if the exploration decides so."""
        if isinstance(version, str) and version:
            await hold_update(self.exploration, store, bucket, request, target, version)

    async def hold_patch(
        self,
        store: Store,
        bucket: str,
        request: ExplorableRequest,
        target: RequestTarget,
        data: bytes,
    ) -> None:
        """Hold a merge patch, as `hold_update`, if it has a resourceVersion."""
        await self.hold_update(store, bucket, request, target, find_patch_version(data))

    def expires_list(
        self, request: ExplorableRequest, resource: str, namespace: str | None
    ) -> bool:
        """Return whether the history of a list's continue token is compacted."""
        return expires_list(self.exploration, request, resource, namespace)

    def delay_webhook(
        self, webhook: str, timeout: float, request: str, name: str, namespace: str
    ) -> Callable[[], Awaitable[None]] | None:
        """Return what waits before the call of a webhook; None to call it at once."""
        return find_webhook_delay(self.exploration, webhook, timeout, request, name, namespace)

    # -- kubelets

    def hold_renewal(self, node: str, renew: Callable[[], object]) -> bool:
        """Return whether a node's lease is renewed later, by `renew`."""
        return hold_renewal(self.exploration, node, renew)

    def hold_sync(self, pod: Obj, begin: Callable[[], object]) -> bool:
        """Return whether a sync of a pod begins later, by `begin`."""
        return hold_sync(self.exploration, pod, begin)

    def hold_status(self, pod: Obj, write: Callable[[], object]) -> Held | None:
        """Return the held write of a pod's status, which `write` makes; None to write it now."""
        return hold_status(self.exploration, pod, write)

    def delay_sandbox(self, pod: Obj, resume: Callable[[], object]) -> Iterable[None]:
        """Delay the sandbox of a pod."""
        return delay_step(self.exploration, "sandbox-delay", "sandbox", pod, resume)

    def delay_pull(self, image: str, pod: Obj, resume: Callable[[], object]) -> Iterable[None]:
        """Delay the pull of an image."""
        return delay_step(self.exploration, "pull-delay", f"pull {image}", pod, resume)
