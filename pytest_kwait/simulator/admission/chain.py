"""The admission chain: all plugins in upstream's order, and the shortest of them.

Contents: the chain, NamespaceLifecycle, DefaultTolerationSeconds, TaintNodesByCondition,
PodResize, and the plugins of certificate signing requests.

Source: k8s.io/kubernetes pkg/kubeapiserver/options/plugins.go (AllOrderedPlugins),
plugin/pkg/admission/{certificates,defaulttolerationseconds,nodetaint,podresize}; k8s.io/apiserver
pkg/admission/plugin/namespace/lifecycle/admission.go.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.limit_ranger import LimitRanger
from pytest_kwait.simulator.admission.pod_security import PodSecurity
from pytest_kwait.simulator.admission.policies import (
    MutatingAdmissionPolicy,
    ValidatingAdmissionPolicy,
)
from pytest_kwait.simulator.admission.priority import Priority
from pytest_kwait.simulator.admission.resource_quota import ResourceQuota
from pytest_kwait.simulator.admission.runtime_class import RuntimeClass
from pytest_kwait.simulator.admission.service_account import ServiceAccount
from pytest_kwait.simulator.admission.volume_claims import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
)
from pytest_kwait.simulator.admission.webhooks.dispatcher import (
    MutatingAdmissionWebhook,
    ValidatingAdmissionWebhook,
)
from pytest_kwait.simulator.api_errors import forbidden, not_found
from pytest_kwait.simulator.request_info import MASTERS, AuthorizationAttributes

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

_PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})
_TOLERATION_SECONDS = 300
_TOLERATED_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

_OS_LABEL = "kubernetes.io/os"

_CERTIFICATES = "certificates.k8s.io"
_SIGNING_REQUESTS = f"certificatesigningrequests.{_CERTIFICATES}"
_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


class NamespaceLifecycle(AdmissionPlugin):
    """The NamespaceLifecycle plugin."""

    def __init__(self, cluster: Cluster) -> None:
        self._namespaces = cluster.store.present("namespaces")

    def admit(self, attributes: Attributes) -> None:
        """Deny creations in missing or terminating namespaces.

        Raises:
            StatusError: 404 without the namespace, 403 in a terminating one, 403 for the deletion
                of a permanent namespace.
        """
        kind, namespace = attributes.kind, attributes.namespace
        if kind.bucket == "namespaces":
            if attributes.operation == "DELETE" and attributes.name in _PROTECTED_NAMESPACES:
                raise attributes.forbidden("this namespace may not be deleted")
            return
        if not kind.namespaced or attributes.operation == "DELETE":
            return
        stored_entry = self._namespaces.get(namespace)
        if stored_entry is None:
            raise not_found("", "namespaces", namespace)
        if attributes.operation == "CREATE" and stored_entry.obj["metadata"].get(
            "deletionTimestamp"
        ):
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden(
                kind.group,
                kind.plural,
                attributes.name or "Unknown",
                f"unable to create new content in namespace {namespace} because it is being "
                "terminated",
                [cause],
            )


class DefaultTolerationSeconds(AdmissionPlugin):
    """The DefaultTolerationSeconds plugin."""

    buckets = frozenset({"pods"})

    def admit(self, attributes: Attributes) -> None:
        """Add tolerations of not ready and unreachable nodes."""
        pod = attributes.obj
        if attributes.kind.bucket != "pods" or pod is None or attributes.subresource:
            return
        tolerations = pod["spec"].get("tolerations", [])
        for taint in _TOLERATED_TAINTS:
            if not any(_tolerates_taint(toleration, taint) for toleration in tolerations):
                more = {"key": taint, "operator": "Exists", "effect": "NoExecute"}
                tolerations = [*tolerations, {**more, "tolerationSeconds": _TOLERATION_SECONDS}]
        pod["spec"]["tolerations"] = tolerations


def _tolerates_taint(toleration: Obj, taint: str) -> bool:
    return (toleration.get("key") or taint) == taint and toleration.get("effect", "NoExecute") in (
        "",
        "NoExecute",
    )


class TaintNodesByCondition(AdmissionPlugin):
    """The TaintNodesByCondition plugin."""

    buckets = frozenset({"nodes"})

    def admit(self, attributes: Attributes) -> None:
        """Taint the nodes that clients create; internal kubelets set their own taints."""
        node = attributes.obj
        if attributes.kind.bucket != "nodes" or attributes.operation != "CREATE":
            return
        if node is None or attributes.subresource or attributes.caller.internal:
            return
        taints = node.setdefault("spec", {}).setdefault("taints", [])
        if not any(
            all(taint.get(key) == _NOT_READY[key] for key in _NOT_READY) for taint in taints
        ):
            taints.append(dict(_NOT_READY))


class PodResize(AdmissionPlugin):
    """Denies resizes beyond the node's capacity."""

    buckets = frozenset({"pods"})

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def validate(self, attributes: Attributes) -> None:
        """Check the resized pods of a node.

        Raises:
            StatusError: 403, the node is too small, missing, or cannot resize.
        """
        new, old = attributes.obj, attributes.old
        if attributes.subresource != "resize" or not new or not old or new["spec"] == old["spec"]:
            return
        name = new["spec"].get("nodeName")
        if not name:
            return
        node = self._cluster.find("nodes", name)
        if node is None:
            raise attributes.forbidden(f'node "{name}" not found')
        system = (node["metadata"].get("labels") or {}).get(_OS_LABEL, "linux")
        if system != "linux":
            raise attributes.forbidden(
                f'pod resize is only supported on linux nodes, node "{name}" is "{system}"',
                causes=[{"reason": "UnsupportedPlatform"}],
            )
        short = _exceeded_resources(new, (node.get("status") or {}).get("allocatable") or {})
        if short:
            raise attributes.forbidden(
                f"node didn't have enough allocatable resources: {short}",
                causes=[{"reason": "NodeCapacity"}],
            )


