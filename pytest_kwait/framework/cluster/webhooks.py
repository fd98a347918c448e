"""Wait for an admission webhook that answers, or for the endpoints of one that does not.

An existing configuration does not prove that its server answers, and ready endpoints do not
prove that the API server calls it yet. A probe object is created as a dry run and never stored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import (
    CONFIG_MAPS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from pytest_kwait.engine.active_waits import ACTIVE_WAITS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.engine.options import (
    GRACE_LONG,
    WaitOptions,
    WaitSettings,
    check_text,
    parse_target,
    resolve_options,
)
from pytest_kwait.engine.retry import ErrorLog, request_once
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.endpoints import ServiceEndpoints
from pytest_kwait.framework.named_objects import ObjectCondition, ProbeCondition
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline
    from pytest_kwait.framework.registry import ConditionOf

_PROBE_CONTENTS: Mapping[Resource, dict[str, Any]] = {
    CONFIG_MAPS: {},
    SECRETS: {},
    SERVICE_ACCOUNTS: {},
    SERVICES: {"spec": {"ports": [{"port": 80}]}},
    PODS: {"spec": {"containers": [{"name": "probe", "image": "probe"}]}},
}

PROBE_KINDS = ", ".join(resource.plural for resource in _PROBE_CONTENTS)
"""The kinds of which a probe can be generated, as they appear in a sentence."""
SETTLING_TIME = 1.0
"""The time in seconds for which probes must be admitted.

