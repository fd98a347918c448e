from __future__ import annotations

from pytest_kwait.cache import Signal


def test_tells_those_who_asked_once() -> None:
    signal, told = Signal(), list[str]()
    signal.on_set(lambda: told.append("first"))
    signal.on_set(lambda: told.append("second"))

    signal.set()
    signal.set()

    assert signal.is_set()
    assert told == ["first", "second"]


def test_tells_who_asks_late_at_once() -> None:
    signal, told = Signal(), list[str]()
    signal.set()

    signal.on_set(lambda: told.append("late"))

    assert told == ["late"]


def test_forgets_who_takes_the_interest_back() -> None:
    signal, told = Signal(), list[str]()
    forget = signal.on_set(lambda: told.append("no longer"))

    forget()
    forget()
    signal.set()

    assert told == []


def test_is_set_before_it_tells() -> None:
    signal, seen = Signal(), list[bool]()
    signal.on_set(lambda: seen.append(signal.is_set()))

    signal.set()

    assert seen == [True]
