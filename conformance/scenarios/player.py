"""Play scenarios in parallel, each in its own namespace, and watch the whole cluster."""

from __future__ import annotations

import json
import queue
import secrets
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import urllib3

from conformance.scenarios.timeline import Timeline
from pytest_kwait.clock import SYSTEM_CLOCK
from tools.raw_api import RawClient, RawResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from conformance.scenarios.scenario import Scenario

KINDS = {
    "Pod": "/api/v1 pods",
    "Node": "/api/v1 nodes",
    "Event": "/api/v1 events",
    "ServiceAccount": "/api/v1 serviceaccounts",
    "ConfigMap": "/api/v1 configmaps",
    "Service": "/api/v1 services",
    "ResourceQuota": "/api/v1 resourcequotas",
    "PersistentVolumeClaim": "/api/v1 persistentvolumeclaims",
    "ReplicationController": "/api/v1 replicationcontrollers",
    "Deployment": "/apis/apps/v1 deployments",
    "ReplicaSet": "/apis/apps/v1 replicasets",
    "StatefulSet": "/apis/apps/v1 statefulsets",
    "DaemonSet": "/apis/apps/v1 daemonsets",
    "Job": "/apis/batch/v1 jobs",
    "CronJob": "/apis/batch/v1 cronjobs",
    "PodDisruptionBudget": "/apis/policy/v1 poddisruptionbudgets",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2 horizontalpodautoscalers",
    "EndpointSlice": "/apis/discovery.k8s.io/v1 endpointslices",
}
"""The watched kinds: the path of the group, and the plural."""

_UNWATCHED = {
    "Secret": "/api/v1 secrets",
    "PersistentVolume": "/api/v1 persistentvolumes",
    "PriorityClass": "/apis/scheduling.k8s.io/v1 priorityclasses",
}
OF_NO_NAMESPACE = frozenset({"Node", "PersistentVolume", "PriorityClass"})
"""Cluster-scoped kinds."""
_PAUSE = 0.2
_LIFE = 240


def path_of(kind: str, namespace: str) -> str:
    """Return the path of a kind's collection in a namespace; kinds in any case."""
    known = {name.lower(): name for name in KINDS | _UNWATCHED}
    name = known[kind.lower()]
    group, plural = (KINDS | _UNWATCHED)[name].split()
    if name in OF_NO_NAMESPACE:
        return f"{group}/{plural}"
    return f"{group}/namespaces/{namespace}/{plural}"


class ClusterWatch:
    """Watches of every kind, each in its own thread.

    Args:
        endpoint: the cluster.
        on_change: called from these threads with the type of a change and the object.
    """

    def __init__(
        self, endpoint: RawClient, on_change: Callable[[str, dict[str, Any]], None]
    ) -> None:
        self._endpoint = endpoint
        self._on_change = on_change
        self._over = threading.Event()

    def begin(self) -> None:
        """Start the watches."""
        for kind, place in KINDS.items():
            path = "/".join(place.split())
            version = self._version(path)
            follow = threading.Thread(target=self._follow, args=(kind, path, version), daemon=True)
            follow.start()

    def end(self) -> None:
        """Stop calling back; the threads end with their streams."""
        self._over.set()

    def _version(self, path: str) -> str:
        listed = self._endpoint.request("GET", f"{path}?limit=1")
        version: str = listed.body["metadata"]["resourceVersion"]
        return version

    def _follow(self, kind: str, path: str, version: str) -> None:
        while not self._over.is_set():
            query = f"watch=1&timeoutSeconds={_LIFE}&resourceVersion={version}"
            try:
                for change in self._endpoint.stream(f"{path}?{query}", timeout=_LIFE):
                    if self._over.is_set():
                        return
                    obj = change["object"]
                    if change["type"] == "ERROR":
                        version = self._version(path)
                        break
                    version = obj["metadata"]["resourceVersion"]
                    self._on_change(change["type"], {"kind": kind} | obj)
            except (urllib3.exceptions.HTTPError, json.JSONDecodeError, OSError):
                SYSTEM_CLOCK.sleep(_PAUSE)


_MAX_THREADS = 4
_LIMIT = 600.0
_TOGETHER = 20
_QUIET = 0.5
_PLAYER_PAUSE = 1.0
_PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}


