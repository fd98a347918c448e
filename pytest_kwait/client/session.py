"""A session: verbs on resources over one client, dicts in and dicts out."""

from __future__ import annotations

import logging
import math
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pytest_kwait.apimachinery.selectors import (
    Selector,
    normalize_field_selector,
    normalize_label_selector,
)
from pytest_kwait.apimachinery.times import format_duration, format_time
from pytest_kwait.client.discovery import Discovery
from pytest_kwait.client.errors import make_unreadable_error, parse_warnings
from pytest_kwait.client.exec import ExecResult, execute
from pytest_kwait.client.port_forward import PortForward, probe_port
from pytest_kwait.client.resource import PODS, Resource
from pytest_kwait.client.responses import (
    Object,
    ObjectList,
    Response,
    decode_list_page,
    decode_object,
    make_accept_header,
)
from pytest_kwait.client.transport import JSON, Transport
from pytest_kwait.client.watch import Watch
from pytest_kwait.client.write_options import (
    APPLY_PATCH,
    MERGE_PATCH,
    Propagation,
    delete_options,
    encode_json,
    get_object_name,
    get_object_path,
    write_options,
)
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.availability import Availability
    from pytest_kwait.client.certificate_client import CertificateClient
    from pytest_kwait.client.exec import Input
    from pytest_kwait.client.write_options import FieldValidation

_log = logging.getLogger("pytest_kwait.client")


_TIME_SCALE_HEADER = "Kwait-Time-Scale"
_CONTROLLERS_HEADER = "Kwait-Controllers"

_MIN_TIMEOUT = 0.1
"""Minimum seconds of a wait: enough for one look at the state."""
_sessions = threading.Lock()
_ATTRIBUTE = "_pytest_kwait_session"


def _parse_time_scale(text: str) -> float:
    """Return a time scale from above 0 to 1, that of a real cluster if it is none."""
    try:
        scale = float(text)
    except ValueError:
        return 1.0
    return scale if 0.0 < scale <= 1.0 else 1.0


class TimeBudget(NamedTuple):
    """The time that an outer limit leaves to a wait.

    Args:
        seconds: from now.
        reason: the outer limit, as a phrase.
    """

    seconds: float
    reason: str

    def fit(self, limit: float) -> tuple[float, str]:
        """Return a limit that ends within the budget, and a note if it was cut.

        Args:
            limit: the limit in seconds.
        """
        if limit <= self.seconds:
            return limit, ""
        # In tenths, for a readable message.
        cut = max(math.floor(self.seconds * 10) / 10, _MIN_TIMEOUT)
        return cut, (
            f"its limit of {format_duration(limit)} was cut to {format_duration(cut)} to end "
            f"before {self.reason}"
        )


