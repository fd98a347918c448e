"""The entry point of `kwait-scheduler`, with its logs and its signal handlers.

Logs go to stderr in klog's form or as JSON. The first SIGTERM or SIGINT ends the program in
order, the second one at once.

Source: cmd/kube-scheduler.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import traceback
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, NoReturn, TextIO

from pytest_kwait.errors import KwaitError
from pytest_kwait.scheduler.command.configuration_file import (
    format_yaml,
    load_configuration,
    write_configuration,
)
from pytest_kwait.scheduler.command.feature_gates import FeatureGates
from pytest_kwait.scheduler.command.flags import PROGRAM, help_text, parse_flags
from pytest_kwait.scheduler.command.verflag import format_version, reported_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from pytest_kwait.scheduler.command.flags import Flags

DETAIL_VERBOSITY = 4
"""The minimum verbosity at which each step is logged."""

_SEVERITIES = {"DEBUG": "I", "INFO": "I", "WARNING": "W", "ERROR": "E", "CRITICAL": "F"}
_LOGGER = "pytest_kwait"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger(__name__)

_scheduler_main_log = logging.getLogger("pytest_kwait.scheduler")
_CONFIGURATION_VERBOSITY = 2


class _KlogFormatter(logging.Formatter):
    """Formats a line as klog does: `I1121 11:08:20.134597   13246 module.py:106] text`.

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


class _JsonFormatter(logging.Formatter):
    """Formats a line as kube-scheduler does with `--logging-format=json`.

    Source: k8s.io/component-base logs/json/json.go.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": round(record.created * 1000, 4),
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno < logging.ERROR:
            line["v"] = DETAIL_VERBOSITY if record.levelno < logging.INFO else 0
        if record.exc_info:
            line["err"] = self.formatException(record.exc_info)
        return json.dumps(line, separators=(",", ":"), ensure_ascii=False)


@contextmanager
def capture_logs(
    verbosity: int, stream: TextIO | None = None, *, as_json: bool = False
) -> Iterator[None]:
    """Write the scheduler's logs during the context, and flush them at its end.

    The logger is restored afterwards.

    Args:
        verbosity: the value of `-v`.
        stream: the output; stderr by default.
        as_json: whether each line is a JSON object instead of klog's form.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if as_json else _KlogFormatter())
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


def stop_on_signals(stop: threading.Event) -> None:
    """Make SIGTERM and SIGINT set `stop`; a second one ends the process with status 1.

    Source: apiserver pkg/server/signal.go SetupSignalHandler.
    """
    # A handler may run while its own thread holds the lock of any event; this queue has none.
    signals: SimpleQueue[int] = SimpleQueue()

    def note(number: int, _frame: FrameType | None) -> None:
        signals.put(number)

    def obey() -> None:
        number = signals.get()
        _log.info("Received %s, stopping", signal.Signals(number).name)
        stop.set()
        signals.get()
        exit_at_once(1)

    for number in _SIGNALS:
        signal.signal(number, note)
    threading.Thread(target=obey, name="kwait-scheduler-signals", daemon=True).start()


def exit_at_once(status: int) -> NoReturn:
    """Flush the logs and end the process without waiting for threads."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> NoReturn:
    """Run the program with the process' arguments, and end the process with its status."""
    stop = threading.Event()
    stop_on_signals(stop)
    status = 1
    try:
        status = run(sys.argv[1:], stop)
    finally:
        # Not by returning: that would join threads that wait for the network.
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        exit_at_once(status)


def run(argv: Sequence[str], stop: threading.Event) -> int:
    """Run the program; return exit status 0, or 1 with one line on stderr.

    Args:
        argv: the arguments without the program's name.
        stop: stops the program.
    """
    try:
        flags = parse_flags(argv)
        if flags.help:
            sys.stdout.write(help_text())
            return 0
        if shown := format_version(flags.version, PROGRAM):
            sys.stdout.write(shown)
            return 0
        with capture_logs(flags.v, as_json=flags.logging_format == "json"):
            _run(flags, stop)
    except KwaitError as error:
        sys.stderr.write(f"Error: {' '.join(str(error).split())}\n")
        return 1
    return 0


def _run(flags: Flags, stop: threading.Event) -> None:
    gates = FeatureGates.parse(flags.feature_gates)
    configuration = load_configuration(flags)
    if flags.v >= _CONFIGURATION_VERBOSITY:
        _scheduler_main_log.info("Using component config:\n%s", format_yaml(configuration))
    if flags.write_config_to:
        write_configuration(configuration, Path(flags.write_config_to))
        _scheduler_main_log.info("Wrote configuration to %s", flags.write_config_to)
        return
    # Importing the client takes a second, which the help and errors do not need.
    from pytest_kwait.scheduler.command.program import SchedulerProgram

    program = SchedulerProgram(flags, configuration, gates)
    version = reported_version(flags.version).removeprefix("v")
    _scheduler_main_log.info("Starting %s %s", PROGRAM, version)
    program.run(stop)


if __name__ == "__main__":
    main()