A server observes a configuration with a delay and calls no webhook before.
"""

_DENIED = re.compile(r'admission webhook "([^"]*)" denied the request')
_UNREACHED = "failed calling webhook"

_UNCALLED = re.compile(
    rf'(?:{_UNREACHED} "(?P<name>[^"]+)"|conversion webhook for (?P<kind>.+?) failed): '
    r"(?:failed to call webhook: )?"
    r'(?:Post "https://(?P<host>[^/"]+)[^"]*": )?(?P<cause>.+)',
    re.DOTALL,
)
_SERVICE_HOST = re.compile(
    r"(?P<service>[^.]+)\.(?P<namespace>[^.]+)\.svc(?:\.[^:]*)?(?::(?P<port>\d+))?"
)

_CAUSES = {
    "certificate signed by unknown authority": (
        "the configuration's caBundle is not the authority of the certificate"
    ),
    "server gave HTTP response to HTTPS client": "a webhook is served by HTTPS alone",
    "could not find the requested resource": "nothing is served at the configuration's path",
}
"""Explanations of what an API server says, by a part of it."""

_SHARED = frozenset({"fail_fast", "grace", "mode", "stop"})
"""Options of a write that its wait for a webhook has, too."""

_LOOKUP_TIMEOUT = 5.0
"""Maximum seconds of the requests for the configuration of a webhook."""


def build_probe(webhooks: Iterable[Mapping[str, Any]]) -> tuple[Resource, dict[str, Any]] | None:
    """Return a generated probe that the first matching webhook receives, and its kind.

    The probe has no name, and the labels that the webhook's objectSelector requires by equality.
    None if no rule covers the creation of a kind that can be generated.

    Args:
        webhooks: as a configuration lists them.
    """
    for webhook in webhooks:
        labels = (webhook.get("objectSelector") or {}).get("matchLabels") or {}
        for rule in webhook.get("rules") or ():
            for resource, content in _PROBE_CONTENTS.items():
                if _is_about_creation(rule, resource):
                    metadata = {"generateName": "kwait-probe-", "labels": dict(labels)}
                    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
                    return resource, {**kind, "metadata": metadata, **content}
    return None


def _is_about_creation(rule: Mapping[str, Any], resource: Resource) -> bool:
    """Return whether a rule covers the creation of objects of a kind in a namespace."""
    creation_values = (
        ("operations", "CREATE"),
        ("apiGroups", resource.group),
        ("apiVersions", resource.version),
        ("resources", resource.plural),
    )
    return rule.get("scope") in (None, "*", "Namespaced") and all(
        {value, "*", "*/*"} & set(rule.get(key) or ()) for key, value in creation_values
    )


def _configurations(singular: str, kind: str) -> Resource:
    group = "admissionregistration.k8s.io"
    return Resource(group, "v1", f"{singular}s", kind, namespaced=False, singular=singular)


_KINDS = {
    resource.singular: resource
    for resource in (
        _configurations("validatingwebhookconfiguration", "ValidatingWebhookConfiguration"),
        _configurations("mutatingwebhookconfiguration", "MutatingWebhookConfiguration"),
    )
}


class AnsweringWebhook(ObjectCondition, ProbeCondition):
    """The webhooks of a configuration answer the API server.

    Args:
        namespace: the namespace of the probe.
        resource: the configuration's kind.
        probe: the object; None to generate one.
        denial: a part of the message with which the webhook refuses the probe; None if it does not.
        mutation: the fields that the webhook adds to the probe; None if it adds none.
    """

    goal = "answer"

    def __init__(
        self,
        namespace: str,
        resource: Resource,
        name: str,
        *,
        probe: Mapping[str, Any] | None,
        denial: str | None,
        mutation: Mapping[str, Any] | None,
    ) -> None:
        super().__init__(resource, None, name)
        self._probe_namespace = namespace
        self._probe = probe
        self._denial = denial
        self._mutation = mutation
        self._asked: str | None = None
        self._accepted_since: float | None = None
        self._verdict: Verdict = Pending("not asked yet")

    def _version(self) -> str:
        metadata = (self.object.current or {}).get("metadata") or {}
        return str(metadata.get("resourceVersion"))

    def _webhooks(self) -> list[dict[str, Any]]:
        return list((self.object.current or {}).get("webhooks") or ())

    def verdict(self) -> Verdict:
        """Decide by the configuration, then by the result of the last probe."""
        absent = self.object.missing_verdict() or self.object.ending()
        if absent is not None:
            return absent
        if self._probe is None and build_probe(self._webhooks()) is None:
            return Failed(
                f"no probe can be made up for its rules (only creations of {PROBE_KINDS}): "
                "give one",
                Grace.SHORT,
            )
        return self._verdict

    def probe_targets(self) -> Sequence[Any]:
        """Return the probe and the configuration; empty while the configuration does not exist."""
        if self.object.current is None:
            return ()
        webhooks = self._webhooks()
        probe = build_probe(webhooks) if self._probe is None else (None, self._probe)
        return () if probe is None else ((*probe, webhooks),)

    def is_urgent(self) -> bool:
        """Return whether the configuration has changed since the last probe."""
        return self._asked != self._version()

    def send_requests(self, targets: Sequence[Any], deadline: Deadline) -> Verdict:
        """Create the probe as a dry run and interpret the response."""
        session = self.client_session
        version = self._version()
        if self._asked != version:
            self._accepted_since = None
        self._asked = version
        kind, probe, webhooks = targets[0]
        resource = kind or request_once(
            lambda limit: session.resolve(
                str(probe["kind"]), str(probe["apiVersion"]), deadline=limit
            ),
            deadline,
        )
        where = self._probe_namespace if resource.namespaced else None
        answer: dict[str, Any] | None = None
        refusal = ""
        try:
            answer = request_once(
                lambda limit: session.create(resource, probe, where, dry_run=True, deadline=limit),
                deadline,
            )
        except ApiError as error:
            refusal = error.message
            if _UNREACHED in refusal:
                self._accepted_since = None
                return Pending(refusal)
            # A name conflict is detected only after all webhooks were called.
            if not _DENIED.search(refusal) and error.status != 409:
                raise
        return self._evaluate(answer, refusal, webhooks, session.clock.monotonic())

    def _evaluate(
        self,
        answer: dict[str, Any] | None,
        refusal: str,
        webhooks: Sequence[Mapping[str, Any]],
        now: float,
    ) -> Verdict:
        denied = _DENIED.search(refusal)
        if denied is not None:
            self._accepted_since = None
            if self._denial is not None and self._denial in refusal:
                return Met()
            if self._denial is None and denied[1] in {webhook.get("name") for webhook in webhooks}:
                return self._unwanted(refusal)
            return Pending(f"the probe was refused otherwise: {refusal}")
        if self._denial is not None:
            return Pending("the probe was let through, not refused")
        if self._mutation is not None:
            missing = None if answer is None else _first_missing_path(answer, self._mutation)
            if answer is not None and missing is None:
                return Met()
            return Pending(f"the probe was let through without {missing or 'an answer'}")
        return self._let_through(webhooks, now)

    def _unwanted(self, refusal: str) -> Verdict:
        """Return the verdict on an unexpected refusal: the webhook has answered."""
        return Met() if self._mutation is None else Pending(f"the probe was refused: {refusal}")

    def _let_through(self, webhooks: Sequence[Mapping[str, Any]], now: float) -> Verdict:
        """Return the verdict on an admitted probe."""
        ignoring = [
            str(webhook.get("name")) for webhook in webhooks if _is_ignoring_failures(webhook)
        ]
        if ignoring:
            return Failed(
                f"the failurePolicy of {ignoring[0]} is Ignore: that a probe is let through proves "
                "nothing, name the denial or the mutation that does",
                Grace.SHORT,
            )
        if self._accepted_since is None:
            self._accepted_since = now
        if now - self._accepted_since >= SETTLING_TIME:
            return Met()
        return Pending(f"the probe was let through, which must hold for {SETTLING_TIME:g}s")

    def record_answers(self, answers: Verdict) -> None:
        """Record the result of the probe."""
        self._verdict = answers

    def summarize(self) -> str:
        """Return the names of the webhooks."""
        return ", ".join(
            f"{webhook.get('name')} (failurePolicy {webhook.get('failurePolicy') or 'Fail'})"
            for webhook in self._webhooks()
        )


def _is_ignoring_failures(webhook: Mapping[str, Any]) -> bool:
    return webhook.get("failurePolicy") == "Ignore"


def _first_missing_path(obj: object, expected: object, where: str = "") -> str | None:
    """Return the first path of `expected` that is not in `obj`; None if all are."""
    if isinstance(expected, Mapping) and isinstance(obj, Mapping):
        for key, value in expected.items():
            path = f"{where}.{key}"
            if key not in obj:
                return path
            missing = _first_missing_path(obj[key], value, path)
            if missing is not None:
                return missing
        return None
    return None if obj == expected else f"{where} of {expected!r}"


@wait(
    limit="webhook",
    kinds={"target": None},
    summary="admission webhooks that answer, shown by a dry run",
    poll="serving_poll",
)
def wait_for_webhook_ready(
    client: ApiClient,
    namespace: str,
    target: str,
    probe: Mapping[str, Any] | None = None,
    *,
    denial: str | None = None,
    mutation: Mapping[str, Any] | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a webhook configuration once its webhooks answer the API server.

    A probe is created as a dry run every `poll`, 100 ms by default, and never stored. An answer is
    proven by:

    - with `denial`: a refusal whose message contains it;
    - with `mutation`: a returned object that contains it;
    - otherwise: a refusal by one of its webhooks, or a second in which probes are admitted. With
      failurePolicy Fail they would be refused if no webhook answered. With Ignore admission proves
      nothing, and the wait fails with that explanation.

    A webhook is not called for a probe that it does not match. A generated probe has the labels
    that the objectSelector's `matchLabels` require; `matchExpressions`, `matchConditions` and the
    labels of the namespace are up to the caller.

    Args:
        client: the official client; its user must be allowed to create the probe.
        namespace: the namespace of the probe.
        target: `validatingwebhookconfiguration/<name>` or `mutatingwebhookconfiguration/<name>`.
        probe: an object whose creation calls the webhook; by default generated from the first rule
            about the creation of config maps, secrets, service accounts, services or pods.
        denial: a part of the message with which the webhook refuses the probe.
        mutation: a part of the object as the webhook changes it, for example `{"metadata":
            {"annotations": {"seen": "yes"}}}`; lists are compared as a whole.

    Raises:
        ApiError: the server itself refuses the probe.
        WaitFailed: the configuration was deleted, no probe can be generated, or nothing can be
            proven.

    Source: kubernetes/test/e2e/apimachinery/webhook.go waitWebhookConfigurationReady, which takes a
    denial for the proof.
    """
    check_namespace(namespace)
    parsed = parse_target("target", target)
    kind = parsed.kind.lower().partition(".")[0].removesuffix("s")
    if kind not in _KINDS or not parsed.name:
        raise InvalidArgument("target", target, f"use {' or '.join(f'{k}/<name>' for k in _KINDS)}")
    value: object = probe
    if value is not None and not (
        isinstance(value, Mapping)
        and {"apiVersion", "kind", "metadata"} <= set(value)
        and isinstance(value["metadata"], Mapping)
    ):
        raise InvalidArgument("probe", value, "use an object with apiVersion, kind and metadata")
    added: object = mutation
    if added is not None and not (isinstance(added, Mapping) and added):
        raise InvalidArgument("mutation", added, "use the part of the object that the webhook adds")
    if denial is not None and mutation is not None:
        raise InvalidArgument("denial", denial, "leave it out where a mutation is awaited")
    return AnsweringWebhook(
        namespace,
        _KINDS[kind],
        check_name("webhook", parsed.name),
        probe=probe,
        denial=None if denial is None else check_text("denial", denial),
        mutation=mutation,
    )


