"""Responses of the API server: objects, lists and events, decoded beside their own bytes."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Item",
    "ListDecoder",
    "Object",
    "ObjectList",
    "ObjectMeta",
    "OwnerReference",
    "PartialObjectMetadata",
    "Response",
    "WatchEvent",
    "decode_object",
    "get_list_decoder",
    "make_accept_header",
    "make_decoder",
]

Object = dict[str, Any]
"""One object of the API, decoded whole or in the fields that were asked for."""


class OwnerReference(TypedDict, total=False):
    """The fields of an owner reference that say whose an object is."""

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
    """What there is of an object where nothing but its metadata is asked of the server."""

    metadata: ObjectMeta


def make_accept_header(shape: Any, kind: str = "PartialObjectMetadata") -> str:
    """Return the content type to ask for: metadata alone where no more is decoded.

    A server that cannot leave the rest out sends whole objects, which are as good.

    Args:
        shape: a TypedDict with the fields to decode; None for whole objects.
        kind: what the answer is called: a list of it has another name.
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
    """An answer of the server that is not an error.

    Args:
        status: the HTTP status.
        headers: the HTTP headers; names are found in any case.
        data: the body, as it came.
    """

    status: int
    headers: Mapping[str, str]
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Item:
    """One object of a list.

    Args:
        object: the object, or the fields of it that were asked for. Items of built-in kinds come
            without `kind` and `apiVersion`.
        raw: the whole object as JSON, as it came.
    """

    object: Object
    raw: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ObjectList:
    """All objects of a collection at one moment.

    Args:
        items: the objects.
        resource_version: the moment, to start a watch from.
        kind: the kind of the list itself, for example `PodList`.
        api_version: the version of the list and of its objects.
    """

    items: list[Item]
    resource_version: str
    kind: str = ""
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change that a watch reports.

    Args:
        type: `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`.
        object: the object after the change (before it, if deleted), or the fields of it that were
            asked for; of a bookmark only `metadata.resourceVersion` means something.
        raw: the whole object as JSON, as it came.
    """

    type: str
    object: Object
    raw: bytes = field(repr=False)

    @property
    def resource_version(self) -> str:
        """The version to go on from after this event, even where it was not asked for."""
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


_making = threading.Lock()


def make_decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    """Return a new decoder of a type, in whatever thread.

    msgspec (0.22) notes what it knows of a type at that type while it still finds out: threads that
    make decoders of types with a part in common would crash the process.
    """
    with _making:
        return msgspec.json.Decoder(shape)


@functools.cache
def get_object_decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of objects of a TypedDict; it leaves every field out that is not named."""
    return make_decoder(shape)


def decode_object(raw: bytes | msgspec.Raw, shape: Any = None) -> Object:
    """Decode one object, whole or in the fields that `shape` names.

    An object that does not have the shape (a null where a list was expected) comes whole: what
    to make of it is for the one who asked.

    Args:
        raw: the object as JSON.
        shape: a TypedDict; None for the whole object.

    Raises:
        msgspec.DecodeError: no JSON, or no object.
    """
    if shape is not None:
        try:
            return dict(get_object_decoder(shape).decode(raw))
        except msgspec.ValidationError:
            pass
    return _whole_object.decode(raw)


_whole_object: msgspec.json.Decoder[Object] = msgspec.json.Decoder(dict[str, Any])


class ListDecoder:
    """Decodes the pages of a list.

    Args:
        shape: a TypedDict that names the fields of an item to decode; None for all of them.
    """

    def __init__(self, shape: Any = None) -> None:
        self._shape = shape
        self._page: msgspec.json.Decoder[_List] = make_decoder(_List)

    def decode_page(self, data: bytes) -> tuple[ObjectList, str]:
        """Decode one page; return it with the token of the next one, empty after the last.

        Raises:
            msgspec.DecodeError: no JSON, or no list.
        """
        page = self._page.decode(data)
        items = [
            Item(decode_object(raw, self._shape), bytes(raw))
            # Go writes a nil slice as null.
            for raw in page.items or ()
        ]
        listed = ObjectList(items, page.metadata.resource_version, page.kind, page.api_version)
        return listed, page.metadata.more


@functools.cache
def get_list_decoder(shape: Any = None) -> ListDecoder:
    """Return the list decoder of a shape; made once."""
    return ListDecoder(shape)
