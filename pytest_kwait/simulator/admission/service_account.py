"""The plugin ServiceAccount: the account of a pod, its secrets and its token.

Source: k8s.io/kubernetes plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes, get_new_pod
from pytest_kwait.simulator.objects import random_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_ENFORCE_SECRETS_ANNOTATION = "kubernetes.io/enforce-mountable-secrets"
_TRUE_TEXTS = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_TOKEN_VOLUME_PREFIX = "kube-api-access-"  # noqa: S105 - a name, no secret
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path, no secret
_TOKEN_SECONDS = 3607
_SECRET_VOLUMES = (
    ("secret", "secretName"),
    ("azureFile", "secretName"),
)
_SECRET_REFERENCES = (
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("storageos", "secretRef"),
    ("csi", "nodePublishSecretRef"),
)


class ServiceAccount(AdmissionPlugin):
    """The ServiceAccount plugin."""

    buckets = frozenset({"pods"})

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def admit(self, attributes: Attributes) -> None:
        """Set a new pod's account, its pull secrets and its token volume.

        Raises:
            StatusError: 403, the account is missing or not allowed.
        """
        pod = get_new_pod(attributes)
        if pod is None:
            return
        if not _is_mirror(pod):
            spec = pod["spec"]
            name = spec.get("serviceAccountName") or "default"
            spec["serviceAccountName"] = spec["serviceAccount"] = name
            account = self._account(attributes, name)
            if spec.get(
                "automountServiceAccountToken", account.get("automountServiceAccountToken", True)
            ):
                _mount_token(spec, attributes.caller)
            if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
                spec["imagePullSecrets"] = [
                    {"name": secret.get("name", "")} for secret in account["imagePullSecrets"]
                ]
        self.validate(attributes)

    def validate(self, attributes: Attributes) -> None:
        """Check that the account may mount a new pod's secrets.

        Raises:
            StatusError: 403, a secret is not the account's, or the pod is a mirror pod.
        """
        pod = get_new_pod(attributes)
        if pod is None:
            return
        spec = pod["spec"]
        if _is_mirror(pod):
            _check_mirror(attributes, spec)
            return
        name = spec.get("serviceAccountName")
        if not name:
            where = f"{attributes.namespace}/{pod['metadata'].get('name', '')}"
            raise attributes.forbidden(f"no service account specified for pod {where}")
        account = self._account(attributes, name)
        if (
            account["metadata"].get("annotations", {}).get(_ENFORCE_SECRETS_ANNOTATION)
            in _TRUE_TEXTS
        ):
            why = _find_forbidden_secret(spec, account)
            if why:
                raise attributes.forbidden(why)

    def _account(self, attributes: Attributes, name: str) -> Obj:
        namespace = attributes.namespace
        account = self._cluster.find("serviceaccounts", name, namespace)
        if account is None:
            raise attributes.forbidden(
                f"error looking up service account {namespace}/{name}: "
                f'serviceaccount "{name}" not found'
            )
        return account


def _is_mirror(pod: Obj) -> bool:
    return _MIRROR_ANNOTATION in pod["metadata"].get("annotations", {})


def _check_mirror(attributes: Attributes, spec: Obj) -> None:
    if spec.get("serviceAccountName"):
        raise attributes.forbidden("a mirror pod may not reference service accounts")
    if any(True for _ in _visit_secret_names(spec)):
        raise attributes.forbidden("a mirror pod may not reference secrets")
    for volume in spec.get("volumes", ()):
        for source in volume.get("projected", {}).get("sources", ()):
            if "serviceAccountToken" in source:
                raise attributes.forbidden(
                    "a mirror pod may not use ServiceAccountToken volume projections"
                )


def _visit_secret_names(spec: Obj) -> Iterator[str]:
    """Yield the secrets that a pod names. Source: pkg/api/pod/util.go, `VisitPodSecretNames`."""
    for secret in spec.get("imagePullSecrets", ()):
        yield secret.get("name", "")
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field, ()):
            for _, name in _container_secrets(container):
                yield name
    for volume in spec.get("volumes", ()):
        for kind, key in _SECRET_VOLUMES:
            if volume.get(kind, {}).get(key):
                yield volume[kind][key]
        for kind, key in _SECRET_REFERENCES:
            if volume.get(kind, {}).get(key):
                yield volume[kind][key].get("name", "")
        for source in volume.get("projected", {}).get("sources", ()):
            if "secret" in source:
                yield source["secret"].get("name", "")


def _container_secrets(container: Obj) -> Iterator[tuple[str, str]]:
    """Yield the kind of each secret reference of a container, and the secret."""
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("secretKeyRef")
        if reference is not None:
            yield f"envVar {variable.get('name', '')}", reference.get("name", "")
    for source in container.get("envFrom", ()):
        if "secretRef" in source:
            yield "envFrom", source["secretRef"].get("name", "")


def _find_forbidden_secret(spec: Obj, account: Obj) -> str:
    """Return the first secret that the account may not mount; empty for none."""
    name = account["metadata"]["name"]
    mountable = {secret.get("name", "") for secret in account.get("secrets", ())}
    end = f"is not allowed because service account {name} does not reference that"
    for volume in spec.get("volumes", ()):
        secret = volume.get("secret", {}).get("secretName", "")
        if "secret" in volume and secret not in mountable:
            return f'volume with secret.secretName="{secret}" {end} secret'
    for field, container_noun in (
        ("initContainers", "init container"),
        ("containers", "container"),
    ):
        for container in spec.get(field, ()):
            for how, secret in _container_secrets(container):
                if secret not in mountable:
                    container_text = f"{container_noun} {container.get('name', '')} with {how}"
                    return f'{container_text} referencing secret.secretName="{secret}" {end} secret'
    pull = {secret.get("name", "") for secret in account.get("imagePullSecrets", ())}
    for index, secret in enumerate(spec.get("imagePullSecrets", ())):
        secret_name = secret.get("name", "")
        if secret_name not in pull:
            return f'imagePullSecrets[{index}].name="{secret_name}" {end} imagePullSecret'
    return ""


def _mount_token(spec: Obj, caller: Caller) -> None:
    """Mount the token volume in every container."""
    names = [volume.get("name", "") for volume in spec.get("volumes", ())]
    token_volume = next((name for name in names if name.startswith(_TOKEN_VOLUME_PREFIX)), "")
    volume = token_volume or _TOKEN_VOLUME_PREFIX + random_suffix()
    mount = {"name": volume, "readOnly": True, "mountPath": _TOKEN_PATH}
    mounted = False
    for field in ("initContainers", "containers"):
        for container in spec.get(field, ()):
            mounts = container.get("volumeMounts", [])
            if not any(mount.get("mountPath") == _TOKEN_PATH for mount in mounts):
                container["volumeMounts"] = [*mounts, dict(mount)]
                mounted = True
    if mounted and not token_volume:
        projected = {"sources": _token_sources(), "defaultMode": 420}
        spec["volumes"] = [*spec.get("volumes", ()), {"name": volume, "projected": projected}]


def _token_sources() -> list[Obj]:
    root = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    reference = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": root},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": reference}]}},
    ]
