"""What is seen of waits while they last: whether there is anything to show, and where."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.plugin.run import near_limit, running_item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.engine.active_waits import ActiveWait
    from pytest_kwait.plugin.narration import StatusReporter
    from pytest_kwait.plugin.signals import SignalHandler

__all__ = [
    "LiveStatus",
    "resume_status",
    "show_worker_status",
    "showing_status",
    "suspend_status",
    "write_line",
]

_live_status_key = pytest.StashKey["LiveStatus"]()


class LiveStatus:
    """Hears of the first wait, and has only then made what tells of it.

    Args:
        config: the run's configuration.
        descriptor: where to write to; its own from then on.
    """

    def __init__(self, config: pytest.Config, descriptor: int) -> None:
        self._config = config
        self._descriptor = descriptor
        self._narrator: StatusReporter | None = None
        self._signal: SignalHandler | None = None
        self.quiet = True
        """Whether the terminal is left to pytest."""
        self._told: dict[str, str] = {}
        self._told_lock = threading.Lock()

    def begun(self, wait: ActiveWait) -> None:
        """Hear that a wait has begun."""
        self.narrator().begun(wait)
        if self._signal is not None:
            self._signal.install()

    def over(self, wait: ActiveWait) -> None:
        """Hear that a wait is over."""
        self.narrator().over(wait)

    def narrator(self) -> StatusReporter:
        """Return who tells; made when first asked for."""
        if self._narrator is None:
            from pytest_kwait.engine.active_waits import ACTIVE_WAITS
            from pytest_kwait.plugin.narration import (
                RelayedStatusWriter,
                StatusReporter,
                StatusWriter,
                break_line_of,
            )
            from pytest_kwait.plugin.signals import SignalHandler

            config = self._config
            worker = getattr(config, "workerinput", {}).get("workerid", "")
            reporter = config.pluginmanager.getplugin("terminalreporter")
            prefix = f"kwait [{worker}]: " if worker else "kwait: "
            relay = _relay_of(config)
            if relay is not None:
                outlet: StatusWriter = RelayedStatusWriter(self._descriptor, prefix, relay)
            else:
                outlet = StatusWriter(
                    self._descriptor,
                    prefix,
                    live=_is_live(config, self._descriptor),
                    heartbeat=_writes_periodically(config),
                    # What the controller has begun to write, its workers do not know.
                    break_line=(lambda: True) if worker else break_line_of(reporter),
                )
            narrator = self._narrator = StatusReporter(
                outlet, ACTIVE_WAITS, lambda: near_limit(running_item(config))
            )
            if self.quiet:
                narrator.suspend()
            self._signal = SignalHandler(lambda: narrator.report("SIGUSR1"))
        return self._narrator

    def expect_signal(self) -> None:
        """Take SIGUSR1 though nothing waits in this process."""
        self.narrator()
        if self._signal is not None:
            self._signal.install()

    def told(self, worker: str, line: str) -> None:
        """Show what a worker waits for; called by the thread that hears of it."""
        with self._told_lock:
            self._told.pop(worker, None)
            if line:
                self._told[worker] = line
            first = next(iter(sorted(self._told)), "")
            text = f"[{first}] {self._told[first]}" if first else ""
            others = len(self._told) - 1
            if others > 0:
                text = f"{others} more {'worker waits' if others == 1 else 'workers wait'}, {text}"
            self.narrator().show(text)

    def draws(self) -> bool:
        """Whether this process shows a line that lives, of its own waits and those of workers."""
        return _is_live(self._config, self._descriptor)

    def suspend(self) -> None:
        """Leave the terminal to pytest."""
        self.quiet = True
        if self._narrator is not None:
            self._narrator.suspend()

    def resume(self) -> None:
        """Take the line below the cursor again."""
        self.quiet = False
        if self._narrator is not None:
            self._narrator.resume()

    def close(self) -> None:
        """Tell nothing more."""
        if self._signal is not None:
            self._signal.restore()
        if self._narrator is not None:
            self._narrator.close()
        else:
            os.close(self._descriptor)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep a way to the terminal, or to whatever log stands for it.

    Also called by `activate`, while tests are collected or run already.
    """
    from pytest_kwait.engine.active_waits import ACTIVE_WAITS

    config = session.config
    # A worker's standard output is the channel to its controller; its errors go where the
    # controller's own do.
    worker = hasattr(config, "workerinput")
    if not worker and not config.pluginmanager.hasplugin("terminalreporter"):
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    try:
        with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
            descriptor = os.dup((sys.stderr if worker else sys.stdout).fileno())
    except (AttributeError, OSError, ValueError):
        # No stream, or one that is no file, as where pytest is run by a program.
        return
    progress = config.stash[_live_status_key] = LiveStatus(config, descriptor)
    ACTIVE_WAITS.add(progress)


