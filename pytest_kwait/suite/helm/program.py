"""helm as a program: its commands on the run's cluster, as messages show them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.errors import ClusterError, KwaitError, WaitTimeout, describe_value
from pytest_kwait.temp_dir import TempDir

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline

END_DELAY = 2.0
"""Seconds that helm has to end by itself."""

_MAX_SHOWN = 2000
"""Characters of an output in a message."""

_VARIABLES = re.compile(r"HELM_KUBE.*|HELM_NAMESPACE|HELM_DEBUG|HELM_DRIVER|KUBECONFIG")
"""Variables that would choose another cluster, namespace or storage, or change the output."""
_SET_OPTION = re.compile(r"--set(-[a-z]+)?")
_CREDENTIAL_OPTION = re.compile(r"--(password|username)")
_ASSIGNED = re.compile(r"=(?:\\.|[^,\\])*")


@dataclass(frozen=True, slots=True)
class HelmResult:
    """The result of a helm command.

    Args:
        command: the command as a shell takes it, with values left out.
        exit_code: its exit code.
        stdout: its standard output.
        stderr: its standard error.
    """

    command: str
    exit_code: int
    stdout: str
    stderr: str

    def __repr__(self) -> str:
        return (
            f"HelmResult(command={self.command!r}, exit_code={self.exit_code}, "
            f"stderr={describe_value(self.stderr)})"
        )


class HelmError(KwaitError):
    """A helm command that failed.

    Args:
        result: its result.
    """

    def __init__(self, result: HelmResult) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        output = (self.result.stderr or self.result.stdout).strip()[-_MAX_SHOWN:]
        code = self.result.exit_code
        return f"{self.result.command} ended with exit code {code}: {output or 'no output'}"


@dataclass(frozen=True, slots=True)
class ReleaseName:
    """The name of a release, and its namespace."""

    name: str
    namespace: str


class HelmProgram:
    """Runs helm on the cluster of a session."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def call(
        self, name: ReleaseName, args: Sequence[str], shown: str, deadline: Deadline
    ) -> HelmResult:
        """Return the result of a command that changes nothing.

        Raises:
            HelmError: it failed.
            WaitTimeout: it did not end in time.
        """
        limit = max(deadline.remaining, 0.1)
        with self.started(name, args, shown) as process:
            try:
                out, err = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                raise make_timeout(shown, limit) from None
        done = HelmResult(shown, process.returncode, out, err)
        if done.exit_code:
            raise HelmError(done)
        return done

    @contextmanager
    def started(
        self, name: ReleaseName, args: Sequence[str], shown: str
    ) -> Iterator[subprocess.Popen[str]]:
        """Yield a running command, which is ended with the block."""
        program = shutil.which("helm")
        if program is None:
            raise ClusterError(
                f"{shown} cannot run: no helm is in PATH; install it from "
                "https://helm.sh/docs/intro/install/"
            )
        options = [
            "--kube-context" if option == "--context" else option
            for option in ("--namespace", name.namespace, *self._session.kubectl_args)
        ]
        environment = {
            variable: value
            for variable, value in os.environ.items()
            if not _VARIABLES.fullmatch(variable)
        }
        # In a shared one a command finds the kinds that another has read before, and writes later.
        cache = TempDir("helm-")
        environment["KUBECACHEDIR"] = str(cache.path)
        try:
            process = subprocess.Popen(  # noqa: S603 - no shell, and the arguments are the test's own
                [program, *args, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env=environment,
            )
            try:
                yield process
            finally:
                _end(process)
        finally:
            cache.remove()


def make_timeout(shown: str, seconds: float) -> WaitTimeout:
    """Return the error of a command that did not end in so many seconds."""
    return WaitTimeout(f"{shown} did not end within {format_duration(round(seconds, 1))}")


def format_command(
    name: ReleaseName, args: Iterable[str], shown: Mapping[str, str] | None = None
) -> str:
    """Return a command as a shell takes it, without credentials and assigned values.

    Args:
        shown: arguments that are shown otherwise.
    """
    words: list[str] = []
    option = ""
    for word in (*args, "--namespace", name.namespace):
        flag, equals, value = word.partition("=")
        text = (shown or {}).get(word, word)
        if _SET_OPTION.fullmatch(option):
            text = _ASSIGNED.sub("=***", word)
        elif _SET_OPTION.fullmatch(flag) and equals:
            text = f"{flag}={_ASSIGNED.sub('=***', value)}"
        elif _CREDENTIAL_OPTION.fullmatch(option):
            text = "***"
        elif _CREDENTIAL_OPTION.fullmatch(flag) and equals:
            text = f"{flag}=***"
        words.append(text)
        option = word
    return shlex.join(["helm", *words])


def _end(process: subprocess.Popen[str]) -> None:
    """End a process that still runs."""
    if process.poll() is None:
        process.terminate()
        try:
            process.communicate(timeout=END_DELAY)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