class UncalledWebhook(NamedTuple):
    """A webhook that the API server could not call.

    Args:
        name: its name.
        namespace: the namespace of its service; empty if the error does not say.
        service: the name of its service; empty if the error does not say.
        port: the port of its service; empty if the error does not say.
        cause: why it was not called, as the server says.
    """

    name: str
    namespace: str
    service: str
    port: str
    cause: str


def parse_uncalled_webhook(error: ApiError) -> UncalledWebhook | None:
    """Return the webhook that failed a request; None for other errors.

    Source: apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go, apiserver
    pkg/util/webhook/serviceresolver.go.
    """
    match = _UNCALLED.search(error.message) if error.status >= 500 else None
    if match is None:
        return None
    host = _SERVICE_HOST.fullmatch(match["host"] or "")
    namespace, service, port = ("", "", "") if host is None else host.group(2, 1, 3)
    name = match["name"] or f"for the conversion of {match['kind']}"
    return UncalledWebhook(name, namespace, service, port or "", match["cause"])


class RepeatedRequest:
    """A request that a webhook has failed, and that is sent until the webhook is called.

    Args:
        error: the error of its last try.
        send: sends it; returns its error, None for an answer.
    """

    def __init__(self, error: ApiError | None, send: Callable[[Deadline], ApiError | None]) -> None:
        self.error = error
        self.count = 0
        """The number of times that it was sent."""
        self._send = send

    def send(self, deadline: Deadline) -> tuple[ApiError | None]:
        """Send it; return its error, or None for an answer."""
        self.count += 1
        return (self._send(deadline),)

    @property
    def cause(self) -> str:
        """Why the webhook was not called, as the server says; empty if it was."""
        called = None if self.error is None else parse_uncalled_webhook(self.error)
        if called is None:
            return ""
        texts = [text for part, text in _CAUSES.items() if part in called.cause]
        return "; ".join((" ".join(called.cause.split()), *texts))