class ApiSession:
    """Requests over one `kubernetes.client.ApiClient`; safe to share between threads.

    Every call takes a deadline and raises `DeadlineExceeded` when it passes. Refusals and
    connection errors raise `ApiError`. Nothing is retried.

    Methods that write take `namespace`, None for the object's own; `subresource`, for example
    `status`; `field_manager`, the owner of the fields; and `dry_run`, to validate without storing.

    Args:
        client: the official client, whose address, TLS, proxy, credentials and headers are used, or
            a client with a certificate.
        clock: the time of Retry-After dates.
    """

    kubectl_args: tuple[str, ...] = ()
    """The kubectl options that select this cluster, for commands in messages."""

    outlook: str = ""
    """The place of more about a cluster that ends with the run, instead of commands in messages."""

    time_scale: float = 1.0
    """The time of the cluster's controllers, as a fraction of a real cluster's.

    Embedded clusters say it in each answer.
    """

    has_controllers: bool = True
    """False if the cluster has said that it is an API server alone."""

    logs_warnings: bool = True
    """True to log the server's warnings, about deprecated versions for example."""

    time_budget: Callable[[], TimeBudget | None] = staticmethod(lambda: None)
    """Returns the time that the running test leaves to its waits; None without a limit."""

    default_options: Callable[[str, str], Mapping[str, Any]] = staticmethod(
        lambda timeout, poll: {}
    )
    """Returns the options of waits in force, by the names of limit and pause in the timeout table.

    Arguments of a call override them.
    """

    _base: ApiSession | None = None

    def __init__(self, client: ApiClient | CertificateClient, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.transport = Transport(client, clock, self.record_headers)
        self._discovery = Discovery(self.transport)

    @staticmethod
    def of(client: ApiClient) -> ApiSession:
        """Return the one session of a client, which lives as long as the client.

        Raises:
            InvalidArgument: not a synchronous `kubernetes.client.ApiClient`.
        """
        with _sessions:
            session = getattr(client, _ATTRIBUTE, None)
            if not isinstance(session, ApiSession):
                session = ApiSession(client)
                setattr(client, _ATTRIBUTE, session)
            return session

    @property
    def base(self) -> ApiSession:
        """The session of the user who acts as another here; this one for the kubeconfig's own.

        It reads what a failed wait shows, and removes what the other user has created.
        """
        return self._base or self

    def base_on(self, other: ApiSession) -> None:
        """Let another session of the same server be the base, and share its settings."""
        self._base = other.base
        self.clock = other.clock
        self.time_budget = other.time_budget
        self.default_options = other.default_options

    def record_headers(self, headers: Mapping[str, str]) -> None:
        """Record how the cluster is unlike a real one, which sends neither header."""
        if (scale := headers.get(_TIME_SCALE_HEADER)) is not None:
            self.time_scale = _parse_time_scale(scale)
        if headers.get(_CONTROLLERS_HEADER) == "none":
            self.has_controllers = False

    @property
    def availability(self) -> Availability:
        """The availability of the server."""
        return self.transport.availability

    def credentials(self) -> frozenset[str]:
        """Return the secrets that authorize requests, for redaction."""
        return self.transport.credentials

    def close(self) -> None:
        """Close idle connections."""
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
            path: the path, without the server's address.
            query: parameters; None values are omitted.
            body: bytes, or a value to send as JSON; None for no body.
            content_type: of the body; JSON if it was encoded here.
            accept: the wanted content type.
            deadline: the deadline of the whole answer.

        Raises:
            ApiError: an answer of status 300 or more, or none.
            DeadlineExceeded: the answer was not complete in time.
            InvalidArgument: a body that JSON cannot represent.
        """
        data = None
        if isinstance(body, bytes):
            data = body
        elif body is not None:
            data = encode_json(body)
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
        if self.logs_warnings:
            for text in parse_warnings(answer.headers):
                _log.warning("%s %s: %s", method, path, text)
        return answer

    def _request_object(self, method: str, path: str, **arguments: Any) -> Object:
        answer = self.request(method, path, **arguments)
        try:
            return decode_object(answer.data)
        except msgspec.DecodeError as error:
            raise make_unreadable_error(
                method, path, answer.status, answer.data, "an object as JSON"
            ) from error

    def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        deadline: Deadline,
    ) -> Object:
        """Return one object, or its subresource."""
        return self._request_object(
            "GET", resource.path(namespace, name, subresource), deadline=deadline
        )

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
        """Return all objects of a collection that the selectors match.

        Lists in pages; a list that expires between two pages is read again in one request.

        Args:
            namespace: the namespace; None for all.
            label_selector: text or mapping of labels.
            field_selector: text or mapping of fields.
            resource_version: None for the latest, `"0"` for any cached version, or the minimum
                version of the answer.
            limit: objects per page; None for everything at once.
            deadline: the deadline of the last page.
            type: a TypedDict of the fields to decode; None for whole objects. With
                `PartialObjectMetadata` the server sends only these.
        """
        path = resource.path(namespace)
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
                page, more = decode_list_page(answer.data, type)
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
        """Return a watch; it sends its request when entered or first iterated.

        Args:
            namespace: the namespace; None for all.
            label_selector: text or mapping of labels.
            field_selector: text or mapping of fields.
            resource_version: the version to start after; None or `"0"` first report all existing
                objects as `ADDED`.
            bookmarks: whether the server may send bookmarks.
            inactivity: seconds without an event or bookmark after which the connection counts as
                dead; None for no limit.
            timeout_seconds: when the server ends the watch; None for its default.
            deadline: the deadline of the watch.
            type: a TypedDict of the fields to decode; None for whole objects. With
                `PartialObjectMetadata` the server sends only these.
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
        since_time: float | None = None,
        timestamps: bool = False,
        limit_bytes: int | None = None,
        deadline: Deadline,
    ) -> str:
        """Return the log of a container so far; empty for an unscheduled pod.

        Args:
            namespace: the pod's namespace.
            pod: its name.
            container: the container; None if there is only one.
            previous: whether to read the log of the previous run.
            tail_lines: the number of lines from the end.
            since_seconds: the maximum age of lines.
            since_time: their least time, in seconds since the epoch; the server takes whole ones.
            timestamps: whether each line starts with its time.
            limit_bytes: the number of bytes from the start.
        """
        query = {
            "container": container,
            "previous": previous or None,
            "tailLines": tail_lines,
            "sinceSeconds": since_seconds,
            "sinceTime": None if since_time is None else format_time(since_time),
            "timestamps": timestamps or None,
            "limitBytes": limit_bytes,
        }
        path = PODS.path(namespace, pod, "log")
        answer = self.request("GET", path, query=query, accept="*/*", deadline=deadline)
        return answer.data.decode("utf-8", "replace")

    def server_version(self, *, deadline: Deadline) -> Object:
        """Return the server's version: `gitVersion`, `platform` and so on."""
        return self._request_object("GET", "/version", deadline=deadline)

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
        field_validation: FieldValidation | None = None,
        deadline: Deadline,
    ) -> Object:
        """Create an object and return it as stored.

        Args:
            name: the object of a `subresource`.
            subresource: the subresource to create (`binding`, `eviction`); None for an object.
            field_validation: the reaction to unknown fields; None for a warning.
        """
        return self._request_object(
            "POST",
            get_object_path(resource, obj, namespace, name, subresource),
            query=write_options(field_manager, dry_run, field_validation),
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
        """Replace an object; a conflict if its resourceVersion is not the latest."""
        return self._request_object(
            "PUT",
            get_object_path(resource, obj, namespace, get_object_name(obj), subresource),
            query=write_options(field_manager, dry_run),
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
        field_validation: FieldValidation | None = None,
        deadline: Deadline,
    ) -> Object:
        """Apply an object on the server: create or merge it.

        Args:
            obj: the object, with the fields that the manager wants to own.
            force: whether to take over fields of other managers; a conflict otherwise.
            field_validation: the reaction to repeated fields; unknown ones are always refused.
        """
        return self._request_object(
            "PATCH",
            get_object_path(resource, obj, namespace, get_object_name(obj), subresource),
            query=write_options(field_manager, dry_run, field_validation) | {"force": force},
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
        """Patch an object and return it as stored.

        Args:
            patch: a merge patch, or a JSON patch's list of operations.
            content_type: the type of the patch.
        """
        return self._request_object(
            "PATCH",
            resource.path(namespace, name, subresource),
            query=write_options(field_manager, dry_run),
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
        """Delete an object; return it, or the Status of the finished deletion.

        Args:
            uid: delete only the object with this UID; a conflict otherwise.
            resource_version: delete only this version of it; a conflict otherwise.
            grace_period_seconds: the time to stop; None for the object's default.
            propagation_policy: the handling of its dependents; None for the kind's default.
        """
        options = delete_options(
            uid=uid,
            resource_version=resource_version,
            grace_period_seconds=grace_period_seconds,
            propagation_policy=propagation_policy,
            dry_run=dry_run,
        )
        path = resource.path(namespace, name)
        return self._request_object("DELETE", path, body=options, deadline=deadline)

    def exec(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str | None = None,
        stdin: Input | None = None,
        stdout: Callable[[bytes], object] | None = None,
        deadline: Deadline,
    ) -> ExecResult:
        """Run a command in a container and return its result, with any exit code.

        Args:
            namespace: the pod's namespace.
            pod: its name.
            command: the program and its arguments; no shell is added.
            container: the container; None if there is only one.
            stdin: the input of the command; None for none. Servers before 1.30 cannot signal its
                end, so the command may not end by itself.
            stdout: takes its output in pieces, which is then not in the result; None for none.
            deadline: the deadline of the command; it is not stopped in the container then.

        Raises:
            ApiError: the command could not be started, or the connection broke.
            DeadlineExceeded: it did not end in time; the message has its output.
        """
        return execute(
            self.transport,
            namespace,
            pod,
            command,
            container=container,
            stdin=stdin,
            stdout=stdout,
            deadline=deadline,
        )

    def port_forward(
        self, namespace: str, pod: str, port: int, *, local_port: int = 0, deadline: Deadline
    ) -> PortForward:
        """Forward a local port to a pod: `with session.port_forward(…) as forward`.

        Args:
            namespace: the pod's namespace.
            pod: the name of a running pod.
            port: the port in the pod.
            local_port: the local port; 0 for a free one, found in `forward.port`.
            deadline: the end of the forward.

        Raises:
            ApiError: there is no such pod, or it is not running.
            OSError: the local port is taken.
        """
        pod_object = self.get(PODS, pod, namespace, deadline=deadline)
        phase = (pod_object.get("status") or {}).get("phase")
        if phase != "Running":
            raise ApiError(
                f"port {port} cannot be forwarded to a pod that is {phase}, only to one that runs",
                reason="PodNotRunning",
                method="GET",
                path=PODS.path(namespace, pod, "portforward"),
            )
        return PortForward(
            self.transport, namespace, pod, port, local_port=local_port, deadline=deadline
        )

    def probe_port(
        self, namespace: str, pod: str, port: int, *, quiet: float = 1.0, deadline: Deadline
    ) -> str:
        """Return why a port of a pod takes no TCP connection; empty if it does.

        Args:
            namespace: the pod's namespace.
            pod: its name.
            port: the port in the pod.
            quiet: the seconds that a connection without data must stay open.
            deadline: the end of the probe.

        Raises:
            ApiError: the server refuses, or the connection to it broke.
            DeadlineExceeded: the deadline has passed.
        """
        return probe_port(self.transport, namespace, pod, port, quiet=quiet, deadline=deadline)

    def resolve(self, kind: str, api_version: str | None = None, *, deadline: Deadline) -> Resource:
        """Return the resource with a name, resolved as in kubectl.

        Args:
            kind: a kind, plural, singular or short name in any case, `plural.group`, or
                `kind.version.group`.
            api_version: the `apiVersion` it must have; None for the one that the server prefers.

        Raises:
            InvalidArgument: the server has no such kind; the message lists similar ones.
        """
        return self._discovery.resolve(kind, api_version, deadline=deadline)

    def list_kinds(self, *, deadline: Deadline) -> tuple[Resource, ...]:
        """Return all kinds of the server, each in its preferred version."""
        return self._discovery.list_kinds(deadline=deadline)
