"""A cluster that is a dictionary: it stores what is written, and furnishes namespaces."""

from __future__ import annotations

import copy
import json
import threading
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytest_kwait.client.availability import Availability
from pytest_kwait.client.deadlines import Guard
from pytest_kwait.client.discovery import Discovery
from pytest_kwait.client.resource import BUILT_IN, Resource
from pytest_kwait.client.responses import Response
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.clusters.faults import Faults
from pytest_kwait.clusters.scripted_pods import ScriptedPods, script_pods
from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.clock import Deadline
    from pytest_kwait.clusters.kubeconfig import RestConfig

_GIVEN_TO_NAMESPACES = (
    ("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount"}, "default"),
    ("configmaps", {"apiVersion": "v1", "kind": "ConfigMap"}, "kube-root-ca.crt"),
)


class FakeTransport:
    """Answers requests from a dictionary of paths.

    Args:
        log: a file that each request but reads is written to as a line; None for `requests` alone.
    """

    credentials: frozenset[str] = frozenset()
    availability = Availability("https://fake")

    def __init__(self, log: Path | None = None) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.refused: dict[tuple[str, str], list[ApiError]] = {}
        self.bare_namespaces = False
        self.defined: list[Resource] = []
        """Kinds that discovery tells of beside the built-in ones."""
        self.now: float | None = None
        """The server's time in responses; None for none."""
        self._log = log
        self._count = 0
        self._lock = threading.RLock()

    def refuse(self, method: str, path: str, *errors: ApiError) -> None:
        """Answer the next requests of this kind with errors."""
        self.refused.setdefault((method, path), []).extend(errors)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        content_type: str | None = None,
        accept: str = "",
        deadline: Deadline,
    ) -> Response:
        with self._lock:
            return self._send(method, path, query, body)

    def _send(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: bytes | None
    ) -> Response:
        self.requests.append(f"{method} {path}")
        if self._log is not None and method != "GET":
            with self._log.open("a", encoding="utf-8") as file:
                file.write(f"{method} {path}\n")
        errors = self.refused.get((method, path))
        if errors:
            raise errors.pop(0)
        if path in ("/api", "/apis"):
            kinds = (*BUILT_IN.values(), *self.defined)
            here = [each for each in kinds if bool(each.group) == (path == "/apis")]
            groups = [_discovered(each) for each in here]
            return self._answer({"kind": "APIGroupDiscoveryList", "items": groups})
        if method == "GET":
            return self._read(path, query or {})
        if method == "DELETE":
            return self._delete(path, json.loads(body or b"{}"))
        is_dry_run = (query or {}).get("dryRun") == "All"
        return self._write(method, path, json.loads(body or b"{}"), is_dry_run)

    def guard(
        self, method: str, path: str, deadline: Deadline, inactivity: float | None = None
    ) -> Guard:
        return Guard(deadline, inactivity, self.availability)

    def open(self, path: str, **options: Any) -> Any:
        """Serve no watch: clients retry."""
        raise ConnectionRefusedError(f"GET {path}")

    def close(self) -> None:
        """Nothing is open."""

    def _read(self, path: str, query: Mapping[str, Any]) -> Response:
        if path in self.objects:
            return self._answer(self.objects[path])
        if path.rsplit("/", 1)[-1].islower() and path.rsplit("/", 1)[-1].endswith("s"):
            items = [
                obj
                for key, obj in sorted(self.objects.items())
                if _home(key) == path
                or _home(key).replace(f"/namespaces/{_place(key)}", "") == path
            ]
            for term in filter(None, str(query.get("labelSelector") or "").split(",")):
                label, _, value = term.partition("=")
                items = [each for each in items if _labels(each).get(label, None) is not None]
                items = [each for each in items if not value or _labels(each)[label] == value]
            field = str(query.get("fieldSelector") or "")
            if field.startswith("metadata.name="):
                items = [obj for obj in items if f"metadata.name={_name(obj)}" == field]
            version = {"resourceVersion": str(self._count or 1)}
            return self._answer({"kind": "List", "metadata": version, "items": items})
        raise not_found("GET", path)

    def _write(self, method: str, path: str, obj: dict[str, Any], is_dry_run: bool) -> Response:
        self._count += 1
        if method == "POST":
            name = obj["metadata"].setdefault(
                "name", obj["metadata"].get("generateName", "") + str(self._count)
            )
            path = f"{path}/{name}"
            if path in self.objects:
                raise ApiError(
                    f"{name} already exists", status=409, reason="AlreadyExists", path=path
                )
        elif path not in self.objects and "kind" not in obj:
            raise not_found(method, path)
        old = self.objects.get(path, {})
        for wanted in ("uid", "resourceVersion") if old and method != "PUT" else ():
            said = obj["metadata"].get(wanted) if "metadata" in obj else None
            if said is not None and said != old["metadata"].get(wanted):
                raise ApiError(f"the {wanted} differs", status=409, reason="Conflict", path=path)
        merged = _merged(old, obj)
        merged["metadata"].setdefault("uid", f"uid-{self._count}")
        merged["metadata"]["resourceVersion"] = str(self._count)
        parts = path.split("/")
        if "namespaces" in parts and parts[-2] != "namespaces":
            merged["metadata"]["namespace"] = parts[parts.index("namespaces") + 1]
        if is_dry_run:
            return self._answer(merged)
        self.objects[path] = merged
        if path.startswith("/api/v1/namespaces/") and path.count("/") == 4 and not old:
            self._furnish(path)
        return self._answer(merged)

    def _furnish(self, path: str) -> None:
        for plural, obj, name in () if self.bare_namespaces else _GIVEN_TO_NAMESPACES:
            metadata = {"name": name, "namespace": path.rsplit("/", 1)[-1], "uid": f"uid-{name}"}
            self.objects[f"{path}/{plural}/{name}"] = {**obj, "metadata": metadata}

    def _delete(self, path: str, options: dict[str, Any]) -> Response:
        found = self.objects.get(path)
        if found is None:
            raise not_found("DELETE", path)
        for name, wanted in (options.get("preconditions") or {}).items():
            if wanted is not None and wanted != found["metadata"][name]:
                raise ApiError(f"the {name} differs", status=409, reason="Conflict", path=path)
        for key in [key for key in self.objects if key == path or key.startswith(f"{path}/")]:
            del self.objects[key]
        return self._answer(found)

    def _answer(self, obj: dict[str, Any]) -> Response:
        headers = {} if self.now is None else {"date": formatdate(self.now, usegmt=True)}
        return Response(200, headers, json.dumps(obj).encode())


