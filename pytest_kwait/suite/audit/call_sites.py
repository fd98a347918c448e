"""The calls of waits in a suite: which function was called, and in which line.

A call is found in the stack of the wait's thread: the innermost line that belongs neither to this
package nor to the standard library or an installed one.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.engine.active_waits import WaitCall

if TYPE_CHECKING:
    from types import FrameType

LOCATED_CALL: ContextVar[WaitCall | None] = ContextVar("located call", default=None)
"""The call of an async test, whose waits run in threads of their own; None for others."""

_PACKAGE = Path(__file__).parents[2]
_OURS = f"{_PACKAGE}{os.sep}"
_MARKERS = str(_PACKAGE / "plugin" / "markers.py")
_INSTALLED = tuple(
    f"{path}{os.sep}"
    for path in {*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))}
)
_RUNNER = f"{os.sep}pluggy{os.sep}"
"""A part of the files that call fixtures and tests: no line of a suite is around them."""

_WRAPPERS = frozenset({"__call__", "_call", "call", "run", "<lambda>"})
"""Functions of this package that call a wait or verb by another function's name."""


def find_call(wait: str, frame: FrameType | None = None) -> WaitCall | None:
    """Return the call of a wait that begins; None for a wait of the plugin itself.

    The site has the whole path; it is empty if no line of a suite is in the stack.

    Args:
        wait: the declared wait; empty for a part of a verb.
        frame: the innermost frame; None for the caller's.
    """
    located = LOCATED_CALL.get()
    if located is not None:
        return located
    frame = frame or sys._getframe(1)
    outermost, named, is_marker = "", "", False
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_OURS):
            outermost = frame.f_code.co_name
            named = named if outermost in _WRAPPERS else outermost
            is_marker = is_marker or file == _MARKERS
        elif _RUNNER in file:
            return WaitCall(wait, is_precondition=True) if is_marker else None
        elif not file.startswith(("<", *_INSTALLED)):
            called = _choose_name(outermost, named, wait)
            return WaitCall(called, f"{file}:{frame.f_lineno}")
        frame = frame.f_back
    return WaitCall(_choose_name(outermost, named, wait))


def _choose_name(outermost: str, named: str, wait: str) -> str:
    """Return the function of this package that a suite called."""
    if wait and (outermost in _WRAPPERS or outermost.startswith("wait_for")):
        return wait
    return named


def make_relative(site: str, root: Path) -> str:
    """Return a site with its path relative to a folder, if it is in it."""
    return site.removeprefix(f"{root}{os.sep}").replace(os.sep, "/")
