"""Webhooks without servers: functions answer the requests."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from unittest import mock

from pytest_kwait.simulator.admission.webhooks import webhook_client
from pytest_kwait.simulator.admission.webhooks.webhook_client import WebhookReply
from pytest_kwait.simulator.request_info import Caller

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.admission.webhooks.webhook_client import WebhookCall
    from pytest_kwait.simulator.cluster import SimulatedCluster

Obj = dict[str, Any]

GROUP = "admissionregistration.k8s.io"


def rule(*resources: str, **more: Any) -> Obj:
    rules = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"]}
    return {**rules, "resources": list(resources), **more}


def configure(
    api: SimulatedCluster, name: str = "w", *, mutating: bool = False, **webhook: Any
) -> None:
    """Create a configuration of one webhook for config maps."""
    kind = "mutating" if mutating else "validating"
    made = {
        "name": f"{name}.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": f"https://{name}.example.com/review"},
        "rules": [rule("configmaps")],
        **webhook,
    }
    obj = {"metadata": {"name": name}, "webhooks": [made]}
    api.create(f"{kind}webhookconfigurations.{GROUP}", obj)


def patch(*operations: Obj) -> Obj:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


class Webhooks:
    """Answers and records webhook requests.

    Args:
        answers: the response or the error, by the name in the webhook's URL.
    """

    def __init__(self, **answers: Callable[[Obj], Obj] | Obj | str) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Obj]] = []

    def write(self, write: Callable[[Caller], Obj], caller: Caller | None = None) -> Obj:
        """Return what `write` returns while the webhooks answer."""
        with mock.patch.object(webhook_client, "_fetch_reply", self._fetch_reply):
            return write(caller or Caller())

    async def _fetch_reply(self, call: WebhookCall) -> WebhookReply:
        return self._reply(call.url, call.version, call.request)

    def _reply(self, url: str, version: str, request: Obj) -> WebhookReply:
        name = url.removeprefix("https://").partition(".")[0]
        self.asked.append((name, json.loads(json.dumps(request))))
        answer = self.answers[name]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, str):
            return WebhookReply("u", failure=f"failed to call webhook: {answer}")
        review = {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview"}
        body = json.dumps({**review, "response": {"uid": "u", **answer}}).encode()
        return WebhookReply("u", body)

    @property
    def names(self) -> list[str]:
        """Return the called webhooks in order."""
        return [name for name, _ in self.asked]
