"""ValidatingAdmissionPolicy: expressions that say what may not be stored.

Source: k8s.io/apiserver pkg/admission/plugin/policy/validating.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.policy_matching import list_params, match_policy
from pytest_kwait.simulator.admission.webhooks.matching import ADMISSION_GROUP
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.objects import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.admission.cel_expressions import Activation
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["ValidatingAdmissionPolicy"]

_VALIDATING_POLICIES = f"validatingadmissionpolicies.{ADMISSION_GROUP}"
_VALIDATING_BINDINGS = f"validatingadmissionpolicybindings.{ADMISSION_GROUP}"
_MAX_MESSAGE_LENGTH = 5 * 1024
_REASON_CODES = {
    "Unauthorized": 401,
    "Forbidden": 403,
    "RequestEntityTooLarge": 413,
    "Invalid": 422,
}


@dataclass(frozen=True, slots=True)
class _Denial:
    """What one binding of a policy has against a request."""

    reason: str
    text: str
    always: bool = False
    """Whether the request is refused whatever the binding says is to be done."""


class ValidatingAdmissionPolicy(AdmissionPlugin):
    """The plugin.

    Args:
        api: the cluster.
    """

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._bindings = api.store.present(_VALIDATING_BINDINGS)

    def validate(self, attributes: Attributes) -> None:
        """Hold the request to all policies that are bound to it; the first denial counts.

        Raises:
            StatusError: one denies it.
        """
        if not self._bindings or attributes.kind.group == ADMISSION_GROUP:
            return
        refusal: StatusError | None = None
        policies = {name_of(policy): policy for policy in self._api.list(_VALIDATING_POLICIES)}
        for binding in self._api.list(_VALIDATING_BINDINGS):
            policy = policies.get(binding["spec"].get("policyName", ""))
            if policy is None:
                continue
            said = (
                f"ValidatingAdmissionPolicy '{name_of(policy)}' with binding '{name_of(binding)}'"
            )
            for denial in self._denials(policy["spec"], binding["spec"], attributes):
                actions = binding["spec"].get("validationActions") or ()
                if "Warn" in actions and not denial.always:
                    attributes.caller.warn(f"Validation failed for {said}: {denial.text}")
                if ("Deny" in actions or denial.always) and refusal is None:
                    refusal = _denial_error(
                        attributes, denial, f"{said} denied request: {denial.text}"
                    )
        if refusal is not None:
            raise refusal

    def _denials(self, policy: Obj, binding: Obj, attributes: Attributes) -> Iterator[_Denial]:
        kind = match_policy(self._api, policy, binding, attributes)
        if kind is None:
            return
        found = list_params(self._api, policy, binding, attributes)
        if isinstance(found, str):
            if policy.get("failurePolicy", "Fail") == "Fail":
                yield _Denial("Invalid", found)
            return
        # Not at import: the expressions' library is loaded where one is met.
        from pytest_kwait.simulator.admission.cel_expressions import Activation

        variables = {one["name"]: one["expression"] for one in policy.get("variables") or ()}
        for params in found:
            situation = Activation(self._api, attributes, kind, variables, params)
            unmet, failure = situation.evaluate_conditions(policy.get("matchConditions") or [])
            if unmet:
                continue
            if failure:
                if policy.get("failurePolicy", "Fail") == "Fail":
                    yield _Denial("Invalid", failure)
                continue
            yield from _failed_validations(policy, situation)
            yield from _audit_annotation_errors(policy, situation)


def _failed_validations(policy: Obj, situation: Activation) -> list[_Denial]:
    """The validations that do not hold.

    What is to be said is found out for all of them, and none holds where that costs too much.

    Source: apiserver/pkg/admission/plugin/policy/validating/validator.go, `Validate`.
    """
    from pytest_kwait.simulator.cel.expressions import CostBudgetExceededError, EvaluationError

    must = policy.get("failurePolicy", "Fail") == "Fail"
    validations: list[Obj] = policy.get("validations") or []
    outcomes: list[bool | str] = []
    try:
        for validation in validations:
            text: str = validation["expression"]
            try:
                outcomes.append(situation.evaluate(text) is True)
            except EvaluationError as error:
                outcomes.append(f"expression '{text}' resulted in error: {error}")
    except CostBudgetExceededError as error:
        return [_Denial("Invalid", str(error))] if must else []
    over = ""
    messages: list[str] = []
    try:
        situation.reset_variables()
        messages = [_validation_message(validation, situation) for validation in validations]
    except CostBudgetExceededError as error:
        over = f"failed messageExpression: {error}"
    found: list[_Denial] = []
    for place, outcome in enumerate(outcomes):
        failure = outcome if isinstance(outcome, str) else over
        if failure and must:
            found.append(_Denial("Invalid", failure))
        elif not failure and not outcome:
            reason = validations[place].get("reason") or "Invalid"
            found.append(_Denial(reason, messages[place]))
    return found


def _validation_message(validation: Obj, situation: Activation) -> str:
    """What is said of a validation where it does not hold.

    Raises:
        OverBudgetError: there is too little left to evaluate it.
    """
    from pytest_kwait.simulator.cel.expressions import EvaluationError

    said: object = ""
    if validation.get("messageExpression"):
        try:
            said = situation.evaluate(validation["messageExpression"])
        except EvaluationError:
            said = ""
    text = said.strip() if isinstance(said, str) else ""
    if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE_LENGTH:
        return text
    plain: str = validation.get("message", "").strip()
    return plain or f"failed expression: {validation['expression'].strip()}"


def _audit_annotation_errors(policy: Obj, situation: Activation) -> Iterator[_Denial]:
    """What cannot be noted for audits; what can goes nowhere, as there are no audit logs."""
    from pytest_kwait.simulator.cel.expressions import (
        RUNTIME_COST_BUDGET,
        Budget,
        CostBudgetExceededError,
        EvaluationError,
    )

    situation.reset_variables(Budget(RUNTIME_COST_BUDGET))
    for note in policy.get("auditAnnotations") or ():
        text: str = note["valueExpression"].strip()
        try:
            situation.evaluate(text)
        except EvaluationError as error:
            if policy.get("failurePolicy", "Fail") == "Fail":
                why = f"expression '{text}' resulted in error: {error}"
                yield _Denial("Invalid", why, always=True)
        except CostBudgetExceededError as error:
            if policy.get("failurePolicy", "Fail") == "Fail":
                yield _Denial("Invalid", str(error))
            return


def _denial_error(attributes: Attributes, denial: _Denial, text: str) -> StatusError:
    forbidden = attributes.forbidden(text)
    details = {**(forbidden.details or {}), "causes": [{"message": text}]}
    code = _REASON_CODES.get(denial.reason, 422)
    return StatusError(code, denial.reason, forbidden.message, details)
