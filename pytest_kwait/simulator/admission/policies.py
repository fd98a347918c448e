"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: policies written in CEL.

Bindings and parameters select the policies of a request. `cel_expressions` is loaded with the
first policy.

Source: k8s.io/apiserver pkg/admission/plugin/policy/{generic,matching,validating,mutating}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.selectors import matches_label_selector
from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.webhooks.matching import ADMISSION_GROUP, match_kind
from pytest_kwait.simulator.api_errors import StatusError, internal_error
from pytest_kwait.simulator.conversion import to_version_without_webhook
from pytest_kwait.simulator.objects import clone, labels_of, name_of, namespace_of
from pytest_kwait.simulator.request_info import Caller
from pytest_kwait.simulator.suspendable import beside_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.admission.cel_expressions import Activation
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

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
_MAX_MESSAGE_LENGTH = 5 * 1024
_REASON_CODES = {
    "Unauthorized": 401,
    "Forbidden": 403,
    "RequestEntityTooLarge": 413,
    "Invalid": 422,
}


def match_policy(
    cluster: Cluster, policy: Obj, binding: Obj, attributes: Attributes
) -> Kind | None:
    """Return the version of the kind that a bound policy matches; None if it does not match.

    Args:
        policy: the policy's spec.
        binding: the binding's spec.
    """
    kind = _match_resources(cluster, policy.get("matchConstraints") or {}, attributes)
    limits: Obj | None = binding.get("matchResources")
    if kind is None or limits is None:
        return kind
    rules = limits.get("resourceRules") or [_ALL_RESOURCES]
    within = _match_resources(cluster, {**limits, "resourceRules": rules}, attributes)
    return kind if within is not None else None


def _match_resources(cluster: Cluster, constraints: Obj, attributes: Attributes) -> Kind | None:
    excluded = constraints.get("excludeResourceRules") or []
    for rule in excluded:
        named = rule.get("resourceNames") or []
        if (not named or attributes.name in named) and match_kind(
            cluster, {"rules": [rule]}, attributes
        ):
            return None
    rules = [
        rule
        for rule in constraints.get("resourceRules") or ()
        if not rule.get("resourceNames") or attributes.name in rule["resourceNames"]
    ]
    return match_kind(cluster, {**constraints, "rules": rules}, attributes)


def list_params(
    cluster: Cluster, policy: Obj, binding: Obj, attributes: Attributes
) -> list[Obj | None] | str:
    """Return the parameter objects of a bound policy, or the error."""
    param_kind, reference = policy.get("paramKind"), binding.get("paramRef")
    if param_kind is None or reference is None:
        return [None]
    kind = cluster.kinds.of_kind(param_kind["apiVersion"], param_kind["kind"])
    if kind is None:
        return (
            f"failed to configure policy: failed to find resource referenced by paramKind: "
            f"'{param_kind['apiVersion']}, Kind={param_kind['kind']}'"
        )
    namespace = reference.get("namespace") or (attributes.namespace if kind.namespaced else "")
    params: list[Obj | None] = []
    for obj in cluster.list(kind.qualified, namespace or None):
        named = reference.get("name")
        if (
            name_of(obj) == named
            if named
            else matches_label_selector(reference.get("selector") or {}, labels_of(obj))
        ):
            params.append(obj)
    if params:
        return params
    if reference.get("parameterNotFoundAction") == "Allow":
        return []
    return _NO_PARAMS


