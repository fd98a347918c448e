"""A recording as a read-only cluster: frozen at a time, or played.

The API server is that of the embedded cluster, over a store that is filled with the recorded
objects under their own resource versions. Nothing else runs: no controllers, no kubelets. Logs come
from the recording.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import is_condition_true
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, async_sleep
from pytest_kwait.errors import ClusterError
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiextensions.controller import CRDS, DefinitionController
from pytest_kwait.simulator.apiserver.filters import ADMINS, StaticTokens
from pytest_kwait.simulator.apiserver.server import ApiServer
from pytest_kwait.simulator.authentication.pki import CertificateAuthority
from pytest_kwait.simulator.clock import SimClock
from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.protocol.kubeconfig import write_kubeconfig
from pytest_kwait.simulator.protocol.recording.files import find_instance
from pytest_kwait.simulator.request_info import User

if TYPE_CHECKING:
    import threading
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path
    from typing import NoReturn

    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet_api import ContainerOutput, LogLine, LogPlace
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.protocol.recording.files import RecordedLine, Recording

HOST = "127.0.0.1"

_CHANGES = frozenset({"STATE", "ADDED", "MODIFIED", "DELETED"})
_LOG_POLL_SECONDS = 0.05
_STEP_SECONDS = 0.05
"""The longest pause of a player, so that its time passes evenly."""


class _RecordedTime:
    """The clock of a replay: its wall clock shows the time of the recording.

    Args:
        recorded: the cluster that knows the time.
        clock: the clock of everything else.
    """

    def __init__(self, recorded: RecordedCluster, clock: Clock) -> None:
        self._recorded = recorded
        self._clock = clock

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        return self._clock.monotonic()

    def time(self) -> float:
        """Seconds since the epoch, as it was then."""
        return self._recorded.recording.header.started + self._recorded.position

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`; at once for zero or less."""
        self._clock.sleep(seconds)

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        """Return True once `event` is set, False after `timeout` seconds (None: no limit)."""
        return self._clock.wait(event, timeout)


class RecordedCluster:
    """The objects of a recording at one time, which only moves forward.

    Args:
        clock: the clock of pauses.
    """

    def __init__(self, recording: Recording, clock: Clock = SYSTEM_CLOCK) -> None:
        self.recording = recording
        self.position = 0.0
        """The time, in seconds since the start of the test."""
        self.is_playing = False
        self._changes = [line for line in recording.lines if line.type in _CHANGES]
        self._next = 0
        self._clock = clock
        self.logs: dict[tuple[str, str, str], list[RecordedLine]] = defaultdict(list)
        """By namespace, pod and container."""
        for line in recording.lines:
            if line.type == "LOG":
                self.logs[line.namespace, line.pod, line.container].append(line)
        self.cluster = SimulatedCluster(SimClock(clock=_RecordedTime(self, clock)))
        self.cluster.has_controllers = True
        self.cluster.time_scale = recording.header.time_scale
        self._definitions = DefinitionController(self.cluster)
        self._kubelet = RecordedKubelet(self)
        self.advance(0.0)

    @property
    def is_at_end(self) -> bool:
        """Return whether everything has been shown."""
        return self.position >= self.recording.end

    @property
    def description(self) -> str:
        """The recording in a message."""
        return f"a recording of {self.recording.header.test or 'a run that was killed'}"

    async def play(self, speed: float) -> None:
        """Move on to the end.

        Args:
            speed: recorded seconds per second.
        """
        self.is_playing = True
        begun, first = self._clock.monotonic(), self.position
        while not self.is_at_end:
            due = self.recording.end
            if self._next < len(self._changes):
                due = self._changes[self._next].at
            await async_sleep(min(max((due - self.position) / speed, 0.0), _STEP_SECONDS))
            self.advance(min(first + (self._clock.monotonic() - begun) * speed, self.recording.end))
        self.is_playing = False

    def advance(self, position: float) -> None:
        """Apply the changes up to a time; nothing if that is over.

        Raises:
            ClusterError: an object lacks a field that the API server needs.
        """
        self.position = max(self.position, position)
        while self._next < len(self._changes) and self._changes[self._next].at <= self.position:
            self._apply(self._changes[self._next])
            self._next += 1

    def _apply(self, line: RecordedLine) -> None:
        try:
            self._apply_change(line)
        except (AttributeError, KeyError, TypeError) as error:
            why = f"no {error}" if isinstance(error, KeyError) else str(error)
            place = f"{line.resource} {line.key} at {line.at:g}s"
            raise ClusterError(f"the recording is corrupted: {place}: {why}") from error

    def _apply_change(self, line: RecordedLine) -> None:
        store = self.cluster.store
        known = store.get(line.resource, line.key)
        if line.type == "DELETED":
            if known is None:
                return
            store.revision = line.revision - 1
            store.remove(line.resource, line.key)
        else:
            # A change may be recorded twice where a journal was divided.
            if known is not None and known.revision >= line.revision:
                return
            store.revision = line.revision - 1
            store.put(line.resource, line.key, line.object)
        if line.resource == CRDS:
            self._apply_definition(line)
        elif line.resource == "nodes":
            self.cluster.kubelets[line.key] = self._kubelet

    def _apply_definition(self, line: RecordedLine) -> None:
        if line.type == "DELETED":
            self._definitions.serve(line.key, None)
        elif is_condition_true(line.object, "Established"):
            self._definitions.serve(line.key, line.object)

    def serve_later_kinds(self) -> None:
        """Serve the kinds that are defined later, too, which have no object before that."""
        for line in self._changes[self._next :]:
            is_new = self.cluster.kinds.find(line.key) is None
            if line.resource == CRDS and line.type != "DELETED" and is_new:
                self._apply_definition(line)


