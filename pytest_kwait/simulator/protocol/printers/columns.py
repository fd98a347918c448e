"""The columns of each kind in tables, and the cells of an object.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go; k8s.io/apiextensions-apiserver
pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.json_path import JsonPath
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.protocol.printers import cluster_cells, workload_cells
from pytest_kwait.simulator.protocol.printers.workload_cells import (
    age_cell,
    autoscaler_cells,
    elapsed_text,
    pod_cells,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.simulator.objects import Obj

_TYPE_SIGNS = {"#": "integer", "?": "boolean", "@": "date"}

_TEMPLATE_HEADS = "|+Containers|+Images"

_REPLICA_HEADS = "Name|#Desired|#Current|#Ready|Age" + _TEMPLATE_HEADS + "|+Selector"


@dataclass(frozen=True)
class Columns:
    """The column definitions of a table and the cells of an object."""

    definitions: list[Obj]
    cells: Callable[[Obj], list[Any]]


def column_definition(
    name: str, kind: str = "string", priority: int = 0, form: str = "", description: str = ""
) -> Obj:
    """Return a column definition; wide output alone shows priorities above 0."""
    return {
        "name": name,
        "type": kind,
        "format": form,
        "description": description,
        "priority": priority,
    }


def _parse_columns(
    cells: Callable[[Obj], list[Any]], heads: str, *, name_form: str = "name"
) -> Columns:
    """Parse column definitions, separated by bars.

    A sign before a name: its type, `+` for wide output only, `=` for names.
    """
    definitions = []
    for head in heads.split("|"):
        name = head.lstrip("+=#?@")
        form = name_form if name == "Name" or head[0] == "=" else ""
        definitions.append(
            column_definition(name, _TYPE_SIGNS.get(head[0], "string"), int(head[0] == "+"), form)
        )
    return Columns(definitions, cells)


GENERIC_COLUMNS = _parse_columns(
    lambda obj: [name_of(obj), obj["metadata"].get("creationTimestamp")], "Name|@Created At"
)

_ROLE_BINDING_COLUMNS = _parse_columns(
    cluster_cells.role_binding_cells, "Name|Role|Age|+Users|+Groups|+ServiceAccounts"
)
_WEBHOOK_COLUMNS = _parse_columns(cluster_cells.webhook_configuration_cells, "Name|#Webhooks|Age")
_POLICY_BINDING_COLUMNS = _parse_columns(
    cluster_cells.policy_binding_cells, "Name|PolicyName|ParamRef|Age"
)
_NAME_AND_AGE_COLUMNS = _parse_columns(cluster_cells.name_and_age_cells, "Name|Age")

_CORE_COLUMNS = {
    "componentstatuses": _parse_columns(
        cluster_cells.component_status_cells, "Name|Status|Message|Error"
    ),
    "configmaps": _parse_columns(cluster_cells.config_map_cells, "Name|Data|Age"),
    "endpoints": _parse_columns(cluster_cells.endpoints_cells, "Name|Endpoints|Age"),
    "events": _parse_columns(
        cluster_cells.event_cells,
        "Last Seen|Type|Reason|Object|+Subobject|+Source|Message|+First Seen|+Count|+Name",
    ),
    "namespaces": _parse_columns(cluster_cells.namespace_cells, "Name|Status|Age"),
    "nodes": _parse_columns(
        cluster_cells.node_cells,
        "Name|Status|Roles|Age|Version|+Internal-IP|+External-IP|+OS-Image|+Kernel-Version|"
        "+Container-Runtime",
    ),
    "persistentvolumeclaims": _parse_columns(
        cluster_cells.claim_cells,
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|"
        "+VolumeMode",
    ),
    "persistentvolumes": _parse_columns(
        cluster_cells.volume_cells,
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|"
        "VolumeAttributesClass|Reason|Age|+VolumeMode",
    ),
    "pods": _parse_columns(
        pod_cells,
        "Name|Ready|Status|Restarts|Age|+IP|+Node|+Nominated Node|+Readiness Gates",
    ),
    "podtemplates": _parse_columns(
        workload_cells.pod_template_cells, "Name|Containers|Images|Pod Labels"
    ),
    "replicationcontrollers": _parse_columns(workload_cells.controller_cells, _REPLICA_HEADS),
    "resourcequotas": _parse_columns(cluster_cells.quota_cells, "Name|Request|Limit|Age"),
    "secrets": _parse_columns(cluster_cells.secret_cells, "Name|Type|Data|Age"),
    "serviceaccounts": _parse_columns(cluster_cells.service_account_cells, "Name|Age"),
    "services": _parse_columns(
        cluster_cells.service_cells, "Name|Type|Cluster-IP|External-IP|Port(s)|Age|+Selector"
    ),
}

_COLUMNS_BY_GROUP = {
    "admissionregistration.k8s.io": {
        "mutatingadmissionpolicies": _parse_columns(
            cluster_cells.policy_cells, "Name|#Mutations|ParamKind|Age"
        ),
        "mutatingadmissionpolicybindings": _POLICY_BINDING_COLUMNS,
        "mutatingwebhookconfigurations": _WEBHOOK_COLUMNS,
        "validatingadmissionpolicies": _parse_columns(
            cluster_cells.policy_cells, "Name|#Validations|ParamKind|Age"
        ),
        "validatingadmissionpolicybindings": _POLICY_BINDING_COLUMNS,
        "validatingwebhookconfigurations": _WEBHOOK_COLUMNS,
    },
    "apiregistration.k8s.io": {
        "apiservices": _parse_columns(
            cluster_cells.api_service_cells, "Name|Service|Available|Age"
        ),
    },
    "apps": {
        "controllerrevisions": _parse_columns(
            cluster_cells.revision_cells, "Name|Controller|Revision|Age"
        ),
        "daemonsets": _parse_columns(
            workload_cells.daemon_set_cells,
            "Name|#Desired|#Current|#Ready|#Up-to-date|#Available|Node Selector|Age"
            + _TEMPLATE_HEADS
            + "|+Selector",
        ),
        "deployments": _parse_columns(
            workload_cells.deployment_cells,
            "Name|Ready|Up-to-date|Available|Age" + _TEMPLATE_HEADS + "|+Selector",
        ),
        "replicasets": _parse_columns(workload_cells.replica_set_cells, _REPLICA_HEADS),
        "statefulsets": _parse_columns(
            workload_cells.stateful_set_cells, "Name|Ready|Age" + _TEMPLATE_HEADS
        ),
    },
    "autoscaling": {
        "scales": _parse_columns(
            workload_cells.scale_cells, "Name|#Desired|#Available|Age", name_form=""
        ),
        "horizontalpodautoscalers": _parse_columns(
            autoscaler_cells, "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age"
        ),
    },
    "batch": {
        "cronjobs": _parse_columns(
            workload_cells.cron_job_cells,
            "Name|Schedule|Timezone|?Suspend|#Active|Last Schedule|Age"
            + _TEMPLATE_HEADS
            + "|+Selector",
        ),
        "jobs": _parse_columns(
            workload_cells.job_cells,
            "Name|Status|Completions|Duration|Age" + _TEMPLATE_HEADS + "|+Selector",
        ),
    },
    "certificates.k8s.io": {
        "certificatesigningrequests": _parse_columns(
            cluster_cells.certificate_signing_request_cells,
            "Name|Age|SignerName|Requestor|RequestedDuration|Condition",
        ),
    },
    "coordination.k8s.io": {
        "leases": _parse_columns(cluster_cells.lease_cells, "Name|Holder|Age"),
    },
    "discovery.k8s.io": {
        "endpointslices": _parse_columns(
            cluster_cells.endpoint_slice_cells, "Name|AddressType|Ports|Endpoints|Age"
        ),
    },
    "flowcontrol.apiserver.k8s.io": {
        "flowschemas": _parse_columns(
            cluster_cells.flow_schema_cells,
            "Name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL",
        ),
        "prioritylevelconfigurations": _parse_columns(
            cluster_cells.priority_level_cells,
            "Name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age",
        ),
    },
    "networking.k8s.io": {
        "ingressclasses": _parse_columns(
            cluster_cells.ingress_class_cells, "Name|Controller|Parameters|Age"
        ),
        "ingresses": _parse_columns(
            cluster_cells.ingress_cells, "Name|Class|Hosts|Address|Ports|Age"
        ),
        "ipaddresses": _parse_columns(cluster_cells.ip_address_cells, "Name|ParentRef"),
        "networkpolicies": _parse_columns(
            cluster_cells.network_policy_cells, "Name|Pod-Selector|Age"
        ),
        "servicecidrs": _parse_columns(cluster_cells.service_range_cells, "Name|CIDRs|Age"),
    },
    "node.k8s.io": {
        "runtimeclasses": _parse_columns(cluster_cells.runtime_class_cells, "Name|Handler|Age"),
    },
    "policy": {
        "poddisruptionbudgets": _parse_columns(
            cluster_cells.budget_cells,
            "Name|Min Available|Max Unavailable|#Allowed Disruptions|Age",
        ),
    },
    "rbac.authorization.k8s.io": {
        "clusterrolebindings": _ROLE_BINDING_COLUMNS,
        "rolebindings": _ROLE_BINDING_COLUMNS,
    },
    "resource.k8s.io": {
        "deviceclasses": _NAME_AND_AGE_COLUMNS,
        "resourceclaims": _parse_columns(cluster_cells.device_claim_cells, "Name|State|Age"),
        "resourceclaimtemplates": _NAME_AND_AGE_COLUMNS,
        "resourceslices": _parse_columns(
            cluster_cells.device_slice_cells, "Name|Node|Driver|Pool|Age"
        ),
    },
    "scheduling.k8s.io": {
        "priorityclasses": _parse_columns(
            cluster_cells.priority_class_cells,
            "Name|#Value|?Global-Default|Age|PreemptionPolicy",
        ),
    },
    "storage.k8s.io": {
        "csidrivers": _parse_columns(
            cluster_cells.driver_cells,
            "Name|?AttachRequired|?PodInfoOnMount|?StorageCapacity|TokenRequests|"
            "?RequiresRepublish|Modes|Age",
        ),
        "csinodes": _parse_columns(cluster_cells.driver_node_cells, "Name|#Drivers|Age"),
        "storageclasses": _parse_columns(
            cluster_cells.storage_class_cells,
            "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
        ),
        "volumeattachments": _parse_columns(
            cluster_cells.volume_attachment_cells, "Name|=Attacher|PV|Node|?Attached|Age"
        ),
        "volumeattributesclasses": _parse_columns(
            cluster_cells.attributes_class_cells, "Name|DriverName|Age"
        ),
    },
}

BUILT_IN_COLUMNS: dict[str, Columns] = {
    **_CORE_COLUMNS,
    **{
        f"{plural}.{group}": columns
        for group, kinds in _COLUMNS_BY_GROUP.items()
        for plural, columns in kinds.items()
    },
}
"""The columns of built-in kinds, by qualified resource."""


@cache
def _json_path(text: str) -> JsonPath | None:
    try:
        return JsonPath(text)
    except InvalidArgument:
        return None


def custom_resource_columns(printed: Sequence[Obj]) -> Columns:
    """Return the name column, then those of a definition or else the age.

    Args:
        printed: the `additionalPrinterColumns` of a version.
    """
    if not printed:
        return Columns(
            [column_definition("Name", form="name"), column_definition("Age", "date")],
            lambda obj: [obj["metadata"]["name"], age_cell(obj)],
        )
    heads = [column_definition("Name", form="name")]
    heads += [
        column_definition(
            column["name"],
            column["type"],
            column.get("priority", 0),
            column.get("format", ""),
            column.get("description", ""),
        )
        for column in printed
    ]

    def cells(obj: Obj) -> list[Any]:
        return [obj["metadata"]["name"], *(_custom_cell(obj, column) for column in printed)]

    return Columns(heads, cells)


def _custom_cell(obj: Obj, column: Obj) -> Any:
    path = _json_path(column["jsonPath"])
    values = path.find(obj) if path is not None else []
    if not values:
        return None
    value = values[0]
    if column["type"] == "date" and isinstance(value, str):
        return elapsed_text(value)
    if column["type"] == "integer" and isinstance(value, int):
        return value
    if column["type"] == "number" and isinstance(value, int | float):
        return value
    if column["type"] == "boolean" and isinstance(value, bool):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if column["type"] != "string" or value is None:
        return None
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return str(value)
