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
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from pytest_kwait.apimachinery.selectors import format_label_selector
from pytest_kwait.apimachinery.times import Duration, to_seconds
from pytest_kwait.apimachinery.validation import label_key_texts, label_value_texts
from pytest_kwait.client.resource import EVENTS, PODS, SECRETS, SERVICES
from pytest_kwait.client.session import Session
from pytest_kwait.client.write_options import parse_field_validation
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.failure.redaction import SECRET_VALUES
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import (
    ApiError,
    ClusterError,
    InvalidArgument,
    WaitFailed,
    WaitTimeout,
)
from pytest_kwait.framework.registry import VERBS, WAITS
from pytest_kwait.framework.workload.fields import CONTROLLERS, selector_of
from pytest_kwait.suite.bound_wait import BoundWait
from pytest_kwait.suite.cleanup.owned_objects import ANNOTATION_PREFIX, LABEL_MANAGED_BY
from pytest_kwait.suite.config.settings import (
    DEFAULT_SOURCE,
    PodSecurity,
    parse_pod_security,
    read_dns_label,
)
from pytest_kwait.suite.manifests import ManifestWriter, Source, read_manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from kubernetes.client import ApiClient

    from pytest_kwait.client.exec import ExecResult
    from pytest_kwait.client.port_forward import PortForward
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.responses import ObjectList
    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.framework.objects.combinators import ConditionInput
    from pytest_kwait.framework.predicates import HeldPredicate
    from pytest_kwait.suite.bound_wait import WaitDefaults
    from pytest_kwait.suite.cleanup.owned_objects import CreatedObject, Owner
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.informers import Informers

__all__ = [
    "Kwait",
    "NamespaceRequest",
    "parse_namespace_request",
]

_Result = TypeVar("_Result")


if TYPE_CHECKING:
    NamespaceMaker = Callable[["NamespaceRequest"], "Kwait"]
    """Creates the requested namespace, and returns a `Kwait` for it."""


@dataclass(frozen=True, slots=True)
class NamespaceRequest:
    """The checked arguments of `create_namespace`.

    Args:
        name: the name given by the test; a part of the namespace's name.
        labels: further labels.
        pod_security: the enforced level; None for the run's setting.
    """

    name: str
    labels: Mapping[str, str]
    pod_security: PodSecurity | None


def parse_namespace_request(name: Any, labels: Any, pod_security: Any) -> NamespaceRequest:
    """Check the arguments of `create_namespace`."""
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
"""Seconds left of a test's limit below which a timeout is attributed to it."""

# `Kwait.list` hides the builtin type in the class body.
Objects = list[dict[str, Any]]
Problems = list[str]