@dataclass(frozen=True, slots=True)
class _Invocation:
    """A policy to evaluate for a request, by one binding and one parameter object.

    Args:
        kind: the version in which the policy sees the object.
        params: the parameter object.
        error: the reason why parameters are missing; empty when they are not.
    """

    policy: Obj
    binding: Obj
    kind: Kind
    params: Obj | None = None
    error: str = ""

    @property
    def identity(self) -> str:
        """The names of policy, binding and parameters."""
        params = self.params or {"metadata": {}}
        parts = (name_of(self.policy), name_of(self.binding))
        return "/".join((*parts, namespace_of(params), params["metadata"].get("name", "")))

    @property
    def title(self) -> str:
        """The policy and the binding, as messages name them."""
        return f"'{name_of(self.policy)}' with binding '{name_of(self.binding)}'"

    @property
    def is_failure_fatal(self) -> bool:
        """Return whether the request fails when the policy cannot be evaluated."""
        return _is_failure_fatal(self.policy["spec"])

    def activation(self, cluster: Cluster, attributes: Attributes) -> Activation:
        """The variables of the policy's expressions."""
        # The CEL library is loaded with the first policy.
        from pytest_kwait.simulator.admission.cel_expressions import Activation

        variables = self.policy["spec"].get("variables") or ()
        expressions = {variable["name"]: variable["expression"] for variable in variables}
        return Activation(cluster, attributes, self.kind, expressions, self.params)


def _is_failure_fatal(spec: Obj) -> bool:
    return bool(spec.get("failurePolicy", "Fail") == "Fail")


class _PolicyPlugin(AdmissionPlugin):
    """A plugin that evaluates the policies bound to a request.

    Source: k8s.io/apiserver pkg/admission/plugin/policy/generic/policy_dispatcher.go.
    """

    _policy_resource: str
    _binding_resource: str

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._bindings = cluster.store.present(self._binding_resource)

    @property
    def is_used(self) -> bool:
        """Whether a policy is bound."""
        return bool(self._bindings)

    def _invocations(self, attributes: Attributes) -> Iterator[_Invocation]:
        """Match policies, bindings and parameters with a request."""
        if not self._bindings or attributes.kind.group == ADMISSION_GROUP:
            return
        bindings = self._cluster.list(self._binding_resource)
        for policy in self._cluster.list(self._policy_resource):
            for binding in bindings:
                spec, limits = policy["spec"], binding["spec"]
                if limits.get("policyName") != name_of(policy):
                    continue
                kind = match_policy(self._cluster, spec, limits, attributes)
                if kind is None:
                    continue
                params_or_error = list_params(self._cluster, spec, limits, attributes)
                if not isinstance(params_or_error, str):
                    yield from (
                        _Invocation(policy, binding, kind, params) for params in params_or_error
                    )
                elif _is_failure_fatal(spec):
                    yield _Invocation(policy, binding, kind, error=params_or_error)


@dataclass(frozen=True, slots=True)
class _Denial:
    """A denial by one binding of a policy."""

    reason: str
    text: str
    always: bool = False
    """True to deny regardless of the binding's actions."""


class ValidatingAdmissionPolicy(_PolicyPlugin):
    """The ValidatingAdmissionPolicy plugin."""

    _policy_resource = f"validatingadmissionpolicies.{ADMISSION_GROUP}"
    _binding_resource = f"validatingadmissionpolicybindings.{ADMISSION_GROUP}"

    def validate(self, attributes: Attributes) -> None:
        """Evaluate all bound policies; the first denial counts.

        Raises:
            StatusError: a policy denies the request.
        """
        refusal: StatusError | None = None
        for invocation in [*self._invocations(attributes)]:
            title = f"ValidatingAdmissionPolicy {invocation.title}"
            actions = invocation.binding["spec"].get("validationActions") or ()
            with beside_loop():
                denials = [*self._denials(invocation, attributes)]
            for denial in denials:
                if "Warn" in actions and not denial.always:
                    attributes.caller.warn(f"Validation failed for {title}: {denial.text}")
                if ("Deny" in actions or denial.always) and refusal is None:
                    text = f"{title} denied request: {denial.text}"
                    refusal = _denial_error(attributes, denial, text)
        if refusal is not None:
            raise refusal

    def _denials(self, invocation: _Invocation, attributes: Attributes) -> Iterator[_Denial]:
        if invocation.error:
            yield _Denial("Invalid", invocation.error)
            return
        policy = invocation.policy["spec"]
        activation = invocation.activation(self._cluster, attributes)
        unmet, failure = activation.evaluate_conditions(policy.get("matchConditions") or [])
        if failure and not unmet and invocation.is_failure_fatal:
            yield _Denial("Invalid", failure)
        if not failure and not unmet:
            yield from _failed_validations(policy, activation)
            yield from _audit_annotation_errors(policy, activation)


