"""JUnit documents: count their tests, and merge the documents of several shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """Counts of tests by outcome.

    Args:
        tests: the number of tests.
        failures: failed tests.
        errors: tests with an error in setup or teardown.
        skipped: skipped tests.
        seconds: their duration.
    """

    tests: int = 0
    failures: int = 0
    errors: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def __add__(self, other: OutcomeCounts) -> OutcomeCounts:
        return OutcomeCounts(
            self.tests + other.tests,
            self.failures + other.failures,
            self.errors + other.errors,
            self.skipped + other.skipped,
            self.seconds + other.seconds,
        )

    @property
    def passed(self) -> int:
        """The number of passed tests."""
        return max(self.tests - self.failures - self.errors - self.skipped, 0)


def count_tests(document: bytes) -> OutcomeCounts:
    """Return the counts of a document.

    Raises:
        ValueError: not a JUnit document.
    """
    total = OutcomeCounts()
    for suite in _suites(document):
        tests, failures, errors, skipped = (
            int(suite.get(name) or 0) for name in ("tests", "failures", "errors", "skipped")
        )
        total += OutcomeCounts(tests, failures, errors, skipped, float(suite.get("time") or 0))
    return total


def merge_documents(documents: Iterable[tuple[str, bytes]]) -> bytes:
    """Return one document with the suites of several.

    Args:
        documents: shard names, appended to suite names, with their documents.

    Raises:
        ValueError: one of them is not a JUnit document.
    """
    root = ElementTree.Element("testsuites")
    for shard, document in documents:
        for suite in _suites(document):
            suite.set("name", f"{suite.get('name') or 'pytest'} [{shard}]")
            root.append(suite)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _suites(document: bytes) -> list[ElementTree.Element]:
    try:
        root = ElementTree.fromstring(document)  # noqa: S314 - written by pytest, in our own pods
    except ElementTree.ParseError as error:
        raise ValueError(f"no JUnit document: {error}") from error
    return [root] if root.tag == "testsuite" else root.findall("testsuite")
