"""Logs on stderr, in the form of Kubernetes' programs."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DETAIL_VERBOSITY", "capture_logs"]

DETAIL_VERBOSITY = 4
"""The verbosity from which on each step is logged."""

_SEVERITIES = {"DEBUG": "I", "INFO": "I", "WARNING": "W", "ERROR": "E", "CRITICAL": "F"}
_LOGGER = "pytest_kwait"


class _KlogFormatter(logging.Formatter):
    """A line as klog writes it: `I1121 11:08:20.134597   13246 module.py:106] text`.

    Source: k8s.io/klog v2 klog.go formatHeader.
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone()
        letter = _SEVERITIES.get(record.levelname, "I")
        place = f"{record.process or 0:7d} {record.filename}:{record.lineno}"
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return f"{letter}{at:%m%d %H:%M:%S.%f} {place}] {text}"


@contextmanager
def capture_logs(verbosity: int, stream: TextIO | None = None) -> Iterator[None]:
    """Write the logs of the scheduler while the context lasts, and flush them at its end.

    Whoever goes on in the process afterwards finds the logger as it was.

    Args:
        verbosity: as `-v` has it.
        stream: where to; stderr by default.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_KlogFormatter())
    logger = logging.getLogger(_LOGGER)
    before = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG if verbosity >= DETAIL_VERBOSITY else logging.INFO)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        handler.flush()
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