def _exceeded_resources(pod: Obj, allocatable: Obj) -> str:
    from pytest_kwait.scheduler.framework.pod_info import PodRequests, parse_resource_list

    requested, there = PodRequests(pod).total(), parse_resource_list(allocatable)
    return "; ".join(
        f"{name}, requested: {requested[name]}, allocatable: {there.get(name, 0)}"
        for name in ("cpu", "memory")
        if requested.get(name, 0) > there.get(name, 0)
    )


class CertificateApproval(AdmissionPlugin):
    """The three certificate plugins; each handles other writes."""

    buckets = frozenset({_SIGNING_REQUESTS})

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def validate(self, attributes: Attributes) -> None:
        """Check the permissions of approvers and signers, and the subject of requests.

        Raises:
            StatusError: 403, the write is not allowed.
        """
        if attributes.kind.bucket != _SIGNING_REQUESTS or attributes.obj is None:
            return
        new, old = attributes.obj, attributes.old
        if old is None:
            self._check_subject(attributes, new)
        elif attributes.subresource == "approval":
            self._check_permission(attributes, "approve", old)
        elif attributes.subresource == "status" and _signing_changed(new) != _signing_changed(old):
            self._check_permission(attributes, "sign", old)

    def _check_permission(self, attributes: Attributes, verb: str, request: Obj) -> None:
        signer = request["spec"].get("signerName", "")
        user = attributes.caller.identity
        for name in (signer, f"{signer.partition('/')[0]}/*"):
            requested = AuthorizationAttributes(user, verb, _CERTIFICATES, "signers", name=name)
            if self._cluster.rbac.decide(requested).allowed:
                return
        raise attributes.forbidden(
            f'user not permitted to {verb} requests with signerName "{signer}"'
        )

    def _check_subject(self, attributes: Attributes, request: Obj) -> None:
        if request["spec"].get("signerName") != _CLIENT_SIGNER:
            return
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        requested = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
        groups = requested.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        if any(group.value == MASTERS for group in groups):
            raise attributes.forbidden(
                f"use of {_CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
            )


