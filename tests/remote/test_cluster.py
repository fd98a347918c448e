from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import jwt
import pytest

from pytest_kwait.remote.cluster import rebase_status
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiserver.filters import ADMINS
from pytest_kwait.simulator.controllers.clusterrole_aggregation import (
    ClusterRoleAggregationController,
)
from pytest_kwait.simulator.controllers.garbage_collector import GarbageCollector
from pytest_kwait.simulator.controllers.namespace import TokensController
from pytest_kwait.simulator.faults import FaultSelector, RequestFault
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.request_info import AuthorizationAttributes, User, internal_caller
from tests.objects import definition, pod, served_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.remote.cluster import RemoteCluster
    from tests.simulator.apiserver.conftest import Served
    from tests.simulator.manual_clock import ManualClock

Obj = dict[str, Any]
_PATIENCE = 60.0
"""Seconds of real time after which a test that waits for the server gives up."""


def _stored(served: Served, resource: str, name: str, namespace: str = "default") -> Obj | None:
    found: Obj | None = served.run(lambda: served.api.find(resource, name, namespace))
    return found


def _change(served: Served, resource: str, name: str, change: Callable[[Obj], object]) -> None:
    """Change an object as another client, of which the mirror has not heard."""

    def edit(obj: Obj) -> None:
        change(obj)

    def write() -> None:
        status = "status" if resource == "pods" else None
        served.api.modify(resource, name, "default", edit, subresource=status)

    served.run(write)


def _relabel(served: Served, name: str) -> None:
    def write() -> None:
        served.api.modify(
            "pods", name, "default", lambda obj: obj["metadata"].update(labels={"other": "1"})
        )

    served.run(write)


def test_what_the_server_has_is_there(cluster_of_all_kinds: RemoteCluster) -> None:
    cluster = cluster_of_all_kinds
    assert cluster.find("serviceaccounts", "default", "default") is not None
    assert {one["metadata"]["name"] for one in cluster.list("namespaces")} >= {
        "default",
        "kube-system",
    }
    assert cluster.kinds.version["gitVersion"].startswith("v1.")


def test_writes_are_seen_at_once_and_by_the_server(cluster: RemoteCluster, served: Served) -> None:
    seen: list[str] = []
    cluster.subscribe(
        "pods", lambda change, new, _: seen.append(f"{change} {new['metadata']['name']}")
    )
    given = pod()
    copy = cluster.decode(cluster.kinds["pods"], given, internal_caller())
    assert copy == given
    assert copy is not given
    made = cluster.create("pods", copy, "default", decoded=True)
    assert cluster.get("pods", "p", "default") is made
    assert made == _stored(served, "pods", "p")
    changed = clone(made)
    changed["metadata"]["labels"] = {"a": "b"}
    assert cluster.update("pods", changed)["metadata"]["labels"] == {"a": "b"}
    assert cluster.update("pods", cluster.get("pods", "p", "default")) is cluster.get(
        "pods", "p", "default"
    )
    cluster.delete("pods", "p", "default", grace=0, uid=made["metadata"]["uid"])
    assert cluster.find("pods", "p", "default") is None
    assert _stored(served, "pods", "p") is None
    assert seen == ["ADDED p", "MODIFIED p", "DELETED p"]


def test_a_deletion_that_has_only_begun_is_a_change(cluster: RemoteCluster) -> None:
    held = {"metadata": {"name": "held", "finalizers": ["example.com/x"]}}
    cluster.create("configmaps", held, "default")
    cluster.delete("configmaps", "held", "default", propagation="Background")
    assert "deletionTimestamp" in cluster.get("configmaps", "held", "default")["metadata"]
    cluster.modify("configmaps", "held", "default", lambda obj: obj["metadata"].pop("finalizers"))
    assert cluster.find("configmaps", "held", "default") is None


def test_a_refused_write_is_an_error(cluster: RemoteCluster, served: Served) -> None:
    with pytest.raises(
        StatusError, match=r'Pod "p" is invalid: spec\.containers: Required'
    ) as caught:
        cluster.create("pods", {"metadata": {"name": "p"}, "spec": {}}, "default")
    assert caught.value.code == 422
    cluster.create("configmaps", {"metadata": {"name": "a"}}, "default")
    served.run(lambda: served.api.delete("configmaps", "a", "default"))
    with pytest.raises(StatusError, match='configmaps "a" not found'):
        cluster.modify("configmaps", "a", "default", lambda obj: obj.update(data={"x": "1"}))
    assert cluster.find("configmaps", "a", "default") is None


