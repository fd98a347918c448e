"""`Kwait`: a client, a namespace, and the verbs and waits of a test in it.

Requests are retried within their limit. The verbs on workloads (`scale`, `restart`,
`rolling_update`, `delete_and_wait`) return once the change is complete. Arguments of
`create_namespace` are checked before anything is created.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast

from pytest_kwait.apimachinery.arguments import check_flag, check_instance, check_text
from pytest_kwait.apimachinery.normalized import normalize_object
from pytest_kwait.apimachinery.selectors import (
    format_label_selector,
    normalize_field_selector,
    normalize_label_selector,
)
from pytest_kwait.apimachinery.times import Duration, format_duration, to_seconds
from pytest_kwait.apimachinery.validation import (
    check_name,
    check_namespace,
    label_key_texts,
    label_value_texts,
)
from pytest_kwait.client.impersonation import parse_impersonation
from pytest_kwait.client.resource import (
    EVENTS,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.write_options import parse_field_validation
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import Step
from pytest_kwait.engine.failure.redaction import SECRET_VALUES
from pytest_kwait.engine.options import WaitOptions, check_count, resolve_options
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import (
    ApiError,
    ClusterError,
    InvalidArgument,
    KwaitError,
    WaitTimeout,
)
from pytest_kwait.framework.cluster.webhooks import WriteErrors
from pytest_kwait.framework.named_objects import (
    describe_deletion,
    parse_object_argument,
    strip_kind,
)
from pytest_kwait.framework.operations.drain import (
    check_drain,
    scheduling_change,
    taints_change,
)
from pytest_kwait.framework.operations.edit import (
    annotations_change,
    change_object,
    check_patch,
    check_subresource,
    labels_change,
    send_patch,
    user_change,
)
from pytest_kwait.framework.registry import VERBS, WAITS
from pytest_kwait.framework.workload.fields import CONTROLLERS, selector_of
from pytest_kwait.suite.aio import awaitable
from pytest_kwait.suite.bound_wait import BoundCacheSync, BoundWait, check_model, to_model
from pytest_kwait.suite.cleanup.changed_objects import ChangedObjects
from pytest_kwait.suite.cleanup.owned_objects import ANNOTATION_PREFIX, LABEL_MANAGED_BY
from pytest_kwait.suite.config.settings import DEFAULT_SOURCE
from pytest_kwait.suite.config.values import PodSecurityLevel, parse_pod_security, read_dns_label
from pytest_kwait.suite.file_copies import (
    ContainerFiles,
    check_container_path,
    check_local_path,
    find_source,
)
from pytest_kwait.suite.manifest_namespaces import TargetNamespace, parse_moves
from pytest_kwait.suite.manifests import (
    Document,
    ManifestWriter,
    Models,
    Objects,
    Source,
    read_manifests,
)
from pytest_kwait.suite.merged_logs import list_log_places, merge_logs
from pytest_kwait.suite.observers import APPLY_LISTENERS
from pytest_kwait.suite.wait_methods import AsyncWaitMethods, WaitMethods
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import typing_extensions
    from kubernetes.client import ApiClient

    from pytest_kwait.client.exec import ExecResult
    from pytest_kwait.client.port_forward import PortForward
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.responses import ObjectList
    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.framework.named_objects import KubernetesObject
    from pytest_kwait.framework.objects.combinators import ConditionInput
    from pytest_kwait.framework.operations.edit import Change, PatchType
    from pytest_kwait.framework.operations.run import RunResult
    from pytest_kwait.framework.predicates import HeldPredicate
    from pytest_kwait.suite.bound_wait import WaitDefaults
    from pytest_kwait.suite.cleanup.owned_objects import CreatedObject, Owner
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.helm.chart import ChartArguments, Values
    from pytest_kwait.suite.helm.program import ReleaseName
    from pytest_kwait.suite.helm.records import HelmRelease
    from pytest_kwait.suite.helm.releases import HelmReleases, Limits
    from pytest_kwait.suite.informers import Informers
    from pytest_kwait.suite.kubectl import KubectlResult

    # Without `as_model`, objects are dicts.
    _Model = typing_extensions.TypeVar("_Model", default=dict[str, Any])

# `Kwait.list` hides the builtin type in the class body.
Problems = list[str]
Documents = list[Document]

_Result = TypeVar("_Result")


if TYPE_CHECKING:
    NamespaceMaker = Callable[["NamespaceRequest"], "Kwait"]
    """Creates the requested namespace, and returns a `Kwait` for it."""
_MAX_PORT = 65535
_TOKEN_SECONDS = 24 * 60 * 60
"""Seconds for which tokens of service accounts are asked for: a night's run."""
_LIMIT_REACHED = 0.5
"""Seconds left of a test's limit below which a timeout is attributed to it."""


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
    pod_security: PodSecurityLevel | None


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


