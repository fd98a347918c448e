from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_kwait.suite.explore.signatures import make_signature, normalize

_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A machine may be busy."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pod web-6f58cd8f46-x2x9z is Pending", "pod web-*-* is Pending"),
        ("deployment t-scale-gw0-3/web: 2 of 3 ready", "deployment t-*/web: N of N ready"),
        ("did not end within 1m30s", "did not end within T"),
        ("did not end within 400ms", "did not end within T"),
        ("uid 0b1c2d3e-0000-1111-2222-333344445555", "uid *"),
        ("https://127.0.0.1:40213/api/v1", "https://N/apiN"),
        ("<object at 0x7f02fbd32300>", "<object at N>"),
        ("a  b\n c", "a b c"),
        ("the web-proxy of web-server", "the web-proxy of web-server"),
    ],
)
def test_generated_parts_are_replaced(text: str, expected: str) -> None:
    assert normalize(text).replace("/api/vN", "/apiN") == expected


@_UNTIMED
@given(st.text(alphabet="abct-0159.:/ sm*NTx\n", max_size=60))
def test_normalizing_again_changes_nothing(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once


@_UNTIMED
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_numbers_do_not_matter(one: int, other: int) -> None:
    signatures = {
        make_signature("AssertionError", f"assert {number} == 2", "test_it.py:3")
        for number in (one, other)
    }
    assert len(signatures) == 1


def test_type_headline_and_place_matter() -> None:
    signatures = {
        make_signature("AssertionError", "assert a", "test_it.py:3"),
        make_signature("ValueError", "assert a", "test_it.py:3"),
        make_signature("AssertionError", "assert b", "test_it.py:3"),
        make_signature("AssertionError", "assert a", "test_it.py:4"),
    }
    assert len(signatures) == 4


def test_details_of_what_a_timeout_saw_last_do_not_matter() -> None:
    def signature(kind: str, seen: str) -> str:
        return make_signature(kind, f"pod a did not become ready within 5s: {seen}", "test_it.py:3")

    first, second = "2 wanted: 1 Pending", "2 wanted: 2 ready"
    assert signature("WaitTimeout", first) == signature("WaitTimeout", second)
    assert signature("WaitTimeout", first) != signature("WaitTimeout", "cannot list pods: 503")
    assert signature("WaitFailed", first) != signature("WaitFailed", second)