def test_an_edit_is_made_again_on_what_others_wrote(cluster: RemoteCluster, served: Served) -> None:
    cluster.create("configmaps", {"metadata": {"name": "a"}, "data": {"x": "1"}}, "default")
    _change(served, "configmaps", "a", lambda obj: obj["data"].update(y="1"))
    edited = cluster.modify("configmaps", "a", "default", lambda obj: obj["data"].update(z="1"))
    assert edited["data"] == {"x": "1", "y": "1", "z": "1"}
    same = cluster.modify("configmaps", "a", "default", lambda obj: obj["data"].update(z="1"))
    assert same is edited


def test_a_replacement_of_what_others_wrote_is_refused(
    cluster: RemoteCluster, served: Served
) -> None:
    made = cluster.create("configmaps", {"metadata": {"name": "a"}, "data": {"x": "1"}}, "default")
    _change(served, "configmaps", "a", lambda obj: obj["data"].update(y="1"))
    with pytest.raises(StatusError, match="the object has been modified") as caught:
        cluster.update("configmaps", {**made, "data": {"z": "1"}})
    assert caught.value.reason == "Conflict"
    cluster.find_live("configmaps", "a", "default")
    with pytest.raises(StatusError, match="the object has been modified"):
        cluster.update("configmaps", {**made, "data": {"z": "1"}})


def test_a_status_is_written_on_top_of_other_changes(
    cluster: RemoteCluster, served: Served
) -> None:
    made = cluster.create("pods", pod(), "default")
    _relabel(served, "p")
    stored = cluster.update_status("pods", {**made, "status": {"phase": "Running"}})
    assert stored["status"]["phase"] == "Running"
    assert stored["metadata"]["labels"] == {"other": "1"}
    again = cluster.update_status("pods", stored)
    assert again is stored


def test_a_status_is_written_with_annotations(cluster: RemoteCluster) -> None:
    made = clone(cluster.create("pods", pod(), "default"))
    made["metadata"]["annotations"] = {"revision": "1"}
    made["status"] = {"phase": "Running"}
    stored = cluster.update_status("pods", made)
    assert stored["metadata"]["annotations"] == {"revision": "1"}
    assert stored["status"]["phase"] == "Running"


def test_a_status_that_others_wrote_is_kept_or_refused(
    cluster: RemoteCluster, served: Served
) -> None:
    made = cluster.create("pods", pod(), "default")
    gate = {"type": "example.com/gate", "status": "True"}
    _change(served, "pods", "p", lambda obj: obj["status"].update(conditions=[gate]))
    with pytest.raises(StatusError, match="the object has been modified"):
        cluster.update_status("pods", {**made, "status": {"phase": "Running"}})
    _change(served, "pods", "p", lambda obj: obj["status"].update(message="other"))
    metadata = {key: value for key, value in made["metadata"].items() if key != "resourceVersion"}
    base = cluster.get("pods", "p", "default")["status"]
    ready = {"type": "Ready", "status": "True"}
    own = {**base, "phase": "Running", "conditions": [*base.get("conditions", ()), ready]}
    stored = cluster.update_status("pods", {**made, "metadata": metadata, "status": own})
    assert stored["status"]["phase"] == "Running"
    assert stored["status"]["message"] == "other"
    kinds = [one["type"] for one in stored["status"]["conditions"]]
    assert kinds == ["example.com/gate", "Ready"]


def test_rebased_status() -> None:
    base = {"phase": "Pending", "reason": "Old", "conditions": [{"type": "A"}, {"type": "B"}]}
    ours = {"phase": "Running", "conditions": [{"type": "A", "status": "True"}]}
    assert rebase_status(ours, base, base) == ours
    theirs = {**base, "hostIP": "1", "conditions": [{"type": "B"}, {"type": "C"}]}
    assert rebase_status(ours, base, theirs) == {
        "phase": "Running",
        "hostIP": "1",
        "conditions": [{"type": "C"}, {"type": "A", "status": "True"}],
    }
    assert rebase_status({}, {"conditions": [{"type": "A"}]}, {"conditions": []}) == {}