class Kwait(WaitMethods):
    """A client for one namespace, with the verbs and waits of a test.

    Args:
        namespace: the namespace of calls that name none.
        owner: the owner of created objects, for their labels.
        defaults: returns the settings, timeouts and limits in force when a verb is called.
        folders: returns the folders against which manifest paths are resolved.
        owned: whether the namespace is deleted at the end, with everything in it.
        namespace_maker: creates further namespaces of the test; None where the run creates none.
        base: the object of the run's own user, which removes what this one creates; None for
            itself.
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
        base: Kwait | None = None,
    ) -> None:
        self.cluster = cluster
        self.client = client
        self.namespace = namespace
        self._defaults = defaults
        self._session = ApiSession.of(client)
        self._closing = ExitStack()
        self._folders = folders
        self._namespace_maker = namespace_maker
        self._base: Kwait = base or self
        self._impersonating: dict[str, Kwait] = {}
        self._writer: ManifestWriter = ManifestWriter(
            self._session,
            namespace,
            owner=owner,
            owned=owned,
            deadline=self._deadline,
            established=self._base.wait_for_crd_established,
            gone=self._base._gone,
            created=None if base is None else base._writer.created,
        )
        self._owned = owned
        self._owner = owner
        self.left: Problems = []
        """Messages about objects that still existed at the end of `close`."""

    def __repr__(self) -> str:
        return f"<Kwait {self.namespace} on {self.cluster.provider}>"

    @cached_property
    def _changes(self) -> ChangedObjects:
        """The objects of others that the test changes; made with the first one."""
        if self._base is not self:
            return self._base._changes
        return ChangedObjects(self._session, self._owner)

    @cached_property
    def informers(self) -> Informers:
        """The informers of the test, by resource name; made on first use."""
        from pytest_kwait.suite.informers import Informers

        informers = Informers(self.client, self.namespace)
        self._closing.callback(informers.stop)
        return informers

    def step(self, name: str) -> AbstractContextManager[str]:
        """Name a part of the test: `with kwait.step("create the shop")`; steps may be nested.

        The name is in the message of an error in it, in live status, and in reports.

        Args:
            name: what the part does, as a phrase.
        """
        value: object = name
        if not isinstance(value, str) or not value.strip():
            raise InvalidArgument("name", name, "use a phrase, for example 'create the shop'")
        return Step(" ".join(name.split()))

    @cached_property
    def aio(self) -> AsyncKwait:
        """The methods of this object for async tests: `await kwait.aio.wait_for_job_complete(…)`.

        They never block the event loop; cancelling the task stops the wait.
        """
        return AsyncKwait(self)

    @property
    def settings(self) -> Settings:
        """The settings in force, each with its source."""
        return self._defaults().settings

    @property
    def timeouts(self) -> Mapping[str, float]:
        """The timeout table in force: seconds by name."""
        return self._defaults().timeouts

    def apply(
        self,
        /,
        *sources: Source,
        namespace: TargetNamespace | None = None,
        validate: str | bool = "strict",
        dry_run: bool = False,
        **variables: Any,
    ) -> Objects:
        """Apply manifests server-side, in order; return the resulting objects.

        Objects of a kind that is not served yet wait for its CustomResourceDefinition (`crd`, 1
        minute). If an object of the same name is being deleted, this waits until it is gone
        (`pod_client_deletion`, 3 minutes), unless the manifest sets finalizers: then it applies to
        that object.

        Args:
            *sources: paths (relative to the test's file, then to rootdir), YAML text, dicts,
                models of the official client, lists.
            namespace: the namespace to which the objects are moved, whatever the manifests say;
                True for the test's own; or a mapping of the manifests' namespaces to these.
                References of bindings, webhooks and API services move too. None moves nothing.
                A text is also the value of the variable `namespace`, which need not be used.
            validate: as kubectl's `--validate`; server-side apply refuses unknown fields with
                `warn` and `ignore` too.
            dry_run: whether the server only returns what it would store: nothing is changed, and
                nothing is owned by the test. Each object is tried alone, without those before it.
            **variables: with any, files and texts are Jinja2 templates that use all of them.

        Raises:
            InvalidManifest: a manifest cannot be used, or has unknown fields; names file, document
                and line.
            ApiError: the server refuses; a note names the manifest.
            ClusterError: an object outside of the namespace belongs to another test that runs.
            WaitFailed: a definition can no longer be established, or a webhook that fails the
                request could not be called for the grace period.
            WaitTimeout: an object of the same name is not gone, or a definition is not served.
        """
        validation = parse_field_validation(validate)
        check_flag("dry_run", dry_run)
        documents, target = self._documents(sources, namespace, variables)
        return self._report_applied(
            self._writer.apply(documents, validation, target, dry_run=dry_run), dry_run=dry_run
        )

    def create(
        self,
        /,
        *sources: Source,
        namespace: TargetNamespace | None = None,
        validate: str | bool = "strict",
        dry_run: bool = False,
        **variables: Any,
    ) -> Objects:
        """Create the objects of manifests, in order; return them as created.

        This waits for definitions and deletions as `apply` does.

        Args:
            *sources: as for `apply`; `metadata.generateName` is supported.
            namespace: as for `apply`.
            validate: `strict` refuses unknown fields, `warn` logs them, `ignore` drops them.
            dry_run: as for `apply`.
            **variables: as for `apply`.

        Raises:
            InvalidManifest: a manifest cannot be used, or has unknown fields; names file, document
                and line.
            ApiError: the server refuses, or the object exists; a note names the manifest.
            WaitFailed: a definition can no longer be established, or a webhook that fails the
                request could not be called for the grace period.
            WaitTimeout: an object of the same name is not gone, or a definition is not served.
        """
        validation = parse_field_validation(validate)
        check_flag("dry_run", dry_run)
        documents, target = self._documents(sources, namespace, variables)
        return self._report_applied(
            self._writer.create(documents, validation, target, dry_run=dry_run), dry_run=dry_run
        )

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

    def as_user(
        self,
        name: str,
        *,
        groups: Iterable[str] = (),
        uid: str = "",
        extra: Mapping[str, Iterable[str]] | None = None,
    ) -> Kwait:
        """Return this object for another user, by impersonation.

        Verbs and waits, kubectl, helm, `client` and `cluster.kubeconfig` act as this user. What a
        failed wait shows is read with the rights of the run's own user, who also removes what this
        one creates. Fixtures stay those of the run's own user.

        Args:
            name: the user's name.
            groups: the user's groups; the server adds `system:authenticated`.
            uid: the user's UID; empty for none.
            extra: further attributes, texts each.
        """
        impersonation = parse_impersonation(name, groups, uid, extra)
        key = repr(impersonation)
        if key not in self._base._impersonating:
            other = self._base._act_as(impersonation.user, impersonation=impersonation)
            self._base._impersonating[key] = other
        return self._base._impersonating[key]

    def as_service_account(
        self, service_account: str | KubernetesObject, *, namespace: str | None = None
    ) -> Kwait:
        """Return this object for a service account, by a token of its own.

        As `as_user`, with the token of `kubeconfig_for`. It stays in this namespace.

        Args:
            service_account: its name, `sa/name`, or an object.
            namespace: its namespace, if it is another one.

        Raises:
            ApiError: there is no such service account (status 404), or the server refuses a token.
        """
        token, user = self._base._request_token(service_account, namespace)
        return self._base._act_as(user, user={"token": token})

    def create_and_wait(
        self,
        *sources: Source,
        condition: ConditionInput | HeldPredicate | None = None,
        namespace: TargetNamespace | None = None,
        validate: str | bool = "strict",
        variables: Mapping[str, Any] | None = None,
        **options: Unpack[WaitOptions],
    ) -> Objects:
        """Create the objects of manifests; return them once each has reached its condition.

        By default Pods are ready, Jobs complete, workloads rolled out, as for
        `pytest_kwait.create_and_wait`.

        Args:
            *sources: as for `apply`; `metadata.generateName` is supported.
            condition: a condition as for `wait_for`; None for the default of the kind.
            namespace: as for `apply`.
            validate: as for `create`.
            variables: as for `apply`, by name.
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
        documents, target = self._documents(sources, namespace, variables)
        for document in documents:
            check_awaitable(document.object, condition)
        wait = BoundWait(VERBS["wait_for_created"], self._defaults())
        return [
            wait(obj, condition, namespace=obj["metadata"].get("namespace"), **options)
            for obj in self._report_applied(self._writer.create(documents, validation, target))
        ]

    def get(
        self,
        target: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
    ) -> _Model:
        """Return one object.

        Args:
            target: `kind/name`, with any name of the kind that kubectl knows; or an object.
            namespace: another namespace.
            as_model: a model of the official client to return, for example `V1Pod`; None for a
                dict.

        Raises:
            ApiError: not found (status 404), or refused.
            InvalidArgument: not `kind/name`, or an unknown kind.
        """
        if as_model is not None:
            check_model(as_model)
        resource, name = self._target(target, namespace)
        obj = self._request(
            lambda deadline: self._session.get(
                resource, name, self._place(resource, namespace), deadline=deadline
            )
        )
        _learn_secret(resource, obj)
        return to_model(self.client, obj, as_model)

    def list(
        self,
        kind: str,
        *,
        selector: str | Mapping[str, str] | None = None,
        field_selector: str | Mapping[str, str] | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
    ) -> Models[_Model]:
        """Return all objects of a kind.

        Args:
            kind: any name of the kind that kubectl knows.
            selector: label selector, as text or mapping.
            field_selector: field selector, as text or mapping.
            namespace: another namespace.
            as_model: a model of the official client to return, as for `get`.

        Raises:
            ApiError: refused.
            InvalidArgument: an unknown kind.
        """
        check_text("kind", kind)
        if as_model is not None:
            check_model(as_model)
        label_selector = normalize_label_selector(selector)
        fields = normalize_field_selector(field_selector)
        self._other_namespace(namespace)
        resource = self._resolve(kind)
        listed = self._request(
            lambda deadline: self._session.list(
                resource,
                self._place(resource, namespace),
                label_selector=label_selector,
                field_selector=fields,
                deadline=deadline,
            )
        )
        for item in listed.items:
            _learn_secret(resource, item.object)
        objects = _with_types(resource, listed)
        return [to_model(self.client, obj, as_model) for obj in objects]

    def delete(
        self,
        target: str | KubernetesObject,
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
        if propagation not in ("Background", "Foreground", "Orphan"):
            raise InvalidArgument(
                "propagation", propagation, "use Background, Foreground or Orphan"
            )
        if grace_period is not None:
            check_count("grace_period", grace_period)
        resource, name = self._target(target, namespace)
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

    def events(
        self, target: str | KubernetesObject | None = None, *, namespace: str | None = None
    ) -> Objects:
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
            resource, name = self._target(target, namespace)
            fields = {"involvedObject.kind": resource.kind, "involvedObject.name": name}
        listed = self._request(
            lambda deadline: self._session.list(
                EVENTS, self._other_namespace(namespace), field_selector=fields, deadline=deadline
            )
        )
        return sorted(_with_types(EVENTS, listed), key=_event_time)

    def normalized(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of an object without generated parts, for comparison with a file.

        Left out are times, UIDs, versions, generations, `managedFields`, addresses, nodes and the
        volume of the token. Generated parts of names are `*`, the namespace is `NAMESPACE`.

        Args:
            obj: the object, as `get` returns it.

        Raises:
            InvalidArgument: it is no object.
        """
        if not isinstance(obj, Mapping):
            raise InvalidArgument("obj", obj, "give an object as `kwait.get` returns it")
        return normalize_object(obj, self.namespace)

    def logs(
        self,
        target: str | KubernetesObject | None = None,
        *,
        selector: str | Mapping[str, str] | None = None,
        all_pods: bool = False,
        container: str | None = None,
        previous: bool = False,
        tail: int | None = None,
        since: int | None = None,
        timestamps: bool = False,
        namespace: str | None = None,
    ) -> str:
        """Return the log of a container, or those of several pods.

        The lines of several pods are merged by time, each with its pod and container before it, as
        `kubectl logs --prefix` shows them: `[pod/web-1/main] ready`. Containers that have not
        started are left out.

        Args:
            target: a pod, by name, as `pod/name` or as an object; or what selects pods:
                `deployment/web`, `job/x`, `svc/web`. Of several pods the one that kubectl selects.
            selector: the pods with these labels, as text or mapping, instead of the target.
            all_pods: whether all pods of the target are read, as with kubectl's `--all-pods`.
            container: its name; None if the pod has only one. Of several pods None stands for all
                containers.
            previous: the log of its previous run.
            tail: only the last lines of each container, so many.
            since: only lines of the last seconds.
            timestamps: whether each line begins with its time.
            namespace: another namespace.

        Raises:
            ApiError: no such pod or container, or it has not started.
            InvalidArgument: not exactly one of target and selector, or an invalid argument.
        """
        if container is not None:
            check_text("container", container)
        flags = {"all_pods": all_pods, "previous": previous, "timestamps": timestamps}
        for flag, value in flags.items():
            check_flag(flag, value)
        for limit, count in (("tail", tail), ("since", since)):
            if count is not None:
                check_count(limit, count)
        labels = normalize_label_selector(selector)
        place = self._other_namespace(namespace)
        if (target is None) == (selector is None):
            raise InvalidArgument("arguments", [], "give exactly one of target and selector")
        is_merged = all_pods or target is None

        def read(name: str, container: str | None) -> str:
            return self._request(
                lambda deadline: self._session.logs(
                    place,
                    name,
                    container=container,
                    previous=previous,
                    tail_lines=tail,
                    since_seconds=since,
                    timestamps=timestamps or is_merged,
                    deadline=deadline,
                )
            )

        if target is not None and not all_pods:
            return read(self._pod(target, namespace, _logging_order), container)
        if target is not None:
            pods = self._all_pods(target, namespace)
        elif labels is not None:
            pods = self._list_pods(f"selector {labels}", labels, namespace)
        else:
            raise InvalidArgument("selector", selector, "use labels that select something")
        logs = {}
        for log_place in list_log_places(pods, container, previous=previous):
            try:
                logs[log_place] = read(*log_place)
            except ApiError as error:
                # The pod was deleted or its container replaced in between.
                if error.status not in (400, 404):
                    raise
        return merge_logs(logs, timestamps=timestamps)

    def _all_pods(self, target: str | KubernetesObject, namespace: str | None) -> Objects:
        """Return the pod that a target names, or all pods that it selects."""
        if isinstance(target, str) and "/" not in target:
            target = f"pod/{target}"
        resource, name = self._target(target, namespace)
        if resource.qualified != PODS.qualified:
            return self._pods_of(target, resource, name, namespace)
        place = self._other_namespace(namespace)
        return [
            self._request(lambda deadline: self._session.get(PODS, name, place, deadline=deadline))
        ]

    def exec(
        self,
        target: str | KubernetesObject,
        *command: str,
        container: str | None = None,
        stdin: bytes | str | None = None,
        timeout: Duration | None = None,
        namespace: str | None = None,
    ) -> ExecResult:
        """Run a command in a container and return its result; a non-zero exit code is no error.

        Args:
            target: a pod, by name, as `pod/name` or as an object; or what selects pods:
                `deployment/web`, `job/x`, `svc/web`. Of several pods the one that kubectl selects.
            *command: the program and its arguments, run without a shell.
            container: its name; None if the pod has only one.
            stdin: the command's input; None for none.
            timeout: the limit; None for `single_call` of the timeout table.
            namespace: another namespace.

        Raises:
            ApiError: the command could not be started.
            wait.DeadlineExceeded: it did not end in time; the message contains its output.
        """
        if not command:
            raise InvalidArgument("command", command, "name a program, for example 'true'")
        if not all(isinstance(word, str) for word in command):
            raise InvalidArgument("command", command, "use texts: the program and its arguments")
        if container is not None:
            check_text("container", container)
        if stdin is not None and not isinstance(stdin, bytes | str):
            raise InvalidArgument("stdin", stdin, "use bytes or a text")
        if timeout is not None:
            to_seconds(timeout, what="timeout", allow_zero=False)
        return self._session.exec(
            self._other_namespace(namespace),
            self._pod(target, namespace, _attach_order),
            command,
            container=container,
            stdin=stdin,
            deadline=self._deadline(timeout),
        )

    def copy_to(
        self,
        pod: str | KubernetesObject,
        source: str | Path,
        target: str,
        *,
        container: str | None = None,
        timeout: Duration | None = None,
        namespace: str | None = None,
    ) -> str:
        """Copy a local file or folder into a container; return the path of the copy.

        As `kubectl cp`: by tar in the container. Bytes and permissions are kept. Links within a
        folder stay links. Contents are streamed, whatever their size.

        Args:
            pod: the pod, or what selects pods, as for `exec`.
            source: the path of the file or folder, relative to the test's file, then to rootdir.
            target: the absolute path of the copy; or the folder to copy it into, if it is one or
                ends with `/`. Missing folders are created.
            container: its name; None if the pod has only one.
            timeout: the limit; None for `single_call` of the timeout table.
            namespace: another namespace.

        Raises:
            ApiError: a command could not be started in the container.
            InvalidArgument: there is no such source, or it has a link that leads out of it.
            KwaitError: the container has no tar, or tar failed; names pod and container.
            wait.DeadlineExceeded: it did not end in time.
        """
        path = find_source(source, self._folders())
        check_container_path("target", target)
        return self._container_files(pod, container, timeout, namespace).send(path, target)

    def copy_from(
        self,
        pod: str | KubernetesObject,
        source: str,
        target: str | Path,
        *,
        container: str | None = None,
        timeout: Duration | None = None,
        namespace: str | None = None,
    ) -> Path:
        """Copy a file or folder of a container to this machine; return the path of the copy.

        As `kubectl cp`: by tar in the container. Bytes and permissions are kept. Links within a
        folder stay links. An archive with names, links or devices that lead out of the folder is
        refused, and nothing is written.

        Args:
            pod: the pod, or what selects pods, as for `exec`.
            source: the absolute path of the file or folder. If it is a link, it is followed.
            target: the path of the copy, or an existing folder to copy it into. Missing folders
                are created.
            container: its name; None if the pod has only one.
            timeout: the limit; None for `single_call` of the timeout table.
            namespace: another namespace.

        Raises:
            ApiError: a command could not be started in the container.
            KwaitError: the container has no tar, tar failed, or the archive is refused; names pod
                and container.
            OSError: the copy cannot be written.
            wait.DeadlineExceeded: it did not end in time.
        """
        check_container_path("source", source)
        path = check_local_path("target", target)
        return self._container_files(pod, container, timeout, namespace).receive(source, path)

    def _container_files(
        self,
        pod: str | KubernetesObject,
        container: str | None,
        timeout: Duration | None,
        namespace: str | None,
    ) -> ContainerFiles:
        if container is not None:
            check_text("container", container)
        if timeout is not None:
            to_seconds(timeout, what="timeout", allow_zero=False)
        place = self._other_namespace(namespace)
        try:
            name = self._pod(pod, namespace, _attach_order)
        except InvalidArgument as error:
            if error.what != "target":
                raise
            raise InvalidArgument("pod", error.value, error.valid) from None
        deadline = self._deadline(timeout)
        return ContainerFiles(self._session, place, name, container, deadline)

    def port_forward(
        self,
        target: str | KubernetesObject,
        port: int | str,
        *,
        local_port: int = 0,
        namespace: str | None = None,
    ) -> PortForward:
        """Forward a local port to a pod, until the forward or this object is closed.

        Args:
            target: as for `logs`; the pod must be running.
            port: a number or name: of the service's ports, or else of the pod's.
            local_port: 0 for any free port, given by `.port`.
            namespace: another namespace.

        Raises:
            ApiError: no such pod, or it is not running.
            InvalidArgument: the service has no such port, or the pod none of that name.
            OSError: the local port is taken.
        """
        _check_port("port", port)
        if isinstance(local_port, bool) or local_port not in range(_MAX_PORT + 1):
            valid = f"use a number up to {_MAX_PORT}, 0 for any free port"
            raise InvalidArgument("local_port", local_port, valid)
        pod, number = self._find_port(target, port, namespace)
        # A forward has no deadline; only the request for the pod has.
        forward = self._session.port_forward(
            self._other_namespace(namespace),
            pod,
            number,
            local_port=local_port,
            deadline=Deadline.after(None, self._session.clock),
        )
        return self._closing.enter_context(forward)

    def url(
        self,
        target: str | KubernetesObject,
        port: int | str | None = None,
        *,
        path: str = "/",
        scheme: str = "http",
        namespace: str | None = None,
    ) -> str:
        """Return a URL on this machine that leads to a port of a service, controller or pod.

        The port is forwarded until the end of the test, to the one pod that kubectl would select.

        Args:
            target: as for `logs`; the pod must be running.
            port: a number or name: of the service's ports, or else of the containers' ports. By
                default the only one.
            path: the path of the URL, with its query.
            scheme: `http` or `https`.
            namespace: another namespace.

        Raises:
            ApiError: no such object, it has no pods, or its pod is not running.
            InvalidArgument: no such port, or several ports and `port` names none.
        """
        if port is not None:
            _check_port("port", port)
        check_instance("path", path, str, "use a text, for example '/healthz'")
        if scheme not in ("http", "https"):
            raise InvalidArgument("scheme", scheme, "use 'http' or 'https'")
        pod, number = self._find_port(target, port, namespace)
        forward = self.port_forward(pod, number, namespace=namespace)
        return f"{scheme}://127.0.0.1:{forward.port}/{path.removeprefix('/')}"

    def scale(
        self,
        target: str | KubernetesObject,
        replicas: int,
        *,
        selector: str | Mapping[str, str] | None = None,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]:
        """Scale an object; return it once it has exactly this number of ready, Running pods.

        Args:
            target: `deployment/web`, `statefulset/web`, `rs/web`, `rc/web` or a custom resource.
            replicas: 0 or more.
            selector: the labels of its pods, as text or mapping, for a custom resource whose scale
                names none; None for those of the scale.
            namespace: another namespace.
            **options: the options of every wait.

        Raises:
            ApiError: not found, or refused.
            InvalidArgument: an invalid argument, a kind without a scale, or pods that nothing
                names.
            WaitFailed: the condition can no longer come true.
            WaitTimeout: it did not come true within the limit (`controlled_pods`).
        """
        scaled = self._verb("scale")(
            target, replicas, selector=selector, namespace=namespace, **options
        )
        return cast("dict[str, Any]", scaled)

    def restart(
        self,
        target: str | KubernetesObject,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]:
        """Replace all pods of a workload; return it once it is rolled out.

        Args:
            target: `deployment/web`, `statefulset/web` or `daemonset/web`.
            namespace: another namespace.
            **options: the options of every wait.

        Raises:
            ApiError: not found, or refused.
            InvalidArgument: an invalid argument, or a workload that cannot be restarted.
            WaitFailed: the rollout can no longer complete.
            WaitTimeout: it did not complete within the limit (`deployment`).
        """
        restarted = self._verb("restart")(target, namespace=namespace, **options)
        return cast("dict[str, Any]", restarted)

    def rolling_update(
        self,
        target: str | KubernetesObject,
        update_period: Duration = 60.0,
        *,
        strict: bool = False,
        within: Duration | None = None,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> Objects:
        """Delete the pods of a controller one by one; return their replacements.

        It ends before the test's own limit, pauses included.

        Args:
            target: `rc/web`, or another controller of pods.
            update_period: the pause after each pod; 0 or more.
            strict: whether each replacement must be ready before the next deletion.
            within: the limit of the whole update; None for none but the test's own.
            namespace: another namespace.
            **options: the options of every wait. By default replacements are polled for every 5 s;
                with `strict` they are watched.

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
            within = _shorter_limit(within, time_budget.seconds)
        try:
            replaced = self._verb("rolling_update")(
                target,
                update_period,
                strict=strict,
                within=within,
                namespace=namespace,
                **options,
            )
        except WaitTimeout as error:
            budget = defaults.time_budget()
            if (
                budget is not None
                and budget.seconds < _LIMIT_REACHED
                and not getattr(error, "__notes__", ())
            ):
                error.add_note(f"all of it had to end before {budget.reason}")
            raise
        return cast("Objects", replaced)

    def patch(
        self,
        target: str | KubernetesObject,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        type: PatchType | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
        namespace: str | None = None,
        timeout: Duration | None = None,
    ) -> dict[str, Any]:
        """Patch an object and return it as stored.

        Args:
            target: `kind/name`, or an object.
            patch: the fields to change; for `json` the list of operations. For `apply`, kind and
                name are filled in.
            type: `strategic`, `merge`, `json` or `apply`. By default a list is `json`, and fields
                are `strategic`, or `merge` where the kind has no strategic patches.
            subresource: for example `status`; None for the object.
            dry_run: whether the server only returns what it would store.
            namespace: another namespace.
            timeout: the limit; None for `single_call` of the timeout table.

        Raises:
            ApiError: the object does not exist, or the server refuses.
            KwaitError: the object belongs to the cluster, and the test is not serial.
        """
        check_patch(patch, type, subresource)
        check_flag("dry_run", dry_run)
        deadline = self._deadline(timeout)
        resource, name = self._target(target, namespace)
        where = self._place(resource, namespace)
        record = None
        if where is None and not dry_run:
            record = self._record_patch(resource, name, patch, type, subresource, deadline)
        if isinstance(patch, Mapping):
            _learn_secret(resource, patch)
        patched = send_patch(
            self._session,
            resource,
            name,
            where,
            patch,
            type,
            subresource,
            deadline,
            dry_run=dry_run,
        )
        _learn_secret(resource, patched)
        if record is not None and not _has_record(patched, record):
            # A patch of all labels or annotations removes the record.
            return self._write_record(resource, name, record, deadline)
        return patched

    def update(
        self,
        target: str | KubernetesObject,
        change: Callable[[dict[str, Any]], object],
        *,
        subresource: str | None = None,
        dry_run: bool = False,
        namespace: str | None = None,
        timeout: Duration | None = None,
    ) -> dict[str, Any]:
        """Read an object, change it, and replace it; again after a conflict.

        Args:
            target: `kind/name`, or an object.
            change: changes the object that it is given, or returns another one. It may be called
                several times.
            subresource: `status`, to replace that; None for the object.
            dry_run: whether the server only returns what it would store.
            namespace: another namespace.
            timeout: the limit; None for `single_call` of the timeout table.

        Raises:
            ApiError: the object does not exist, or the server refuses it.
            KwaitError: the object belongs to the cluster, and the test is not serial.
        """
        changed = user_change(change)
        check_subresource(subresource)
        check_flag("dry_run", dry_run)
        return self._change(
            target,
            changed,
            namespace,
            timeout,
            subresource=subresource,
            replace=True,
            dry_run=dry_run,
        )

    def label(
        self,
        target: str | KubernetesObject,
        labels: Mapping[str, str | None],
        *,
        overwrite: bool = False,
        namespace: str | None = None,
        timeout: Duration | None = None,
    ) -> dict[str, Any]:
        """Set and remove labels of an object; return it as stored.

        Args:
            target: `kind/name`, or an object.
            labels: values by name; None removes a label.
            overwrite: whether a label may get another value, as kubectl's `--overwrite`.
            namespace: another namespace.
            timeout: the limit; None for `single_call` of the timeout table.

        Raises:
            ApiError: the object does not exist, or the server refuses.
            InvalidArgument: a label has another value already, and `overwrite` is False.
            KwaitError: the object belongs to the cluster, and the test is not serial.
        """
        return self._change(target, labels_change(labels, overwrite), namespace, timeout)

    def annotate(
        self,
        target: str | KubernetesObject,
        annotations: Mapping[str, str | None],
        *,
        overwrite: bool = False,
        namespace: str | None = None,
        timeout: Duration | None = None,
    ) -> dict[str, Any]:
        """Set and remove annotations of an object; return it as stored.

        Args:
            target: `kind/name`, or an object.
            annotations: values by name; None removes an annotation.
            overwrite: whether an annotation may get another value, as kubectl's `--overwrite`.
            namespace: another namespace.
            timeout: the limit; None for `single_call` of the timeout table.

        Raises:
            ApiError: the object does not exist, or the server refuses.
            InvalidArgument: an annotation has another value already, and `overwrite` is False.
            KwaitError: the object belongs to the cluster, and the test is not serial.
        """
        change = annotations_change(annotations, overwrite)
        return self._change(target, change, namespace, timeout)

    def cordon(
        self, name: str | KubernetesObject, *, timeout: Duration | None = None
    ) -> dict[str, Any]:
        """Mark a node as unschedulable, until the end of the test; return it.

        Args:
            name: its name, or the Node.
            timeout: the limit; None for `single_call` of the timeout table.

        Raises:
            ApiError: the node does not exist, or the server refuses.
            KwaitError: the test is not serial.
        """
        return self._change_node(name, scheduling_change(False), timeout)

    def uncordon(
        self, name: str | KubernetesObject, *, timeout: Duration | None = None
    ) -> dict[str, Any]:
        """Mark a node as schedulable; return it. The end of the test restores what it was.

        Args:
            name: its name, or the Node.
            timeout: the limit; None for `single_call` of the timeout table.

        Raises:
            ApiError: the node does not exist, or the server refuses.
            KwaitError: the test is not serial.
        """
        return self._change_node(name, scheduling_change(True), timeout)

    def taint(
        self,
        name: str | KubernetesObject,
        *taints: str,
        overwrite: bool = False,
        timeout: Duration | None = None,
    ) -> dict[str, Any]:
        """Set and remove taints of a node, until the end of the test; return it.

        Args:
            name: its name, or the Node.
            *taints: as for kubectl: `key=value:NoSchedule` or `key:NoSchedule` sets a taint,
                `key:NoSchedule-` removes it, `key-` removes it with every effect.
            overwrite: whether a taint with the same key and effect is replaced.
            timeout: the limit; None for `single_call` of the timeout table.

        Raises:
            ApiError: the node does not exist, or the server refuses.
            InvalidArgument: a taint is not valid, exists already, or is to be removed and does not
                exist.
            KwaitError: the test is not serial.
        """
        return self._change_node(name, taints_change(taints, overwrite), timeout)

    def drain(
        self,
        name: str | KubernetesObject,
        *,
        ignore_daemon_sets: bool = False,
        delete_empty_dir_data: bool = False,
        force: bool = False,
        selector: str | Mapping[str, str] | None = None,
        grace_period: int | None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]:
        """Cordon a node until the end of the test, and evict its pods; return it once they go.

        Args:
            name: its name, or the Node.
            ignore_daemon_sets: whether pods of DaemonSets are left; an error otherwise, as they
                would come back.
            delete_empty_dir_data: whether to evict pods with `emptyDir` volumes; an error
                otherwise.
            force: whether to evict pods without a controller, which do not come back; an error
                otherwise.
            selector: only pods with these labels, as text or mapping.
            grace_period: seconds until a pod is killed; None for its own grace period.
            **options: the options of every wait.

        Raises:
            ApiError: the node does not exist, or the server refuses a request.
            InvalidArgument: pods must not be evicted without one of these arguments.
            KwaitError: the test is not serial.
            WaitTimeout: budgets refused evictions until the limit (`pod_deletion`); names pods and
                budgets.
        """
        node = _node_name(name)
        check_drain(ignore_daemon_sets, delete_empty_dir_data, force, selector, grace_period)
        options_of_waits = WaitOptions.__annotations__
        known = {name: value for name, value in options.items() if name in options_of_waits}
        resolve_options(known, timeout="pod_deletion")
        self.cordon(node)
        drained = self._verb("drain")(
            node,
            ignore_daemon_sets=ignore_daemon_sets,
            delete_empty_dir_data=delete_empty_dir_data,
            force=force,
            selector=selector,
            grace_period=grace_period,
            **options,
        )
        return cast("dict[str, Any]", drained)

    def resize(
        self,
        name: str | KubernetesObject,
        *,
        container: str | None = None,
        requests: Mapping[str, str | int | float] | None = None,
        limits: Mapping[str, str | int | float] | None = None,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]:
        """Change the resources of a container of a running pod; return the pod as stored.

        `wait_for_pod_resized` waits until the kubelet has made the resize. Resources that are not
        named stay as they are.

        Args:
            name: its name, or the Pod.
            container: the container, or a sidecar among the init containers; None for the only one
                of the containers.
            requests: the new requests, as quantities by resource: `{"memory": "64Mi"}`.
            limits: the new limits, as quantities by resource.
            namespace: another namespace.
            **options: the options of every wait.

        Raises:
            ApiError: the pod does not exist, or the server refuses the sizes.
            InvalidArgument: no size is given, a quantity is invalid, or the pod has no such
                container.
        """
        resized = self._verb("resize")(
            name,
            container=container,
            requests=requests,
            limits=limits,
            namespace=namespace,
            **options,
        )
        return cast("dict[str, Any]", resized)

    def evict(
        self,
        name: str | KubernetesObject,
        *,
        grace_period: int | None = None,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Evict a pod and return once it is gone; a refusal by a budget is tried again.

        Args:
            name: its name, or the Pod.
            grace_period: seconds until it is killed; None for its own grace period.
            namespace: another namespace.
            **options: the options of every wait.

        Raises:
            ApiError: the pod does not exist, or the server refuses a request.
            WaitTimeout: a budget refused it until the limit (`pod_deletion`); names the budget.
        """
        self._verb("evict")(name, grace_period=grace_period, namespace=namespace, **options)

    def rollout_undo(
        self,
        target: str | KubernetesObject,
        to_revision: int | None = None,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]:
        """Roll a workload back to an earlier revision; return it once it is rolled out.

        Args:
            target: `deployment/web`, `statefulset/web` or `daemonset/web`.
            to_revision: the revision; None, or 0 as for kubectl, for the one before the newest.
            namespace: another namespace.
            **options: the options of every wait.

        Raises:
            ApiError: not found, or refused.
            InvalidArgument: there is no such revision, the Deployment is paused, or the workload is
                not updated by rolling.
            WaitFailed: the rollout can no longer complete.
            WaitTimeout: it did not complete within the limit (`deployment`).
        """
        undone = self._verb("rollout_undo")(target, to_revision, namespace=namespace, **options)
        return cast("dict[str, Any]", undone)

    def run(
        self,
        image: str | Mapping[str, Any],
        *command: str,
        env: Mapping[str, str] | None = None,
        container: str | None = None,
        check: bool = True,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> RunResult:
        """Run a pod to its end; return its output and exit code. The pod is deleted afterwards.

        Args:
            image: the image of its only container; or a whole Pod, whose restart policy is `Never`
                if it names none.
            *command: the program and its arguments, run without a shell; none for the image's own.
            env: environment variables of the container.
            container: for a whole Pod, the container whose output and exit code count; None for
                the first one.
            check: whether an end with another exit code than 0 is an error.
            namespace: another namespace.
            **options: the options of every wait.

        Raises:
            ApiError: refused.
            WaitFailed: the pod cannot start; or it failed, unless `check` is False.
            WaitTimeout: it did not end within the limit (`pod`).
        """
        done = self._verb("run")(
            image,
            command,
            env=env,
            container=container,
            check=check,
            namespace=namespace,
            **options,
        )
        return cast("RunResult", done)

    def debug(
        self,
        name: str | KubernetesObject,
        image: str,
        *command: str,
        target_container: str | None = None,
        container: str | None = None,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> str:
        """Add an ephemeral container to a pod; return its name once it runs, or has ended.

        As `kubectl debug`; `exec` and `logs` take the name as `container`. The container has the
        security context of the pod, is not restarted, and stays until the pod is deleted.

        Args:
            name: the pod's name, or the Pod.
            image: the image of the container.
            *command: the program and its arguments, run without a shell; none for the image's own,
                whose standard input stays open: a shell then waits.
            target_container: the container whose processes it sees; None for its own alone.
            container: the name of the new one; None for a generated one.
            namespace: another namespace.
            **options: the options of every wait.

        Raises:
            ApiError: the pod does not exist, or the server refuses the container.
            InvalidArgument: an invalid argument, no `target_container`, or a name that is taken.
            WaitFailed: the container cannot start, or the pod has ended.
            WaitTimeout: it did not start within the limit (`pod_start`).
        """
        added = self._verb("debug")(
            name,
            image,
            command,
            target_container=target_container,
            container=container,
            namespace=namespace,
            **options,
        )
        return cast("str", added)

    def kubectl(
        self,
        *args: str,
        stdin: str | None = None,
        check: bool = True,
        namespace: str | None = None,
        timeout: Duration | None = None,
    ) -> KubectlResult:
        """Run kubectl, where it is installed, on this cluster and namespace; return its result.

        Its changes of cluster-scoped objects are not restored.

        Args:
            *args: its arguments, for example `"get", "pods"`.
            stdin: its input; None for none.
            check: whether another exit code than 0 is an error.
            namespace: another namespace.
            timeout: the limit; None for `single_call` of the timeout table.

        Raises:
            ClusterError: kubectl is not installed.
            KwaitError: it failed; names the exit code and what it wrote.
            WaitTimeout: it did not end in time.
        """
        from pytest_kwait.suite.kubectl import run_kubectl

        if not args or not all(isinstance(argument, str) for argument in args):
            raise InvalidArgument("args", args, "use texts, for example 'get', 'pods'")
        options = (*self._session.kubectl_args, "--namespace", self._other_namespace(namespace))
        return run_kubectl(
            args, options, stdin=stdin, check=check, timeout=self._deadline(timeout).remaining
        )

    def helm_install(
        self,
        name: str,
        chart: str | Path,
        *args: str,
        values: Values | None = None,
        repo: str | None = None,
        version: str | None = None,
        wait: bool = True,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> HelmRelease:
        """Install a chart by helm; return the release once its objects are ready.

        Pods are ready, Jobs complete, workloads rolled out, definitions established. Hooks are
        awaited by helm. What the release has made is deleted at the end of the test, as with
        `apply`; definitions in `crds/` are applied before.

        Args:
            name: the name of the release.
            chart: a folder or archive (relative to the test's file, then to rootdir), `oci://…`, a
                URL, `repository/name` of helm's own configuration, or the name of a chart in
                `repo`.
            *args: further arguments of helm, for example `"--set", "replicas=2"`.
            values: a file, YAML text, a dict, or a list of these, of which later ones win.
            repo: the URL of the chart's repository.
            version: the version of the chart; None for the newest.
            wait: whether to wait for the objects of its manifest.
            namespace: another namespace.
            **options: options of every wait; the limit (`deployment`) is that of the whole call.

        Raises:
            ClusterError: helm is not installed, or a definition belongs to another test that runs.
            InvalidManifest: there is no such file, or its values are no YAML mapping.
            HelmError: helm failed; names what it wrote and the state of the release.
            WaitFailed: an object or a hook can no longer become ready.
            WaitTimeout: not all of them were ready within the limit.
        """
        from pytest_kwait.suite.helm.chart import ChartArguments

        given = ChartArguments(chart, values, repo, version, args)
        return self._install("install", name, given, namespace, options, wait=wait)

    def helm_upgrade(
        self,
        name: str,
        chart: str | Path,
        *args: str,
        values: Values | None = None,
        repo: str | None = None,
        version: str | None = None,
        wait: bool = True,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> HelmRelease:
        """Upgrade a release by helm; return it once its objects are ready.

        Definitions in `crds/` stay as they are, as helm does not upgrade them.

        Args:
            name: the name of the release.
            chart: as for `helm_install`.
            *args: further arguments of helm, for example `"--reuse-values"`.
            values: as for `helm_install`; with any, helm starts from the chart's own again.
            repo: as for `helm_install`.
            version: as for `helm_install`.
            wait: as for `helm_install`.
            namespace: another namespace.
            **options: as for `helm_install`.

        Raises:
            ClusterError: helm is not installed.
            InvalidManifest: there is no such file, or its values are no YAML mapping.
            HelmError: helm failed, or knows no such release.
            WaitFailed: an object or a hook can no longer become ready.
            WaitTimeout: not all of them were ready within the limit.
        """
        from pytest_kwait.suite.helm.chart import ChartArguments

        given = ChartArguments(chart, values, repo, version, args)
        return self._install("upgrade", name, given, namespace, options, wait=wait)

    def helm_rollback(
        self,
        name: str,
        revision: int | None = None,
        *args: str,
        wait: bool = True,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> HelmRelease:
        """Roll a release back by helm; return it once its objects are ready.

        Args:
            name: the name of the release.
            revision: the revision; None, or 0 as for helm, for the one before the newest.
            *args: further arguments of helm.
            wait: as for `helm_install`.
            namespace: another namespace.
            **options: as for `helm_install`.

        Raises:
            ClusterError: helm is not installed.
            HelmError: helm failed, or knows no such release or revision.
            WaitFailed: an object or a hook can no longer become ready.
            WaitTimeout: not all of them were ready within the limit.
        """
        if revision is not None:
            check_count("revision", revision)
        release, limits = self._release(name, namespace, args, options)
        return self._helm.rollback(release, revision, args, limits, wait=wait)

    def helm_uninstall(
        self,
        name: str,
        *args: str,
        wait: bool = True,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Uninstall a release by helm; return once its objects are gone.

        Args:
            name: the name of the release.
            *args: further arguments of helm, for example `"--keep-history"`.
            wait: whether to wait until the objects of its manifest are gone.
            namespace: another namespace.
            **options: as for `helm_install`.

        Raises:
            ClusterError: helm is not installed.
            HelmError: helm failed, or knows no such release.
            WaitFailed: a hook has failed, or can no longer end.
            WaitTimeout: an object is not gone within the limit.
        """
        release, limits = self._release(name, namespace, args, options)
        self._helm.uninstall(release, args, limits, wait=wait)

    def helm_template(
        self,
        name: str,
        chart: str | Path,
        *args: str,
        values: Values | None = None,
        repo: str | None = None,
        version: str | None = None,
        namespace: str | None = None,
        timeout: Duration | None = None,
    ) -> Objects:
        """Return the objects that helm renders from a chart, hooks included; installs nothing.

        Version and kinds are those of this cluster.

        Args:
            name: the name of the release.
            chart: as for `helm_install`.
            *args: further arguments of helm, for example `"--include-crds"`.
            values: as for `helm_install`.
            repo: as for `helm_install`.
            version: as for `helm_install`.
            namespace: another namespace.
            timeout: the limit; None for `single_call` of the timeout table.

        Raises:
            ClusterError: helm is not installed.
            InvalidManifest: there is no such file, or its values are no YAML mapping.
            HelmError: helm failed; names what it wrote.
            WaitTimeout: it did not end in time.
        """
        from pytest_kwait.suite.helm.chart import ChartArguments

        release, _ = self._release(name, namespace, args, {})
        given = ChartArguments(chart, values, repo, version, args)
        return self._helm.template(release, given, self._deadline(timeout), self.cluster.version)

    def kubeconfig_for(
        self, service_account: str | KubernetesObject, *, namespace: str | None = None
    ) -> Path:
        """Write a kubeconfig with the rights of a service account; return its path.

        Its namespace is that of the account. The token is valid for a day, or less where the server
        says so; the file is removed with the test's namespace.

        Args:
            service_account: its name, `sa/name`, or an object.
            namespace: another namespace.

        Raises:
            ApiError: there is no such service account (status 404), or the server refuses a token.
        """
        token, _ = self._request_token(service_account, namespace)
        place = self._other_namespace(namespace)
        return self._write_kubeconfig(namespace=place, user={"token": token})

    def _request_token(
        self, service_account: str | KubernetesObject, namespace: str | None
    ) -> tuple[str, str]:
        """Return a token of a service account, and the account's name as a user."""
        given = parse_object_argument("service_account", service_account, SERVICE_ACCOUNTS)
        value = service_account if given is None else given.value
        name = check_name("service_account", strip_kind(value, SERVICE_ACCOUNTS))
        place = self._other_namespace(namespace)
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS},
        }
        path = SERVICE_ACCOUNTS.path(place, name, "token")
        answer = self._request(
            lambda deadline: self._session.request("POST", path, body=body, deadline=deadline)
        )
        token = json.loads(answer.data)["status"]["token"]
        SECRET_VALUES.learn_value(token.encode())
        return token, f"system:serviceaccount:{place}:{name}"

    def _write_kubeconfig(self, **fields: Any) -> Path:
        """Write a kubeconfig for this cluster, which is removed at the end; return its path.

        Args:
            **fields: as for `Kubeconfig.select`.
        """
        from pytest_kwait.clusters.kubeconfig import KubeconfigFile, read_kubeconfig

        contents = read_kubeconfig(self.cluster.kubeconfig).select(self.cluster.context, **fields)
        kubeconfig = KubeconfigFile(contents)
        self._closing.callback(kubeconfig.remove)
        return kubeconfig.path

    def _act_as(self, title: str, **credentials: Any) -> Kwait:
        """Return this object with other credentials.

        Args:
            title: the user's name, for messages.
            **credentials: as for `Kubeconfig.select`.
        """
        from pytest_kwait.clusters.kubeconfig import read_kubeconfig

        make = self._namespace_maker
        path = self._write_kubeconfig(namespace=self.namespace, **credentials)
        cluster = self.cluster.as_other_user(read_kubeconfig(path).target())
        client = cluster.client()
        self._closing.callback(client.close)
        ApiSession.of(client).base_on(self._session)
        other = Kwait(
            cluster,
            client,
            self.namespace,
            owner=self._owner,
            defaults=lambda: replace(self._defaults(), client=client, user=title),
            folders=self._folders,
            owned=self._owned,
            namespace_maker=make and (lambda request: make(request)._act_as(title, **credentials)),
            base=self,
        )
        self._closing.push(other._closing)
        return other

    def delete_and_wait(
        self,
        target: str | KubernetesObject,
        *,
        grace_period: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Delete an object; return once it is gone, for a controller with all its pods.

        Args:
            target: `kind/name`, with any name of the kind that kubectl knows.
            grace_period: seconds; None for the object's own.
            propagation: how dependents are treated.
            namespace: another namespace.
            **options: the options of every wait.

        Raises:
            ApiError: not found (status 404), or refused.
            WaitTimeout: it is not gone within the limit (`pod_deletion`).
        """
        self._verb("delete_and_wait")(
            target,
            grace_period=grace_period,
            propagation=propagation,
            namespace=namespace,
            **options,
        )

    def close(self, *, keep: bool = False, leave: bool = False) -> Problems:
        """Stop forwards and informers, and delete objects created outside of the test's namespace.

        Returns the objects that could not be deleted or annotated, each with its reason. With
        `keep` nothing is deleted: the objects get an annotation with their expiry. With `leave`
        they are left to the end of the run.
        """
        self._closing.close()
        problems: Problems = []
        if "_changes" in vars(self):
            problems += self._changes.restore(self._deadline)
        if keep:
            return problems + self._writer.keep()
        if leave:
            return problems
        # The next test uses the same namespace and must not find these objects.
        return problems + self._writer.delete(None if self._owned else self._wait_for_deletions())

    def _report_applied(self, objects: Objects, *, dry_run: bool = False) -> Objects:
        """Pass stored objects to the listeners; return them."""
        if not dry_run:
            for listener in APPLY_LISTENERS:
                listener(self, objects)
        return objects

    def _documents(
        self,
        sources: Iterable[Source],
        namespace: TargetNamespace | None,
        variables: Mapping[str, Any] | None,
    ) -> tuple[Documents, str | None]:
        """Return the documents of manifests, and the namespace of those that name none."""
        moves = None if namespace is None else parse_moves(namespace, self.namespace)
        if moves is None:
            return read_manifests(sources, self._folders(), variables), None
        return moves.read(sources, self._folders(), variables), moves.target

    def _install(
        self,
        command: str,
        name: str,
        chart: ChartArguments,
        namespace: str | None,
        options: WaitOptions,
        *,
        wait: bool,
    ) -> HelmRelease:
        release, limits = self._release(name, namespace, chart.args, options)
        return self._helm.install(command, release, chart, limits, wait=wait)

    def _release(
        self,
        name: str,
        namespace: str | None,
        args: Sequence[str],
        options: Mapping[str, Any],
    ) -> tuple[ReleaseName, Limits]:
        """Return a release and the limits of a helm command, from its arguments."""
        from pytest_kwait.suite.helm.program import ReleaseName
        from pytest_kwait.suite.helm.releases import Limits

        if not all(isinstance(argument, str) for argument in args):
            raise InvalidArgument("args", args, "use texts, for example '--set', 'replicas=2'")
        given = {key: value for key, value in options.items() if value is not None}
        resolve_options(given, timeout="deployment")
        release = ReleaseName(check_name("name", name), self._other_namespace(namespace))
        defaults = self.settings.wait_timeout("deployment")
        limit = given.get("timeout") or defaults or self.timeouts["deployment"]
        deadline = self._deadline(limit)
        return release, Limits(deadline, deadline.remaining, given)

    @cached_property
    def _helm(self) -> HelmReleases:
        from pytest_kwait.suite.helm.releases import HelmReleases

        def wait(name: str, *args: Any, **options: Any) -> Any:
            declared = VERBS.get(name) or WAITS[name]
            return BoundWait(declared, self._defaults())(*args, **options)

        releases = HelmReleases(
            self._session,
            writer=self._writer,
            folders=self._folders,
            wait=wait,
            request=self._request,
        )
        self._closing.callback(releases.close)
        return releases

    def _change_node(
        self, name: str | KubernetesObject, change: Change, timeout: Duration | None
    ) -> dict[str, Any]:
        return self._change(f"node/{_node_name(name)}", change, None, timeout)

    def _change(
        self,
        target: str | KubernetesObject,
        change: Change,
        namespace: str | None,
        timeout: Duration | None,
        *,
        subresource: str | None = None,
        replace: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Change an object; one of the cluster is recorded, and restored at the end."""
        deadline = self._deadline(timeout)
        resource, name = self._target(target, namespace)
        where = self._place(resource, namespace)
        if where is None and not dry_run:
            change = self._guarded(resource, change, records=subresource is None)

        def learned(obj: dict[str, Any]) -> dict[str, Any]:
            _learn_secret(resource, obj)
            return change(obj)

        changed = change_object(
            self._session,
            resource,
            name,
            where,
            learned,
            deadline,
            subresource=subresource,
            replace=replace,
            dry_run=dry_run,
        )
        _learn_secret(resource, changed)
        return changed

    def _guarded(self, resource: Resource, change: Change, *, records: bool) -> Change:
        """Return the change of an object of the cluster, which is recorded."""

        def changed(obj: dict[str, Any]) -> dict[str, Any]:
            self._check_alone(resource, obj)
            return recording(obj)

        recording = self._changes.recording(resource, None, change) if records else change
        return changed

    def _check_alone(self, resource: Resource, obj: Mapping[str, Any]) -> None:
        """Check that the test may change an object of the cluster.

        Raises:
            KwaitError: the object is not of this run, and the test does not run alone.
        """
        place = getattr(self.cluster, "fault_place", None)
        if place is None or place().alone or self._changes.is_own(resource, obj):
            return
        title = f"{resource.kind.lower()}/{obj['metadata']['name']}"
        raise KwaitError(
            f"a change of {title} disturbs every test on the cluster: mark this one with "
            "@pytest.mark.kwait_disruptive, and it runs alone"
        )

    def _record_patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        type: PatchType | None,
        subresource: str | None,
        deadline: Deadline,
    ) -> Mapping[str, Any] | None:
        """Record what a patch is going to change on an object of the cluster.

        Returns:
            the metadata with the record; None if the object needs none.
        """
        try:
            before = request_with_retry(
                lambda attempt_deadline: self._session.base.get(
                    resource, name, deadline=attempt_deadline
                ),
                deadline,
            )
        except ApiError as error:
            # An apply may create it.
            if error.status != 404 or type != "apply":
                raise
            raise InvalidArgument("target", name, "it does not exist: use apply") from None
        self._check_alone(resource, before)
        if subresource is not None or self._changes.is_own(resource, before):
            return None
        after = send_patch(
            self._session, resource, name, None, patch, type, None, deadline, dry_run=True
        )
        noted = self._changes.recorded(resource, None, before, after)["metadata"]
        record = {"uid": before["metadata"].get("uid")} | {
            part: {
                key: value
                for key, value in noted[part].items()
                if key.startswith(ANNOTATION_PREFIX)
            }
            for part in ("labels", "annotations")
        }
        self._write_record(resource, name, record, deadline)
        return record

    def _write_record(
        self, resource: Resource, name: str, record: Mapping[str, Any], deadline: Deadline
    ) -> dict[str, Any]:
        return request_with_retry(
            lambda attempt_deadline: self._session.base.patch(
                resource, name, {"metadata": record}, deadline=attempt_deadline
            ),
            deadline,
        )

    def _target(
        self, target: str | KubernetesObject, namespace: str | None = None
    ) -> tuple[Resource, str]:
        """Return the kind and the name of a target, once target and namespace are valid."""
        self._other_namespace(namespace)
        kind, slash, name = _format_target(target).partition("/")
        if not (kind and slash and name) or "/" in name:
            raise InvalidArgument("target", target, "use kind/name, for example 'job/pi'")
        return self._resolve(kind), name

    def _resolve(self, kind: str, api_version: str | None = None) -> Resource:
        return self._request(
            lambda deadline: self._session.resolve(kind, api_version, deadline=deadline)
        )

    def _place(self, resource: Resource, namespace: str | None) -> str | None:
        where = self._other_namespace(namespace)
        return where if resource.namespaced else None

    def _other_namespace(self, namespace: str | None) -> str:
        return self.namespace if not namespace else check_namespace(namespace)

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
        return request_with_retry(call, self._deadline(), WriteErrors(self._session))

    def _find_port(
        self, target: str | KubernetesObject, port: int | str | None, namespace: str | None
    ) -> tuple[str, int]:
        """Return the name and the port of the pod to which kubectl would forward.

        Source: kubectl/pkg/cmd/portforward/portforward.go.
        """
        name = self._pod(target, namespace, _attach_order)
        where = self._other_namespace(namespace)
        pod = self._request(
            lambda deadline: self._session.get(PODS, name, where, deadline=deadline)
        )
        target_text, chosen = _format_target(target), port
        if "/" in target_text and self._target(target_text)[0] == SERVICES:
            service = self.get(target_text, namespace=where)
            ports = (service.get("spec") or {}).get("ports") or ()
            service_port = _choose_port(target_text, ports, port, "port")
            chosen = service_port.get("targetPort") or service_port["port"]
        if not isinstance(chosen, int):
            spec = pod.get("spec") or {}
            declared = [
                container_port
                for container in spec.get("containers") or ()
                for container_port in container.get("ports") or ()
            ]
            chosen = int(
                _choose_port(target_text, declared, chosen, "containerPort")["containerPort"]
            )
        return name, chosen

    def _pod(
        self,
        target: str | KubernetesObject,
        namespace: str | None,
        order: Callable[[Mapping[str, Any]], tuple[Any, ...]],
    ) -> str:
        """Return the name of a pod, or of the pod of a controller or Service that kubectl selects.

        Args:
            order: the key of pods; the lowest is selected.

        Source: kubectl/pkg/polymorphichelpers/logsforobject.go, attachablepodforobject.go.
        """
        if isinstance(target, str) and "/" not in target:
            return target
        resource, name = self._target(target, namespace)
        if resource.qualified == PODS.qualified:
            return name
        pods = self._pods_of(target, resource, name, namespace)
        return str(min(pods, key=order)["metadata"]["name"])

    def _pods_of(
        self,
        target: str | KubernetesObject,
        resource: Resource,
        name: str,
        namespace: str | None,
    ) -> Objects:
        """Return the pods of a controller or Service, at least one."""
        if resource not in (*CONTROLLERS, SERVICES):
            valid = "use the name of a pod, 'pod/name', or what selects pods: 'deployment/web'"
            raise InvalidArgument("target", target, valid)
        place = self._other_namespace(namespace)
        owner = self._request(
            lambda deadline: self._session.get(resource, name, place, deadline=deadline)
        )
        spec = owner.get("spec") or {}
        if resource == SERVICES:
            selector = format_label_selector({"matchLabels": spec.get("selector") or {}})
        else:
            selector = selector_of(resource, spec) or ""
        return self._list_pods(_format_target(target), selector, namespace)

    def _list_pods(self, owner: str, selector: str, namespace: str | None) -> Objects:
        """Return the pods with these labels, at least one; without labels there are none."""
        place = self._other_namespace(namespace)
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
            raise ApiError(f"{owner} in {place} has no pods", status=404, reason="NotFound")
        return [item.object for item in pods]

    def _wait(self, wait: str, /, *args: Any, **options: Any) -> Any:
        declared, defaults = WAITS[wait], self._defaults()
        if declared.bound:
            bound = BoundWait(declared, defaults)
        else:
            bound = BoundCacheSync(declared, defaults, lambda: self.informers)
        return bound(*args, **options)

    def _verb(self, name: str) -> BoundWait:
        return BoundWait(VERBS[name], self._defaults())

    def _gone(
        self, resource: Resource, namespace: str | None, name: str, uid: str, **options: Any
    ) -> None:
        wait = BoundWait(VERBS["wait_for_gone"], self._defaults())
        wait(resource, name, uid, namespace=namespace, **options)

    def _describe_remaining(self, going: CreatedObject, within: str) -> str:
        """Return that an object has not gone away; empty if it has."""
        resource = going.resource
        try:
            obj = self._request(
                lambda deadline: self._session.get(
                    resource, going.name, going.namespace, deadline=deadline
                )
            )
        except ApiError as error:
            if error.status == 404:
                return ""
            raise
        if obj["metadata"].get("uid") != going.uid:
            return ""
        where = f"{going.namespace}/" if going.namespace else ""
        noun = resource.singular or resource.kind.lower()
        return f"{noun} {where}{going.name} did not go away {within}: {describe_deletion(obj)}"

    def _wait_for_deletions(self) -> Callable[[CreatedObject], None] | None:
        """Return a function that waits until an object is gone, with one limit for all."""
        limit = self.settings.deletion_wait
        # Without controllers nothing deletes dependents.
        if not limit or not getattr(self.cluster, "has_controllers", True):
            return None
        deadline = Deadline.after(limit, self._session.clock)

        within = f"within {format_duration(limit)}"

        def see_off(going: CreatedObject) -> None:
            where = (going.resource, going.namespace, going.name, going.uid)
            try:
                if deadline.expired:
                    # It is reported if it is still there, without a wait for it.
                    if remaining := self._describe_remaining(going, within):
                        self.left.append(remaining)
                    return
                self._gone(*where, timeout=max(round(deadline.remaining, 1), 0.1))
            except WaitTimeout as error:
                # The limit of all objects is the one that the user knows.
                self.left.append(re.sub(r"within \S+(?=: )", within, error.args[0], count=1))
            except (ApiError, DeadlineExceeded) as error:
                self.left.append(f"{going}: whether it is gone cannot be seen: {error}")

        return see_off


class AsyncKwait(AsyncWaitMethods):
    """The methods of a `Kwait`, to be awaited: `await kwait.aio.wait_for_job_complete("pi")`.

    Cancelling the task stops a wait. A request that has been sent is not taken back: the task ends
    once it is answered.
    """

    apply = awaitable(Kwait.apply)
    create = awaitable(Kwait.create)
    create_namespace = awaitable(Kwait.create_namespace)
    create_and_wait = awaitable(Kwait.create_and_wait)
    get = awaitable(Kwait.get)
    list = awaitable(Kwait.list)
    normalized = awaitable(Kwait.normalized)
    delete = awaitable(Kwait.delete)
    events = awaitable(Kwait.events)
    logs = awaitable(Kwait.logs)
    exec = awaitable(Kwait.exec)
    copy_to = awaitable(Kwait.copy_to)
    copy_from = awaitable(Kwait.copy_from)
    port_forward = awaitable(Kwait.port_forward)
    kubeconfig_for = awaitable(Kwait.kubeconfig_for)
    as_user = awaitable(Kwait.as_user)
    as_service_account = awaitable(Kwait.as_service_account)
    url = awaitable(Kwait.url)
    scale = awaitable(Kwait.scale)
    restart = awaitable(Kwait.restart)
    rolling_update = awaitable(Kwait.rolling_update)
    patch = awaitable(Kwait.patch)
    update = awaitable(Kwait.update)
    label = awaitable(Kwait.label)
    annotate = awaitable(Kwait.annotate)
    cordon = awaitable(Kwait.cordon)
    uncordon = awaitable(Kwait.uncordon)
    taint = awaitable(Kwait.taint)
    drain = awaitable(Kwait.drain)
    resize = awaitable(Kwait.resize)
    evict = awaitable(Kwait.evict)
    rollout_undo = awaitable(Kwait.rollout_undo)
    run = awaitable(Kwait.run)
    debug = awaitable(Kwait.debug)
    kubectl = awaitable(Kwait.kubectl)
    helm_install = awaitable(Kwait.helm_install)
    helm_upgrade = awaitable(Kwait.helm_upgrade)
    helm_rollback = awaitable(Kwait.helm_rollback)
    helm_uninstall = awaitable(Kwait.helm_uninstall)
    helm_template = awaitable(Kwait.helm_template)
    delete_and_wait = awaitable(Kwait.delete_and_wait)


def _learn_secret(resource: Resource, obj: Mapping[str, Any]) -> None:
    """Hide the values of a Secret; no-op for other kinds."""
    if resource.qualified == SECRETS.qualified:
        SECRET_VALUES.learn(obj)


def _format_target(target: str | KubernetesObject) -> str:
    """Return a target as text: `kind/name` of an object; empty for any other value."""
    parsed = parse_object_argument("target", target, None)
    named: Any = target if parsed is None else parsed.value
    return named if isinstance(named, str) else ""


def _node_name(name: str | KubernetesObject) -> str:
    """Return the name of a node that is given by name, as `node/name` or as an object."""
    parsed = parse_object_argument("name", name, NODES)
    return check_name("name", strip_kind(name, NODES) if parsed is None else parsed.value)


def _check_port(what: str, port: object) -> None:
    """Check the number or name of a port.

    Raises:
        InvalidArgument: it is neither.
    """
    is_name = isinstance(port, str) and port != ""
    if isinstance(port, bool) or not (is_name or port in range(1, _MAX_PORT + 1)):
        raise InvalidArgument(what, port, f"use a number from 1 to {_MAX_PORT}, or a port's name")


def _choose_port(
    target: str, ports: Iterable[Mapping[str, Any]], port: int | str | None, field: str
) -> Mapping[str, Any]:
    """Return the port of a service or pod with this number or name, or the only one.

    Raises:
        InvalidArgument: there is none, or there are several and `port` is None.
    """
    known = list(ports)
    matches = [
        known_port
        for known_port in known
        if port is None or port in (known_port.get("name"), known_port[field])
    ]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(
        f"{known_port[field]} ({known_port['name']})"
        if known_port.get("name")
        else str(known_port[field])
        for known_port in known
    )
    raise InvalidArgument("port", port, f"one of the ports of {target}: {names or 'it has none'}")


def _shorter_limit(limit: Duration | None, remaining_seconds: float) -> Duration:
    """Return the shorter of two limits, in tenths of seconds for messages."""
    remaining_seconds = max(math.floor(remaining_seconds * 10) / 10, 0.1)
    return (
        remaining_seconds
        if limit is None
        else min(to_seconds(limit, what="within", allow_zero=False), remaining_seconds)
    )


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
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            return False, str(condition.get("lastTransitionTime") or "")
    return True, ""


def _restarts(pod: Mapping[str, Any]) -> int:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return max(
        (int(container_status.get("restartCount") or 0) for container_status in containers),
        default=0,
    )


def _age_order(pod: Mapping[str, Any]) -> tuple[str, str]:
    metadata = pod["metadata"]
    return str(metadata.get("creationTimestamp") or ""), str(metadata["name"])


def _event_time(event: Mapping[str, Any]) -> str:
    times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    created = (event.get("metadata") or {}).get("creationTimestamp")
    return str(next(filter(None, (*times, created)), ""))


def _has_record(obj: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Return whether an object has the labels and annotations of the record of a change."""
    metadata = obj["metadata"]
    return all(
        record[part].items() <= (metadata.get(part) or {}).items()
        for part in ("labels", "annotations")
    )
