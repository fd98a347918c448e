"""Explored requests: refusals with Retry-After, and late updates.

A request is refused before anything of it is done. An update is held until another write of its
object has landed; the conflict, if any, is the store's own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.codec.json_yaml import read_json
from pytest_kwait.simulator.exploration.exploration import make_stable_name
from pytest_kwait.simulator.faults import TOO_MANY_REQUESTS, get_request_verb
from pytest_kwait.simulator.store import key_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kwait.simulator.exploration.exploration import Exploration
    from pytest_kwait.simulator.faults import FaultableRequest, RequestTarget
    from pytest_kwait.simulator.store import Change, Store

_CONNECTIONS = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources whose requests are exempt from the limits of a server."""
_RETRIED_METHODS = frozenset({"DELETE", "GET", "HEAD", "PUT"})
"""Methods that HTTP clients repeat on their own."""
_RETRY_AFTER = 1
"""Seconds. Source: k8s.io/apiserver pkg/server/filters/maxinflight.go, `retryAfter`."""
_UNAVAILABLE = "the server is currently unable to handle the request"


def refuse_request(
    exploration: Exploration, request: FaultableRequest, target: RequestTarget, subresource: str
) -> None:
    """Refuse a request, if the exploration decides so.

    Raises:
        StatusError: 429 or 503 with Retry-After.
    """
    if subresource in _CONNECTIONS:
        return
    if exploration.level == "gentle" and request.method not in _RETRIED_METHODS:
        return
    verb = get_request_verb(request, target)
    subject = f"{verb} {target.namespace or ''}/{target.resource}/{target.name}/{subresource}"
    resource = f"{target.resource}/{subresource}" if subresource else target.resource
    event = exploration.event(f"request {verb} {resource} {_name(target)}".rstrip())
    headers = {"Retry-After": str(_RETRY_AFTER)}
    details = {"retryAfterSeconds": _RETRY_AFTER}
    if exploration.decide_refusal("too-many-requests", event, subject):
        raise StatusError(429, "TooManyRequests", TOO_MANY_REQUESTS, details, headers)
    if exploration.decide_refusal("service-unavailable", event, subject):
        raise StatusError(503, "ServiceUnavailable", _UNAVAILABLE, details, headers)
    exploration.accept(subject)


async def hold_update(
    exploration: Exploration,
    store: Store,
    bucket: str,
    target: RequestTarget,
    version: str,
) -> None:
    """Hold an update until another write of its object, if the exploration decides so.

    Args:
        store: the objects.
        bucket: the resource under which the store has the object.
        target: the object.
        version: the resourceVersion in the update; empty for none.
    """
    key = key_of(target.name, target.namespace or "")
    entry = store.get(bucket, key)
    if entry is None or version != str(entry.revision):
        return
    event = exploration.event(f"write {target.resource} {_name(target)}")
    seconds = exploration.decide("update-conflict", event)
    if seconds is None:
        return
    written = asyncio.Event()

    def on_change(change: Change) -> None:
        if change.new.key == key:
            written.set()

    held = exploration.hold(seconds, written.set)
    stop = store.watch(bucket, on_change, target.namespace or "")
    try:
        await written.wait()
    finally:
        stop()
        held.cancel()


def find_webhook_delay(
    exploration: Exploration, webhook: str, timeout: float
) -> Callable[[], Awaitable[None]] | None:
    """Return what waits before the call of a webhook, if the exploration decides so.

    Args:
        webhook: the name of the webhook.
        timeout: its timeout in seconds; it keeps at least half of it.
    """
    seconds = exploration.decide("webhook-delay", exploration.event(f"webhook {webhook}"))
    return None if seconds is None else lambda: exploration.pause(min(seconds, timeout / 2))


def find_patch_version(data: bytes) -> str:
    """Return the resourceVersion in a merge patch; empty for none."""
    if b'"resourceVersion"' not in data:
        return ""
    try:
        patch: Any = read_json(data)
    except ValueError:
        return ""  # the patch is refused later, with the server's own message
    metadata = patch.get("metadata") if isinstance(patch, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else ""


def _name(target: RequestTarget) -> str:
    """Return the stable name of a request's object; tests generate the names of namespaces."""
    return "*" if target.resource == "namespaces" else make_stable_name(target.name)
