"""Waits on objects with fields missing, null or unknown."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, EVENTS, PODS
from pytest_kwait.client.responses import decode_object
from pytest_kwait.engine.condition import EvidenceScope, Failed, Met, ObjectReference, Pending
from pytest_kwait.engine.failure.evidence import gather_evidence
from pytest_kwait.framework.objects.combinators import all_of
from pytest_kwait.framework.objects.wait import GeneralWait
from pytest_kwait.framework.registry import WAITS, Wait
from tests.engine.fake_session import FakeSession
from tests.framework.samples import ANY, SAMPLES, mangled

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable

NAMED = ("claim", "container", "image", "name", "namespaces", "node", "reason", "user", "verb")
COUNTED = (
    "count", "generation", "min_count", "min_replicas", "ready_count", "revision",
)  # fmt: skip
ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(NAMED, "web"),
    **dict.fromkeys(COUNTED, 1),
    "after": "2030-01-31T12:00:00Z",
    "claims": ["web"],
    "description": "fine",
    "existing_ip": "192.0.2.9",
    "gates": ["example.com/quota"],
    "nodes": ["web"],
    "phase": "Bound",
    "pods": ["web"],
    "ports": {"web": [80]},
    "resource": "pods",
    "selector": {"app": "web"},
    "target": "rc/web",
}
SPECIAL: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "wait_for": [
        ((f"{kind}/web", test), {})
        for kind in ("pod", "job", "deployment")
        for test in (
            "condition=Ready",
            "create",
            "delete",
            "jsonpath={.status.conditions[0].type}=x",
            all_of("condition=Ready", "jsonpath={.status.phase}=Running"),
            lambda _: False,
        )
    ]
    + [(("pods", "condition=Ready"), {"selector": "app=web"})],
    "wait_for_api_service_available": [(("v1.example.com",), {})],
    "wait_for_crd_established": [(("webs.example.com",), {})],
    "wait_for_webhook_ready": [(("validatingwebhookconfiguration/web",), {})],
    "wait_for_event": [((), {"reason": "Other"}), ((), {"about": "pod/web", "message": "x"})],
    "wait_for_job_condition": [(("web", "Failed"), {})],
    "wait_for_job_state": [(("web", lambda _: "not yet"), {})],
    "wait_for_pod_condition": [(("web", "fine", lambda _: False), {})],
    "wait_for_deployment_with_condition": [(("web", "Because", "Progressing"), {})],
    "wait_for_endpoint_slices": [(("web", lambda _: False), {})],
    "wait_for_node_condition": [(("web", "Ready"), {})],
    "wait_for_stateful_set_pod_ready": [(("web", "web-0"), {})],
    "wait_for_pods_on_minions": [(("deploy/web",), {}), ((), {"selector": "app=web"})],
    "wait_for_pod_resized": [(("web",), {"restart_counts": {"main": 0}})],
    "wait_for_pods_responding": [((), {"selector": "app=web"}), ((), {"pods": ["web"]})],
    "wait_for_log": [
        (("web", "ready"), {}),
        (("job/web", "ready"), {"container": "main"}),
        (("svc/web", "ready"), {"since": 5}),
        ((), {"selector": "app=web", "pattern": "ready"}),
    ],
    "wait_for_rollout_status": [
        ((f"{kind}/web",), {}) for kind in ("deployment", "statefulset", "daemonset")
    ],
}
LOOKS = [wait for wait in WAITS.values() if wait.make_condition and "auth" not in wait.name]
"""Permissions are requested, not watched."""


def calls(wait: Wait) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return arguments to call a wait with, after client and namespace."""
    if wait.name in SPECIAL:
        return SPECIAL[wait.name]
    required = [
        parameter
        for parameter in wait.signature.parameters.values()
        if parameter.default is parameter.empty and parameter.name != "namespace"
    ]
    return [((), {parameter.name: _argument(parameter) for parameter in required})]


def conditions(wait: Wait) -> list[Callable[[], Any]]:
    """Return a function that makes a new condition of a wait."""
    first = ("ci-1",) if wait.namespaced else ()
    return [
        partial(_made, partial(_maker(wait), *first, *args, **kwargs))
        for args, kwargs in calls(wait)
    ]


def _maker(wait: Wait) -> Callable[..., Any]:
    assert wait.make_condition is not None
    return wait.make_condition


def _argument(parameter: inspect.Parameter) -> Any:
    return ARGUMENTS.get(parameter.name, 1 if parameter.annotation == "int" else "web")


def _made(make: Callable[[], Any]) -> Any:
    condition = make()
    if not isinstance(condition, GeneralWait):
        return condition
    kinds = [match_resource(BUILT_IN.values(), each.kind, None) for each in condition.targets]
    return condition.on([kind for kind in kinds if kind is not None])


def look(condition: Any, shown: dict[str, dict[str, Any]]) -> set[str]:
    """Let a condition see these objects; return the kinds that it has looked at."""
    seen: dict[int, str] = {}
    for _ in range(4):
        for source in condition.sources():
            seen[id(source)] = source.resource.plural
            sample = shown.get(source.resource.plural, ANY)
            name = source.name or sample["metadata"]["name"]
            obj = {**sample, "metadata": {**sample["metadata"], "name": name}}
            raw = msgspec.json.encode(obj)
            source.sink.put(decode_object(raw, source.fields), raw, 1.0)
        condition.set_time(2.0, fresh=True)
        assert condition.due <= math.inf
        verdict = condition.verdict()
        assert isinstance(verdict, Met | Pending | Failed)
        assert isinstance(condition.summarize(), str)
        assert isinstance(condition.scope(), EvidenceScope)
        if isinstance(verdict, Met):
            condition.result()
        if condition.probe is not None:
            condition.probe.probe_targets()
    return set(seen.values())


@pytest.mark.parametrize("wait", LOOKS, ids=lambda wait: wait.name)
def test_objects_without_fields_that_waits_read(wait: Wait) -> None:
    for make in conditions(wait):
        for kind in look(make(), SAMPLES):
            for number, obj in enumerate(mangled(SAMPLES.get(kind, ANY))):
                try:
                    look(make(), {**SAMPLES, kind: obj})
                except Exception as error:
                    error.add_note(f"{kind}, variant {number}: {obj}")
                    raise


@pytest.mark.parametrize("kind", [PODS, EVENTS], ids=str)
def test_evidence_of_objects_without_fields(kind: Any) -> None:
    scope = EvidenceScope(
        "ci-1", (ObjectReference("Job", "web", "uid-web", "jobs.batch"),), "app=web"
    )
    for obj in mangled(SAMPLES[kind.plural]):
        session = FakeSession()
        session.put(PODS, SAMPLES["pods"])
        session.put(kind, obj)
        findings = gather_evidence(session, scope)
        assert findings.errors == () or "logs" in findings.errors[0]
