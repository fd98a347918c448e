"""`Kwait`: a client, a namespace, and the verbs and waits of a test in it.

Requests are retried within their limit. The verbs on workloads (`scale`, `restart`,
`rolling_update`, `delete_and_wait`) return once the change is complete. Arguments of
`create_namespace` are checked before anything is created.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from pytest_kwait.apimachinery.durations import Duration, to_seconds
from pytest_kwait.apimachinery.validation import label_key_texts, label_value_texts
from pytest_kwait.client.resource import EVENTS, PODS
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError, ClusterError, InvalidArgument, WaitTimeout
from pytest_kwait.framework.registry import VERBS, WAITS
from pytest_kwait.suite.apply import ManifestWriter
from pytest_kwait.suite.bound_wait import BoundWait
from pytest_kwait.suite.cleanup.owned_objects import ANNOTATION_PREFIX, LABEL_MANAGED_BY
from pytest_kwait.suite.config.parsers import PodSecurity, parse_pod_security, read_dns_label
from pytest_kwait.suite.config.settings import DEFAULT_SOURCE
from pytest_kwait.suite.informers import Informers
from pytest_kwait.suite.manifests import Source, read_manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from kubernetes.client import ApiClient

    from pytest_kwait.client.exec import ExecResult
    from pytest_kwait.client.port_forward import PortForward
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.responses import ObjectList
    from pytest_kwait.clusters.provider import Cluster
    from pytest_kwait.framework.objects.combinators import ConditionInput
    from pytest_kwait.framework.predicates import HeldPredicate
    from pytest_kwait.suite.bound_wait import WaitDefaults
    from pytest_kwait.suite.cleanup.owned_objects import CreatedObject, Owner
    from pytest_kwait.suite.config.settings import Settings

__all__ = [
    "Kwait",
    "NamespaceRequest",
    "parse_namespace_request",
]

_Result = TypeVar("_Result")


if TYPE_CHECKING:
    NamespaceMaker = Callable[["NamespaceRequest"], "Kwait"]
    """Makes the namespace that is asked for, and gives a bench there."""


@dataclass(frozen=True, slots=True)
class NamespaceRequest:
    """One more namespace.

    Args:
        name: what it is called by its test; a part of its name.
        labels: labels that it is to have.
        pod_security: what pods may do in it; None for what they may in all.
    """

    name: str
    labels: Mapping[str, str]
    pod_security: PodSecurity | None


def parse_namespace_request(name: Any, labels: Any, pod_security: Any) -> NamespaceRequest:
    """Return what the arguments of `create_namespace` ask for.

    Raises:
        InvalidArgument: one of them cannot be meant.
    """
    level = None if pod_security is None else parse_pod_security(pod_security, "pod_security")
    return NamespaceRequest(read_dns_label(name, "name", None), _check_labels(labels), level)


def _check_labels(labels: Any) -> dict[str, str]:
    if labels is None:
        return {}
    valid = 'use a mapping of label names to texts, for example {"team": "a"}'
    if not isinstance(labels, Mapping):
        raise InvalidArgument("labels", labels, valid)
    for key, value in labels.items():
        if not (isinstance(key, str) and not label_key_texts(key)):
            raise InvalidArgument("labels", key, f"not a label key; {valid}")
        if not (isinstance(value, str) and not label_value_texts(value)):
            raise InvalidArgument(f"labels {key}", value, f"not a label value; {valid}")
        if key == LABEL_MANAGED_BY or key.startswith(ANNOTATION_PREFIX):
            raise InvalidArgument("labels", key, "it says whose the namespace is; use another name")
    return dict(labels)


_LIMIT_REACHED = 0.5
"""Seconds left of a test's limit at which something was ended by it."""

# `list` is a verb of the bench, so its class body cannot name the type.
Objects = list[dict[str, Any]]
Problems = list[str]


