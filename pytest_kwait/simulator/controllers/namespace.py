"""The controllers of namespaces: default contents, account tokens, deletion with all contents.

Source: kube-controller-manager, namespace/deletion/namespaced_resources_deleter.go,
serviceaccount/{serviceaccounts_controller,tokens_controller}.go,
certificates/rootcacertpublisher/publisher.go.
"""

from __future__ import annotations

import base64
from collections import Counter
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import (
    Obj,
    clone,
    is_being_deleted,
    name_of,
    namespace_of,
    uid_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.scheme import Kind

# Seconds between the deletion of a namespace and that of its content.
# Source: kube-controller-manager, namespace_controller.go, `namespaceDeletionGracePeriod`.
DELETION_DELAY = 5.0
# Seconds after which other writers' finalizers are checked again; ditto,
# `finalizerEstimateSeconds`.
_FINALIZER_ESTIMATE = 15.0
# The longest delay in seconds between failed syncs; ditto, `nsControllerRateLimiter`.
_MAX_DELAY = 60.0
# Seconds between the end of the last pod and the deletion of the rest.
_DELAY_AFTER_PODS = 0.5

_FINALIZER = "kubernetes"
_ROOT_CA = "kube-root-ca.crt"
_ROOT_CA_NOTE = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)

# (type, reason and message without a problem), in the order of the status.
# Source: kube-controller-manager, status_condition_utils.go.
_NO_FAILURE_CONDITIONS = (
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
)
_TYPE = "kubernetes.io/service-account-token"
_NAME = "kubernetes.io/service-account.name"
_UID = "kubernetes.io/service-account.uid"


