"""Waits on namespaces: deleted with their contents, or provided with defaults.

Source: kubernetes/test/e2e/framework/util.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import (
    Condition,
    EvidenceScope,
    Met,
    ObjectReference,
    ObjectSink,
    Pending,
    Source,
    Verdict,
)
from pytest_kwait.framework.named_objects import join_names, parse_named_uids
from pytest_kwait.framework.objects.conditions import OneObject
from pytest_kwait.framework.predicates import Existence
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.named_objects import KubernetesObjects
    from pytest_kwait.framework.registry import ConditionOf

MAX_NAMED = 3
"""The number of namespaces that a message describes in detail."""

_CONTENT_REMAINING = re.compile(r"([^\s.,]+)\.(\S*) has (\d+) resource instances")
_FINALIZERS_REMAINING = re.compile(r"(\S+) in (\d+) resource instances")

_DELETION_FAILURES = {
    "NamespaceDeletionDiscoveryFailure": "its kinds cannot be discovered",
    "NamespaceDeletionGroupVersionParsingFailure": "its kinds cannot be read",
    "NamespaceDeletionContentFailure": "what is in it cannot be deleted",
}


def describe_remaining(namespace: dict[str, Any]) -> str:
    """Return why a namespace still exists, by its status and finalizers.

    Source: kube-controller-manager, namespace/deletion/status_condition_utils.go.
    """
    if not namespace["metadata"].get("deletionTimestamp"):
        return "still there, not being deleted"
    reasons = "; ".join(_reasons(namespace))
    return f"being deleted{': ' if reasons else ''}{reasons}"


def _reasons(namespace: dict[str, Any]) -> Iterator[str]:
    conditions = {
        condition.get("type"): " ".join((condition.get("message") or "").split())
        for condition in (namespace.get("status") or {}).get("conditions") or ()
        if condition.get("status") == "True"
    }
    for kind, text in _DELETION_FAILURES.items():
        if kind in conditions:
            yield f"{text}: {conditions[kind] or 'no message is given'}"
    content = conditions.get("NamespaceContentRemaining")
    if content is not None:
        remaining_contents = [
            f"{count} {plural}{'.' if group else ''}{group}"
            for plural, group, count in _CONTENT_REMAINING.findall(content)
        ]
        yield (
            f"{', '.join(remaining_contents)} left"
            if remaining_contents
            else content or "something is left in it"
        )
    held = conditions.get("NamespaceFinalizersRemaining")
    if held is not None:
        holds = [
            f"{name} on {count} {'object' if count == '1' else 'objects'}"
            for name, count in _FINALIZERS_REMAINING.findall(held)
        ]
        yield f"held by {', '.join(holds)}" if holds else held or "held by finalizers"
    own = [
        *(finalizer for finalizer in (namespace.get("spec") or {}).get("finalizers") or ()),
        *(namespace["metadata"].get("finalizers") or ()),
    ]
    # Every namespace has this finalizer; it belongs to the namespace controller.
    other_finalizers = [str(finalizer) for finalizer in own if finalizer != "kubernetes"]
    if other_finalizers:
        yield f"held by its own finalizers {', '.join(other_finalizers)}"


class _Status(TypedDict, total=False):
    conditions: list[dict[str, Any]] | None


class _Spec(TypedDict, total=False):
    finalizers: list[str] | None


class _Fields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: _Spec | None
    status: _Status | None


class DeletedNamespaces(Condition, ObjectSink):
    """Namespaces are gone, even if new ones have the same names.

    It is the sink of its own source: other namespaces are ignored.

    Args:
        uids: their UIDs by name; empty to take the first UID seen.
    """

    goal = "get deleted"

    def __init__(self, uids: Mapping[str, str]) -> None:
        self._wanted = dict(uids)
        self._left: dict[str, dict[str, Any]] = {}
        only_name = next(iter(uids)) if len(uids) == 1 else None
        self._sources = (Source(NAMESPACES, None, self, only_name, fields=_Fields),)

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Record one of them that still exists."""
        metadata = obj["metadata"]
        name, uid = metadata["name"], metadata.get("uid") or metadata["name"]
        if name in self._wanted and self._wanted[name] in ("", uid):
            self._wanted[name] = uid
            self._left[uid] = obj

    def drop(self, uid: str) -> None:
        """Remove one of them; no-op for other namespaces."""
        self._left.pop(uid, None)

    def uids(self) -> Collection[str]:
        """Return the UIDs of those that still exist."""
        return self._left.keys()

    @property
    def is_trivial(self) -> bool:
        """Return whether no namespace is awaited."""
        return not self._wanted

    @property
    def subject(self) -> str:
        """The namespaces."""
        noun = "namespace" if len(self._wanted) == 1 else "namespaces"
        return f"{noun} {join_names(list(self._wanted), MAX_NAMED)}"

    def verdict(self) -> Verdict:
        """Decide by the namespaces that still exist."""
        if not self._left:
            return Met()
        if len(self._wanted) == 1:
            return Pending(describe_remaining(next(iter(self._left.values()))))
        reasons = [
            f"{namespace['metadata']['name']} is {describe_remaining(namespace)}"
            for namespace, _ in zip(self._left.values(), range(MAX_NAMED), strict=False)
        ]
        more = len(self._left) - len(reasons)
        if more:
            reasons.append(f"{more} more are still there")
        return Pending("; ".join(reasons))

    def summarize(self) -> str:
        """Return a summary of the number deleted."""
        total = len(self._wanted)
        return f"{total - len(self._left)} of {total} gone" if total > 1 else ""

    def result(self) -> None:
        """Return None: nothing is left."""

    def scope(self) -> EvidenceScope:
        """Return the remaining namespaces, and the pods if there is only one."""
        references = [
            ObjectReference(
                NAMESPACES.kind, obj["metadata"]["name"], uid, NAMESPACES.qualified, exists=True
            )
            for uid, obj in self._left.items()
        ]
        if len(references) == 1:
            return EvidenceScope(references[0].name, objects=references, pods="")
        return EvidenceScope(None, objects=references)


