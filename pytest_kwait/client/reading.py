"""The verbs that change nothing: get, list, watch and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.apimachinery.selectors import (
    Selector,
    normalize_field_selector,
    normalize_label_selector,
)
from pytest_kwait.client.errors import make_unreadable_error
from pytest_kwait.client.requests import Requests
from pytest_kwait.client.resource import PODS
from pytest_kwait.client.responses import Object, ObjectList, get_list_decoder, make_accept_header
from pytest_kwait.client.watch import Watch
from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.clock import Deadline

__all__ = ["Reading"]


class Reading(Requests):
    """Requests that read."""

    def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        deadline: Deadline,
    ) -> Object:
        """Return one object, or a part of it."""
        return self._object("GET", resource.path(namespace, name, subresource), deadline=deadline)

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: Selector | None = None,
        field_selector: Selector | None = None,
        resource_version: str | None = None,
        limit: int | None = 500,
        deadline: Deadline,
        type: Any = None,
    ) -> ObjectList:
        """Return all objects of a collection that the selectors match, page by page.

        A list that expires between two pages is read again in one piece.

        Args:
            resource: what to list.
            namespace: where; None for all namespaces.
            label_selector: text or mapping of labels.
            field_selector: text or mapping of fields.
            resource_version: None for the latest, `"0"` for whatever the server has at hand, or
                the version that the answer must not be older than.
            limit: objects per page; None for everything at once.
            deadline: when the last page must be here.
            type: a TypedDict with the only fields to decode; None for whole objects. Of
                `PartialObjectMetadata` the server sends no more.
        """
        path = resource.path(namespace)
        decoder = get_list_decoder(type)
        accept = make_accept_header(type, "PartialObjectMetadataList")
        query: dict[str, Any] = {
            "labelSelector": normalize_label_selector(label_selector, what="label_selector"),
            "fieldSelector": normalize_field_selector(field_selector),
            "resourceVersion": resource_version,
            "limit": limit or None,
        }
        listed: ObjectList | None = None
        while True:
            try:
                answer = self.request("GET", path, query=query, accept=accept, deadline=deadline)
            except ApiError as error:
                if error.status != 410 or listed is None:
                    raise
                # Source: client-go tools/pager/pager.go, FullListIfExpired.
                listed = None
                query |= {"continue": None, "limit": None, "resourceVersion": resource_version}
                continue
            try:
                page, more = decoder.decode_page(answer.data)
            except msgspec.DecodeError as error:
                raise make_unreadable_error(
                    "GET", path, answer.status, answer.data, f"a list of {resource.plural}"
                ) from error
            if listed is None:
                listed = page
            else:
                listed.items.extend(page.items)
            if not more:
                return listed
            query |= {"continue": more, "resourceVersion": None}

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: Selector | None = None,
        field_selector: Selector | None = None,
        resource_version: str | None,
        bookmarks: bool = True,
        inactivity: float | None = None,
        timeout_seconds: int | None = None,
        deadline: Deadline,
        type: Any = None,
    ) -> Watch:
        """Return a watch, which sends its request when it is entered or first iterated.

        Args:
            resource: what to watch.
            namespace: where; None for all namespaces.
            label_selector: text or mapping of labels.
            field_selector: text or mapping of fields.
            resource_version: report what changed after this version; None or `"0"` first report
                everything there is as `ADDED`.
            bookmarks: whether the server may report versions without a change.
            inactivity: seconds without anything, bookmarks included, after which the connection
                counts as dead; None for no limit.
            timeout_seconds: when the server is to end the watch; None for its own choice.
            deadline: when the watch must be over.
            type: a TypedDict with the only fields to decode; None for whole objects. Of
                `PartialObjectMetadata` the server sends no more.
        """
        query = {
            "watch": 1,
            "allowWatchBookmarks": bookmarks or None,
            "labelSelector": normalize_label_selector(label_selector, what="label_selector"),
            "fieldSelector": normalize_field_selector(field_selector),
            "resourceVersion": resource_version,
            "timeoutSeconds": timeout_seconds,
        }
        return Watch(
            self.transport,
            resource.path(namespace),
            query,
            deadline=deadline,
            inactivity=inactivity,
            shape=type,
        )

    def logs(
        self,
        namespace: str,
        pod: str,
        *,
        container: str | None = None,
        previous: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
        timestamps: bool = False,
        limit_bytes: int | None = None,
        deadline: Deadline,
    ) -> str:
        """Return what a container has written so far; empty for a pod that is not scheduled.

        Args:
            namespace: the pod's namespace.
            pod: its name.
            container: which of its containers; None if there is only one.
            previous: of the container's run before this one.
            tail_lines: only so many lines from the end.
            since_seconds: only what is not older.
            timestamps: whether each line starts with its time.
            limit_bytes: only so many bytes from the start.
            deadline: when the answer must be here.
        """
        query = {
            "container": container,
            "previous": previous or None,
            "tailLines": tail_lines,
            "sinceSeconds": since_seconds,
            "timestamps": timestamps or None,
            "limitBytes": limit_bytes,
        }
        path = PODS.path(namespace, pod, "log")
        answer = self.request("GET", path, query=query, accept="*/*", deadline=deadline)
        return answer.data.decode("utf-8", "replace")

    def server_version(self, *, deadline: Deadline) -> Object:
        """Return what the server says about itself: `gitVersion`, `platform` and so on."""
        return self._object("GET", "/version", deadline=deadline)
