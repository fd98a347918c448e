"""Responses of the API server: objects, lists and events, with their raw bytes."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]
"""One object of the API, decoded whole or in the requested fields."""

_making = threading.Lock()

_whole_object: msgspec.json.Decoder[Object] = msgspec.json.Decoder(dict[str, Any])


class OwnerReference(TypedDict, total=False):
    """The fields of an owner reference that waits read."""

    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool | None


class ObjectMeta(TypedDict, total=False):
    """The metadata that waits read; for the `metadata` of trimmed types."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    generation: int
    creationTimestamp: str | None
    deletionTimestamp: str | None
    labels: dict[str, str] | None
    annotations: dict[str, str] | None
    ownerReferences: list[OwnerReference] | None
    finalizers: list[str] | None


class PartialObjectMetadata(TypedDict, total=False):
    """An object of which only the metadata is requested."""

    metadata: ObjectMeta


def make_accept_header(shape: Any, kind: str = "PartialObjectMetadata") -> str:
    """Return the Accept header; it requests only metadata if nothing else is decoded.

    A server without this content type sends whole objects.

    Args:
        shape: a TypedDict with the fields to decode; None for whole objects.
        kind: the kind of the partial answer.
    """
    if shape is not PartialObjectMetadata:
        return "application/json"
    return f"application/json;as={kind};g=meta.k8s.io;v=v1,application/json"


class _VersionedMeta(msgspec.Struct):
    resourceVersion: str | None = None  # noqa: N815 - the API's field name


class _Versioned(msgspec.Struct):
    metadata: _VersionedMeta | None = None


_versioned: msgspec.json.Decoder[_Versioned] = msgspec.json.Decoder(_Versioned)


@dataclass(frozen=True, slots=True)
class Response:
    """A successful response of the server.

    Args:
        status: the HTTP status.
        headers: the HTTP headers, case-insensitive.
        data: the body.
    """

    status: int
    headers: Mapping[str, str]
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Item:
    """One object of a list.

    Args:
        object: the object, or the requested fields of it. Items of built-in kinds come
            without `kind` and `apiVersion`.
        raw: the whole object as received JSON.
    """

    object: Object
    raw: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ObjectList:
    """All objects of a collection at one moment.

    Args:
        items: the objects.
        resource_version: the version to start a watch from.
        kind: the kind of the list itself, for example `PodList`.
        api_version: the version of the list and of its objects.
    """

    items: list[Item]
    resource_version: str
    kind: str = ""
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch.

    Args:
        type: `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`.
        object: the object after the change (before it, if deleted), or the requested fields of it;
            of a bookmark only `metadata.resourceVersion`.
        raw: the whole object as received JSON.
    """

    type: str
    object: Object
    raw: bytes = field(repr=False)

    @property
    def resource_version(self) -> str:
        """The version to resume from after this event."""
        metadata = self.object.get("metadata") or {}
        version = metadata.get("resourceVersion")
        if version is None:
            decoded = _versioned.decode(self.raw).metadata
            version = decoded.resourceVersion if decoded is not None else None
        return version or ""


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "more": "continue"}):
    resource_version: str = ""
    more: str = ""


class _List(msgspec.Struct, rename={"api_version": "apiVersion"}):
    items: list[msgspec.Raw] | None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    kind: str = ""
    api_version: str = ""


def make_decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    """Return a new decoder of a type, in a thread-safe way.

    msgspec 0.22 crashes the process if threads create decoders of types with a common part at once.
    """
    with _making:
        return msgspec.json.Decoder(shape)


@functools.cache
def get_object_decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a TypedDict, which omits all other fields."""
    return make_decoder(shape)


def decode_object(raw: bytes | msgspec.Raw, shape: Any = None) -> Object:
    """Decode one object, whole or only the fields of `shape`.

    An object of another shape (a null instead of a list) is decoded whole.

    Args:
        raw: the object as JSON.
        shape: a TypedDict; None for the whole object.

    Raises:
        msgspec.DecodeError: not JSON, or not an object.
    """
    if shape is not None:
        try:
            return dict(get_object_decoder(shape).decode(raw))
        except msgspec.ValidationError:
            pass
    return _whole_object.decode(raw)


_list: msgspec.json.Decoder[_List] = msgspec.json.Decoder(_List)


def decode_list_page(data: bytes, shape: Any = None) -> tuple[ObjectList, str]:
    """Decode one page of a list; return it with the next page's token, empty after the last.

    Args:
        data: the page as JSON.
        shape: a TypedDict of the fields to decode; None for all.

    Raises:
        msgspec.DecodeError: not JSON, or not a list.
    """
    page = _list.decode(data)
    items = [
        Item(decode_object(raw, shape), bytes(raw))
        # Go writes a nil slice as null.
        for raw in page.items or ()
    ]
    listed = ObjectList(items, page.metadata.resource_version, page.kind, page.api_version)
    return listed, page.metadata.more
