"""Faults of an embedded cluster, and the client that requests them.

The client holds a connection: the cluster ends all faults when it is closed.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pytest_kwait.apimachinery.arguments import check_number
from pytest_kwait.apimachinery.times import to_seconds
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, ClusterError, InvalidArgument, KwaitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    import urllib3
    from kubernetes.client import ApiClient

    from pytest_kwait.client.deadlines import Guard
    from pytest_kwait.client.session import ApiSession

FaultTarget = Literal["namespace", "client", "all"]

_API_ROOT = "/kwait/v1"
_REQUEST_TIMEOUT = 30.0
_NO_TIMEOUT = 365 * 86_400.0
_HEADER = "Kwait-Client"
_FAULT_TARGETS = ("namespace", "client", "all")


class NotEmbeddedError(ClusterError):
    """The cluster has no faults and image mappings, or does not allow them."""


class Fault:
    """One fault; ends with `undo`, with its `with` block, or with the test.

    Args:
        name: its id in the cluster; empty if it was over at once.
    """

    def __init__(self, client: FaultClient, name: str) -> None:
        self._client = client
        self._name = name

    @property
    def hits(self) -> int:
        """The number of affected requests, watches or pulls; 0 for faults of nodes and time.

        Raises:
            KwaitError: it has ended.
        """
        return self._client.hits(self._name)

    def undo(self) -> None:
        """End it; may be called again."""
        self._client.undo(self._name)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.undo()


class FaultClient:
    """The faults of this process in one cluster.

    Args:
        server: the cluster's address, for messages.
    """

    def __init__(self, session: Callable[[], ApiSession], server: str) -> None:
        self._session = session
        self._server = server
        self._lock = threading.Lock()
        self._holder = ""
        self._hold: tuple[urllib3.BaseHTTPResponse, Iterator[bytes], Guard] | None = None
        self._names: list[str] = []

    def undo_all(self) -> None:
        """End every fault; without an answer the cluster ends them with the connection."""
        with self._lock:
            names, self._names = self._names, []
            hold, self._hold, self._holder = self._hold, None, ""
        try:
            for name in reversed(names):
                self._delete(name)
        finally:
            if hold is not None:
                answer, _, guard = hold
                with suppress(OSError):
                    answer.close()
                guard.release()

    def undo(self, name: str) -> None:
        """End one fault, if it exists."""
        with self._lock:
            if name not in self._names:
                return
            self._names.remove(name)
        self._delete(name)

    def hits(self, name: str) -> int:
        """Return the number of hits of a fault."""
        if name not in self._names:
            raise KwaitError("this fault has ended: its count is no longer kept")
        return int(self._request("GET", f"{_API_ROOT}/faults/{name}")["hits"])

    def list_missing_isolation(self) -> list[str]:
        """Return a sentence for each restriction of the isolation of running programs."""
        return [
            str(sentence) for sentence in self._request("GET", f"{_API_ROOT}/isolation")["missing"]
        ]

    def _delete(self, name: str) -> None:
        try:
            self._request("DELETE", f"{_API_ROOT}/faults/{name}")
        except ApiError as error:
            if error.status != 404:
                raise

    def make(self, fault: dict[str, Any]) -> Fault:
        """Create a fault that ends with the connection at the latest.

        Raises:
            ApiError: the cluster refuses it.
            ClusterError: it is no embedded one.
        """
        with self._lock:
            if self._hold is None:
                self._open()
            answer = self._request("POST", f"{_API_ROOT}/faults", {**fault, "holder": self._holder})
            name = str(answer.get("id", ""))
            if name:
                self._names.append(name)
            return Fault(self, name)

    def _open(self) -> None:
        """Open the connection with which all faults of the test end."""
        transport = self._session().transport
        path = f"{_API_ROOT}/hold"
        with ExitStack() as unless_open:
            guard = transport.guard("GET", path, Deadline.after(_NO_TIMEOUT))
            unless_open.callback(guard.release)
            try:
                answer = transport.open(path, query={}, guard=guard)
                lines = answer.stream(4096)
                self._holder = json.loads(next(lines))["holder"]
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
                why = "has none to offer" if error.status == 404 else "does not let us make them"
                raise NotEmbeddedError(
                    f"faults are made on the embedded cluster alone, and as an administrator: "
                    f"{self._server} {why} ({error.status}); keep the test from running there"
                ) from error
            unless_open.pop_all()
        # Releasing a stream closes its connection.
        self._hold = (answer, lines, guard)

    def _request(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        answer = self._session().transport.send(
            method,
            path,
            body=data,
            content_type=None if data is None else "application/json",
            deadline=Deadline.after(_REQUEST_TIMEOUT),
        )
        content: dict[str, Any] = json.loads(answer.data)
        return content


@dataclass(frozen=True)
class FaultScope:
    """The test for which faults are created.

    Args:
        namespace: the test's namespace; empty without one.
        client: the test's client; None without one.
        alone: whether the test runs alone on the cluster.
    """

    namespace: str = ""
    client: ApiClient | None = None
    alone: bool = True


class Faults:
    """Faults of an embedded cluster; `kwait_cluster.faults` in tests.

    A fault ends when it is undone, when its `with` block ends, and at the latest with its test,
    also if that fails, times out or is killed. Faults of requests and pulls affect the test's own
    namespace by default; those that affect the whole cluster require the marker `serial` or
    `disruptive`.

    Args:
        server: the cluster's address, for messages.
        place: returns the current test's scope.
    """

    def __init__(
        self,
        session: Callable[[], ApiSession],
        server: str,
        place: Callable[[], FaultScope] = FaultScope,
    ) -> None:
        self._place = place
        self._client = FaultClient(session, server)
        self._named: ApiClient | None = None

    # -- requests

    def refuse(
        self,
        status: int,
        *,
        retry_after: int | None = None,
        times: int | None = None,
        target: FaultTarget = "namespace",
        namespace: str | None = None,
        resources: Sequence[str] = (),
        verbs: Sequence[str] = (),
    ) -> Fault:
        """Refuse requests with 429 or 500, like an overloaded API server or one without storage.

        Args:
            status: 429 or 500.
            retry_after: seconds of Retry-After for a 429; None for no header.
            times: the number of requests; None for all.
            target: `namespace` for requests on objects there by any client; `client` for all
                requests of the test's client; `all` for all requests, in a serial test.
            namespace: another namespace than the test's.
            resources: only these resources, as `pods`; empty for all.
            verbs: only these of `create`, `delete`, `deletecollection`, `get`, `list`, `patch`,
                `update`, `watch`; empty for all.

        Raises:
            ClusterError: not an embedded cluster.
            KwaitError: it affects the whole cluster, and the test is not serial.
        """
        if status not in (429, 500):
            raise InvalidArgument("status", status, "429 or 500")
        seconds: object = retry_after
        is_invalid = isinstance(seconds, bool) or not isinstance(seconds, int) or seconds < 1
        if retry_after is not None and (status != 429 or is_invalid):
            raise InvalidArgument("retry_after", retry_after, "whole seconds above 0, with 429")
        fault = self._scoped("refuse", target, namespace, resources, verbs)
        retry = {} if retry_after is None else {"retryAfter": retry_after}
        return self._client.make(
            {"kind": "refusal", "status": status, **retry, **_check_times(times), **fault}
        )

    def delay(
        self,
        seconds: float | str,
        *,
        times: int | None = None,
        target: FaultTarget = "namespace",
        namespace: str | None = None,
        resources: Sequence[str] = (),
        verbs: Sequence[str] = (),
    ) -> Fault:
        """Delay responses, and the start of watches.

        Args:
            seconds: a duration.
            times: the number of requests; None for all.
            target: as for `refuse`.
            namespace: as for `refuse`.
            resources: as for `refuse`.
            verbs: as for `refuse`.

        Raises:
            ClusterError: not an embedded cluster.
            KwaitError: it affects the whole cluster, and the test is not serial.
        """
        fault = self._scoped("delay", target, namespace, resources, verbs)
        length = _check_positive("seconds", seconds)
        return self._client.make(
            {"kind": "latency", "seconds": length, **_check_times(times), **fault}
        )

    def cut_watches(
        self,
        *,
        target: FaultTarget = "namespace",
        namespace: str | None = None,
        resources: Sequence[str] = (),
    ) -> Fault:
        """Break the connections of open watches; `.hits` counts them.

        Args:
            target: as for `refuse`.
            namespace: as for `refuse`.
            resources: as for `refuse`.

        Raises:
            ClusterError: not an embedded cluster.
            KwaitError: it affects the whole cluster, and the test is not serial.
        """
        fault = self._scoped("cut_watches", target, namespace, resources, ())
        return self._client.make({"kind": "cut-watches", **fault})

    def expire_history(
        self,
        *,
        target: FaultTarget = "namespace",
        namespace: str | None = None,
        resources: Sequence[str] = (),
    ) -> Fault:
        """Drop all revisions up to now: open watches break, and resuming them gets a 410.

        Args:
            target: as for `refuse`.
            namespace: as for `refuse`.
            resources: as for `refuse`.

        Raises:
            ClusterError: not an embedded cluster.
            KwaitError: it affects the whole cluster, and the test is not serial.
        """
        fault = self._scoped("expire_history", target, namespace, resources, ())
        return self._client.make({"kind": "expired-history", **fault})

    # -- pods

    def slow_pulls(
        self, seconds: float | str, *, image: str = "", namespace: str | None = None
    ) -> Fault:
        """Delay image pulls. Images on the node are pulled only with the policy `Always`.

        Args:
            seconds: a duration, real seconds on fast timing too.
            image: only images whose full name, as `docker.io/library/nginx:1`, contains this.
            namespace: the pods' namespace; the test's by default; empty for all, which disturbs
                every test.

        Raises:
            ClusterError: not an embedded cluster.
            KwaitError: all namespaces, and the test does not run alone.
        """
        _check_image(image)
        fault = {"namespace": self._pod_namespace("slow_pulls", namespace), "image": image}
        return self._client.make(
            {"kind": "pulls", "seconds": _check_positive("seconds", seconds), **fault}
        )

    def fail_pulls(
        self,
        message: str = "failed to do request: dial tcp: i/o timeout",
        *,
        image: str = "",
        namespace: str | None = None,
    ) -> Fault:
        """Fail image pulls. Images on the node are pulled only with the policy `Always`.

        Args:
            message: the container runtime's error; waits decide by it when to fail early.
            image: as for `slow_pulls`.
            namespace: as for `slow_pulls`.

        Raises:
            ClusterError: not an embedded cluster.
            KwaitError: as for `slow_pulls`.
        """
        text: object = message
        if not isinstance(text, str) or not text:
            raise InvalidArgument("message", message, "what the container runtime says")
        _check_image(image)
        fault = {"namespace": self._pod_namespace("fail_pulls", namespace), "image": image}
        return self._client.make({"kind": "pulls", "message": message, **fault})

    def run_out_of_memory(
        self, pod: str, container: str | None = None, *, namespace: str | None = None
    ) -> None:
        """Kill a running container as the kernel does: `OOMKilled`, exit code 137.

        Args:
            pod: its name.
            container: its name; None for the first.
            namespace: the pod's; the test's by default.

        Raises:
            ApiError: no such pod, or the container is not running.
            ClusterError: not an embedded cluster.
        """
        check_name("pod", pod)
        if container is not None:
            check_name("container", container)
        fault = {"namespace": self._namespace(namespace), "pod": pod}
        container_field = {} if container is None else {"container": container}
        self._client.make({"kind": "out-of-memory", **fault, **container_field})

    def rule(self, fault: dict[str, Any], namespace: str | None) -> Fault:
        """Create a rule for pods, for `kwait_cluster.pods(…)`.

        Args:
            fault: the rule.
            namespace: the pods' namespace; None for the test's.
        """
        return self._client.make({**fault, "namespace": self._namespace(namespace)})

    # -- nodes and time: these affect the whole cluster

    def partition_node(self, node: str) -> Fault:
        """Cut a node off: its pods keep running, and the kubelet has no connection.

        Raises:
            ApiError: no such node.
            ClusterError: not an embedded cluster.
            KwaitError: the test is not serial.
        """
        check_name("node", node)
        self._alone("partition_node")
        return self._client.make({"kind": "partition", "node": node})

    def stop_kubelet(self, node: str) -> Fault:
        """Stop a node's kubelet: containers keep running, none is started, restarted or probed.

        Raises:
            ApiError: no such node.
            ClusterError: not an embedded cluster.
            KwaitError: the test is not serial.
        """
        check_name("node", node)
        self._alone("stop_kubelet")
        return self._client.make({"kind": "dead-kubelet", "node": node})

    def pressure(self, node: str, resource: Literal["disk", "memory"]) -> Fault:
        """Put a node under pressure: it gets the condition, and evicts pods.

        Args:
            resource: `disk` or `memory`.

        Raises:
            ApiError: no such node.
            ClusterError: not an embedded cluster.
            KwaitError: the test is not serial.
        """
        check_name("node", node)
        if resource not in ("disk", "memory"):
            raise InvalidArgument("resource", resource, "disk or memory")
        self._alone("pressure")
        return self._client.make({"kind": "pressure", "node": node, "resource": resource})

    def jump_clock(self, seconds: float | str) -> Fault:
        """Set the cluster's wall clock forward or back; the end of the fault resets it.

        Timestamps jump. Schedules, deadlines and times to live are compared with the new time at
        once; pauses that have begun, such as a back-off, are not shortened.

        Args:
            seconds: a duration or a number of seconds; negative for back.

        Raises:
            InvalidArgument: not a duration, or 0.
            ClusterError: not an embedded cluster.
            KwaitError: the test is not serial.
        """
        if isinstance(seconds, str):
            back = seconds.startswith("-")
            far = _check_positive("seconds", seconds.removeprefix("-"))
            length = -far if back else far
        else:
            check_number("seconds", seconds, "use a duration or a number of seconds")
            length = float(seconds)
            _check_positive("seconds", abs(length))
        self._alone("jump_clock")
        return self._client.make({"kind": "clock-jump", "seconds": length})

    def undo_all(self) -> None:
        """End every fault; without an answer the cluster ends them with the connection.

        Raises:
            ApiError: the request failed.
        """
        named, self._named = self._named, None
        if named is not None:
            named.default_headers.pop(_HEADER, None)
        self._client.undo_all()

    def _alone(self, fault_name: str) -> None:
        if not self._place().alone:
            raise KwaitError(
                f"faults.{fault_name} disturbs every test on the cluster: mark this one with "
                "@pytest.mark.kwait_disruptive, and it runs alone"
            )

    def _namespace(self, namespace: str | None) -> str:
        if namespace:
            check_namespace(namespace)
        fault_namespace = self._place().namespace if namespace is None else namespace
        if not fault_namespace:
            why = "the namespace that the fault is for, as this test has none of its own"
            raise InvalidArgument("namespace", namespace, why)
        return fault_namespace

    def _pod_namespace(self, fault_name: str, namespace: str | None) -> str:
        if namespace != "":
            return self._namespace(namespace)
        self._alone(f'{fault_name}(namespace="")')
        return ""

    def _scoped(
        self,
        fault_name: str,
        target: FaultTarget,
        namespace: str | None,
        resources: Sequence[str],
        verbs: Sequence[str],
    ) -> dict[str, Any]:
        if target not in _FAULT_TARGETS:
            raise InvalidArgument("target", target, f"one of {', '.join(_FAULT_TARGETS)}")
        for name, values in (("resources", resources), ("verbs", verbs)):
            given: object = values
            if isinstance(given, str) or not isinstance(given, Collection):
                raise InvalidArgument(name, values, "a list")
        fault: dict[str, Any] = {"resources": list(resources), "verbs": list(verbs)}
        if namespace is not None and target != "namespace":
            raise InvalidArgument("namespace", namespace, "given with target='namespace' alone")
        if target == "namespace":
            fault["namespace"] = self._namespace(namespace)
        elif target == "client":
            fault["client"] = self._named_client()
        else:
            self._alone(f"{fault_name}(target='all')")
        return fault

    def _named_client(self) -> str:
        client = self._place().client
        if client is None:
            raise InvalidArgument(
                "target", "client", "namespace or all, as this test has no client"
            )
        self._named = client
        name: str = client.default_headers.setdefault(_HEADER, uuid.uuid4().hex)
        return name


def _check_times(times: object) -> dict[str, int]:
    if times is None:
        return {}
    if isinstance(times, bool) or not isinstance(times, int) or times < 1:
        raise InvalidArgument("times", times, "a whole number above 0")
    return {"times": times}


def _check_positive(what: str, value: float | str) -> float:
    return to_seconds(value, what=what, allow_zero=False)


def _check_image(image: object) -> None:
    if not isinstance(image, str):
        raise InvalidArgument("image", image, "a part of the full name of an image, or '' for all")
