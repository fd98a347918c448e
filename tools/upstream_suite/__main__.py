"""Command line: ``python -m tools.upstream_suite``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from tools.controlplane.assets import GO
from tools.controlplane.errors import FAILED, UNAVAILABLE, BrokenError, UnavailableError
from tools.upstream_suite import assets, images
from tools.upstream_suite.results import (
    format_table,
    list_differences,
    read_not_passing,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_CODES = f"""\
exit codes: 0 as listed in not_passing.toml, {FAILED} something differs from it or could not run,
2 wrong use, {UNAVAILABLE} this machine lacks something (Linux, Go {GO})"""
_CONFORMANCE = r"\[Conformance\]"
_QUICK = Path(__file__).with_name("quick.txt")


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is missing, run the tests, print what passed, return the exit code."""
    options = _parse(arguments)
    try:
        if not sys.platform.startswith("linux"):
            raise UnavailableError(f"the suite needs Linux, and this is {sys.platform}")
        programs = assets.build()
        if options.build:
            print(programs.folder)
            return 0
        return _run(programs, options)
    except UnavailableError as missing:
        print(f"upstream_suite: {missing}", file=sys.stderr)
        return UNAVAILABLE
    except (BrokenError, OSError) as error:
        print(f"upstream_suite: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 130


def _run(programs: assets.Programs, options: argparse.Namespace) -> int:
    # Not at import: it takes the package with its dependencies, which a build does without.
    from tools.upstream_suite.run import list_tests, make_focus, run_tests

    asked: list[str] = []
    focus = options.focus or [_CONFORMANCE]
    if options.quick:
        asked = _QUICK.read_text().splitlines()
        focus = make_focus(asked)
    with nullcontext(options.out) if options.out else tempfile.TemporaryDirectory() as name:
        folder = Path(name).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if options.list:
            print("\n".join(list_tests(programs, focus, folder)))
            return 0
        images.install_packages()
        results = run_tests(
            programs, focus, folder, processes=options.procs, minutes=options.timeout
        )
        if not results:
            log = (folder / "ginkgo.log").read_text()[-3000:]
            raise BrokenError(f"no test has run; ginkgo said:\n{log}")
    differences = list_differences(results, read_not_passing(), asked)
    for result in results:
        if options.verbose:
            print(f"{result.seconds:6.1f} s {result.state:8} {result.name}")
    print(format_table(results))
    print("\n".join(["", *differences] if differences else ["all as listed in not_passing.toml"]))
    return FAILED if differences else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.upstream_suite",
        description="Run Kubernetes' own end-to-end suite on the embedded cluster.",
        epilog=_CODES,
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--focus",
        action="append",
        metavar="REGEX",
        help="tests whose name matches, repeatable (default: all of Conformance); "
        "never those marked Serial or Disruptive",
    )
    chosen.add_argument("--quick", action="store_true", help="only the tests of quick.txt")
    parser.add_argument("--procs", type=int, default=16, help="tests at a time (default: 16)")
    parser.add_argument(
        "--timeout", type=float, default=60, metavar="MINUTES", help="of all tests (default: 60)"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keeps the report and the log")
    parser.add_argument("--verbose", action="store_true", help="print each test's duration")
    parser.add_argument("--list", action="store_true", help="print the names of the tests")
    parser.add_argument("--build", action="store_true", help="build the programs, print the folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