@wait(
    limit="namespace_deletion",
    kinds={"namespaces": NAMESPACES},
    summary="namespaces that are gone, by their UIDs",
)
def wait_for_namespaces_deleted(
    client: ApiClient,
    namespaces: KubernetesObjects,
    **options: Unpack[WaitOptions],
) -> ConditionOf[None]:
    """Return None once namespaces are gone, at once if none of them exists.

    Meanwhile the message says why each of them still exists: remaining contents, their finalizers,
    and groups that cannot be discovered or deleted. A new namespace of the same name has another
    UID and does not count. Upstream looks for the names alone and reports no reasons.

    Args:
        namespaces: their names, or the namespaces themselves, as the API returns them or as models
            of the official client, which are then identified by UID; one or a list.

    Source: util.go WaitForNamespacesDeleted.
    """
    uids = parse_named_uids("namespaces", namespaces, NAMESPACES.kind, empty=True)
    for name in uids:
        check_namespace(name, "namespaces")
    return DeletedNamespaces(uids)


@wait(limit="service_account_provision", summary="the namespace's ServiceAccount `default`")
def wait_for_default_service_account(
    client: ApiClient, namespace: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a namespace's ServiceAccount `default` once it exists.

    Until then, pods that name no other service account are refused.

    Raises:
        WaitFailed: the namespace is being deleted.

    Source: util.go WaitForDefaultServiceAccountInNamespace.
    """
    check_namespace(namespace)
    return OneObject(SERVICE_ACCOUNTS, namespace, "default", Existence(True))


@wait(
    limit="service_account_provision",
    summary="the namespace's config map with the cluster's root CA",
)
def wait_for_kube_root_ca(
    client: ApiClient, namespace: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a namespace's config map `kube-root-ca.crt` once it exists.

    Pods need it to trust the API server, and do not start without it.

    Raises:
        WaitFailed: the namespace is being deleted.

    Source: util.go WaitForKubeRootCAInNamespace.
    """
    check_namespace(namespace)
    return OneObject(CONFIG_MAPS, namespace, "kube-root-ca.crt", Existence(True))
