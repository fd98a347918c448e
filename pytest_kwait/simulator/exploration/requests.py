"""Explored requests: refusals with Retry-After, and late updates.

A request is refused before anything of it is done. An update is held until another write of its
object has landed; the conflict, if any, is the store's own.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.codec.json_yaml import read_json
from pytest_kwait.simulator.exploration.exploration import make_stable_name
from pytest_kwait.simulator.faults import (
    TOO_MANY_REQUESTS,
    get_request_verb,
)
from pytest_kwait.simulator.store import key_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kwait.simulator.exploration.exploration import Exploration
    from pytest_kwait.simulator.faults import RequestTarget
    from pytest_kwait.simulator.no_exploration import ExplorableRequest
    from pytest_kwait.simulator.store import Change, Store

_CONNECTIONS = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources whose requests are exempt from the limits of a server."""
_RETRIED_METHODS = frozenset({"DELETE", "GET", "HEAD", "PUT"})
"""Methods that HTTP clients repeat on their own."""
_RETRY_AFTER = 1
"""Seconds. Source: k8s.io/apiserver pkg/server/filters/maxinflight.go, `retryAfter`."""
_SERVICE_ACCOUNT = re.compile("system:serviceaccount:[^:]*:")
_UNSAFE = re.compile(r"[^\w.:@+-]")
"""Characters that a list of perturbations cannot have."""
_MAX_CLIENT_LENGTH = 60
_UNAVAILABLE = "the server is currently unable to handle the request"


def find_client(request: ExplorableRequest) -> str:
    """Return the stable name of a request's client: `USER/PROGRAM`.

    The user of a service account has no namespace, as tests generate those. The program is the
    first word of the user agent, without its version.
    """
    user = _SERVICE_ACCOUNT.sub("", request.caller.user)
    program = re.split("[/ ]", request.header("User-Agent"), maxsplit=1)[0]
    parts = [_UNSAFE.sub("-", part[:_MAX_CLIENT_LENGTH]) for part in (user, program) if part]
    return make_stable_name("/".join(parts))


def refuse_request(
    exploration: Exploration, request: ExplorableRequest, target: RequestTarget, subresource: str
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
    client = find_client(request)
    place = f"{target.namespace or ''}/{target.resource}/{target.name}/{subresource}"
    subject = f"{verb} {place} {client}"
    resource = f"{target.resource}/{subresource}" if subresource else target.resource
    text = f"request {verb} {resource} {_name(target)}".rstrip()
    event = exploration.event(exploration.add_client(text, client), target.namespace)
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
    request: ExplorableRequest,
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
    text = f"write {target.resource} {_name(target)}"
    event = exploration.event(exploration.add_client(text, find_client(request)), target.namespace)
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


def expires_list(
    exploration: Exploration, request: ExplorableRequest, resource: str, namespace: str | None
) -> bool:
    """Return whether the exploration has the history of a continue token compacted."""
    subject = exploration.add_client(f"list {resource}", find_client(request))
    if exploration.decide_refusal("list-expired", exploration.event(subject, namespace), subject):
        return True
    exploration.accept(subject)
    return False


def find_webhook_delay(
    exploration: Exploration, webhook: str, timeout: float, request: str, name: str, namespace: str
) -> Callable[[], Awaitable[None]] | None:
    """Return what waits before the call of a webhook, if the exploration decides so.

    Args:
        webhook: the name of the webhook.
        timeout: its timeout in seconds; it keeps at least half of it.
        request: the operation and the resource that it is called for.
        name: the name of the object; empty until it is generated.
        namespace: the namespace of the object; of a namespace its own name.
    """
    stable_name = "*" if request.endswith(" namespaces") else make_stable_name(name)
    text = f"webhook {webhook} {request} {stable_name}".rstrip()
    event = exploration.event(text, namespace)
    seconds = exploration.decide("webhook-delay", event)
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
