"""Requests of one client, as verbs on resources: dicts in, dicts out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_kwait.client.discovery import Discovery
from pytest_kwait.client.exec import ExecResult, execute
from pytest_kwait.client.port_forward import PortForward
from pytest_kwait.client.reading import Reading
from pytest_kwait.client.resource import PODS, Resource
from pytest_kwait.client.writing import Writing
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

__all__ = ["Session"]

_sessions = threading.Lock()
_ATTRIBUTE = "_pytest_kwait_session"


class Session(Reading, Writing):
    """Requests over one `kubernetes.client.ApiClient`; safe to share between threads.

    Every call takes the deadline it must be over by and raises `DeadlineExceeded` when it is not;
    `ApiError` for what the server refuses and for what does not reach it. Nothing is retried here.

    Args:
        client: the official client; its address, TLS, proxy, credentials and headers are used.
        clock: the time of Retry-After dates.
    """

    kubectl_args: tuple[str, ...] = ()
    """What makes kubectl use the same cluster, for commands shown to people."""

    time_scale: float = 1.0
    """How long the cluster's controllers take, as a part of what a real cluster's take."""

    def __init__(self, client: ApiClient, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(client, clock)
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

    def credentials(self) -> frozenset[str]:
        """Return the words that requests are authorised by: to be hidden wherever they stand."""
        return self.transport.credentials

    def exec(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str | None = None,
        stdin: bytes | str | None = None,
        deadline: Deadline,
    ) -> ExecResult:
        """Run a command in a container and return how it ended; any exit code is an answer.

        Args:
            namespace: the pod's namespace.
            pod: its name.
            command: the program and its arguments; no shell is added.
            container: which of its containers; None if there is only one.
            stdin: what the command reads; None for nothing. Its end can be told only to servers
                since 1.30, with older ones such a command may not end by itself.
            deadline: when the command must have ended; it is not stopped in the container then.

        Raises:
            ApiError: the command could not be started, or the connection broke.
            DeadlineExceeded: it did not end in time; says what it has written.
        """
        return execute(
            self.transport,
            namespace,
            pod,
            command,
            container=container,
            stdin=stdin,
            deadline=deadline,
        )

    def port_forward(
        self, namespace: str, pod: str, port: int, *, local_port: int = 0, deadline: Deadline
    ) -> PortForward:
        """Return a local port that ends in a pod: `with session.port_forward(…) as forward`.

        Args:
            namespace: the pod's namespace.
            pod: its name; it must be running.
            port: the port in the pod.
            local_port: the local port; 0 for any that is free, found in `forward.port`.
            deadline: when the forward ends by itself.

        Raises:
            ApiError: there is no such pod, or it is not running.
            OSError: the local port is taken.
        """
        found = self.get(PODS, pod, namespace, deadline=deadline)
        phase = (found.get("status") or {}).get("phase")
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

    def kinds(self, *, deadline: Deadline) -> tuple[Resource, ...]:
        """Return every kind that the server has now, each in the version that it prefers.

        Args:
            deadline: when the answer must be here.
        """
        return self._discovery.kinds(deadline=deadline)
