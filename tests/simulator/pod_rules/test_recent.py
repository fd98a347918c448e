from __future__ import annotations

from pytest_kwait.simulator.pod_rules.recent import Recent


def test_what_was_found_sound_is_known_by_its_value() -> None:
    recent = Recent()
    value = {"sources": [{"secret": {"name": "a"}}]}
    assert value not in recent
    recent.add(value)
    assert {"sources": [{"secret": {"name": "a"}}]} in recent
    value["sources"][0]["secret"]["name"] = "b"
    assert value not in recent
    assert {"sources": [{"secret": {"name": "a"}}]} in recent


def test_only_the_last_few_are_kept() -> None:
    recent = Recent()
    for number in range(100):
        recent.add([number])
    assert [99] in recent
    assert [0] not in recent
