"""Calls of webhooks over HTTPS, and retries of writes that wait for them.

A write is synchronous, and needs a webhook's answer in the middle. It therefore ends with
`PendingWebhookCalls`; the webhooks are called while other requests are served; the write is then
repeated with the replies. An HTTP request awaits that (`await_webhooks`); a controller or a
kubelet of this process suspends its task (`suspend_for_webhooks`).

Source: k8s.io/apiserver pkg/util/webhook/client.go, pkg/util/proxy/proxy.go.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import ssl
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from pytest_kwait.simulator.api_errors import internal_error
from pytest_kwait.simulator.objects import new_uid
from pytest_kwait.simulator.suspendable import SuspendableTask

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = [
    "PendingWebhookCalls",
    "WebhookCall",
    "WebhookReply",
    "await_webhooks",
    "build_call",
    "connection_error_text",
    "fetch_replies",
    "require_replies",
    "suspend_for_webhooks",
]

Result = TypeVar("Result")

_MAX_ROUNDS = 100
_FAILED = "failed to call webhook: "
_MAX_BODY_BYTES = 10 * 1024 * 1024
_STATUS_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be "
    "processing the request",
}
_HEADERS = {
    "Accept": "application/json, */*",
    "Content-Type": "application/json",
    "User-Agent": "kube-apiserver-admission",
}
_UNKNOWN_AUTHORITY_CODES = (18, 19, 20, 21)
"""OpenSSL's codes for chains that end nowhere known."""


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """One question to one webhook.

    Args:
        key: what tells it from every other question.
        url: where, as failures show it.
        host: where to connect to; empty for the URL's own host.
        authority: whom the server's certificate must be from, as PEM; empty for the system's own.
        version: of the review.
        request: the review's request, without a UID.
        seconds: how long to wait.
        failure: why it cannot even be asked; empty where it can.
        review: all of the review but its request.
    """

    key: str
    url: str
    host: str
    authority: str
    version: str
    request: Obj
    seconds: int
    failure: str = ""
    review: Obj = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WebhookReply:
    """What came of a call.

    Args:
        uid: what the review was sent with.
        body: the answer; empty where there is none.
        failure: why there is none; empty where there is one.
    """

    uid: str
    body: bytes = b""
    failure: str = ""


class PendingWebhookCalls(Exception):
    """A write cannot go on before these are answered.

    Args:
        calls: the questions.
    """

    def __init__(self, calls: Iterable[WebhookCall]) -> None:
        super().__init__()
        self.calls = tuple(calls)


def build_call(
    api: Cluster,
    identity: str,
    config: Obj,
    version: str,
    request: Obj,
    seconds: int,
    review: Obj | None = None,
) -> WebhookCall:
    """The call that a webhook's `clientConfig` makes.

    Args:
        api: the cluster, whose services it may name.
        identity: of the webhook.
        config: the `clientConfig`.
        version: of the review.
        request: of the review.
        seconds: how long to wait.
        review: the rest of the review, where it is none of admission.
    """
    key = f"{identity} {json.dumps(request, sort_keys=True)}"
    authority = base64.b64decode(config.get("caBundle", "")).decode(errors="replace")
    service = config.get("service")
    host = failure = ""
    if service is None:
        url = config.get("url", "")
    else:
        name, namespace = service.get("name", ""), service.get("namespace", "")
        port = service.get("port", 443)
        url = f"https://{name}.{namespace}.svc:{port}/{service.get('path', '').lstrip('/')}"
        host, failure = _resolve_service(api, name, namespace, port)
    url = f"{url}?timeout={seconds}s"
    if failure:
        failure = f'{_FAILED}Post "{url}": {failure}'
    if review is None:
        review = {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}"}
    return WebhookCall(key, url, host, authority, version, request, seconds, failure, review)


def _resolve_service(api: Cluster, name: str, namespace: str, port: int) -> tuple[str, str]:
    """Where a service is, or why it is nowhere."""
    service = api.find("services", name, namespace)
    if service is None:
        return "", f'service "{name}" not found'
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return f"{spec.get('externalName', '')}:{port}", ""
    address = spec.get("clusterIP", "")
    if address == "None":
        return "", 'cannot route to service with ClusterIP "None"'
    if not any(one.get("port") == port for one in spec.get("ports", ())):
        return "", f'no service port {port} found for service "{name}"'
    # Nothing listens on the addresses of the embedded cluster's services.
    return "", f"dial tcp {address}:{port}: connect: connection refused"


def require_replies(caller: Caller, calls: Iterable[WebhookCall]) -> list[WebhookReply]:
    """The replies, asked for now where the caller cannot come again.

    Raises:
        PendingWebhookCalls: they are to be asked for first.
    """
    asked = list(calls)
    missing = [call for call in asked if call.key not in caller.replies]
    if missing and caller.comes_again:
        raise PendingWebhookCalls(missing)
    if missing:
        thread = threading.Thread(target=lambda: asyncio.run(_fetch_missing(caller, missing)))
        thread.start()
        thread.join()
    return [caller.replies[call.key] for call in asked]


async def await_webhooks(caller: Caller, write: Callable[[], Result]) -> Result:
    """What `write` returns once the webhooks that it needs are asked.

    Args:
        caller: on whose behalf it writes.
        write: the write; made again from its start with every reply.

    Raises:
        StatusError: whatever the write is refused for.
    """
    tries = _repeat_until_answered(caller, write)
    while True:
        try:
            calls = next(tries)
        except StopIteration as end:
            result: Result = end.value
            return result
        await _fetch_missing(caller, calls)


