"""An error and what it says, however its lines are broken."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest._code import ExceptionInfo

__all__ = ["raises"]


@contextmanager
def raises(error: type[BaseException], match: str) -> Iterator[ExceptionInfo[BaseException]]:
    """Expect an error whose message, read as one line, matches.

    Where a message breaks its lines depends on the names in it, which differ with every cluster
    and run.

    Args:
        error: the type.
        match: a regular expression to be found in the message with every white space one blank.
    """
    with pytest.raises(error) as caught:
        yield caught
    message = " ".join(str(caught.value).split())
    if not re.search(match, message):
        pytest.fail(f"{error.__name__} does not say {match!r} but: {message}")
