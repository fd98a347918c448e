"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: policies written in CEL.

Bindings and parameters select the policies of a request. `cel_expressions` is loaded with the
first policy.

Source: k8s.io/apiserver pkg/admission/plugin/policy/{generic,matching,validating,mutating}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.webhooks.matching import ADMISSION_GROUP, match_kind
from pytest_kwait.simulator.api_errors import StatusError, internal_error
from pytest_kwait.simulator.conversion import to_version_without_webhook
from pytest_kwait.simulator.objects import clone, labels_of, name_of, namespace_of
from pytest_kwait.simulator.request_info import Caller
from pytest_kwait.simulator.selectors import matches_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.admission.cel_expressions import Activation
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["MutatingAdmissionPolicy", "ValidatingAdmissionPolicy", "list_params", "match_policy"]

_NO_PARAMS = (
    "failed to configure binding: no params found for policy binding with `Deny` "
    "parameterNotFoundAction"
)
_ALL_RESOURCES = {
    "operations": ["*"],
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "resources": ["*/*"],
}


def match_policy(api: Cluster, policy: Obj, binding: Obj, attributes: Attributes) -> Kind | None:
    """The version of the kind that a bound policy looks at, None where it does not look.

    Args:
        api: the cluster.
        policy: the policy's spec.
        binding: the binding's spec.
        attributes: the request.
    """
    kind = _match_resources(api, policy.get("matchConstraints") or {}, attributes)
    limits: Obj | None = binding.get("matchResources")
    if kind is None or limits is None:
        return kind
    rules = limits.get("resourceRules") or [_ALL_RESOURCES]
    within = _match_resources(api, {**limits, "resourceRules": rules}, attributes)
    return kind if within is not None else None


def _match_resources(api: Cluster, constraints: Obj, attributes: Attributes) -> Kind | None:
    excluded = constraints.get("excludeResourceRules") or []
    for rule in excluded:
        named = rule.get("resourceNames") or []
        if (not named or attributes.name in named) and match_kind(
            api, {"rules": [rule]}, attributes
        ):
            return None
    rules = [
        rule
        for rule in constraints.get("resourceRules") or ()
        if not rule.get("resourceNames") or attributes.name in rule["resourceNames"]
    ]
    return match_kind(api, {**constraints, "rules": rules}, attributes)


def list_params(
    api: Cluster, policy: Obj, binding: Obj, attributes: Attributes
) -> list[Obj | None] | str:
    """The parameters that a policy is held with, one after the other; a text says why not."""
    wanted, reference = policy.get("paramKind"), binding.get("paramRef")
    if wanted is None or reference is None:
        return [None]
    kind = api.kinds.of_kind(wanted["apiVersion"], wanted["kind"])
    if kind is None:
        return (
            f"failed to configure policy: failed to find resource referenced by paramKind: "
            f"'{wanted['apiVersion']}, Kind={wanted['kind']}'"
        )
    namespace = reference.get("namespace") or (attributes.namespace if kind.namespaced else "")
    found: list[Obj | None] = []
    for obj in api.list(kind.qualified, namespace or None):
        named = reference.get("name")
        if (
            name_of(obj) == named
            if named
            else matches_selector(reference.get("selector") or {}, labels_of(obj))
        ):
            found.append(obj)
    if found:
        return found
    if reference.get("parameterNotFoundAction") == "Allow":
        return []
    return _NO_PARAMS


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

    def __init__(self, api: Cluster) -> None:
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


_MUTATING_POLICIES = f"mutatingadmissionpolicies.{ADMISSION_GROUP}"
_MUTATING_BINDINGS = f"mutatingadmissionpolicybindings.{ADMISSION_GROUP}"


@dataclass(frozen=True, slots=True)
class _Invocation:
    """One policy by one binding with one object of parameters."""

    policy: Obj
    binding: Obj
    kind: Kind
    params: Obj | None

    @property
    def identity(self) -> str:
        """What tells it from all others."""
        params = self.params or {"metadata": {}}
        parts = (name_of(self.policy), name_of(self.binding))
        return "/".join((*parts, namespace_of(params), params["metadata"].get("name", "")))

    @property
    def said(self) -> str:
        """How its refusals begin."""
        policy, binding = name_of(self.policy), name_of(self.binding)
        return f"policy '{policy}' with binding '{binding}' denied request: "


