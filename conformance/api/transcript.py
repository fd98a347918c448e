"""Transcripts: requests in order, compared by status and normalized body.

Normalization removes values that differ from run to run: UIDs, resource versions, times and
random names.
"""

from __future__ import annotations

import json
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.raw_api import RawClient, RawResponse

TRANSCRIPTS = Path(__file__).with_name("transcripts")
"""The folder of the transcripts."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SUFFIX = re.compile(r"(?<=[-.])[bcdfghjklmnpqrstvwxz2456789]{5}(?=$|[\" ])")
_ADDRESS = re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b(:\d+)?")
_REVISION = re.compile(
    r"(?<=current: )\d+|(?<=in record \()\d+(?=\))|(?<=resourceVersion\\\":\\\")\d+"
)
_WEB_TOKEN = re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*")
_AGE = re.compile(r"^(\d+[smhdy])+$")
_CONTROLLERS = frozenset({"kube-controller-manager", "kube-scheduler", "kubelet"})
"""Managers whose fields depend on when they get to an object."""
_IGNORED = frozenset({"managedFields"})
"""Compared with the real server in a transcript of their own."""


def normalize_body(value: Any, names: dict[str, str], *, fields: bool = False) -> Any:
    """Return `value` with placeholders for values that differ in every run.

    Args:
        value: decoded JSON or text.
        names: the placeholder by text, for example for the namespace's name.
        fields: whether `managedFields` are kept.
    """
    if isinstance(value, dict):
        return {
            key: _normal_field(key, item, names, fields)
            for key, item in sorted(value.items())
            if fields or key not in _IGNORED
        }
    if isinstance(value, list):
        return [normalize_body(item, names, fields=fields) for item in value]
    return _normalize_text(value, names) if isinstance(value, str) else value


def _normal_field(key: str, value: Any, names: dict[str, str], fields: bool) -> Any:
    if key in ("resourceVersion", "continue") and value:
        return f"<{key}>"
    if key in ("healthCheckNodePort", "nodePort", "storageVersionHash"):
        return f"<{key}>"
    if key == "managedFields" and isinstance(value, list):
        # A server sorts them by whole seconds first, and a second may pass between two steps.
        value = sorted(value, key=_normalize_managed_fields_entry)
    if key == "description":
        return ""
    return normalize_body(value, names, fields=fields)


def _normalize_managed_fields_entry(entry: dict[str, Any]) -> tuple[str, str, str]:
    return entry["operation"], entry["manager"], entry.get("subresource", "")


def _normalize_text(text: str, names: dict[str, str]) -> str:
    for found, shown in names.items():
        text = text.replace(found, shown)
    return _mask(text)


@lru_cache(maxsize=1 << 16)
def _mask(text: str) -> str:
    """Return a text with placeholders; most texts of a transcript are those of its steps before."""
    text = _WEB_TOKEN.sub("<token>", text)
    text = _TIME.sub("<time>", text)
    text = _UID.sub("<uid>", text)
    text = _ADDRESS.sub("<address>", text)
    text = _REVISION.sub("<revision>", text)
    text = _AGE.sub("<age>", text)
    return _SUFFIX.sub("<suffix>", text)


Outcome = dict[str, Any]

_TOGETHER = 8
_UNTIL = 240.0
_SETTLES = 20.0


def load_transcript(path: Path) -> list[dict[str, Any]]:
    """Return the steps of a transcript."""
    # libyaml reads a megabyte of transcripts in a sixth of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    steps: list[dict[str, Any]] = yaml.load(path.read_text(), loader)
    return steps


def play_transcript(
    endpoint: RawClient, steps: list[dict[str, Any]], recorded: list[Outcome] | None = None
) -> Iterator[Outcome]:
    """Send the requests in a new namespace; return one outcome for each step.

    Args:
        endpoint: the API server.
        steps: the result of `load_transcript`.
        recorded: the expected outcomes; None to record them.
    """
    namespace = f"conformance-{secrets.token_hex(4)}"
    values = {"ns": namespace, "id": namespace.rpartition("-")[2]}
    endpoint.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    _await_account(endpoint, namespace)
    wanted = iter(recorded or [{}] * len(steps))
    paused = False
    try:
        with ThreadPoolExecutor(_TOGETHER) as readers:
            for group in _groups(steps):
                answers = readers.map(lambda step: _answer(endpoint, step, values), group)
                for step, first, awaited in zip(group, answers, wanted, strict=False):
                    answer = first
                    paused = _pauses(step) or (paused and _changes_nothing(step))
                    if recorded and (paused or _is_invalid(answer, awaited)):
                        answer = _settled(endpoint, step, values, answer, awaited)
                    for name, path in step.get("save", {}).items():
                        values[name] = str(_at(answer.body, path))
                    yield _outcome(step, answer, values)
    finally:
        endpoint.request("DELETE", f"/api/v1/namespaces/{namespace}")


def _groups(steps: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the steps in groups that may be sent in parallel."""
    group: list[dict[str, Any]] = []
    for step in steps:
        alone = not step["do"].startswith("GET ") or bool({"save", "until", "alone"} & step.keys())
        if alone and group:
            yield group
            group = []
        if alone:
            yield [step]
        else:
            group.append(step)
    if group:
        yield group