def suspend_for_webhooks(caller: Caller, write: Callable[[], Result]) -> Result:
    """As `await_webhooks` for a write of this process: the strand that makes it is laid aside.

    Outside of strands everything stands still until webhooks have answered.

    Raises:
        StatusError: whatever the write is refused for.
    """
    strand = SuspendableTask.current()
    if strand is None:
        return write()
    tries = _repeat_until_answered(caller, write)
    while True:
        try:
            calls = next(tries)
        except StopIteration as end:
            result: Result = end.value
            return result
        strand.wait(partial(_fetch_missing, caller, calls))


def _repeat_until_answered(
    caller: Caller, write: Callable[[], Result]
) -> Generator[tuple[WebhookCall, ...], None, Result]:
    """What is to be asked before the next try, until one succeeds."""
    for _ in range(_MAX_ROUNDS):
        caller.comes_again = True
        try:
            return write()
        except PendingWebhookCalls as wanted:
            calls = wanted.calls
        finally:
            caller.comes_again = False
        yield calls
    raise internal_error("the object changes faster than admission webhooks answer")


async def fetch_replies(calls: Iterable[WebhookCall]) -> list[WebhookReply]:
    """The replies, which are asked for side by side."""
    return await asyncio.gather(*(_fetch_reply(call) for call in calls))


async def _fetch_missing(caller: Caller, calls: Iterable[WebhookCall]) -> None:
    """Note the replies."""
    asked = list(calls)
    for call, reply in zip(asked, await fetch_replies(asked), strict=True):
        caller.replies[call.key] = reply


async def _fetch_reply(call: WebhookCall) -> WebhookReply:
    uid = new_uid()
    if call.failure:
        return WebhookReply(uid, failure=call.failure)
    import aiohttp

    review = {**call.review, "request": {"uid": uid, **call.request}}
    split = urlsplit(call.url)
    url = call.url.replace(split.netloc, call.host, 1) if call.host else call.url
    try:
        context = ssl.create_default_context(cadata=call.authority or None)
    except (ssl.SSLError, ValueError):
        why = "unable to load root certificates: unable to parse bytes as PEM block"
        return WebhookReply(uid, failure=f"could not get REST client: {why}")
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=call.seconds)) as session,
            session.post(
                url,
                data=json.dumps(review).encode(),
                headers=_HEADERS,
                ssl=context,
                server_hostname=split.hostname if call.host else None,
            ) as answer,
        ):
            body = await answer.content.read(_MAX_BODY_BYTES)
            if answer.status in (200, 201):
                return WebhookReply(uid, body)
            plain = answer.headers.get("Content-Type", "text/").startswith("text/")
            return WebhookReply(
                uid, failure=_FAILED + _status_error_text(answer.status, body, plain=plain)
            )
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        return WebhookReply(
            uid, failure=f'{_FAILED}Post "{call.url}": {connection_error_text(error, url)}'
        )


def _status_error_text(code: int, body: bytes, *, plain: bool) -> str:
    """What a client of the server's own calls an answer that is no success."""
    text = body.decode(errors="replace").strip()
    try:
        status = json.loads(text)
    except ValueError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status" and status.get("message"):
        return str(status["message"])
    if not plain:
        text = ""
    if code in (403, 415):
        return text or "unknown"
    if code in _STATUS_TEXTS:
        return _STATUS_TEXTS[code]
    if code >= 500:
        shown = json.dumps(text or "unknown", ensure_ascii=False)
        return f"an error on the server ({shown}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


def connection_error_text(error: Exception, url: str) -> str:
    """Why nobody answered, in the words of the server's own client."""
    import aiohttp

    split = urlsplit(url)
    host, port = split.hostname or "", split.port or 443
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _certificate_error_text(error.certificate_error, host)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        if "WRONG_VERSION_NUMBER" in str(error):
            return "http: server gave HTTP response to HTTPS client"
        return f"remote error: tls: {error.os_error.strerror or 'handshake failure'}"
    if isinstance(error, aiohttp.ClientConnectorError):
        host, port = error.host, error.port or port
        address = f"[{host}]" if ":" in host else host
        number = error.os_error.errno
        reason = {
            errno.ECONNREFUSED: "connection refused",
            errno.EHOSTUNREACH: "no route to host",
            errno.ENETUNREACH: "network is unreachable",
        }.get(number or 0, (error.os_error.strerror or "failed").lower())
        return f"dial tcp {address}:{port}: connect: {reason}"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "EOF"
    return str(error) or type(error).__name__


def _certificate_error_text(error: Exception, host: str) -> str:
    code = getattr(error, "verify_code", 0)
    if code in _UNKNOWN_AUTHORITY_CODES:
        why = "certificate signed by unknown authority"
    elif code == 10:
        why = "certificate has expired or is not yet valid"
    elif code == 64:
        why = f"cannot validate certificate for {host} because it doesn't contain any IP SANs"
    elif code == 62:
        why = f"certificate is not valid for any names, but wanted to match {host}"
    else:
        why = str(getattr(error, "verify_message", error))
    return f"tls: failed to verify certificate: x509: {why}"
