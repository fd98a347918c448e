from __future__ import annotations

from tools.waits import NAMES, PACKAGE, render_names, render_package, sort_names


def test_names_are_those_of_the_declarations() -> None:
    assert NAMES.read_text() == render_names(), "run `python -m tools.waits`"


def test_public_names_follow_from_the_declarations() -> None:
    assert PACKAGE.read_text() == render_package(), "run `python -m tools.waits`"


def test_constants_come_before_classes_and_functions() -> None:
    assert sort_names(["scale", "Kwait", "TIMEOUTS", "at_most"]) == [
        "TIMEOUTS",
        "Kwait",
        "at_most",
        "scale",
    ]
