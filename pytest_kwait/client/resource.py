"""Resources: names, group, version and paths of kinds, with the built-in ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

STANDARD_VERBS = frozenset(
    {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
)
BUILT_IN_GROUPS = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)
"""Groups with a dot in their names whose resources have no definition.

Source: pkg/controlplane/instance.go, `RESTStorageProviders`.
"""

_resources: dict[str, Resource] = {}

_STATUS = ("status",)
_SCALED = ("scale", "status")

BUILT_IN: Mapping[str, Resource] = MappingProxyType(_resources)
"""Resources of every supported server by qualified name, in kubectl's order of preference."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object of a server.

    Args:
        group: the API group; empty for the core group.
        version: the version within the group, for example `v1`.
        plural: the name in the URL, for example `pods`.
        kind: the name in the object, for example `Pod`.
        namespaced: whether objects live in a namespace.
        singular: the lower-case singular name; may be empty.
        short_names: abbreviations, for example `po`.
        verbs: the supported verbs.
        subresources: the subresources, for example `status`.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    verbs: frozenset[str] = field(default=STANDARD_VERBS, repr=False)
    subresources: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects: `v1` or `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The plural with its group, as in kubectl: `pods` or `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
    ) -> str:
        """Return the URL path of a collection, an object or a subresource.

        Args:
            namespace: the namespace; None for all. Ignored for cluster-scoped kinds.
            name: the object's name; None for the collection.
            subresource: for example `status` or `proxy/pods`.

        Raises:
            InvalidArgument: an invalid name, a missing namespace, or a subresource without a name.
        """
        parts = ["/apis" if self.group else "/api", self.group, self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", _segment("namespace", namespace)]
        elif self.namespaced and name is not None:
            raise InvalidArgument(
                "namespace", namespace, f"{self.kind} {name} lives in a namespace, name it"
            )
        parts.append(self.plural)
        if name is not None:
            parts.append(_segment("name", name))
        if subresource is not None:
            if name is None:
                raise InvalidArgument("name", name, f"{subresource} is a part of one named object")
            parts += [_segment("subresource", part) for part in subresource.split("/")]
        return "/".join(part for part in parts if part)


def _segment(what: str, value: str) -> str:
    # An empty name would address the collection, "..", "/" and "%" another object.
    # Source: Kubernetes apimachinery/pkg/api/validation/path/name.go, IsValidPathSegmentName.
    if not value or value in {".", ".."} or "/" in value or "%" in value:
        raise InvalidArgument(what, value, "a name that is not empty, . or .., without / and %")
    return quote(value, safe=":")


def split_api_version(api_version: str) -> tuple[str, str]:
    """Split an `apiVersion` into group and version; the group of `v1` is empty."""
    group, _, version = api_version.rpartition("/")
    return group, version


def _built_in(
    api_version: str,
    plural: str,
    kind: str,
    *short_names: str,
    namespaced: bool = True,
    subresources: tuple[str, ...] = (),
) -> Resource:
    group, version = split_api_version(api_version)
    resource = Resource(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        singular=kind.lower(),
        short_names=short_names,
        subresources=frozenset(subresources),
    )
    return _resources.setdefault(resource.qualified, resource)


PODS = _built_in(
    "v1",
    "pods",
    "Pod",
    "po",
    subresources=(
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "log",
        "portforward",
        "proxy",
        "resize",
        "status",
    ),
)
NODES = _built_in("v1", "nodes", "Node", "no", namespaced=False, subresources=("proxy", "status"))
NAMESPACES = _built_in(
    "v1", "namespaces", "Namespace", "ns", namespaced=False, subresources=("finalize", "status")
)
SERVICE_ACCOUNTS = _built_in(
    "v1", "serviceaccounts", "ServiceAccount", "sa", subresources=("token",)
)
CONFIG_MAPS = _built_in("v1", "configmaps", "ConfigMap", "cm")
SECRETS = _built_in("v1", "secrets", "Secret")
SERVICES = _built_in("v1", "services", "Service", "svc", subresources=("proxy", "status"))
ENDPOINTS = _built_in("v1", "endpoints", "Endpoints", "ep")
EVENTS = _built_in("v1", "events", "Event", "ev")
LIMIT_RANGES = _built_in("v1", "limitranges", "LimitRange", "limits")
RESOURCE_QUOTAS = _built_in("v1", "resourcequotas", "ResourceQuota", "quota", subresources=_STATUS)
REPLICATION_CONTROLLERS = _built_in(
    "v1", "replicationcontrollers", "ReplicationController", "rc", subresources=_SCALED
)
PERSISTENT_VOLUMES = _built_in(
    "v1", "persistentvolumes", "PersistentVolume", "pv", namespaced=False, subresources=_STATUS
)
PERSISTENT_VOLUME_CLAIMS = _built_in(
    "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", subresources=_STATUS
)
REPLICA_SETS = _built_in("apps/v1", "replicasets", "ReplicaSet", "rs", subresources=_SCALED)
DEPLOYMENTS = _built_in("apps/v1", "deployments", "Deployment", "deploy", subresources=_SCALED)
STATEFUL_SETS = _built_in("apps/v1", "statefulsets", "StatefulSet", "sts", subresources=_SCALED)
DAEMON_SETS = _built_in("apps/v1", "daemonsets", "DaemonSet", "ds", subresources=_STATUS)
CONTROLLER_REVISIONS = _built_in("apps/v1", "controllerrevisions", "ControllerRevision")
JOBS = _built_in("batch/v1", "jobs", "Job", subresources=_STATUS)
CRON_JOBS = _built_in("batch/v1", "cronjobs", "CronJob", "cj", subresources=_STATUS)
HORIZONTAL_POD_AUTOSCALERS = _built_in(
    "autoscaling/v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    "hpa",
    subresources=_STATUS,
)
POD_DISRUPTION_BUDGETS = _built_in(
    "policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", subresources=_STATUS
)
INGRESSES = _built_in("networking.k8s.io/v1", "ingresses", "Ingress", "ing", subresources=_STATUS)
NETWORK_POLICIES = _built_in("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "netpol")
LEASES = _built_in("coordination.k8s.io/v1", "leases", "Lease")
ENDPOINT_SLICES = _built_in("discovery.k8s.io/v1", "endpointslices", "EndpointSlice")
STORAGE_CLASSES = _built_in(
    "storage.k8s.io/v1", "storageclasses", "StorageClass", "sc", namespaced=False
)
VOLUME_ATTACHMENTS = _built_in(
    "storage.k8s.io/v1",
    "volumeattachments",
    "VolumeAttachment",
    namespaced=False,
    subresources=_STATUS,
)
PRIORITY_CLASSES = _built_in(
    "scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "pc", namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS = _built_in(
    "apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    "crd",
    "crds",
    namespaced=False,
    subresources=_STATUS,
)
