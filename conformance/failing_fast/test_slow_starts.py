"""Slow starts do not fail a wait early with default settings."""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.failing_fast.slow_pods import Start, label_node, label_of, starts
from e2e.objects import container, pod
from pytest_kwait import WaitFailed, WaitTimeout, wait_for_pod_ready
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, TEST_CLOCK
from tools.controlplane.cluster import FOLDER_VARIABLE, State
from tools.image_registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubernetes.client import ApiClient

    from pytest_kwait import Kwait


_LOGGER = "pytest_kwait.wait"
_DOUBT = "final if it holds"
_LIMIT = 90.0
"""Seconds until a state is looked for no more; the test then says which is missing."""


def outcome(kwait: Kwait, start: Start) -> str:
    """Wait with default settings except for the limit."""
    try:
        start.wait(kwait.client, kwait.namespace)
    except (WaitFailed, WaitTimeout) as error:
        return str(error)
    return "came"


def heal(kwait: Kwait, slow: list[Start], scale: float, doubts: Doubts) -> None:
    """Create the missing object once a wait has reported it missing.

    `scale` is the cluster's time scale. In fast time graces are short for a busy machine: the
    waits' clock stands still from the doubts until each of them has passed.
    """
    stands_still = kwait.cluster.provider == "embedded"
    if stands_still:
        TEST_CLOCK.stop()
    try:
        doubts.wait_until(lambda: not doubts.missing(slow))
        # Each is missing for its time, of which no wait sees anything but the end.
        SYSTEM_CLOCK.sleep(max(start.after for start in slow) * scale)
        for start in slow:
            if start.heal is not None:
                start.heal(kwait)
        doubts.wait_until(lambda: not doubts.present())
    finally:
        TEST_CLOCK.resume()


class Doubts(logging.Handler):
    """What waits log about states that are final if they hold."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self._all: list[str] = []
        self._last: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message; the subject of a wait stands before its time."""
        text = record.getMessage()
        with self._changed:
            self._all += [text] if _DOUBT in text else []
            self._last[text.partition(": after ")[0]] = text
            self._changed.notify_all()

    def missing(self, slow: list[Start]) -> list[str]:
        """Return the titles of starts of which no wait has had a doubt, but should."""
        doubts = "\n".join(self._all)
        return [start.title for start in slow if start.suspect and start.suspect not in doubts]

    def present(self) -> list[str]:
        """Return the doubts that have not passed."""
        return [text for text in self._last.values() if _DOUBT in text]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once a condition of these holds, or after a limit that no machine needs."""
        with self._changed:
            self._changed.wait_for(condition, _LIMIT)


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
    caplog.set_level(logging.INFO, logger=_LOGGER)
    doubts = Doubts()
    logging.getLogger(_LOGGER).addHandler(doubts)
    slow = starts(kwait.namespace) + ([image_from(registry)] if registry is not None else [])
    assert len(slow) >= 20
    try:
        with ThreadPoolExecutor(len(slow) + 1) as pool:
            kwait.create(*(obj for start in slow for obj in start.objects))
            waits = {start.title: pool.submit(outcome, kwait, start) for start in slow}
            scale = ApiSession.of(kwait.client).time_scale
            pool.submit(heal, kwait, slow, scale, doubts).result()
            ends = {title: wait.result() for title, wait in waits.items()}
    finally:
        logging.getLogger(_LOGGER).removeHandler(doubts)
        label_node(kwait, label_of(kwait.namespace), None)

    assert ends == {start.title: "came" for start in slow}
    assert doubts.missing(slow) == []
