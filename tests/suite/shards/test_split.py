from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.shards.split import (
    BETWEEN,
    FIRST,
    LAST,
    RequestedShard,
    Shard,
    SplitEntry,
    parse_shard,
    read_durations,
    split,
    split_by_duration,
)

if TYPE_CHECKING:
    import random
    from pathlib import Path

_RANKS = st.sampled_from([FIRST, BETWEEN, BETWEEN, LAST])
_TOTALS = st.integers(1, 9)
_SECONDS = st.sampled_from([0.0, 0.0, 0.1, 1.0, 7.5]) | st.floats(0, 1e6)


@st.composite
def _suites(draw: st.DrawFn, *, together: bool) -> list[SplitEntry]:
    """Tests in modules; `together` if those of a module must stay so."""
    modules = draw(st.lists(st.integers(0, 12), max_size=40))
    return [
        SplitEntry(f"m{module}.py::t{number}", f"m{module}.py" if together else f"#{number}", rank)
        for number, module in enumerate(modules)
        for rank in [draw(_RANKS)]
    ]


_either = st.booleans().flatmap(lambda together: _suites(together=together))


def _algorithms() -> dict[str, Any]:
    algorithms = pytest.importorskip("pytest_split.algorithms").Algorithms
    return {each.name: each.value for each in algorithms}


@given(_either, _TOTALS, st.randoms(use_true_random=False))
def test_every_test_is_in_exactly_one_shard(
    entries: list[SplitEntry], total: int, chance: random.Random
) -> None:
    shares = split(entries, total)
    assert len(shares) == total
    assert sorted(position for share in shares for position in share) == list(range(len(entries)))

    shuffled = list(entries)
    chance.shuffle(shuffled)
    for share, again in zip(shares, split(shuffled, total), strict=True):
        # Whatever order the tests came in.
        assert sorted(entries[each].id for each in share) == sorted(
            shuffled[each].id for each in again
        )


@pytest.mark.parametrize("name", ["duration_based_chunks", "least_duration"])
@given(data=st.data())
def test_every_test_is_in_exactly_one_shard_by_durations(name: str, data: st.DataObject) -> None:
    entries = data.draw(_either)
    total = data.draw(_TOTALS)
    known = data.draw(st.lists(_SECONDS, max_size=len(entries)))
    seconds = {entry.id: each for entry, each in zip(entries, known, strict=False)}
    algorithms = _algorithms()
    place = split_by_duration(seconds, algorithms[name], algorithms["least_duration"])
    shares = split(entries, total, place)
    assert sorted(position for share in shares for position in share) == list(range(len(entries)))
    shuffled = entries[::-1]
    for share, again in zip(shares, split(shuffled, total, place), strict=True):
        assert {entries[each].id for each in share} == {shuffled[each].id for each in again}


@given(_suites(together=False), _TOTALS)
def test_shards_are_of_equal_size_with_slow_tests(entries: list[SplitEntry], total: int) -> None:
    shares = split(entries, total)
    for counts in (
        [len(share) for share in shares],
        [sum(entries[each].rank == FIRST for each in share) for share in shares],
    ):
        assert max(counts) - min(counts) <= 1


@given(_suites(together=True), _TOTALS)
def test_tests_of_a_shared_scope_stay_together_in_order(
    entries: list[SplitEntry], total: int
) -> None:
    for share in split(entries, total):
        units = [entries[each].unit for each in share]
        assert len(set(units)) == sum(
            unit != before for unit, before in zip(units, [None, *units], strict=False)
        )
        for unit in set(units):
            own = [each for each in share if entries[each].unit == unit]
            assert own == [at for at, entry in enumerate(entries) if entry.unit == unit]


def _order(entries: list[SplitEntry], total: int = 1) -> list[list[str]]:
    return [[entries[each].id for each in share] for share in split(entries, total)]


def test_slow_tests_run_first_and_serial_ones_last() -> None:
    entries = [
        SplitEntry("serial", "serial", LAST),
        SplitEntry("b", "b"),
        SplitEntry("slow", "slow", FIRST),
        SplitEntry("a", "a"),
    ]
    assert _order(entries) == [["slow", "b", "a", "serial"]]


def test_unit_with_a_serial_test_is_last() -> None:
    entries = [
        SplitEntry("one", "m1"),
        SplitEntry("two", "m1", LAST),
        SplitEntry("three", "m1", FIRST),
        SplitEntry("four", "m2"),
    ]
    assert _order(entries) == [["four", "one", "two", "three"]]


def test_neighbours_stay_together_where_tests_are_counted() -> None:
    entries = [SplitEntry(f"{name}{n}", f"{name}{n}") for name in "ab" for n in range(3)]
    assert _order(entries, 2) == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]


def test_modules_are_spread_by_their_size() -> None:
    sizes = {"a": 1, "b": 4, "c": 2, "d": 3}
    entries = [SplitEntry(f"{name}{n}", name) for name, size in sizes.items() for n in range(size)]
    assert [len(share) for share in split(entries, 2)] == [5, 5]


