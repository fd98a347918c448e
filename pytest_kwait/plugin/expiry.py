"""A test whose time is up outside of any wait, where that ends the process: its artifacts first.

pytest-timeout's thread method ends the process with the test. Under pytest-xdist the controller
gathers what the test was at; here nobody would be left to.
"""

from __future__ import annotations

import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.plugin.artifacts import collector_of, relative_path
from pytest_kwait.plugin.live_status import write_line

if TYPE_CHECKING:
    from pytest_kwait.plugin.artifacts import ArtifactCollector

_timer_key = pytest.StashKey[threading.Timer]()


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Set the timer of pytest-timeout's thread method, with artifacts before it ends the process.

    Its signal method, and a worker whose controller lives on, are left to pytest-timeout.
    """
    collector = collector_of(item.config)
    # As pytest-timeout: only the main thread gets signals.
    main = threading.current_thread() is threading.main_thread()
    if collector is None or hasattr(item.config, "workerinput"):
        return None
    if settings.method == "signal" and main:
        return None
    timer = threading.Timer(settings.timeout, _on_timeout, (item, settings, collector))
    timer.name = f"kwait expiry {item.nodeid}"
    item.stash[_timer_key] = timer
    timer.start()
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool | None:
    """Cancel that timer; where it has run out, wait for the end that it brings."""
    if _timer_key not in item.stash:
        return None
    timer = item.stash[_timer_key]
    del item.stash[_timer_key]
    timer.cancel()
    timer.join()
    return True


def _on_timeout(item: pytest.Item, settings: Any, collector: ArtifactCollector) -> None:
    from pytest_timeout import is_debugging, timeout_timer

    if is_debugging() and not settings.disable_debugger_detection:
        return
    try:
        place = collector.expire(item, _timeout_message(settings.timeout))
        if place:
            where = relative_path(item.config, place)
            write_line(item.config, f"artifacts of the test that ran out of time: {where}")
    finally:
        timeout_timer(item, settings)


def _timeout_message(seconds: float) -> str:
    """Return what there is instead of a failure: where the test is."""
    from pytest_kwait.apimachinery.durations import format_duration

    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
    return (
        f"the test's own timeout of {format_duration(float(seconds))} (pytest-timeout) ended the "
        f"process; where the test was:\n\n{stack}"
    )
