from __future__ import annotations

from tools.wait_methods import render_async, render_methods, render_protocols
from tools.waits import (
    ASYNC_METHODS,
    METHODS,
    NAMES,
    PROTOCOLS,
    PUBLIC_NAMES,
    render_names,
    render_public_names,
    sort_names,
)


def test_names_are_those_of_the_declarations() -> None:
    assert NAMES.read_text() == render_names(), "run `python -m tools.waits`"


def test_public_names_follow_from_the_declarations() -> None:
    assert PUBLIC_NAMES.read_text() == render_public_names(), "run `python -m tools.waits`"


def test_methods_follow_from_the_declarations() -> None:
    assert METHODS.read_text() == render_methods(), "run `python -m tools.waits`"


def test_async_methods_follow_from_the_declarations() -> None:
    assert ASYNC_METHODS.read_text() == render_async(), "run `python -m tools.waits`"


def test_types_of_fixtures_follow_from_the_declarations() -> None:
    assert PROTOCOLS.read_text() == render_protocols(), "run `python -m tools.waits`"


def test_constants_come_before_classes_and_functions() -> None:
    assert sort_names(["scale", "Kwait", "TIMEOUTS", "at_most"]) == [
        "TIMEOUTS",
        "Kwait",
        "at_most",
        "scale",
    ]


def test_imports_are_sorted_without_case() -> None:
    names = ["PodsReady", "PodSuccess", "PodReady"]
    assert sort_names(names, imported=True) == ["PodReady", "PodsReady", "PodSuccess"]
    assert sort_names(names) == ["PodReady", "PodSuccess", "PodsReady"]
