"""TokenReview, SubjectAccessReview and related reviews, answered on creation.

Source: k8s.io/kubernetes pkg/registry/authentication, pkg/registry/authorization,
pkg/apis/authorization/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import (
    FieldError,
    StatusError,
    bad_request,
    internal_error,
    invalid,
    invalid_value,
    required,
)
from pytest_kwait.simulator.authorization.attributes import Attributes
from pytest_kwait.simulator.managedfields.field_manager import record_update
from pytest_kwait.simulator.request_info import User
from pytest_kwait.simulator.selectors import parse_labels

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.filters import AuthFilters
    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["AccessReviews"]

_GROUP = "authorization.k8s.io"
_RESOURCE, _PATH = "resourceAttributes", "nonResourceAttributes"


class AccessReviews:
    """Answers reviews about one cluster.

    Args:
        api: the cluster.
        gate: the authentication of tokens.
    """

    def __init__(self, api: Cluster, gate: AuthFilters) -> None:
        self._api = api
        self._gate = gate

    def review(self, request: ApiRequest, kind: Kind, asked: Obj, namespace: str) -> Obj:
        """Return the review with its status.

        Raises:
            StatusError: 400 or 422, the review is invalid.
        """
        caller, api = request.caller, self._api
        review = api.decode(kind, asked, caller)
        review.pop("status", None)
        user = caller.identity
        if kind.plural == "selfsubjectreviews":
            review["metadata"] = {"creationTimestamp": api.clock.stamp()}
            return {**review, "status": {"userInfo": user.info()}}
        if kind.plural == "selfsubjectrulesreviews":
            return self._rules(review, user)
        if kind.namespaced:
            there = review["metadata"].setdefault("namespace", namespace)
            if there != namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on "
                    "the request"
                )
        record_update(kind, review, None, caller, api.clock.stamp())
        if kind.plural == "tokenreviews":
            return self._token(review)
        return self._access(kind, review, user)

    def _token(self, review: Obj) -> Obj:
        spec = review["spec"]
        token, audiences = spec.get("token", ""), spec.get("audiences") or []
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        found = self._gate.review_token(token, audiences)
        if isinstance(found, str):
            review["status"] = {"user": {}, "error": found}
            return review
        user, fitting = found
        if not fitting:
            raise internal_error("error validating audiences")
        review["status"] = {"authenticated": True, "user": user.info(), "audiences": fitting}
        return review

    def _rules(self, review: Obj, user: User) -> Obj:
        namespace = review["spec"].get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules = self._api.rbac.rules_for(user, namespace)
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
        errors = list(dict.fromkeys(self._api.rbac.errors_for(user, namespace)))
        if errors:
            status["evaluationError"] = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return {**review, "metadata": {}, "spec": {}, "status": status}

    def _access(self, kind: Kind, review: Obj, user: User) -> Obj:
        spec, own = review["spec"], kind.plural.startswith("self")
        errors = _review_errors(review, kind, own=own)
        if errors:
            raise invalid(_GROUP, "", "", errors)
        if not own:
            extra = {name: tuple(values) for name, values in (spec.get("extra") or {}).items()}
            groups = tuple(spec.get("groups") or ())
            user = User(spec.get("user", ""), groups, spec.get("uid", ""), extra)
        given = spec.get(_RESOURCE)
        if given is None:
            path = spec[_PATH]
            asked = Attributes(user, path.get("verb", ""), path=path.get("path", ""))
        else:
            asked = Attributes(
                user,
                given.get("verb", ""),
                given.get("group", ""),
                given.get("resource", ""),
                given.get("subresource", ""),
                given.get("name", ""),
                given.get("namespace", ""),
            )
        decision = self._api.rbac.decide(asked)
        status: Obj = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        ignored = "; ".join(_selector_parse_errors(given or {}))
        if ignored:
            status["evaluationError"] = ignored
        review["status"] = status
        return review


def _non_empty_fields(rule: Obj, *fields: str) -> Obj:
    return {field: rule[field] for field in fields if rule.get(field)}


def _review_errors(review: Obj, kind: Kind, *, own: bool) -> list[FieldError]:
    spec, errors = review["spec"], []
    resource, path = spec.get(_RESOURCE), spec.get(_PATH)
    shown = None if path is None else {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid_value(f"spec.{_PATH}", shown, why))
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid_value(f"spec.{_RESOURCE}", None, why))
    if not own and not spec.get("user") and not spec.get("groups"):
        why = "at least one of user or group must be specified"
        errors.append(invalid_value("spec.user", "", why))
    errors += _selector_errors(resource or {})
    metadata = {name: value for name, value in review["metadata"].items() if value}
    beside = {*metadata} - {"managedFields"} - ({"namespace"} if kind.namespaced else set())
    if beside:
        why = "must be empty except for namespace" if kind.namespaced else "must be empty"
        errors.append(invalid_value("metadata", metadata, why))
    if kind.namespaced and resource is not None:
        given = resource.get("namespace", "")
        if given != metadata["namespace"]:
            field = f"spec.{_RESOURCE}.namespace"
            errors.append(invalid_value(field, given, "must match metadata.namespace"))
    if kind.namespaced and path is not None:
        why = "disallowed on this kind of request"
        errors.append(invalid_value(f"spec.{_PATH}", shown, why))
    return errors


def _selector_errors(resource: Obj) -> list[FieldError]:
    errors = []
    for name in ("fieldSelector", "labelSelector"):
        selector, path = resource.get(name), f"spec.{_RESOURCE}.{name}"
        if selector is None:
            continue
        raw, requirements = selector.get("rawSelector", ""), selector.get("requirements")
        if raw and requirements:
            why = "may not specified at the same time as requirements"
            errors.append(invalid_value(f"{path}.rawSelector", raw, why))
        if not raw and not requirements:
            why = f"when {path} is specified, requirements or rawSelector is required"
            errors.append(required(f"{path}.requirements", why))
    return errors


def _selector_parse_errors(resource: Obj) -> list[str]:
    """Return the errors of invalid selectors; RBAC ignores selectors."""
    errors = []
    fields = (resource.get("fieldSelector") or {}).get("rawSelector", "")
    if any(term and "=" not in term for term in fields.split(",")):
        errors.append(f"spec.{_RESOURCE}.fieldSelector ignored due to parse error")
    try:
        parse_labels((resource.get("labelSelector") or {}).get("rawSelector", ""))
    except StatusError:
        errors.append(f"spec.{_RESOURCE}.labelSelector ignored due to parse error")
    return errors
