from __future__ import annotations

from types import SimpleNamespace

from pytest_kwait.errors import WaitFailed
from pytest_kwait.plugin.failure_text import fit_headline

SHOWN = [
    "    def test_it(wait):",
    '>       wait("typo")',
    "E       pytest_kwait.errors.WaitFailed: pod ci-1/a can no longer become ready: Err: "
    "failed to pull and",
    "E           unpack image: not found",
    "E         awaited   pod ci-1/typo to become ready",
    "E         pods",
    "E           typo Pending on node-1",
]

FITTED = [
    "    def test_it(wait):",
    '>       wait("typo")',
    "E       pytest_kwait.errors.WaitFailed: pod ci-1/a can no longer become ready: Err: failed "
    "to pull",
    "E           and unpack image: not found",
    "E         awaited   pod ci-1/typo to become ready",
    "E         pods",
    "E           typo Pending on node-1",
]


TEXT = """\
pod ci-1/a can no longer become ready: Err: failed to pull and
    unpack image: not found
  awaited   pod ci-1/typo to become ready
  pods
    typo Pending on node-1"""


def lines_of(text: str, lines: list[str]) -> list[str]:
    entry = SimpleNamespace(lines=list(lines))
    fit_headline(
        SimpleNamespace(reprtraceback=SimpleNamespace(reprentries=[entry])), WaitFailed(text)
    )
    return list(entry.lines)


def test_the_headline_fits_and_the_rest_stays() -> None:
    assert lines_of(TEXT, SHOWN) == FITTED


def test_message_that_ends_with_its_headline() -> None:
    lead, words = "E   pytest_kwait.errors.WaitFailed: ", ["word"] * 30
    assert lines_of(" ".join(words), [lead + " ".join(words)]) == [
        lead + " ".join(words[:13]),
        "E       " + " ".join(words[13:]),
    ]


def test_message_without_the_name_of_its_error_is_unchanged() -> None:
    lines = ["pod a: " + "word " * 30, "  awaited", "a note"]

    assert lines_of("\n".join(lines[:2]), lines) == lines


def test_foreign_message_is_unchanged() -> None:
    lines = ["    assert 1 == 2", "E   assert 1 == 2", "E    +  where 1 = a"]

    assert lines_of(TEXT, lines) == lines


def test_text_without_traceback_is_unchanged() -> None:
    fit_headline("a text", WaitFailed(TEXT))
    fit_headline(None, WaitFailed(""))
