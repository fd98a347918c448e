from __future__ import annotations

from types import SimpleNamespace

from pytest_kwait.plugin.kept_namespaces import fit_headline

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


def lines_of(*entries: list[str]) -> list[list[str]]:
    found = [SimpleNamespace(lines=list(lines)) for lines in entries]
    fit_headline(SimpleNamespace(reprtraceback=SimpleNamespace(reprentries=found)))
    return [entry.lines for entry in found]


def test_the_headline_fits_and_the_rest_stays() -> None:
    assert lines_of(SHOWN) == [FITTED]


def test_what_ends_with_its_headline() -> None:
    assert lines_of(["E   a.B: " + "word " * 30]) == [
        ["E   a.B: " + " ".join(["word"] * 18), "E       " + " ".join(["word"] * 12)]
    ]


def test_what_is_no_message_of_ours_stays() -> None:
    lines = ["    assert 1 == 2", "E   assert 1 == 2", "E    +  where 1 = a"]

    assert lines_of(lines) == [lines]


def test_what_is_no_traceback_stays() -> None:
    fit_headline("a text")
    fit_headline(None)
