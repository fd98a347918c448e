"""What is watched, and whether all of it comes by a watch of more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kwait.apimachinery.labels import (
    LabeledObject,
    Labels,
    compile_label_selector,
    get_labels,
)
from pytest_kwait.apimachinery.selectors import normalize_field_selector, normalize_label_selector
from pytest_kwait.client.responses import decode_object

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.selectors import Selector
    from pytest_kwait.client.resource import Resource

__all__ = ["EventFilter", "ResourceCollection", "SharedEvent"]

_BY_NAME = "metadata.name="


class SharedEvent:
    """One event of a watch, shown to all who follow it.

    Args:
        type: `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`.
        object: the object, at least its name, namespace and UID.
        raw: the whole object's JSON.
        version: its resourceVersion as a number.
    """

    __slots__ = ("_labels", "metadata", "raw", "type", "version")

    def __init__(self, type: str, object: Mapping[str, Any], raw: bytes, version: int) -> None:
        self.type = type
        self.metadata: Mapping[str, Any] = object.get("metadata") or {}
        self.raw = raw
        self.version = version
        self._labels: Labels | None = None

    @property
    def labels(self) -> Labels:
        """The object's labels, read once for all who ask."""
        if self._labels is None:
            self._labels = get_labels(decode_object(self.raw, LabeledObject))
        return self._labels


EventFilter: TypeAlias = Callable[[SharedEvent], str | None]
"""Says as what type of event a follower is told of one; None where it is not told of it."""


@dataclass(frozen=True, slots=True)
class ResourceCollection:
    """One collection as requests name it, however it was written.

    Args:
        path: the path of the resource in all namespaces.
        namespace: where; None for everywhere.
        labels: the text of the label selector; None for all.
        fields: the text of the field selector; None for all.
    """

    path: str
    namespace: str | None
    labels: str | None
    fields: str | None

    @classmethod
    def of(
        cls,
        resource: Resource,
        namespace: str | None,
        label_selector: Selector | None,
        field_selector: Selector | None,
    ) -> ResourceCollection:
        """Return the selection that arguments of a list mean."""
        return cls(
            resource.path(),
            namespace,
            normalize_label_selector(label_selector),
            normalize_field_selector(field_selector),
        )

    def within(self, wider: ResourceCollection, *, by_labels: bool) -> EventFilter | None:
        """Return what passes of a watch of `wider`; None where not all of this comes by it.

        A namespace and a name can be told from an object as the server does; other fields cannot.

        Args:
            wider: what is watched.
            by_labels: whether labels may be judged here. An object that ceases to match is told
                as deleted, but in its new state: enough for who only wants to know what there is.
        """
        if self.path != wider.path:
            return None
        tests: list[Callable[[SharedEvent], bool]] = []
        if self.namespace != wider.namespace:
            if wider.namespace is not None or self.namespace is None:
                return None
            tests.append(_has_metadata("namespace", self.namespace))
        if self.fields != wider.fields:
            name = (self.fields or "").removeprefix(_BY_NAME)
            if wider.fields is not None or not name or f"{_BY_NAME}{name}" != self.fields:
                return None
            if not set(name).isdisjoint(",=!\\"):
                return None
            tests.append(_has_metadata("name", name))
        if self.labels == wider.labels:
            return _combine_filters(tests)
        if wider.labels is not None or self.labels is None or not by_labels:
            return None
        return _LabelFilter(_combine_filters(tests), compile_label_selector(self.labels))


def _has_metadata(key: str, value: str) -> Callable[[SharedEvent], bool]:
    return lambda shown: shown.metadata.get(key) == value


def _combine_filters(tests: list[Callable[[SharedEvent], bool]]) -> EventFilter:
    if not tests:
        return lambda shown: shown.type
    return lambda shown: shown.type if all(test(shown) for test in tests) else None


class _LabelFilter:
    """What passes by labels, which come and go while the object stays.

    Args:
        passing: what passes by everything else.
        matches: whether labels are selected.
    """

    def __init__(self, passing: EventFilter, matches: Callable[[Labels], bool]) -> None:
        self._passing = passing
        self._matches = matches
        self._told_gone: set[str] = set()

    def __call__(self, shown: SharedEvent) -> str | None:
        type = self._passing(shown)
        if type is None:
            return None
        uid = shown.metadata.get("uid") or shown.metadata.get("name") or ""
        if self._matches(shown.labels):
            self._told_gone.discard(uid)
            return type
        # What was selected before is not known: nothing is told as gone once, to no harm.
        if type == "DELETED":
            known_gone = uid in self._told_gone
            self._told_gone.discard(uid)
            return None if known_gone else type
        if type == "ADDED" or uid in self._told_gone:
            self._told_gone.add(uid)
            return None
        self._told_gone.add(uid)
        return "DELETED"
