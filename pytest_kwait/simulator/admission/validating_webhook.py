"""ValidatingAdmissionWebhook: others' servers may refuse what is to be stored.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/validating/dispatcher.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import Attributes, Plugin
from pytest_kwait.simulator.admission.webhook_rules import GROUP

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_api import ClusterApi

__all__ = ["ValidatingWebhook"]

_CONFIGURATIONS = f"validatingwebhookconfigurations.{GROUP}"


class ValidatingWebhook(Plugin):
    """The plugin.

    Args:
        api: the cluster.
    """

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._configurations = api.store.present(_CONFIGURATIONS)

    def validate(self, attributes: Attributes) -> None:
        """Ask all that want to see the request, side by side; the first refusal counts.

        Raises:
            StatusError: one refuses it, or cannot be asked and must be.
            Unanswered: they are to be asked first.
        """
        if not self._configurations:
            return
        # Not at import: hardly any cluster has webhooks.
        from pytest_kwait.simulator.admission.webhook_consultation import Question
        from pytest_kwait.simulator.admission.webhook_rules import hooks_for

        questions = [
            Question(self._api, hook, attributes, mutating=False)
            for hook in hooks_for(self._api, _CONFIGURATIONS, attributes)
        ]
        Question.ask(attributes.caller, questions)
        for question in questions:
            question.verdict()
