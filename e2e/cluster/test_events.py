"""Waiting for events about an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.objects import container, pod
from e2e.raising import times_out
from pytest_kwait import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_an_event_of_a_pod(kwait: Kwait) -> None:
    """Selected by object, reason and text of the message; past events count."""
    kwait.create(pod("web"), pod("other"))

    scheduled = kwait.wait_for_event("Scheduled", about="pod/web", timeout="4m")
    started = kwait.wait_for_event(message="ontainer", about="pod/web", type="Normal", timeout="4m")

    assert scheduled["involvedObject"]["name"] == "web"
    assert scheduled["kind"] == started["kind"] == "Event"


def test_wait_for_a_warning_event(kwait: Kwait) -> None:
    broken = container(image="no such image")
    kwait.create(pod("broken", broken))

    event = kwait.wait_for_event(about="pod", type="Warning", timeout="4m")

    assert event["involvedObject"]["name"] == "broken"


def test_events_of_the_later_api(kwait: Kwait) -> None:
    """Events written as `events.k8s.io` are found too."""
    kwait.create(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": "told"},
            "type": "Normal",
            "reason": "Told",
            "action": "Telling",
            "note": "once upon a time",
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "example.com/teller",
            "reportingInstance": "teller-1",
            "regarding": {
                "kind": "Widget",
                "apiVersion": "example.com/v1",
                "name": "w",
                "namespace": kwait.namespace,
            },
        }
    )

    event = kwait.wait_for_event("Told", "upon a time", about="widget/w", timeout="4m")

    assert event["involvedObject"]["kind"] == "Widget"


def test_timeout_lists_the_other_events(kwait: Kwait) -> None:
    """The timeout lists the events of the object."""
    kwait.create(pod("web"))
    kwait.wait_for_event("Started", about="pod/web", timeout="4m")

    times_out(
        "did not have an event with reason Evicted .*seen .*1 Scheduled",
        kwait.wait_for_event,
        "Evicted",
        about="pod/web",
    )
    times_out(
        "Scheduled came with another message: Successfully assigned",
        kwait.wait_for_event,
        "Scheduled",
        "by hand",
        about="pod/web",
    )
    with pytest.raises(InvalidArgument, match="give a reason, a message or what it is about"):
        kwait.wait_for_event()
