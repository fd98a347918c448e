"""The bench a test works at: a client, a namespace, and the verbs to put things there and look."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pytest_kwait.api.resource import EVENTS, PODS
from pytest_kwait.api.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.error_policy import retrying
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.resources.catalogue import WAITS
from pytest_kwait.suite.bound_wait import BoundWait
from pytest_kwait.suite.informers import Informers
from pytest_kwait.suite.manifests import Source, read_manifests
from pytest_kwait.suite.writer import Writer
from pytest_kwait.wait.durations import Duration, to_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from kubernetes.client import ApiClient

    from pytest_kwait.api.execution import Execution
    from pytest_kwait.api.forwarding import PortForward
    from pytest_kwait.api.objects import ObjectList
    from pytest_kwait.api.resource import Resource
    from pytest_kwait.clusters.provider import Cluster
    from pytest_kwait.suite.bound_wait import Terms
    from pytest_kwait.suite.namespaces import Owner
    from pytest_kwait.suite.settings import Settings

__all__ = ["Bench"]

# `list` is a verb of the bench, so its class body cannot name the type.
Objects = list[dict[str, Any]]
Problems = list[str]
_Answer = TypeVar("_Answer")


class Bench:
    """A place in a cluster: `apply`, `get`, `delete`, `logs`, `wait_for`…, all in one namespace.

    Args:
        cluster: where it is.
        client: the client that it uses.
        namespace: the namespace that everything without one goes to.
        owner: whose it is, for the labels of what it makes elsewhere.
        terms: settings, timeouts and limits in force when a verb is called.
        folders: where relative paths of manifests are looked for, when a verb is called.
        owned: whether the namespace goes away after the bench, with everything in it.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: ApiClient,
        namespace: str,
        *,
        owner: Owner,
        terms: Callable[[], Terms],
        folders: Callable[[], Iterable[Path]],
        owned: bool,
    ) -> None:
        self.cluster = cluster
        self.client = client
        self.namespace = namespace
        self.informers = Informers(client, namespace)
        self._terms = terms
        self._folders = folders
        self._session = Session.of(client)
        self._forwards = ExitStack()
        self._writer = Writer(
            self._session,
            namespace,
            owner=owner,
            owned=owned,
            deadline=self._deadline,
            established=lambda crd: self._bound("wait_for_crd_established")(crd),
        )

    def __repr__(self) -> str:
        return f"<Bench {self.namespace} on {self.cluster.provider}>"

    @property
    def settings(self) -> Settings:
        """The settings in force, each with its source."""
        return self._terms().settings

    @property
    def timeouts(self) -> Mapping[str, float]:
        """The timeout table in force: seconds by name."""
        return self._terms().timeouts

    @property
    def wait_for(self) -> BoundWait:
        """The general wait on this bench: `kwait.wait_for("job/pi", "condition=Complete")`."""
        return self._bound("wait_for")

    def _bound(self, name: str) -> BoundWait:
        return BoundWait(WAITS[name], self._terms())

    def apply(self, *sources: Source) -> Objects:
        """Apply manifests on the server's side, in order; return what the server made of them.

        What follows a CustomResourceDefinition waits until the server serves it.

        Args:
            *sources: paths (relative to the test's file, then to rootdir), YAML text, dicts, lists.

        Raises:
            InvalidManifest: a manifest cannot be used; names file, document and line.
            ApiError: refused by the server; a note names the manifest.
        """
        return self._writer.apply(read_manifests(sources, self._folders()))

    def create(self, *sources: Source) -> Objects:
        """Create the objects of manifests, in order; return them as the server made them.

        Args:
            *sources: as for `apply`; `metadata.generateName` will do.

        Raises:
            InvalidManifest: a manifest cannot be used; names file, document and line.
            ApiError: refused by the server, or there already; a note names the manifest.
        """
        return self._writer.create(read_manifests(sources, self._folders()))

    def get(self, target: str, *, namespace: str | None = None) -> dict[str, Any]:
        """Return one object.

        Args:
            target: `kind/name`, in any of the names that kubectl knows a kind by.
            namespace: where, unless on this bench.

        Raises:
            ApiError: there is none (status 404), or the server does not show it.
            InvalidArgument: no `kind/name`, or an unknown kind; names near ones.
        """
        resource, name = self._target(target)
        return self._ask(
            lambda deadline: self._session.get(
                resource, name, self._place(resource, namespace), deadline=deadline
            )
        )

    def list(
        self,
        kind: str,
        *,
        selector: str | Mapping[str, str] | None = None,
        field_selector: str | Mapping[str, str] | None = None,
        namespace: str | None = None,
    ) -> Objects:
        """Return all objects of a kind.

        Args:
            kind: in any of the names that kubectl knows it by.
            selector: labels, as text or mapping.
            field_selector: fields, as text or mapping.
            namespace: where, unless on this bench.

        Raises:
            ApiError: the server does not show them.
            InvalidArgument: an unknown kind; names near ones.
        """
        resource = self._resolve(kind)
        listed = self._ask(
            lambda deadline: self._session.list(
                resource,
                self._place(resource, namespace),
                label_selector=selector,
                field_selector=field_selector,
                deadline=deadline,
            )
        )
        return _typed(resource, listed)

    def delete(
        self,
        target: str,
        *,
        namespace: str | None = None,
        grace_period: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> None:
        """Ask for the deletion of an object; `wait_for(target, "delete")` waits until it is gone.

        Args:
            target: `kind/name`.
            namespace: where, unless on this bench.
            grace_period: seconds it may take to stop; None for its own time.
            propagation: `Background`, `Foreground` or `Orphan`: what happens to what it owns.

        Raises:
            ApiError: there is none (status 404), or the server refuses.
            InvalidArgument: no `kind/name`, or an unknown kind; names near ones.
        """
        resource, name = self._target(target)
        if propagation not in ("Background", "Foreground", "Orphan"):
            raise InvalidArgument(
                "propagation", propagation, "use Background, Foreground or Orphan"
            )
        self._ask(
            lambda deadline: self._session.delete(
                resource,
                name,
                self._place(resource, namespace),
                grace_period_seconds=grace_period,
                propagation_policy=propagation,
                deadline=deadline,
            )
        )

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
    ) -> Execution:
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

    def events(self, target: str | None = None, *, namespace: str | None = None) -> Objects:
        """Return the events of the namespace, or of one object, oldest first.

        Args:
            target: `kind/name`; None for all.
            namespace: where, unless on this bench.

        Raises:
            ApiError: the server does not show them.
            InvalidArgument: no `kind/name`, or an unknown kind; names near ones.
        """
        fields = None
        if target is not None:
            resource, name = self._target(target)
            fields = {"involvedObject.kind": resource.kind, "involvedObject.name": name}
        listed = self._ask(
            lambda deadline: self._session.list(
                EVENTS, namespace or self.namespace, field_selector=fields, deadline=deadline
            )
        )
        return sorted(_typed(EVENTS, listed), key=_when)

    def close(self, *, keep: bool = False) -> Problems:
        """Stop forwards and informers, and delete what was made outside of a namespace of our own.

        Args:
            keep: whether to delete nothing.

        Returns:
            what could not be deleted, each with its reason.
        """
        self._forwards.close()
        self.informers.stop()
        return [] if keep else self._writer.delete()

    def _target(self, target: str) -> tuple[Resource, str]:
        kind, slash, name = target.partition("/")
        if not (kind and slash and name) or "/" in name:
            raise InvalidArgument("target", target, "use kind/name, for example 'job/pi'")
        return self._resolve(kind), name

    def _pod(self, pod: str) -> str:
        if "/" not in pod:
            return pod
        resource, name = self._target(pod)
        if resource.qualified != PODS.qualified:
            raise InvalidArgument("pod", pod, "use the name of a pod, or 'pod/name'")
        return name

    def _resolve(self, kind: str, api_version: str | None = None) -> Resource:
        return self._ask(
            lambda deadline: self._session.resolve(kind, api_version, deadline=deadline)
        )

    def _place(self, resource: Resource, namespace: str | None) -> str | None:
        return (namespace or self.namespace) if resource.namespaced else None

    def _deadline(self, timeout: Duration | None = None) -> Deadline:
        terms = self._terms()
        seconds = terms.timeouts["single_call"]
        if timeout is not None:
            seconds = to_seconds(timeout, what="timeout", allow_zero=False)
        allowance = terms.allowance()
        if allowance is not None:
            seconds = min(seconds, max(allowance.seconds, 1.0))
        return Deadline.after(seconds, self._session.clock)

    def _ask(self, call: Callable[[Deadline], _Answer]) -> _Answer:
        return retrying(call, self._deadline())


def _typed(resource: Resource, listed: ObjectList) -> Objects:
    """Return the objects of a list with what the API leaves out of those of built-in kinds."""
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [typed | item.object for item in listed.items]


def _when(event: Mapping[str, Any]) -> str:
    times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    created = (event.get("metadata") or {}).get("creationTimestamp")
    return str(next(filter(None, (*times, created)), ""))
