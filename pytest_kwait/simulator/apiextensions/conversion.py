"""Objects of custom kinds in another version, as the webhook of their definition has them.

A conversion is asked for where an object is needed in a version that it is not in: on every read of
one object, on every write, and once for each state that lists and watches show.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/conversion/webhook_converter.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.webhooks.webhook_client import (
    build_call,
    fetch_replies,
    require_replies,
)
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiextensions.webhook_converter import parse_converted_object
from pytest_kwait.simulator.store import Entry, with_revision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.admission.webhooks.webhook_client import WebhookCall, WebhookReply
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind
    from pytest_kwait.simulator.store import Change

__all__ = ["WebhookConverter"]

_SECONDS = 30
_MAX_CONCURRENT_CALLS = 16
"""Questions of one list that are asked side by side."""
_REVIEW_VERSIONS = ("v1", "v1beta1")


class WebhookConverter:
    """The webhook of one definition.

    Args:
        api: the cluster.
        name: of the definition.
        webhook: the definition's `spec.conversion.webhook`.
    """

    def __init__(self, api: SimulatedCluster, name: str, webhook: Obj) -> None:
        self._api = api
        self._name = name
        self._config: Obj = webhook["clientConfig"]
        self._review = next(
            one for one in webhook["conversionReviewVersions"] if one in _REVIEW_VERSIONS
        )
        self._shown: dict[tuple[str, str], Entry] = {}
        """What lists and watches showed last, by version and key."""

    def convert(self, obj: Obj, kind: Kind, caller: Caller) -> Obj:
        """An object of another version in the version `kind`, in the middle of a write.

        Raises:
            StatusError: 500, the webhook fails or answers something else.
            Unanswered: it is to be asked first.
        """
        [reply] = require_replies(caller, [self._call(obj, kind)])
        return self._parse_reply_object(obj, kind, reply)

    async def read(self, obj: Obj, kind: Kind) -> Obj:
        """The same for an object that is read.

        Raises:
            StatusError: 500, the webhook fails or answers something else.
        """
        [reply] = await fetch_replies([self._call(obj, kind)])
        return self._parse_reply_object(obj, kind, reply)

    async def entries(self, entries: Sequence[Entry], kind: Kind) -> list[Entry]:
        """The same for many; what was shown before is not asked for again.

        Raises:
            StatusError: 500, the webhook fails or answers something else.
        """
        wanted = [entry for entry in entries if self._cached_entry(entry, kind) is None]
        for start in range(0, len(wanted), _MAX_CONCURRENT_CALLS):
            portion = wanted[start : start + _MAX_CONCURRENT_CALLS]
            replies = await fetch_replies([self._call(entry.obj, kind) for entry in portion])
            for entry, reply in zip(portion, replies, strict=True):
                obj = self._parse_reply_object(entry.obj, kind, reply)
                self._cache_entry(kind, Entry(entry.key, obj, entry.revision))
        shown = [self._cached_entry(entry, kind) for entry in entries]
        self._evict_deleted(kind)
        return [one or entry for one, entry in zip(shown, entries, strict=True)]

    async def change(self, change: Change, kind: Kind) -> Change:
        """A change as watches of the version `kind` show it.

        Raises:
            StatusError: 500, the webhook fails or answers something else.
        """
        old = change.old
        if old is not None:
            [old] = await self.entries([old], kind)
        if change.type == "DELETED" and old is not None:
            gone = Entry(change.new.key, with_revision(old.obj, change.revision), change.revision)
            self._shown.pop((kind.version, change.new.key), None)
            return change._replace(new=gone, old=old)
        [new] = await self.entries([change.new], kind)
        return change._replace(new=new, old=old)

    def _cached_entry(self, entry: Entry, kind: Kind) -> Entry | None:
        if entry.obj["apiVersion"] == kind.api_version:
            return entry
        found = self._shown.get((kind.version, entry.key))
        if found is None or found.revision != entry.revision:
            return None
        return found

    def _cache_entry(self, kind: Kind, entry: Entry) -> None:
        self._shown[kind.version, entry.key] = entry

    def _evict_deleted(self, kind: Kind) -> None:
        """Keep no more than there can be: one state of each object in each version."""
        store = self._api.store
        if len(self._shown) <= 64 + 8 * store.count(kind.bucket):
            return
        for version, key in tuple(self._shown):
            if store.get(kind.bucket, key) is None:
                del self._shown[version, key]

    def _call(self, obj: Obj, kind: Kind) -> WebhookCall:
        metadata = {key: one for key, one in obj["metadata"].items() if key != "resourceVersion"}
        request: Obj = {
            "desiredAPIVersion": kind.api_version,
            "objects": [{**obj, "metadata": metadata}],
        }
        return build_call(
            self._api,
            f"conversion of {self._name}",
            self._config,
            self._review,
            request,
            _SECONDS,
            review={
                "kind": "ConversionReview",
                "apiVersion": f"apiextensions.k8s.io/{self._review}",
                "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
            },
        )

    def _parse_reply_object(self, obj: Obj, kind: Kind, reply: WebhookReply) -> Obj:
        """What the webhook made of an object, without what its schema does not know."""
        try:
            found = parse_converted_object(reply, self._review, obj, kind)
        except ValueError as error:
            raise StatusError(500, "", str(error)) from None
        structure = kind.structure
        return found if structure is None else structure.without_unknown(found)