def test_a_bound_pod_is_on_its_node_at_once(cluster: RemoteCluster) -> None:
    cluster.create("nodes", {"metadata": {"name": "n"}})
    cluster.create("pods", pod(), "default")
    cluster.bind("default", "p", "n")
    assert cluster.get("pods", "p", "default")["spec"]["nodeName"] == "n"
    with pytest.raises(StatusError, match="already assigned to node"):
        cluster.bind("default", "p", "n")


def test_replicas_are_set_by_the_scale(cluster: RemoteCluster, served: Served) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("p")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    cluster.create("replicasets.apps", {"metadata": {"name": "r"}, "spec": spec}, "default")
    stored = cluster.scale(cluster.kind_of("replicasets.apps"), "r", "default", 3)
    assert stored["spec"]["replicas"] == 3
    seen = _stored(served, "replicasets.apps", "r")
    assert seen is not None
    assert [one.get("subresource") for one in seen["metadata"]["managedFields"]] == [None, "scale"]


def test_a_lease_is_renewed_while_it_is_there(cluster: RemoteCluster, served: Served) -> None:
    lease = {"metadata": {"name": "n"}, "spec": {"holderIdentity": "n"}}
    cluster.create("leases.coordination.k8s.io", lease, "kube-node-lease")
    assert cluster.renew("kube-node-lease", "n")
    renewed = cluster.get("leases.coordination.k8s.io", "n", "kube-node-lease")
    assert renewed["spec"]["renewTime"] == cluster.clock.micro_stamp()
    assert not cluster.renew("kube-node-lease", "other")
    fault = RequestFault(FaultSelector(), status=500, times=1)
    served.run(lambda: served.api.faults.requests.append(fault))
    cluster.clock.jump(10)
    assert cluster.renew("kube-node-lease", "n")  # the next one may reach the server
    assert fault.times == 0


def test_a_live_read_knows_more_than_the_mirror(cluster: RemoteCluster, served: Served) -> None:
    served.run(lambda: served.api.create("configmaps", {"metadata": {"name": "a"}}, "default"))
    assert cluster.find("configmaps", "a", "default") is None
    assert cluster.find_live("configmaps", "a", "default") is not None
    assert cluster.find("configmaps", "a", "default") is not None
    assert cluster.find_live("configmaps", "b", "default") is None


