"""Slow starts do not fail a wait early with default settings."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.failing_fast.slow_pods import Start, label_node, label_of, starts
from e2e.objects import container, pod
from pytest_kwait import WaitFailed, WaitTimeout, wait_for_pod_ready
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK
from tools.controlplane.cluster import FOLDER_VARIABLE, State
from tools.image_registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes.client import ApiClient

    from pytest_kwait import Kwait


def outcome(kwait: Kwait, start: Start) -> str:
    """Wait with default settings except for the limit."""
    try:
        start.wait(kwait.client, kwait.namespace)
    except (WaitFailed, WaitTimeout) as error:
        return str(error)
    return "came"


def heal(kwait: Kwait, slow: list[Start], scale: float) -> None:
    """Create the missing object once the cluster has reported it missing.

    `scale` is the cluster's time scale.
    """
    began = SYSTEM_CLOCK.monotonic()
    for start in sorted(slow, key=lambda start: start.after):
        due = began + start.after * scale
        SYSTEM_CLOCK.sleep(max(0.0, due - SYSTEM_CLOCK.monotonic()))
        if start.heal is not None:
            start.heal(kwait)


def suspected(records: list[logging.LogRecord]) -> Iterator[str]:
    """Yield the messages of waits that must not fail early."""
    yield from (text for record in records if "final if it holds" in (text := record.getMessage()))


@pytest.fixture
def registry(kwait: Kwait) -> Iterator[Registry | None]:
    """A registry that opens late; None if the cluster has no nodes of this machine."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if kwait.cluster.provider == "embedded" or not folder:
        yield None
        return
    state = State.read(Path(folder))
    assert state is not None
    namespace = Path(f"/proc/{state.node_process(state.nodes[0])}/ns/net")
    with Registry(namespace) as registry:
        yield registry


def image_from(registry: Registry) -> Start:
    """Return the start of a pod with a late image."""

    def wait(client: ApiClient, namespace: str) -> None:
        wait_for_pod_ready(client, namespace, "late-image", timeout="4m")

    made = pod("late-image", container(image=registry.image))
    heal = lambda _: registry.open()  # noqa: E731 - nothing to say of it
    return Start("an image that comes late", [made], wait, heal, suspect="/late-image to")


def test_slow_starts_are_waited_for(
    kwait: Kwait, registry: Registry | None, caplog: pytest.LogCaptureFixture
) -> None:
    """All run at the same time; those in a failing state get their grace."""
    caplog.set_level(logging.INFO, logger="pytest_kwait.wait")
    slow = starts(kwait.namespace) + ([image_from(registry)] if registry is not None else [])
    assert len(slow) >= 20
    try:
        with ThreadPoolExecutor(len(slow) + 1) as pool:
            kwait.create(*(obj for start in slow for obj in start.objects))
            waits = {start.title: pool.submit(outcome, kwait, start) for start in slow}
            pool.submit(heal, kwait, slow, ApiSession.of(kwait.client).time_scale).result()
            ends = {title: wait.result() for title, wait in waits.items()}
    finally:
        label_node(kwait, label_of(kwait.namespace), None)

    assert ends == {start.title: "came" for start in slow}
    doubts = "\n".join(suspected(caplog.records))
    assert [start.title for start in slow if start.suspect and start.suspect not in doubts] == []