def _failed_validations(policy: Obj, activation: Activation) -> list[_Denial]:
    """Return the denials of failed validations.

    Messages of all validations are evaluated first; exceeding the budget fails them all.

    Source: apiserver/pkg/admission/plugin/policy/validating/validator.go, `Validate`.
    """
    from pytest_kwait.simulator.cel.expressions import CostBudgetExceededError, EvaluationError

    must = _is_failure_fatal(policy)
    validations: list[Obj] = policy.get("validations") or []
    outcomes: list[bool | str] = []
    try:
        for validation in validations:
            text: str = validation["expression"]
            try:
                outcomes.append(activation.evaluate(text) is True)
            except EvaluationError as error:
                outcomes.append(f"expression '{text}' resulted in error: {error}")
    except CostBudgetExceededError as error:
        return [_Denial("Invalid", str(error))] if must else []
    over = ""
    messages: list[str] = []
    try:
        activation.reset_variables()
        messages = [_validation_message(validation, activation) for validation in validations]
    except CostBudgetExceededError as error:
        over = f"failed messageExpression: {error}"
    denials: list[_Denial] = []
    for place, outcome in enumerate(outcomes):
        failure = outcome if isinstance(outcome, str) else over
        if failure and must:
            denials.append(_Denial("Invalid", failure))
        elif not failure and not outcome:
            reason = validations[place].get("reason") or "Invalid"
            denials.append(_Denial(reason, messages[place]))
    return denials


def _validation_message(validation: Obj, activation: Activation) -> str:
    """Return the message of a failed validation.

    Raises:
        CostBudgetExceededError: the budget is exceeded.
    """
    from pytest_kwait.simulator.cel.expressions import EvaluationError

    value: object = ""
    if validation.get("messageExpression"):
        try:
            value = activation.evaluate(validation["messageExpression"])
        except EvaluationError:
            value = ""
    text = value.strip() if isinstance(value, str) else ""
    if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE_LENGTH:
        return text
    plain: str = validation.get("message", "").strip()
    return plain or f"failed expression: {validation['expression'].strip()}"


def _audit_annotation_errors(policy: Obj, activation: Activation) -> Iterator[_Denial]:
    """Return the errors of audit annotations; there is no audit log for their values."""
    from pytest_kwait.simulator.cel.expressions import (
        RUNTIME_COST_BUDGET,
        CostBudget,
        CostBudgetExceededError,
        EvaluationError,
    )

    activation.reset_variables(CostBudget(RUNTIME_COST_BUDGET))
    for note in policy.get("auditAnnotations") or ():
        text: str = note["valueExpression"].strip()
        try:
            activation.evaluate(text)
        except EvaluationError as error:
            if _is_failure_fatal(policy):
                why = f"expression '{text}' resulted in error: {error}"
                yield _Denial("Invalid", why, always=True)
        except CostBudgetExceededError as error:
            if _is_failure_fatal(policy):
                yield _Denial("Invalid", str(error))
            return


def _denial_error(attributes: Attributes, denial: _Denial, text: str) -> StatusError:
    forbidden = attributes.forbidden(text)
    details = {**(forbidden.details or {}), "causes": [{"message": text}]}
    code = _REASON_CODES.get(denial.reason, 422)
    return StatusError(code, denial.reason, forbidden.message, details)