def make_deletion_conditions(
    last: Iterable[Obj], wrong: dict[str, tuple[str, str]], stamp: str
) -> list[Obj]:
    """Return the five conditions of a terminating namespace.

    Args:
        last: the present conditions; transition times are kept while the status is the same.
        wrong: reason and message by type for conditions with a problem.
        stamp: the current time.
    """
    before = {condition["type"]: condition for condition in last}
    conditions = []
    for kind, reason, message in _NO_FAILURE_CONDITIONS:
        status = "True" if kind in wrong else "False"
        reason, message = wrong.get(kind, (reason, message))
        old = before.get(kind)
        since = old["lastTransitionTime"] if old is not None and old["status"] == status else stamp
        conditions.append(
            {
                "type": kind,
                "status": status,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        )
    return conditions


class NamespaceDefaults:
    """Creates the default ServiceAccount and the root certificates of every namespace.

    Upstream does so a moment after the namespace was created, and refuses pods until then. Here
    they exist before the namespace is visible, so that pods can be created at once. Refused writes
    (by a webhook, for example) are retried, and pods are refused until then here too. Under an
    exploration they come after the namespace, as upstream.

    Source: pkg/controller/serviceaccount/serviceaccounts_controller.go,
    pkg/controller/certificates/rootcacertpublisher/publisher.go.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # These are two controllers upstream: neither waits for the other.
        self._accounts: Workqueue[str] = Workqueue(
            cluster, self._create_account, "namespace-accounts"
        )
        self._certificates: Workqueue[str] = Workqueue(
            cluster, self._publish_certificates, "namespace-certificates"
        )
        cluster.subscribe("namespaces", self._namespace_changed)
        cluster.subscribe("serviceaccounts", self._account_changed)
        cluster.subscribe("configmaps", self._config_map_changed)

    def _namespace_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "ADDED":
            return
        for queue, create in (
            (self._accounts, self._create_account),
            (self._certificates, self._publish_certificates),
        ):
            # Changes stay invisible while the subscribers of this one wait for webhooks.
            if self._cluster.tasks.may_suspend() or self._cluster.clock.exploration is not None:
                queue.add(name_of(new))
                continue
            try:
                create(name_of(new))
            except StatusError:
                queue.add(name_of(new))

    def _account_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED" and name_of(new) == "default":
            self._accounts.add(namespace_of(new))

    def _config_map_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "ADDED" and name_of(new) == _ROOT_CA:
            self._certificates.add(namespace_of(new))

    def _is_active(self, namespace: str) -> bool:
        namespace_object = self._cluster.find("namespaces", namespace)
        return namespace_object is not None and not is_being_deleted(namespace_object)

    def _create_account(self, namespace: str) -> None:
        if (
            self._is_active(namespace)
            and self._cluster.find("serviceaccounts", "default", namespace) is None
        ):
            self._create("serviceaccounts", {"metadata": {"name": "default"}}, namespace)

    def _publish_certificates(self, namespace: str) -> None:
        if not self._is_active(namespace):
            return
        data = {"ca.crt": self._cluster.root_ca}
        config_map = self._cluster.find("configmaps", _ROOT_CA, namespace)
        if config_map is None:
            annotations = {"kubernetes.io/description": _ROOT_CA_NOTE}
            metadata = {"name": _ROOT_CA, "annotations": annotations}
            self._create("configmaps", {"metadata": metadata, "data": data}, namespace)
        elif config_map.get("data") != data:
            self._cluster.update("configmaps", {**clone(config_map), "data": data})

    def _create(self, resource: str, obj: Obj, namespace: str) -> None:
        try:
            self._cluster.create(resource, obj, namespace)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise


class NamespaceController:
    """Deletes the contents of terminating namespaces, pods first, then finalizes them.

    Source: kube-controller-manager, deletion/namespaced_resources_deleter.go.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: Workqueue[str] = Workqueue(
            cluster, self._sync, "namespace-controller", max_delay=_MAX_DELAY
        )
        self._going: set[str] = set()
        self._stop_following_pods: Callable[[], None] | None = None
        cluster.subscribe("namespaces", self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        name = name_of(new)
        if change == "DELETED":
            self._going.discard(name)
            self._queue.forget(name)
            if not self._going and self._stop_following_pods is not None:
                self._stop_following_pods()
                self._stop_following_pods = None
        elif is_being_deleted(new) and name not in self._going:
            self._going.add(name)
            self._queue.add_after(name, DELETION_DELAY)
            if self._stop_following_pods is None:
                self._stop_following_pods = self._cluster.subscribe("pods", self._pod_changed)

    def _pod_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        # Upstream checks again after half the pods' longest grace period; that delay is useless
        # here.
        if change == "DELETED" and namespace_of(new) in self._going:
            namespace = self._cluster.find("namespaces", namespace_of(new))
            if namespace is not None and (namespace.get("status") or {}).get("conditions"):
                self._queue.add_after(namespace_of(new), _DELAY_AFTER_PODS)

    def _sync(self, name: str) -> None:
        namespace = self._cluster.find("namespaces", name)
        if namespace is None or not is_being_deleted(namespace):
            return
        if _FINALIZER not in (namespace["spec"].get("finalizers") or ()):
            return
        errors: list[str] = []
        pods = self._empty(self._cluster.kind_of("pods"), name, errors)
        wait = self._longest_grace(namespace, pods)
        wrong: dict[str, tuple[str, str]] = {}
        remaining: dict[str, list[Obj]] = {}
        if not pods:
            for kind in self._cluster.kinds.stored():
                if kind.namespaced and "delete" in kind.verbs and kind.qualified != "pods":
                    remaining_objects = self._empty(kind, name, errors)
                    if remaining_objects:
                        remaining[f"{kind.plural}.{kind.group}"] = remaining_objects
            wrong.update(_format_remaining(remaining))
        if errors:
            names = ", ".join(sorted(errors))
            text = f"Failed to delete all resource types, {len(errors)} remaining: {names}"
            wrong["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", text)
        self._write_conditions(namespace, wrong)
        if pods or remaining or errors:
            self._queue.add_after(name, (wait or _FINALIZER_ESTIMATE) / 2 + 1)
            return
        self._finalize(name)

    def _empty(self, kind: Kind, namespace: str, errors: list[str]) -> list[Obj]:
        """Delete all objects of a kind; return the remaining ones."""
        resource = kind.qualified
        objects = self._cluster.list(resource, namespace)
        if not objects:
            return objects
        for obj in objects:
            if is_being_deleted(obj):
                continue
            try:
                self._cluster.delete(resource, name_of(obj), namespace, propagation="Background")
            except StatusError as error:
                if error.reason not in ("NotFound", "Conflict"):
                    errors.append(error.message)
        return self._cluster.list(resource, namespace)

    def _longest_grace(self, namespace: Obj, pods: Iterable[Obj]) -> float:
        grace = max(
            (
                pod["spec"].get("terminationGracePeriodSeconds") or 0
                for pod in pods
                if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
            ),
            default=0,
        )
        elapsed = self._cluster.clock.time() - parse_time(
            namespace["metadata"]["deletionTimestamp"]
        )
        return float(max(grace - elapsed, 0.0))

    def _write_conditions(self, namespace: Obj, wrong: dict[str, tuple[str, str]]) -> None:
        stamp = self._cluster.clock.stamp()

        def conditions_of(obj: Obj) -> list[Obj]:
            before = (obj.get("status") or {}).get("conditions") or ()
            return make_deletion_conditions(before, wrong, stamp)

        # A namespace that something holds is looked at again and again.
        if conditions_of(namespace) == (namespace.get("status") or {}).get("conditions"):
            return

        def write(changed: Obj) -> None:
            changed.setdefault("status", {})["conditions"] = conditions_of(changed)

        self._cluster.modify("namespaces", name_of(namespace), "", write, subresource="status")

    def _finalize(self, name: str) -> None:
        namespace = clone(self._cluster.get("namespaces", name))
        finalizers = [
            finalizer for finalizer in namespace["spec"]["finalizers"] if finalizer != _FINALIZER
        ]
        namespace["spec"] = {**namespace["spec"], "finalizers": finalizers}
        self._cluster.update("namespaces", namespace, subresource="finalize")


def _format_remaining(remaining: dict[str, list[Obj]]) -> dict[str, tuple[str, str]]:
    wrong: dict[str, tuple[str, str]] = {}
    if remaining:
        names = ", ".join(
            sorted(
                f"{name} has {len(objects)} resource instances"
                for name, objects in remaining.items()
            )
        )
        wrong["NamespaceContentRemaining"] = (
            "SomeResourcesRemain",
            f"Some resources are remaining: {names}",
        )
    finalizers = Counter(
        finalizer
        for objects in remaining.values()
        for obj in objects
        for finalizer in obj["metadata"].get("finalizers") or ()
    )
    if finalizers:
        names = ", ".join(
            sorted(f"{name} in {count} resource instances" for name, count in finalizers.items())
        )
        message = f"Some content in the namespace has finalizers remaining: {names}"
        wrong["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
    return wrong


class TokensController:
    """Follows secrets and service accounts."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: Workqueue[tuple[str, str]] = Workqueue(
            cluster, self._sync, "service-account-tokens"
        )
        cluster.subscribe("secrets", self._secret_changed)
        cluster.subscribe("serviceaccounts", self._account_changed)

    def _secret_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "DELETED" and new.get("type") == _TYPE:
            self._queue.add((namespace_of(new), name_of(new)))

    def _account_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "MODIFIED" or self._cluster.store.count("secrets") == 0:
            return
        for secret in self._cluster.list("secrets", namespace_of(new)):
            if secret.get("type") == _TYPE and _account(secret) == name_of(new):
                self._queue.add((namespace_of(secret), name_of(secret)))

    def _sync(self, key: tuple[str, str]) -> None:
        namespace, name = key
        secret = self._cluster.find("secrets", name, namespace)
        if secret is None or secret.get("type") != _TYPE:
            return
        place = ("serviceaccounts", _account(secret), namespace)
        account = self._cluster.find(*place)
        account_uid = (secret["metadata"].get("annotations") or {}).get(_UID)
        if account is None or (account_uid and account_uid != uid_of(account)):
            account = self._cluster.find_live(*place)
        if account is None or (account_uid and account_uid != uid_of(account)):
            self._cluster.delete("secrets", name, namespace, uid=uid_of(secret))
            return
        secret_data = secret.get("data") or {}
        data = {
            **secret_data,
            "ca.crt": _encode_base64(self._cluster.root_ca),
            "namespace": secret_data.get("namespace") or _encode_base64(namespace),
        }
        if not data.get("token"):
            data["token"] = _encode_base64(self._cluster.accounts.legacy(account, secret))
        if data == secret_data:
            return
        notes = {_NAME: name_of(account), _UID: uid_of(account)}

        def fill(changed: Obj) -> None:
            changed["data"] = data
            changed["metadata"].setdefault("annotations", {}).update(notes)

        self._cluster.modify("secrets", name, namespace, fill)


def _account(secret: Obj) -> str:
    return str((secret["metadata"].get("annotations") or {}).get(_NAME, ""))


def _encode_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
