"""ValidatingAdmissionWebhook: others' servers may refuse what is to be stored.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/validating/dispatcher.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.webhooks.matching import ADMISSION_GROUP

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

__all__ = ["ValidatingAdmissionWebhook"]

_VALIDATING_CONFIGURATIONS = f"validatingwebhookconfigurations.{ADMISSION_GROUP}"


class ValidatingAdmissionWebhook(AdmissionPlugin):
    """The plugin.

    Args:
        api: the cluster.
    """

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._configurations = api.store.present(_VALIDATING_CONFIGURATIONS)

    def validate(self, attributes: Attributes) -> None:
        """Ask all that want to see the request, side by side; the first refusal counts.

        Raises:
            StatusError: one refuses it, or cannot be asked and must be.
            Unanswered: they are to be asked first.
        """
        if not self._configurations:
            return
        # Not at import: hardly any cluster has webhooks.
        from pytest_kwait.simulator.admission.webhooks.matching import match_webhooks
        from pytest_kwait.simulator.admission.webhooks.webhook_consultation import WebhookInvocation

        questions = [
            WebhookInvocation(self._api, hook, attributes, mutating=False)
            for hook in match_webhooks(self._api, _VALIDATING_CONFIGURATIONS, attributes)
        ]
        WebhookInvocation.ask(attributes.caller, questions)
        for question in questions:
            question.verdict()