class Kwait:
    """A client for one namespace, with the verbs and waits of a test.

    Args:
        namespace: the namespace of calls that name none.
        owner: the owner of created objects, for their labels.
        defaults: returns the settings, timeouts and limits in force when a verb is called.
        folders: returns the folders against which manifest paths are resolved.
        owned: whether the namespace is deleted at the end, with everything in it.
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
        self._defaults = defaults
        self._session = Session.of(client)
        self._closing = ExitStack()
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
            callable_webhook=self._wait_for_webhook,
        )
        self._owned = owned
        self.left: Problems = []
        """Messages about objects that still existed at the end of `close`."""

    def __repr__(self) -> str:
        return f"<Kwait {self.namespace} on {self.cluster.provider}>"

    @cached_property
    def informers(self) -> Informers:
        """The informers of the test, by resource name; made on first use."""
        from pytest_kwait.suite.informers import Informers

        informers = Informers(self.client, self.namespace)
        self._closing.callback(informers.stop)
        return informers

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
        """The general wait: `kwait.wait_for("job/pi", "condition=Complete")`."""
        return self._bound("wait_for")

    def apply(self, *sources: Source, validate: str | bool = "strict") -> Objects:
        """Apply manifests server-side, in order; return the resulting objects.

        Objects of a kind that is not served yet wait for its CustomResourceDefinition (`crd`, 1
        minute). If an object of the same name is being deleted, this waits until it is gone
        (`pod_client_deletion`, 3 minutes), unless the manifest sets finalizers: then it applies to
        that object.

        Args:
            *sources: paths (relative to the test's file, then to rootdir), YAML text, dicts, lists.
            validate: as kubectl's `--validate`; server-side apply refuses unknown fields with
                `warn` and `ignore` too.

        Raises:
            InvalidManifest: a manifest cannot be used, or has unknown fields; names file, document
                and line.
            ApiError: the server refuses; a note names the manifest.
            WaitFailed: a definition can no longer be established, or the service of a webhook that
                fails the request has had no ready endpoint for the grace period.
            WaitTimeout: an object of the same name is not gone, or a definition is not served.
        """
        validation = parse_field_validation(validate)
        return self._writer.apply(read_manifests(sources, self._folders()), validation)

    def create(self, *sources: Source, validate: str | bool = "strict") -> Objects:
        """Create the objects of manifests, in order; return them as created.

        This waits for definitions and deletions as `apply` does.

        Args:
            *sources: as for `apply`; `metadata.generateName` is supported.
            validate: `strict` refuses unknown fields, `warn` logs them, `ignore` drops them.

        Raises:
            InvalidManifest: a manifest cannot be used, or has unknown fields; names file, document
                and line.
            ApiError: the server refuses, or the object exists; a note names the manifest.
            WaitFailed: a definition can no longer be established, or the service of a webhook that
                fails the request has had no ready endpoint for the grace period.
            WaitTimeout: an object of the same name is not gone, or a definition is not served.
        """
        validation = parse_field_validation(validate)
        return self._writer.create(read_manifests(sources, self._folders()), validation)

    def create_namespace(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        pod_security: str | None = None,
    ) -> Kwait:
        """Create a further namespace for this test; return its `Kwait` once pods can start in it.

        It is labelled, kept and removed like the test's own namespace. Wait fixtures use it with
        `namespace=other.namespace`.

        Args:
            name: a DNS label; the namespace's name also contains run, worker and test.
            labels: further labels.
            pod_security: the enforced level, as for `--kwait-pod-security`; None for that
                setting.

        Raises:
            ClusterError: the cluster refuses it, or the run creates no namespaces.
            WaitTimeout: it did not get its default objects; it is deleted again.
        """
        request = parse_namespace_request(name, labels, pod_security)
        if self._namespace_maker is None:
            raise ClusterError(
                f"namespace {name!r} cannot be created: the test runs in the given namespace "
                f"{self.namespace}, and a run with a given namespace creates none"
            )
        return self._namespace_maker(request)

    def create_and_wait(
        self,
        *sources: Source,
        condition: ConditionInput | HeldPredicate | None = None,
        validate: str | bool = "strict",
        **options: Any,
    ) -> Objects:
        """Create the objects of manifests; return them once each has reached its condition.

        By default Pods are ready, Jobs complete, workloads rolled out, as for
        `pytest_kwait.create_and_wait`.

        Args:
            *sources: as for `apply`; `metadata.generateName` is supported.
            condition: a condition as for `wait_for`; None for the default of the kind.
            validate: as for `create`.
            **options: options of every wait; the limit (`pod`) is per object.

        Raises:
            InvalidManifest: a manifest cannot be used; names file, document and line.
            InvalidArgument: an invalid argument, or a kind without a default condition.
            ApiError: the server refuses, or the object exists; a note names the manifest.
            WaitFailed: the condition can no longer come true.
            WaitTimeout: the condition did not come true within the limit.
        """
        from pytest_kwait.framework.operations.create import check_awaitable

        validation = parse_field_validation(validate)
        documents = read_manifests(sources, self._folders())
        for document in documents:
            check_awaitable(document.object, condition)
        wait = BoundWait(VERBS["wait_for_created"], self._defaults())
        return [
            wait(each, condition, namespace=each["metadata"].get("namespace"), **options)
            for each in self._writer.create(documents, validation)
        ]

    def get(self, target: str, *, namespace: str | None = None) -> dict[str, Any]:
        """Return one object.

        Args:
            target: `kind/name`, with any name of the kind that kubectl knows.
            namespace: another namespace.

        Raises:
            ApiError: not found (status 404), or refused.
            InvalidArgument: not `kind/name`, or an unknown kind.
        """
        resource, name = self._target(target)
        found = self._request(
            lambda deadline: self._session.get(
                resource, name, self._place(resource, namespace), deadline=deadline
            )
        )
        if resource.qualified == SECRETS.qualified:
            SECRET_VALUES.learn(found)
        return found

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
            kind: any name of the kind that kubectl knows.
            selector: label selector, as text or mapping.
            field_selector: field selector, as text or mapping.
            namespace: another namespace.

        Raises:
            ApiError: refused.
            InvalidArgument: an unknown kind.
        """
        resource = self._resolve(kind)
        listed = self._request(
            lambda deadline: self._session.list(
                resource,
                self._place(resource, namespace),
                label_selector=selector,
                field_selector=field_selector,
                deadline=deadline,
            )
        )
        for item in listed.items if resource.qualified == SECRETS.qualified else ():
            SECRET_VALUES.learn(item.object)
        return _with_types(resource, listed)

    def delete(
        self,
        target: str,
        *,
        namespace: str | None = None,
        grace_period: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> None:
        """Request the deletion of an object; `wait_for(target, "delete")` waits until it is gone.

        Args:
            target: `kind/name`.
            namespace: another namespace.
            grace_period: seconds; None for the object's own.
            propagation: how dependents are treated.

        Raises:
            ApiError: not found (status 404), or refused.
            InvalidArgument: not `kind/name`, or an unknown kind.
        """
        resource, name = self._target(target)
        if propagation not in ("Background", "Foreground", "Orphan"):
            raise InvalidArgument(
                "propagation", propagation, "use Background, Foreground or Orphan"
            )
        self._request(
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
            namespace: another namespace.

        Raises:
            ApiError: refused.
            InvalidArgument: not `kind/name`, or an unknown kind.
        """
        fields = None
        if target is not None:
            resource, name = self._target(target)
            fields = {"involvedObject.kind": resource.kind, "involvedObject.name": name}
        listed = self._request(
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
        """Return the log of a container.

        Args:
            pod: its name, `pod/name`, or what selects pods: `deployment/web`, `job/x`, `svc/web`;
                of several pods the one that kubectl selects.
            container: its name; None if the pod has only one.
            previous: the log of its previous run.
            tail: only the last lines, so many.
            since: only lines of the last seconds.
            timestamps: whether each line begins with its time.
            namespace: another namespace.

        Raises:
            ApiError: no such pod or container, or it has not started.
        """
        name = self._pod(pod, namespace, _logging_order)
        return self._request(
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
        """Run a command in a container and return its result; a non-zero exit code is no error.

        Args:
            pod: its name, `pod/name`, or what selects pods: `deployment/web`, `job/x`, `svc/web`;
                of several pods the one that kubectl selects.
            *command: the program and its arguments, run without a shell.
            container: its name; None if the pod has only one.
            stdin: the command's input; None for none.
            timeout: the limit; None for `single_call` of the timeout table.
            namespace: another namespace.

        Raises:
            ApiError: the command could not be started.
            DeadlineExceeded: it did not end in time; the message contains its output.
        """
        if not command:
            raise InvalidArgument("command", command, "name a program, for example 'true'")
        return self._session.exec(
            namespace or self.namespace,
            self._pod(pod, namespace, _attach_order),
            command,
            container=container,
            stdin=stdin,
            deadline=self._deadline(timeout),
        )

    def port_forward(
        self, pod: str, port: int, *, local_port: int = 0, namespace: str | None = None
    ) -> PortForward:
        """Forward a local port to a pod, until the forward or this object is closed.

        Args:
            pod: as for `logs`; it must be running.
            port: the port in the pod.
            local_port: 0 for any free port, given by `.port`.
            namespace: another namespace.

        Raises:
            ApiError: no such pod, or it is not running.
            OSError: the local port is taken.
        """
        name = self._pod(pod, namespace, _attach_order)
        where = namespace or self.namespace
        # A forward has no deadline; only the request for the pod has.
        self._request(lambda deadline: self._session.get(PODS, name, where, deadline=deadline))
        forward = self._session.port_forward(
            where,
            name,
            port,
            local_port=local_port,
            deadline=Deadline.after(None, self._session.clock),
        )
        return self._closing.enter_context(forward)

    def url(
        self,
        target: str,
        port: int | str | None = None,
        *,
        path: str = "/",
        scheme: str = "http",
        namespace: str | None = None,
    ) -> str:
        """Return a URL on this machine that leads to a port of a service, controller or pod.

        The port is forwarded until the end of the test, to the one pod that kubectl would select.

        Args:
            target: `service/web`, `deployment/web`, `pod/web` or the name of a pod.
            port: a number or name: of the service's ports, or else of the containers' ports. By
                default the only one.
            path: the path of the URL, with its query.
            scheme: `http` or `https`.
            namespace: another namespace.

        Raises:
            ApiError: no such object, it has no pods, or its pod is not running.
            InvalidArgument: no such port, or several ports and `port` names none.
        """
        name = self._pod(target, namespace, _attach_order)
        where = namespace or self.namespace
        pod = self._request(
            lambda deadline: self._session.get(PODS, name, where, deadline=deadline)
        )
        chosen: int | str | None = port
        if "/" in target and self._target(target)[0] == SERVICES:
            service = self.get(target, namespace=where)
            ports = (service.get("spec") or {}).get("ports") or ()
            found = _choose_port(target, ports, port, "port")
            chosen = found.get("targetPort") or found["port"]
        if not isinstance(chosen, int):
            spec = pod.get("spec") or {}
            declared = [
                each for one in spec.get("containers") or () for each in one.get("ports") or ()
            ]
            chosen = int(_choose_port(target, declared, chosen, "containerPort")["containerPort"])
        forward = self.port_forward(name, chosen, namespace=namespace)
        return f"{scheme}://127.0.0.1:{forward.port}/{path.removeprefix('/')}"

    def scale(self, target: str, replicas: int, **options: Any) -> dict[str, Any]:
        """Scale an object; return it once it has exactly this number of ready, Running pods.

        Args:
            target: `deployment/web`, `statefulset/web`, `rs/web`, `rc/web` or a custom resource.
            replicas: 0 or more.
            **options: `namespace`, and the options of every wait.

        Raises:
            ApiError: not found, or refused.
            InvalidArgument: an invalid argument, or a kind without a scale.
            WaitFailed: the condition can no longer come true.
            WaitTimeout: it did not come true within the limit (`controlled_pods`).
        """
        return cast("dict[str, Any]", self._verb("scale")(target, replicas, **options))

    def restart(self, target: str, **options: Any) -> dict[str, Any]:
        """Replace all pods of a workload; return it once it is rolled out.

        Args:
            target: `deployment/web`, `statefulset/web` or `daemonset/web`.
            **options: `namespace`, and the options of every wait.

        Raises:
            ApiError: not found, or refused.
            InvalidArgument: an invalid argument, or a workload that cannot be restarted.
            WaitFailed: the rollout can no longer complete.
            WaitTimeout: it did not complete within the limit (`deployment`).
        """
        return cast("dict[str, Any]", self._verb("restart")(target, **options))

    def rolling_update(
        self, target: str, update_period: Duration = 60.0, *, strict: bool = False, **options: Any
    ) -> Objects:
        """Delete the pods of a controller one by one; return their replacements.

        It ends before the test's own limit, pauses included.

        Args:
            target: `rc/web`, or another controller of pods.
            update_period: the pause after each pod; 0 or more.
            strict: whether each replacement must be ready before the next deletion.
            **options: `within`, the limit of the whole update, `namespace`, and the options of
                every wait. By default replacements are polled for every 5 s; with `strict` they are
                watched.

        Raises:
            ApiError: not found, or refused.
            InvalidArgument: an invalid argument, or pauses longer than the limit.
            WaitFailed: the controller was deleted, or with `strict` a replacement is stuck.
            WaitTimeout: a replacement did not come within the limit (`rolling_update`).
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
        """Delete an object; return once it is gone, for a controller with all its pods.

        Args:
            target: `kind/name`, with any name of the kind that kubectl knows.
            **options: `grace_period`, `propagation`, `namespace`, and the options of every wait.

        Raises:
            ApiError: not found (status 404), or refused.
            WaitTimeout: it is not gone within the limit (`pod_deletion`).
        """
        self._verb("delete_and_wait")(target, **options)

    def close(self, *, keep: bool = False, leave: bool = False) -> Problems:
        """Stop forwards and informers, and delete objects created outside of the test's namespace.

        Returns the objects that could not be deleted or annotated, each with its reason. With
        `keep` nothing is deleted: the objects get an annotation with their expiry. With `leave`
        they are left to the end of the run.
        """
        self._closing.close()
        if keep:
            return self._writer.keep()
        if leave:
            return []
        # The next test uses the same namespace and must not find these objects.
        return self._writer.delete(None if self._owned else self._wait_for_deletions())

    def _target(self, target: str) -> tuple[Resource, str]:
        kind, slash, name = target.partition("/")
        if not (kind and slash and name) or "/" in name:
            raise InvalidArgument("target", target, "use kind/name, for example 'job/pi'")
        return self._resolve(kind), name

    def _resolve(self, kind: str, api_version: str | None = None) -> Resource:
        return self._request(
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

    def _request(self, call: Callable[[Deadline], _Result]) -> _Result:
        return request_with_retry(call, self._deadline())

    def _pod(
        self, pod: str, namespace: str | None, order: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    ) -> str:
        """Return the name of a pod, or of the pod of a controller or Service that kubectl selects.

        Args:
            order: the key of pods; the lowest is selected.

        Source: kubectl/pkg/polymorphichelpers/logsforobject.go, attachablepodforobject.go.
        """
        if "/" not in pod:
            return pod
        resource, name = self._target(pod)
        if resource.qualified == PODS.qualified:
            return name
        if resource not in (*CONTROLLERS, SERVICES):
            valid = "use the name of a pod, 'pod/name', or what selects pods: 'deployment/web'"
            raise InvalidArgument("pod", pod, valid)
        place = namespace or self.namespace
        owner = self._request(
            lambda deadline: self._session.get(resource, name, place, deadline=deadline)
        )
        spec = owner.get("spec") or {}
        if resource == SERVICES:
            selector = format_label_selector({"matchLabels": spec.get("selector") or {}})
        else:
            selector = selector_of(resource, spec) or ""
        pods = (
            self._request(
                lambda deadline: self._session.list(
                    PODS, place, label_selector=selector, deadline=deadline
                )
            ).items
            if selector
            else ()
        )
        if not pods:
            raise ApiError(f"{pod} in {place} has no pods", status=404, reason="NotFound")
        return str(min((each.object for each in pods), key=order)["metadata"]["name"])

    def _bound(self, name: str) -> BoundWait:
        return BoundWait(WAITS[name], self._defaults())

    def _verb(self, name: str) -> BoundWait:
        return BoundWait(VERBS[name], self._defaults())

    def _gone(
        self, resource: Resource, namespace: str | None, name: str, uid: str, **options: Any
    ) -> None:
        wait = BoundWait(VERBS["wait_for_gone"], self._defaults())
        wait(resource, name, uid, namespace=namespace, **options)

    def _wait_for_webhook(self, error: ApiError) -> None:
        """Return once the webhook that failed a request has a ready endpoint, or may have one.

        Raises:
            WaitFailed: it has had none for the grace period.
        """
        from pytest_kwait.framework.cluster.webhooks import parse_uncalled_webhook

        webhook = parse_uncalled_webhook(error)
        if webhook is None:
            return
        try:
            self._verb("wait_for_webhook_endpoint")(
                webhook.service, webhook.name, namespace=webhook.namespace
            )
        except (ApiError, WaitTimeout):
            # The request is tried again, up to its own limit.
            return
        except WaitFailed as failure:
            failure.add_note(str(error))
            raise failure from None

    def _wait_for_deletions(self) -> Callable[[CreatedObject], None] | None:
        """Return a function that waits until an object is gone, with one limit for all."""
        limit = self.settings.deletion_wait
        # Without controllers nothing deletes dependents.
        if not limit or not getattr(self.cluster, "has_controllers", True):
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


def _choose_port(
    target: str, ports: Iterable[Mapping[str, Any]], port: int | str | None, field: str
) -> Mapping[str, Any]:
    """Return the port of a service or pod with this number or name, or the only one.

    Raises:
        InvalidArgument: there is none, or there are several and `port` is None.
    """
    known = list(ports)
    found = [one for one in known if port is None or port in (one.get("name"), one[field])]
    if len(found) == 1:
        return found[0]
    names = ", ".join(
        f"{one[field]} ({one['name']})" if one.get("name") else str(one[field]) for one in known
    )
    raise InvalidArgument("port", port, f"one of the ports of {target}: {names or 'it has none'}")


def _shorter_limit(given: Duration | None, left: float) -> Duration:
    """Return the shorter of two limits, in tenths of seconds for messages."""
    left = max(math.floor(left * 10) / 10, 0.1)
    return left if given is None else min(to_seconds(given, what="within", allow_zero=False), left)


def _with_types(resource: Resource, listed: ObjectList) -> Objects:
    """Return the objects of a list with `apiVersion` and `kind`, which the API omits."""
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [typed | item.object for item in listed.items]


def _logging_order(pod: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key by which kubectl selects a pod for its log: also of pods that have ended.

    Source: kubectl/pkg/util/podutils/podutils.go ByLogging.
    """
    phase = {"Unknown": 1, "Pending": 2}.get(_phase(pod), 0)
    return _is_unassigned(pod), phase, *_ready_order(pod), -_restarts(pod), *_age_order(pod)


def _attach_order(pod: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key by which kubectl selects a pod to run commands in: first a Running one.

    Source: kubectl/pkg/util/podutils/podutils.go ActivePods, reversed.
    """
    phase = {"Running": 0, "Unknown": 1}.get(_phase(pod), 2)
    return _is_unassigned(pod), phase, *_ready_order(pod), _restarts(pod), *_age_order(pod)


def _is_unassigned(pod: Mapping[str, Any]) -> bool:
    return not (pod.get("spec") or {}).get("nodeName")


def _phase(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase"))


def _ready_order(pod: Mapping[str, Any]) -> tuple[bool, str]:
    """Return the key by which ready pods come first, those ready for longest before others."""
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Ready" and each.get("status") == "True":
            return False, str(each.get("lastTransitionTime") or "")
    return True, ""


def _restarts(pod: Mapping[str, Any]) -> int:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(each.get("restartCount") or 0) for each in containers), default=0)


def _age_order(pod: Mapping[str, Any]) -> tuple[str, str]:
    metadata = pod["metadata"]
    return str(metadata.get("creationTimestamp") or ""), str(metadata["name"])


def _event_time(event: Mapping[str, Any]) -> str:
    times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    created = (event.get("metadata") or {}).get("creationTimestamp")
    return str(next(filter(None, (*times, created)), ""))