class CallableWebhook(ServiceEndpoints, ProbeCondition):
    """A webhook is called through its service by the request that it has failed.

    As long as it is not, the condition fails, as the objects that need the webhook cannot be
    written; for a webhook that may be starting only after a while.

    Args:
        webhook: the webhook, with its service.
        configuration: its configuration, `validatingwebhookconfiguration/guard`; may be empty.
        request: the request.
        patience: seconds in which its pods may start, before the failure and its grace period.
    """

    detect_pod_failure = staticmethod(detect_owned_pod_failure)

    def __init__(
        self,
        webhook: UncalledWebhook,
        configuration: str,
        request: RepeatedRequest,
        patience: float,
    ) -> None:
        super().__init__(webhook.namespace, webhook.service, "be called")
        self.object.follows_name = True
        self._webhook = webhook
        self._configuration = configuration
        self._write = request
        self._patience = patience
        self._now = 0.0
        self._starting_until = math.inf
        self._was_reached = False

    @property
    def subject(self) -> str:
        """The webhook, with its configuration if known."""
        of = f" of {self._configuration}" if self._configuration else ""
        return f"webhook {self._webhook.name}{of}"

    @property
    def retries(self) -> int:
        """The number of times that the request was sent again."""
        return self._write.count

    @property
    def due(self) -> float:
        """The time at which the patience with starting pods ends; infinite once it has."""
        return self._starting_until if self._now < self._starting_until else math.inf

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Set the time of the next verdict."""
        self._now = now

    def verdict(self) -> Verdict:
        """Decide by the ready endpoints and the last answer; without an endpoint, by its pods."""
        verdict = super().verdict()
        is_starting = isinstance(verdict, Pending) and self.pods.alive > 0
        if isinstance(verdict, Met):
            if not self._write.cause:
                return verdict
            verdict = Pending(f"{self._describe_service()}: {self._write.cause}")
            is_starting = True
        else:
            self._was_reached = False
        if is_starting and self._starting_until == math.inf:
            self._starting_until = self._now + self._patience
        if is_starting and self._now < self._starting_until:
            return verdict
        reason = verdict.reason
        if isinstance(verdict, Failed):
            reason = f"{self._missing()}: {reason}"
        # The service and its pods may be replaced, a certificate may be injected.
        return Failed(reason, Grace.LONG)

    def probe_targets(self) -> Sequence[Any]:
        """Return the request, if an endpoint is ready."""
        return () if self._missing() else (self._write,)

    def is_urgent(self) -> bool:
        """Return whether an endpoint has become ready."""
        return not self._was_reached and not self._missing()

    def send_requests(self, targets: Sequence[Any], deadline: Deadline) -> tuple[ApiError | None]:
        """Send the request."""
        self._was_reached = True
        request: RepeatedRequest = targets[0]
        return request.send(deadline)

    def record_answers(self, answers: tuple[ApiError | None]) -> None:
        """Record the error of the request, or None for an answer."""
        (self._write.error,) = answers

    def _describe_service(self) -> str:
        port = self._webhook.port or "443"
        targets = [
            f" (targetPort {service_port['targetPort']})"
            for service_port in self.object.spec.get("ports") or ()
            if str(service_port.get("port")) == port
            and str(service_port.get("targetPort", port)) != port
        ]
        return f"service {self.namespace}/{self.object.name}, port {port}{''.join(targets)}"

    def _missing(self) -> str | None:
        if self.slices.ready or self.object.spec.get("type") == "ExternalName":
            return None
        return f"service {self.namespace}/{self.object.name} has no ready endpoint"

    def summarize(self) -> str:
        """Return the number of calls, with the slices and the pods."""
        sent = f"called {self._write.count} times; " if self._write.count > 1 else ""
        return f"{sent}{super().summarize()}"


class CallableUrl(ObjectCondition, ProbeCondition):
    """A webhook without a service is called, by the request that it has failed.

    Args:
        resource: the kind of its configuration.
        name: the name of its configuration.
        request: the request.
    """

    goal = "be called"

    def __init__(
        self, webhook: UncalledWebhook, resource: Resource, name: str, request: RepeatedRequest
    ) -> None:
        super().__init__(resource, None, name)
        self._webhook = webhook
        self._write = request

    @property
    def subject(self) -> str:
        """The webhook, with its configuration."""
        return f"webhook {self._webhook.name} of {self.object.noun}/{self.object.name}"

    @property
    def retries(self) -> int:
        """The number of times that the request was sent again."""
        return self._write.count

    def verdict(self) -> Verdict:
        """Decide by the last answer."""
        cause = self._write.cause
        return Failed(cause, Grace.LONG) if cause else Met()

    def probe_targets(self) -> Sequence[Any]:
        """Return the request."""
        return (self._write,)

    def send_requests(self, targets: Sequence[Any], deadline: Deadline) -> tuple[ApiError | None]:
        """Send the request."""
        request: RepeatedRequest = targets[0]
        return request.send(deadline)

    def record_answers(self, answers: tuple[ApiError | None]) -> None:
        """Record the error of the request, or None for an answer."""
        (self._write.error,) = answers

    def summarize(self) -> str:
        """Return the number of calls."""
        return f"called {self._write.count} times"


class WriteErrors(ErrorLog):
    """The API errors of a write, which waits until the webhook that fails it can be called.

    That wait is one of its own: it shows what the webhook's service, its pods and the API server
    say, and fails early once the webhook has not been called for the grace period. The grace is
    that of a real cluster as long as programs may be starting, which the embedded cluster starts no
    faster.

    Args:
        session: the session of the write.
        options: its options; those in force fill in what is not given.
    """

    def __init__(self, session: ApiSession, options: WaitOptions | None = None) -> None:
        super().__init__(session.clock)
        self._session = session
        self._options = {name: value for name, value in (options or {}).items() if name in _SHARED}

    def send_again(
        self,
        error: ApiError,
        send: Callable[[Deadline], ApiError | None],
        deadline: Deadline,
    ) -> ApiError | None:
        """Return the error of the write once the webhook that failed it was called.

        Raises:
            WaitFailed: it could not be called for the grace period.
        """
        webhook = parse_uncalled_webhook(error)
        if webhook is None:
            return error
        answer = self._send_until_called(webhook, error, send, deadline)
        if answer is error and not deadline.expired:
            # The request is tried again, up to its own limit.
            ACTIVE_WAITS.record_retry()
        return answer

    def _send_until_called(
        self,
        webhook: UncalledWebhook,
        error: ApiError,
        send: Callable[[Deadline], ApiError | None],
        deadline: Deadline,
    ) -> ApiError | None:
        options = {**self._options, "timeout": max(round(deadline.remaining, 1), 0.1)}
        settings = resolve_options(
            options, timeout="single_call", poll="serving_poll", session=self._session
        )
        if not settings.fail_fast:
            return error
        request = RepeatedRequest(error, send)
        try:
            condition = self._find_condition(webhook, request, settings, deadline)
            if condition is None:
                return error
            wait_for_condition(self._session, condition, settings, deadline)
        except (ApiError, DeadlineExceeded, WaitTimeout):
            return error
        except WaitFailed as failure:
            failure.add_note(str(request.error))
            raise failure from None
        return request.error

    def _find_condition(
        self,
        webhook: UncalledWebhook,
        request: RepeatedRequest,
        settings: WaitSettings,
        deadline: Deadline,
    ) -> CallableWebhook | CallableUrl | None:
        """Return the condition that the webhook is called; None if too little is known of it."""
        found = _find_configuration(self._session, webhook, deadline)
        service = {} if found is None else found.client_config.get("service") or {}
        if service and not webhook.service:
            port = str(service.get("port") or "")
            webhook = webhook._replace(
                namespace=service.get("namespace", ""), service=service.get("name", ""), port=port
            )
        if webhook.service:
            is_scaled = settings.grace is None
            scale = min(self._session.time_scale, 1.0)
            patience = GRACE_LONG * (1.0 - scale) if is_scaled else 0.0
            return CallableWebhook(webhook, found.title if found else "", request, patience)
        if found is None:
            return None
        return CallableUrl(webhook, found.resource, found.name, request)


class _Configuration(NamedTuple):
    """The configuration that has a webhook, and what it says of its server."""

    resource: Resource
    name: str
    client_config: Mapping[str, Any]

    @property
    def title(self) -> str:
        return f"{self.resource.singular}/{self.name}"


def _find_configuration(
    session: ApiSession, webhook: UncalledWebhook, deadline: Deadline
) -> _Configuration | None:
    """Return the configuration of a webhook; None if it is not found or may not be read."""
    limit = deadline.at_most(_LOOKUP_TIMEOUT)
    for resource in _KINDS.values():
        try:
            listed = session.list(resource, deadline=limit)
        except (ApiError, DeadlineExceeded):
            continue
        for item in listed.items:
            for declared in item.object.get("webhooks") or ():
                client_config = declared.get("clientConfig") or {}
                service = client_config.get("service") or {}
                place = (service.get("namespace", ""), service.get("name", ""))
                if declared.get("name") == webhook.name and (
                    not webhook.service or place == (webhook.namespace, webhook.service)
                ):
                    return _Configuration(
                        resource, str(item.object["metadata"]["name"]), client_config
                    )
    return None
