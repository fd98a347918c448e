"""The hooks of an exploration, as they are while none runs: they do nothing.

Components call them where an exploration may delay, reorder or refuse something.
`exploration.cluster_exploration` overrides them, so that only a cluster that explores loads it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pytest_kwait.simulator.faults import FaultableRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from pytest_kwait.simulator.api_errors import StatusError
    from pytest_kwait.simulator.faults import RequestTarget
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.store import Change, Store

Key = TypeVar("Key", bound=Hashable)


class Held(Protocol):
    """A call that an exploration holds back."""

    def cancel(self) -> None:
        """Never make the call."""


class ExplorableQueue(Protocol[Key]):
    """A work queue, as far as an exploration needs it."""

    name: str
    explored: UnexploredQueue[Key]

    def make_ready(self, key: Key, *, is_first: bool = False) -> None:
        """Handle a key in the next turn, before the others if `is_first`."""

    def schedule(self) -> None:
        """Handle the keys that are ready."""


class ChunkBuffer(Protocol):
    """The connection of a watch."""

    def begin(self, source: Iterator[bytes]) -> None:
        """Send the chunks of `source` before others."""

    def send(self, chunk: bytes) -> None:
        """Send a chunk."""


class ExplorableRequest(FaultableRequest, Protocol):
    """A request, as far as an exploration needs it."""

    caller: Caller


class ExplorableWatch(Protocol):
    """A watch, as far as an exploration needs it."""

    explored: UnexploredWatch
    wants_bookmarks: bool

    @property
    def buffer(self) -> ChunkBuffer:
        """Its connection."""

    @property
    def request(self) -> ExplorableRequest:
        """The request that has started it."""

    @property
    def place(self) -> tuple[str, str, str]:
        """Its namespace (empty for all), client and resource."""

    def make_bookmark(self, revision: int) -> bytes:
        """Return the chunk of a bookmark."""

    def end(self) -> None:
        """End it cleanly."""

    def cut(self) -> None:
        """Break its connection."""


class ExplorableEvents(Protocol):
    """A recorder of events, as far as an exploration needs it."""

    component: str
    explored: UnexploredEvents


class UnexploredQueue(Generic[Key]):
    """The keys that an exploration holds back of a work queue: none."""

    def __init__(self, queue: ExplorableQueue[Key]) -> None:
        self._queue = queue

    def __len__(self) -> int:
        """Return the number of keys that are held back."""
        return 0

    @property
    def is_paused(self) -> bool:
        """Return whether the controller waits for its lease."""
        return False

    def is_of(self, exploration: object) -> bool:
        """Return whether an exploration holds them back."""
        del exploration
        return False

    def add(self, key: Key) -> None:
        """Make a key ready."""
        self._queue.make_ready(key)

    def forget(self, key: Key) -> None:
        """Drop a key that is held back."""


class UnexploredWatch:
    """The events of a watch, without an exploration: each is sent at once."""

    def __init__(self, watch: ExplorableWatch) -> None:
        self._watch = watch

    @property
    def is_late(self) -> bool:
        """Return whether events are held back."""
        return False

    def is_of(self, exploration: object) -> bool:
        """Return whether an exploration holds them back."""
        del exploration
        return False

    def find_expiry(self, revision: int, latest: int) -> StatusError | None:
        """Return the error of a watch that starts at an earlier revision, or None.

        Args:
            revision: the revision that the client has seen; 0 for any.
            latest: the latest revision of the cluster.
        """
        del revision, latest
        return None

    def send_change(self, chunk: bytes, change: Change) -> None:
        """Send the event of a change."""
        del change
        self._watch.buffer.send(chunk)

    def send_initial(self, chunks: Iterator[tuple[bytes, Obj]]) -> None:
        """Send the initial state: each event, and the metadata of its object."""
        self._watch.buffer.begin(chunk for chunk, _ in chunks)

    def skips_bookmark(self) -> bool:
        """Return whether a bookmark that is due is left out."""
        return False

    def close(self) -> None:
        """Drop what is held back: the watch has ended."""


class UnexploredEvents:
    """The events of a recorder, without an exploration: each is written at once."""

    @property
    def is_late(self) -> bool:
        """Return whether events are held back."""
        return False

    def is_of(self, exploration: object) -> bool:
        """Return whether an exploration holds them back."""
        del exploration
        return False

    def record(self, obj: Obj, reason: str, write: Callable[[str], object]) -> None:
        """Write an event.

        Args:
            obj: the object of the event.
            write: writes it, given the event by which an exploration decides; empty for none.
        """
        del obj, reason
        write("")


class NoExploration:
    """The hooks of a cluster that is not explored."""

    is_active = False
    """Whether an exploration runs."""

    def end(self) -> None:
        """Release what is held back, and perturb nothing any more."""

    def report(self) -> dict[str, object] | None:
        """Return the seed and the decisions as JSON has them; None without an exploration."""
        return None

    # -- work queues, watches and events

    def explore_queue(self, queue: ExplorableQueue[Key]) -> None:
        """Let the exploration hold back keys of a queue from now on, by `queue.explored`."""

    def explore_watch(self, watch: ExplorableWatch) -> None:
        """Let the exploration hold back events of a watch from now on, by `watch.explored`."""

    def explore_events(self, events: ExplorableEvents) -> None:
        """Let the exploration hold back events of a recorder, by `events.explored`."""

    def drops_repetition(self, event: str) -> bool:
        """Return whether the repetition of an event is not counted.

        Args:
            event: the event by which an exploration decides; empty for none.
        """
        del event
        return False

    def recounts_repetition(self, event: str) -> bool:
        """Return whether the repetition of an event is written as a new one."""
        del event
        return False

    # -- requests

    def refuse_request(
        self, request: ExplorableRequest, target: RequestTarget, subresource: str
    ) -> None:
        """Refuse a request.

        Raises:
            StatusError: 429 or 503 with Retry-After.
        """

    async def hold_update(
        self,
        store: Store,
        bucket: str,
        request: ExplorableRequest,
        target: RequestTarget,
        version: object,
    ) -> None:
        """Hold an update until another write of its object.

        Args:
            store: the objects.
            bucket: the resource under which the store has the object.
            target: the object.
            version: the resourceVersion in the update, if any.
        """

    async def hold_patch(
        self,
        store: Store,
        bucket: str,
        request: ExplorableRequest,
        target: RequestTarget,
        data: bytes,
    ) -> None:
        """Hold a merge patch, as `hold_update`, if it has a resourceVersion."""

    def expires_list(
        self, request: ExplorableRequest, resource: str, namespace: str | None
    ) -> bool:
        """Return whether the history of a list's continue token is compacted."""
        del request, resource, namespace
        return False

    def delay_webhook(
        self, webhook: str, timeout: float, request: str, name: str, namespace: str
    ) -> Callable[[], Awaitable[None]] | None:
        """Return what waits before the call of a webhook; None to call it at once.

        Args:
            webhook: the name of the webhook.
            timeout: its timeout in seconds.
            request: the operation and the resource that it is called for.
            name: the name of the object; empty until it is generated.
            namespace: the namespace of the object; of a namespace its own name.
        """
        del webhook, timeout, request, name, namespace
        return None

    # -- kubelets

    def hold_renewal(self, node: str, renew: Callable[[], object]) -> bool:
        """Return whether a node's lease is renewed later, by `renew`."""
        del node, renew
        return False

    def hold_sync(self, pod: Obj, begin: Callable[[], object]) -> bool:
        """Return whether a sync of a pod begins later, by `begin`."""
        del pod, begin
        return False

    def hold_status(self, pod: Obj, write: Callable[[], object]) -> Held | None:
        """Return the held write of a pod's status, which `write` makes; None to write it now."""
        del pod, write
        return None

    def delay_sandbox(self, pod: Obj, resume: Callable[[], object]) -> Iterable[None]:
        """Delay the sandbox of a pod.

        Args:
            resume: resumes the sync, which yields what this yields meanwhile.
        """
        del pod, resume
        return ()

    def delay_pull(self, image: str, pod: Obj, resume: Callable[[], object]) -> Iterable[None]:
        """Delay the pull of an image, as `delay_sandbox` does."""
        del image, pod, resume
        return ()
