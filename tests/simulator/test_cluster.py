from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import simulator
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.request_info import Caller
from pytest_kwait.simulator.scheme import Scheme
from tests.objects import config_map, job, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.cluster import SimulatedCluster


def refusal(error: pytest.ExceptionInfo[StatusError]) -> tuple[int, str]:
    return error.value.code, error.value.message


def test_a_cluster_has_its_namespaces(api: SimulatedCluster) -> None:
    namespaces = [one["metadata"]["name"] for one in api.list("namespaces")]
    assert namespaces == ["default", "kube-node-lease", "kube-public", "kube-system"]
    default = api.get("namespaces", "default")
    assert default["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}
    assert default["spec"] == {"finalizers": ["kubernetes"]}
    assert default["status"] == {"phase": "Active"}


def test_server_sets_system_fields(api: SimulatedCluster) -> None:
    sent = config_map("a", k="v")
    sent["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}
    stored = api.create("configmaps", sent, "default")
    assert stored["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert stored["metadata"]["uid"] != "mine"
    assert stored["metadata"]["resourceVersion"] == str(api.store.revision)


def test_a_name_is_taken_once(api: SimulatedCluster) -> None:
    api.create("configmaps", config_map(), "default")
    with pytest.raises(StatusError) as refused:
        api.create("configmaps", config_map(), "default")
    assert refusal(refused) == (409, 'configmaps "a" already exists')


def test_names_are_made_up_on_request(api: SimulatedCluster) -> None:
    made = api.create("configmaps", {"metadata": {"generateName": "a-"}}, "default")
    name = made["metadata"]["name"]
    assert name.startswith("a-")
    assert len(name) == 7


def test_an_object_needs_a_namespace_that_is_there(api: SimulatedCluster) -> None:
    with pytest.raises(StatusError) as refused:
        api.create("configmaps", config_map(), "nope")
    assert refusal(refused) == (404, 'namespaces "nope" not found')


def test_terminating_namespace_refuses_new_objects(api: SimulatedCluster) -> None:
    api.create("namespaces", {"metadata": {"name": "n"}})
    api.delete("namespaces", "n")
    with pytest.raises(StatusError) as refused:
        api.create("configmaps", config_map(), "n")
    assert refusal(refused) == (
        403,
        'configmaps "a" is forbidden: unable to create new content in namespace n because it is '
        "being terminated",
    )
    assert refused.value.details is not None
    assert refused.value.details["causes"][0]["reason"] == "NamespaceTerminating"


def test_namespace_is_deleted_without_finalizers(api: SimulatedCluster) -> None:
    api.create("namespaces", {"metadata": {"name": "n"}})
    marked = api.delete("namespaces", "n")
    assert marked["status"] == {"phase": "Terminating"}
    api.update("namespaces", {"metadata": {"name": "n"}, "spec": {}}, subresource="finalize")
    assert api.find("namespaces", "n") is None


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_stay(api: SimulatedCluster, name: str) -> None:
    with pytest.raises(StatusError) as refused:
        api.delete("namespaces", name)
    assert refusal(refused) == (
        403,
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
    )


def test_a_write_that_changes_nothing_is_none(api: SimulatedCluster) -> None:
    stored = api.create("configmaps", config_map(k="v"), "default")
    before = api.store.revision
    again = api.modify("configmaps", "a", "default", lambda obj: obj["data"].update(k="v"))
    assert again is stored
    assert api.store.revision == before


def test_an_update_from_an_older_state_is_a_conflict(api: SimulatedCluster) -> None:
    old = api.create("configmaps", config_map(k="v"), "default")
    api.modify("configmaps", "a", "default", lambda obj: obj["data"].update(k="w"))
    with pytest.raises(StatusError) as refused:
        api.update("configmaps", {**old, "data": {"k": "x"}})
    assert refusal(refused) == (
        409,
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please '
        "apply your changes to the latest version and try again",
    )


def test_update_without_resource_version(api: SimulatedCluster) -> None:
    api.create("leases.coordination.k8s.io", {"metadata": {"name": "l"}}, "default")
    with pytest.raises(StatusError) as refused:
        api.update(
            "leases.coordination.k8s.io", {"metadata": {"name": "l", "namespace": "default"}}
        )
    assert refusal(refused) == (
        422,
        'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update",
    )


def test_pods_get_defaults(api: SimulatedCluster) -> None:
    stored = api.create("pods", pod(), "default")
    spec = stored["spec"]
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert stored["metadata"]["generation"] == 1
    assert spec["serviceAccountName"] == "default"
    assert spec["enableServiceLinks"] is True
    assert [one["key"] for one in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    mount = spec["containers"][0]["volumeMounts"][0]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert spec["volumes"][0]["name"] == mount["name"]
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_a_pod_needs_its_service_account(api: SimulatedCluster) -> None:
    with pytest.raises(StatusError) as refused:
        api.create("pods", pod(serviceAccountName="nope"), "default")
    assert refusal(refused) == (
        403,
        'pods "p" is forbidden: error looking up service account default/nope: serviceaccount '
        '"nope" not found',
    )


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ],
)
def test_resources_make_the_quality_of_service(
    api: SimulatedCluster, resources: dict[str, Any], quality: str
) -> None:
    container = {"name": "c", "image": "x:1", "resources": resources}
    stored = api.create("pods", pod(containers=[container]), "default")
    assert stored["status"]["qosClass"] == quality


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        (
            {"restartPolicy": "Sometimes"},
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", '
            '"OnFailure", "Never"',
        ),
        (
            {
                "containers": [
                    {"name": "c", "image": "x", "volumeMounts": [{"name": "n", "mountPath": "/"}]}
                ]
            },
            'spec.containers[0].volumeMounts[0].name: Not found: "n"',
        ),
        (
            {
                "containers": [
                    {
                        "name": "c",
                        "image": "x",
                        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
                    }
                ]
            },
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal '
            "to cpu limit of 1",
        ),
    ],
)
def test_invalid_pods_are_refused(api: SimulatedCluster, spec: dict[str, Any], text: str) -> None:
    with pytest.raises(StatusError) as refused:
        api.create("pods", pod(**spec), "default")
    assert refusal(refused) == (422, f'Pod "p" is invalid: {text}')


