"""Verbs on pods: what they have written, commands in them, ports that end in them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from pytest_kwait.client.resource import PODS
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.place import NamespacedClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.apimachinery.durations import Duration
    from pytest_kwait.client.exec import ExecResult
    from pytest_kwait.client.port_forward import PortForward
    from pytest_kwait.suite.bound_wait import WaitDefaults

__all__ = ["PodVerbs"]


class PodVerbs(NamespacedClient):
    """`logs`, `exec` and `port_forward`.

    Args:
        client: the client that the verbs use.
        namespace: where the pods are, unless a call names another.
        terms: settings, timeouts and limits in force when a verb is called.
    """

    def __init__(
        self, client: ApiClient, namespace: str, terms: Callable[[], WaitDefaults]
    ) -> None:
        super().__init__(client, namespace, terms)
        self._forwards = ExitStack()

    def logs(
        self,
        pod: str,
        *,
        container: str | None = None,
        previous: bool = False,
        tail: int | None = None,
        since: int | None = None,
        timestamps: bool = False,
        namespace: str | None = None,
    ) -> str:
        """Return what a container of a pod has written so far.

        Args:
            pod: its name, or `pod/name`.
            container: which one; None if there is only one.
            previous: of the run before this one.
            tail: only so many lines from the end.
            since: only what is not older, in seconds.
            timestamps: whether each line starts with its time.
            namespace: where, unless on this bench.

        Raises:
            ApiError: there is no such pod or container, or it has not started.
        """
        name = self._pod(pod)
        return self._ask(
            lambda deadline: self._session.logs(
                namespace or self.namespace,
                name,
                container=container,
                previous=previous,
                tail_lines=tail,
                since_seconds=since,
                timestamps=timestamps,
                deadline=deadline,
            )
        )

    def exec(
        self,
        pod: str,
        *command: str,
        container: str | None = None,
        stdin: bytes | str | None = None,
        timeout: Duration | None = None,
        namespace: str | None = None,
    ) -> ExecResult:
        """Run a command in a container and return how it ended; any exit code is an answer.

        Args:
            pod: its name, or `pod/name`.
            *command: the program and its arguments; no shell is added.
            container: which one; None if there is only one.
            stdin: what the command reads; None for nothing.
            timeout: how long it may take; None for the table's `single_call`.
            namespace: where, unless on this bench.

        Raises:
            ApiError: the command could not be started.
            DeadlineExceeded: it did not end in time; says what it has written.
        """
        if not command:
            raise InvalidArgument("command", command, "name a program, for example 'true'")
        return self._session.exec(
            namespace or self.namespace,
            self._pod(pod),
            command,
            container=container,
            stdin=stdin,
            deadline=self._deadline(timeout),
        )

    def port_forward(
        self, pod: str, port: int, *, local_port: int = 0, namespace: str | None = None
    ) -> PortForward:
        """Return a local port that ends in a pod, until it is closed or the bench is.

        Args:
            pod: its name, or `pod/name`; it must be running.
            port: the port in the pod.
            local_port: the local port; 0 for any that is free: `.port` tells.
            namespace: where, unless on this bench.

        Raises:
            ApiError: there is no such pod, or it is not running.
            OSError: the local port is taken.
        """
        name = self._pod(pod)
        place = namespace or self.namespace
        # The deadline of a forward is its life; only asking for the pod must end soon.
        self._ask(lambda deadline: self._session.get(PODS, name, place, deadline=deadline))
        forward = self._session.port_forward(
            place,
            name,
            port,
            local_port=local_port,
            deadline=Deadline.after(None, self._session.clock),
        )
        return self._forwards.enter_context(forward)

    def _pod(self, pod: str) -> str:
        if "/" not in pod:
            return pod
        resource, name = self._target(pod)
        if resource.qualified != PODS.qualified:
            raise InvalidArgument("pod", pod, "use the name of a pod, or 'pod/name'")
        return name
