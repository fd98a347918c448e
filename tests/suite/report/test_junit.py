"""JUnit documents of several shards."""

from __future__ import annotations

import re

import pytest

from pytest_kwait.suite.report.junit import OutcomeCounts, count_tests, merge_documents

ONE = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10" time="1.5">
<testcase name="a"/></testsuite></testsuites>"""
OLD = b'<testsuite tests="2" time="0.5"><testcase name="b"/></testsuite>'
OWN = b'<testsuite name="api" tests="1" time="0.5"><testcase name="c"/></testsuite>'


def test_tests_are_counted() -> None:
    assert count_tests(ONE) == OutcomeCounts(10, 2, 1, 3, 1.5)
    assert count_tests(ONE).passed == 4
    assert count_tests(OLD) + count_tests(ONE) == OutcomeCounts(12, 2, 1, 3, 2.0)
    assert count_tests(b"<testsuites/>") == OutcomeCounts()
    assert count_tests(b'<testsuite tests="1"/>') == OutcomeCounts(1)


def test_suites_of_shards_are_separate() -> None:
    all = merge_documents([("1/3", ONE), ("2/3", OLD), ("3/3", OWN)])
    assert count_tests(all) == OutcomeCounts(13, 2, 1, 3, 2.5)
    assert re.findall(rb' name="([^"]+)"', all) == [
        *(b"pytest [1/3]", b"a"),
        *(b"pytest [2/3]", b"b"),
        *(b"api [3/3]", b"c"),
    ]


@pytest.mark.parametrize("document", [b"", b"<testsuites>", b"\xff"])
def test_invalid_document_is_an_error(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"^no JUnit document: "):
        count_tests(document)