class MutatingAdmissionPolicy(AdmissionPlugin):
    """The plugin.

    Args:
        api: the cluster.
    """

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._bindings = api.store.present(_MUTATING_BINDINGS)

    def admit(self, attributes: Attributes) -> None:
        """Let all policies that are bound to the request change it, in the order of their names.

        In the second round those look again that want to and have not seen what changed after
        them.

        Raises:
            StatusError: 403, one cannot do its work and may not be left out.
        """
        if not self._bindings or attributes.kind.group == ADMISSION_GROUP:
            return
        failures: list[tuple[str, str]] = []
        invocations = [*self._invocations(attributes, failures)]
        if invocations:
            self._invoke_all(invocations, attributes, failures)
        if failures:
            raise _mutation_error(attributes, failures)

    def _invocations(
        self, attributes: Attributes, failures: list[tuple[str, str]]
    ) -> Iterator[_Invocation]:
        bindings = self._api.list(_MUTATING_BINDINGS)
        for policy in self._api.list(_MUTATING_POLICIES):
            for binding in bindings:
                spec, limits = policy["spec"], binding["spec"]
                if limits.get("policyName") != name_of(policy):
                    continue
                kind = match_policy(self._api, spec, limits, attributes)
                if kind is None:
                    continue
                found = list_params(self._api, spec, limits, attributes)
                if isinstance(found, str):
                    if _is_failure_fatal(policy):
                        said = _Invocation(policy, binding, kind, None).said
                        failures.append((said + found, "Forbidden"))
                    continue
                for params in found:
                    yield _Invocation(policy, binding, kind, params)

    def _invoke_all(
        self,
        invocations: list[_Invocation],
        attributes: Attributes,
        failures: list[tuple[str, str]],
    ) -> None:
        rounds, again = attributes.reinvocation, attributes.policy_reinvocation
        if rounds.active and attributes.obj != again.seen:
            again.require()
        done = 0
        for invocation in invocations:
            before = attributes.obj
            made = self._invoke(invocation, attributes, failures)
            if made is None:
                continue
            done += made
            if attributes.obj != before:
                again.require()
            if invocation.policy["spec"].get("reinvocationPolicy") == "IfNeeded":
                again.note(invocation.identity)
        if done:
            # Those count as well that changed something themselves.
            again.require()
            rounds.due = True
        again.seen = clone(attributes.obj)

    def _invoke(
        self,
        invocation: _Invocation,
        attributes: Attributes,
        failures: list[tuple[str, str]],
    ) -> int | None:
        """Change the request's object; how many mutations were done, None if none was meant."""
        # Not at import: the expressions' library is loaded where one is met.
        from pytest_kwait.simulator.admission.cel_expressions import MutationError, apply_mutation

        spec = invocation.policy["spec"]
        must = _is_failure_fatal(invocation.policy)
        unmet, failure = self._situation(invocation, attributes).evaluate_conditions(
            spec.get("matchConditions") or []
        )
        if failure and must:
            failures.append((invocation.said + failure, "Invalid"))
        if unmet or failure:
            return None
        again = attributes.policy_reinvocation
        if attributes.reinvocation.active and invocation.identity not in again.wanted:
            return None
        kind, done = attributes.content or invocation.kind, 0
        for mutation in spec.get("mutations") or ():
            if attributes.obj is None:
                break
            shown = to_version_without_webhook(kind, attributes.obj)
            situation = self._situation(invocation, attributes)
            try:
                made = apply_mutation(mutation, situation, kind, shown)
            except MutationError as error:
                if must:
                    failures.append((f"{invocation.said}{error}", "Invalid"))
                continue
            done += 1
            if made != shown:
                self._take(attributes, kind, made)
        return done

    def _situation(self, invocation: _Invocation, attributes: Attributes) -> Activation:
        from pytest_kwait.simulator.admission.cel_expressions import Activation

        variables = invocation.policy["spec"].get("variables") or ()
        expressions = {one["name"]: one["expression"] for one in variables}
        return Activation(self._api, attributes, invocation.kind, expressions, invocation.params)

    def _take(self, attributes: Attributes, kind: Kind, made: Obj) -> None:
        """Let the request be about what was made of its object.

        Raises:
            StatusError: 500, it is no object of its kind.
        """
        if attributes.obj is None or attributes.operation == "CONNECT":
            attributes.obj = made
            return
        try:
            stored = self._api.decode(kind, made, Caller(field_validation="Strict"))
        except StatusError as error:
            why = error.message.partition(f" handled as a {kind.kind}: ")[2]
            raise internal_error(why or error.message) from None
        attributes.obj = {**stored, "apiVersion": attributes.obj["apiVersion"]}


def _is_failure_fatal(policy: Obj) -> bool:
    return bool(policy["spec"].get("failurePolicy", "Fail") == "Fail")


def _mutation_error(attributes: Attributes, failures: list[tuple[str, str]]) -> StatusError:
    forbidden = attributes.forbidden("")
    causes = [{"message": text} for text, _ in failures]
    text, reason = failures[0]
    return StatusError(403, reason, text, {**(forbidden.details or {}), "causes": causes})
