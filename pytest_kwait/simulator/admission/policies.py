"""MutatingAdmissionPolicy: expressions that say what becomes of what is to be stored.

Source: k8s.io/apiserver pkg/admission/plugin/policy/mutating/{dispatcher,reinvocationcontext}.go,
pkg/admission/plugin/policy/generic/policy_dispatcher.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.policy_matching import list_params, match_policy
from pytest_kwait.simulator.admission.webhooks.matching import ADMISSION_GROUP
from pytest_kwait.simulator.api_errors import StatusError, internal_error
from pytest_kwait.simulator.kind_view import to_version_without_webhook
from pytest_kwait.simulator.objects import clone, name_of, namespace_of
from pytest_kwait.simulator.request_info import Caller

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.admission.cel_expressions import Activation
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["MutatingAdmissionPolicy"]

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

    def __init__(self, api: SimulatedCluster) -> None:
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
        from pytest_kwait.simulator.admission.mutation_expressions import (
            MutationError,
            apply_mutation,
        )

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
