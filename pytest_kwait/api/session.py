"""Requests of one client, as verbs on resources: dicts in, dicts out."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from pytest_kwait.api.discovery import Discovery
from pytest_kwait.api.objects import Object, ObjectList, Response, decode_object, list_decoder
from pytest_kwait.api.resource import PODS
from pytest_kwait.api.selectors import Selector, selector_text
from pytest_kwait.api.statuses import unreadable
from pytest_kwait.api.transport import JSON, Transport
from pytest_kwait.api.watch import Watch
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import ApiError, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.api.resource import Resource

__all__ = ["APPLY_PATCH", "JSON_PATCH", "MERGE_PATCH", "STRATEGIC_MERGE_PATCH", "Session"]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Propagation = Literal["Background", "Foreground", "Orphan"]

_log = logging.getLogger("pytest_kwait.api")
_sessions = threading.Lock()
_ATTRIBUTE = "_pytest_kwait_session"


class Session:
    """Requests over one `kubernetes.client.ApiClient`; safe to share between threads.

    Every call takes the deadline it must be over by and raises `DeadlineExceeded` when it is not;
    `ApiError` for what the server refuses and for what does not reach it. Nothing is retried here.

    Args:
        client: the official client; its address, TLS, proxy, credentials and headers are used.
        clock: the time of Retry-After dates.
    """

    kubectl_args: tuple[str, ...] = ()
    """What makes kubectl use the same cluster, for commands shown to people."""

    def __init__(self, client: ApiClient, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.transport = Transport(client, clock)
        self._discovery = Discovery(self.transport)

    @staticmethod
    def of(client: ApiClient) -> Session:
        """Return the session of a client: always the same one, living as long as the client.

        Raises:
            InvalidArgument: not a synchronous `kubernetes.client.ApiClient`.
        """
        with _sessions:
            session = getattr(client, _ATTRIBUTE, None)
            if not isinstance(session, Session):
                session = Session(client)
                setattr(client, _ATTRIBUTE, session)
            return session

    def close(self) -> None:
        """Close the connections that are kept for further requests."""
        self.transport.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        content_type: str | None = None,
        accept: str = JSON,
        deadline: Deadline,
    ) -> Response:
        """Send any request and return the whole answer.

        Args:
            method: the HTTP method.
            path: the path from the server's address on.
            query: parameters; those that are None are left out.
            body: sent as it is if bytes, as JSON otherwise; None for no body.
            content_type: of the body; JSON if it was encoded here.
            accept: the wanted content type.
            deadline: when the answer must be complete.

        Raises:
            ApiError: an answer of status 300 or more, or none.
            DeadlineExceeded: the answer was not complete in time.
            InvalidArgument: a body that cannot be JSON.
        """
        data = None
        if isinstance(body, bytes):
            data = body
        elif body is not None:
            data = _encode(body)
            content_type = content_type or JSON
        answer = self.transport.send(
            method,
            path,
            query=query,
            body=data,
            content_type=content_type,
            accept=accept,
            deadline=deadline,
        )
        for text in warnings_of(answer):
            _log.warning("%s %s: %s", method, path, text)
        return answer

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
            type: a TypedDict with the only fields to decode; None for whole objects.
        """
        path = resource.path(namespace)
        decoder = list_decoder(type)
        query: dict[str, Any] = {
            "labelSelector": selector_text(label_selector, what="label_selector"),
            "fieldSelector": selector_text(field_selector, what="field_selector"),
            "resourceVersion": resource_version,
            "limit": limit or None,
        }
        listed: ObjectList | None = None
        while True:
            try:
                answer = self.request("GET", path, query=query, deadline=deadline)
            except ApiError as error:
                if error.status != 410 or listed is None:
                    raise
                # Source: client-go tools/pager/pager.go, FullListIfExpired.
                listed = None
                query |= {"continue": None, "limit": None, "resourceVersion": resource_version}
                continue
            try:
                page, more = decoder.page(answer.data)
            except msgspec.DecodeError as error:
                raise unreadable(
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
            type: a TypedDict with the only fields to decode; None for whole objects.
        """
        query = {
            "watch": 1,
            "allowWatchBookmarks": bookmarks or None,
            "labelSelector": selector_text(label_selector, what="label_selector"),
            "fieldSelector": selector_text(field_selector, what="field_selector"),
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

    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str | None = None,
        *,
        name: str | None = None,
        subresource: str | None = None,
        field_manager: str = "pytest-kwait",
        dry_run: bool = False,
        deadline: Deadline,
    ) -> Object:
        """Create an object and return it as the server made it.

        Args:
            resource: its kind.
            obj: the object.
            namespace: where; None for the one that the object names.
            name: with `subresource`: of which object to create a part (`binding`, `eviction`).
            subresource: the part to create; None for an object.
            field_manager: who owns the fields.
            dry_run: whether to store nothing.
            deadline: when the answer must be here.
        """
        return self._object(
            "POST",
            _home(resource, obj, namespace, name, subresource),
            query=_writing(field_manager, dry_run),
            body=obj,
            deadline=deadline,
        )

    def replace(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        field_manager: str = "pytest-kwait",
        dry_run: bool = False,
        deadline: Deadline,
    ) -> Object:
        """Write an object whole; refused as a conflict if its resourceVersion is not the latest."""
        return self._object(
            "PUT",
            _home(resource, obj, namespace, _name(obj), subresource),
            query=_writing(field_manager, dry_run),
            body=obj,
            deadline=deadline,
        )

    def apply(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str | None = None,
        *,
        field_manager: str = "pytest-kwait",
        force: bool = True,
        subresource: str | None = None,
        dry_run: bool = False,
        deadline: Deadline,
    ) -> Object:
        """Apply an object on the server's side: created if it is not there, merged if it is.

        Args:
            resource: its kind.
            obj: the object, with the fields that the manager wants to own.
            namespace: where; None for the one that the object names.
            field_manager: who owns the fields.
            force: whether to take fields over from other managers; a conflict otherwise.
            subresource: a part of the object, for example `status`.
            dry_run: whether to store nothing.
            deadline: when the answer must be here.
        """
        return self._object(
            "PATCH",
            _home(resource, obj, namespace, _name(obj), subresource),
            query=_writing(field_manager, dry_run) | {"force": force},
            body=obj,
            content_type=APPLY_PATCH,
            deadline=deadline,
        )

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        *,
        content_type: str = MERGE_PATCH,
        subresource: str | None = None,
        field_manager: str = "pytest-kwait",
        dry_run: bool = False,
        deadline: Deadline,
    ) -> Object:
        """Change a part of an object and return the whole of it.

        Args:
            resource: its kind.
            name: its name.
            patch: a merge patch, or a JSON patch's list of operations.
            namespace: its namespace.
            content_type: which kind of patch it is.
            subresource: a part of the object, for example `status`.
            field_manager: who owns the fields.
            dry_run: whether to store nothing.
            deadline: when the answer must be here.
        """
        return self._object(
            "PATCH",
            resource.path(namespace, name, subresource),
            query=_writing(field_manager, dry_run),
            body=patch,
            content_type=content_type,
            deadline=deadline,
        )

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation_policy: Propagation | None = None,
        dry_run: bool = False,
        deadline: Deadline,
    ) -> Object:
        """Ask for the deletion of an object; return it, or the Status of its being gone.

        Args:
            resource: its kind.
            name: its name.
            namespace: its namespace.
            uid: delete only the object with this UID; a conflict otherwise.
            resource_version: delete only this version of it; a conflict otherwise.
            grace_period_seconds: how long it may take to stop; None for its own time.
            propagation_policy: what happens to what it owns; None for the kind's default.
            dry_run: whether to delete nothing.
            deadline: when the answer must be here.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: dict[str, Any] = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": _given(preconditions) or None,
            "gracePeriodSeconds": grace_period_seconds,
            "propagationPolicy": propagation_policy,
            "dryRun": ["All"] if dry_run else None,
        }
        path = resource.path(namespace, name)
        return self._object("DELETE", path, body=_given(options), deadline=deadline)

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

    def resolve(self, kind: str, api_version: str | None = None, *, deadline: Deadline) -> Resource:
        """Return the resource that a name means, as kubectl would take it.

        Args:
            kind: a kind, plural, singular or short name in any case, `plural.group`, or
                `kind.version.group`.
            api_version: the `apiVersion` it must have; None for the one that the server prefers.
            deadline: when the answer must be here.

        Raises:
            InvalidArgument: the server has no such kind; names those that are near.
        """
        return self._discovery.resolve(kind, api_version, deadline=deadline)

    def server_version(self, *, deadline: Deadline) -> Object:
        """Return what the server says about itself: `gitVersion`, `platform` and so on."""
        return self._object("GET", "/version", deadline=deadline)

    def _object(self, method: str, path: str, **arguments: Any) -> Object:
        answer = self.request(method, path, **arguments)
        try:
            return decode_object(answer.data)
        except msgspec.DecodeError as error:
            raise unreadable(
                method, path, answer.status, answer.data, "an object as JSON"
            ) from error


