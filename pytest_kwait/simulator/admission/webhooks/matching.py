"""Webhooks that match a request: rules, selectors, match conditions.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/{generic/webhook.go,predicates}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.selectors import matches_label_selector
from pytest_kwait.simulator.objects import labels_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kwait.simulator.admission.attributes import Attributes
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

ADMISSION_GROUP = "admissionregistration.k8s.io"
"""The API group of the configurations, which webhooks never see."""


@dataclass(frozen=True, slots=True)
class MatchedWebhook:
    """A webhook that matches a request.

    Args:
        identity: its configuration, the configuration's version and its index.
        webhook: its entry in the configuration.
        kind: the version of the resource to send.
    """

    identity: str
    webhook: Obj
    kind: Kind

    @property
    def name(self) -> str:
        """The webhook's name, as error messages show it."""
        return str(self.webhook["name"])

    @property
    def seconds(self) -> int:
        """The timeout of a call."""
        return int(self.webhook.get("timeoutSeconds", 10))

    @property
    def may_fail(self) -> bool:
        """Return whether the failure policy is `Ignore`."""
        return self.webhook.get("failurePolicy") == "Ignore"


def match_webhooks(
    cluster: Cluster, resource: str, attributes: Attributes
) -> Iterator[MatchedWebhook]:
    """Yield the webhooks that match a request, in the order of the calls.

    Each match sees the changes of the webhooks before it.

    Args:
        resource: the resource of the configurations.
    """
    if attributes.kind.group == ADMISSION_GROUP:
        return
    if attributes.subresource == "scale" and attributes.subresource_kind is None:
        # Webhooks see the Scale, not the scaled object.
        return
    for configuration in cluster.list(resource):
        version = configuration["metadata"]["resourceVersion"]
        for index, webhook in enumerate(configuration.get("webhooks", ())):
            kind = match_kind(cluster, webhook, attributes)
            if kind is not None and _match_conditions_hold(cluster, webhook, attributes, kind):
                identity = f"{name_of(configuration)}/{version}/{index}"
                yield MatchedWebhook(identity, webhook, kind)


def _match_conditions_hold(
    cluster: Cluster, webhook: Obj, attributes: Attributes, kind: Kind
) -> bool:
    """Evaluate the match conditions.

    Raises:
        StatusError: 403, an evaluation failed and the failure policy is `Fail`.
    """
    conditions = webhook.get("matchConditions")
    if not conditions:
        return True
    # The CEL library is loaded with the first condition.
    from pytest_kwait.simulator.admission.cel_expressions import Activation

    unmet, failure = Activation(cluster, attributes, kind).evaluate_conditions(conditions)
    if not unmet and failure and webhook.get("failurePolicy") != "Ignore":
        raise attributes.forbidden(failure)
    return not unmet and not failure


def match_kind(cluster: Cluster, webhook: Obj, attributes: Attributes) -> Kind | None:
    """Return the version to send to a webhook; None if it does not match."""
    if not _matches_namespace_selector(
        cluster, webhook, attributes
    ) or not _matches_object_selector(webhook, attributes):
        return None
    requested = attributes.requested_kind or attributes.kind
    rules = webhook.get("rules", ())
    if any(_matches_rule(rule, attributes, requested) for rule in rules):
        return requested
    if webhook.get("matchPolicy", "Equivalent") == "Equivalent":
        other_kinds = [
            kind for kind in _equivalent_kinds(cluster, requested) if kind is not requested
        ]
        for rule in rules:
            for kind in other_kinds:
                if _matches_rule(rule, attributes, kind):
                    return kind
    return None


def _equivalent_kinds(cluster: Cluster, kind: Kind) -> Iterator[Kind]:
    for group, version in cluster.kinds.group_versions():
        for other_kind in (cluster.kinds.served(group, version) or {}).values():
            if other_kind.bucket == kind.bucket and "get" in other_kind.verbs:
                yield other_kind


def _matches_namespace_selector(cluster: Cluster, webhook: Obj, attributes: Attributes) -> bool:
    selector = webhook.get("namespaceSelector")
    if not selector or not attributes.namespace:
        return True
    obj = attributes.obj
    if attributes.kind.bucket == "namespaces" and not attributes.subresource and obj is not None:
        return matches_label_selector(selector, labels_of(obj))
    namespace = cluster.find("namespaces", attributes.namespace)
    return namespace is not None and matches_label_selector(selector, labels_of(namespace))


def _matches_object_selector(webhook: Obj, attributes: Attributes) -> bool:
    selector = webhook.get("objectSelector")
    if not selector:
        return True
    objects = (attributes.obj, attributes.old)
    return any(
        obj is not None and matches_label_selector(selector, labels_of(obj)) for obj in objects
    )


def _matches_rule(rule: Obj, attributes: Attributes, kind: Kind) -> bool:
    return (
        _matches_scope(rule.get("scope", "*"), attributes)
        and _matches_any(attributes.operation, rule.get("operations", ()))
        and _matches_any(kind.group, rule.get("apiGroups", ()))
        and _matches_any(kind.version, rule.get("apiVersions", ()))
        and any(
            _matches_resource(pattern, kind.plural, attributes.subresource)
            for pattern in rule.get("resources", ())
        )
    )


def _matches_scope(scope: str, attributes: Attributes) -> bool:
    within = bool(attributes.namespace) and attributes.kind.bucket != "namespaces"
    return scope == "*" or (scope == "Namespaced") == within


def _matches_any(value: str, patterns: Iterable[str]) -> bool:
    return any(pattern in ("*", value) for pattern in patterns)


def _matches_resource(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, below = pattern.partition("/")
    return resource in ("*", plural) and below in ("*", subresource)