def _signing_changed(request: Obj) -> tuple[object, object]:
    status = request.get("status") or {}
    return status.get("certificate") or "", status.get("conditions") or []


class AdmissionChain:
    """The admission plugins of one cluster.

    Args:
        disabled: names of plugins that are off, as in kube-apiserver's
            `--disable-admission-plugins`.
    """

    def __init__(self, cluster: Cluster, disabled: Collection[str] = ()) -> None:
        self._lifecycle = NamespaceLifecycle(cluster)
        self._mutating, self._validating = (
            MutatingAdmissionWebhook(cluster),
            ValidatingAdmissionWebhook(cluster),
        )
        self._mutating_policies, self._policies = (
            MutatingAdmissionPolicy(cluster),
            ValidatingAdmissionPolicy(cluster),
        )
        plugins: tuple[AdmissionPlugin, ...] = (
            self._lifecycle,
            LimitRanger(cluster),
            ServiceAccount(cluster),
            TaintNodesByCondition(),
            PodSecurity(cluster),
            Priority(cluster),
            DefaultTolerationSeconds(),
            DefaultStorageClass(cluster),
            PersistentVolumeClaimResize(cluster),
            RuntimeClass(cluster),
            CertificateApproval(cluster),
            PodResize(cluster),
            self._mutating_policies,
            self._mutating,
            self._policies,
            self._validating,
            ResourceQuota(cluster),
        )
        self._plugins = tuple(plugin for plugin in plugins if type(plugin).__name__ not in disabled)
        self._plugins_by_resource: dict[
            str, tuple[tuple[AdmissionPlugin, ...], tuple[AdmissionPlugin, ...]]
        ] = {}

    def _plugins_for(
        self, bucket: str
    ) -> tuple[tuple[AdmissionPlugin, ...], tuple[AdmissionPlugin, ...]]:
        """Return the plugins that change a resource's objects, and those that check them."""
        plugins = self._plugins_by_resource.get(bucket)
        if plugins is None:
            bucket_plugins = [
                plugin
                for plugin in self._plugins
                if plugin.buckets is None or bucket in plugin.buckets
            ]
            plugins = self._plugins_by_resource[bucket] = (
                tuple(
                    plugin
                    for plugin in bucket_plugins
                    if type(plugin).admit is not AdmissionPlugin.admit
                ),
                tuple(
                    plugin
                    for plugin in bucket_plugins
                    if type(plugin).validate is not AdmissionPlugin.validate
                ),
            )
        return plugins

    def has_policies(self) -> bool:
        """Return whether writes evaluate expressions of policies, which may take long."""
        return self._policies.is_used or self._mutating_policies.is_used

    def admit(self, attributes: Attributes) -> None:
        """Let the plugins change an object before its validation.

        All are called a second time if a policy or webhook changed the object.

        Raises:
            StatusError: a plugin denies it.
        """
        plugins, _ = self._plugins_for(attributes.kind.bucket)
        for plugin in plugins:
            plugin.admit(attributes)
        again = attributes.reinvocation
        if again.due:
            again.active = True
            for plugin in plugins:
                plugin.admit(attributes)

    def validate(self, attributes: Attributes) -> None:
        """Let the plugins deny a valid object.

        Raises:
            StatusError: a plugin denies it.
        """
        _, plugins = self._plugins_for(attributes.kind.bucket)
        for plugin in plugins:
            plugin.validate(attributes)

    def admit_subresource(self, attributes: Attributes) -> None:
        """Let policies and webhooks change the body of a subresource.

        Raises:
            StatusError: the request is denied.
        """
        self._lifecycle.admit(attributes)
        for plugin in (self._mutating_policies, self._mutating):
            plugin.admit(attributes)
        if attributes.reinvocation.due:
            attributes.reinvocation.active = True
            for plugin in (self._mutating_policies, self._mutating):
                plugin.admit(attributes)

    def validate_subresource(self, attributes: Attributes) -> None:
        """Let policies and webhooks deny the body of a subresource.

        Raises:
            StatusError: the request is denied.
        """
        self._policies.validate(attributes)
        self._validating.validate(attributes)
