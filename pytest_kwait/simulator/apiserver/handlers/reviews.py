"""Reviews of tokens, access, rules and users, answered on their creation.

Source: k8s.io/kubernetes pkg/registry/authentication, pkg/registry/authorization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import aggregate_errors
from pytest_kwait.simulator.api_errors import StatusError, bad_request, internal_error, invalid
from pytest_kwait.simulator.managedfields.field_manager import record_update
from pytest_kwait.simulator.request_info import AuthorizationAttributes, User
from pytest_kwait.simulator.selectors import parse_labels
from pytest_kwait.simulator.validation.authorization import (
    AUTHORIZATION_GROUP,
    NON_RESOURCE_ATTRIBUTES,
    RESOURCE_ATTRIBUTES,
    validate_access_review,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.filters import AuthFilters
    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind


class ReviewHandler:
    """Answers the reviews that clients create.

    Args:
        gate: the authentication of tokens.
    """

    def __init__(self, cluster: ApiServerCluster, gate: AuthFilters) -> None:
        self._cluster = cluster
        self._gate = gate

    def review(self, request: ApiRequest, kind: Kind, body: Obj, namespace: str) -> Obj:
        """Return the review with its status.

        Raises:
            StatusError: 400 or 422, the review is invalid.
        """
        caller, cluster = request.caller, self._cluster
        review = cluster.decode(kind, body, caller)
        review.pop("status", None)
        user = caller.identity
        if kind.plural == "selfsubjectreviews":
            review["metadata"] = {"creationTimestamp": cluster.clock.stamp()}
            return {**review, "status": {"userInfo": user.info()}}
        if kind.plural == "selfsubjectrulesreviews":
            return self._rules(review, user)
        if kind.namespaced:
            stated = review["metadata"].setdefault("namespace", namespace)
            if stated != namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on "
                    "the request"
                )
        record_update(kind, review, None, caller, cluster.clock.stamp())
        if kind.plural == "tokenreviews":
            return self._token(review)
        return self._access(kind, review, user)

    def _token(self, review: Obj) -> Obj:
        spec = review["spec"]
        token, audiences = spec.get("token", ""), spec.get("audiences") or []
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        answer = self._gate.review_token(token, audiences)
        if isinstance(answer, str):
            review["status"] = {"user": {}, "error": answer}
            return review
        user, accepted = answer
        if not accepted:
            raise internal_error("error validating audiences")
        review["status"] = {"authenticated": True, "user": user.info(), "audiences": accepted}
        return review

    def _rules(self, review: Obj, user: User) -> Obj:
        namespace = review["spec"].get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules = self._cluster.rbac.rules_for(user, namespace)
        status: Obj = {
            "resourceRules": [
                _non_empty_fields(rule, "verbs", "apiGroups", "resources", "resourceNames")
                for rule in rules
                if rule.get("resources")
            ],
            "nonResourceRules": [
                _non_empty_fields(rule, "verbs", "nonResourceURLs")
                for rule in rules
                if rule.get("nonResourceURLs")
            ],
            "incomplete": False,
        }
        errors = self._cluster.rbac.errors_for(user, namespace)
        if errors:
            status["evaluationError"] = aggregate_errors(errors)
        return {**review, "metadata": {}, "spec": {}, "status": status}

    def _access(self, kind: Kind, review: Obj, user: User) -> Obj:
        spec, own = review["spec"], kind.plural.startswith("self")
        errors = validate_access_review(review, namespaced=kind.namespaced, own=own)
        if errors:
            raise invalid(AUTHORIZATION_GROUP, "", "", errors)
        if not own:
            extra = {name: tuple(values) for name, values in (spec.get("extra") or {}).items()}
            groups = tuple(spec.get("groups") or ())
            user = User(spec.get("user", ""), groups, spec.get("uid", ""), extra)
        resource = spec.get(RESOURCE_ATTRIBUTES)
        if resource is None:
            path = spec[NON_RESOURCE_ATTRIBUTES]
            attributes = AuthorizationAttributes(
                user, path.get("verb", ""), path=path.get("path", "")
            )
        else:
            attributes = AuthorizationAttributes(
                user,
                resource.get("verb", ""),
                resource.get("group", ""),
                resource.get("resource", ""),
                resource.get("subresource", ""),
                resource.get("name", ""),
                resource.get("namespace", ""),
            )
        decision = self._cluster.rbac.decide(attributes)
        status: Obj = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        ignored = "; ".join(_selector_parse_errors(resource or {}))
        if ignored:
            status["evaluationError"] = ignored
        review["status"] = status
        return review


def _non_empty_fields(rule: Obj, *fields: str) -> Obj:
    return {field: rule[field] for field in fields if rule.get(field)}


def _selector_parse_errors(resource: Obj) -> list[str]:
    """Return the errors of invalid selectors; RBAC ignores selectors."""
    errors = []
    fields = (resource.get("fieldSelector") or {}).get("rawSelector", "")
    if any(term and "=" not in term for term in fields.split(",")):
        errors.append(f"spec.{RESOURCE_ATTRIBUTES}.fieldSelector ignored due to parse error")
    try:
        parse_labels((resource.get("labelSelector") or {}).get("rawSelector", ""))
    except StatusError:
        errors.append(f"spec.{RESOURCE_ATTRIBUTES}.labelSelector ignored due to parse error")
    return errors