class FakeClient:
    """Stands for a `kubernetes.client.ApiClient`; its session is all that is used of it."""

    def __init__(
        self,
        transport: FakeTransport,
        clock: Clock = SYSTEM_CLOCK,
        kubeconfig: Path = Path("/fake/kubeconfig"),
    ) -> None:
        session = ApiSession.__new__(ApiSession)
        session.clock = clock
        session.transport = transport  # type: ignore[assignment] # the same calls, no network
        session._discovery = Discovery(transport)  # type: ignore[arg-type] # as above
        session.kubectl_args = ("--kubeconfig", str(kubeconfig))
        self._pytest_kwait_session = session
        self.configuration = SimpleNamespace(host="https://127.0.0.1:1", proxy=None, no_proxy=None)
        self.closed = False

    def close(self) -> None:
        self.closed = True


class FakeCluster:
    """A cluster that is a dictionary."""

    provider = "fake"
    server = "https://fake"
    context: str | None = None
    version = "v1.36.0"
    nodes = ("node-1",)

    def __init__(
        self, log: Path | None = None, *, time_scale: float = 1.0, has_controllers: bool = True
    ) -> None:
        self.kubeconfig = Path("/fake/kubeconfig")
        self.time_scale = time_scale
        self.has_controllers = has_controllers
        self.faults = Faults(lambda: ApiSession.of(self.client()), "https://fake")
        self.transport = FakeTransport(log)
        self.stopped = False
        self.kept = False

    @property
    def ends_with_run(self) -> bool:
        return self.provider in ("embedded", "binaries")

    @property
    def title(self) -> str:
        return f"{self.provider} cluster"

    @property
    def is_monitored(self) -> bool:
        return self.provider == "embedded"

    @is_monitored.setter
    def is_monitored(self, value: bool) -> None:
        pass

    def keep(self) -> None:
        self.kept = True

    def notes(self) -> list[str]:
        return ["the fake cluster is kept"] if self.kept else []

    def export_logs(self, folder: Path) -> str:
        return f"no logs in {folder.name}"

    def client(self) -> Any:
        return FakeClient(self.transport, kubeconfig=self.kubeconfig)

    def as_other_user(self, target: RestConfig) -> FakeCluster:
        """Return a cluster with the same objects, whose clients name the file of their user."""
        other = copy.copy(self)
        other.kubeconfig = target.kubeconfig
        return other

    def pods(
        self, *, label: str = "", name: str = "", container: str = "", namespace: str | None = None
    ) -> ScriptedPods:
        return script_pods(self.faults, label, name, container, namespace)

    def stop(self) -> None:
        self.stopped = True


def _discovered(resource: Resource) -> dict[str, Any]:
    kind = {
        "resource": resource.plural,
        "responseKind": {"kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "verbs": sorted(resource.verbs),
    }
    versions = [{"version": resource.version, "resources": [kind]}]
    return {"metadata": {"name": resource.group}, "versions": versions}


def not_found(method: str, path: str) -> ApiError:
    name = path.rsplit("/", 1)[-1]
    return ApiError(f'"{name}" not found', status=404, reason="NotFound", method=method, path=path)


def _home(path: str) -> str:
    return path.rsplit("/", 1)[0]


def _place(path: str) -> str:
    """The namespace of an object; empty for what lives in none."""
    _, _, after = path.partition("/namespaces/")
    return after.partition("/")[0] if "/" in after else ""


def _labels(obj: dict[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _name(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["name"])


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    merged = copy.deepcopy(old)
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merged(merged[key], value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged
