"""Waits on a service's endpoints: verdicts, and from call to message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import ENDPOINT_SLICES, PODS, SERVICES
from pytest_kwait.client.responses import Response
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.endpoints import (
    wait_for_endpoint_count,
    wait_for_endpoint_on_node,
    wait_for_endpoint_pods,
    wait_for_endpoint_ports,
)
from pytest_kwait.framework.registry import condition_of
from tests.framework.sources import enter
from tests.objects import condition, pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

SHORT, LONG = Grace.SHORT, Grace.LONG
MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
SLICE_OF = {"kubernetes.io/service-name": "web"}
LABELS = {"app": "web"}
PORT = {"name": "http", "protocol": "TCP", "port": 8080}


def web_service(*ports: Any, **spec: Any) -> Any:
    whole = {"type": "ClusterIP", "selector": LABELS, "ports": list(ports), **spec}
    return {"metadata": {"name": "web"}, "spec": whole}


def endpoint(name: str, *, ready: bool | None = True, **more: Any) -> Any:
    target = {"kind": "Pod", "namespace": "ci-1", "name": name, "uid": f"uid-{name}"}
    conditions = {"ready": ready}
    return {
        "addresses": [f"ip-{name}"],
        "conditions": conditions,
        "targetRef": target,
        "nodeName": "node-1",
        **more,
    }


def sliced(*endpoints: Any, name: str = "web-1", ports: Any = (PORT,)) -> Any:
    metadata = {"name": name, "labels": SLICE_OF}
    return {"metadata": metadata, "endpoints": list(endpoints), "ports": list(ports)}


def member(name: str, phase: str = "Running", **more: Any) -> Any:
    conditions = [condition("Ready")] if phase == "Running" else []
    return pod(name, phase, labels=LABELS, **{"conditions": conditions, **more})


def unplaced(name: str) -> Any:
    facts = {"reason": "Unschedulable", "message": "0/1 nodes"}
    return member(
        name, "Pending", conditions=[condition("PodScheduled", "False", **facts)], nodeName=None
    )


@dataclass
class Row:
    awaited: Any
    verdict: Verdict
    service: Any = field(default_factory=web_service)
    slices: list[Any] = field(default_factory=list)
    pods: list[Any] = field(default_factory=list)


def count(number: int) -> Any:
    return condition_of(wait_for_endpoint_count)("ci-1", "web", number)


def pods(*names: Any) -> Any:
    return condition_of(wait_for_endpoint_pods)("ci-1", "web", names)


def ports(**wanted: Any) -> Any:
    return condition_of(wait_for_endpoint_ports)("ci-1", "web", wanted)


def on_node(node: str = "node-1") -> Any:
    return condition_of(wait_for_endpoint_on_node)("ci-1", "web", node)


NO_POD = "the service's selector app=web matches no pod"
ROWS = {
    "no service": Row(
        count(1), Pending("no EndpointSlice yet: there is no service of that name"), None
    ),
    "no slice": Row(count(0), Pending(f"no EndpointSlice yet: {NO_POD}")),
    "an empty slice": Row(count(0), Met(), slices=[sliced()]),
    "slices without a service": Row(count(1), Met(), None, [sliced(endpoint("a"))]),
    "no selector": Row(
        count(1),
        Pending(
            "no EndpointSlice yet: the service has no selector, so its EndpointSlices "
            "must be created by hand"
        ),
        web_service(selector=None),
    ),
    "no selector, a slice by hand": Row(
        count(2),
        Pending("1 of 2 endpoints: the service has no selector"),
        web_service(selector=None),
        [sliced(endpoint("a"))],
    ),
    "no pod": Row(count(1), Pending(f"0 of 1 endpoints: {NO_POD}"), slices=[sliced()]),
    "pods that have ended": Row(
        count(1),
        Pending(f"0 of 1 endpoints: {NO_POD} that has not ended: 1 Succeeded"),
        slices=[sliced()],
        pods=[member("a", "Succeeded")],
    ),
    "just right": Row(count(2), Met(), slices=[sliced(endpoint("a"), endpoint("b", ready=False))]),
    "an address in two slices": Row(
        count(1), Met(), slices=[sliced(endpoint("a")), sliced(endpoint("a"), name="web-2")]
    ),
    "in two slices": Row(
        count(2), Met(), slices=[sliced(endpoint("a")), sliced(endpoint("b"), name="web-2")]
    ),
    "too few": Row(
        count(2),
        Pending("1 of 2 endpoints: 1 Running, 1 Pending (ContainerCreating)"),
        slices=[sliced(endpoint("a"))],
        pods=[member("a"), member("b", "Pending", waiting=("ContainerCreating", ""))],
    ),
    "too many": Row(
        count(1),
        Pending("2 endpoints, 1 more than awaited"),
        slices=[sliced(endpoint("a"), endpoint("b"))],
    ),
    "a pod that no node takes": Row(
        count(2),
        Failed("pod b: Unschedulable: 0/1 nodes", LONG, 0.0),
        slices=[sliced(endpoint("a"))],
        pods=[member("a"), unplaced("b")],
    ),
    "the same, but one to spare": Row(
        count(1),
        Pending("0 of 1 endpoints: 1 Running, 1 Pending (Unschedulable)"),
        slices=[sliced()],
        pods=[member("a"), unplaced("b")],
    ),
    "of type ExternalName": Row(
        count(1),
        Failed("the service is of type ExternalName, which has no endpoints", LONG),
        web_service(type="ExternalName"),
    ),
    "being deleted": Row(
        count(1),
        Failed("the service is being deleted", SHORT),
        {**web_service(), "metadata": {"name": "web", "deletionTimestamp": "now"}},
    ),
    "a port that no pod has": Row(
        count(1),
        Pending("0 of 1 endpoints: no pod has a port named htp, which the service wants"),
        web_service({"port": 80, "targetPort": "htp"}),
        [sliced()],
        [{**member("a"), "spec": {"containers": [{"ports": [{"name": "http"}]}]}}],
    ),
    "a port that a sidecar has": Row(
        count(1),
        Pending("0 of 1 endpoints: 1 Running"),
        web_service({"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8081}),
        [sliced()],
        [
            {
                **member("a"),
                "spec": {
                    "containers": [{"ports": None}],
                    "initContainers": [{"ports": [{"name": "http"}], "restartPolicy": "Always"}],
                },
            }
        ],
    ),
    "pods": Row(
        pods("a", "b"), Met(), slices=[sliced(endpoint("a")), sliced(endpoint("b"), name="2")]
    ),
    "pods by UID": Row(
        pods({"metadata": {"name": "a", "uid": "uid-a"}}), Met(), slices=[sliced(endpoint("a"))]
    ),
    "a pod created anew": Row(
        pods({"metadata": {"name": "a", "uid": "before"}}),
        Pending("missing a, not awaited a: 1 Running"),
        slices=[sliced(endpoint("a"))],
        pods=[member("a")],
    ),
    "other pods": Row(
        pods("a", "b"),
        Pending("missing b, not awaited c: 2 Running"),
        slices=[sliced(endpoint("a"), endpoint("c"))],
        pods=[member("a"), member("c")],
    ),
    "no pods awaited": Row(pods(), Met(), slices=[sliced()]),
    "no pods awaited, an address that is none": Row(
        pods(), Met(), slices=[sliced({"addresses": ["10.0.0.1"]})]
    ),
    "pods before any slice": Row(pods("a"), Pending(f"no EndpointSlice yet: {NO_POD}")),
    "pods of another namespace": Row(
        pods("a"),
        Pending(f"missing a: {NO_POD}"),
        slices=[
            sliced(endpoint("a", targetRef={"kind": "Pod", "name": "a", "namespace": "other"}))
        ],
    ),
    "ports": Row(
        ports(a=[8080], b=["http:8080", "9090/UDP"]),
        Met(),
        slices=[
            sliced(endpoint("a")),
            sliced(
                endpoint("b"),
                name="2",
                ports=[PORT, {"name": "dns", "protocol": "UDP", "port": 9090}],
            ),
        ],
    ),
    "other ports": Row(
        ports(a=["web:8080", 53]),
        Pending("missing a:web:8080, a:53, not awaited a:http:8080: 1 Running"),
        slices=[sliced(endpoint("a"))],
        pods=[member("a")],
    ),
    "ports of no name, no number": Row(
        ports(a=[80]),
        Met(),
        slices=[sliced(endpoint("a"), ports=[{"port": 80}, {"name": "all", "port": None}])],
    ),
    "no ports awaited": Row(ports(), Met(), slices=[sliced()]),
    "on the node": Row(on_node(), Met(), slices=[sliced(endpoint("a"), endpoint("b", ready=None))]),
    "on no node": Row(
        on_node(),
        Pending("endpoints on no node: 1 Running"),
        slices=[sliced(endpoint("a", nodeName=None))],
        pods=[member("a")],
    ),
    "on the node and another": Row(
        on_node(),
        Pending("endpoints on node-2: 1 Running"),
        slices=[sliced(endpoint("a"), endpoint("b", nodeName="node-2"))],
        pods=[member("a")],
    ),
    "on the node, not ready": Row(
        on_node(),
        Pending("0 of 1 endpoints ready: 1 Running, not ready"),
        slices=[sliced(endpoint("a", ready=False))],
        pods=[member("a", conditions=[condition("Ready", "False")])],
    ),
    "on no node yet": Row(
        on_node(), Pending(f"0 of 0 endpoints ready: {NO_POD}"), slices=[sliced()]
    ),
    "on the node, the image not to be had": Row(
        on_node(),
        Failed("pod a: ErrImagePull: manifest unknown", SHORT, 0.0),
        slices=[sliced(endpoint("a", ready=False))],
        pods=[member("a", "Pending", waiting=("ErrImagePull", "manifest unknown"))],
    ),
    "a pod on its way out": Row(
        count(0),
        Pending("1 endpoint, 1 more than awaited"),
        slices=[sliced(endpoint("a"))],
        pods=[member("a", metadata={"deletionTimestamp": "now"})],
    ),
    "null everywhere": Row(
        count(1),
        Pending("0 of 1 endpoints: the service has no selector"),
        {"metadata": {"name": "web"}, "spec": None},
        [
            {"metadata": {"name": "1"}, "endpoints": None, "ports": None},
            {"metadata": {"name": "2"}, "endpoints": [{"addresses": None, "targetRef": None}]},
        ],
    ),
}


def enter_row(row: Row) -> None:
    if row.service is not None:
        enter(row.awaited, row.service)
    enter(row.awaited, *row.slices, position=1)
    enter(row.awaited, *row.pods, position=2)
    row.awaited.sources()


@pytest.mark.parametrize("name", ROWS)
def test_verdict(name: str) -> None:
    row = ROWS[name]
    enter_row(row)

    assert row.awaited.verdict() == row.verdict


def test_a_slice_that_changes_counts_as_it_is() -> None:
    awaited = count(1)
    enter_row(Row(awaited, Met(), slices=[sliced(endpoint("a"), endpoint("b"))]))
    enter_row(Row(awaited, Met(), slices=[sliced(endpoint("b"))]))
    assert awaited.verdict() == Met()
    awaited.sources()[1].sink.drop("uid-web-1")
    awaited.sources()[1].sink.drop("unknown")

    assert awaited.slices.endpoints == awaited.slices.ready == len(awaited.slices) == 0
    assert not [*awaited.slices.nodes, *awaited.slices.pods, *awaited.slices.mappings]


def test_the_pods_are_those_of_the_selector_of_now() -> None:
    awaited = count(1)
    enter_row(Row(awaited, Met(), pods=[member("a")]))
    sources = awaited.sources()
    assert [each.selector for each in sources] == [
        None,
        "kubernetes.io/service-name=web",
        "app=web",
    ]
    assert awaited.sources() is sources

    enter_row(Row(awaited, Met(), web_service(selector={"app": "b", "tier": "c"})))
    assert awaited.sources()[2].selector == "app=b,tier=c"
    assert awaited.pods.alive == 0
    enter_row(Row(awaited, Met(), web_service(selector={})))
    assert len(awaited.sources()) == 2


@MODES
def test_count(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(SERVICES, web_service())
    session.put(ENDPOINT_SLICES, sliced())
    session.at(2, session.put, ENDPOINT_SLICES, sliced(endpoint("a")))

    (found,) = kw.wait_for_endpoint_count(client, "ci-1", "web", 1, mode=mode)

    assert (found["apiVersion"], found["kind"]) == ("discovery.k8s.io/v1", "EndpointSlice")
    assert found["ports"] == [PORT]
    assert session.clock.monotonic() == 4.0, "no controller says that the number is final"
    if mode == "watch":
        assert len(session.requests) == 12, "everything is listed once more at the end"


@MODES
def test_pods_ports_node_and_slices(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(SERVICES, web_service())
    session.put(ENDPOINT_SLICES, sliced(endpoint("a")))

    def one(slices: list[dict[str, Any]]) -> bool:
        return len(slices) == 1

    assert kw.wait_for_endpoint_pods(client, "ci-1", "web", ["a"], mode=mode)
    assert kw.wait_for_endpoint_ports(client, "ci-1", "web", {"a": [8080]}, mode=mode)
    assert kw.wait_for_endpoint_on_node(client, "ci-1", "web", "node-1", mode=mode)
    assert kw.wait_for_endpoint_slices(client, "ci-1", "web", one, mode=mode)


@MODES
def test_pods_of_endpoints_may_be_followed_by_name(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    session.put(SERVICES, web_service({"port": 80, "targetPort": 8080}))
    session.put(ENDPOINT_SLICES, sliced(endpoint("a")))
    other = {"metadata": {"name": "a", "uid": "old"}}

    with pytest.raises(WaitTimeout):
        kw.wait_for_endpoint_pods(client, "ci-1", "web", [other], mode=mode, timeout=1)
    assert kw.wait_for_endpoint_pods(client, "ci-1", "web", [other], mode=mode, follow_name=True)


def test_a_service_that_is_late_says_why(client: ApiClient, session: FakeSession) -> None:
    session.put(SERVICES, web_service({"port": 80, "targetPort": "htp"}))
    session.put(ENDPOINT_SLICES, sliced())
    session.put(PODS, member("a"))

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_endpoint_count(client, "ci-1", "web", 1, timeout=3)

    assert str(caught.value) == (
        "service ci-1/web did not have 1 endpoint within 3s: 0 of 1 endpoints: no pod "
        "has a port\n"
        "    named htp, which the service wants\n"
        "  awaited   service ci-1/web to have 1 endpoint\n"
        "  limit     3s, ended after 3s (watch mode)\n"
        "  seen      0 endpoints, 0 ready; pods: 1 Running\n"
        "  pods\n"
        "    a Running on node-1, ready\n"
        "  try: kubectl --namespace ci-1 describe services/web"
    )


def test_a_service_that_goes(client: ApiClient, session: FakeSession) -> None:
    session.put(SERVICES, web_service())
    session.at(2, session.drop, SERVICES, "web")

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_endpoint_pods(client, "ci-1", "web", ["a"])

    assert caught.value.args == (
        "service ci-1/web can no longer have endpoints at a alone: the service was deleted",
    )


HEADLINES = [
    ("wait_for_endpoint_count", (2,), "have 2 endpoints", "no EndpointSlice yet"),
    ("wait_for_endpoint_pods", ([],), "have no endpoint at a pod", "no EndpointSlice yet"),
    (
        "wait_for_endpoint_pods",
        (list("abcdefg"),),
        "have endpoints at a, b, c, d, e and 2 more alone",
        "no EndpointSlice yet",
    ),
    (
        "wait_for_endpoint_ports",
        ({"a": [80, "d:53/UDP"]},),
        "serve at a:80,d:53/UDP alone",
        "no EndpointSlice yet",
    ),
    ("wait_for_endpoint_ports", ({},), "serve at no pod", "no EndpointSlice yet"),
    (
        "wait_for_endpoint_on_node",
        ("n",),
        "have its endpoints on node n",
        "0 of 0 endpoints ready",
    ),
    ("wait_for_service_reachable", (), "become reachable", "no endpoint is ready"),
    ("wait_for_service_responding", (), "respond", "no endpoint is ready"),
]


@pytest.mark.parametrize(("name", "arguments", "goal", "missing"), HEADLINES)
def test_headlines(client: ApiClient, name: str, arguments: Any, goal: str, missing: str) -> None:
    with pytest.raises(WaitTimeout) as caught:
        getattr(kw, name)(client, "ci-1", "web", *arguments, timeout=2)

    assert caught.value.args == (
        f"service ci-1/web did not {goal} within 2s: {missing}: there is no service of that name",
    )


PORTS = "use a number from 1 to 65535, or a text like 'http:8080' or 'dns:53/UDP'"
BAD: list[tuple[str, Any, str]] = [
    (
        "wait_for_endpoint_count",
        (-1,),
        "count=-1 is not valid: use a whole number, 0 or more",
    ),
    (
        "wait_for_endpoint_pods",
        (3,),
        "pods=3 is not valid: use names or objects of kind Pod, or a list of these, such as a "
        "PodList",
    ),
    (
        "wait_for_endpoint_ports",
        (["a"],),
        "ports=['a'] is not valid: use a mapping of pods to lists of ports",
    ),
    (
        "wait_for_endpoint_ports",
        ({"a": 80},),
        "ports=80 is not valid: use a list of ports for each pod",
    ),
    ("wait_for_endpoint_ports", ({"a": [0]},), f"ports=0 is not valid: {PORTS}"),
    ("wait_for_endpoint_ports", ({"a": [True]},), f"ports=True is not valid: {PORTS}"),
    ("wait_for_endpoint_ports", ({"a": ["80/tcp"]},), f"ports='80/tcp' is not valid: {PORTS}"),
    (
        "wait_for_endpoint_slices",
        ("ready",),
        "condition='ready' is not valid: use a callable that is given the list of slices",
    ),
    (
        "wait_for_service_reachable",
        (0,),
        "port=0 is not valid: use a number from 1 to 65535, a port's name, or None",
    ),
    (
        "wait_for_service_responding",
        ("a/b",),
        "port='a/b' is not valid: use a number from 1 to 65535, a port's name, or None",
    ),
    (
        "wait_for_service_responding",
        (80, None),
        "path=None is not valid: use a text, for example 'healthz'",
    ),
    (
        "wait_for_service_responding",
        (80, "", "ftp"),
        "scheme='ftp' is not valid: use 'http' or 'https'",
    ),
]


@pytest.mark.parametrize(("name", "arguments", "text"), BAD)
def test_bad_input(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, text: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        getattr(kw, name)(client, "ci-1", "web", *arguments)

    assert str(caught.value) == text
    assert session.requests == []


def test_names_of_services_are_labels(client: ApiClient, session: FakeSession) -> None:
    with pytest.raises(InvalidArgument, match=r"service='a\.b' is not valid: use a DNS label"):
        kw.wait_for_endpoint_count(client, "ci-1", "a.b", 1)
    with pytest.raises(InvalidArgument, match="node='N' is not valid: use a DNS name"):
        kw.wait_for_endpoint_on_node(client, "ci-1", "a", "N")
    assert session.requests == []


class Proxy:
    """Answers requests to the service proxy."""

    def __init__(self, session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: Any = b"hello"
        self.asked: list[str] = []
        monkeypatch.setattr(session, "request", self.request)

    def request(self, method: str, path: str, **_: Any) -> Response:
        self.asked.append(path)
        if isinstance(self.answer, Exception):
            raise self.answer
        return Response(200, {}, self.answer)

    def say(self, answer: Any) -> None:
        self.answer = answer


@pytest.fixture
def proxy(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    return Proxy(session, monkeypatch)


def status(message: str, code: int = 503, reason: str = "ServiceUnavailable") -> ApiError:
    body = {"kind": "Status", "message": message}
    return ApiError(message, status=code, reason=reason, body=body)


WEB = "/api/v1/namespaces/ci-1/services"


@MODES
def test_responding(client: ApiClient, session: FakeSession, proxy: Proxy, mode: Any) -> None:
    session.put(SERVICES, web_service({"port": 80}, {"port": 81}))
    session.put(ENDPOINT_SLICES, sliced(endpoint("a", ready=False)))
    session.at(2, session.put, ENDPOINT_SLICES, sliced(endpoint("a")))
    proxy.say(status("error trying to reach service: refused"))
    session.at(3, proxy.say, b"hello")

    (found,) = kw.wait_for_service_responding(client, "ci-1", "web", mode=mode)

    assert found["kind"] == "EndpointSlice"
    assert proxy.asked == [f"{WEB}/web:80/proxy/"] * 2
    assert session.clock.monotonic() == 4.0


def test_path_of_the_service_proxy(client: ApiClient, session: FakeSession, proxy: Proxy) -> None:
    session.put(SERVICES, web_service({"port": 80}))
    session.put(ENDPOINT_SLICES, sliced(endpoint("a")))

    kw.wait_for_service_responding(client, "ci-1", "web", "admin", "/health/z", "https")
    kw.wait_for_service_reachable(client, "ci-1", "web", 8080)
    session.put(SERVICES, web_service())
    kw.wait_for_service_reachable(client, "ci-1", "web")

    assert proxy.asked == [
        f"{WEB}/https:web:admin/proxy/health/z",
        f"{WEB}/web:8080/proxy/",
        f"{WEB}/web:/proxy/",
    ]


@pytest.mark.parametrize(
    ("answer", "reachable", "reason"),
    [
        (b" ", True, "it answered nothing"),
        (ApiError("Not Found", status=404), True, "it answered 404: Not Found"),
        (ApiError("moved", status=302), True, "it answered 302: moved"),
        (ApiError("broken", status=500), True, "it answered 500: broken"),
        (status("no endpoints available"), False, "it answered 503: no endpoints available"),
        (status("no", 404, "NotFound"), False, "it answered 404: no"),
        (ApiError("cut", reason="Timeout"), False, "it answered Timeout: cut"),
    ],
)
def test_answers(
    client: ApiClient,
    session: FakeSession,
    proxy: Proxy,
    answer: Any,
    reachable: bool,
    reason: str,
) -> None:
    session.put(SERVICES, web_service({"port": 80}))
    session.put(ENDPOINT_SLICES, sliced(endpoint("a")))
    session.put(PODS, member("a"))
    proxy.say(answer)

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_service_responding(client, "ci-1", "web", timeout=3)
    assert caught.value.args == (
        f"service ci-1/web did not respond within 3s: {reason}: 1 Running",
    )
    if reachable:
        assert kw.wait_for_service_reachable(client, "ci-1", "web")
    else:
        with pytest.raises(WaitTimeout, match="did not become reachable within 3s"):
            kw.wait_for_service_reachable(client, "ci-1", "web", timeout=3)


def test_answers_that_end_the_wait(client: ApiClient, session: FakeSession, proxy: Proxy) -> None:
    session.put(SERVICES, web_service({"port": 80}))
    session.put(ENDPOINT_SLICES, sliced(endpoint("a")))
    proxy.say(status("may not", 403, "Forbidden"))

    with pytest.raises(ApiError, match="may not"):
        kw.wait_for_service_reachable(client, "ci-1", "web")
    stuck = member("a", "Pending", waiting=("InvalidImageName", "no"))
    session.put(PODS, stuck)
    session.put(ENDPOINT_SLICES, sliced(endpoint("a", ready=False)))
    with pytest.raises(WaitFailed, match="pod a: InvalidImageName: no"):
        kw.wait_for_service_reachable(client, "ci-1", "web")


def test_a_terminating_service_is_still_requested(
    client: ApiClient, session: FakeSession, proxy: Proxy
) -> None:
    gone = {**web_service({"port": 80}), "metadata": {"name": "web", "deletionTimestamp": "now"}}
    session.put(SERVICES, gone)
    session.put(ENDPOINT_SLICES, sliced(endpoint("a")))

    assert kw.wait_for_service_reachable(client, "ci-1", "web")
