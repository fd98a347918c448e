"""Faults as a test asks for them; what they do is shown where they are served."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.clusters.faults import Faults, FaultScope
from pytest_kwait.errors import ApiError, ClusterError, InvalidArgument, KwaitError
from tests.clusters.fault_transport import HOLD, SERVER, FaultTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import ApiSession


@pytest.fixture
def transport() -> FaultTransport:
    return FaultTransport()


def faults_of(
    transport: FaultTransport, namespace: str = "t", client: Any = None, *, alone: bool = True
) -> Faults:
    place = FaultScope(namespace, cast("ApiClient | None", client), alone)
    session = cast("ApiSession", SimpleNamespace(transport=transport))
    return Faults(lambda: session, SERVER, lambda: place)


def body(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, **more, "holder": "h1"}


WHOLE = {"resources": [], "verbs": [], "namespace": "t"}
MEANT: list[tuple[Callable[[Faults], object], dict[str, Any]]] = [
    (
        lambda faults: faults.refuse(429, retry_after=2, times=3, verbs=["list"]),
        body("refusal", status=429, retryAfter=2, times=3, **{**WHOLE, "verbs": ["list"]}),
    ),
    (
        lambda faults: faults.refuse(500, target="all", resources=["pods"]),
        body("refusal", status=500, resources=["pods"], verbs=[]),
    ),
    (
        lambda faults: faults.delay("200ms", namespace="other"),
        body("latency", seconds=0.2, **{**WHOLE, "namespace": "other"}),
    ),
    (lambda faults: faults.cut_watches(), body("cut-watches", **WHOLE)),
    (lambda faults: faults.expire_history(), body("expired-history", **WHOLE)),
    (
        lambda faults: faults.slow_pulls("1s", image="nginx"),
        body("pulls", seconds=1.0, namespace="t", image="nginx"),
    ),
    (
        lambda faults: faults.slow_pulls("1s", namespace=""),
        body("pulls", seconds=1.0, namespace="", image=""),
    ),
    (
        lambda faults: faults.fail_pulls(),
        body(
            "pulls",
            message="failed to do request: dial tcp: i/o timeout",
            namespace="t",
            image="",
        ),
    ),
    (
        lambda faults: faults.run_out_of_memory("p", "c"),
        body("out-of-memory", namespace="t", pod="p", container="c"),
    ),
    (lambda faults: faults.partition_node("n"), body("partition", node="n")),
    (lambda faults: faults.stop_kubelet("n"), body("dead-kubelet", node="n")),
    (lambda faults: faults.pressure("n", "disk"), body("pressure", node="n", resource="disk")),
    (lambda faults: faults.jump_clock("1h"), body("clock-jump", seconds=3600.0)),
    (lambda faults: faults.jump_clock("-90s"), body("clock-jump", seconds=-90.0)),
    (lambda faults: faults.jump_clock(-5), body("clock-jump", seconds=-5.0)),
]


@pytest.mark.parametrize(("make", "asked"), MEANT)
def test_requests_of_faults(
    transport: FaultTransport, make: Callable[[Faults], object], asked: dict[str, Any]
) -> None:
    make(faults_of(transport))
    assert transport.asked == [HOLD, ("POST", "/kwait/v1/faults", asked)]


BAD: list[tuple[Callable[[Faults], object], str]] = [
    (lambda faults: faults.refuse(404), "status=404 is not valid: 429 or 500"),
    (
        lambda faults: faults.refuse(500, retry_after=1),
        "retry_after=1 is not valid: whole seconds above 0, with 429",
    ),
    (
        lambda faults: faults.refuse(429, retry_after=0),
        "retry_after=0 is not valid: whole seconds above 0, with 429",
    ),
    (
        lambda faults: faults.refuse(500, times=0),
        "times=0 is not valid: a whole number above 0",
    ),
    (
        lambda faults: faults.refuse(500, target=cast("Any", "me")),
        "target='me' is not valid: one of namespace, client, all",
    ),
    (
        lambda faults: faults.refuse(500, target="all", namespace="a"),
        "namespace='a' is not valid: given with target='namespace' alone",
    ),
    (lambda faults: faults.refuse(500, verbs="list"), "verbs='list' is not valid: a list"),
    (
        lambda faults: faults.cut_watches(resources="pods"),
        "resources='pods' is not valid: a list",
    ),
    (
        lambda faults: faults.refuse(500, target="client"),
        "target='client' is not valid: namespace or all, as this test has no client",
    ),
    (
        lambda faults: faults.delay(0),
        "seconds=0 is not valid: use seconds (90), a timedelta, or a Go duration ('500ms', "
        "'90s', '1m30s'), above zero",
    ),
    (
        lambda faults: faults.fail_pulls(""),
        "message='' is not valid: what the container runtime says",
    ),
    (
        lambda faults: faults.pressure("n", cast("Any", "cpu")),
        "resource='cpu' is not valid: disk or memory",
    ),
    (
        lambda faults: faults.jump_clock(0),
        "seconds=0.0 is not valid: use seconds (90), a timedelta, or a Go duration ('500ms', "
        "'90s', '1m30s'), above zero",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_invalid_arguments_are_refused_before_any_request(
    transport: FaultTransport, make: Callable[[Faults], object], message: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make(faults_of(transport))
    assert str(caught.value) == message
    assert transport.asked == []


def test_a_test_without_a_namespace_must_name_one(transport: FaultTransport) -> None:
    faults = faults_of(transport, "")
    with pytest.raises(InvalidArgument) as caught:
        faults.refuse(500)
    assert str(caught.value) == (
        "namespace=None is not valid: the namespace that the fault is for, as this test has none "
        "of its own"
    )
    faults.refuse(500, namespace="a")


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda faults: faults.partition_node("n"), "partition_node"),
        (lambda faults: faults.stop_kubelet("n"), "stop_kubelet"),
        (lambda faults: faults.pressure("n", "memory"), "pressure"),
        (lambda faults: faults.jump_clock("1h"), "jump_clock"),
        (lambda faults: faults.refuse(500, target="all"), "refuse(target='all')"),
        (lambda faults: faults.delay("1s", target="all"), "delay(target='all')"),
        (lambda faults: faults.cut_watches(target="all"), "cut_watches(target='all')"),
        (lambda faults: faults.expire_history(target="all"), "expire_history(target='all')"),
        (lambda faults: faults.slow_pulls(1, namespace=""), 'slow_pulls(namespace="")'),
        (lambda faults: faults.fail_pulls(namespace=""), 'fail_pulls(namespace="")'),
    ],
)
def test_cluster_wide_faults_need_serial_tests(
    transport: FaultTransport, make: Callable[[Faults], object], what: str
) -> None:
    with pytest.raises(KwaitError) as caught:
        make(faults_of(transport, alone=False))
    assert str(caught.value) == (
        f"faults.{what} disturbs every test on the cluster: mark this one with "
        "@pytest.mark.kwait_disruptive, and it runs alone"
    )
    assert transport.asked == []


def test_client_header_is_set_while_faults_need_it(transport: FaultTransport) -> None:
    client = SimpleNamespace(default_headers={})
    faults = faults_of(transport, client=client)
    faults.refuse(500, target="client")
    name = client.default_headers["Kwait-Client"]
    assert transport.asked[-1][2]["client"] == name
    faults.delay("1s", target="client")
    assert transport.asked[-1][2]["client"] == name
    faults.undo_all()
    assert client.default_headers == {}


def test_a_fault_ends_with_its_block_or_its_test_and_once(transport: FaultTransport) -> None:
    faults = faults_of(transport)
    first, second, third = (faults.refuse(500) for _ in range(3))
    assert (first.hits, transport.open_holds) == (7, 1)
    del transport.asked[:]
    with second:
        pass
    second.undo()
    assert transport.asked == [("DELETE", "/kwait/v1/faults/f3", None)]
    faults.undo_all()
    assert [path for _, path, _ in transport.asked[1:]] == [
        "/kwait/v1/faults/f4",
        "/kwait/v1/faults/f2",
    ]
    assert transport.open_holds == 0
    third.undo()
    faults.undo_all()
    assert len(transport.asked) == 3
    with pytest.raises(KwaitError) as caught:
        _ = first.hits
    assert str(caught.value) == "this fault has ended: its count is no longer kept"


@pytest.mark.parametrize(
    ("status", "why"), [(404, "has none to offer"), (403, "does not let us make them")]
)
def test_other_clusters_have_no_faults(status: int, why: str) -> None:
    transport = FaultTransport(status)
    with pytest.raises(ClusterError) as caught:
        faults_of(transport).refuse(500)
    assert str(caught.value) == (
        "faults are made on the embedded cluster alone, and as an administrator: "
        f"https://127.0.0.1:6443 {why} ({status}); keep the test from running there"
    )


def test_ended_faults_can_be_undone(transport: FaultTransport) -> None:
    faults = faults_of(transport)
    fault = faults.refuse(500)
    transport.refusal = 404
    fault.undo()
    faults.undo_all()
    assert transport.open_holds == 0


def test_the_connection_ends_where_a_fault_cannot_be_ended(transport: FaultTransport) -> None:
    faults = faults_of(transport)
    faults.refuse(500)
    transport.refusal = 503
    with pytest.raises(ApiError):
        faults.undo_all()
    assert transport.open_holds == 0
