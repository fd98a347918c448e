"""Hooks of a conftest around namespaces, applies and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.objects import config_map, pod
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_each_namespace_is_furnished(kwait: Kwait) -> None:
    """Further ones of the test too."""
    assert kwait.get("configmap/company-ca")
    assert kwait.create_namespace("beside").get("configmap/company-ca")


def test_applies_and_waits_are_observed(kwait: Kwait, calls: list[str]) -> None:
    calls.clear()  # those of the setup
    kwait.apply(config_map("a"), pod("web"))
    with kwait.step("start"):
        kwait.wait_for_pod_running("web")

    assert calls == [
        "applied a web",
        "started wait_for_pod_running in 'start'",
        "ended wait_for_pod_running: met",
    ]


def test_the_end_of_a_wait_that_fails_early(kwait: Kwait, calls: list[str]) -> None:
    """A pod that has succeeded runs no more."""
    kwait.create(pod("done", {"name": "c", "image": "busybox:1.36", "command": ["true"]}))
    kwait.wait_for_pod_success("done")
    with pytest.raises(WaitFailed):
        kwait.wait_for_pod_running("done")

    assert calls[-1] == "ended wait_for_pod_running: failed early"
