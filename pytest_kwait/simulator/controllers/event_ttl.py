"""Expiry of events: by age as in etcd, and the oldest beyond a maximum."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.controller_refs import key_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["EventTTL"]

_EVENTS = "events"
# Source: kube-apiserver's `--event-ttl`.
_TTL_SECONDS = 3600.0
_CHECK_PERIOD = 60.0
_MAX_EVENTS = 16_384
"""Upstream has no such limit, since etcd stores events on disk."""


class EventTTL:
    """Deletes the oldest events of a cluster, by the time of their last write.

    Args:
        most: the number of events to keep.
    """

    def __init__(self, api: Cluster, most: int = _MAX_EVENTS) -> None:
        self._api = api
        self._most = most
        self._written: OrderedDict[str, float] = OrderedDict()
        self._planned = False
        api.subscribe(_EVENTS, self._changed)
        api.clock.call_later(_CHECK_PERIOD, self._remove_expired, scaled=False)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        key = key_of(new)
        if change == "DELETED":
            self._written.pop(key, None)
            return
        self._written[key] = self._api.clock.monotonic()
        self._written.move_to_end(key)
        if len(self._written) > self._most and not self._planned:
            self._planned = True
            self._api.clock.call_soon(self._remove_surplus)

    def _remove_surplus(self) -> None:
        self._planned = False
        while len(self._written) > self._most:
            self._remove()

    def _remove_expired(self) -> None:
        until = self._api.clock.monotonic() - _TTL_SECONDS
        while self._written and next(iter(self._written.values())) <= until:
            self._remove()
        self._api.clock.call_later(_CHECK_PERIOD, self._remove_expired, scaled=False)

    def _remove(self) -> None:
        key, _ = self._written.popitem(last=False)
        if self._api.store.get(_EVENTS, key) is not None:
            self._api.store.remove(_EVENTS, key)
