"""The embedded cluster's own API: its faults, image mappings and egress.

    GET    /kwait/v1/isolation    sentences about what is not isolated of running programs
    GET    /kwait/v1/isolation/refusal
                                  why programs share the machine's network and files; empty if
                                  they are isolated
    GET    /kwait/v1/hold         a holder, as a line of JSON; its faults end with this response
    GET    /kwait/v1/faults       the active faults
    POST   /kwait/v1/faults       inject a fault for a holder, map an image, or allow egress
    GET    /kwait/v1/faults/ID    one fault, and how many requests or pulls it has hit
    DELETE /kwait/v1/faults/ID    end it
    POST   /kwait/v1/history      record into journals in a folder from now on; if they are
                                  recorded already, write them up to now
    PUT    /kwait/v1/exploration  perturb from now on, under a seed and a level
    GET    /kwait/v1/exploration  the exploration that runs, and its decisions
    DELETE /kwait/v1/exploration  end it; what is held back is released, the answer is that of GET

Authorization is that of every non-resource path: administrators only, by default.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from pytest_kwait.clock import async_sleep
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.api_errors import StatusError, bad_request, method_not_allowed
from pytest_kwait.simulator.apiserver.request_bodies import read_body
from pytest_kwait.simulator.apiserver.responses import json_only_response
from pytest_kwait.simulator.codec.json_yaml import read_json
from pytest_kwait.simulator.faults import FaultSelector, PullFault, RequestFault
from pytest_kwait.simulator.no_exploration import NoExploration
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.protocol.container_scripts import (
    ScriptError,
    ScriptRule,
    script_from_mapping,
)
from pytest_kwait.simulator.protocol.egress import parse_egress
from pytest_kwait.simulator.protocol.image_mapping import MappingConflictError, read_image_mapping
from pytest_kwait.simulator.selectors import parse_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.faults import ActiveFault, FaultableNode
    from pytest_kwait.simulator.objects import Obj

_SCOPE: dict[str, type] = {"namespace": str, "client": str, "resources": list, "verbs": list}
_VERBS = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
)  # fmt: skip
_MAX_SECONDS = 86_400.0
_MAKERS = dict[str, tuple["Callable[[Cluster, Obj], ActiveFault | None]", dict[str, type]]]

_HEARTBEAT_SECONDS = 1.0
"""Seconds between heartbeats of a hold."""

_LOCAL_KINDS = {
    "image": "images are mapped to programs",
    "egress": "egress is allowed",
}
"""Kinds that only clients on the machine may create, as the server acts in its name."""


def make_fault(cluster: Cluster, request: Obj) -> ActiveFault | None:
    """Start the requested fault; None if it is over at once.

    Raises:
        StatusError: 400 for an invalid request, 404 for an unknown pod.
    """
    kind = request.get("kind")
    made = _KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise bad_request(f"kind: {kind!r} is invalid: use one of {', '.join(sorted(_KINDS))}")
    make, fields = made
    known = {"kind": str, "holder": str, **fields}
    for name, value in request.items():
        value_type = known.get(name)
        if value_type is None:
            raise bad_request(f"{name}: unknown field: {kind} has {', '.join(sorted(known))}")
        number = value_type is float and isinstance(value, int) and not isinstance(value, bool)
        if not number and (not isinstance(value, value_type) or isinstance(value, bool)):
            raise bad_request(
                f"{name}: {value!r} is invalid: use a value of type {value_type.__name__}"
            )
    if not cluster.faults.has_holder(request.get("holder", "")):
        raise bad_request(
            f"holder: {request.get('holder')!r} does not exist: a holder ends with its request"
        )
    return make(cluster, request)


def _parse_scope(request: Mapping[str, Any]) -> FaultSelector:
    resources, verbs = request.get("resources", []), request.get("verbs", [])
    for verb in verbs:
        if verb not in _VERBS:
            raise bad_request(f"verbs: {verb!r} is invalid: use one of {', '.join(_VERBS)}")
    for resource in resources:
        if not isinstance(resource, str):
            raise bad_request(f"resources: {resource!r} is invalid: use a string")
    return FaultSelector(
        request.get("namespace", ""), request.get("client", ""), tuple(resources), tuple(verbs)
    )


def _parse_seconds(request: Mapping[str, Any], name: str = "seconds") -> float:
    seconds = float(request.get(name, 0.0))
    if not 0 < seconds <= _MAX_SECONDS:
        raise bad_request(
            f"{name}: {seconds:g} is invalid: use more than 0 and at most {_MAX_SECONDS:g}"
        )
    return seconds


def _add_request_fault(cluster: Cluster, request: Obj, fault: RequestFault) -> ActiveFault:
    times = request.get("times")
    if times is not None and times < 1:
        raise bad_request(f"times: {times} is invalid: use at least 1")
    fault.times = times
    cluster.faults.requests.append(fault)
    return cluster.faults.add(
        request["holder"], lambda: cluster.faults.requests.remove(fault), lambda: fault.hits
    )


def _start_refusal(cluster: Cluster, request: Obj) -> ActiveFault:
    status, retry = request.get("status"), request.get("retryAfter", 0)
    if status not in (429, 500):
        raise bad_request(f"status: {status!r} is invalid: use 429 or 500")
    if retry < 0:
        raise bad_request(f"retryAfter: {retry} is invalid: use at least 0")
    return _add_request_fault(cluster, request, RequestFault(_parse_scope(request), status, retry))


def _start_latency(cluster: Cluster, request: Obj) -> ActiveFault:
    return _add_request_fault(
        cluster, request, RequestFault(_parse_scope(request), delay=_parse_seconds(request))
    )


def _cut_watches(cluster: Cluster, request: Obj) -> ActiveFault:
    hits = cluster.faults.cut_watches(_parse_scope(request))
    return cluster.faults.add(request["holder"], _no_undo, lambda: hits)


def _start_expiry(cluster: Cluster, request: Obj) -> ActiveFault:
    """Watches that are open end, and no revision up to now can be watched from."""
    scope = _parse_scope(request)
    # As a write of another client: revisions from now on are not expired.
    cluster.store.revision += 1
    fault = RequestFault(scope, floor=cluster.store.revision)
    record = _add_request_fault(cluster, request, fault)
    cluster.faults.cut_watches(scope)
    return record


def _start_pull_fault(cluster: Cluster, request: Obj) -> ActiveFault:
    failure = request.get("message", "")
    delay = _parse_seconds(request) if "seconds" in request else 0.0
    if bool(failure) == bool(delay):
        raise bad_request("pulls: use either message or seconds")
    fault = PullFault(request.get("namespace", ""), request.get("image", ""), delay, failure)
    cluster.faults.pulls.append(fault)
    return cluster.faults.add(
        request["holder"], lambda: cluster.faults.pulls.remove(fault), lambda: fault.hits
    )


def _find_node(cluster: Cluster, request: Obj) -> FaultableNode:
    name = request.get("node", "")
    node = cluster.faults.nodes.get(name)
    if node is None:
        raise bad_request(
            f"node: {name!r} is invalid: use one of {', '.join(sorted(cluster.faults.nodes))}"
        )
    return node


def _start_outage(cluster: Cluster, request: Obj, *, dead: bool) -> ActiveFault:
    node = _find_node(cluster, request)
    node.begin(dead=dead)
    return cluster.faults.add(request["holder"], lambda: node.end(dead=dead))


def _start_pressure(cluster: Cluster, request: Obj) -> ActiveFault:
    node, resource = _find_node(cluster, request), request.get("resource", "")
    if resource not in ("disk", "memory"):
        raise bad_request(f"resource: {resource!r} is invalid: use disk or memory")
    node.start_pressure(resource)
    return cluster.faults.add(request["holder"], lambda: node.end_pressure(resource))


def _kill_container(cluster: Cluster, request: Obj) -> None:
    namespace, name = request.get("namespace", ""), request.get("pod", "")
    pod = cluster.get("pods", name, namespace)
    names = [container["name"] for container in pod["spec"]["containers"]]
    container = request.get("container") or names[0]
    node = cluster.faults.nodes.get(pod["spec"].get("nodeName") or "")
    if node is None or not node.run_out_of_memory(namespace, name, container):
        raise bad_request(f"container: {container!r} of pod {name} is not running")


def _start_clock_jump(cluster: Cluster, request: Obj) -> ActiveFault:
    seconds = float(request.get("seconds", 0.0))
    if not seconds or abs(seconds) > _MAX_SECONDS:
        raise bad_request(
            f"seconds: {seconds:g} is invalid: use at most {_MAX_SECONDS:g} in either direction, "
            "not 0"
        )
    cluster.clock.jump(seconds)
    return cluster.faults.add(request["holder"], lambda: cluster.clock.jump(-seconds))


def _start_script(cluster: Cluster, request: Obj) -> ActiveFault:
    """A rule for containers, which is no fault but ends as one."""
    try:
        script = script_from_mapping(request.get("script", {}))
    except ScriptError as error:
        raise bad_request(f"script: {error}") from None
    label = request.get("label", "")
    rule = ScriptRule(
        request.get("namespace", ""),
        parse_labels(label) if label else None,
        request.get("pod", ""),
        request.get("container", ""),
        script,
    )
    cluster.scripts.add(rule)
    return cluster.faults.add(request["holder"], lambda: cluster.scripts.remove(rule))


def _map_image(cluster: Cluster, request: Obj) -> ActiveFault:
    """A mapping of an image to a program, which is no fault but ends as one."""
    try:
        mapping = read_image_mapping(request.get("image"))
    except InvalidArgument as error:
        raise bad_request(str(error)) from None
    try:
        cluster.images.add(mapping)
    except MappingConflictError as error:
        raise StatusError(409, "Conflict", str(error)) from None
    return cluster.faults.add(
        request["holder"], lambda: cluster.images.remove(mapping), is_listed=False
    )


def _allow_egress(cluster: Cluster, request: Obj) -> ActiveFault:
    """A host and port that pods may reach, which is no fault but ends as one."""
    try:
        target = parse_egress(request.get("egress"))
    except InvalidArgument as error:
        raise bad_request(str(error)) from None
    cluster.egress.add(target)
    return cluster.faults.add(
        request["holder"], lambda: cluster.egress.remove(target), is_listed=False
    )


def _no_undo() -> None:
    """The effect cannot be undone."""


_KINDS: _MAKERS = {
    "refusal": (_start_refusal, {**_SCOPE, "status": int, "retryAfter": int, "times": int}),
    "latency": (_start_latency, {**_SCOPE, "seconds": float, "times": int}),
    "cut-watches": (_cut_watches, _SCOPE),
    "expired-history": (_start_expiry, _SCOPE),
    "pulls": (
        _start_pull_fault,
        {"namespace": str, "image": str, "message": str, "seconds": float},
    ),
    "partition": (
        lambda cluster, request: _start_outage(cluster, request, dead=False),
        {"node": str},
    ),
    "dead-kubelet": (
        lambda cluster, request: _start_outage(cluster, request, dead=True),
        {"node": str},
    ),
    "pressure": (_start_pressure, {"node": str, "resource": str}),
    "out-of-memory": (_kill_container, {"namespace": str, "pod": str, "container": str}),
    "script": (
        _start_script,
        {"namespace": str, "label": str, "pod": str, "container": str, "script": dict},
    ),
    "image": (_map_image, {"image": dict}),
    "egress": (_allow_egress, {"egress": str}),
    "clock-jump": (_start_clock_jump, {"seconds": float}),
}


async def serve_faults_api(cluster: Cluster, request: ApiRequest) -> web.StreamResponse | None:
    """Serve a path below `/kwait/v1/`; None if it is unknown."""
    match request.path.strip("/").split("/")[2:]:
        case ["hold"]:
            return await _serve_holder(cluster, request)
        case ["isolation"]:
            if request.method != "GET":
                raise method_not_allowed()
            # Not at import: few clusters run programs.
            from pytest_kwait.simulator.runtimes.processes.program_container import (
                get_cluster_programs,
            )

            missing = await get_cluster_programs(cluster).list_missing_isolation()
            return json_only_response(request, {"missing": missing})
        case ["isolation", "refusal"]:
            if request.method != "GET":
                raise method_not_allowed()
            from pytest_kwait.simulator.runtimes.processes.program_container import (
                get_cluster_programs,
            )

            isolation = await get_cluster_programs(cluster).detect_isolation()
            refusal = isolation.refusal if isolation else ""
            lacking = dict(isolation.lacking) if isolation else {}
            return json_only_response(request, {"refusal": refusal, "lacking": lacking})
        case ["history"]:
            return await _record_history(cluster, request)
        case ["exploration"]:
            return await _serve_exploration(cluster, request)
        case ["faults"]:
            if request.method == "GET":
                records = cluster.faults.records.values()
                every = [_fault_object(record) for record in records if record.is_listed]
                return json_only_response(request, {"faults": every})
            return await _create_fault(cluster, request)
        case ["faults", name]:
            record = cluster.faults.records.get(name)
            if record is None:
                raise StatusError(404, "NotFound", f'fault "{name}" not found')
            if request.method == "DELETE":
                cluster.faults.undo(name)
            elif request.method != "GET":
                raise method_not_allowed()
            return json_only_response(request, _fault_object(record))
        case _:
            return None


def _fault_object(record: ActiveFault) -> Obj:
    return {"id": record.id, "holder": record.holder, "hits": record.hits()}


async def _record_history(cluster: Cluster, request: ApiRequest) -> web.Response:
    if request.method != "POST":
        raise method_not_allowed()
    if not _is_local(request):
        text = "a history is recorded from the cluster's own machine alone"
        raise StatusError(403, "Forbidden", text)
    body = await _read_fields(request, "a history")
    folder = body.get("folder")
    if not isinstance(folder, str) or not Path(folder).is_absolute():
        raise bad_request(f"folder: {folder!r} is invalid: use an absolute path")
    # Not at import: few runs record.
    from pytest_kwait.simulator.history import get_recordings

    journals = get_recordings(cluster).record(Path(folder))
    version = cluster.kinds.version.get("gitVersion", "")
    return json_only_response(request, {"version": version, "trouble": journals.trouble})


async def _serve_exploration(cluster: Cluster, request: ApiRequest) -> web.Response:
    if request.method == "PUT":
        return await _start_exploration(cluster, request)
    exploration = cluster.exploration
    if request.method not in ("GET", "DELETE"):
        raise method_not_allowed()
    if not exploration.is_active:
        raise StatusError(404, "NotFound", "no exploration runs: PUT starts one")
    if request.method == "DELETE":
        exploration.end()
        cluster.exploration = NoExploration()
    return json_only_response(request, exploration.report())


async def _start_exploration(cluster: Cluster, request: ApiRequest) -> web.Response:
    body = await _read_fields(request, "an exploration")
    unknown = body.keys() - {"seed", "level", "only"}
    if unknown:
        raise bad_request(f"{min(unknown)}: unknown field: an exploration has level, only, seed")
    seed, level, only = body.get("seed"), body.get("level"), body.get("only")
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise bad_request(f"seed: {seed!r} is invalid: use an integer")
    is_list = isinstance(only, list) and all(isinstance(item, str) for item in only)
    if only is not None and not is_list:
        raise bad_request(f"only: {only!r} is invalid: use a list of strings or null")
    # Not at import: few clusters explore.
    from pytest_kwait.simulator.exploration.cluster_exploration import ClusterExploration
    from pytest_kwait.simulator.exploration.exploration import Exploration, InvalidExploration
    from pytest_kwait.simulator.exploration.requests import find_client

    ended = [
        name_of(namespace)
        for namespace in cluster.list("namespaces")
        if "deletionTimestamp" in namespace["metadata"]
    ]
    try:
        exploration = Exploration(
            cluster.clock, seed, level, only, client=find_client(request), ended=ended
        )
    except InvalidExploration as error:
        raise bad_request(str(error)) from None
    cluster.exploration.end()
    cluster.exploration = ClusterExploration(exploration)
    return json_only_response(request, {})


async def _read_fields(request: ApiRequest, content_name: str) -> Obj:
    """Return the JSON object in a request's body.

    Raises:
        StatusError: 400, it is something else.
    """
    try:
        body = read_json(await read_body(request))
    except ValueError as error:
        raise bad_request(str(error)) from None
    if not isinstance(body, dict):
        raise bad_request(f"{content_name} is an object")
    return body


async def _create_fault(cluster: Cluster, request: ApiRequest) -> web.Response:
    if request.method != "POST":
        raise method_not_allowed()
    body = await _read_fields(request, "a fault")
    refusal = _LOCAL_KINDS.get(str(body.get("kind")))
    if refusal and not _is_local(request):
        raise StatusError(403, "Forbidden", f"{refusal} from the cluster's own machine alone")
    record = make_fault(cluster, body)
    return json_only_response(request, {} if record is None else _fault_object(record))


def _is_local(request: ApiRequest) -> bool:
    """Return whether a request comes from this machine."""
    try:
        return ipaddress.ip_address(request.http.remote or "").is_loopback
    except ValueError:
        return False


async def _serve_holder(cluster: Cluster, request: ApiRequest) -> web.StreamResponse:
    if request.method != "GET":
        raise method_not_allowed()
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request.http)
    holder = cluster.faults.add_holder()
    try:
        await response.write(msgspec.json.encode({"holder": holder}) + b"\n")
        # A disconnect cancels this; a lost connection fails at a heartbeat.
        while True:
            await async_sleep(_HEARTBEAT_SECONDS)
            await response.write(b"\n")
    except ConnectionError:
        return response
    finally:
        cluster.faults.remove_holder(holder)
