"""Waits on APIServices and HorizontalPodAutoscalers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import HORIZONTAL_POD_AUTOSCALERS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.errors import InvalidArgument, WaitTimeout
from pytest_kwait.framework.cluster.api_server import AvailableService
from pytest_kwait.framework.cluster.hpa import ScaledReplicas
from tests.objects import condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])


def available(status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    return condition("Available", status, reason=reason, message=message)


MISSING = 'service/api in "ci-1" is not present'


@pytest.mark.parametrize(
    ("conditions", "verdict"),
    [
        ([available("True", "Passed")], Met()),
        (None, Pending("no condition Available yet")),
        (
            [available("False", "MissingEndpoints", "none")],
            Pending("Available is False: MissingEndpoints: none"),
        ),
        (
            [available("Unknown", "ServiceAccessError", "timeout")],
            Pending("Available is Unknown: ServiceAccessError: timeout"),
        ),
        (
            [available("False", "ServiceNotFound", MISSING)],
            Failed(f"Available is False: ServiceNotFound: {MISSING}", Grace.LONG),
        ),
        (
            [available("False", "ServicePortError", "not 443")],
            Failed("Available is False: ServicePortError: not 443", Grace.LONG),
        ),
    ],
)
def test_api_services(conditions: Any, verdict: Verdict) -> None:
    awaited = AvailableService("v1.example.com")
    assert awaited.verdict() == Pending("not found yet")
    obj = {"metadata": {"name": "v1.example.com", "uid": "u"}, "status": {"conditions": conditions}}
    awaited.sources()[0].sink.put(obj, b"{}", 0.0)

    assert awaited.verdict() == verdict


def hpa(spec: Any = None, generation: int = 1, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "uid": "u", "generation": generation},
        "spec": spec or {"minReplicas": 1, "maxReplicas": 10},
        "status": status,
    }


METRICS = condition(
    "ScalingActive", "False", reason="FailedGetResourceMetric", message="no metrics"
)
LOST = condition("AbleToScale", "False", reason="FailedGetScale", message="deployments not found")
OFF = condition("ScalingActive", "False", reason="ScalingDisabled", message="zero replicas")


@pytest.mark.parametrize(
    ("obj", "verdict"),
    [
        (hpa(currentReplicas=3, desiredReplicas=3), Met()),
        (hpa(currentReplicas=3, desiredReplicas=4), Met()),
        (hpa(currentReplicas=3, desiredReplicas=5), Pending("it counts 3 and wants 5")),
        (hpa(currentReplicas=2, desiredReplicas=3), Pending("it counts 2 and wants 3")),
        (hpa(), Pending("it has not looked at its target yet")),
        (
            hpa(conditions=[LOST]),
            Failed("AbleToScale is False: FailedGetScale: deployments not found", Grace.LONG),
        ),
        (
            hpa(generation=2, currentReplicas=3, desiredReplicas=3, observedGeneration=1),
            Pending("its status is of generation 1, not yet of 2"),
        ),
        (
            hpa(currentReplicas=1, desiredReplicas=1, conditions=[METRICS]),
            Pending(
                "it counts 1 and wants 1; ScalingActive is False: FailedGetResourceMetric: no "
                "metrics"
            ),
        ),
        (
            hpa(currentReplicas=1, conditions=[OFF]),
            Failed("ScalingActive is False: ScalingDisabled: zero replicas", Grace.LONG),
        ),
        (
            hpa({"maxReplicas": 2}, currentReplicas=1, desiredReplicas=1),
            Failed("it keeps 1 to 2 replicas", Grace.LONG),
        ),
        (
            hpa({"minReplicas": 5, "maxReplicas": 9}, currentReplicas=5, desiredReplicas=5),
            Failed("it keeps 5 to 9 replicas", Grace.LONG),
        ),
        (
            {"metadata": {"name": "web", "uid": "u"}, "status": None},
            Pending("it has not looked at its target yet"),
        ),
    ],
)
def test_autoscalers(obj: Any, verdict: Verdict) -> None:
    awaited = ScaledReplicas("ci-1", "web", 3, 4)
    assert awaited.verdict() == Pending("not found yet")
    awaited.sources()[0].sink.put(obj, b"{}", 0.0)

    assert awaited.verdict() == verdict


@MODES
def test_an_autoscaler_that_scales(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(HORIZONTAL_POD_AUTOSCALERS, hpa(currentReplicas=1, desiredReplicas=2))
    session.at(
        4, session.put, HORIZONTAL_POD_AUTOSCALERS, hpa(currentReplicas=2, desiredReplicas=2)
    )

    found = kw.wait_for_hpa_replicas(client, "ci-1", "web", 2, mode=mode)

    assert found["kind"] == "HorizontalPodAutoscaler"
    assert session.clock.monotonic() == 4.0
    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_hpa_replicas(client, "ci-1", "web", 1, timeout=2)
    assert caught.value.args == (
        "horizontalpodautoscaler ci-1/web did not have 1 replica within 2s: it counts 2 and wants "
        "2",
    )


BAD: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    (
        kw.wait_for_hpa_replicas,
        ("ci-1", "web", 3, 2),
        "max_replicas=2 is not valid: use min_replicas=3 or more",
    ),
    (
        kw.wait_for_hpa_replicas,
        ("ci-1", "web", -1),
        "min_replicas=-1 is not valid: use a whole number, 0 or more",
    ),
    (
        kw.wait_for_api_service_available,
        ("apps",),
        "api_service='apps' is not valid: use <version>.<group>, for example v1.apps",
    ),
]


@pytest.mark.parametrize(("wait", "arguments", "text"), BAD)
def test_bad_input(
    client: ApiClient, session: FakeSession, wait: Any, arguments: Any, text: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        wait(client, *arguments)

    assert (str(caught.value), session.requests) == (text, [])