def test_the_same_test_given_twice_runs_twice_in_one_shard() -> None:
    entries = [SplitEntry("a", "a"), SplitEntry("b", "b"), SplitEntry("a", "a")]
    assert _order(entries, 2) == [["a", "a"], ["b"]]


def test_recorded_durations_balance() -> None:
    algorithms = _algorithms()
    entries = [SplitEntry(name, name) for name in "abcd"]
    place = split_by_duration(
        {"a": 9.0, "b": 3.0, "c": 3.0},
        algorithms["least_duration"],
        algorithms["least_duration"],
    )
    # d is taken for an average one, 5 s.
    assert [[entries[each].id for each in share] for share in split(entries, 2, place)] == [
        ["a"],
        ["b", "c", "d"],
    ]


def test_an_algorithm_that_gives_up_is_replaced() -> None:
    algorithms = _algorithms()
    entries = [SplitEntry(name, name) for name in "abc"]
    place = split_by_duration(
        {"a": 1.0, "b": 1.0, "c": 0.0},
        algorithms["duration_based_chunks"],
        algorithms["least_duration"],
    )
    assert [len(share) for share in split(entries, 2, place)] == [2, 1]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("1/1", RequestedShard(1, 1)),
        ("4/4", RequestedShard(4, 4)),
        (" 02/10 ", RequestedShard(2, 10)),
        ("auto", RequestedShard(None, None)),
        ("auto/8", RequestedShard(None, 8)),
    ],
)
def test_valid_shards_are_parsed(text: str, asked: RequestedShard) -> None:
    assert parse_shard(text, "shard", None) == asked


@pytest.mark.parametrize(
    "value",
    [
        *("5/4", "0/4", "-1/4", "1/0", "0/0", "1/-4", "2", "/4", "2/", "two/4", "2/4/4", "1.5/4"),
        *("auto/0", "auto/", "auto/-1", "Auto", "automatic", "", "²/4", "٢/4", "1/9999999"),
        *(2, None),
    ],
)
def test_invalid_shards_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_shard(value, "shard", "ini kwait_shard")
    assert str(caught.value) == (
        f"shard={value!r} (from ini kwait_shard) is not valid: use I/N with I from 1 to N, for "
        "example 2/4; or auto, or auto/N, to have I read from the CI system"
    )


def test_shard_text_round_trips() -> None:
    assert str(Shard(2, 4)) == "2/4"


def test_file_of_seconds_by_test(tmp_path: Path) -> None:
    path = tmp_path / "durations"
    path.write_text('{"a": 1, "b": 0.5}')
    read = read_durations(path, "option --durations-path")
    assert read is not None
    assert read.seconds == {"a": 1, "b": 0.5}
    path.write_text('[["b", 0.5], ["a", 1]]')
    old = read_durations(path, "option --durations-path")
    assert old == read


@pytest.mark.parametrize("text", [None, "{}", "[]"])
def test_missing_durations_are_empty(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "durations"
    if text is not None:
        path.write_text(text)
    assert read_durations(path, "option --durations-path") is None


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        (
            b"{",
            "it is no JSON (Expecting property name enclosed in double quotes: line 1 column 2 "
            "(char 1))",
        ),
        (b"", "it is no JSON (Expecting value: line 1 column 1 (char 0))"),
        (b"\xff", "it is not text"),
        (b"3", "it does not hold seconds by the ids of tests"),
        (b"[1]", "it does not hold seconds by the ids of tests"),
        (b'{"a": "1"}', "it says that a took '1' seconds"),
        (b'{"a": -1}', "it says that a took -1 seconds"),
        (b'{"a": NaN}', "it says that a took nan seconds"),
        (b'{"a": true}', "it says that a took True seconds"),
        (b'{"a": null}', "it says that a took None seconds"),
        (None, "it cannot be read (Is a directory)"),
        (b"[" * 100_000, "it nests lists or objects too deeply to be read"),
    ],
)
def test_foreign_durations_file_is_refused(
    tmp_path: Path, contents: bytes | None, why: str
) -> None:
    path = tmp_path / "durations"
    if contents is None:
        path.mkdir()
    else:
        path.write_bytes(contents)
    with pytest.raises(InvalidArgument) as caught:
        read_durations(path, "option --durations-path")
    assert str(caught.value) == (
        f"durations_path={str(path)!r} (from option --durations-path) is not valid: {why}; use a "
        "file that pytest-split's --store-durations wrote, or remove it"
    )


def test_large_durations_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_kwait.suite.shards.split._MAX_BYTES", 10)
    path = tmp_path / "durations"
    path.write_text('{"a": 1.5}')
    assert read_durations(path, "option --durations-path") is not None
    path.write_text('{"a": 1.25}')
    with pytest.raises(InvalidArgument) as caught:
        read_durations(path, "option --durations-path")
    assert str(caught.value) == (
        f"durations_path={str(path)!r} (from option --durations-path) is not valid: it has 11 "
        "bytes, and at most 10 are read; use a file that pytest-split's --store-durations wrote, "
        "or remove it"
    )