def test_an_error_of_one_subscriber_leaves_the_others_alone(
    cluster: RemoteCluster, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def refused(_change: str, _new: Obj, _old: Obj | None) -> None:
        raise StatusError(403, "Forbidden", "not you")

    cluster.subscribe("pods", refused)
    cluster.subscribe("pods", lambda change, _, __: seen.append(change))
    cluster.create("pods", pod(), "default")
    assert seen == ["ADDED"]
    assert caplog.messages == ["pods p: not you"]


def test_tokens_are_those_of_the_server(cluster: RemoteCluster, served: Served) -> None:
    account = cluster.get("serviceaccounts", "default", "default")
    answer = cluster.accounts.issue(account, {"metadata": {}, "spec": {"expirationSeconds": 600}})
    user, _ = served.run(lambda: served.api.accounts.user_of(answer["status"]["token"]))
    assert user.name == "system:serviceaccount:default:default"
    secret = {"metadata": {"name": "s", "namespace": "default"}}
    token = cluster.accounts.legacy(account, secret)
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["kubernetes.io/serviceaccount/secret.name"] == "s"
    assert "kid" not in jwt.get_unverified_header(token)


def _widgets(*versions: tuple[str, bool, bool]) -> Obj:
    names = {"singular": "widget", "listKind": "WidgetList"}
    made = [
        served_version(name, served=served, storage=storage) for name, served, storage in versions
    ]
    return definition(names=names, versions=made)


@pytest.mark.parametrize("is_stored_version_served", [True, False])
def test_custom_kinds_come_and_go_with_their_definitions(
    cluster: RemoteCluster,
    served: Served,
    loop: asyncio.AbstractEventLoop,
    is_stored_version_served: bool,
) -> None:
    resource = "widgets.example.com"
    versions = (("v1", True, is_stored_version_served), ("v2", is_stored_version_served, False))
    if not is_stored_version_served:
        versions = (("v1", True, False), ("v2", False, True))

    def create() -> None:
        served.api.create("customresourcedefinitions.apiextensions.k8s.io", _widgets(*versions))
        kind = served.api.kinds.of_kind("example.com/v1", "Widget")
        assert kind is not None
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        served.api.create(kind, widget, "default")

    async def run() -> None:
        changed = asyncio.Event()
        cluster.store.listen(lambda *_: changed.set())
        served.run(create)
        while cluster.kinds.find(resource) is None or not cluster.list(resource):
            changed.clear()
            await asyncio.wait_for(changed.wait(), _PATIENCE)
        (widget,) = cluster.list(resource)
        assert widget["apiVersion"] == "example.com/v1"
        assert cluster.kinds.of_kind("example.com/v1", "Widget") is not None
        served.run(
            lambda: served.api.delete("customresourcedefinitions.apiextensions.k8s.io", resource)
        )
        while cluster.kinds.find(resource) is not None:
            changed.clear()
            await asyncio.wait_for(changed.wait(), _PATIENCE)

    loop.run_until_complete(run())
    assert cluster.store.count(resource) == 0


def test_a_dependent_is_kept_while_its_owner_is_not_seen_yet(
    cluster: RemoteCluster, served: Served, manual_clock: ManualClock
) -> None:
    GarbageCollector(cluster)
    owner = served.run(
        lambda: served.api.create("configmaps", {"metadata": {"name": "owner"}}, "default")
    )
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    metadata = {"name": "child", "ownerReferences": [reference]}
    cluster.create("configmaps", {"metadata": metadata}, "default")
    manual_clock.advance(1)
    assert cluster.find_live("configmaps", "child", "default") is not None
    served.run(lambda: served.api.delete("configmaps", "owner", "default"))
    assert cluster.find_live("configmaps", "owner", "default") is None
    manual_clock.advance(1)
    assert _stored(served, "configmaps", "child") is None


def test_a_token_secret_is_kept_while_its_account_is_not_seen_yet(
    cluster: RemoteCluster, served: Served, manual_clock: ManualClock
) -> None:
    TokensController(cluster)
    served.run(
        lambda: served.api.create("serviceaccounts", {"metadata": {"name": "robot"}}, "default")
    )
    for account in ("robot", "guest"):
        annotations = {"kubernetes.io/service-account.name": account}
        secret = {
            "metadata": {"name": account, "annotations": annotations},
            "type": "kubernetes.io/service-account-token",
        }
        cluster.create("secrets", secret, "default")
    manual_clock.advance(1)
    filled = _stored(served, "secrets", "robot")
    assert filled is not None
    assert {"ca.crt", "namespace", "token"} <= set(filled["data"])
    assert _stored(served, "secrets", "guest") is None


def test_rules_of_aggregated_roles_reach_the_server(
    cluster: RemoteCluster, served: Served, manual_clock: ManualClock
) -> None:
    ClusterRoleAggregationController(cluster)
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    selector = {"matchLabels": {"team": "blue"}}
    part = {"metadata": {"name": "part", "labels": {"team": "blue"}}, "rules": [rule]}
    whole = {"metadata": {"name": "whole"}, "aggregationRule": {"clusterRoleSelectors": [selector]}}
    for role in (part, whole):
        cluster.create("clusterroles.rbac.authorization.k8s.io", role)
    manual_clock.advance(1)
    stored = _stored(served, "clusterroles.rbac.authorization.k8s.io", "whole", "")
    assert stored is not None
    assert stored["rules"] == [rule]
    managers = {one["manager"]: one["operation"] for one in stored["metadata"]["managedFields"]}
    assert managers["clusterrole-aggregation-controller"] == "Apply"


def test_the_server_decides_on_access(cluster: RemoteCluster) -> None:
    admin, guest = User("admin", (ADMINS,)), User("guest")
    decisions = [
        cluster.rbac.decide(AuthorizationAttributes(user, "get", "", "pods", namespace="default"))
        for user in (admin, guest)
    ]
    assert [decision.allowed for decision in decisions] == [True, False]
    assert decisions[1].reason == ""
