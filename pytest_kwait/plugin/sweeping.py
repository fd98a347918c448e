"""The end of a run in the cluster: nothing of it stays that nobody wanted, and it is told."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_lines_key = pytest.StashKey[list[str]]()
_untidy_key = pytest.StashKey[bool]()

_PULSES = "pytest_kwait.plugin.pulses"


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Know of a worker that died: it has removed nothing."""
    if error is not None or getattr(node, "workeroutput", None) is None:
        node.config.stash[_untidy_key] = True


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the signs of life, once all workers and all fixtures have ended."""
    session.config.stash.setdefault(_lines_key, []).extend(_end(session.config))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what the janitor did, where it did anything."""
    for line in config.stash.get(_lines_key, []):
        terminalreporter.line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the signs of life of a session that has not been finished."""
    for _ in _end(config):
        pass


def _end(config: pytest.Config) -> Iterator[str]:
    if _PULSES not in sys.modules:
        # Nobody has made anything.
        return
    from pytest_kwait.plugin.outcomes import kept_lines
    from pytest_kwait.plugin.pulses import pulses

    untidy = config.stash.get(_untidy_key, False)
    for pulse in pulses(config).values():
        yield from pulse.end(untidy=untidy, kept=bool(kept_lines(config)))