def warnings_of(answer: Response) -> Sequence[str]:
    """Return the texts of the Warning headers, in which the server tells of what it let pass."""
    value = answer.headers.get("Warning")
    if not value:
        return ()
    return [
        text.replace('\\"', '"').replace("\\\\", "\\")
        for text in re.findall(r'\b\d{3} \S+ "((?:[^"\\]|\\.)*)"', value)
    ]


def _encode(body: object) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError) as error:
        raise InvalidArgument("body", body, f"values that JSON has ({error})") from error


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _writing(field_manager: str, dry_run: bool) -> dict[str, Any]:
    return {"fieldManager": field_manager, "dryRun": "All" if dry_run else None}


def _metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _name(obj: Mapping[str, Any]) -> str:
    name = _metadata(obj).get("name")
    if not isinstance(name, str) or not name:
        raise InvalidArgument("metadata.name", name, "the name of the object to write")
    return name


def _home(
    resource: Resource,
    obj: Mapping[str, Any],
    namespace: str | None,
    name: str | None,
    subresource: str | None,
) -> str:
    where = namespace if namespace is not None else _metadata(obj).get("namespace")
    if resource.namespaced and not where:
        raise InvalidArgument("namespace", where, f"{resource.kind} lives in a namespace, name it")
    return resource.path(where, name, subresource)
