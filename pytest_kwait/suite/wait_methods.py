"""The waits as methods of `Kwait`, written by `python -m tools.waits`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from pytest_kwait.suite.aio import AsyncMethods, awaitable
from pytest_kwait.suite.bound_wait import call_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from re import Pattern

    import typing_extensions

    from pytest_kwait.apimachinery.selectors import Selector
    from pytest_kwait.apimachinery.times import Duration
    from pytest_kwait.cache.sync import Synced
    from pytest_kwait.engine.condition import Verdict
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.log import LogMatch
    from pytest_kwait.framework.named_objects import (
        KubernetesObject,
        KubernetesObjects,
        ObjectListModel,
    )
    from pytest_kwait.framework.node.minions import PodInfo
    from pytest_kwait.framework.objects.combinators import ConditionInput
    from pytest_kwait.framework.objects.lists import Count
    from pytest_kwait.framework.predicates import HeldPredicate
    from pytest_kwait.wait.context import Stop

    # Without `as_model`, objects are dicts.
    _Model = typing_extensions.TypeVar("_Model", default=dict[str, Any])


@call_waits
class WaitMethods:
    """The waits on a test's cluster, in its namespace and with its settings.

    All take `namespace`, for another one than the test's own, and the options in `WaitOptions`.
    Those that return objects take `as_model`, a model of the official client such as `V1Pod`.
    All raise `WaitTimeout`, `WaitFailed`, `ApiError` and `InvalidArgument`.
    """

    def wait_for_cache_sync(
        self,
        *synced: Synced | str,
        name: str | None = None,
        stop: Stop | None = None,
        timeout: Duration | None = None,
    ) -> bool:
        """Wait for informers that have seen their first list.

        Wait until all caches have synced in the same round of checks.

        Args:
            synced: informers, informer factories (all their requested informers), handlers'
                registrations, or functions that return whether a cache has synced.
            name: the caller; the wait and its end are then logged to `pytest_kwait.cache`.
            stop: ends the wait.
            timeout: the limit; None for five minutes.
        """

    def wait_for_api_server_healthy(self, **options: Unpack[WaitOptions]) -> None:
        """Wait for an API server that says it is ready.

        Return None once the API server reports that it is ready.
        """

    def wait_for_api_service_available(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for an APIService that is available.

        Return an APIService once its condition Available is True.

        Args:
            name: its name, `<version>.<group>`.
        """

    def wait_for_authorization_update(
        self,
        user: str,
        verb: str,
        resource: str,
        allowed: bool = True,
        *,
        groups: Sequence[str] = (),
        all_namespaces: bool = False,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for access of a user to a kind, allowed or denied.

        Return the SubjectAccessReview once it allows an action, or no longer allows it.

        Args:
            namespace: the namespace of the action; ignored for built-in cluster-scoped kinds.
            user: the user's name; `system:serviceaccount:<namespace>:<name>` for a service account.
            verb: for example `list`; `*` for all.
            resource: as in a role, with the group unless built in: `pods`, `pods/log`,
                `deployments`, `widgets.example.com`.
            allowed: False to wait until the action is denied.
            groups: the user's groups.
            all_namespaces: review all namespaces at once, as for a cluster role binding.
        """

    def wait_for_named_authorization_update(
        self,
        user: str,
        verb: str,
        resource: str,
        name: str,
        allowed: bool = True,
        *,
        groups: Sequence[str] = (),
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for access of a user to one object, allowed or denied.

        Return the SubjectAccessReview once it allows, or denies, an action on one object.

        Args:
            namespace: the namespace of the object; ignored for built-in cluster-scoped kinds.
            user: the user's name; `system:serviceaccount:<namespace>:<name>` for a service account.
            verb: for example `get`; `*` for all.
            resource: as in a role, with the group unless built in.
            name: the object's name.
            allowed: False to wait until the action is denied.
            groups: the user's groups.
        """

    def wait_for_authz_update(
        self,
        user: str,
        attributes: Mapping[str, Any],
        allowed: bool = True,
        *,
        groups: Sequence[str] = (),
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for access of a user by resource attributes, allowed or denied.

        Return the SubjectAccessReview on any resource attributes once its answer is as expected.

        Args:
            user: the user's name.
            attributes: the `resourceAttributes` of the review, in the API's field names.
            allowed: False to wait until the action is denied.
            groups: the user's groups.
        """

    def wait_for_crd_established(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a CustomResourceDefinition that is established, with all versions served.

        Return a definition once it is established and every version it serves can be used.

        Args:
            name: the definition's name, `<plural>.<group>`.
        """

    def wait_for_hpa_replicas(
        self,
        name: str | KubernetesObject,
        min_replicas: int,
        max_replicas: int | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for an autoscaler whose replicas lie in a range.

        Return a HorizontalPodAutoscaler once its current and desired replicas are in range.

        Args:
            min_replicas: the minimum; 0 or more.
            max_replicas: the maximum; `min_replicas` by default.
        """

    def wait_for_namespaces_deleted(
        self, namespaces: KubernetesObjects, **options: Unpack[WaitOptions]
    ) -> None:
        """Wait for namespaces that are gone, by their UIDs.

        Return None once namespaces are gone, at once if none of them exists.

        Args:
            namespaces: their names, or the namespaces themselves, as the API returns them or as
                models of the official client, which are then identified by UID; one or a list.
        """

    def wait_for_default_service_account(
        self,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for the namespace's ServiceAccount `default`.

        Return a namespace's ServiceAccount `default` once it exists.
        """

    def wait_for_kube_root_ca(
        self,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for the namespace's config map with the cluster's root CA.

        Return a namespace's config map `kube-root-ca.crt` once it exists.
        """

    def wait_for_webhook_ready(
        self,
        target: str | KubernetesObject,
        probe: Mapping[str, Any] | None = None,
        *,
        denial: str | None = None,
        mutation: Mapping[str, Any] | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for admission webhooks that answer, shown by a dry run.

        Return a webhook configuration once its webhooks answer the API server.

        Args:
            namespace: the namespace of the probe.
            target: `validatingwebhookconfiguration/<name>` or
                `mutatingwebhookconfiguration/<name>`.
            probe: an object whose creation calls the webhook; by default generated from the first
                rule about the creation of config maps, secrets, service accounts, services or pods.
            denial: a part of the message with which the webhook refuses the probe.
            mutation: a part of the object as the webhook changes it, for example `{"metadata":
                {"annotations": {"seen": "yes"}}}`; lists are compared as a whole.
        """

    def wait_for_daemon_set_running_on_all_nodes(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a daemon set's one available pod on each eligible node.

        Return a set's pods once exactly one is available on each eligible node.
        """

    def wait_for_daemon_set_pods_on_nodes(
        self,
        name: str | KubernetesObject,
        nodes: KubernetesObjects,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a daemon set's one available pod on each of these nodes alone.

        Return a set's pods once exactly one is available on each given node.

        Args:
            nodes: the names of all nodes that must have a pod; empty for none.
        """

    def wait_for_daemon_set_present_on_nodes(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a daemon set's one started pod on each of an exact number of nodes.

        Return a set's pods once each of at least `count` nodes has a started one.

        Args:
            count: the minimum number of nodes; 0 or more.
        """

    def wait_for_daemon_set_status(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a daemon set whose status has all pods scheduled and ready.

        Return a set once its status counts all desired pods as scheduled and ready.
        """

    def wait_for_daemon_sets(
        self,
        allowed_not_ready: int = 0,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for all daemon sets of a namespace, except a few pods of each.

        Return all sets of a namespace once each has all but a few pods ready.

        Args:
            allowed_not_ready: the number of pods of each set that may be missing or not ready.
        """

    def wait_for_deployment_complete(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a deployment whose pods are all updated and available.

        Return a Deployment once exactly its replicas exist, all updated and available.
        """

    def wait_for_deployment_complete_and_check_rolling(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a complete deployment, within the bounds of its rolling update at every step.

        Return a complete Deployment that kept the bounds of its strategy throughout.
        """

    def wait_for_deployment_revision_and_image(
        self,
        name: str | KubernetesObject,
        revision: int | str,
        image: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a deployment and its replica set at a revision, with an image.

        Return a Deployment once it and its present ReplicaSet have a revision and image.

        Args:
            revision: the number that both are annotated with; 1 or more.
            image: the image that one of the containers has in both, exactly as written there.
        """

    def wait_for_deployment_updated_replicas_gte(
        self,
        name: str | KubernetesObject,
        min_count: int,
        generation: int | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a deployment with enough updated pods.

        Return a Deployment once at least `min_count` of its pods are updated.

        Args:
            min_count: the minimum number; 0 or more.
            generation: the minimum observed generation, 1 or more; None for the one on the server.
        """

    def wait_for_deployment_with_condition(
        self,
        name: str | KubernetesObject,
        reason: str,
        condition: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a deployment with a condition that has a reason.

        Return a Deployment once one of its conditions has a reason, whatever its status.

        Args:
            reason: the reason, for example `NewReplicaSetAvailable` or `ProgressDeadlineExceeded`.
            condition: `Available`, `Progressing` or `ReplicaFailure`.
        """

    def wait_for_observed_deployment(
        self,
        name: str | KubernetesObject,
        generation: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a deployment whose controller has observed a generation.

        Return a Deployment once its controller has observed its present generation.

        Args:
            generation: a minimum generation as well, for example from before an update; 1 or more.
        """

    def wait_for_endpoint_count(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service with an exact number of endpoints.

        Return a service's EndpointSlices once they have exactly `count` addresses.

        Args:
            count: the exact number; 0 or more.
        """

    def wait_for_endpoint_pods(
        self,
        name: str | KubernetesObject,
        pods: KubernetesObjects,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service with endpoints at exactly these pods.

        Return a service's EndpointSlices once exactly these pods are behind them.

        Args:
            pods: the pods themselves or their names; empty for slices without any.
        """

    def wait_for_endpoint_ports(
        self,
        name: str | KubernetesObject,
        ports: Mapping[str, Sequence[int | str]],
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service with endpoints at exactly these ports of pods.

        Return a service's EndpointSlices once they have exactly these ports of these pods.

        Args:
            ports: the ports by the names of the pods. A port is a number in the pod, or a text with
                the optional name of the service's port in front and an optional protocol at the
                end: `8080`, `"http:8080"`, `"dns:53/UDP"`. The default protocol is TCP, the default
                name any.
        """

    def wait_for_endpoint_on_node(
        self,
        name: str | KubernetesObject,
        node: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service with ready endpoints on one node.

        Return a service's EndpointSlices once its endpoints are ready and all on one node.

        Args:
            node: the node's name.
        """

    def wait_for_endpoint_slices(
        self,
        name: str | KubernetesObject,
        condition: Callable[[list[dict[str, Any]]], Any],
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service whose EndpointSlices a callable accepts.

        Return a service's EndpointSlices once a callable accepts them.

        Args:
            condition: receives the slices sorted by name, and returns a bool or a verdict.
        """

    def wait_for_event(
        self,
        reason: str | None = None,
        message: str | None = None,
        *,
        about: str | KubernetesObject | None = None,
        type: str | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for an event with a reason, with words in its message, about an object.

        Return the latest event that matches, once there is one; earlier ones count.

        Args:
            namespace: the namespace of the event; `default` for events about cluster-scoped
                objects.
            reason: its reason, exactly.
            message: a part of its message.
            about: the object it is about, `pod/web-0`, or the kind, `pod`; custom kinds by the kind
                in lower case.
            type: `Normal` or `Warning`.
        """

    def wait_for_job_pods_running(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of a job's pods in phase Running.

        Return a Job's pods in phase Running once there are exactly `count`.

        Args:
            count: the number of pods; 0 or more.
        """

    def wait_for_job_pods_succeeded(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of a job's pods in phase Succeeded.

        Return a Job's pods in phase Succeeded once there are exactly `count`.

        Args:
            count: the number of pods; 0 or more.
        """

    def wait_for_job_finish(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job that is complete or has failed.

        Return a Job once it is Complete or Failed.
        """

    def wait_for_job_complete(
        self,
        name: str | KubernetesObject,
        reason: str | None = None,
        completions: int | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job that is complete.

        Return a Job once its Complete condition is True.

        Args:
            reason: the reason that the condition must have, for example `CompletionsReached`; None
                for any.
            completions: how many pods must have succeeded by the Job's own count; None for any
                number.
        """

    def wait_for_job_failed(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job that has failed.

        Return a Job once its Failed condition is True.
        """

    def wait_for_job_ready(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job whose status has an exact number of ready pods.

        Return a Job once its controller has counted exactly `count` ready pods.

        Args:
            count: the number of pods; 0 or more.
        """

    def wait_for_job_suspend(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job that is suspended.

        Return a Job once its Suspended condition is True.
        """

    def wait_for_job_condition(
        self,
        name: str | KubernetesObject,
        condition: str,
        reason: str | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job with a condition that is True.

        Return a Job once one of its conditions is True, with the given reason.

        Args:
            condition: `Complete`, `Failed`, `FailureTarget`, `SuccessCriteriaMet` or `Suspended`;
                or the type of another controller's condition, with its domain
                (`example.com/Queued`).
            reason: the reason that the condition must have; None for any.
        """

    def wait_for_job_state(
        self,
        name: str | KubernetesObject,
        state: Callable[[dict[str, Any]], Any],
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a job that a callable accepts.

        Return a Job once a callable reports nothing missing.

        Args:
            state: given the Job as the API returns it, returns a text that names the missing part,
                empty for none; or True, False or a verdict.
        """

    def wait_for_job_gone(
        self,
        name: str | KubernetesObject,
        uid: str | None = None,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Wait for a job that is gone, by its UID.

        Return None once a Job is gone; at once if none has that name.

        Args:
            uid: its UID; None for the first one seen.
        """

    def wait_for_all_job_pods_gone(
        self,
        name: str | KubernetesObject,
        uid: str | None = None,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Wait for a job without any pods left.

        Return None once no pod of a Job is left, in any phase.

        Args:
            uid: its UID; None for the first one seen.
        """

    @overload
    def wait_for_log(
        self,
        target: str | KubernetesObject,
        pattern: str | Pattern[str],
        *,
        container: str | None = None,
        since: Duration | None = None,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> LogMatch: ...

    @overload
    def wait_for_log(
        self,
        *,
        pattern: str | Pattern[str],
        selector: Selector,
        container: str | None = None,
        since: Duration | None = None,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> LogMatch: ...

    def wait_for_log(
        self,
        target: str | KubernetesObject | None = None,
        pattern: str | Pattern[str] = "",
        *,
        selector: Selector | None = None,
        container: str | None = None,
        since: Duration | None = None,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> LogMatch:
        """Wait for a line in the log of a pod, or of one of several.

        Return the first line of a log that matches a pattern, once there is one.

        Args:
            target: a pod, as `web`, `pod/web` or an object; or what selects pods: `deployment/web`,
                `statefulset/web`, `daemonset/web`, `rs/web`, `rc/web`, `job/web`, `svc/web`.
            pattern: a text that the line contains, or a compiled regular expression, searched in
                it.
            selector: a label selector, text or mapping, instead of the target.
            container: the only container whose log is read; by default all of each pod, init
                containers included.
            since: only lines that are not older than this when the wait begins.
        """

    def wait_for_pods_running_on_nodes(
        self,
        nodes: KubernetesObjects,
        count: int,
        prefix: str = "",
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of running pods, as kubelets report them.

        Return the pods that kubelets report as running once there are exactly `count`.

        Args:
            nodes: the names of the nodes to query; at least one.
            count: the exact number of pods on all of them together; 0 or more.
            prefix: the prefix of the pods' names; empty for all pods of the namespace.
        """

    def wait_for_pods_on_minions(
        self,
        controller: str | KubernetesObject | None = None,
        *,
        selector: Selector | None = None,
        pods: KubernetesObjects | None = None,
        pod_info: PodInfo | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for pods that are known to the agents of their hosts.

        Return the selected pods once each is known to its host's agent.

        Args:
            controller: `rc/web`, `rs/web`, `deployment/web`, `statefulset/web`, `daemonset/web` or
                `job/web`; its selector is read from the server.
            selector: a label selector, text or mapping.
            pods: the pods themselves, as dicts, models or a PodList, or their names.
            pod_info: the lookup of a pod at its host; the kubelets if not given. Any error that it
                raises means that the pod is not known yet; a result that is no pod, or a coroutine,
                is an invalid argument. It is called in a thread of its own, which is abandoned when
                the limit passes.
        """

    def wait_for_node_ready(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a node that is ready.

        Return a node once it is Ready and the node controller's taints are gone.
        """

    def wait_for_node_not_ready(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a node that is not ready.

        Return a node once its Ready condition is anything but True.
        """

    def wait_for_node_condition(
        self,
        name: str | KubernetesObject,
        condition: str,
        status: bool = True,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a node with a condition that is True, or is not.

        Return a node once one of its conditions is True, or is not.

        Args:
            condition: its type, for example `DiskPressure`.
            status: True to wait until it is True, False until it is anything else.
        """

    def wait_for_node_schedulable(
        self,
        name: str | KubernetesObject,
        schedulable: bool = True,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a node that takes pods, or takes none.

        Return a node once it is schedulable, or once it is not.

        Args:
            schedulable: False to wait until it is not schedulable.
        """

    def wait_for_node_heartbeat_after(
        self,
        name: str | KubernetesObject,
        after: datetime | str,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a node whose last heartbeat is later.

        Return a node once its Ready condition has a heartbeat later than `after`.

        Args:
            after: a time with a time zone; a text as in RFC 3339.
        """

    def wait_for_all_nodes_schedulable(
        self,
        allowed_not_ready: int = 0,
        non_blocking_taints: Sequence[str] = ("node-role.kubernetes.io/control-plane",),
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for nodes that take pods, all but a few.

        Return the nodes fit for test pods once all but a few uncordoned ones are.

        Args:
            allowed_not_ready: the number of nodes that may be unfit; 0 or more.
            non_blocking_taints: keys of taints to ignore.
        """

    def wait_for_nodes_ready(
        self, count: int, *, as_model: type[_Model] | None = None, **options: Unpack[WaitOptions]
    ) -> list[_Model]:
        """Wait for an exact number of uncordoned nodes, all ready.

        Return the uncordoned nodes once there are exactly `count`, all ready.

        Args:
            count: the exact number; 0 or more.
        """

    def wait_for_total_healthy(
        self,
        required_pods: Sequence[str] = (),
        system_namespace: str = "kube-system",
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for nodes that are all ready and run what they must.

        Return all nodes once all are ready and run the required pods.

        Args:
            required_pods: regular expressions, one per kind of pod, that the pods' names must
                contain.
            system_namespace: the namespace of those pods.
        """

    @overload
    def wait_for(  # type: ignore[overload-overlap] # a list's model is a model, too
        self,
        target: ObjectListModel | list[Any] | tuple[Any, ...],
        condition: ConditionInput | HeldPredicate,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[Any]: ...

    @overload
    def wait_for(
        self,
        target: ObjectListModel | list[Any] | tuple[Any, ...],
        condition: ConditionInput | HeldPredicate,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...

    @overload
    def wait_for(  # type: ignore[overload-overlap] # a variable may have this value
        self,
        target: str | KubernetesObject,
        condition: Literal["delete"],
        *,
        selector: Selector | None = None,
        count: int | Count | None = None,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None: ...

    @overload
    def wait_for(
        self,
        target: str | KubernetesObject,
        condition: ConditionInput | HeldPredicate,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def wait_for(
        self,
        target: str | KubernetesObject,
        condition: ConditionInput | HeldPredicate,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...

    @overload
    def wait_for(
        self,
        target: str,
        condition: ConditionInput | HeldPredicate,
        *,
        selector: Selector,
        count: int | Count | None = None,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    def wait_for(
        self,
        target: str,
        condition: ConditionInput | HeldPredicate,
        *,
        selector: Selector,
        count: int | Count | None = None,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> list[_Model]: ...

    def wait_for(
        self,
        target: str | KubernetesObject | Sequence[str | KubernetesObject],
        condition: ConditionInput | HeldPredicate,
        *,
        selector: Selector | None = None,
        count: int | Count | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> Any:
        """Wait for any condition on any kind of object.

        Return the objects that satisfy a condition, once they do.

        Args:
            namespace: the namespace of the objects; ignored for cluster-scoped kinds.
            target: one object (`deployment/web`), or a kind (`pods`) together with `selector`.
                Kinds are named as for kubectl, custom ones too. A list sets one limit for several
                targets: each must satisfy the condition, all at the same moment. The deletion of an
                object that is given itself is that of its UID.
            condition: `create`, `delete`, `condition=Type`, `condition=Type=Value`,
                `jsonpath={.path}` or `jsonpath={.path}=value` as for kubectl; or a callable that
                receives the object, or the list of objects, and returns a bool or a verdict; or a
                combinator: `all_of`, `any_of`, `not_`, `stable_for`, `consistently`. A status of an
                older generation does not count.
            selector: a label selector, text or mapping.
            count: how many of the selected objects must satisfy it: a number for exactly so many,
                `at_least(n)` or `at_most(n)`; by default all of them, and at least one.
        """

    def wait_for_rollout_status(
        self,
        target: str | KubernetesObject,
        revision: int | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a deployment, daemon set or stateful set rolled out by kubectl's rules.

        Return a Deployment, DaemonSet or StatefulSet once it is rolled out by kubectl's rules.

        Args:
            target: `deployment/name`, `daemonset/name` or `statefulset/name`; kinds are named as
                for kubectl.
            revision: the required revision of a Deployment, by its annotation
                `deployment.kubernetes.io/revision`; None for any.
        """

    def wait_for_container_started(
        self,
        name: str | KubernetesObject,
        container: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a container that has passed its startup probe.

        Return a pod once one of its containers runs and has started.
        """

    def wait_for_container_running(
        self,
        name: str | KubernetesObject,
        container: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a container that runs.

        Return a pod once one of its containers is in state running.
        """

    def wait_for_container_terminated(
        self,
        name: str | KubernetesObject,
        container: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a container that has ended.

        Return a pod once one of its containers is in state terminated.
        """

    def wait_for_container_to_fail(
        self,
        name: str | KubernetesObject,
        container: str,
        reason: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a container that waits for a reason.

        Return a pod once one of its containers is waiting with a reason.

        Args:
            reason: the waiting reason, for example `CreateContainerConfigError`.
        """

    def wait_for_number_of_pods(
        self,
        count: int,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of pods.

        Return the pods of a namespace once there are exactly `count`, in any phase.

        Args:
            count: the exact number; 0 or more.
            selector: a label selector, text or mapping; all pods of the namespace if not given.
        """

    def wait_for_pods_running(
        self,
        count: int,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of pods that are Running and ready.

        Return the pods that are Running and ready once there are exactly `count`.

        Args:
            count: how many, exactly; 0 or more.
            selector: a label selector, text or mapping; all pods of the namespace if not given.
        """

    def wait_for_pods_scheduling_gated(
        self,
        count: int,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of pods behind scheduling gates.

        Return the pods held by a scheduling gate once there are exactly `count`.

        Args:
            count: the exact number; 0 or more.
            selector: a label selector, text or mapping; all pods of the namespace if not given.
        """

    def wait_for_pods_with_scheduling_gates(
        self,
        count: int,
        gates: Sequence[str],
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for an exact number of pods with exactly these gates.

        Return the pods with exactly these scheduling gates once there are `count`.

        Args:
            count: the exact number; 0 or more.
            gates: the names of all their gates, in order; empty for pods without any.
            selector: a label selector, text or mapping; all pods of the namespace if not given.
        """

    def wait_for_pods_with_label(
        self,
        selector: Selector,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a pod with a label.

        Return the pods with a label once there is at least one, in whatever phase.

        Args:
            selector: a label selector, text or mapping.
        """

    def wait_for_pods_with_label_scheduled(
        self,
        selector: Selector,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for pods with a label, all with a node.

        Return the pods with a label once at least one exists and all have a node.

        Args:
            selector: a label selector, text or mapping.
        """

    def wait_for_pods_with_label_running(
        self,
        selector: Selector,
        count: int = 1,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for enough pods with a label, all in phase Running.

        Return at least `count` pods with a label once all are in phase Running.

        Args:
            selector: a label selector, text or mapping.
            count: the minimum number; 1 or more.
        """

    def wait_for_pods_with_label_running_ready(
        self,
        selector: Selector,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for enough pods with a label, all Running and ready.

        Return at least `count` pods with a label once all are Running and ready.

        Args:
            selector: a label selector, text or mapping.
            count: the minimum number; 1 or more.
        """

    def wait_for_pods_running_ready(
        self,
        min_count: int,
        allowed_not_ready: int = 0,
        *,
        selector: Selector | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for enough pods Running and ready, and few that are not.

        Return the Running and ready pods once they suffice and few others remain.

        Args:
            min_count: the minimum number of Running and ready pods; 0 or more.
            allowed_not_ready: the maximum number of others; 0 or more.
            selector: a label selector, text or mapping; all pods of the namespace if not given.
        """

    def wait_for_almost_all_pods_ready(
        self,
        min_count: int,
        allowed_not_ready: int = 0,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for enough pods Running and ready, and few replicas missing.

        Return the ready pods once they suffice and controllers have their replicas.

        Args:
            min_count: the minimum number of Running and ready pods; 0 or more.
            allowed_not_ready: the maximum number of other pods, and of missing replicas; 0 or more.
        """

    def wait_for_pod_port(
        self,
        name: str | KubernetesObject,
        port: int | str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a port of a pod that takes TCP connections.

        Return a pod once one of its ports takes TCP connections.

        Args:
            port: its number, or its name in the pod's spec.
        """

    def wait_for_pod_resized(
        self,
        name: str | KubernetesObject,
        *,
        restart_counts: Mapping[str, int] | None = None,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod whose resize has been made.

        Return a ready pod once its resources have the sizes of its spec.

        Args:
            restart_counts: the numbers of restarts after the resize, by container, as its
                `resizePolicy` leaves them; None for any.
        """

    def wait_for_pods_responding(
        self,
        *,
        selector: Selector | None = None,
        pods: KubernetesObjects | None = None,
        want_name: bool = False,
        port: int | None = None,
        path: str = "",
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for pods that answer through the API server's proxy.

        Return pods once each has answered a request through the API server's proxy.

        Args:
            selector: a label selector, text or mapping.
            pods: the pods themselves, as dicts, models or a PodList, or their names; one that is
                replaced ends the wait if its UID is known, unless `follow_name` is set.
            want_name: whether the answer must be the pod's name.
            port: the port of the request; the pod's first one if not given.
            path: the path of the request, without a query.
        """

    def wait_for_pod_condition(
        self,
        name: str | KubernetesObject,
        description: str,
        condition: Callable[[dict[str, Any]], bool | Verdict],
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that a callable accepts.

        Return a pod once it satisfies a callable.

        Args:
            description: the awaited state, as written after `become`, for messages.
            condition: given the whole pod, returns True, False or a verdict.
        """

    def wait_for_pod_running(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod in phase Running.

        Return a pod once it is in phase Running.
        """

    def wait_for_pod_ready(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that is Running and ready.

        Return a pod once it is in phase Running and its Ready condition is True.
        """

    def wait_for_pod_running_ready(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that is Running and ready.

        Return a pod once it is in phase Running and its Ready condition is True.
        """

    def wait_for_pod_success(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod in phase Succeeded.

        Return a pod once it is in phase Succeeded.
        """

    def wait_for_pod_no_longer_running(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod in phase Succeeded or Failed.

        Return a pod once it is in phase Succeeded or Failed.
        """

    def wait_for_pod_terminated(
        self,
        name: str | KubernetesObject,
        reason: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that failed with a reason, or without any.

        Return a pod once it is in phase Failed with a reason in its status.

        Args:
            reason: the reason in its status, for example `Evicted`; empty for none.
        """

    def wait_for_pod_failed_reason(
        self,
        name: str | KubernetesObject,
        reason: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that failed with a reason.

        Return a pod once it is in phase Failed with a reason in its status.

        Args:
            reason: the reason in its status; not empty.
        """

    def wait_for_pod_not_pending(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod in any phase but Pending.

        Return a pod once it is in any phase but Pending.
        """

    def wait_for_pod_scheduled(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that has a node.

        Return a pod once it has a node.
        """

    def wait_for_pod_unschedulable(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that no node can take.

        Return a pod once the scheduler reports that it is unschedulable.
        """

    def wait_for_pod_terminating(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod that is being deleted.

        Return a pod while it is being deleted.
        """

    def wait_for_pod_not_found(
        self,
        name: str | KubernetesObject,
        uid: str | None = None,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Wait for a pod that is gone, by its UID.

        Return None once a pod is gone; at once if none has that name.

        Args:
            uid: its UID; None for the first one seen.
        """

    def wait_for_pod_observed_generation(
        self,
        name: str | KubernetesObject,
        generation: int,
        condition: str | None = None,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a pod whose kubelet has observed a generation.

        Return a pod once a generation of it has been observed.

        Args:
            generation: the generation of its metadata that must be observed, exactly; 1 or more.
            condition: the type of the condition that must have observed it; None for the status as
                a whole.
        """

    def wait_for_controlled_pods(
        self,
        target: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a pod of any controller.

        Return the pods of a controller once there is one.

        Args:
            target: `rc/web`, `rs/web`, `deployment/web`, `statefulset/web`, `daemonset/web` or
                `job/web`.
        """

    def wait_for_controlled_pods_running(
        self,
        target: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for all pods of any controller in phase Running.

        Return the Running pods of a controller once it has the desired number or more.

        Args:
            target: `rc/web`, `rs/web`, `deployment/web`, `statefulset/web`, `daemonset/web` or
                `job/web`.
        """

    def wait_for_rc_pods_running(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a replication controller's exact number of pods in phase Running.

        Return a ReplicationController's Running pods once there are exactly `count`.

        Args:
            count: the exact number; 0 or more.
        """

    def wait_for_rc_to_stabilize(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a replication controller whose status has its desired number of pods.

        Return a ReplicationController once it has observed its spec and has its pods.
        """

    def wait_for_ready_replica_set(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a replica set whose pods are all ready.

        Return a ReplicaSet once it has exactly its desired pods, all of them ready.
        """

    def wait_for_replica_set_target_available_replicas(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a replica set with an exact number of available pods.

        Return a ReplicaSet once exactly `count` of its pods are available.

        Args:
            count: the number of pods; 0 or more.
        """

    def wait_for_replica_set_target_spec_replicas(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a replica set whose spec has an exact number of replicas.

        Return a ReplicaSet once its controller has observed the target replicas.

        Args:
            count: the number in its spec; 0 or more.
        """

    def wait_for_replica_set_desired_replicas(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a replica set with its desired number of pods.

        Return a ReplicaSet once it has exactly its desired pods, in any state.
        """

    def wait_for_observed_replica_set(
        self,
        name: str | KubernetesObject,
        generation: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a replica set whose controller has observed a generation.

        Return a ReplicaSet once its controller has observed its present generation.

        Args:
            generation: a minimum generation as well, for example from before an update; 1 or more.
        """

    def wait_for_load_balancer(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a service whose load balancer has an address.

        Return a service of type LoadBalancer once each ingress, at least one, has an address.
        """

    def wait_for_new_ingress_ip(
        self,
        name: str | KubernetesObject,
        existing_ip: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a service whose load balancer has another address.

        Return a service once its load balancer has a new first address.

        Args:
            existing_ip: the previous IP or hostname.
        """

    def wait_for_load_balancer_destroy(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model | None:
        """Wait for a service without load balancer.

        Return a service once it has no load balancer; None if it does not exist.
        """

    @overload
    def wait_for_service_updated_with_finalizer(
        self,
        name: str | KubernetesObject,
        present: Literal[True] = True,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def wait_for_service_updated_with_finalizer(
        self,
        name: str | KubernetesObject,
        present: Literal[True] = True,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...

    @overload
    def wait_for_service_updated_with_finalizer(
        self,
        name: str | KubernetesObject,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    def wait_for_service_updated_with_finalizer(
        self,
        name: str | KubernetesObject,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model | None: ...

    def wait_for_service_updated_with_finalizer(
        self,
        name: str | KubernetesObject,
        present: bool = True,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | _Model | None:
        """Wait for a service with the load balancer's finalizer, or without.

        Return a service once it has, or no longer has, the load balancer's finalizer.

        Args:
            present: False to wait until it is gone.
        """

    def wait_for_service_deleted_with_finalizer(
        self,
        name: str | KubernetesObject,
        uid: str | None = None,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Wait for a service that is gone, by its UID.

        Return None once a service is gone, at once if it does not exist.

        Args:
            uid: its UID; None for the first one seen.
        """

    @overload
    def wait_for_service(
        self,
        name: str | KubernetesObject,
        present: Literal[True] = True,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def wait_for_service(
        self,
        name: str | KubernetesObject,
        present: Literal[True] = True,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...

    @overload
    def wait_for_service(
        self,
        name: str | KubernetesObject,
        present: Literal[False],
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None: ...

    @overload
    def wait_for_service(
        self,
        name: str | KubernetesObject,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    def wait_for_service(
        self,
        name: str | KubernetesObject,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model | None: ...

    def wait_for_service(
        self,
        name: str | KubernetesObject,
        present: bool = True,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | _Model | None:
        """Wait for a service that is there, or gone.

        Return a service once it exists, or None once it is gone.

        Args:
            present: False to wait until it is gone.
        """

    def wait_for_service_reachable(
        self,
        name: str | KubernetesObject,
        port: int | str | None = None,
        path: str = "",
        scheme: str = "http",
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service behind which a pod answers anything.

        Return a service's EndpointSlices once a pod behind it has answered, with any status.

        Args:
            port: the service's port, by number or by name; by default its first one.
            path: the request path, without a query.
            scheme: `http` or `https`.
        """

    def wait_for_service_responding(
        self,
        name: str | KubernetesObject,
        port: int | str | None = None,
        path: str = "",
        scheme: str = "http",
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a service that answers with success.

        Return a service's EndpointSlices once it has answered with status 2xx and content.

        Args:
            port: the service's port, by number or by name; by default its first one.
            path: the request path, without a query.
            scheme: `http` or `https`.
        """

    def wait_for_stateful_set_running(
        self,
        name: str | KubernetesObject,
        count: int,
        ready_count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a stateful set with an exact number of running pods, the first of them ready.

        Return a set's pods once exactly `count` run, the first of them ready.

        Args:
            count: the exact number of pods; 0 or more.
            ready_count: the number of ready ones; `count` at most.
        """

    def wait_for_stateful_set_running_and_ready(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for a stateful set's exact number of pods, all Running and ready.

        Return a set's pods once there are exactly `count`, all Running and ready.

        Args:
            count: the exact number; 0 or more.
        """

    def wait_for_stateful_set_pod_ready(
        self,
        name: str | KubernetesObject,
        pod: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for one pod of a stateful set that is Running and ready.

        Return one pod of a set once it is Running and ready.

        Args:
            pod: the pod's name, `<set>-<ordinal>`.
        """

    def wait_for_stateful_set_status_replicas(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a stateful set whose status has an exact number of pods.

        Return a set once its current status counts exactly `count` pods.

        Args:
            count: the exact number; 0 or more.
        """

    def wait_for_stateful_set_status_ready_replicas(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a stateful set whose status has an exact number of ready pods.

        Return a set once its current status counts exactly `count` ready pods.

        Args:
            count: the exact number; 0 or more.
        """

    def wait_for_stateful_set_status_available_replicas(
        self,
        name: str | KubernetesObject,
        count: int,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a stateful set whose status has an exact number of available pods.

        Return a set once its current status counts exactly `count` available pods.

        Args:
            count: the exact number; 0 or more.
        """

    def wait_for_persistent_volume_claim_phase(
        self,
        name: str | KubernetesObject,
        phase: str,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a claim in a phase.

        Return a claim once it is in a phase.

        Args:
            phase: `Pending`, `Bound` or `Lost`.
        """

    def wait_for_persistent_volume_claims_phase(
        self,
        claims: KubernetesObjects,
        phase: str,
        match_any: bool = False,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[_Model]:
        """Wait for claims in a phase, all of them or any.

        Return claims once all of them are in a phase, or any.

        Args:
            claims: the claims themselves or their names, at least one; a claim given as an object
                is identified by its UID.
            phase: `Pending`, `Bound` or `Lost`.
            match_any: whether one of them is enough.
        """

    def wait_for_persistent_volume_claim_deleted(
        self,
        name: str | KubernetesObject,
        uid: str | None = None,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        """Wait for a claim that is gone, by its UID.

        Return None once a claim is gone, at once if it does not exist.

        Args:
            uid: its UID; None for the first one seen.
        """

    @overload
    def wait_for_pvc_finalizer(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: Literal[True] = True,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def wait_for_pvc_finalizer(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: Literal[True] = True,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...

    @overload
    def wait_for_pvc_finalizer(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    def wait_for_pvc_finalizer(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: bool,
        *,
        namespace: str | None = None,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model | None: ...

    def wait_for_pvc_finalizer(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: bool = True,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | _Model | None:
        """Wait for a claim with a finalizer, or without.

        Return a claim once it has, or no longer has, a finalizer.

        Args:
            finalizer: for example `kubernetes.io/pvc-protection`.
            present: False to wait until it is gone.
        """

    def wait_for_persistent_volume_claim_modified(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a claim with its requested class of volume attributes.

        Return a claim once it is Bound and has the VolumeAttributesClass of its spec.
        """

    def wait_for_persistent_volume_claim_modification_failure(
        self,
        name: str | KubernetesObject,
        *,
        namespace: str | None = None,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a claim whose requested class of volume attributes was refused.

        Return a Bound claim once a change of its VolumeAttributesClass has failed.
        """

    def wait_for_pv_and_pvc(
        self,
        name: str | KubernetesObject,
        claim: str | KubernetesObject,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]:
        """Wait for a volume and a claim that are bound to each other.

        Return a volume and a claim once both are Bound, to each other.

        Args:
            name: the name of the PersistentVolume.
            claim: the name of the PersistentVolumeClaim.
        """

    def wait_for_pv_claim_bound_phase(
        self,
        claims: KubernetesObjects,
        *,
        namespace: str | None = None,
        **options: Unpack[WaitOptions],
    ) -> list[dict[str, Any]]:
        """Wait for claims and their volumes, bound to each other.

        Return the volumes of claims, in their order, once all are Bound to each other.

        Args:
            claims: the claims themselves or their names, at least one; a claim given as an object
                is identified by its UID.
        """

    def wait_for_persistent_volume_phase(
        self,
        name: str | KubernetesObject,
        phase: str,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a volume in a phase.

        Return a volume once it is in a phase.

        Args:
            phase: `Pending`, `Available`, `Bound`, `Released` or `Failed`.
        """

    def wait_for_persistent_volume_deleted(
        self, name: str | KubernetesObject, uid: str | None = None, **options: Unpack[WaitOptions]
    ) -> None:
        """Wait for a volume that is gone, by its UID.

        Return None once a volume is gone, at once if it does not exist.

        Args:
            uid: its UID; None for the first one seen.
        """

    @overload
    def wait_for_pv_finalizer(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: Literal[True] = True,
        *,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any]: ...

    @overload
    def wait_for_pv_finalizer(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: Literal[True] = True,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model: ...

    @overload
    def wait_for_pv_finalizer(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: bool,
        *,
        as_model: None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    def wait_for_pv_finalizer(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: bool,
        *,
        as_model: type[_Model],
        **options: Unpack[WaitOptions],
    ) -> _Model | None: ...

    def wait_for_pv_finalizer(
        self,
        name: str | KubernetesObject,
        finalizer: str,
        present: bool = True,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> dict[str, Any] | _Model | None:
        """Wait for a volume with a finalizer, or without.

        Return a volume once it has, or no longer has, a finalizer.

        Args:
            finalizer: for example `kubernetes.io/pv-protection`.
            present: False to wait until it is gone.
        """

    def wait_for_volume_attachment_created(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a VolumeAttachment that is there.

        Return a VolumeAttachment once it exists, attached or not.
        """

    def wait_for_volume_attachment_attached(
        self,
        name: str | KubernetesObject,
        *,
        as_model: type[_Model] | None = None,
        **options: Unpack[WaitOptions],
    ) -> _Model:
        """Wait for a VolumeAttachment whose volume is attached.

        Return a VolumeAttachment once its status reports the volume as attached.
        """

    def wait_for_volume_attachment_terminated(
        self, name: str | KubernetesObject, uid: str | None = None, **options: Unpack[WaitOptions]
    ) -> None:
        """Wait for a VolumeAttachment that is gone, by its UID.

        Return None once a VolumeAttachment is gone, at once if it does not exist.

        Args:
            uid: its UID; None for the first one seen.
        """


class AsyncWaitMethods(AsyncMethods):
    """The waits of `WaitMethods`, to be awaited."""

    wait_for_cache_sync = awaitable(WaitMethods.wait_for_cache_sync)
    wait_for_api_server_healthy = awaitable(WaitMethods.wait_for_api_server_healthy)
    wait_for_api_service_available = awaitable(WaitMethods.wait_for_api_service_available)
    wait_for_authorization_update = awaitable(WaitMethods.wait_for_authorization_update)
    wait_for_named_authorization_update = awaitable(WaitMethods.wait_for_named_authorization_update)
    wait_for_authz_update = awaitable(WaitMethods.wait_for_authz_update)
    wait_for_crd_established = awaitable(WaitMethods.wait_for_crd_established)
    wait_for_hpa_replicas = awaitable(WaitMethods.wait_for_hpa_replicas)
    wait_for_namespaces_deleted = awaitable(WaitMethods.wait_for_namespaces_deleted)
    wait_for_default_service_account = awaitable(WaitMethods.wait_for_default_service_account)
    wait_for_kube_root_ca = awaitable(WaitMethods.wait_for_kube_root_ca)
    wait_for_webhook_ready = awaitable(WaitMethods.wait_for_webhook_ready)
    wait_for_daemon_set_running_on_all_nodes = awaitable(
        WaitMethods.wait_for_daemon_set_running_on_all_nodes
    )
    wait_for_daemon_set_pods_on_nodes = awaitable(WaitMethods.wait_for_daemon_set_pods_on_nodes)
    wait_for_daemon_set_present_on_nodes = awaitable(
        WaitMethods.wait_for_daemon_set_present_on_nodes
    )
    wait_for_daemon_set_status = awaitable(WaitMethods.wait_for_daemon_set_status)
    wait_for_daemon_sets = awaitable(WaitMethods.wait_for_daemon_sets)
    wait_for_deployment_complete = awaitable(WaitMethods.wait_for_deployment_complete)
    wait_for_deployment_complete_and_check_rolling = awaitable(
        WaitMethods.wait_for_deployment_complete_and_check_rolling
    )
    wait_for_deployment_revision_and_image = awaitable(
        WaitMethods.wait_for_deployment_revision_and_image
    )
    wait_for_deployment_updated_replicas_gte = awaitable(
        WaitMethods.wait_for_deployment_updated_replicas_gte
    )
    wait_for_deployment_with_condition = awaitable(WaitMethods.wait_for_deployment_with_condition)
    wait_for_observed_deployment = awaitable(WaitMethods.wait_for_observed_deployment)
    wait_for_endpoint_count = awaitable(WaitMethods.wait_for_endpoint_count)
    wait_for_endpoint_pods = awaitable(WaitMethods.wait_for_endpoint_pods)
    wait_for_endpoint_ports = awaitable(WaitMethods.wait_for_endpoint_ports)
    wait_for_endpoint_on_node = awaitable(WaitMethods.wait_for_endpoint_on_node)
    wait_for_endpoint_slices = awaitable(WaitMethods.wait_for_endpoint_slices)
    wait_for_event = awaitable(WaitMethods.wait_for_event)
    wait_for_job_pods_running = awaitable(WaitMethods.wait_for_job_pods_running)
    wait_for_job_pods_succeeded = awaitable(WaitMethods.wait_for_job_pods_succeeded)
    wait_for_job_finish = awaitable(WaitMethods.wait_for_job_finish)
    wait_for_job_complete = awaitable(WaitMethods.wait_for_job_complete)
    wait_for_job_failed = awaitable(WaitMethods.wait_for_job_failed)
    wait_for_job_ready = awaitable(WaitMethods.wait_for_job_ready)
    wait_for_job_suspend = awaitable(WaitMethods.wait_for_job_suspend)
    wait_for_job_condition = awaitable(WaitMethods.wait_for_job_condition)
    wait_for_job_state = awaitable(WaitMethods.wait_for_job_state)
    wait_for_job_gone = awaitable(WaitMethods.wait_for_job_gone)
    wait_for_all_job_pods_gone = awaitable(WaitMethods.wait_for_all_job_pods_gone)
    wait_for_log = awaitable(WaitMethods.wait_for_log)
    wait_for_pods_running_on_nodes = awaitable(WaitMethods.wait_for_pods_running_on_nodes)
    wait_for_pods_on_minions = awaitable(WaitMethods.wait_for_pods_on_minions)
    wait_for_node_ready = awaitable(WaitMethods.wait_for_node_ready)
    wait_for_node_not_ready = awaitable(WaitMethods.wait_for_node_not_ready)
    wait_for_node_condition = awaitable(WaitMethods.wait_for_node_condition)
    wait_for_node_schedulable = awaitable(WaitMethods.wait_for_node_schedulable)
    wait_for_node_heartbeat_after = awaitable(WaitMethods.wait_for_node_heartbeat_after)
    wait_for_all_nodes_schedulable = awaitable(WaitMethods.wait_for_all_nodes_schedulable)
    wait_for_nodes_ready = awaitable(WaitMethods.wait_for_nodes_ready)
    wait_for_total_healthy = awaitable(WaitMethods.wait_for_total_healthy)
    wait_for = awaitable(WaitMethods.wait_for)
    wait_for_rollout_status = awaitable(WaitMethods.wait_for_rollout_status)
    wait_for_container_started = awaitable(WaitMethods.wait_for_container_started)
    wait_for_container_running = awaitable(WaitMethods.wait_for_container_running)
    wait_for_container_terminated = awaitable(WaitMethods.wait_for_container_terminated)
    wait_for_container_to_fail = awaitable(WaitMethods.wait_for_container_to_fail)
    wait_for_number_of_pods = awaitable(WaitMethods.wait_for_number_of_pods)
    wait_for_pods_running = awaitable(WaitMethods.wait_for_pods_running)
    wait_for_pods_scheduling_gated = awaitable(WaitMethods.wait_for_pods_scheduling_gated)
    wait_for_pods_with_scheduling_gates = awaitable(WaitMethods.wait_for_pods_with_scheduling_gates)
    wait_for_pods_with_label = awaitable(WaitMethods.wait_for_pods_with_label)
    wait_for_pods_with_label_scheduled = awaitable(WaitMethods.wait_for_pods_with_label_scheduled)
    wait_for_pods_with_label_running = awaitable(WaitMethods.wait_for_pods_with_label_running)
    wait_for_pods_with_label_running_ready = awaitable(
        WaitMethods.wait_for_pods_with_label_running_ready
    )
    wait_for_pods_running_ready = awaitable(WaitMethods.wait_for_pods_running_ready)
    wait_for_almost_all_pods_ready = awaitable(WaitMethods.wait_for_almost_all_pods_ready)
    wait_for_pod_port = awaitable(WaitMethods.wait_for_pod_port)
    wait_for_pod_resized = awaitable(WaitMethods.wait_for_pod_resized)
    wait_for_pods_responding = awaitable(WaitMethods.wait_for_pods_responding)
    wait_for_pod_condition = awaitable(WaitMethods.wait_for_pod_condition)
    wait_for_pod_running = awaitable(WaitMethods.wait_for_pod_running)
    wait_for_pod_ready = awaitable(WaitMethods.wait_for_pod_ready)
    wait_for_pod_running_ready = awaitable(WaitMethods.wait_for_pod_running_ready)
    wait_for_pod_success = awaitable(WaitMethods.wait_for_pod_success)
    wait_for_pod_no_longer_running = awaitable(WaitMethods.wait_for_pod_no_longer_running)
    wait_for_pod_terminated = awaitable(WaitMethods.wait_for_pod_terminated)
    wait_for_pod_failed_reason = awaitable(WaitMethods.wait_for_pod_failed_reason)
    wait_for_pod_not_pending = awaitable(WaitMethods.wait_for_pod_not_pending)
    wait_for_pod_scheduled = awaitable(WaitMethods.wait_for_pod_scheduled)
    wait_for_pod_unschedulable = awaitable(WaitMethods.wait_for_pod_unschedulable)
    wait_for_pod_terminating = awaitable(WaitMethods.wait_for_pod_terminating)
    wait_for_pod_not_found = awaitable(WaitMethods.wait_for_pod_not_found)
    wait_for_pod_observed_generation = awaitable(WaitMethods.wait_for_pod_observed_generation)
    wait_for_controlled_pods = awaitable(WaitMethods.wait_for_controlled_pods)
    wait_for_controlled_pods_running = awaitable(WaitMethods.wait_for_controlled_pods_running)
    wait_for_rc_pods_running = awaitable(WaitMethods.wait_for_rc_pods_running)
    wait_for_rc_to_stabilize = awaitable(WaitMethods.wait_for_rc_to_stabilize)
    wait_for_ready_replica_set = awaitable(WaitMethods.wait_for_ready_replica_set)
    wait_for_replica_set_target_available_replicas = awaitable(
        WaitMethods.wait_for_replica_set_target_available_replicas
    )
    wait_for_replica_set_target_spec_replicas = awaitable(
        WaitMethods.wait_for_replica_set_target_spec_replicas
    )
    wait_for_replica_set_desired_replicas = awaitable(
        WaitMethods.wait_for_replica_set_desired_replicas
    )
    wait_for_observed_replica_set = awaitable(WaitMethods.wait_for_observed_replica_set)
    wait_for_load_balancer = awaitable(WaitMethods.wait_for_load_balancer)
    wait_for_new_ingress_ip = awaitable(WaitMethods.wait_for_new_ingress_ip)
    wait_for_load_balancer_destroy = awaitable(WaitMethods.wait_for_load_balancer_destroy)
    wait_for_service_updated_with_finalizer = awaitable(
        WaitMethods.wait_for_service_updated_with_finalizer
    )
    wait_for_service_deleted_with_finalizer = awaitable(
        WaitMethods.wait_for_service_deleted_with_finalizer
    )
    wait_for_service = awaitable(WaitMethods.wait_for_service)
    wait_for_service_reachable = awaitable(WaitMethods.wait_for_service_reachable)
    wait_for_service_responding = awaitable(WaitMethods.wait_for_service_responding)
    wait_for_stateful_set_running = awaitable(WaitMethods.wait_for_stateful_set_running)
    wait_for_stateful_set_running_and_ready = awaitable(
        WaitMethods.wait_for_stateful_set_running_and_ready
    )
    wait_for_stateful_set_pod_ready = awaitable(WaitMethods.wait_for_stateful_set_pod_ready)
    wait_for_stateful_set_status_replicas = awaitable(
        WaitMethods.wait_for_stateful_set_status_replicas
    )
    wait_for_stateful_set_status_ready_replicas = awaitable(
        WaitMethods.wait_for_stateful_set_status_ready_replicas
    )
    wait_for_stateful_set_status_available_replicas = awaitable(
        WaitMethods.wait_for_stateful_set_status_available_replicas
    )
    wait_for_persistent_volume_claim_phase = awaitable(
        WaitMethods.wait_for_persistent_volume_claim_phase
    )
    wait_for_persistent_volume_claims_phase = awaitable(
        WaitMethods.wait_for_persistent_volume_claims_phase
    )
    wait_for_persistent_volume_claim_deleted = awaitable(
        WaitMethods.wait_for_persistent_volume_claim_deleted
    )
    wait_for_pvc_finalizer = awaitable(WaitMethods.wait_for_pvc_finalizer)
    wait_for_persistent_volume_claim_modified = awaitable(
        WaitMethods.wait_for_persistent_volume_claim_modified
    )
    wait_for_persistent_volume_claim_modification_failure = awaitable(
        WaitMethods.wait_for_persistent_volume_claim_modification_failure
    )
    wait_for_pv_and_pvc = awaitable(WaitMethods.wait_for_pv_and_pvc)
    wait_for_pv_claim_bound_phase = awaitable(WaitMethods.wait_for_pv_claim_bound_phase)
    wait_for_persistent_volume_phase = awaitable(WaitMethods.wait_for_persistent_volume_phase)
    wait_for_persistent_volume_deleted = awaitable(WaitMethods.wait_for_persistent_volume_deleted)
    wait_for_pv_finalizer = awaitable(WaitMethods.wait_for_pv_finalizer)
    wait_for_volume_attachment_created = awaitable(WaitMethods.wait_for_volume_attachment_created)
    wait_for_volume_attachment_attached = awaitable(WaitMethods.wait_for_volume_attachment_attached)
    wait_for_volume_attachment_terminated = awaitable(
        WaitMethods.wait_for_volume_attachment_terminated
    )
