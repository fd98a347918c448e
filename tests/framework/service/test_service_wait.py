"""Waits on a Service: load balancer, finalizer, deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import EVENTS, SERVICES
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.framework.service import (
    wait_for_load_balancer,
    wait_for_load_balancer_destroy,
    wait_for_new_ingress_ip,
    wait_for_service,
    wait_for_service_deleted_with_finalizer,
    wait_for_service_updated_with_finalizer,
)
from tests.framework.sources import enter

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

SHORT, LONG = Grace.SHORT, Grace.LONG
MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
UNTOUCHED = (
    "no ingress yet, and no controller works on one"
    " (on the embedded cluster: --kwait-load-balancers)"
)
IP, HOST = {"ip": "192.0.2.7"}, {"hostname": "lb.example"}


def balanced(*ingress: Any, kind: str = "LoadBalancer", **metadata: Any) -> Any:
    return {
        "metadata": {"name": "web", **metadata},
        "spec": {"type": kind},
        "status": {"loadBalancer": {"ingress": list(ingress)}},
    }


DELETING = {"deletionTimestamp": "now"}
SYNC_FAILED = {
    "metadata": {"name": "web.1", "namespace": "ci-1"},
    "involvedObject": {"kind": "Service", "name": "web", "uid": "s-1"},
    "reason": "SyncLoadBalancerFailed",
    "message": "Error syncing load balancer: quota exceeded",
    "lastTimestamp": "2026-01-01T00:00:00Z",
}
ROWS: dict[str, tuple[Any, Any, Verdict]] = {
    "no service": (condition_of(wait_for_load_balancer), None, Pending("not found yet")),
    "no ingress": (condition_of(wait_for_load_balancer), balanced(), Pending(UNTOUCHED)),
    "no ingress yet from a service controller": (
        condition_of(wait_for_load_balancer),
        balanced(finalizers=[FINALIZER]),
        Pending("no ingress yet"),
    ),
    "no ingress of a class": (
        condition_of(wait_for_load_balancer),
        {"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer", "loadBalancerClass": "x/y"}},
        Pending("no ingress yet, of load balancer class x/y"),
    ),
    "ingress": (condition_of(wait_for_load_balancer), balanced(IP, HOST), Met()),
    "ingress without address": (
        condition_of(wait_for_load_balancer),
        balanced(IP, {}),
        Pending("ingress 1 has neither an IP nor a hostname"),
    ),
    "of another type": (
        condition_of(wait_for_load_balancer),
        balanced(IP, kind="NodePort"),
        Failed("the service is of type NodePort, which gets no load balancer", LONG),
    ),
    "of no type": (
        condition_of(wait_for_load_balancer),
        {"metadata": {"name": "web"}, "spec": None, "status": None},
        Failed("the service is of type ClusterIP, which gets no load balancer", LONG),
    ),
    "ingress of a service that goes": (
        condition_of(wait_for_load_balancer),
        balanced(**DELETING),
        Failed("the service is being deleted", SHORT),
    ),
    "the ingress of before": (
        lambda ns, name: condition_of(wait_for_new_ingress_ip)(ns, name, "192.0.2.7"),
        balanced(IP),
        Pending("ingress is 192.0.2.7 still"),
    ),
    "another ingress": (
        lambda ns, name: condition_of(wait_for_new_ingress_ip)(ns, name, "192.0.2.7"),
        balanced(HOST),
        Met(),
    ),
    "another ingress without address": (
        lambda ns, name: condition_of(wait_for_new_ingress_ip)(ns, name, "192.0.2.7"),
        balanced({}),
        Pending("no ingress yet"),
    ),
    "another ingress of another type": (
        lambda ns, name: condition_of(wait_for_new_ingress_ip)(ns, name, "192.0.2.7"),
        balanced(kind="ClusterIP"),
        Failed("the service is of type ClusterIP, which gets no load balancer", LONG),
    ),
    "destroyed": (condition_of(wait_for_load_balancer_destroy), balanced(kind="ClusterIP"), Met()),
    "not destroyed": (
        condition_of(wait_for_load_balancer_destroy),
        balanced(IP, HOST, **DELETING),
        Pending("still has ingress 192.0.2.7, lb.example"),
    ),
    "destroyed, not there": (condition_of(wait_for_load_balancer_destroy), None, Met()),
    "the finalizer": (
        condition_of(wait_for_service_updated_with_finalizer),
        balanced(finalizers=["a", FINALIZER]),
        Met(),
    ),
    "no finalizer": (
        condition_of(wait_for_service_updated_with_finalizer),
        balanced(finalizers=["a"]),
        Pending(f"{FINALIZER} is not there, it has a"),
    ),
    "no finalizer on what goes": (
        condition_of(wait_for_service_updated_with_finalizer),
        balanced(**DELETING),
        Failed("the service is being deleted", SHORT),
    ),
    "the finalizer still": (
        lambda ns, name: condition_of(wait_for_service_updated_with_finalizer)(ns, name, False),
        balanced(finalizers=[FINALIZER], **DELETING),
        Pending(f"{FINALIZER} is still there"),
    ),
    "the finalizer no more": (
        lambda ns, name: condition_of(wait_for_service_updated_with_finalizer)(ns, name, False),
        balanced(finalizers=None),
        Met(),
    ),
    "deleted": (condition_of(wait_for_service_deleted_with_finalizer), None, Met()),
    "another": (
        lambda ns, name: condition_of(wait_for_service_deleted_with_finalizer)(ns, name, "before"),
        balanced(),
        Met(),
    ),
    "not deleted": (
        condition_of(wait_for_service_deleted_with_finalizer),
        balanced(),
        Pending("still there, not being deleted"),
    ),
    "held": (
        condition_of(wait_for_service_deleted_with_finalizer),
        balanced(IP, finalizers=[FINALIZER, "a/b"], **DELETING),
        Pending(
            f"being deleted, held by {FINALIZER} (its load balancer 192.0.2.7 is there still) and"
            " a/b"
        ),
    ),
    "exists": (condition_of(wait_for_service), balanced(), Met()),
    "exists not": (lambda ns, name: condition_of(wait_for_service)(ns, name, False), None, Met()),
}


@pytest.mark.parametrize("name", ROWS)
def test_verdict(name: str) -> None:
    make, obj, verdict = ROWS[name]
    awaited = make("ci-1", "web")
    if obj is not None:
        enter(awaited, obj)

    assert awaited.verdict() == verdict


@MODES
def test_from_call_to_result(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(SERVICES, balanced())
    session.at(2, session.put, SERVICES, balanced(IP, finalizers=[FINALIZER]))
    session.at(4, session.put, SERVICES, balanced(HOST, finalizers=[FINALIZER]))
    session.at(6, session.put, SERVICES, balanced())
    session.at(8, session.drop, SERVICES, "web")
    first = (client, "ci-1", "web")

    found = kw.wait_for_load_balancer(*first, mode=mode)
    assert found["status"]["loadBalancer"]["ingress"] == [IP]
    finalized = kw.wait_for_service_updated_with_finalizer(*first, mode=mode)
    assert finalized is not None
    assert finalized["kind"] == "Service"
    assert session.clock.monotonic() == 2.0
    found = kw.wait_for_new_ingress_ip(*first, "192.0.2.7", mode=mode)
    assert found["status"]["loadBalancer"]["ingress"] == [HOST]
    assert session.clock.monotonic() == 4.0
    destroyed = kw.wait_for_load_balancer_destroy(*first, mode=mode)
    assert destroyed is not None
    assert destroyed["metadata"]["name"] == "web"
    assert kw.wait_for_service(*first, mode=mode) == destroyed
    assert kw.wait_for_service_updated_with_finalizer(*first, False, mode=mode) == destroyed
    assert session.clock.monotonic() == 6.0
    kw.wait_for_service_deleted_with_finalizer(*first, mode=mode)
    assert session.clock.monotonic() == 8.0
    assert kw.wait_for_service(*first, present=False, mode=mode) is None


@MODES
def test_a_service_deleted_while_it_is_awaited(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    session.put(SERVICES, balanced(IP, finalizers=[FINALIZER]))
    session.at(2, session.drop, SERVICES, "web")

    assert kw.wait_for_load_balancer_destroy(client, "ci-1", "web", mode=mode) is None
    session.put(SERVICES, balanced())
    session.at(2, session.drop, SERVICES, "web")
    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_load_balancer(client, "ci-1", "web", mode=mode)

    assert caught.value.args == (
        "service ci-1/web can no longer have a load balancer: the service was deleted",
    )


def test_a_service_of_another_type(client: ApiClient, session: FakeSession) -> None:
    session.put(SERVICES, balanced(kind="NodePort"))

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_load_balancer(client, "ci-1", "web")

    assert session.clock.monotonic() == 45.0
    assert str(caught.value) == (
        "service ci-1/web can no longer have a load balancer: the service is of type NodePort,"
        " which\n"
        "    gets no load balancer\n"
        "  awaited   service ci-1/web to have a load balancer\n"
        "  limit     15m0s, ended after 45s (watch mode)\n"
        "  seen      NodePort\n"
        "  timeline\n"
        "       0.0s  final if it holds for 45s: the service is of type NodePort, which "
        "gets no lo...\n"
        "      45.0s  the service is of type NodePort, which gets no load balancer\n"
        "  try: kubectl --namespace ci-1 describe services/web"
    )


@MODES
def test_errors_of_the_service_controller_end_the_wait(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    """It tries again for ever, so the last error counts once it has lasted."""
    session.put(SERVICES, balanced(uid="s-1", finalizers=[FINALIZER]))
    session.put(EVENTS, SYNC_FAILED)

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_load_balancer(client, "ci-1", "web", mode=mode)

    assert caught.value.args == (
        "service ci-1/web can no longer have a load balancer: SyncLoadBalancerFailed: Error"
        " syncing load balancer: quota exceeded",
    )
    assert session.clock.monotonic() < 60


def test_an_error_that_the_service_controller_overcomes(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(SERVICES, balanced(uid="s-1", finalizers=[FINALIZER]))
    session.put(EVENTS, SYNC_FAILED)
    session.at(20, session.put, SERVICES, balanced(IP, uid="s-1", finalizers=[FINALIZER]))

    found = kw.wait_for_load_balancer(client, "ci-1", "web")

    assert found["status"]["loadBalancer"]["ingress"] == [IP]
    assert session.clock.monotonic() == 20.0


HEADLINES = [
    ("wait_for_load_balancer", (), f"have a load balancer within 2s: {UNTOUCHED}"),
    (
        "wait_for_new_ingress_ip",
        ("192.0.2.7",),
        f"have another ingress than 192.0.2.7 within 2s: {UNTOUCHED}",
    ),
    (
        "wait_for_service_updated_with_finalizer",
        (),
        f"have finalizer {FINALIZER} within 2s: {FINALIZER} is not there",
    ),
    (
        "wait_for_service_deleted_with_finalizer",
        (),
        "go away within 2s: still there, not being deleted",
    ),
    ("wait_for_service", (False,), "go away within 2s: still there, not being deleted"),
]


@pytest.mark.parametrize(("name", "arguments", "text"), HEADLINES)
def test_headlines(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, text: str
) -> None:
    session.put(SERVICES, balanced())

    with pytest.raises(WaitTimeout) as caught:
        getattr(kw, name)(client, "ci-1", "web", *arguments, timeout=2)

    assert caught.value.args == (f"service ci-1/web did not {text}",)


def test_headlines_of_deleted_services(client: ApiClient, session: FakeSession) -> None:
    session.put(SERVICES, balanced(IP, finalizers=[FINALIZER]))

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_load_balancer_destroy(client, "ci-1", "web", timeout=2)
    assert caught.value.args == (
        "service ci-1/web did not lose its load balancer within 2s: still has ingress 192.0.2.7",
    )
    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_service_updated_with_finalizer(client, "ci-1", "web", False, timeout=2)
    assert caught.value.args == (
        f"service ci-1/web did not lose finalizer {FINALIZER} within 2s: {FINALIZER} is still"
        " there",
    )
    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_service(client, "ci-1", "api", timeout=2)
    assert caught.value.args[0].startswith(
        "service ci-1/api did not get created within 2s: not found yet"
    )


BAD: list[tuple[str, tuple[Any, ...], str]] = [
    ("wait_for_new_ingress_ip", ("web", ""), "existing_ip='' is not valid: use a text"),
    (
        "wait_for_service_updated_with_finalizer",
        ("web", "yes"),
        "present='yes' is not valid: use True or False",
    ),
    ("wait_for_service_deleted_with_finalizer", ("web", ""), "uid='' is not valid: use a text"),
    ("wait_for_service", ("web", None), "present=None is not valid: use True or False"),
]


@pytest.mark.parametrize(("name", "arguments", "text"), BAD)
def test_bad_input(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, text: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        getattr(kw, name)(client, "ci-1", *arguments)

    assert str(caught.value) == text
    assert session.requests == []


def test_names_are_labels(client: ApiClient, session: FakeSession) -> None:
    for name in ("wait_for_load_balancer", "wait_for_service_deleted_with_finalizer"):
        for where, what in (("CI", "web"), ("ci-1", "a.b")):
            with pytest.raises(InvalidArgument, match="use a DNS label"):
                getattr(kw, name)(client, where, what)
    assert session.requests == []
