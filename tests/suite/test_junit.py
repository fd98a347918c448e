"""JUnit documents of several shards."""

from __future__ import annotations

import pytest

from pytest_kwait.suite.junit import Tally, merged, tally

ONE = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10" time="1.5">
<testcase name="a"/></testsuite></testsuites>"""
OLD = b'<testsuite tests="2" time="0.5"><testcase name="b"/></testsuite>'


def test_tests_are_counted() -> None:
    assert tally(ONE) == Tally(10, 2, 1, 3, 1.5)
    assert tally(ONE).passed == 4
    assert tally(OLD) + tally(ONE) == Tally(12, 2, 1, 3, 2.0)
    assert tally(b"<testsuites/>") == Tally()


def test_suites_of_shards_stay_apart() -> None:
    both = merged([("1/2", ONE), ("2/2", OLD)])
    assert tally(both) == Tally(12, 2, 1, 3, 2.0)
    assert b'name="pytest [1/2]"' in both
    assert b'name="pytest [2/2]"' in both
    assert both.index(b'name="a"') < both.index(b'name="b"')


@pytest.mark.parametrize("document", [b"", b"<testsuites>", b"\xff"])
def test_what_is_no_document_is_said(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"^no JUnit document: "):
        tally(document)
