"""Waits until the authorizer has observed a change of permissions.

The authorizer observes a role some time after the role was created.

Source: kubernetes/test/e2e/framework/auth/helpers.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, Resource
from pytest_kwait.engine.condition import EvidenceScope, Met, ObjectReference, Pending, Verdict
from pytest_kwait.engine.options import check_bool, check_text
from pytest_kwait.engine.retry import request_once
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import ProbeCondition
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)

_ATTRIBUTES = (
    "namespace",
    "verb",
    "group",
    "version",
    "resource",
    "subresource",
    "name",
    "fieldSelector",
    "labelSelector",
)


class ReviewedAccess(ProbeCondition):
    """The authorizer allows or denies a user an action.

    Args:
        user: the user's name.
        groups: the user's groups.
        attributes: the `resourceAttributes` of a SubjectAccessReview.
        allowed: the expected answer.
    """

    def __init__(
        self, user: str, groups: Sequence[str], attributes: Mapping[str, Any], allowed: bool
    ) -> None:
        self._user = user
        self._attributes = dict(attributes)
        self._allowed = allowed
        spec: dict[str, Any] = {"user": user, "resourceAttributes": self._attributes}
        if groups:
            spec["groups"] = list(groups)
        self._review = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": spec,
        }
        self._answer: dict[str, Any] | None = None

    @property
    def subject(self) -> str:
        """The user."""
        return f"user {self._user}"

    @property
    def goal(self) -> str:
        """The expected permission."""
        attributes = self._attributes
        group, part = attributes.get("group"), attributes.get("subresource")
        subject = f"{attributes.get('resource') or '*'}{f'.{group}' if group else ''}"
        subject += f"/{part}" if part else ""
        subject += f" {attributes['name']}" if attributes.get("name") else ""
        where = f" in {attributes['namespace']}" if attributes.get("namespace") else ""
        be = "become allowed" if self._allowed else "stop being allowed"
        return f"{be} to {attributes.get('verb') or '*'} {subject}{where}"

    def probe_targets(self) -> Sequence[Any]:
        """Return the review."""
        return (self._review,)

    def send_requests(self, targets: Sequence[Any], deadline: Deadline) -> dict[str, Any]:
        """Create the review and return its answer."""
        session = self.client_session
        return request_once(
            lambda limit: session.create(SUBJECT_ACCESS_REVIEWS, targets[0], deadline=limit),
            deadline,
        )

    def record_answers(self, answers: dict[str, Any]) -> None:
        """Record the answer."""
        self._answer = answers

    def verdict(self) -> Verdict:
        """Decide by the last answer."""
        if self._answer is None:
            return Pending("not reviewed yet")
        status = self._answer.get("status") or {}
        if bool(status.get("allowed")) == self._allowed:
            return Met()
        why = "; ".join(
            " ".join(str(text).split())
            for text in (status.get("reason"), status.get("evaluationError"))
            if text
        )
        text = "still allowed" if status.get("allowed") else "not allowed"
        return Pending(f"{text}{': ' if why else ''}{why}")

    def result(self) -> dict[str, Any]:
        """Return the review with its answer."""
        return self._answer or {}

    def scope(self) -> EvidenceScope:
        """Return the objects that grant permissions: readable as evidence, but not awaited."""
        grants = ObjectReference("", "", "", "rolebindings,clusterrolebindings", exists=False)
        return EvidenceScope(self._attributes.get("namespace") or None, objects=(grants,))


@wait(
    limit="authorization",
    summary="access of a user to a kind, allowed or denied",
    poll="authorization_poll",
)
def wait_for_authorization_update(
    client: ApiClient,
    namespace: str,
    user: str,
    verb: str,
    resource: str,
    allowed: bool = True,
    *,
    groups: Sequence[str] = (),
    all_namespaces: bool = False,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return the SubjectAccessReview once it allows an action, or no longer allows it.

    The review is requested every `poll`, 100 ms by default. Each API server has its own authorizer;
    with several servers use `stable_for` to require more than one answer.

    Args:
        client: the official client; its user must be allowed to create SubjectAccessReviews.
        namespace: the namespace of the action; ignored for built-in cluster-scoped kinds.
        user: the user's name; `system:serviceaccount:<namespace>:<name>` for a service account.
        verb: for example `list`; `*` for all.
        resource: as in a role, with the group unless built in: `pods`, `pods/log`, `deployments`,
            `widgets.example.com`.
        allowed: False to wait until the action is denied.
        groups: the user's groups.
        all_namespaces: review all namespaces at once, as for a cluster role binding.

    Source: auth/helpers.go WaitForAuthorizationUpdate.
    """
    where = "" if check_bool("all_namespaces", all_namespaces) else check_namespace(namespace)
    attributes = _attributes(where, verb, resource)
    return _reviewed_access(user, groups, attributes, allowed)


