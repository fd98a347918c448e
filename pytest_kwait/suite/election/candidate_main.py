"""The program of a candidate: competes for a Lease, prints JSON lines.

Its configuration is its first argument, as JSON. A line on standard input ends it in good
order; the end of standard input, which comes with its parent's death, ends it at once. It
prints JSON objects with times of the monotonic clock, which all processes of a machine
share: `{"led": 12.5, "until": 15.5}` for each moment in which it acts as leader, `{"lost":
15.5}` when it no longer does, `{"sees": "candidate-1"}` for each new leader.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from pytest_kwait import wait
from pytest_kwait.client.transport import pin_settings
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.clusters.cluster import Cluster
from pytest_kwait.clusters.kubeconfig import read_kubeconfig
from pytest_kwait.leaderelection import LeaderElector, LeaseLock
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.wait import Context

_ACT_INTERVAL = 0.05
"""Seconds between two acts of a leader."""


class _CandidateProgram:
    """One candidate.

    Args:
        configuration: the configuration from `Candidates`.
    """

    def __init__(self, configuration: dict[str, Any]) -> None:
        self._lock = threading.Lock()
        self._until = 0.0
        client = _make_client(
            Path(configuration["kubeconfig"]), configuration["context"], configuration["port"]
        )
        lock = LeaseLock(
            client, configuration["namespace"], configuration["lease"], configuration["identity"]
        )
        self._elector = LeaderElector(
            lock,
            **configuration["options"],
            on_started_leading=self._lead,
            on_stopped_leading=lambda: None,
            on_new_leader=lambda name: self._print_message(sees=name),
        )

    def run(self, ctx: Context) -> None:
        """Compete repeatedly until stopped."""
        while ctx.err() is None:
            self._elector.run(ctx)

    def _lead(self, ctx: Context) -> None:
        while True:
            # Take the time first: an act counts from its decision.
            now = SYSTEM_CLOCK.monotonic()
            self._until = max(self._until, self._elector.lease_deadline.at)
            if ctx.err() is not None:
                break
            self._print_message(led=now, until=self._until)
            ctx.wait(_ACT_INTERVAL)
        self._print_message(lost=min(now, self._until))

    def _print_message(self, **facts: object) -> None:
        with self._lock:
            sys.stdout.write(json.dumps(facts) + "\n")
            sys.stdout.flush()


def server_endpoint(configuration: Any) -> tuple[str, int]:
    """Return the host and port for connections: the server's, or a proxy's.

    Args:
        configuration: the official client's.
    """
    way = urlsplit(configuration.proxy if _is_proxied(configuration) else configuration.host)
    return way.hostname or "", way.port or (443 if way.scheme == "https" else 80)


def _is_proxied(configuration: Any) -> bool:
    from kubernetes.client.rest import should_bypass_proxies

    return bool(configuration.proxy) and not should_bypass_proxies(
        configuration.host, no_proxy=configuration.no_proxy or ""
    )


def _make_client(kubeconfig: Path, context: str | None, port: int) -> ApiClient:
    """Return a client that connects to the server through a local port."""
    from kubernetes.client import ApiClient

    target = read_kubeconfig(kubeconfig).target(context)
    configuration: Any = Cluster(target, provider="existing").client().configuration
    local = f"127.0.0.1:{port}"
    if _is_proxied(configuration):
        way: dict[str, Any] = {
            "proxy": urlunsplit(urlsplit(configuration.proxy)._replace(netloc=local))
        }
    else:
        address = urlsplit(configuration.host)
        name = configuration.tls_server_name or address.hostname
        way = {"host": urlunsplit(address._replace(netloc=local)), "tls_server_name": name}
        way["proxy"] = None  # the environment's, which the address has brought back
    pin_settings(configuration, way)
    return ApiClient(configuration)


def main() -> None:
    """Run the program."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    program = _CandidateProgram(json.loads(sys.argv[1]))
    ctx, stop = wait.with_cancel(wait.background())
    competing = Worker("kwait-candidate", lambda: program.run(ctx))
    competing.start()
    if not sys.stdin.readline():
        os._exit(1)
    stop()
    competing.join()


if __name__ == "__main__":
    main()