class RecordedKubelet:
    """Answers for the kubelets of all nodes; nothing but logs is recorded of them."""

    def __init__(self, recorded: RecordedCluster) -> None:
        self._recorded = recorded

    def _lines(self, namespace: str, pod: str, container: str, *, previous: bool) -> list[LogLine]:
        recorded = self._recorded
        pod_object = recorded.cluster.find("pods", pod, namespace) or {}
        instance = find_instance(pod_object, container, previous=previous)
        started = recorded.recording.header.started
        return [
            (started + line.at, line.text.encode())
            for line in recorded.logs.get((namespace, pod, container), ())
            if line.instance == instance and line.at <= recorded.position
        ]

    def logs(
        self, namespace: str, pod: str, container: str, *, previous: bool = False
    ) -> list[LogLine]:
        """Return the lines that a container had logged by then."""
        return self._lines(namespace, pod, container, previous=previous)

    async def follow(self, namespace: str, pod: str, container: str) -> AsyncIterator[LogLine]:
        """Yield the lines of a container's log while the recording plays."""
        sent = 0
        while True:
            is_over = self._recorded.is_at_end or not self._recorded.is_playing
            lines = self._lines(namespace, pod, container, previous=False)
            for line in lines[sent:]:
                yield line
            sent = len(lines)
            if is_over:
                return
            await async_sleep(_LOG_POLL_SECONDS)

    def container_logs(self) -> Iterator[tuple[LogPlace, ContainerOutput]]:
        """Return nothing: a replay is not recorded."""
        return iter(())

    def pods(self) -> Obj:
        """Return an empty PodList."""
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}

    def running_pods(self) -> Obj:
        """Return an empty PodList: no container runs."""
        return self.pods()

    def counts(self) -> dict[str, int]:
        """Return no containers."""
        return {}

    def run(
        self, namespace: str, pod: str, container: str, argv: list[str], *, stdin: bool, tty: bool
    ) -> NoReturn:
        """Raise LookupError: no container runs."""
        raise LookupError(container)

    def attach(self, namespace: str, pod: str, container: str, *, stdin: bool) -> NoReturn:
        """Raise LookupError: no container runs."""
        raise LookupError(container)

    def network_of(self, namespace: str, pod: str) -> NoReturn:
        """Raise LookupError: no pod runs."""
        raise LookupError(pod)

    async def dial(self, address: str, port: int, *, tls: bool = False) -> None:
        """Return None: nothing listens."""

    def find_network(self, address: str) -> Network | None:
        """Return None: no pod runs."""
        return None

    def list_addresses(self) -> list[tuple[str, Obj]]:
        """Return nothing: no pod runs."""
        return []


class ReplayServer:
    """A recorded cluster behind HTTPS, for one administrator."""

    def __init__(self, recorded: RecordedCluster) -> None:
        refusal = f"this is {recorded.description}: it can be read, not changed"
        self._recorded = recorded
        self._token = secrets.token_urlsafe(24)
        self._authority = CertificateAuthority(HOST, "localhost")
        tokens = StaticTokens({self._token: User("kubernetes-admin", (ADMINS,))})
        self._server = ApiServer(
            recorded.cluster, tokens, _refuse_aggregated_group, read_only_message=refusal
        )

    async def start(self, kubeconfig: Path, port: int = 0) -> str:
        """Listen, write the kubeconfig and return the address.

        The context's namespace is that of the test.

        Raises:
            OSError: the port is taken, or the file cannot be written.
        """
        cluster = self._recorded.cluster
        cluster.root_ca = self._authority.pem
        bound_port = await self._server.start(HOST, port, self._authority.tls)
        cluster.server_address = (HOST, bound_port)
        url = f"https://{HOST}:{bound_port}"
        namespace = next(iter(self._recorded.recording.header.namespaces), "")
        tokens = {"kwait-replay": self._token}
        write_kubeconfig(kubeconfig, url, self._authority.trusted_pem, tokens, namespace=namespace)
        return url

    async def stop(self) -> None:
        """Close all connections."""
        await self._server.stop()


async def _refuse_aggregated_group(
    cluster: Cluster, request: ApiRequest, obj: Obj
) -> web.StreamResponse:
    raise StatusError(503, "ServiceUnavailable", "servers of other groups are not recorded")
