"""The EndpointSlices of a service counted along: addresses, pods, ports and nodes.

Source: kubernetes/test/e2e/framework/endpointslice/wait.go; an endpoint that does not say whether
it is ready is, by the API's own rule.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from pytest_kwait.client.resource import ENDPOINT_SLICES
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.object_counter import decode_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["EndpointSliceStore", "PortMapping", "SliceFields"]


class _Conditions(TypedDict, total=False):
    ready: bool | None
    terminating: bool | None


class _Target(TypedDict, total=False):
    kind: str | None
    namespace: str | None
    name: str | None
    uid: str | None


class _Endpoint(TypedDict, total=False):
    addresses: list[str] | None
    conditions: _Conditions | None
    targetRef: _Target | None
    nodeName: str | None


class _SlicePort(TypedDict, total=False):
    name: str | None
    protocol: str | None
    port: int | None


class SliceFields(TypedDict, total=False):
    """The fields of an EndpointSlice that waits read."""

    metadata: ObjectMeta
    endpoints: list[_Endpoint] | None
    ports: list[_SlicePort] | None


class PortMapping(NamedTuple):
    """A port at which a pod serves.

    Args:
        pod: its name.
        name: the name of the service's port; empty for the only one.
        protocol: `TCP`, `UDP` or `SCTP`.
        port: the number in the pod.
    """

    pod: str
    name: str
    protocol: str
    port: int


@dataclass(slots=True)
class _SliceCounts:
    """What one slice adds."""

    name: str
    raw: bytes
    addresses: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    pods: list[tuple[str, str]] = field(default_factory=list)
    mappings: list[PortMapping] = field(default_factory=list)


class EndpointSliceStore:
    """The book of a service's slices.

    An address that is in several slices counts once; so do a pod and a port.

    Args:
        namespace: where they are: only pods of the same one count.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._shares: dict[str, _SliceCounts] = {}
        self._addresses: Counter[str] = Counter()
        self._ready: Counter[str] = Counter()
        self._nodes: Counter[str] = Counter()
        self._pods: Counter[tuple[str, str]] = Counter()
        self._mappings: Counter[PortMapping] = Counter()

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count a slice, instead of what it counted as before."""
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        self.drop(uid)
        share = _SliceCounts(metadata["name"], raw)
        for endpoint in obj.get("endpoints") or ():
            self._read(share, endpoint, obj.get("ports") or ())
        self._shares[uid] = share
        self._count(share, 1)

    def _read(self, share: _SliceCounts, endpoint: dict[str, Any], ports: Collection[Any]) -> None:
        addresses = endpoint.get("addresses") or ()
        if addresses:
            share.addresses.append(addresses[0])
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                share.ready.append(addresses[0])
                share.nodes.append(endpoint.get("nodeName") or "")
        target = endpoint.get("targetRef") or {}
        name = target.get("name")
        if name and target.get("kind") == "Pod" and target.get("namespace") == self._namespace:
            share.pods.append((name, target.get("uid") or ""))
            for each in ports:
                if each.get("port") is not None:
                    protocol = each.get("protocol") or "TCP"
                    mapping = PortMapping(name, each.get("name") or "", protocol, each["port"])
                    share.mappings.append(mapping)

    def drop(self, uid: str) -> None:
        """Count a slice no more; nothing where it was not counted."""
        share = self._shares.pop(uid, None)
        if share is not None:
            self._count(share, -1)

    def _count(self, share: _SliceCounts, by: int) -> None:
        for counter, items in self._counters(share):
            for item in items:
                counter[item] += by
                if not counter[item]:
                    del counter[item]

    def _counters(self, share: _SliceCounts) -> Iterator[tuple[Counter[Any], Collection[Any]]]:
        yield self._addresses, share.addresses
        yield self._ready, share.ready
        yield self._nodes, share.nodes
        yield self._pods, share.pods
        yield self._mappings, share.mappings

    def uids(self) -> Collection[str]:
        """Return the UIDs of the slices that are there."""
        return self._shares.keys()

    def __len__(self) -> int:
        return len(self._shares)

    @property
    def endpoints(self) -> int:
        """How many endpoints there are, by their first addresses."""
        return len(self._addresses)

    @property
    def ready(self) -> int:
        """How many of them are ready."""
        return len(self._ready)

    @property
    def nodes(self) -> Collection[str]:
        """Where the ready ones are; an empty name for those that do not say."""
        return self._nodes.keys()

    @property
    def pods(self) -> Collection[tuple[str, str]]:
        """The pods behind them, by name and UID."""
        return self._pods.keys()

    @property
    def mappings(self) -> Collection[PortMapping]:
        """The ports at which the pods serve."""
        return self._mappings.keys()

    def summary(self) -> str:
        """Say how many endpoints there are; empty without any slice."""
        if not self._shares:
            return ""
        noun = "endpoint" if self.endpoints == 1 else "endpoints"
        return f"{self.endpoints} {noun}, {self.ready} ready"

    def objects(self) -> list[dict[str, Any]]:
        """Return the slices, sorted by name, decoded from the bytes that came."""
        shares = sorted(self._shares.values(), key=lambda share: share.name)
        return [decode_whole(ENDPOINT_SLICES, share.raw) for share in shares]