@wait(
    limit="authorization",
    summary="access of a user to one object, allowed or denied",
    poll="authorization_poll",
)
def wait_for_named_authorization_update(
    client: ApiClient,
    namespace: str,
    user: str,
    verb: str,
    resource: str,
    name: str,
    allowed: bool = True,
    *,
    groups: Sequence[str] = (),
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return the SubjectAccessReview once it allows, or denies, an action on one object.

    Args:
        client: the official client; its user must be allowed to create SubjectAccessReviews.
        namespace: the namespace of the object; ignored for built-in cluster-scoped kinds.
        user: the user's name; `system:serviceaccount:<namespace>:<name>` for a service account.
        verb: for example `get`; `*` for all.
        resource: as in a role, with the group unless built in.
        name: the object's name.
        allowed: False to wait until the action is denied.
        groups: the user's groups.

    Source: auth/helpers.go WaitForNamedAuthorizationUpdate.
    """
    attributes = _attributes(check_namespace(namespace), verb, resource)
    # Names of RBAC objects may contain characters that DNS names may not.
    return _reviewed_access(user, groups, {**attributes, "name": check_text("name", name)}, allowed)


@wait(
    limit="authorization",
    summary="access of a user by resource attributes, allowed or denied",
    poll="authorization_poll",
)
def wait_for_authz_update(
    client: ApiClient,
    user: str,
    attributes: Mapping[str, Any],
    allowed: bool = True,
    *,
    groups: Sequence[str] = (),
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return the SubjectAccessReview on any resource attributes once its answer is as expected.

    Args:
        client: the official client; its user must be allowed to create SubjectAccessReviews.
        user: the user's name.
        attributes: the `resourceAttributes` of the review, in the API's field names.
        allowed: False to wait until the action is denied.
        groups: the user's groups.

    Source: auth/helpers.go WaitForAuthzUpdate.
    """
    value: object = attributes
    if not isinstance(value, Mapping) or not value or set(value) - set(_ATTRIBUTES):
        raise InvalidArgument("attributes", value, f"use some of {', '.join(_ATTRIBUTES)}")
    return _reviewed_access(user, groups, attributes, allowed)


def _attributes(namespace: str, verb: object, resource: object) -> dict[str, Any]:
    text = check_text("resource", resource)
    whole, _, part = text.partition("/")
    plural, _, group = whole.partition(".")
    known = match_resource(BUILT_IN.values(), whole) if plural != "*" else None
    if known is not None:
        plural, group = known.plural, known.group
        namespace = namespace if known.namespaced else ""
    if plural != "*":
        check_name("resource", plural)
    attributes = {
        "namespace": namespace,
        "verb": check_text("verb", verb),
        "group": group,
        "resource": plural,
        "subresource": part,
    }
    return {name: value for name, value in attributes.items() if value}


def _reviewed_access(
    user: object, groups: object, attributes: Mapping[str, Any], allowed: object
) -> ReviewedAccess:
    if isinstance(groups, str) or not isinstance(groups, Sequence):
        raise InvalidArgument("groups", groups, "use a list of groups")
    return ReviewedAccess(
        check_text("user", user),
        [check_text("groups", group) for group in groups],
        attributes,
        check_bool("allowed", allowed),
    )