class MutatingAdmissionPolicy(_PolicyPlugin):
    """The MutatingAdmissionPolicy plugin."""

    _policy_resource = f"mutatingadmissionpolicies.{ADMISSION_GROUP}"
    _binding_resource = f"mutatingadmissionpolicybindings.{ADMISSION_GROUP}"

    def admit(self, attributes: Attributes) -> None:
        """Apply the mutations of all bound policies, in the order of their names.

        The second round invokes the policies that allow reinvocation and ran before the last
        change.

        Raises:
            StatusError: 403, a policy fails and its failure policy is `Fail`.
        """
        invocations = [*self._invocations(attributes)]
        failures = [
            (f"{_denied(invocation)}{invocation.error}", "Forbidden")
            for invocation in invocations
            if invocation.error
        ]
        invocations = [invocation for invocation in invocations if not invocation.error]
        if invocations:
            self._invoke_all(invocations, attributes, failures)
        if failures:
            raise _mutation_error(attributes, failures)

    def _invoke_all(
        self,
        invocations: list[_Invocation],
        attributes: Attributes,
        failures: list[tuple[str, str]],
    ) -> None:
        rounds, again = attributes.reinvocation, attributes.policy_reinvocation
        if rounds.active and attributes.obj != again.seen:
            again.require_reinvocation()
        done = 0
        for invocation in invocations:
            before = attributes.obj
            result = self._invoke(invocation, attributes, failures)
            if result is None:
                continue
            done += result
            if attributes.obj != before:
                again.require_reinvocation()
            if invocation.policy["spec"].get("reinvocationPolicy") == "IfNeeded":
                again.record_invoked(invocation.identity)
        if done:
            # Including the policies that result the change.
            again.require_reinvocation()
            rounds.due = True
        again.seen = clone(attributes.obj)

    def _invoke(
        self,
        invocation: _Invocation,
        attributes: Attributes,
        failures: list[tuple[str, str]],
    ) -> int | None:
        """Apply a policy's mutations; return their number, or None if it does not match."""
        # The CEL library is loaded with the first policy.
        from pytest_kwait.simulator.admission.cel_expressions import MutationError, apply_mutation

        spec = invocation.policy["spec"]
        must = invocation.is_failure_fatal
        activation = invocation.activation(self._cluster, attributes)
        with beside_loop():
            unmet, failure = activation.evaluate_conditions(spec.get("matchConditions") or [])
        if failure and must:
            failures.append((_denied(invocation) + failure, "Invalid"))
        if unmet or failure:
            return None
        again = attributes.policy_reinvocation
        if attributes.reinvocation.active and invocation.identity not in again.wanted:
            return None
        kind, done = attributes.subresource_kind or invocation.kind, 0
        for mutation in spec.get("mutations") or ():
            if attributes.obj is None:
                break
            obj = to_version_without_webhook(kind, attributes.obj)
            activation = invocation.activation(self._cluster, attributes)
            try:
                with beside_loop():
                    result = apply_mutation(mutation, activation, kind, obj)
            except MutationError as error:
                if must:
                    failures.append((f"{_denied(invocation)}{error}", "Invalid"))
                continue
            done += 1
            if result != obj:
                self._replace_object(attributes, kind, result)
        return done

    def _replace_object(self, attributes: Attributes, kind: Kind, result: Obj) -> None:
        """Replace the request's object.

        Raises:
            StatusError: 500, the new object is invalid.
        """
        if attributes.obj is None or attributes.operation == "CONNECT":
            attributes.obj = result
            return
        try:
            stored = self._cluster.decode(kind, result, Caller(field_validation="Strict"))
        except StatusError as error:
            why = error.message.partition(f" handled as a {kind.kind}: ")[2]
            raise internal_error(why or error.message) from None
        attributes.obj = {**stored, "apiVersion": attributes.obj["apiVersion"]}


def _denied(invocation: _Invocation) -> str:
    return f"policy {invocation.title} denied request: "


def _mutation_error(attributes: Attributes, failures: list[tuple[str, str]]) -> StatusError:
    forbidden = attributes.forbidden("")
    causes = [{"message": text} for text, _ in failures]
    text, reason = failures[0]
    return StatusError(403, reason, text, {**(forbidden.details or {}), "causes": causes})
