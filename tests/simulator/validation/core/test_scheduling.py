from __future__ import annotations

from pytest_kwait.simulator.validation.core.scheduling import RecentlyValid


def test_a_valid_value_is_remembered_by_equality() -> None:
    recent = RecentlyValid()
    value = {"sources": [{"secret": {"name": "a"}}]}
    assert value not in recent
    recent.add(value)
    assert {"sources": [{"secret": {"name": "a"}}]} in recent
    value["sources"][0]["secret"]["name"] = "b"
    assert value not in recent
    assert {"sources": [{"secret": {"name": "a"}}]} in recent


def test_only_the_most_recent_values_are_kept() -> None:
    recent = RecentlyValid()
    for number in range(100):
        recent.add([number])
    assert [99] in recent
    assert [0] not in recent
