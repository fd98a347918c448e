"""One webhook and one request: asked once, understood, or failed as its policy says.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.webhooks.admission_reviews import (
    InvalidReviewError,
    ReviewResponse,
    build_review,
    choose_review_version,
    denial_error,
    parse_review_response,
)
from pytest_kwait.simulator.admission.webhooks.webhook_client import (
    WebhookReply,
    build_call,
    require_replies,
)
from pytest_kwait.simulator.api_errors import bad_request, internal_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.admission.attributes import Attributes
    from pytest_kwait.simulator.admission.webhooks.matching import MatchedWebhook
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.request_info import Caller

__all__ = ["WebhookInvocation"]


class WebhookInvocation:
    """A request as it is shown to one webhook.

    Args:
        api: the cluster.
        hook: the webhook.
        attributes: the request.
        mutating: whether the webhook may change it.

    Raises:
        StatusError: 400, it is only tried and the webhook knows no trying.
    """

    def __init__(
        self, api: SimulatedCluster, hook: MatchedWebhook, attributes: Attributes, *, mutating: bool
    ) -> None:
        self._hook = hook
        self._caller = attributes.caller
        self._mutating = mutating
        self._reply = WebhookReply("")
        self._version = choose_review_version(hook)
        if attributes.caller.dry_run and hook.webhook.get("sideEffects") not in (
            "None",
            "NoneOnDryRun",
        ):
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        request = build_review(hook, attributes)
        config = hook.webhook["clientConfig"]
        self._call = build_call(api, hook.identity, config, self._version, request, hook.seconds)

    @staticmethod
    def ask(caller: Caller, questions: Sequence[WebhookInvocation]) -> None:
        """Let all of them be answered.

        Raises:
            Unanswered: they are to be asked first.
        """
        replies = require_replies(caller, [question._call for question in questions])
        for question, reply in zip(questions, replies, strict=True):
            question._reply = reply

    def verdict(self) -> ReviewResponse | None:
        """What the webhook says, None where it fails and may.

        Raises:
            StatusError: it refuses the request, or fails and may not.
        """
        try:
            found = self._parse_reply()
        except InvalidReviewError as error:
            if self._hook.may_fail:
                return None
            text = f'failed calling webhook "{self._hook.name}": {error}'
            raise internal_error(text) from None
        for text in found.warnings:
            self._caller.warn(text)
        if not found.allowed:
            raise denial_error(self._hook.name, found.status)
        return found

    def _parse_reply(self) -> ReviewResponse:
        if self._reply.failure:
            raise InvalidReviewError(self._reply.failure)
        return parse_review_response(
            self._reply.body, self._reply.uid, self._version, mutating=self._mutating
        )
