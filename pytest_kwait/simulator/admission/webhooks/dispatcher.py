"""MutatingAdmissionWebhook: others' servers may change what is to be stored.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/mutating/{dispatcher,reinvocationcontext}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.webhooks.matching import ADMISSION_GROUP
from pytest_kwait.simulator.api_errors import StatusError, internal_error
from pytest_kwait.simulator.kind_view import to_version
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.request_info import internal_caller

if TYPE_CHECKING:
    from pytest_kwait.simulator.admission.webhooks.matching import MatchedWebhook
    from pytest_kwait.simulator.cluster import SimulatedCluster

__all__ = ["MutatingAdmissionWebhook"]

_MUTATING_CONFIGURATIONS = f"mutatingwebhookconfigurations.{ADMISSION_GROUP}"


class MutatingAdmissionWebhook(AdmissionPlugin):
    """The plugin.

    Args:
        api: the cluster.
    """

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._configurations = api.store.present(_MUTATING_CONFIGURATIONS)

    def admit(self, attributes: Attributes) -> None:
        """Ask one after the other, each about what those before made of it.

        In the second round those are asked again that want to be and have not seen what changed
        after them.

        Raises:
            StatusError: one refuses it, or cannot be asked and must be.
            Unanswered: one is to be asked first.
        """
        if not self._configurations:
            return
        # Not at import: hardly any cluster has webhooks.
        from pytest_kwait.simulator.admission.webhooks.matching import match_webhooks
        from pytest_kwait.simulator.admission.webhooks.webhook_consultation import WebhookInvocation

        again = attributes.reinvocation
        if again.active and attributes.obj != again.seen:
            again.require()
        for hook in match_webhooks(self._api, _MUTATING_CONFIGURATIONS, attributes):
            if again.active and hook.identity not in again.wanted:
                continue
            question = WebhookInvocation(self._api, hook, attributes, mutating=True)
            WebhookInvocation.ask(attributes.caller, [question])
            verdict = question.verdict()
            if verdict is not None and verdict.patch:
                before = attributes.obj
                self._change(attributes, hook, verdict.patch)
                if attributes.obj != before:
                    again.require()
                    again.due = True
            if hook.webhook.get("reinvocationPolicy") == "IfNeeded":
                again.note(hook.identity)
        again.seen = clone(attributes.obj)

    def _change(self, attributes: Attributes, hook: MatchedWebhook, operations: list[Any]) -> None:
        if attributes.obj is None:
            raise internal_error(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not '
                "supported for this operation"
            )
        from pytest_kwait.simulator.admission.webhooks.json_patch import apply_webhook_patch

        kind = attributes.content or hook.kind
        changed = apply_webhook_patch(
            to_version(kind, attributes.obj, attributes.caller), operations
        )
        if attributes.operation == "CONNECT":
            attributes.obj = changed
            return
        try:
            stored = self._api.decode(kind, changed, internal_caller())
        except StatusError as error:
            why = error.message.partition(f" cannot be handled as a {kind.kind}: ")[2]
            raise internal_error(why or error.message) from None
        if kind.custom:
            attributes.obj = to_version(attributes.kind, stored, attributes.caller)
        else:
            attributes.obj = {**stored, "apiVersion": attributes.obj["apiVersion"]}
