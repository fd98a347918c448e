"""No request holds the event loop: the work of one turn of it, in calls of functions."""

from __future__ import annotations

import asyncio
import sys
import threading
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_kwait.simulator import suspendable
from pytest_kwait.simulator.clock import FAST
from pytest_kwait.simulator.components import start_components
from pytest_kwait.simulator.suspendable import SuspendableTask
from tests.examples import scaled
from tests.simulator.apiserver.conftest import POWERLESS, Served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

MAPS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
PODS = "/api/v1/namespaces/default/pods"
ADMISSION = "admissionregistration.k8s.io"
RBAC = "rbac.authorization.k8s.io"
MOST_CALLS = 100_000
"""Calls that take less than 100 ms."""
MANY = 12_000
MANY_PODS = 1_200


class Turns:
    """Counts the calls of each turn of the loop; those beside it do not count."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.worst = 0
        events = 0
        run = asyncio.events.Handle._run

        def count(_frame: FrameType, _event: str, _arg: object) -> None:
            nonlocal events  # the start and the end of each call: no more is done for each
            events += 1

        def counted(handle: asyncio.Handle) -> None:
            nonlocal events
            if threading.current_thread() is threading.main_thread():
                run(handle)
                return
            events = 0
            run(handle)
            self.worst = max(self.worst, events // 2)

        def set_beside(task: SuspendableTask[object], value: bool) -> None:
            vars(task)["_beside"] = value
            if SuspendableTask.current() is task:
                sys.setprofile(None if value else count)

        self.count = count
        monkeypatch.setattr(asyncio.events.Handle, "_run", counted)
        monkeypatch.setattr(suspendable, "_idle_threads", [])
        beside = property(lambda task: vars(task)["_beside"], set_beside)
        monkeypatch.setattr(SuspendableTask, "_beside", beside, raising=False)


@pytest.fixture(scope="module")
def turns() -> Iterator[Turns]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Turns(monkeypatch)


@pytest.fixture(scope="module")
def watched(turns: Turns) -> Iterator[Served]:
    served = Served()

    def work(given: Any) -> None:
        sys.setprofile(turns.count)
        given()

    run = SuspendableTask._run
    try:
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(SuspendableTask, "_run", lambda task: work(lambda: run(task)))
            role = {"metadata": {"name": "roles"}, "rules": [rule(["*"], ["roles"], ["create"])]}
            binding = {
                "metadata": {"name": "roles"},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "roles"},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "powerless"}],
            }
            served.run(lambda: served.api.create(f"clusterroles.{RBAC}", role))
            served.run(lambda: served.api.create(f"clusterrolebindings.{RBAC}", binding))
            served.json("POST", MAPS, config_map({}, name="present"))
            served.run(lambda: sys.setprofile(turns.count))
            yield served
    finally:
        served.run(lambda: sys.setprofile(None))
        served.close()


def rule(groups: list[str], resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


def config_map(content: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    metadata = {"name": "large", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}


def send(served: Served, form: str, count: int) -> int:
    """Send a request of a form with `count` parts, and return its status."""
    keys = {f"key-{number}": "" for number in range(count)}
    bad_keys = {f"!{number}": "!" for number in range(count)}
    words = ",".join(keys)
    answer = None
    match form:
        case "data":
            answer = served.send("POST", f"{MAPS}?dryRun=All", config_map({"data": keys}))
        case "bad data":
            answer = served.send("POST", MAPS, config_map({"data": bad_keys}))
        case "labels":
            answer = served.send("POST", f"{MAPS}?dryRun=All", config_map({}, labels=keys))
        case "bad labels":
            answer = served.send("POST", MAPS, config_map({}, labels=bad_keys))
        case "finalizers":
            finalizers = [f"a/{key}" for key in keys]
            body = config_map({}, finalizers=finalizers)
            answer = served.send("POST", f"{MAPS}?dryRun=All", body)
        case "owners":
            owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "controller": True}
            body = config_map({}, ownerReferences=[{**owner, "uid": key} for key in keys])
            answer = served.send("POST", MAPS, body)
        case "patch":
            kind = "application/merge-patch+json"
            path = f"{MAPS}/present?dryRun=All"
            answer = served.send("PATCH", path, {"data": keys}, Content_Type=kind)
        case "strategic patch":
            kind = "application/strategic-merge-patch+json"
            path = f"{MAPS}/present?dryRun=All"
            answer = served.send("PATCH", path, {"data": keys}, Content_Type=kind)
        case "json patch":
            kind = "application/json-patch+json"
            path = f"{MAPS}/present?dryRun=All"
            added = [{"op": "add", "path": f"/metadata/{key}", "value": 1} for key in keys]
            answer = served.send("PATCH", path, added, Content_Type=kind)
        case "apply":
            kind = "application/apply-patch+yaml"
            path = f"{MAPS}/present?dryRun=All&fieldManager=me"
            answer = served.send(
                "PATCH", path, config_map({"data": keys}, name="present"), Content_Type=kind
            )
        case "roles":
            rules = [rule([*keys], [*keys], [*keys])]
            metadata = {"name": "large", "namespace": "default"}
            body = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata}
            answer = served.send("POST", ROLES, {**body, "rules": rules}, POWERLESS)
        case "label selector":
            answer = served.send("GET", f"{MAPS}?labelSelector={quote(words)}")
        case "label values":
            answer = served.send("GET", f"{MAPS}?labelSelector={quote(f'a notin ({words})')}")
        case "field selector":
            terms = ",".join(f"metadata.name!={key}" for key in keys)
            answer = served.send("GET", f"{MAPS}?fieldSelector={quote(terms)}")
        case "parameters":
            answer = served.send("GET", f"{MAPS}?{'&'.join(keys)}")
        case "accept":
            answer = served.send("GET", MAPS, Accept=words)
        case "integer" | "float" | "exponent" | "hexadecimal" | "sexagesimal":
            digits = "1" * count * 50
            number = {
                "integer": digits,
                "float": f"1.{digits}",
                "exponent": f"1e{digits}",
                "hexadecimal": f"0x{digits}",
                "sexagesimal": "1" + ":59" * count * 15,
            }[form]
            text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x, generation: {number}}}"
            kind = "application/yaml"
            answer = served.send("POST", MAPS, text.encode(), Content_Type=kind)
    assert answer is not None
    return answer.status


def pod(containers: int, **metadata: Any) -> dict[str, Any]:
    names = [f"c{number}" for number in range(containers)]
    spec = {"containers": [{"name": name, "image": "busybox"} for name in names]}
    metadata = {"name": "large", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def checked(watched: Served) -> Served:
    """A server with limits, a level of pod security and a policy for the pods of `default`."""
    limit = {"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"}}
    body = {**limits, "spec": {"limits": [limit]}}
    watched.json("POST", "/api/v1/namespaces/default/limitranges", body)
    labels = {"pod-security.kubernetes.io/warn": "restricted"}
    patch = "application/merge-patch+json"
    body = {"metadata": {"labels": labels}}
    watched.send("PATCH", "/api/v1/namespaces/default", body, Content_Type=patch)
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    pairs = "object.spec.containers.all(c, object.spec.containers.exists(d, d.name == c.name))"
    spec: dict[str, Any] = {
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        },
        "validations": [{"expression": pairs}],
    }
    for kind, plural in (("", "ies"), ("Binding", "ybindings")):
        body = {
            "apiVersion": f"{ADMISSION}/v1",
            "kind": f"ValidatingAdmissionPolicy{kind}",
            "metadata": {"name": "pairs"},
            "spec": {"policyName": "pairs", "validationActions": ["Deny"]} if kind else spec,
        }
        path = f"/apis/{ADMISSION}/v1/validatingadmissionpolic{plural}"
        assert watched.send("POST", path, body).status == 201
    return watched


@pytest.mark.parametrize("containers", [60, 150])
def test_no_admission_plugin_holds_the_loop(turns: Turns, checked: Served, containers: int) -> None:
    """A small pod has a policy whose expression looks at all pairs of containers."""
    turns.worst = 0
    body = pod(containers)
    if containers > 100:  # the size alone
        body["spec"]["containers"][0]["env"] = [{"name": "A", "value": "x" * 20_000}]
    assert checked.send("POST", f"{PODS}?dryRun=All", body).status == 201
    checked.run(lambda: None)
    assert turns.worst < MOST_CALLS


YAML, TABLE = "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/api/v1/namespaces/many/pods", TABLE),
        ("/api/v1/namespaces/many/pods?limit=20", YAML),
        ("/api/v1/namespaces/many/pods/p0", YAML),
        ("/api/v1/namespaces/many/pods?labelSelector=a%3Db", ""),
        ("/api/v1/namespaces/many/pods?fieldSelector=spec.nodeName%3Db", ""),
    ],
)
def test_no_form_of_many_objects_holds_the_loop(
    turns: Turns, many_pods: Served, path: str, accept: str
) -> None:
    turns.worst = 0
    assert many_pods.send("GET", path, Accept=accept or "application/json").status == 200
    many_pods.run(lambda: None)
    assert turns.worst < MOST_CALLS * MANY_PODS / 6_000


def test_the_deletion_of_many_objects_lets_others_in(turns: Turns, watched: Served) -> None:
    create_pods(turns, watched, "deleted", MANY_PODS, 20)
    turns.worst = 0
    assert watched.send("DELETE", "/api/v1/namespaces/deleted/pods").status == 200
    watched.run(lambda: None)
    assert turns.worst < MOST_CALLS * MANY_PODS / 6_000


def create_pods(turns: Turns, served: Served, namespace: str, count: int, containers: int) -> None:
    """Create pods without counting the calls of that."""

    def create() -> None:
        sys.setprofile(None)
        metadata = {"name": "default", "namespace": namespace}
        served.api.create("namespaces", {"metadata": {"name": namespace}})
        served.api.create("serviceaccounts", {"metadata": metadata}, namespace)
        for number in range(count):
            served.api.create("pods", pod(containers, name=f"p{number}"), namespace)
        sys.setprofile(turns.count)

    served.run(create)


@pytest.fixture(scope="module")
def many_pods(turns: Turns, watched: Served) -> Served:
    """Pods in the namespace `many`, which tests only read."""
    create_pods(turns, watched, "many", MANY_PODS, 20)
    return watched


@pytest.fixture(scope="module")
def large_pods(turns: Turns, watched: Served) -> Served:
    """Pods of 2,000 containers, which clients read, change and delete by small requests."""
    create_pods(turns, watched, "large", 4, 2_000)
    return watched


def evict(name: str, **options: Any) -> dict[str, Any]:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return {**eviction, "deleteOptions": options} if options else eviction


def bind(name: str) -> dict[str, Any]:
    target = {"kind": "Node", "name": "node-1"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


LARGE_PODS = "/api/v1/namespaces/large/pods"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "p0", None),
        ("POST", "p0/eviction", evict("p0", dryRun=["All"])),
        ("POST", "p0/eviction", evict("p0")),
        ("POST", "p1/binding", bind("p1")),
        ("DELETE", "p1?dryRun=All", None),
        ("DELETE", "p1", None),
        ("DELETE", "p2?gracePeriodSeconds=0", None),
        ("PUT", "p3", {"labels": {"a": "b"}}),
        ("PUT", "p3/status", {"annotations": {"a": "b"}}),
        ("DELETE", "", None),
    ],
)
def test_no_request_on_a_large_object_holds_the_loop(
    turns: Turns, large_pods: Served, method: str, path: str, body: dict[str, Any] | None
) -> None:
    sent: Any = body
    if method == "PUT" and body is not None:
        sent = large_pods.json("GET", f"{LARGE_PODS}/p3")
        sent["metadata"] |= body
    turns.worst = 0
    assert large_pods.send(method, f"{LARGE_PODS}/{path}".rstrip("/"), sent).status in (200, 201)
    large_pods.run(lambda: None)
    assert turns.worst < MOST_CALLS


def run_pod(served: Served, name: str, containers: int) -> None:
    """Let a node run a pod and end it again."""
    body = pod(containers, name=name)
    for container in body["spec"]["containers"]:
        container["command"] = ["sleep", "999"]
    assert served.send("POST", PODS, body).status == 201
    watch = served.watch(f"{PODS}?watch=1&fieldSelector=metadata.name%3D{name}")
    assert any(event["object"]["status"].get("phase") == "Running" for event in watch)
    assert served.send("DELETE", f"{PODS}/{name}?gracePeriodSeconds=1").status == 200
    watch = served.watch(f"{PODS}?watch=1&fieldSelector=metadata.name%3D{name}")
    assert any(event["type"] == "DELETED" for event in watch)


def test_no_pod_of_many_containers_holds_the_loop(turns: Turns, watched: Served) -> None:
    served = Served()
    served.api.clock.scale = FAST

    def start() -> None:
        start_components(served.api, nodes=1)
        sys.setprofile(turns.count)

    try:
        served.run(start)
        run_pod(served, "small", 1)  # imports what it needs
        turns.worst = 0
        run_pod(served, "large", 400)
        served.run(lambda: None)
        assert turns.worst < MOST_CALLS / 2
    finally:
        served.run(lambda: sys.setprofile(None))
        served.close()


@pytest.mark.parametrize(
    "selector", ["", "&labelSelector=a%3Db", "&fieldSelector=spec.nodeName%3Db"]
)
@pytest.mark.parametrize("accept", ["application/json", TABLE])
def test_neither_the_first_list_of_a_watch_nor_its_fan_out_holds_the_loop(
    turns: Turns, many_pods: Served, selector: str, accept: str
) -> None:
    count = 0 if selector else MANY_PODS
    turns.worst = 0
    path = f"/api/v1/namespaces/many/pods?watch=1{selector}"
    watches = [many_pods.watch(path, Accept=accept) for _ in range(2)]
    for watch in watches:
        assert len([*islice(watch, count)]) == count
    many_pods.run(lambda: None)
    assert turns.worst < MOST_CALLS * MANY_PODS / 6_000
    for watch in watches:
        watch.close()


STATUSES = {
    "data": 201,
    "bad data": 422,
    "labels": 201,
    "bad labels": 422,
    "finalizers": 201,
    "owners": 422,
    "patch": 200,
    "strategic patch": 200,
    "json patch": 413,
    "apply": 200,
    "roles": 403,
    "label selector": 200,
    "label values": 200,
    "field selector": 200,
    "parameters": 200,
    "accept": 431,
    "integer": 400,
    "float": 400,
    "exponent": 400,
    "hexadecimal": 400,
    "sexagesimal": 400,
}


@settings(max_examples=scaled(20), deadline=None)
@given(form=st.sampled_from([*STATUSES]), count=st.integers(1, MANY))
@example(form="bad labels", count=1_250)  # the largest that is checked on the loop
def test_no_request_holds_the_loop(turns: Turns, watched: Served, form: str, count: int) -> None:
    turns.worst = 0
    status = send(watched, form, count)
    watched.run(lambda: None)
    assert status == STATUSES[form] or count < MANY
    assert turns.worst < MOST_CALLS


@pytest.mark.parametrize("form", STATUSES)
def test_no_form_of_a_request_holds_the_loop(turns: Turns, watched: Served, form: str) -> None:
    turns.worst = 0
    assert send(watched, form, MANY) == STATUSES[form]
    watched.run(lambda: None)
    assert turns.worst < MOST_CALLS
