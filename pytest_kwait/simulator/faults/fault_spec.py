"""Fault requests: validation, and the fault that each kind makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.container_scripts import ScriptError, ScriptRule, script_from_mapping
from pytest_kwait.simulator.faults.active_faults import FaultScope, PullFault, RequestFault
from pytest_kwait.simulator.selectors import parse_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.faults.active_faults import ActiveFault, FaultableNode
    from pytest_kwait.simulator.objects import Obj

__all__ = ["make_fault"]

_SCOPE: dict[str, type] = {"namespace": str, "client": str, "resources": list, "verbs": list}
_VERBS = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
)  # fmt: skip
_MAX_SECONDS = 86_400.0


def make_fault(api: Cluster, asked: Obj) -> ActiveFault | None:
    """Start the requested fault; None if it is over at once.

    Raises:
        StatusError: 400 for an invalid request, 404 for an unknown pod.
    """
    kind = asked.get("kind")
    made = _KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise bad_request(f"kind: {kind!r} is none of {', '.join(sorted(_KINDS))}")
    make, fields = made
    known = {"kind": str, "holder": str, **fields}
    for name, value in asked.items():
        wanted = known.get(name)
        if wanted is None:
            raise bad_request(f"{name}: {kind} has {', '.join(sorted(known))}")
        number = wanted is float and isinstance(value, int) and not isinstance(value, bool)
        if not number and (not isinstance(value, wanted) or isinstance(value, bool)):
            raise bad_request(f"{name}: {value!r} is no {wanted.__name__}")
    if not api.faults.has_holder(asked.get("holder", "")):
        raise bad_request(f"holder: {asked.get('holder')!r} is not there: it ends with its request")
    return make(api, asked)


def _scope(asked: Mapping[str, Any]) -> FaultScope:
    resources, verbs = asked.get("resources", []), asked.get("verbs", [])
    for verb in verbs:
        if verb not in _VERBS:
            raise bad_request(f"verbs: {verb!r} is none of {', '.join(_VERBS)}")
    for resource in resources:
        if not isinstance(resource, str):
            raise bad_request(f"resources: {resource!r} is no name")
    return FaultScope(
        asked.get("namespace", ""), asked.get("client", ""), tuple(resources), tuple(verbs)
    )


def _seconds(asked: Mapping[str, Any], name: str = "seconds") -> float:
    seconds = float(asked.get(name, 0.0))
    if not 0 < seconds <= _MAX_SECONDS:
        raise bad_request(f"{name}: {seconds:g} is not above 0 and at most {_MAX_SECONDS:g}")
    return seconds


def _add_request_fault(api: Cluster, asked: Obj, fault: RequestFault) -> ActiveFault:
    times = asked.get("times")
    if times is not None and times < 1:
        raise bad_request(f"times: {times} is less than 1")
    fault.times = times
    api.faults.requests.append(fault)
    return api.faults.add(
        asked["holder"], lambda: api.faults.requests.remove(fault), lambda: fault.hits
    )


def _refusal(api: Cluster, asked: Obj) -> ActiveFault:
    status, retry = asked.get("status"), asked.get("retryAfter", 0)
    if status not in (429, 500):
        raise bad_request(f"status: {status!r} is neither 429 nor 500")
    if retry < 0:
        raise bad_request(f"retryAfter: {retry} is negative")
    return _add_request_fault(api, asked, RequestFault(_scope(asked), status, retry))


def _latency(api: Cluster, asked: Obj) -> ActiveFault:
    return _add_request_fault(api, asked, RequestFault(_scope(asked), delay=_seconds(asked)))


def _cut_watches(api: Cluster, asked: Obj) -> ActiveFault:
    hits = api.faults.cut_watches(_scope(asked))
    return api.faults.add(asked["holder"], _no_undo, lambda: hits)


def _expiry(api: Cluster, asked: Obj) -> ActiveFault:
    """Watches that are open end, and no revision up to now can be watched from."""
    scope = _scope(asked)
    # As a write of another client: revisions from now on are not expired.
    api.store.revision += 1
    fault = RequestFault(scope, floor=api.store.revision)
    record = _add_request_fault(api, asked, fault)
    api.faults.cut_watches(scope)
    return record


def _pulls(api: Cluster, asked: Obj) -> ActiveFault:
    failure = asked.get("message", "")
    delay = _seconds(asked) if "seconds" in asked else 0.0
    if bool(failure) == bool(delay):
        raise bad_request("pulls: either message or seconds")
    fault = PullFault(asked.get("namespace", ""), asked.get("image", ""), delay, failure)
    api.faults.pulls.append(fault)
    return api.faults.add(
        asked["holder"], lambda: api.faults.pulls.remove(fault), lambda: fault.hits
    )


def _node(api: Cluster, asked: Obj) -> FaultableNode:
    name = asked.get("node", "")
    node = api.faults.nodes.get(name)
    if node is None:
        raise bad_request(f"node: {name!r} is none of {', '.join(sorted(api.faults.nodes))}")
    return node


def _outage(api: Cluster, asked: Obj, *, dead: bool) -> ActiveFault:
    node = _node(api, asked)
    node.begin(dead=dead)
    return api.faults.add(asked["holder"], lambda: node.end(dead=dead))


def _pressure(api: Cluster, asked: Obj) -> ActiveFault:
    node, what = _node(api, asked), asked.get("resource", "")
    if what not in ("disk", "memory"):
        raise bad_request(f"resource: {what!r} is neither disk nor memory")
    node.start_pressure(what)
    return api.faults.add(asked["holder"], lambda: node.end_pressure(what))


def _out_of_memory(api: Cluster, asked: Obj) -> None:
    namespace, name = asked.get("namespace", ""), asked.get("pod", "")
    pod = api.get("pods", name, namespace)
    names = [one["name"] for one in pod["spec"]["containers"]]
    container = asked.get("container") or names[0]
    node = api.faults.nodes.get(pod["spec"].get("nodeName") or "")
    if node is None or not node.run_out_of_memory(namespace, name, container):
        raise bad_request(f"container: {container!r} of pod {name} does not run")


def _clock_jump(api: Cluster, asked: Obj) -> ActiveFault:
    seconds = float(asked.get("seconds", 0.0))
    if not seconds or abs(seconds) > _MAX_SECONDS:
        raise bad_request(f"seconds: {seconds:g} is 0, or more than {_MAX_SECONDS:g} away from it")
    api.clock.jump(seconds)
    return api.faults.add(asked["holder"], lambda: api.clock.jump(-seconds))


def _script(api: Cluster, asked: Obj) -> ActiveFault:
    """A rule for containers, which is no fault but ends as one."""
    try:
        script = script_from_mapping(asked.get("script", {}))
    except ScriptError as error:
        raise bad_request(f"script: {error}") from None
    label = asked.get("label", "")
    rule = ScriptRule(
        asked.get("namespace", ""),
        parse_labels(label) if label else None,
        asked.get("pod", ""),
        asked.get("container", ""),
        script,
    )
    api.scripts.add(rule)
    return api.faults.add(asked["holder"], lambda: api.scripts.remove(rule))


def _no_undo() -> None:
    """The effect cannot be undone."""


_MAKERS = dict[str, tuple["Callable[[Cluster, Obj], ActiveFault | None]", dict[str, type]]]
_KINDS: _MAKERS = {
    "refusal": (_refusal, {**_SCOPE, "status": int, "retryAfter": int, "times": int}),
    "latency": (_latency, {**_SCOPE, "seconds": float, "times": int}),
    "cut-watches": (_cut_watches, _SCOPE),
    "expired-history": (_expiry, _SCOPE),
    "pulls": (_pulls, {"namespace": str, "image": str, "message": str, "seconds": float}),
    "partition": (lambda api, asked: _outage(api, asked, dead=False), {"node": str}),
    "dead-kubelet": (lambda api, asked: _outage(api, asked, dead=True), {"node": str}),
    "pressure": (_pressure, {"node": str, "resource": str}),
    "out-of-memory": (_out_of_memory, {"namespace": str, "pod": str, "container": str}),
    "script": (
        _script,
        {"namespace": str, "label": str, "pod": str, "container": str, "script": dict},
    ),
    "clock-jump": (_clock_jump, {"seconds": float}),
}
