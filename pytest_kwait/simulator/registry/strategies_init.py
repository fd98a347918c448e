"""What kinds do beyond what all kinds do, by resource.

What may enter: one module per kind or family of kinds with its preparation, defaults and rules.
A strategy sees objects, never requests; what needs other objects is admission.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pytest_kwait.simulator.registry.strategy import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["Strategy", "strategy_of"]

# By resource: the module in this folder and the class in it, imported when first needed.
_STRATEGIES = {
    "apiservices.apiregistration.k8s.io": ("certificates", "ApiServiceStrategy"),
    "certificatesigningrequests.certificates.k8s.io": ("certificates", "RequestStrategy"),
    "clusterrolebindings.rbac.authorization.k8s.io": ("access", "ClusterBindingStrategy"),
    "clusterroles.rbac.authorization.k8s.io": ("access", "ClusterRoleStrategy"),
    "configmaps": ("records", "ConfigMapStrategy"),
    "cronjobs.batch": ("jobs", "CronJobStrategy"),
    "csidrivers.storage.k8s.io": ("storage", "CsiDriverStrategy"),
    "csinodes.storage.k8s.io": ("storage", "CsiNodeStrategy"),
    "csistoragecapacities.storage.k8s.io": ("ranges", "CapacityStrategy"),
    "customresourcedefinitions.apiextensions.k8s.io": ("definitions", "DefinitionStrategy"),
    "daemonsets.apps": ("workloads", "DaemonSetStrategy"),
    "deployments.apps": ("workloads", "DeploymentStrategy"),
    "endpoints": ("endpoints", "EndpointsStrategy"),
    "endpointslices.discovery.k8s.io": ("endpoints", "EndpointSliceStrategy"),
    "events": ("records", "EventStrategy"),
    "horizontalpodautoscalers.autoscaling": ("budgets", "AutoscalerStrategy"),
    "ingressclasses.networking.k8s.io": ("networks", "IngressClassStrategy"),
    "ingresses.networking.k8s.io": ("networks", "IngressStrategy"),
    "ipaddresses.networking.k8s.io": ("ranges", "AddressStrategy"),
    "jobs.batch": ("jobs", "JobStrategy"),
    "leases.coordination.k8s.io": ("records", "LeaseStrategy"),
    "limitranges": ("limit_ranges", "LimitRangeStrategy"),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": (
        "mutating_policies",
        "MutatingPolicyStrategy",
    ),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": (
        "mutating_policies",
        "MutatingBindingStrategy",
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": ("webhooks", "WebhookStrategy"),
    "namespaces": ("namespaces", "NamespaceStrategy"),
    "networkpolicies.networking.k8s.io": ("networks", "NetworkPolicyStrategy"),
    "nodes": ("nodes", "NodeStrategy"),
    "persistentvolumeclaims": ("volumes", "ClaimStrategy"),
    "persistentvolumes": ("volumes", "VolumeStrategy"),
    "poddisruptionbudgets.policy": ("budgets", "BudgetStrategy"),
    "pods": ("pods", "PodStrategy"),
    "podtemplates": ("workloads", "TemplateStrategy"),
    "priorityclasses.scheduling.k8s.io": ("priority_classes", "PriorityClassStrategy"),
    "replicasets.apps": ("workloads", "ReplicaSetStrategy"),
    "replicationcontrollers": ("workloads", "ControllerStrategy"),
    "resourcequotas": ("quotas", "QuotaStrategy"),
    "rolebindings.rbac.authorization.k8s.io": ("access", "BindingStrategy"),
    "roles.rbac.authorization.k8s.io": ("access", "RoleStrategy"),
    "runtimeclasses.node.k8s.io": ("runtimes", "RuntimeClassStrategy"),
    "secrets": ("records", "SecretStrategy"),
    "serviceaccounts": ("records", "AccountStrategy"),
    "servicecidrs.networking.k8s.io": ("ranges", "RangeStrategy"),
    "services": ("services", "ServiceStrategy"),
    "statefulsets.apps": ("workloads", "StatefulSetStrategy"),
    "storageclasses.storage.k8s.io": ("storage", "StorageClassStrategy"),
    "validatingadmissionpolicies.admissionregistration.k8s.io": ("policies", "PolicyStrategy"),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": (
        "policies",
        "PolicyBindingStrategy",
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": ("webhooks", "WebhookStrategy"),
    "volumeattachments.storage.k8s.io": ("storage", "AttachmentStrategy"),
    "volumeattributesclasses.storage.k8s.io": ("ranges", "AttributeStrategy"),
}


def strategy_of(kind: Kind) -> Strategy:
    """The strategy of `kind`; the generic one where it has none of its own."""
    module, name = _STRATEGIES.get(kind.bucket, ("generic", "Strategy"))
    if kind.custom:
        module, name = "custom_kinds", "CustomStrategy"
    found: type[Strategy] = getattr(import_module(f"{__name__}.{module}"), name)
    return found(kind)
