"""What kinds do beyond what all kinds do, by resource.

What may enter: one module per kind or family of kinds with its preparation, defaults and rules.
A strategy sees objects, never requests; what needs other objects is admission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.strategies.access import (
    BindingStrategy,
    ClusterBindingStrategy,
    ClusterRoleStrategy,
    RoleStrategy,
)
from pytest_kwait.simulator.strategies.definitions import DefinitionStrategy
from pytest_kwait.simulator.strategies.generic import Strategy
from pytest_kwait.simulator.strategies.jobs import CronJobStrategy, JobStrategy
from pytest_kwait.simulator.strategies.limit_ranges import LimitRangeStrategy
from pytest_kwait.simulator.strategies.namespaces import NamespaceStrategy
from pytest_kwait.simulator.strategies.networks import (
    EndpointSliceStrategy,
    NetworkPolicyStrategy,
)
from pytest_kwait.simulator.strategies.nodes import NodeStrategy
from pytest_kwait.simulator.strategies.pods import PodStrategy
from pytest_kwait.simulator.strategies.priority_classes import PriorityClassStrategy
from pytest_kwait.simulator.strategies.quotas import QuotaStrategy
from pytest_kwait.simulator.strategies.records import (
    ConfigMapStrategy,
    EventStrategy,
    LeaseStrategy,
    SecretStrategy,
)
from pytest_kwait.simulator.strategies.services import ServiceStrategy
from pytest_kwait.simulator.strategies.volumes import ClaimStrategy, VolumeStrategy
from pytest_kwait.simulator.strategies.webhooks import WebhookStrategy
from pytest_kwait.simulator.strategies.workloads import (
    ControllerStrategy,
    DaemonSetStrategy,
    DeploymentStrategy,
    ReplicaSetStrategy,
    StatefulSetStrategy,
    TemplateStrategy,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.registry import Kind

__all__ = ["Strategy", "strategy_of"]

_STRATEGIES: dict[str, type[Strategy]] = {
    "clusterrolebindings.rbac.authorization.k8s.io": ClusterBindingStrategy,
    "clusterroles.rbac.authorization.k8s.io": ClusterRoleStrategy,
    "configmaps": ConfigMapStrategy,
    "cronjobs.batch": CronJobStrategy,
    "customresourcedefinitions.apiextensions.k8s.io": DefinitionStrategy,
    "daemonsets.apps": DaemonSetStrategy,
    "deployments.apps": DeploymentStrategy,
    "endpointslices.discovery.k8s.io": EndpointSliceStrategy,
    "events": EventStrategy,
    "jobs.batch": JobStrategy,
    "leases.coordination.k8s.io": LeaseStrategy,
    "limitranges": LimitRangeStrategy,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": WebhookStrategy,
    "namespaces": NamespaceStrategy,
    "networkpolicies.networking.k8s.io": NetworkPolicyStrategy,
    "nodes": NodeStrategy,
    "persistentvolumeclaims": ClaimStrategy,
    "persistentvolumes": VolumeStrategy,
    "pods": PodStrategy,
    "podtemplates": TemplateStrategy,
    "priorityclasses.scheduling.k8s.io": PriorityClassStrategy,
    "replicasets.apps": ReplicaSetStrategy,
    "replicationcontrollers": ControllerStrategy,
    "resourcequotas": QuotaStrategy,
    "rolebindings.rbac.authorization.k8s.io": BindingStrategy,
    "roles.rbac.authorization.k8s.io": RoleStrategy,
    "secrets": SecretStrategy,
    "services": ServiceStrategy,
    "statefulsets.apps": StatefulSetStrategy,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": WebhookStrategy,
}


def strategy_of(kind: Kind) -> Strategy:
    """The strategy of `kind`; the generic one where it has none of its own."""
    return _STRATEGIES.get(kind.bucket, Strategy)(kind)
