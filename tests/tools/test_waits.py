from __future__ import annotations

from tools.wait_methods import render_methods, render_types
from tools.waits import (
    METHODS,
    NAMES,
    PUBLIC_NAMES,
    TYPES,
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


def test_types_of_fixtures_follow_from_the_declarations() -> None:
    assert TYPES.read_text() == render_types(), "run `python -m tools.waits`"


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
