"""Assertions on errors, whatever the line breaks of their messages."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import WaitTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _pytest._code import ExceptionInfo

_LIMITS = ("500ms", "2s", "10s", "1m0s")


@contextmanager
def raises(error: type[BaseException], match: str) -> Iterator[ExceptionInfo[BaseException]]:
    """Expect an error with a message that matches as one line.

    The line breaks of a message depend on the names in it, which differ with every cluster
    and run.

    Args:
        error: the type.
        match: a regular expression to be found in the message with every white space one blank.
    """
    with pytest.raises(error) as caught:
        yield caught
    message = _one_line(caught.value)
    if not re.search(match, message):
        pytest.fail(f"{error.__name__} does not say {match!r} but: {message}")


def times_out(match: str, wait: Callable[..., Any], *arguments: Any, **options: Any) -> WaitTimeout:
    """Expect a wait to time out with a message that matches, and return its error.

    It is given half a second, and more where that was too short to see what the message names: on a
    busy machine or a real cluster a first answer can take as long. It may be called again, so it
    must not change what it waits for.

    Args:
        match: as for `raises`; LIMIT in it stands for the limit.
        wait: the wait.
        *arguments: what it is called with.
        **options: what it is called with besides the limit.
    """
    messages = []
    for limit in _LIMITS:
        with pytest.raises(WaitTimeout) as caught:
            wait(*arguments, timeout=limit, **options)
        message = _one_line(caught.value)
        if re.search(match.replace("LIMIT", limit), message):
            return caught.value
        messages.append(message)
    pytest.fail(f"WaitTimeout does not say {match!r} but: {'; then: '.join(messages)}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
