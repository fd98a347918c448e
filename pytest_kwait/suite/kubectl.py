"""kubectl, where it is installed: commands on the run's cluster, and kustomize folders."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.errors import ClusterError, KwaitError, WaitTimeout, describe_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MAX_SHOWN = 2000
"""Characters of an output in a message."""


@dataclass(frozen=True, slots=True)
class KubectlResult:
    """The result of a kubectl command.

    Args:
        args: the arguments as given.
        exit_code: its exit code.
        stdout: its standard output.
        stderr: its standard error.
    """

    args: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str

    def __repr__(self) -> str:
        return (
            f"KubectlResult(exit_code={self.exit_code}, stdout={describe_value(self.stdout)}, "
            f"stderr={describe_value(self.stderr)})"
        )


class KubectlError(KwaitError):
    """A kubectl command that failed.

    Args:
        result: its result.
    """

    def __init__(self, result: KubectlResult) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        output = (self.result.stderr or self.result.stdout).strip()[-_MAX_SHOWN:]
        command = " ".join(("kubectl", *self.result.args))
        return f"{command} ended with exit code {self.result.exit_code}: {output or 'no output'}"


def run_kubectl(
    args: Sequence[str],
    options: Sequence[str] = (),
    *,
    stdin: str | None = None,
    folder: Path | None = None,
    timeout: float,
    check: bool = True,
) -> KubectlResult:
    """Run kubectl and return its result.

    Args:
        args: its arguments.
        options: global options before these, which messages leave out.
        stdin: its input; None for none.
        folder: its working directory; None for this process's.
        timeout: the limit in seconds; it is killed then.
        check: whether another exit code than 0 is an error.

    Raises:
        ClusterError: kubectl is not installed.
        KubectlError: it failed.
        WaitTimeout: it did not end in time.
    """
    program = shutil.which("kubectl")
    if program is None:
        raise ClusterError(
            f"kubectl {' '.join(args)} cannot run: no kubectl is in PATH; install it from "
            "https://kubernetes.io/docs/tasks/tools/"
        )
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and the arguments are the test's own
            [program, *options, *args],
            input="" if stdin is None else stdin,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            cwd=folder,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        limit = format_duration(round(timeout, 1))
        raise WaitTimeout(f"kubectl {' '.join(args)} did not end within {limit}") from error
    result = KubectlResult(tuple(args), done.returncode, done.stdout, done.stderr)
    if check and done.returncode:
        raise KubectlError(result)
    return result