@dataclass
class PlayedScenario:
    """A scenario that is being played."""

    scenario: Scenario
    namespace: str
    timeline: Timeline = field(default_factory=Timeline)
    done: int = 0
    """The number of its steps that are done."""
    busy: bool = False
    began_at: float = field(default_factory=SYSTEM_CLOCK.monotonic)
    """The start in monotonic seconds."""
    over_at: float | None = None
    """The end, by the same clock."""
    checked_at: float = 0.0
    """The time of the last check whether it has settled."""
    ended: bool = False
    changed: bool = True

    @property
    def wishes(self) -> tuple[str, ...]:
        """The awaited milestones."""
        if self.done < len(self.scenario.steps):
            return tuple(self.scenario.steps[self.done].get("when", ()))
        return self.scenario.over

    @property
    def missing(self) -> list[str]:
        """The awaited milestones that were not observed."""
        return [wish for wish in self.wishes if not self.timeline.holds(wish)]


def play_scenarios(
    kubeconfig: Path,
    scenarios: Iterable[Scenario],
    *,
    settled: Callable[[PlayedScenario], bool],
    linger: float,
    limit: float = _LIMIT,
    together: int = _TOGETHER,
) -> list[PlayedScenario]:
    """Play the scenarios; return the timeline of each.

    Args:
        kubeconfig: the cluster.
        scenarios: the scenarios.
        settled: returns whether an ended scenario is complete.
        linger: the longest wait for that, in seconds.
        limit: the limit of the whole play, in seconds.
        together: the number of scenarios in parallel: with more, two CPUs start containers too
            slowly for the kubelet to report every state.
    """
    player = _Player(RawClient(kubeconfig), settled, linger, together)
    return player.play(sorted(scenarios, key=lambda each: not each.first), limit)