def test_mutable_fields_of_a_pod(api: SimulatedCluster) -> None:
    api.create("pods", pod(), "default")

    def image(obj: dict[str, Any]) -> None:
        obj["spec"]["containers"][0]["image"] = "busybox:2"

    assert api.modify("pods", "p", "default", image)["metadata"]["generation"] == 2
    with pytest.raises(StatusError) as refused:
        api.modify("pods", "p", "default", lambda obj: obj["spec"].update(restartPolicy="Never"))
    assert refused.value.code == 422
    assert refused.value.message.startswith(
        'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than '
        "`spec.containers[*].image`"
    )


def test_status_and_the_rest_are_written_apart(api: SimulatedCluster) -> None:
    api.create("pods", pod(), "default")
    stored = api.modify("pods", "p", "default", lambda obj: obj["status"].update(phase="Running"))
    assert stored["status"]["phase"] == "Pending"

    def both(obj: dict[str, Any]) -> None:
        obj["status"]["phase"] = "Running"
        obj["spec"]["nodeName"] = "x"

    stored = api.modify("pods", "p", "default", both, subresource="status")
    assert stored["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    assert "nodeName" not in stored["spec"]
    assert stored["metadata"]["generation"] == 1


def test_binding_sets_node_and_condition_once(api: SimulatedCluster) -> None:
    api.create("pods", pod(), "default")
    api.bind("default", "p", "node-1")
    bound = api.get("pods", "p", "default")
    assert bound["spec"]["nodeName"] == "node-1"
    assert bound["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    with pytest.raises(StatusError) as refused:
        api.bind("default", "p", "node-2")
    assert refusal(refused) == (
        409,
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node '
        '"node-1"',
    )


def test_jobs_are_found_by_their_uid(api: SimulatedCluster) -> None:
    stored = api.create("jobs.batch", job(), "default")
    uid = stored["metadata"]["uid"]
    assert stored["spec"]["selector"] == {
        "matchLabels": {"batch.kubernetes.io/controller-uid": uid}
    }
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }
    assert stored["spec"]["template"]["metadata"]["labels"] == labels
    assert stored["metadata"]["labels"] == labels
    assert stored["spec"]["completions"] == 1
    assert stored["spec"]["parallelism"] == 1
    assert stored["spec"]["backoffLimit"] == 6
    assert stored["status"] == {}


def test_a_job_without_labels_shares_those_of_its_template(api: SimulatedCluster) -> None:
    def create(name: str, **metadata: Any) -> Any:
        spec = {"containers": [{"name": "a", "image": "b"}], "restartPolicy": "Never"}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
        job = {"metadata": {"name": name, **metadata}, "spec": {"template": template}}
        return api.create("jobs.batch", job, "default")

    shared = create("a")
    labels = shared["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == "a"
    assert shared["metadata"]["labels"] == labels
    assert shared["metadata"]["labels"] is not labels
    assert create("b", labels={"a": "b"})["metadata"]["labels"] == {"a": "b"}


def test_a_job_without_a_name_is_refused(api: SimulatedCluster) -> None:
    nameless = job()
    nameless["metadata"] = {}
    with pytest.raises(StatusError) as refused:
        api.create("jobs.batch", nameless, "default")
    assert refused.value.details is not None
    causes = refused.value.details["causes"]
    assert causes[0]["field"] == "metadata.name"
    assert causes[0]["message"] == "Required value: name or generateName is required"


def test_a_job_restarts_never_or_on_failure(api: SimulatedCluster) -> None:
    bad = job()
    del bad["spec"]["template"]["spec"]["restartPolicy"]
    with pytest.raises(StatusError) as refused:
        api.create("jobs.batch", bad, "default")
    assert refusal(refused) == (
        422,
        'Job.batch "j" is invalid: spec.template.spec.restartPolicy: Required value: valid values: '
        '"OnFailure", "Never"',
    )


def test_text_in_secrets_is_stored_encoded(api: SimulatedCluster) -> None:
    sent = {"metadata": {"name": "s"}, "stringData": {"a": "b"}}
    stored = api.create("secrets", sent, "default")
    assert stored["data"] == {"a": "Yg=="}
    assert stored["type"] == "Opaque"
    assert "stringData" not in stored


def test_services_get_addresses_of_their_own(api: SimulatedCluster) -> None:
    def service(name: str, **spec: Any) -> dict[str, Any]:
        sent = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
        found: dict[str, Any] = api.create("services", sent, "default")["spec"]
        return found

    first, second = service("a"), service("b")
    assert first["clusterIP"] != second["clusterIP"]
    assert first["clusterIPs"] == [first["clusterIP"]]
    assert first["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert service("c", clusterIP="None")["clusterIP"] == "None"
    assert 30000 <= service("d", type="NodePort")["ports"][0]["nodePort"] <= 32767


def test_a_pod_that_runs_is_deleted_with_grace_that_can_only_shrink(api: SimulatedCluster) -> None:
    api.create("pods", pod(), "default")
    api.bind("default", "p", "node-1")
    marked = api.delete("pods", "p", "default")["metadata"]
    assert marked["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    assert marked["deletionGracePeriodSeconds"] == 30
    assert marked["generation"] == 2
    longer = api.delete("pods", "p", "default", grace=60)["metadata"]
    assert longer["deletionGracePeriodSeconds"] == 30
    shorter = api.delete("pods", "p", "default", grace=5)["metadata"]
    assert shorter["deletionTimestamp"] == "2026-01-01T00:00:05Z"
    assert shorter["generation"] == 2
    api.delete("pods", "p", "default", grace=0)
    assert api.find("pods", "p", "default") is None


def test_unscheduled_pod_is_deleted_at_once(api: SimulatedCluster) -> None:
    api.create("pods", pod(), "default")
    seen: list[str] = []
    api.subscribe("pods", lambda event, *_: seen.append(event))
    assert api.delete("pods", "p", "default")["kind"] == "Pod"
    assert seen == ["ADDED", "MODIFIED", "DELETED"]


def test_delete_preconditions(api: SimulatedCluster) -> None:
    stored = api.create("configmaps", config_map(), "default")
    with pytest.raises(StatusError) as refused:
        api.delete("configmaps", "a", "default", uid="other")
    assert refusal(refused) == (
        409,
        'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does '
        f"not match the UID in record ({stored['metadata']['uid']}). The object might have been "
        "deleted and then recreated",
    )
    status = api.delete("configmaps", "a", "default", uid=stored["metadata"]["uid"])
    assert status["status"] == "Success"
    assert status["details"]["kind"] == "configmaps"


def test_finalizers_delay_deletion(api: SimulatedCluster) -> None:
    sent = config_map()
    sent["metadata"]["finalizers"] = ["e.com/f"]
    api.create("configmaps", sent, "default")
    marked = api.delete("configmaps", "a", "default")["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 0
    before = api.store.revision
    api.delete("configmaps", "a", "default")
    assert api.store.revision == before
    with pytest.raises(StatusError) as refused:
        api.create("configmaps", config_map(), "default")
    assert refusal(refused) == (409, 'object is being deleted: configmaps "a" already exists')
    api.modify("configmaps", "a", "default", lambda obj: obj["metadata"].pop("finalizers"))
    assert api.find("configmaps", "a", "default") is None


@pytest.mark.parametrize(
    ("resource", "sent", "propagation", "finalizers"),
    [
        ("jobs.batch", job(), None, ["orphan"]),
        ("jobs.batch", job(), "Foreground", ["foregroundDeletion"]),
        ("configmaps", config_map(), "Orphan", ["orphan"]),
    ],
)
def test_propagation_sets_finalizers(
    api: SimulatedCluster,
    resource: str,
    sent: dict[str, Any],
    propagation: str | None,
    finalizers: list[str],
) -> None:
    stored = api.create(resource, sent, "default")
    name = stored["metadata"]["name"]
    marked = api.delete(resource, name, "default", propagation=propagation)
    assert marked["metadata"]["finalizers"] == finalizers
    assert marked["metadata"]["deletionTimestamp"]


def test_in_the_background_nothing_is_marked(api: SimulatedCluster) -> None:
    api.create("jobs.batch", job(), "default")
    assert api.delete("jobs.batch", "j", "default", propagation="Background")["kind"] == "Status"
    assert api.find("jobs.batch", "j", "default") is None


def test_a_dry_run_answers_and_stores_nothing(api: SimulatedCluster) -> None:
    before = api.store.revision
    answered = api.create("pods", pod(), "default", caller=Caller(dry_run=True))
    assert answered["status"]["phase"] == "Pending"
    assert "resourceVersion" not in answered["metadata"]
    assert api.store.revision == before


def test_events_of_both_groups_are_shared(api: SimulatedCluster) -> None:
    kind = api.kinds["events.events.k8s.io"]
    sent = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "hello",
        "reason": "R",
        "type": "Normal",
        "action": "A",
        "reportingController": "c",
        "reportingInstance": "i",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    api.create(kind, sent, "default")
    stored = api.get("events", "e", "default")
    assert stored["apiVersion"] == "v1"
    assert stored["message"] == "hello"
    assert stored["involvedObject"]["name"] == "p"
    assert stored["firstTimestamp"] is None


@pytest.mark.parametrize("profile", ["unconfined", "foo/bar"])
def test_a_refused_pod_is_warned_of_its_apparmor_annotation(
    api: SimulatedCluster, profile: str
) -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c"
    metadata = {"name": "a", "annotations": {key: profile}}
    spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "x"}
    caller = Caller()
    with pytest.raises(StatusError):
        api.create("pods", {"metadata": metadata, "spec": spec}, "default", caller=caller)
    assert caller.warnings == [
        f'metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field '
        "instead"
    ]


def test_fields_that_a_kind_has_not_are_warned_of_or_refused(api: SimulatedCluster) -> None:
    warned = Caller(field_validation="Warn")
    stored = api.create("configmaps", config_map() | {"bogus": 1}, "default", caller=warned)
    assert warned.warnings == ['unknown field "bogus"']
    assert "bogus" not in stored
    with pytest.raises(StatusError) as refused:
        api.create(
            "configmaps",
            config_map("b") | {"bogus": 1},
            "default",
            caller=Caller(field_validation="Strict"),
        )
    assert refusal(refused) == (
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'unknown field "bogus"',
    )


def test_an_unknown_resource_is_not_served(api: SimulatedCluster) -> None:
    with pytest.raises(StatusError) as refused:
        api.list("nopes")
    assert refusal(refused) == (404, "the server could not find the requested resource")


def test_subscribers_receive_existing_objects(api: SimulatedCluster) -> None:
    api.create("configmaps", config_map(), "default")
    seen: list[tuple[str, str]] = []
    stop = api.subscribe(
        "configmaps", lambda event, new, _old: seen.append((event, new["metadata"]["name"]))
    )
    api.delete("configmaps", "a", "default")
    stop()
    api.create("configmaps", config_map("b"), "default")
    assert seen == [("ADDED", "a"), ("DELETED", "a")]


def test_subscribers_to_all_resources(api: SimulatedCluster) -> None:
    seen: list[tuple[str, str]] = []
    api.subscribe_all(lambda resource, event, *_: seen.append((resource, event)))
    assert ("namespaces", "ADDED") in seen
    seen.clear()
    api.create("configmaps", config_map(), "default")
    assert seen == [("configmaps", "ADDED")]


_LOOKUPS = (
    "create",
    "delete",
    "delete_admitted",
    "find",
    "get",
    "kind_of",
    "list",
    "modify",
    "subscribe",
    "update",
    "update_status",
)

_LOOKUP = re.compile(rf"\b(?:api|_api|cluster)\s*\.\s*(?:{'|'.join(_LOOKUPS)})\s*\(")


def _list_looked_up_resources() -> Iterator[tuple[str, str]]:
    """Yield module and name of each resource that the simulator's code reads or writes."""
    for module in pkgutil.walk_packages(simulator.__path__, f"{simulator.__name__}."):
        if module.name.endswith("__main__"):
            continue
        loaded = importlib.import_module(module.name)
        source = inspect.getsource(loaded)
        if not _LOOKUP.search(source):  # in a fraction of the time of its parser
            continue
        for node in ast.walk(ast.parse(source)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            receiver = ast.unparse(node.func.value).rpartition(".")[2]
            if node.func.attr not in _LOOKUPS or receiver not in ("api", "_api", "cluster"):
                continue
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield module.name, name.value
            elif isinstance(name, ast.Name) and isinstance(getattr(loaded, name.id, None), str):
                yield module.name, getattr(loaded, name.id)


def test_every_resource_that_the_code_names_is_served() -> None:
    kinds = Scheme()
    named = set(_list_looked_up_resources())
    assert len(named) > 80
    assert [(module, name) for module, name in sorted(named) if kinds.find(name) is None] == []
