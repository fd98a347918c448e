"""Hooks for the tests of this folder: what each namespace has, and what its tests do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from e2e.objects import config_map

if TYPE_CHECKING:
    from pytest_kwait import Kwait, WaitInfo

CALLS = pytest.StashKey[list[str]]()


@pytest.fixture
def calls(request: pytest.FixtureRequest) -> list[str]:
    """Return what the hooks have seen of the test up to now."""
    item: pytest.Item = request.node
    return item.stash.setdefault(CALLS, [])


def pytest_kwait_namespace_created(kwait: Kwait) -> None:
    """Give each namespace the certificate of the company."""
    kwait.create(config_map("company-ca", issuer="The company"))


def pytest_kwait_namespace_deleting(kwait: Kwait) -> None:
    """Fail a test that has removed it."""
    assert kwait.get("configmap/company-ca")


def pytest_kwait_applied(objects: list[dict[str, Any]], item: pytest.Item) -> None:
    """Record what was applied."""
    names = [str(each["metadata"]["name"]) for each in objects]
    item.stash.setdefault(CALLS, []).append(f"applied {' '.join(names)}")


def pytest_kwait_wait_started(wait: WaitInfo, item: pytest.Item) -> None:
    """Record what is awaited."""
    item.stash.setdefault(CALLS, []).append(f"started {wait.name} in {wait.step!r}")


def pytest_kwait_wait_ended(wait: WaitInfo, item: pytest.Item) -> None:
    """Record how it ended."""
    assert wait.limit > 0
    assert wait.outcome in ("met", "failed early")
    item.stash.setdefault(CALLS, []).append(f"ended {wait.name}: {wait.outcome}")
