"""The program `kwait-scheduler`, and clients of its endpoints."""

from __future__ import annotations

import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kwait import wait

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

ENOUGH = 60.0
"""Limit in seconds for changes that take one or two."""


def command_line(*flags: object) -> list[str]:
    """Return the command, or its module if only the sources are installed."""
    script = Path(sys.executable).with_name("kwait-scheduler")
    program = [str(script)] if script.exists() else [sys.executable, "-m", MODULE]
    return [*program, *map(str, flags)]


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


MODULE = "pytest_kwait.scheduler.command.scheduler_main"


def fetch(
    url: str, headers: dict[str, str] | None = None, tls: ssl.SSLContext | None = None
) -> tuple[int, str]:
    """Return status and text of a local server's response."""
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
    )
    try:
        with opener.open(urllib.request.Request(url, headers=headers or {}), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@dataclass(frozen=True)
class Caller:
    """Credentials of a client: a token, a certificate, or none."""

    token: str | None = None
    certificate: tuple[str, str] | None = None

    @classmethod
    def of(cls, client: ApiClient) -> Caller:
        """Return the user of an official client."""
        configuration: Any = client.configuration
        keys = configuration.api_key
        token = keys.get("BearerToken") or keys.get("authorization")
        if token:
            return cls(token.removeprefix("Bearer "))
        return cls(certificate=(configuration.cert_file, configuration.key_file))


class Program:
    """A running kwait-scheduler.

    Args:
        log: the file for what it writes.
        *flags: beside the address and the port it serves on.
    """

    def __init__(self, log: Path, *flags: object) -> None:
        self.port = free_port()
        self._log = log
        serving = ("--bind-address=127.0.0.1", f"--secure-port={self.port}")
        with log.open("w") as file:
            self._process = subprocess.Popen(
                command_line(*serving, *flags), stdout=file, stderr=subprocess.STDOUT
            )

    @property
    def log(self) -> str:
        """Its output."""
        return self._log.read_text()

    def get(self, path: str, caller: Caller | None = None) -> tuple[int, str]:
        """Return status and text of its response to a caller."""
        caller = caller or Caller()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE  # it generates its certificate
        if caller.certificate is not None:
            tls.load_cert_chain(*caller.certificate)
        headers = {"Authorization": f"Bearer {caller.token}"} if caller.token else {}
        return fetch(f"https://127.0.0.1:{self.port}{path}", headers, tls)

    def until(self, path: str, text: str, caller: Caller | None = None) -> str:
        """Return the response of a path once one of its lines matches."""
        shown = ""

        def shows() -> bool:
            nonlocal shown
            assert self._process.poll() is None, self.log
            try:
                _, shown = self.get(path, caller)
            except OSError:
                return False
            return re.search(text, shown, re.MULTILINE) is not None

        try:
            wait.poll_immediate(0.1, ENOUGH, shows)
        except wait.ErrWaitTimeout:
            message = f"{path} does not show {text!r} but: {shown}\n{self.log}"
            raise AssertionError(message) from None
        return shown

    def until_ready(self) -> None:
        """Return once it serves and its caches are filled."""
        self.until("/readyz", "^ok$")

    def terminate(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def ended(self) -> int:
        """Return its exit status."""
        return self._process.wait(ENOUGH)

    def stop(self) -> None:
        """End it in any state."""
        self._process.kill()
        self._process.wait(ENOUGH)
