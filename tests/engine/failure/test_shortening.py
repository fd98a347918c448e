from __future__ import annotations

import pytest

from pytest_kwait.engine.failure.shortening import (
    cut_headline,
    cut_line,
    escape_control_characters,
    wrap_middle,
    wrap_text,
)


def test_a_headline_is_cut_to_what_reports_carry() -> None:
    assert cut_headline("a" * 501) == "a" * 500


def test_a_line_is_printable_and_cut_at_its_end() -> None:
    assert cut_line("a\nb\x1b[0m", 9) == "a b [0m"
    assert cut_line("pod ci-1/sleepers", 9) == "pod ci..."
    assert cut_line("pod", 2) == "..."


def test_a_text_is_wrapped_whole() -> None:
    text = "claim a-very-long-name is unbound"
    assert wrap_text(text, 12, "- ", "  ") == ["- claim", "  a-very-long-name", "  is unbound"]


def test_a_text_of_a_number_of_lines_ends_with_its_cut() -> None:
    text = "2 runs: pod a did not become ready within 5s"
    assert wrap_text(text, 16, "- ", "  ", max_lines=2) == ["- 2 runs: pod a", "  did not ..."]


def test_the_beginning_and_the_end_of_a_long_message_stay() -> None:
    text = "failed to pull image " + "and so on " * 20 + "not found"
    wrapped = wrap_middle("  ", text, lines=2, width=40)
    assert len(wrapped) == 2
    assert wrapped[0].startswith("  failed to pull image")
    assert wrapped[1].endswith("not found")
    assert " ... " in " ".join(wrapped)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nof lines\r\n", "plain\ttext\nof lines\r\n"),
        ("\x1b[1;31merror\x1b[0m: größe", "error: größe"),
        ("\x1b]0;title\x07\x1b[2J\x9b2J", r"\x1b]0;title\x07\x1b[2J\x9b2J"),
        ("10%\r20%\x08\x7f\x00", r"10%\x0d20%\x08\x7f\x00"),
        ("\x1b\x1b[m[2J", r"\x1b[2J"),
    ],
)
def test_control_characters_of_logs_are_escaped(text: str, shown: str) -> None:
    assert escape_control_characters(text) == shown
    assert escape_control_characters(shown) == shown