@contextlib.contextmanager
def showing_status(config: pytest.Config) -> Iterator[None]:
    """Draw meanwhile, where no test has begun."""
    resume_status(config)
    try:
        yield
    finally:
        suspend_status(config)


def show_worker_status(config: pytest.Config, worker: str, line: str) -> None:
    """Show what a worker waits for."""
    if _live_status_key in config.stash:
        config.stash[_live_status_key].told(worker, line)


def write_line(config: pytest.Config, line: str) -> None:
    """Write a line that stays, from any thread."""
    if _live_status_key in config.stash:
        config.stash[_live_status_key].narrator().say(line)


def suspend_status(config: pytest.Config) -> None:
    """Leave the terminal to somebody else."""
    if _live_status_key in config.stash:
        config.stash[_live_status_key].suspend()


def resume_status(config: pytest.Config) -> None:
    """Draw again, as nobody else does."""
    if _live_status_key in config.stash:
        config.stash[_live_status_key].resume()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Let a signal that is meant for the workers not end their controller; draw for them."""
    if _live_status_key in node.config.stash:
        progress = node.config.stash[_live_status_key]
        progress.expect_signal()
        node.workerinput["kwait_live"] = progress.draws()
        progress.resume()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> Any:
    """Draw nothing while the controller prints what has become of a test."""
    # The node is pytest-xdist's, and there is one where it is a controller that hears of it.
    config = getattr(getattr(report, "node", None), "config", None)
    if config is None:
        return (yield)
    with _suspended(config):
        return (yield)


@pytest.hookimpl(optionalhook=True, wrapper=True, tryfirst=True)
def pytest_testnodedown(node: Any, error: object) -> Any:
    """Forget what a worker waited for, and draw nothing while its end is told."""
    show_worker_status(node.config, node.gateway.id, "")
    with _suspended(node.config):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave the terminal to pytest's summary."""
    suspend_status(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Draw while the test is set up."""
    resume_status(item.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Draw while the test runs."""
    resume_status(item.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Draw while the test is torn down."""
    resume_status(item.config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Draw nothing once a phase of a test is over: pytest prints its outcome next."""
    suspend_status(item.config)
    return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Tell nothing more, and give the signal back."""
    if _live_status_key in config.stash:
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        progress = config.stash[_live_status_key]
        del config.stash[_live_status_key]
        ACTIVE_WAITS.remove(progress)
        progress.close()


@contextlib.contextmanager
def _suspended(config: pytest.Config) -> Iterator[None]:
    """Draw nothing meanwhile, and again afterwards if there was drawn before."""
    progress = config.stash.get(_live_status_key, None)
    if progress is None or progress.quiet:
        yield
        return
    progress.suspend()
    try:
        yield
    finally:
        progress.resume()


def _relay_of(config: pytest.Config) -> Callable[[str], None] | None:
    """Return what takes the line of a worker to a controller that draws; None without one."""
    given = getattr(config, "workerinput", {})
    if not given.get("kwait_live"):
        return None
    from pytest_kwait.plugin.cluster import run_of

    return run_of(config).source.show


def _writes_periodically(config: pytest.Config) -> bool:
    """Whether a line may be written from time to time."""
    return config.get_verbosity() > -2


def _is_live(config: pytest.Config, descriptor: int) -> bool:
    """Whether a line below the cursor is seen by somebody, and disturbs nothing."""
    return (
        os.isatty(descriptor)
        and os.environ.get("TERM", "dumb") != "dumb"
        and not any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER"))
        and not hasattr(config, "workerinput")
        # Of the tests of several workers pytest-xdist would tell at any time.
        and (config.get_verbosity() == 0 or config.getoption("dist", "no") == "no")
        and config.get_verbosity() >= 0
        # What a test prints, or logs, would run over it.
        and config.getoption("capture") != "no"
        and config.getoption("log_cli_level") is None
        and not config.getini("log_cli")
    )
