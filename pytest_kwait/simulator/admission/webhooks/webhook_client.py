"""Calls of webhooks over HTTPS, concurrently, in the middle of a synchronous write.

Source: k8s.io/apiserver pkg/util/webhook/client.go, pkg/util/proxy/proxy.go.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_kwait.apimachinery.go_values import quote_go
from pytest_kwait.simulator.authentication.pki import make_client_context
from pytest_kwait.simulator.network.pod_network import (
    get_pod_networks,
    is_cluster_address,
    make_service_connector,
)
from pytest_kwait.simulator.objects import new_uid
from pytest_kwait.simulator.suspendable import await_result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    import aiohttp

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

_FAILED = "failed to call webhook: "
_SHORTEST = 0.001
"""Seconds; aiohttp takes none for no limit."""
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
"""OpenSSL's error codes of chains without a known root."""


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """A call of one webhook.

    Args:
        url: the URL, as error messages show it.
        host: the host to connect to; empty for the URL's.
        authority: the CA of the server's certificate as PEM; empty for the system's.
        version: the version of the review.
        request: the review's request without a UID.
        seconds: the timeout.
        failure: the error of an impossible call.
        review: the other fields of the review.
        service_of: the cluster, if the host is that of a service of it.
        delay: waits before the call, as an exploration decides; part of the timeout.
    """

    url: str
    host: str
    authority: str
    version: str
    request: Obj
    seconds: int
    failure: str = ""
    review: Obj = field(default_factory=dict)
    service_of: Cluster | None = None
    delay: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class WebhookReply:
    """The result of a call.

    Args:
        uid: the UID of the review.
        body: the response; empty for a failed call.
        failure: the error; empty for a successful call.
    """

    uid: str
    body: bytes = b""
    failure: str = ""


def build_call(
    cluster: Cluster,
    config: Obj,
    version: str,
    request: Obj,
    seconds: int,
    review: Obj | None = None,
) -> WebhookCall:
    """Return the call of a webhook's `clientConfig`.

    Args:
        cluster: the cluster, for services.
        config: the `clientConfig`.
        version: the version of the review.
        request: the request of the review.
        seconds: the timeout.
        review: the other fields of the review, by default those of an AdmissionReview.
    """
    authority = base64.b64decode(config.get("caBundle", "")).decode(errors="replace")
    service = config.get("service")
    host = failure = ""
    if service is None:
        url = config.get("url", "")
    else:
        name, namespace = service.get("name", ""), service.get("namespace", "")
        port = service.get("port", 443)
        url = f"https://{name}.{namespace}.svc:{port}/{service.get('path', '').lstrip('/')}"
        host, failure = _resolve_service(cluster, name, namespace, port)
    url = f"{url}?timeout={seconds}s"
    if failure:
        failure = f'{_FAILED}Post "{url}": {failure}'
    if review is None:
        review = {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}"}
    own = cluster if service is not None and not failure else None
    return WebhookCall(url, host, authority, version, request, seconds, failure, review, own)


def _resolve_service(cluster: Cluster, name: str, namespace: str, port: int) -> tuple[str, str]:
    """Return the address of a service, or the error."""
    service = cluster.find("services", name, namespace)
    if service is None:
        return "", f'service "{name}" not found'
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return f"{spec.get('externalName', '')}:{port}", ""
    address = spec.get("clusterIP", "")
    if address == "None":
        return "", 'cannot route to service with ClusterIP "None"'
    if not any(service_port.get("port") == port for service_port in spec.get("ports", ())):
        return "", f'no service port {port} found for service "{name}"'
    if get_pod_networks(cluster).current is not None:
        return f"{address}:{port}", ""
    # No program runs in the cluster, and no simulated one speaks TLS.
    return "", f"dial tcp {address}:{port}: connect: connection refused"


def call_webhooks(calls: Iterable[WebhookCall]) -> list[WebhookReply]:
    """Call webhooks concurrently; the calling task is suspended."""
    webhook_calls = list(calls)
    return await_result(lambda: fetch_replies(webhook_calls)) if webhook_calls else []


async def fetch_replies(calls: Iterable[WebhookCall]) -> list[WebhookReply]:
    """Call webhooks concurrently."""
    return await asyncio.gather(*(_fetch_reply(call) for call in calls))


async def _fetch_reply(call: WebhookCall) -> WebhookReply:
    uid = new_uid()
    if call.failure:
        return WebhookReply(uid, failure=call.failure)
    loop = asyncio.get_running_loop()
    end = loop.time() + call.seconds
    if call.delay is not None:
        await call.delay()
    import aiohttp

    review = {**call.review, "request": {"uid": uid, **call.request}}
    split = urlsplit(call.url)
    url = call.url.replace(split.netloc, call.host, 1) if call.host else call.url
    try:
        context = make_client_context(call.authority)
    except (ssl.SSLError, ValueError):
        why = "unable to load root certificates: unable to parse bytes as PEM block"
        return WebhookReply(uid, failure=f"could not get REST client: {why}")
    try:
        connector = await _make_connector(call)
        async with (
            aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=max(end - loop.time(), _SHORTEST)),
            ) as session,
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


async def _make_connector(call: WebhookCall) -> aiohttp.TCPConnector | None:
    """Return the connector to a service's cluster IP; None for other hosts."""
    if call.service_of is None or not is_cluster_address(call.service_of, call.host):
        return None
    return await make_service_connector(call.service_of)


def _status_error_text(code: int, body: bytes, *, plain: bool) -> str:
    """Return client-go's message for an unsuccessful response."""
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
        quoted_text = quote_go(text or "unknown")
        return f"an error on the server ({quoted_text}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


def connection_error_text(error: Exception, url: str) -> str:
    """Return Go's message for a failed connection."""
    import aiohttp

    split = urlsplit(url)
    host, port = split.hostname or "", split.port or 443
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {host}:{port}: connect: connection refused"
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
