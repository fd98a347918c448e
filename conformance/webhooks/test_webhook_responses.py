"""Effects of webhook responses on requests of clients and controllers."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from e2e.cluster.webhook_server import Server, serving, webhook
from e2e.objects import deployment
from e2e.raising import raises
from pytest_kwait import WaitFailed
from tools.raw_api import RawClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait


ASKED = 'failed calling webhook "sunday.example.com": '


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


MUTATING: dict[str, dict[str, Any]] = {
    "add": patch({"op": "add", "path": "/data/more", "value": "yes"}),
    "missing": patch({"op": "add", "path": "/x/y", "value": "z"}),
    "type": patch({"op": "add", "path": "/data/more", "value": 5}),
    "untyped": {"allowed": True, "patch": base64.b64encode(b"[]").decode()},
}
REFUSED = {
    "missing": 'add operation does not apply: doc is missing path: "/x/y": missing value',
    "type": "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    "untyped": f"{ASKED}received invalid webhook response: webhook returned response.patch but not "
    "response.patchType",
}
VALIDATING: dict[str, dict[str, Any]] = {
    "no": {"allowed": False},
    "code": {"allowed": False, "status": {"code": 422, "reason": "Invalid", "message": "odd"}},
    "other": {"allowed": True, "uid": "mine"},
}
DENIED = {
    "no": (400, 'admission webhook "sunday.example.com" denied the request without explanation'),
    "code": (422, 'admission webhook "sunday.example.com" denied the request: odd'),
}


def answer(answers: dict[str, dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Respond as the object's data specifies."""

    def respond(request: dict[str, Any]) -> dict[str, Any]:
        said = (request["object"].get("data") or {}).get("say", "")
        return answers.get(said, {"allowed": False, "status": {"message": "not on a Sunday"}})

    return respond


class Speaker:
    """Creates config maps that specify a response; refusals are not retried."""

    def __init__(self, kwait: Kwait) -> None:
        self._endpoint = RawClient(kwait.cluster.kubeconfig)
        self._path = f"/api/v1/namespaces/{kwait.namespace}/configmaps"

    def say(self, said: str) -> tuple[int, Any]:
        """Return status and body."""
        made = {"metadata": {"name": said}, "data": {"say": said}}
        answer = self._endpoint.request("POST", self._path, made)
        return answer.status, answer.body


def test_webhook_patches(kwait: Kwait) -> None:
    """Invalid patches are refused with a reason."""
    with serving(Server(answer(MUTATING))) as server:
        kwait.create(webhook(server, kwait.namespace, mutating=True, failure_policy="Fail"))
        name = f"mutatingwebhookconfiguration/{kwait.namespace}"
        kwait.wait_for_webhook_ready(name, denial="not on a Sunday", timeout="4m")
        speaker = Speaker(kwait)

        status, made = speaker.say("add")
        assert (status, made["data"]) == (201, {"more": "yes", "say": "add"})
        for said, why in REFUSED.items():
            status, refusal = speaker.say(said)
            assert (status, refusal["reason"]) == (500, "InternalError")
            assert refusal["message"] == f"Internal error occurred: {why}"


def test_webhook_denials(kwait: Kwait) -> None:
    """A refusal has the webhook's own code, and never less than 400."""
    with serving(Server(answer(VALIDATING))) as server:
        kwait.create(webhook(server, kwait.namespace, failure_policy="Fail"))
        name = f"validatingwebhookconfiguration/{kwait.namespace}"
        kwait.wait_for_webhook_ready(name, denial="not on a Sunday", timeout="4m")
        speaker = Speaker(kwait)

        for said, (code, why) in DENIED.items():
            status, refusal = speaker.say(said)
            assert (status, refusal["message"]) == (code, why)
        status, refusal = speaker.say("other")
        assert status == 500
        assert re.search('expected response.uid="[-0-9a-f]{36}", got "mine"$', refusal["message"])


def test_pods_denied_by_a_webhook(kwait: Kwait) -> None:
    """The controller reports the refusal in an event, and continues without it."""
    with serving(Server(answer({}))) as server:
        kwait.create(webhook(server, kwait.namespace, plural="pods"))
        name = f"validatingwebhookconfiguration/{kwait.namespace}"
        kwait.wait_for_webhook_ready(name, denial="not on a Sunday", timeout="4m")
        kwait.create(deployment("web"))

        refusal = 'FailedCreate: admission webhook "sunday.example.com" denied .*: not on a Sunday'
        with raises(WaitFailed, f"replicaset web-.*: {refusal}"):
            kwait.wait_for_deployment_complete("web", timeout="4m", grace="500ms")

        kwait.delete(name)
        kwait.wait_for("deployment/web", "condition=Available", timeout="4m", fail_fast=False)