def _answer(endpoint: RawClient, step: dict[str, Any], values: dict[str, str]) -> RawResponse:
    answer = _send(endpoint, step, values)
    while answer.status == 429 and "initializing" in answer.text:
        SYSTEM_CLOCK.sleep(float(answer.headers.get("Retry-After", "1")))
        answer = _send(endpoint, step, values)
    deadline = SYSTEM_CLOCK.monotonic() + _UNTIL
    while not _awaited(step, answer) and SYSTEM_CLOCK.monotonic() < deadline:
        SYSTEM_CLOCK.sleep(0.05)
        answer = _send(endpoint, step, values)
    return answer


def _pauses(step: dict[str, Any]) -> bool:
    return "watch=1" in step["do"] and bool(step.get("alone"))


def _is_invalid(answer: RawResponse, awaited: Outcome) -> bool:
    return bool(answer.status == awaited["status"] == 422)


def _changes_nothing(step: dict[str, Any]) -> bool:
    method, _, path = step["do"].partition(" ")
    return "watch=1" not in path and (method == "GET" or "dryRun=All" in path)


def _settled(
    endpoint: RawClient,
    step: dict[str, Any],
    values: dict[str, str],
    answer: RawResponse,
    awaited: Outcome,
) -> RawResponse:
    """Return the first response that is as expected, or the last one."""
    deadline = SYSTEM_CLOCK.monotonic() + _SETTLES
    while _outcome(step, answer, values) != awaited:
        if not _changes_nothing(step) and not _is_invalid(answer, awaited):
            break
        if SYSTEM_CLOCK.monotonic() > deadline:
            break
        SYSTEM_CLOCK.sleep(0.2)
        answer = _answer(endpoint, step, values)
    return answer


def _awaited(step: dict[str, Any], answer: RawResponse) -> bool:
    awaited = step.get("until", answer.status)
    if isinstance(awaited, int):
        return answer.status == awaited
    return all(_at(answer.body, path) == value for path, value in awaited.items())


def _await_account(endpoint: RawClient, namespace: str) -> None:
    """Wait until the controllers have made the default objects of the namespace."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts?watch=1&timeoutSeconds=20"
    next(endpoint.stream(path))
    path = f"/api/v1/namespaces/{namespace}/configmaps?watch=1&timeoutSeconds=20"
    next(endpoint.stream(path))


def _send(endpoint: RawClient, step: dict[str, Any], values: dict[str, str]) -> RawResponse:
    method, _, path = _filled(step["do"], values).partition(" ")
    body = step.get("body")
    if isinstance(body, dict | list):
        body = json.loads(_filled(json.dumps(body), values))
    elif isinstance(body, str):
        body = _filled(body, values)
    return endpoint.request(
        method,
        path.replace(" ", "%20"),
        body,
        content_type=step.get("type", "application/json"),
        headers={name: _filled(value, values) for name, value in step.get("headers", {}).items()},
        token=_filled(step["token"], values) if "token" in step else None,
    )


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)


def _incidental(event: dict[str, Any]) -> bool:
    """Return whether it is a bookmark, which the server may send at any time."""
    return event["type"] == "BOOKMARK" and "annotations" not in event["object"]["metadata"]


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(value, list):
            value = value[int(name)] if int(name) < len(value) else {}
        else:
            value = (value or {}).get(name, {})
    return value


def _ordered(value: Any) -> Any:
    """Return `value` with its lists sorted."""
    if isinstance(value, dict):
        return {key: _ordered(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_ordered, value), key=json.dumps)
    return value


def _format_owner(entry: dict[str, Any], names: dict[str, str]) -> str:
    """Return an entry of `managedFields` in one line, without its time."""
    parts = (entry[name] for name in ("manager", "operation", "apiVersion"))
    head = " ".join((*parts, entry.get("subresource", ""))).rstrip()
    fields = json.dumps(entry["fieldsV1"], separators=(",", ":"), sort_keys=True)
    return _normalize_text(f"{head}: {fields}", names)


def _outcome(step: dict[str, Any], answer: RawResponse, values: dict[str, str]) -> Outcome:
    names = {values["ns"]: "<namespace>", values["id"]: "<id>"}
    outcome: Outcome = {"do": step["do"], "status": answer.status}
    compare = step.get("compare", "body")
    if compare in ("body", "fields", "unordered"):
        body = answer.body
        if isinstance(body, str) and body.startswith("{"):
            body = [
                event for line in body.splitlines() if not _incidental(event := json.loads(line))
            ]
        outcome["body"] = normalize_body(body, names, fields=compare == "fields")
        if compare == "unordered":
            outcome["body"] = _ordered(outcome["body"])
    if compare == "owners":
        entries = answer.body["metadata"].get("managedFields") or []
        outcome["owners"] = sorted(
            _format_owner(entry, names) for entry in entries if entry["manager"] not in _CONTROLLERS
        )
    for header in step.get("headers_compared", ()):
        outcome[header] = normalize_body(answer.headers.get(header, ""), names)
    return outcome
