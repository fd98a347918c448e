"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook: call webhooks, apply failure policies.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go,
pkg/admission/plugin/webhook/mutating/reinvocationcontext.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.webhooks.admission_reviews import (
    InvalidReviewError,
    ReviewResponse,
    build_admission_request,
    choose_review_version,
    denial_error,
    parse_review_response,
)
from pytest_kwait.simulator.admission.webhooks.matching import ADMISSION_GROUP, match_webhooks
from pytest_kwait.simulator.admission.webhooks.webhook_client import (
    WebhookReply,
    build_call,
    call_webhooks,
)
from pytest_kwait.simulator.api_errors import StatusError, bad_request, internal_error
from pytest_kwait.simulator.conversion import to_version
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.request_info import internal_caller

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kwait.simulator.admission.webhooks.matching import MatchedWebhook
    from pytest_kwait.simulator.cluster_protocol import Cluster


class WebhookInvocation:
    """A call of one webhook about a request.

    Args:
        mutating: whether the webhook may change the object.

    Raises:
        StatusError: 400, the webhook does not support dry run.
    """

    def __init__(
        self, cluster: Cluster, hook: MatchedWebhook, attributes: Attributes, *, mutating: bool
    ) -> None:
        self._hook = hook
        self._caller = attributes.caller
        self._mutating = mutating
        self._reply = WebhookReply("")
        self._version = choose_review_version(hook.webhook)
        if attributes.caller.dry_run and hook.webhook.get("sideEffects") not in (
            "None",
            "NoneOnDryRun",
        ):
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        request = build_admission_request(hook.kind, attributes)
        config = hook.webhook["clientConfig"]
        self._call = build_call(cluster, config, self._version, request, hook.seconds)
        delay = cluster.exploration.delay_webhook(
            hook.name,
            hook.seconds,
            f"{attributes.operation.lower()} {attributes.kind.plural}",
            attributes.name,
            attributes.namespace,
        )
        self._call = replace(self._call, delay=delay)

    @staticmethod
    def call_all(invocations: Sequence[WebhookInvocation]) -> None:
        """Call all webhooks concurrently."""
        replies = call_webhooks([invocation._call for invocation in invocations])
        for invocation, reply in zip(invocations, replies, strict=True):
            invocation._reply = reply

    def response(self) -> ReviewResponse | None:
        """Return the response; None if the call failed and the policy is `Ignore`.

        Raises:
            StatusError: the request is denied, or the call failed.
        """
        try:
            reply = self._parse_reply()
        except InvalidReviewError as error:
            if self._hook.may_fail:
                return None
            text = f'failed calling webhook "{self._hook.name}": {error}'
            raise internal_error(text) from None
        for text in reply.warnings:
            self._caller.warn(text)
        if not reply.allowed:
            raise denial_error(self._hook.name, reply.status)
        return reply

    def _parse_reply(self) -> ReviewResponse:
        if self._reply.failure:
            raise InvalidReviewError(self._reply.failure)
        return parse_review_response(
            self._reply.body, self._reply.uid, self._version, mutating=self._mutating
        )


class _WebhookPlugin(AdmissionPlugin):
    """A plugin that calls the webhooks of one kind of configuration."""

    _resource: str

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._configurations = cluster.store.present(self._resource)

    def _matching(self, attributes: Attributes) -> Iterator[MatchedWebhook]:
        return match_webhooks(self._cluster, self._resource, attributes)


class MutatingAdmissionWebhook(_WebhookPlugin):
    """The MutatingAdmissionWebhook plugin."""

    _resource = f"mutatingwebhookconfigurations.{ADMISSION_GROUP}"

    def admit(self, attributes: Attributes) -> None:
        """Call the matching webhooks in order, each with the changes of those before.

        The second round calls the webhooks that allow reinvocation and ran before the last change.

        Raises:
            StatusError: the request is denied, or a call failed.
        """
        if not self._configurations:
            return
        again = attributes.reinvocation
        if again.active and attributes.obj != again.seen:
            again.require_reinvocation()
        for hook in self._matching(attributes):
            if again.active and hook.identity not in again.wanted:
                continue
            invocation = WebhookInvocation(self._cluster, hook, attributes, mutating=True)
            WebhookInvocation.call_all([invocation])
            response = invocation.response()
            if response is not None and response.patch:
                before = attributes.obj
                self._change(attributes, hook, response.patch)
                if attributes.obj != before:
                    again.require_reinvocation()
                    again.due = True
            if hook.webhook.get("reinvocationPolicy") == "IfNeeded":
                again.record_invoked(hook.identity)
        again.seen = clone(attributes.obj)

    def _change(self, attributes: Attributes, hook: MatchedWebhook, operations: list[Any]) -> None:
        if attributes.obj is None:
            raise internal_error(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not '
                "supported for this operation"
            )
        from pytest_kwait.simulator.patch import apply_webhook_patch

        kind = attributes.subresource_kind or hook.kind
        changed = apply_webhook_patch(to_version(kind, attributes.obj), operations)
        if attributes.operation == "CONNECT":
            attributes.obj = changed
            return
        try:
            stored = self._cluster.decode(kind, changed, internal_caller())
        except StatusError as error:
            why = error.message.partition(f" cannot be handled as a {kind.kind}: ")[2]
            raise internal_error(why or error.message) from None
        if kind.custom:
            attributes.obj = to_version(attributes.kind, stored)
        else:
            attributes.obj = {**stored, "apiVersion": attributes.obj["apiVersion"]}


class ValidatingAdmissionWebhook(_WebhookPlugin):
    """The ValidatingAdmissionWebhook plugin."""

    _resource = f"validatingwebhookconfigurations.{ADMISSION_GROUP}"

    def validate(self, attributes: Attributes) -> None:
        """Call all matching webhooks concurrently; the first denial counts.

        Raises:
            StatusError: the request is denied, or a call failed.
        """
        if not self._configurations:
            return
        invocations = [
            WebhookInvocation(self._cluster, hook, attributes, mutating=False)
            for hook in self._matching(attributes)
        ]
        WebhookInvocation.call_all(invocations)
        for invocation in invocations:
            invocation.response()