class _Player:
    def __init__(
        self,
        endpoint: RawClient,
        settled: Callable[[PlayedScenario], bool],
        linger: float,
        together: int,
    ) -> None:
        self._endpoint = endpoint
        self._settled = settled
        self._linger = linger
        self._together = together
        self._changes: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._played: dict[str, PlayedScenario] = {}
        self._node = ""

    def play(self, scenarios: list[Scenario], limit: float) -> list[PlayedScenario]:
        nodes = self._endpoint.request("GET", "/api/v1/nodes").body["items"]
        self._node = nodes[0]["metadata"]["name"]
        watching = ClusterWatch(self._endpoint, self._on_change)
        deadline = SYSTEM_CLOCK.monotonic() + limit
        with ThreadPoolExecutor(_MAX_THREADS) as executor:
            try:
                watching.begin()
                self._run(executor, scenarios, deadline)
            finally:
                watching.end()
                for played in self._played.values():
                    if not played.ended:
                        executor.submit(self._clear, played)
        return list(self._played.values())

    def _run(
        self, executor: ThreadPoolExecutor, scenarios: list[Scenario], deadline: float
    ) -> None:
        later = list(reversed(scenarios))
        while SYSTEM_CLOCK.monotonic() < deadline:
            waiting = [each for each in self._played.values() if not each.ended]
            running = sum(each.over_at is None for each in waiting)
            free = min(self._together - running, len(later))
            waiting += [self._begin(later.pop(), executor) for _ in range(free)]
            if not waiting:
                return
            self._take()
            for played in waiting:
                self._advance(played, executor)

    def _begin(self, scenario: Scenario, executor: ThreadPoolExecutor) -> PlayedScenario:
        namespace = f"story-{scenario.name}-{secrets.token_hex(3)}"
        played = self._played[namespace] = PlayedScenario(scenario, namespace)
        executor.submit(self._make_namespace, namespace)
        return played

    def _take(self) -> None:
        """Process the received changes, or wait briefly for one."""
        try:
            self._changes.get(timeout=_QUIET)()
            while True:
                self._changes.get_nowait()()
        except queue.Empty:
            return

    def _advance(self, played: PlayedScenario, executor: ThreadPoolExecutor) -> None:
        if played.over_at is not None:
            now = SYSTEM_CLOCK.monotonic()
            if not played.changed and now - played.checked_at < _PLAYER_PAUSE:
                return
            played.changed, played.checked_at = False, now
            if now - played.over_at > self._linger or self._settled(played):
                played.ended = True
                executor.submit(self._clear, played)
            return
        if played.busy or not played.changed or not played.timeline.set_up:
            return
        played.changed = False
        if played.missing:
            return
        if played.done == len(played.scenario.steps):
            played.over_at = SYSTEM_CLOCK.monotonic()
            played.changed = True
            return
        played.busy = True
        step = played.scenario.filled(
            played.scenario.steps[played.done], {"ns": played.namespace, "node": self._node}
        )
        doing = executor.submit(self._do, played.namespace, step, played.timeline.name_of)
        doing.add_done_callback(lambda done: self._changes.put(lambda: _done(played, done)))

    def _on_change(self, change: str, obj: dict[str, Any]) -> None:
        namespace = _namespace_of(obj)
        if namespace in self._played:
            self._changes.put(lambda: self._observe(namespace, change, obj))

    def _observe(self, namespace: str, change: str, obj: dict[str, Any]) -> None:
        played = self._played[namespace]
        if not played.ended:
            played.timeline.observe(change, obj)
            played.changed = True

    # -- actions

    def _request(self, method: str, path: str, body: object = None, **more: Any) -> RawResponse:
        """Return the response to a request, sent until there is one."""
        while True:
            try:
                answer = self._endpoint.request(method, path, body, **more)
            except (urllib3.exceptions.HTTPError, OSError):
                if method == "POST":
                    raise
                continue
            if answer.status != 429 or "initializing" not in answer.text:
                return answer
            SYSTEM_CLOCK.sleep(float(answer.headers.get("Retry-After", "1")))

    def _make_namespace(self, name: str) -> None:
        self._request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def _clear(self, played: PlayedScenario) -> None:
        """Delete the scenario's objects without waiting."""
        made = [obj for step in played.scenario.steps for obj in step.get("create", ())]
        if any(obj["kind"] == "Node" for obj in made):
            # Without a kubelet, no status reports the end of its containers.
            pods = path_of("pod", played.namespace)
            self._request("DELETE", pods, {"gracePeriodSeconds": 0})
        self._request("DELETE", f"/api/v1/namespaces/{played.namespace}")
        for obj in made:
            if obj["kind"] in OF_NO_NAMESPACE:
                name = played.scenario.filled(obj, {"ns": played.namespace})["metadata"]["name"]
                self._request("DELETE", f"{path_of(obj['kind'], '')}/{name}")

    def _do(self, namespace: str, step: dict[str, Any], name_of: Callable[[str], str]) -> list[str]:
        if "create" in step:
            return [self._create(namespace, obj) for obj in step["create"]]
        verb = next(verb for verb in ("delete", "patch", "evict") if verb in step)
        target: str = step[verb]
        path = f"{path_of(target.partition('/')[0], namespace)}/{name_of(target)}"
        options: dict[str, Any] = {}
        if "grace" in step:
            options["gracePeriodSeconds"] = step["grace"]
        if "propagation" in step:
            options["propagationPolicy"] = step["propagation"]
        if verb == "delete":
            answer = self._request("DELETE", path, options)
        elif verb == "evict":
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": options}
            eviction["metadata"] = {"name": path.rpartition("/")[2]}
            answer = self._request("POST", f"{path}/eviction", eviction)
        else:
            if "subresource" in step:
                path = f"{path}/{step['subresource']}"
            kind = _PATCHES[step.get("type", "merge")]
            answer = self._request("PATCH", path, step["body"], content_type=kind)
        return [f"{verb} {target}: {answer.status}".replace(namespace, "<namespace>")]

    def _create(self, namespace: str, obj: dict[str, Any]) -> str:
        metadata = obj["metadata"]
        path = path_of(obj["kind"], namespace)
        parts = path.split("/")
        version = parts[2] if parts[1] == "api" else f"{parts[2]}/{parts[3]}"
        answer = self._request("POST", path, {"apiVersion": version} | obj)
        return f"create {obj['kind'].lower()}/{metadata['name']}: {answer.status}".replace(
            namespace, "<namespace>"
        )


def _namespace_of(obj: dict[str, Any]) -> str:
    """Return the namespace of an object's scenario; a node is named after it."""
    about = obj.get("involvedObject") or {}
    if about.get("kind") == "Node":
        return str(about.get("name", ""))
    metadata = obj["metadata"]
    return str(metadata.get("namespace") or metadata["name"])


def _done(played: PlayedScenario, doing: Future[list[str]]) -> None:
    for text in doing.result():
        played.timeline.answered(text)
    played.done += 1
    played.busy = False
    played.changed = True
