"""The first line of a failure as pytest shows it: broken anew behind the name of the exception."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["fit_headline"]

LINE_WIDTH = 100
_FIRST_LINE = re.compile(r"(E +)((?:\w+\.)+\w+: )")


def fit_headline(longrepr: Any) -> None:
    """Break the headline of a wait's failure so that a terminal of 100 columns need not.

    pytest puts the name of the exception before a message whose lines know nothing of that.

    Args:
        longrepr: what pytest shows of a failed test; what is no traceback stays as it is.
    """
    traceback = getattr(longrepr, "reprtraceback", None)
    for entry in getattr(traceback, "reprentries", ()):
        entry.lines[:] = _fit_lines(entry.lines)


def _fit_lines(lines: list[str]) -> Iterator[str]:
    headline = ""
    lead = further = ""
    for line in lines:
        found = _FIRST_LINE.match(line)
        if found and not headline:
            lead, headline = found[0], line[found.end() :]
            # Continued as deep as the lines of the message that continue it.
            further = found[1] + "    "
        elif headline and line.startswith(further):
            headline += " " + line[len(further) :].strip()
        else:
            if headline:
                yield from _wrap_text(lead, headline, further)
                headline = ""
            yield line
    if headline:
        yield from _wrap_text(lead, headline, further)


def _wrap_text(lead: str, text: str, further: str) -> list[str]:
    return textwrap.wrap(
        text,
        LINE_WIDTH,
        initial_indent=lead,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
