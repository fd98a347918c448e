"""`kwait shards run`: run a suite in the cluster, one pod for each shard."""

from __future__ import annotations

import argparse
import shlex
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pytest_kwait.apimachinery.times import to_seconds
from pytest_kwait.cli import print_text
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.engine.failure.shortening import escape_control_characters
from pytest_kwait.errors import ClusterError, InvalidArgument, KwaitError

if TYPE_CHECKING:
    from pytest_kwait.suite.report.junit import OutcomeCounts
    from pytest_kwait.suite.shards.job import ShardOutcome

_MAX_SHARDS = 1000
_MAX_TEMPLATE_BYTES = 3 * 1024 * 1024
_TIMEOUT = "1h"
_LOG_LINES = 20
"""Maximum log lines shown for a lost shard."""

_EPILOG = """\
The image has the suite, its requirements and pytest-kwait of this version in it; the working
directory of the image is where pytest runs. What follows -- are pytest's arguments:

  kwait shards run --shards 8 --image registry.example.com/suite:1 -- e2e -m 'not slow'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    commands = parser.add_subparsers(dest="shards_command", metavar="run", required=True)
    text = "run a suite as an Indexed Job and gather its results"
    sub = commands.add_parser(
        "run",
        help=text,
        description=f"{text.capitalize()}.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = sub.add_argument
    add("--shards", metavar="N", type=int, required=True, help="number of pods")
    add("--image", metavar="IMAGE", help="image of the pods (default: the template's)")
    add(
        "--command",
        metavar="COMMAND",
        dest="python",
        default="python",
        help="command that starts Python in the image (default: python)",
    )
    add("--parallelism", metavar="N", type=int, help="number of pods at a time (default: all)")
    add(
        "--pod-template",
        metavar="FILE",
        type=Path,
        help="YAML of a pod template (metadata, spec); its container `pytest`, or else its first, "
        "runs the tests",
    )
    add("--service-account", metavar="NAME", help="service account of the tests (default: default)")
    add("--run-id", metavar="ID", help="name of the run (default: random)")
    add(
        "--namespace",
        metavar="NAME",
        default="default",
        help="namespace of the Job (default: default)",
    )
    add("--timeout", metavar="DURATION", default=_TIMEOUT, help=f"limit (default: {_TIMEOUT})")
    add("--keep", action="store_true", help="keep the Job for an hour")
    add("--junitxml", metavar="FILE", type=Path, help="JUnit file for the results of all shards")
    add(
        "--report",
        metavar="FILE",
        action="append",
        default=[],
        help="report of all shards, .html, .json or .md; repeatable",
    )
    add("--output", metavar="DIR", type=Path, help="folder for log and files of each shard")
    add("--kubeconfig", metavar="FILE", type=Path, help="kubeconfig of the cluster")
    add("--context", metavar="NAME", help="context of the kubeconfig")
    add("arguments", metavar="PYTEST_ARGUMENT", nargs="*", help="arguments of pytest, after --")


def run(arguments: argparse.Namespace) -> int:
    """Run the suite; status 1 unless every shard passed."""
    seconds = to_seconds(arguments.timeout, what="--timeout", allow_zero=False)
    _check_arguments(arguments)
    template = _read_template(arguments.pod_template)
    # Importing the client is slow, and other commands do not need it.
    from pytest_kwait.clusters.cluster import ClusterRequest
    from pytest_kwait.clusters.provider import choose_provider
    from pytest_kwait.suite.shards.job import ShardJob, ShardSuite

    suite = ShardSuite(
        arguments.run_id or uuid.uuid4().hex[:8],
        arguments.shards,
        shlex.split(arguments.python),
        arguments.arguments,
        arguments.image,
        arguments.parallelism,
        arguments.service_account,
        template,
    )
    suite.manifest(seconds)
    cluster = choose_provider(
        "existing",
        ClusterRequest(
            None if arguments.kubeconfig is None else Path(arguments.kubeconfig),
            arguments.context,
            sources={"kubeconfig": "option --kubeconfig", "context": "option --context"},
        ),
    ).start()
    outcomes: list[ShardOutcome] = []
    trouble: KwaitError | None = None

    def done(outcome: ShardOutcome) -> None:
        outcomes.append(outcome)
        _print_outcome(outcome, arguments.shards)

    try:
        client = cluster.client()
        try:
            job = ShardJob(client, arguments.namespace, suite, report=_print_line, done=done)
            job.run(Deadline.after(seconds, SYSTEM_CLOCK), keep=arguments.keep)
        except KwaitError as error:
            if not outcomes:
                raise
            trouble = error
        finally:
            client.close()  # type: ignore[no-untyped-call] # the official client has no types here
    finally:
        cluster.stop()
    outcomes.sort(key=lambda outcome: outcome.number)
    _write_files(outcomes, arguments)
    _print_line(_format_summary(outcomes))
    if trouble is not None:
        raise trouble
    return 0 if all(outcome.passed for outcome in outcomes) else 1


def _report_paths(arguments: argparse.Namespace) -> list[Path]:
    from pytest_kwait.suite.config.values import read_reports

    return [path for text in arguments.report for path in read_reports(text, "--report", None)]


def _check_arguments(arguments: argparse.Namespace) -> None:
    from pytest_kwait.suite.config.values import read_dns_label
    from pytest_kwait.suite.report.files import check_writable

    for option, number in (
        ("--shards", arguments.shards),
        ("--parallelism", arguments.parallelism),
    ):
        if number is not None and not 1 <= number <= _MAX_SHARDS:
            raise InvalidArgument(option, number, f"1 to {_MAX_SHARDS}")
    for option, name in (
        ("--namespace", arguments.namespace),
        ("--run-id", arguments.run_id),
        ("--service-account", arguments.service_account),
    ):
        if name is not None:
            read_dns_label(name, option, None)
    try:
        words = shlex.split(arguments.python)
    except ValueError as error:
        raise InvalidArgument("--command", arguments.python, f"a shell's words ({error})") from None
    if not words:
        raise InvalidArgument("--command", arguments.python, "what starts Python, python3")
    for option, path in (("--junitxml", arguments.junitxml), ("--output", arguments.output)):
        if path is not None and not path.absolute().parent.is_dir():
            raise InvalidArgument(option, str(path), "a place in a folder that exists")
    for report in _report_paths(arguments):
        check_writable(report, "--report", None)


def _read_template(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    # Loads msgspec, which other commands do not need.
    from pytest_kwait.bounds import read_limited

    valid = "a file with the YAML of one pod template: metadata and spec"
    try:
        template = yaml.safe_load(read_limited(path, _MAX_TEMPLATE_BYTES).decode("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise InvalidArgument("--pod-template", str(path), f"{valid} ({why})") from None
    if not isinstance(template, dict) or not set(template) <= {"metadata", "spec"}:
        raise InvalidArgument("--pod-template", str(path), valid)
    return template


def _print_outcome(outcome: ShardOutcome, shards: int) -> None:
    shard = f"shard {outcome.number}/{shards}"
    if outcome.results is None:
        _print_line(f"{shard} was lost: {outcome.reason}")
        for line in outcome.log.splitlines()[-_LOG_LINES:]:
            _print_line(f"  {line}")
        return
    if outcome.passed:
        _print_line(f"{shard} passed: {_format_counts(_count_tests(outcome))}")
        return
    _print_line(f"{shard} failed (pytest's exit status {outcome.results.status}); its log:")
    for line in outcome.log.splitlines():
        _print_line(f"  {line}")


def _count_tests(outcome: ShardOutcome) -> OutcomeCounts:
    from pytest_kwait.suite.report.junit import OutcomeCounts, count_tests
    from pytest_kwait.suite.shards.pod import JUNIT

    document = outcome.results.files.get(JUNIT) if outcome.results else None
    return OutcomeCounts() if document is None else count_tests(document)


def _format_counts(tally: OutcomeCounts) -> str:
    return (
        f"{tally.passed} passed, {tally.failures} failed, {tally.errors} errors, "
        f"{tally.skipped} skipped"
    )


def _format_summary(outcomes: list[ShardOutcome]) -> str:
    from pytest_kwait.suite.report.junit import OutcomeCounts

    total = sum((_count_tests(outcome) for outcome in outcomes), OutcomeCounts())
    lost = sum(outcome.results is None for outcome in outcomes)
    more = f", {lost} of {len(outcomes)} shards lost" if lost else ""
    return f"{_format_counts(total)} in {len(outcomes)} shards{more}"


def _write_files(outcomes: list[ShardOutcome], arguments: argparse.Namespace) -> None:
    from pytest_kwait.suite.report import junit, run_report
    from pytest_kwait.suite.report.files import write_report
    from pytest_kwait.suite.shards.pod import JUNIT, REPORT

    try:
        if arguments.output is not None:
            for outcome in outcomes:
                folder: Path = arguments.output / f"shard-{outcome.number}"
                folder.mkdir(parents=True, exist_ok=True)
                log = escape_control_characters(outcome.log)
                (folder / "log.txt").write_text(log, encoding="utf-8")
                for name, content in (outcome.results.files if outcome.results else {}).items():
                    (folder / Path(name).name).write_bytes(content)
        if arguments.junitxml is not None:
            documents = [
                (f"{outcome.number}/{len(outcomes)}", outcome.results.files[JUNIT])
                for outcome in outcomes
                if outcome.results is not None and JUNIT in outcome.results.files
            ]
            arguments.junitxml.write_bytes(junit.merge_documents(documents))
        if arguments.report:
            report = run_report.merge_reports(
                run_report.decode_report(
                    outcome.results.files[REPORT], f"shard {outcome.number}", outcome.pod
                )
                for outcome in outcomes
                if outcome.results is not None and REPORT in outcome.results.files
            )
            for path in _report_paths(arguments):
                write_report(report, path)
    except OSError as error:
        raise ClusterError(f"the results could not be written: {error}") from error


def _print_line(line: str) -> None:
    print_text(line)
    sys.stdout.flush()
