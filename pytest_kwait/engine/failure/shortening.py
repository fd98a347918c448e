"""Texts of failures that fit: into a line, some lines, or a headline that reports carry."""

from __future__ import annotations

import re
import textwrap

WIDTH = 92
"""Of 100 columns, pytest's `E` prefix and the code's indentation take eight."""

MAX_HEADLINE = 500
"""Characters of a failure in one line, as reports carry it to other processes."""


_STYLE = re.compile(r"\x1b\[[0-9;:]*m")
"""Colours and other styles."""

_CONTROL = re.compile(r"(?!\r\n)[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters but for tabs and the ends of lines."""


def escape_control_characters(text: str, escape: str = "\\x{:02x}") -> str:
    """Return a text of lines that controls no terminal: without styles, others escaped.

    Args:
        escape: the form of an escaped character.
    """
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda sign: escape.format(ord(sign[0])), _STYLE.sub("", text))


def cut_headline(text: str) -> str:
    """Return a failure in one line, cut to what reports carry."""
    return text[:MAX_HEADLINE]


def replace_unprintable(text: str) -> str:
    """Return a text in one line, with spaces in place of what a terminal does not print."""
    return "".join(char if char.isprintable() else " " for char in text)


def cut_line(text: str, width: int = WIDTH) -> str:
    """Return a text in one line that is cut at its end to fit."""
    line = replace_unprintable(text)
    return line if len(line) <= width else line[: max(width - 3, 0)] + "..."


def wrap_text(
    text: str, width: int, lead: str, further: str, max_lines: int | None = None
) -> list[str]:
    """Wrap a text; without a number of lines it is kept whole, words included.

    Args:
        width: the maximum width of lines.
        lead: the text in front of the first line.
        further: the text in front of the other lines.
        max_lines: the number of lines, of which the last one is cut at its end.
    """
    return textwrap.wrap(
        text,
        width,
        initial_indent=lead,
        subsequent_indent=further,
        max_lines=max_lines,
        placeholder=" ...",
        break_long_words=max_lines is not None,
        break_on_hyphens=False,
    )


def wrap_middle(
    lead: str, text: str, rest: str | None = None, lines: int = 4, width: int = WIDTH
) -> list[str]:
    """Wrap a text to a bounded width and number of lines by cutting its middle.

    The middle is cut because a long message ends with the error and begins with the operation.
    """
    further = " " * len(lead) if rest is None else rest
    wrapper = textwrap.TextWrapper(
        width, initial_indent=lead, subsequent_indent=further, break_on_hyphens=False
    )
    text = " ".join(replace_unprintable(text).split())
    wrapped = wrapper.wrap(text)
    room = lines * (width - max(len(lead), len(further)))
    while len(wrapped) > lines:
        # Long words leave lines half empty, so the length that fits is found by trying.
        room -= 10
        half = max(room // 2, 10)
        head, tail = text[:half].rpartition(" ")[0], text[-half:].partition(" ")[2]
        wrapped = wrapper.wrap(f"{head or text[:half]} ... {tail or text[-half:]}")
        if half == 10:
            break
    return wrapped
