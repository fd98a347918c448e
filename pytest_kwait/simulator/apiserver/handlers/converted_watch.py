"""Watches of custom kinds in a version that a webhook converts to: in order, as it answers.

Source: k8s.io/apiserver pkg/storage/cacher/cacher.go (watches end where a conversion fails).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiserver.handlers.watch import WatchStream, error_event
from pytest_kwait.simulator.apiserver.versions import entries_to_requested_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.apiextensions.conversion import WebhookConverter
    from pytest_kwait.simulator.apiserver.handlers.list_options import ListOptions
    from pytest_kwait.simulator.apiserver.handlers.outlet import StreamBuffer
    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.scheme import Kind
    from pytest_kwait.simulator.store import Change, Entry

__all__ = ["ConvertedWatchStream"]

_MAX_PENDING_CHANGES = 4096


class ConvertedWatchStream(WatchStream):
    """One such watch.

    Args:
        conversion: the webhook; the rest is as for every watch.
    """

    def __init__(
        self,
        api: SimulatedCluster,
        request: ApiRequest,
        kind: Kind,
        namespace: str | None,
        options: ListOptions,
        revision: int,
        conversion: WebhookConverter,
    ) -> None:
        super().__init__(api, request, kind, namespace, options, revision)
        self._conversion = conversion
        self._ahead: deque[Change] = deque()
        self._due = asyncio.Event()
        self._busy = False
        self._initial: Sequence[Entry] | None = None
        self._initial_revision = 0
        self._worker: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Convert what is there, and keep what comes meanwhile.

        Raises:
            StatusError: 429, the webhook fails.
        """
        options, store = self._options, self._api.store
        bucket, namespace = self._kind.bucket, self._prefix[:-1]
        self._unsubscribe = store.watch(bucket, self._on_change, namespace)
        if options.initial_events or (options.initial_events is None and not self._revision):
            self._initial_revision = store.revision
            try:
                found = store.entries(bucket, namespace or None)
                self._initial = await entries_to_requested_version(self._kind, found)
            except StatusError:
                self._unsubscribe()
                raise

    def start(self, outlet: StreamBuffer) -> None:
        """Send what there is, and follow what comes."""
        self._outlet = outlet
        if self._initial is not None:
            outlet.begin(self._initial_chunks(self._initial, self._initial_revision))
        elif self._revision:
            try:
                past = [*self._api.store.since(self._kind.bucket, self._revision)]
            except StatusError as error:
                outlet.send(error_event(error))
                self._done.set()
                return
            # What came since the watch began stands at the end of the past as well.
            self._ahead = deque(past)
        self._due.set()
        self._worker = self._loop.create_task(self._follow())

    def end(self) -> None:
        """Nothing more can be sent."""
        super().end()
        if self._worker is not None:
            self._worker.cancel()

    def stop(self) -> bool:
        """No longer follow; whether the client has got everything."""
        if self._worker is not None:
            self._worker.cancel()
        return super().stop()

    @property
    def _current(self) -> bool:
        return not self._ahead and not self._busy

    def _on_change(self, change: Change) -> None:
        self._ahead.append(change)
        self._due.set()
        if len(self._ahead) > _MAX_PENDING_CHANGES:
            self._done.set()

    async def _follow(self) -> None:
        """Send one change after the other."""
        while True:
            await self._due.wait()
            while self._ahead:
                change, self._busy = self._ahead.popleft(), True
                try:
                    converted = await self._conversion.change(change, self._kind)
                except StatusError:
                    self._done.set()
                    return
                if chunk := self._change_chunk(converted):
                    self._outlet.send(chunk)
                self._busy = False
            self._due.clear()
