"""What the server adds to or refuses of an object because of other objects.

Source: k8s.io/apiserver pkg/admission/plugin/namespace/lifecycle, k8s.io/kubernetes
plugin/pkg/admission/{serviceaccount,defaulttolerationseconds,priority}.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from pytest_kwait.simulator.names import random_suffix
from pytest_kwait.simulator.status_error import forbidden, invalid, invalid_value, not_found

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind

__all__ = ["Admission"]

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path, no secret
_TOKEN_SECONDS = 3607
_TOLERATION_SECONDS = 300
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FIRST_ADDRESS = int(IPv4Address("10.0.0.2"))
_LAST_ADDRESS = int(IPv4Address("10.0.255.254"))
_FIRST_NODE_PORT, _LAST_NODE_PORT = 30000, 32767


class Admission:
    """The checks and additions, over one cluster's objects.

    Args:
        api: the cluster.
    """

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._next_address = _FIRST_ADDRESS
        self._next_port = _FIRST_NODE_PORT

    def namespace_open(self, kind: Kind, namespace: str, name: str) -> None:
        """Refuse new objects where the namespace is not there, or is being removed.

        Raises:
            StatusError: 404 without the namespace, 403 while it is terminating.
        """
        if not kind.namespaced:
            return
        found = self._api.find("namespaces", namespace)
        if found is None:
            raise not_found("", "namespaces", namespace)
        if found["metadata"].get("deletionTimestamp"):
            text = f"namespace {namespace} is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": text,
                "field": "metadata.namespace",
            }
            raise forbidden(
                kind.group,
                kind.plural,
                name,
                f"unable to create new content in namespace {namespace} because it is being "
                "terminated",
                [cause],
            )

    def admit_create(self, kind: Kind, obj: Obj) -> None:
        """Add what depends on other objects.

        Raises:
            StatusError: an object that this one needs is not there.
        """
        if kind.bucket == "pods":
            self._pod(obj)
        elif kind.bucket == "services":
            self._service(obj)

    def admit_update(self, kind: Kind, new: Obj, old: Obj) -> None:
        """Add what a change makes necessary."""
        del old
        if kind.bucket == "services":
            self._service(new)

    def admit_delete(self, kind: Kind, name: str) -> None:
        """Refuse the removal of what the cluster cannot be without.

        Raises:
            StatusError: 403 for the namespaces that always exist.
        """
        if kind.bucket == "namespaces" and name in IMMORTAL:
            raise forbidden("", "namespaces", name, "this namespace may not be deleted")

    def _pod(self, pod: Obj) -> None:
        spec, metadata = pod["spec"], pod["metadata"]
        if "kubernetes.io/config.mirror" not in metadata.get("annotations", {}):
            self._service_account(pod)
        self._priority(pod)
        tolerations = spec.setdefault("tolerations", [])
        for taint in _TAINTS:
            if not any(_tolerates(toleration, taint) for toleration in tolerations):
                tolerations.append(
                    {
                        "key": taint,
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": _TOLERATION_SECONDS,
                    }
                )

    def _service_account(self, pod: Obj) -> None:
        spec, namespace = pod["spec"], pod["metadata"]["namespace"]
        name = spec.setdefault("serviceAccountName", "default")
        spec["serviceAccount"] = name
        account = self._api.find("serviceaccounts", name, namespace)
        if account is None:
            raise forbidden(
                "",
                "pods",
                pod["metadata"].get("name", ""),
                f"error looking up service account {namespace}/{name}: "
                f'serviceaccount "{name}" not found',
            )
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [dict(secret) for secret in account["imagePullSecrets"]]
        automount = spec.get(
            "automountServiceAccountToken", account.get("automountServiceAccountToken", True)
        )
        if automount:
            _mount_token(spec)

    def _priority(self, pod: Obj) -> None:
        spec = pod["spec"]
        name = spec.get("priorityClassName", "")
        value, preemption = 0, "PreemptLowerPriority"
        if name:
            found = self._api.find("priorityclasses.scheduling.k8s.io", name)
            if found is None:
                raise forbidden(
                    "",
                    "pods",
                    pod["metadata"].get("name", ""),
                    f"no PriorityClass with name {name} was found",
                )
            value = found.get("value", 0)
            preemption = found.get("preemptionPolicy", preemption)
        else:
            for found in self._api.list("priorityclasses.scheduling.k8s.io"):
                if found.get("globalDefault"):
                    spec["priorityClassName"] = found["metadata"]["name"]
                    value = found.get("value", 0)
                    preemption = found.get("preemptionPolicy", preemption)
        if spec.get("priority", value) != value:
            raise forbidden(
                "",
                "pods",
                pod["metadata"].get("name", ""),
                f"the integer value of priority ({spec['priority']}) must not be provided in pod "
                f"spec; priority admission controller computed {value} from the given "
                "PriorityClass name",
            )
        spec["priority"] = value
        spec.setdefault("preemptionPolicy", preemption)

    def _service(self, service: Obj) -> None:
        spec = service["spec"]
        if spec["type"] == "ExternalName":
            return
        address = spec.get("clusterIP") or self._free_address()
        spec["clusterIP"] = address
        spec.setdefault("clusterIPs", [address])
        if address != "None" or spec.get("selector"):
            spec.setdefault("ipFamilies", ["IPv4"])
            spec.setdefault("ipFamilyPolicy", "SingleStack")
        if address != "None" and not _is_address(address):
            raise invalid(
                "",
                "Service",
                service["metadata"].get("name", ""),
                [
                    invalid_value(
                        "spec.clusterIPs[0]",
                        address,
                        "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                    )
                ],
            )
        if spec["type"] in ("NodePort", "LoadBalancer"):
            for port in spec.get("ports", ()):
                if not port.get("nodePort"):
                    port["nodePort"] = self._free_port()

    def _free_address(self) -> str:
        used = {service["spec"].get("clusterIP") for service in self._api.list("services")}
        while True:
            address = str(IPv4Address(self._next_address))
            self._next_address += 1
            if self._next_address > _LAST_ADDRESS:
                self._next_address = _FIRST_ADDRESS
            if address not in used:
                return address

    def _free_port(self) -> int:
        used = {
            port.get("nodePort")
            for service in self._api.list("services")
            for port in service["spec"].get("ports", ())
        }
        while True:
            port = self._next_port
            self._next_port += 1
            if self._next_port > _LAST_NODE_PORT:
                self._next_port = _FIRST_NODE_PORT
            if port not in used:
                return port


def _tolerates(toleration: Obj, taint: str) -> bool:
    return toleration.get("key", taint) == taint and toleration.get("effect", "NoExecute") in (
        "",
        "NoExecute",
    )


def _is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def _mount_token(spec: Obj) -> None:
    """The projected volume through which every container meets the API server."""
    volume = ""
    for field in ("initContainers", "containers"):
        for container in spec.get(field, ()):
            mounts = container.get("volumeMounts", [])
            if any(mount.get("mountPath") == _TOKEN_PATH for mount in mounts):
                continue
            volume = volume or f"kube-api-access-{random_suffix()}"
            mount = {"name": volume, "readOnly": True, "mountPath": _TOKEN_PATH}
            container["volumeMounts"] = [*mounts, mount]
    if volume:
        spec.setdefault("volumes", []).append(
            {
                "name": volume,
                "projected": {
                    "sources": [
                        {
                            "serviceAccountToken": {
                                "expirationSeconds": _TOKEN_SECONDS,
                                "path": "token",
                            }
                        },
                        {
                            "configMap": {
                                "name": "kube-root-ca.crt",
                                "items": [{"key": "ca.crt", "path": "ca.crt"}],
                            }
                        },
                        {
                            "downwardAPI": {
                                "items": [
                                    {
                                        "path": "namespace",
                                        "fieldRef": {
                                            "apiVersion": "v1",
                                            "fieldPath": "metadata.namespace",
                                        },
                                    }
                                ]
                            }
                        },
                    ],
                    "defaultMode": 420,
                },
            }
        )
