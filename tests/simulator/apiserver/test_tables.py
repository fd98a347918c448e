from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.apiserver.tables import to_table
from pytest_kwait.simulator.protocol.printers.columns import BUILT_IN_COLUMNS
from pytest_kwait.simulator.scheme import Scheme
from tests.rows import check_rows

if TYPE_CHECKING:
    from tests.simulator.apiserver.conftest import Served

KINDS = Scheme()
META = {"name": "x", "creationTimestamp": None}


def cells(resource: str, **obj: Any) -> dict[str, Any]:
    """Return the cells of an object by column."""
    shown = to_table(KINDS[resource], [{"metadata": META, **obj}], {}, {"includeObject": "None"})
    heads = [head["name"] for head in shown["columnDefinitions"]]
    return dict(zip(heads, shown["rows"][0]["cells"], strict=False))


def test_every_kind_prints_an_empty_object() -> None:
    check_rows(sorted({*BUILT_IN_COLUMNS} - {"scales.autoscaling"}), _check_cells)


def _check_cells(resource: str) -> None:
    shown = to_table(
        KINDS[resource], [{"metadata": META, "spec": {}}], {}, {"includeObject": "None"}
    )
    assert len(shown["rows"][0]["cells"]) >= len(shown["columnDefinitions"])


@pytest.mark.parametrize(
    ("metric", "measured", "shown"),
    [
        (
            {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 70}}},
            {"resource": {"current": {"averageUtilization": 33}}},
            "cpu: 33%/70%",
        ),
        (
            {"type": "Resource", "resource": {"name": "cpu", "target": {}}},
            {},
            "cpu: <unknown>/<auto>",
        ),
        (
            {"type": "Pods", "pods": {"target": {"averageValue": "5"}}},
            {"pods": {"current": {"averageValue": "3"}}},
            "3/5",
        ),
        (
            {"type": "External", "external": {"target": {"averageValue": "5"}}},
            {"external": {"current": {"averageValue": "3"}}},
            "3/5 (avg)",
        ),
        (
            {"type": "Object", "object": {"target": {"value": "5"}}},
            {"object": {"current": {"value": "3"}}},
            "3/5",
        ),
        ({"type": "New"}, {}, "<unknown type>"),
    ],
)
def test_autoscaler_row_shows_metrics(
    metric: dict[str, Any], measured: dict[str, Any], shown: str
) -> None:
    found = cells(
        "horizontalpodautoscalers.autoscaling",
        spec={"metrics": [metric]},
        status={"currentMetrics": [measured]},
    )
    assert found["Targets"] == shown


def test_autoscaler_row_counts_further_metrics() -> None:
    metrics = [{"type": "New"}] * 4
    found = cells("horizontalpodautoscalers.autoscaling", spec={"metrics": metrics})
    assert found["Targets"] == "<unknown type>, <unknown type> + 2 more..."


def test_claim_row_shows_its_volume() -> None:
    spec = {"volumeName": "v", "storageClassName": "s", "accessModes": ["ReadWriteMany"]}
    status = {
        "phase": "Bound",
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
    }
    found = cells("persistentvolumeclaims", spec=spec, status=status)
    assert found["Capacity"] == "2Gi"
    assert found["Access Modes"] == "RWO,RWX"
    assert found["Status"] == "Bound"
    waiting = cells("persistentvolumeclaims", spec={}, status={"phase": "Pending"})
    assert (waiting["Capacity"], waiting["Access Modes"]) == ("", "")


def test_endpoints_row_counts_addresses_beyond_three() -> None:
    addresses = [{"ip": f"10.0.0.{number}"} for number in range(1, 4)]
    subsets = [{"addresses": addresses, "ports": [{"port": 1}, {"port": 2}]}]
    assert cells("endpoints", subsets=subsets)["Endpoints"] == (
        "10.0.0.1:1,10.0.0.2:1,10.0.0.3:1 + 3 more..."
    )
    assert cells("endpoints")["Endpoints"] == "<none>"


def test_service_row_shows_load_balancer_addresses() -> None:
    status = {"loadBalancer": {"ingress": [{"ip": "9.9.9.9"}, {"hostname": "b.example"}]}}
    spec = {"type": "LoadBalancer", "externalIPs": ["1.1.1.1"]}
    assert cells("services", spec=spec, status=status)["External-IP"] == (
        "9.9.9.9,b.example,1.1.1.1"
    )
    assert cells("services", spec={"type": "LoadBalancer"})["External-IP"] == "<pending>"


def test_quota_row_separates_requests_and_limits() -> None:
    status = {
        "hard": {"pods": "3", "limits.cpu": "2", "configmaps": "5"},
        "used": {"pods": "1", "limits.cpu": "500m"},
    }
    found = cells("resourcequotas", status=status)
    assert found["Request"] == "configmaps: 0/5, pods: 1/3"
    assert found["Limit"] == "limits.cpu: 500m/2"


@pytest.mark.parametrize(
    ("conditions", "certificate", "shown"),
    [
        ([], "", "Pending"),
        (["Approved"], "x", "Approved,Issued"),
        (["Approved", "Denied", "Failed"], "", "Denied,Failed"),
    ],
)
def test_certificate_request_row_shows_its_condition(
    conditions: list[str], certificate: str, shown: str
) -> None:
    status = {"conditions": [{"type": one} for one in conditions], "certificate": certificate}
    found = cells("certificatesigningrequests.certificates.k8s.io", status=status)
    assert found["Condition"] == shown


def test_job_row_shows_terminating_before_suspended() -> None:
    suspended = {"conditions": [{"type": "Suspended", "status": "True"}]}
    meta = {**META, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    shown = to_table(
        KINDS["jobs.batch"], [{"metadata": meta, "spec": {}, "status": suspended}], {}, {}
    )
    assert shown["rows"][0]["cells"][1] == "Terminating"


def test_scale_is_served_as_table_and_metadata(served: Served) -> None:
    meta = {"labels": {"a": "b"}}
    pods = {"containers": [{"name": "c", "image": "x"}]}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": meta, "spec": pods},
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    served.json("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    form = "application/json;as={};v=v1;g=meta.k8s.io"
    shown = served.json("GET", f"{path}/d/scale", Accept=form.format("Table"))
    heads = [head["name"] for head in shown["columnDefinitions"]]
    assert heads == ["Name", "Desired", "Available", "Age"]
    assert shown["rows"][0]["cells"][:3] == ["d", 2, 0]
    partial = served.json("GET", f"{path}/d/scale", Accept=form.format("PartialObjectMetadata"))
    assert partial["kind"] == "PartialObjectMetadata"
    assert served.send("GET", f"{path}/d/scale", Accept="text/html").status == 406