class Kwait:
    """A place in a cluster: `apply`, `get`, `delete`, `logs`, `wait_for`…, all in one namespace.

    Args:
        cluster: where it is.
        client: the client that it uses.
        namespace: the namespace that everything without one goes to.
        owner: whose it is, for the labels of what it makes elsewhere.
        defaults: settings, timeouts and limits in force when a verb is called.
        folders: where relative paths of manifests are looked for, when a verb is called.
        owned: whether the namespace goes away after the bench, with everything in it.
        namespace_maker: creates further namespaces of the test; None where the run creates none.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: ApiClient,
        namespace: str,
        *,
        owner: Owner,
        defaults: Callable[[], WaitDefaults],
        folders: Callable[[], Iterable[Path]],
        owned: bool,
        namespace_maker: NamespaceMaker | None = None,
    ) -> None:
        self.cluster = cluster
        self.client = client
        self.namespace = namespace
        self.informers = Informers(client, namespace)
        self._defaults = defaults
        self._session = Session.of(client)
        self._forwards = ExitStack()
        self._folders = folders
        self._namespace_maker = namespace_maker
        self._writer = ManifestWriter(
            self._session,
            namespace,
            owner=owner,
            owned=owned,
            deadline=self._deadline,
            established=lambda crd: self._bound("wait_for_crd_established")(crd),
            gone=self._gone,
        )
        self._owned = owned
        self.left: Problems = []
        """What was asked to go when it was closed, and was still there when its time was up."""

    def __repr__(self) -> str:
        return f"<Kwait {self.namespace} on {self.cluster.provider}>"

    @property
    def settings(self) -> Settings:
        """The settings in force, each with its source."""
        return self._defaults().settings

    @property
    def timeouts(self) -> Mapping[str, float]:
        """The timeout table in force: seconds by name."""
        return self._defaults().timeouts

    @property
    def wait_for(self) -> BoundWait:
        """The general wait on this bench: `kwait.wait_for("job/pi", "condition=Complete")`."""
        return self._bound("wait_for")

    def apply(self, *sources: Source) -> Objects:
        """Apply manifests on the server's side, in order; return what the server made of them.

        What follows a CustomResourceDefinition waits until the server serves it (`crd`, 1 minute),
        and so does a kind that the server does not know yet, but has a definition of. Where one of
        the same name is being deleted, this waits until that is gone (`pod_client_deletion`, 3
        minutes), unless the manifest says finalizers: then it is meant for the one that goes.

        Args:
            *sources: paths (relative to the test's file, then to rootdir), YAML text, dicts, lists.

        Raises:
            InvalidManifest: a manifest cannot be used; names file, document and line.
            ApiError: refused by the server; a note names the manifest.
            WaitFailed: a kind has a definition, which can no longer be established.
            WaitTimeout: one of the same name is being deleted, and does not go away; or a
                definition is not served.
        """
        return self._writer.apply(read_manifests(sources, self._folders()))

    def create(self, *sources: Source) -> Objects:
        """Create the objects of manifests, in order; return them as the server made them.

        Where one of the same name is being deleted, or a kind is not served yet, this waits as
        `apply` does.

        Args:
            *sources: as for `apply`; `metadata.generateName` will do.

        Raises:
            InvalidManifest: a manifest cannot be used; names file, document and line.
            ApiError: refused by the server, or there already; a note names the manifest.
            WaitFailed: a kind has a definition, which can no longer be established.
            WaitTimeout: one of the same name is being deleted, and does not go away; or a
                definition is not served.
        """
        return self._writer.create(read_manifests(sources, self._folders()))

    def create_namespace(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        pod_security: str | None = None,
    ) -> Kwait:
        """Make one more namespace for this test; return a bench there, once pods can start in it.

        It is labelled, kept and removed as the test's own namespace is. Waits of fixtures look
        there with `namespace=bench.namespace`.

        Args:
            name: what to call it, a DNS label; its name has run, worker and test as well, so that
                every test may have one of the same name.
            labels: labels that it is to have.
            pod_security: the Pod Security Standard that it enforces, as `--kwait-pod-security`;
                None for what that says.

        Raises:
            InvalidArgument: an argument that cannot be meant.
            ClusterError: the cluster refuses it, or the run makes no namespaces.
            WaitTimeout: it did not get what every namespace gets; it is deleted.
        """
        request = parse_namespace_request(name, labels, pod_security)
        if self._namespace_maker is None:
            raise ClusterError(
                f"namespace {name!r} cannot be made: this bench is in {self.namespace}, which was "
                "there before, and the run makes none"
            )
        return self._namespace_maker(request)

    def create_and_wait(
        self,
        *sources: Source,
        condition: ConditionInput | HeldPredicate | None = None,
        **options: Any,
    ) -> Objects:
        """Create the objects of manifests; return them once each is what its kind is made for.

        Pods are then ready, Jobs complete, workloads rolled out: as `pytest_kwait.create_and_wait`
        has it.

        Args:
            *sources: as for `apply`; `metadata.generateName` will do.
            condition: what each is to satisfy, as for `wait_for`; None for what its kind is made
                for, which some kinds do not have.
            **options: the options of every wait; the limit (`pod`) is each object's.

        Raises:
            InvalidManifest: a manifest cannot be used; names file, document and line.
            InvalidArgument: an argument that cannot be meant, or a kind that needs a condition.
            ApiError: refused by the server, or there already; a note names the manifest.
            WaitFailed: it can no longer come.
            WaitTimeout: it did not come within the limit.
        """
        from pytest_kwait.framework.operations.create import check_awaitable

        documents = read_manifests(sources, self._folders())
        for document in documents:
            check_awaitable(document.object, condition)
        wait = BoundWait(VERBS["wait_for_created"], self._defaults())
        return [
            wait(each, condition, namespace=each["metadata"].get("namespace"), **options)
            for each in self._writer.create(documents)
        ]

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
        return _with_types(resource, listed)

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
        return sorted(_with_types(EVENTS, listed), key=_event_time)

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
        where = namespace or self.namespace
        # The deadline of a forward is its life; only asking for the pod must end soon.
        self._ask(lambda deadline: self._session.get(PODS, name, where, deadline=deadline))
        forward = self._session.port_forward(
            where,
            name,
            port,
            local_port=local_port,
            deadline=Deadline.after(None, self._session.clock),
        )
        return self._forwards.enter_context(forward)

    def scale(self, target: str, replicas: int, **options: Any) -> dict[str, Any]:
        """Scale an object; return it once it has exactly so many pods, all Running and ready.

        Args:
            target: `deployment/web`, `statefulset/web`, `rs/web`, `rc/web` or a custom resource.
            replicas: how many pods; 0 or more.
            **options: `namespace`, and the options of every wait.

        Raises:
            ApiError: it is not there, or the server refuses.
            InvalidArgument: an argument that cannot be meant, or a kind that has no scale.
            WaitFailed: it can no longer come.
            WaitTimeout: it did not come within the limit (`controlled_pods`).
        """
        return cast("dict[str, Any]", self._verb("scale")(target, replicas, **options))

    def restart(self, target: str, **options: Any) -> dict[str, Any]:
        """Have all pods of a workload replaced; return it once that is rolled out.

        Args:
            target: `deployment/web`, `statefulset/web` or `daemonset/web`.
            **options: `namespace`, and the options of every wait.

        Raises:
            ApiError: it is not there, or the server refuses.
            InvalidArgument: an argument that cannot be meant, or a workload that cannot be
                restarted.
            WaitFailed: it can no longer come.
            WaitTimeout: it did not come within the limit (`deployment`).
        """
        return cast("dict[str, Any]", self._verb("restart")(target, **options))

    def rolling_update(
        self, target: str, update_period: Duration = 60.0, *, strict: bool = False, **options: Any
    ) -> Objects:
        """Delete the pods of a controller one by one; return those that came in their place.

        All of it ends before the test's own limit, pauses included.

        Args:
            target: `rc/web`, or any other controller of pods.
            update_period: the pause after each pod; 0 or more.
            strict: whether each replacement must be ready before the next deletion.
            **options: `within`, the limit of all of it, `namespace`, and the options of every wait.
                Unless they are set, what is back is polled for every 5 s; with `strict` it is
                watched.

        Raises:
            ApiError: the controller is not there, or the server refuses.
            InvalidArgument: an argument that cannot be meant, or pauses that take too long.
            WaitFailed: the controller was deleted meanwhile, or with `strict` a replacement is
                stuck.
            WaitTimeout: the count, or a replacement, did not come within the limit
                (`rolling_update`).
        """
        defaults = self._defaults()
        if not strict and defaults.settings.source("mode") == DEFAULT_SOURCE:
            options.setdefault("mode", "poll")
        if defaults.settings.source("poll") == DEFAULT_SOURCE:
            options.setdefault("poll", defaults.timeouts["rolling_update_poll"])
        time_budget = defaults.time_budget()
        if time_budget is not None:
            options["within"] = _shorter_limit(options.get("within"), time_budget.seconds)
        try:
            replaced = self._verb("rolling_update")(target, update_period, strict=strict, **options)
        except WaitTimeout as error:
            left = defaults.time_budget()
            if (
                left is not None
                and left.seconds < _LIMIT_REACHED
                and not getattr(error, "__notes__", ())
            ):
                error.add_note(f"all of it had to end before {left.reason}")
            raise
        return cast("Objects", replaced)

    def delete_and_wait(self, target: str, **options: Any) -> None:
        """Delete an object; return once it is gone, for a controller with all of its pods.

        Args:
            target: `kind/name`, in any of the names that kubectl knows a kind by.
            **options: `grace_period`, `propagation`, `namespace`, and the options of every wait.

        Raises:
            ApiError: it is not there (status 404), or the server refuses.
            InvalidArgument: an argument that cannot be meant.
            WaitTimeout: something is left at the limit (`pod_deletion`).
        """
        self._verb("delete_and_wait")(target, **options)

    def close(self, *, keep: bool = False) -> Problems:
        """Stop forwards and informers, and delete what was made outside of a namespace of our own.

        Args:
            keep: whether to delete nothing, and to note on it for how long it stays.

        Returns:
            what could not be deleted or noted, each with its reason.
        """
        self._forwards.close()
        self.informers.stop()
        if keep:
            return self._writer.keep()
        # Where the next test works in the same namespace it is not to meet what this one has made.
        return self._writer.delete(None if self._owned else self._wait_for_deletions())

    def _target(self, target: str) -> tuple[Resource, str]:
        kind, slash, name = target.partition("/")
        if not (kind and slash and name) or "/" in name:
            raise InvalidArgument("target", target, "use kind/name, for example 'job/pi'")
        return self._resolve(kind), name

    def _resolve(self, kind: str, api_version: str | None = None) -> Resource:
        return self._ask(
            lambda deadline: self._session.resolve(kind, api_version, deadline=deadline)
        )

    def _place(self, resource: Resource, namespace: str | None) -> str | None:
        return (namespace or self.namespace) if resource.namespaced else None

    def _deadline(self, timeout: Duration | None = None) -> Deadline:
        defaults = self._defaults()
        seconds = defaults.timeouts["single_call"]
        if timeout is not None:
            seconds = to_seconds(timeout, what="timeout", allow_zero=False)
        time_budget = defaults.time_budget()
        if time_budget is not None:
            seconds = min(seconds, max(time_budget.seconds, 1.0))
        return Deadline.after(seconds, self._session.clock)

    def _ask(self, call: Callable[[Deadline], _Result]) -> _Result:
        return request_with_retry(call, self._deadline())

    def _pod(self, pod: str) -> str:
        if "/" not in pod:
            return pod
        resource, name = self._target(pod)
        if resource.qualified != PODS.qualified:
            raise InvalidArgument("pod", pod, "use the name of a pod, or 'pod/name'")
        return name

    def _bound(self, name: str) -> BoundWait:
        return BoundWait(WAITS[name], self._defaults())

    def _verb(self, name: str) -> BoundWait:
        return BoundWait(VERBS[name], self._defaults())

    def _gone(
        self, resource: Resource, namespace: str | None, name: str, uid: str, **options: Any
    ) -> None:
        wait = BoundWait(VERBS["wait_for_gone"], self._defaults())
        wait(resource, name, uid, namespace=namespace, **options)

    def _wait_for_deletions(self) -> Callable[[CreatedObject], None] | None:
        """Return what waits until an object is gone, for all of them within one limit."""
        limit = self.settings.deletion_wait
        if not limit:
            return None
        deadline = Deadline.after(limit, self._session.clock)

        def see_off(going: CreatedObject) -> None:
            if deadline.expired:
                return
            limit = max(round(deadline.remaining, 1), 0.1)
            where = (going.resource, going.namespace, going.name, going.uid)
            try:
                self._gone(*where, timeout=limit)
            except WaitTimeout as error:
                self.left.append(error.args[0])
            except ApiError as error:
                self.left.append(f"{going}: whether it is gone cannot be seen: {error}")

        return see_off


def _shorter_limit(given: Duration | None, left: float) -> Duration:
    """Return the shorter of a limit and what is left, in tenths, for the sake of messages."""
    left = max(math.floor(left * 10) / 10, 0.1)
    return left if given is None else min(to_seconds(given, what="within", allow_zero=False), left)


def _with_types(resource: Resource, listed: ObjectList) -> Objects:
    """Return the objects of a list with what the API leaves out of those of built-in kinds."""
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [typed | item.object for item in listed.items]


def _event_time(event: Mapping[str, Any]) -> str:
    times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    created = (event.get("metadata") or {}).get("creationTimestamp")
    return str(next(filter(None, (*times, created)), ""))
