"""The admission chain: all plugins in upstream's order.

Source: k8s.io/kubernetes pkg/kubeapiserver/options/plugins.go, `AllOrderedPlugins`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.certificate_approval import CertificateApproval
from pytest_kwait.simulator.admission.limit_ranger import LimitRanger
from pytest_kwait.simulator.admission.namespace_lifecycle import NamespaceLifecycle
from pytest_kwait.simulator.admission.pod_resize import PodResize
from pytest_kwait.simulator.admission.pod_security import PodSecurity
from pytest_kwait.simulator.admission.policies import (
    MutatingAdmissionPolicy,
    ValidatingAdmissionPolicy,
)
from pytest_kwait.simulator.admission.priority import Priority
from pytest_kwait.simulator.admission.resource_quota import ResourceQuota
from pytest_kwait.simulator.admission.runtime_class import RuntimeClass
from pytest_kwait.simulator.admission.service_account import ServiceAccount
from pytest_kwait.simulator.admission.taints import DefaultTolerationSeconds, TaintNodesByCondition
from pytest_kwait.simulator.admission.volume_claims import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
)
from pytest_kwait.simulator.admission.webhooks.dispatcher import (
    MutatingAdmissionWebhook,
    ValidatingAdmissionWebhook,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

__all__ = ["AdmissionChain", "Attributes"]


class AdmissionChain:
    """The admission plugins of one cluster."""

    def __init__(self, api: Cluster) -> None:
        self._lifecycle = NamespaceLifecycle(api)
        self._mutating, self._validating = (
            MutatingAdmissionWebhook(api),
            ValidatingAdmissionWebhook(api),
        )
        self._mutating_policies, self._policies = (
            MutatingAdmissionPolicy(api),
            ValidatingAdmissionPolicy(api),
        )
        self._plugins: tuple[AdmissionPlugin, ...] = (
            self._lifecycle,
            LimitRanger(api),
            ServiceAccount(api),
            TaintNodesByCondition(),
            PodSecurity(api),
            Priority(api),
            DefaultTolerationSeconds(),
            DefaultStorageClass(api),
            PersistentVolumeClaimResize(api),
            RuntimeClass(api),
            CertificateApproval(api),
            PodResize(api),
            self._mutating_policies,
            self._mutating,
            self._policies,
            self._validating,
            ResourceQuota(api),
        )
        self._plugins_by_resource: dict[
            str, tuple[tuple[AdmissionPlugin, ...], tuple[AdmissionPlugin, ...]]
        ] = {}

    def _plugins_for(
        self, bucket: str
    ) -> tuple[tuple[AdmissionPlugin, ...], tuple[AdmissionPlugin, ...]]:
        """Return the plugins that change a resource's objects, and those that check them."""
        found = self._plugins_by_resource.get(bucket)
        if found is None:
            mine = [one for one in self._plugins if one.buckets is None or bucket in one.buckets]
            found = self._plugins_by_resource[bucket] = (
                tuple(one for one in mine if type(one).admit is not AdmissionPlugin.admit),
                tuple(one for one in mine if type(one).validate is not AdmissionPlugin.validate),
            )
        return found

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
