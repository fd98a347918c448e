"""The plugins for pods: Priority, RuntimeClass, ServiceAccount and LimitRanger.

LimitRanger also checks claims. Total requests and limits of a pod come first.

Source: k8s.io/kubernetes plugin/pkg/admission/{priority,runtimeclass,serviceaccount,limitranger},
pkg/util/tolerations/tolerations.go; k8s.io/component-helpers resource/helpers.go.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity
from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.objects import clone, name_of, random_suffix
from pytest_kwait.simulator.validation.scheduling import SYSTEM_PRIORITY_CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

ResourceList = dict[str, Quantity]

_PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
_DESCRIPTIONS = {
    "system-node-critical": "Used for system critical pods that must not be moved from their "
    "current node.",
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, but "
    "can be moved to another node if necessary.",
}

_RUNTIME_CLASSES = "runtimeclasses.node.k8s.io"
_OVERHEAD_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_OVERHEAD_WITHOUT_CLASS = (
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
)

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

_ANNOTATION = "kubernetes.io/limit-ranger"
_MAX_MILLI = (2**63 - 1) // 1000
"""The largest amount that is compared in thousandths."""

_ZERO = Quantity(Fraction(0))


def parse_resource_list(listed: Mapping[str, str] | None) -> ResourceList:
    """Parse a resource list of the API."""
    return {name: parse_quantity(value) for name, value in (listed or {}).items()}


def add_resources(total: ResourceList, more: Mapping[str, Quantity]) -> None:
    """Add `more` to `total`, in place."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _max_resources(total: ResourceList, other: Mapping[str, Quantity]) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def is_pod_level_resource(name: str) -> bool:
    """Return whether pods can request the resource as a whole."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def total_pod_resources(
    spec: Obj, part: Literal["requests", "limits"], *, overhead: bool = True
) -> ResourceList:
    """Return the sum of containers or the startup peak, overridden by pod-level resources.

    Args:
        spec: the pod's spec.
        part: `requests` or `limits`.
        overhead: whether to add the pod's overhead.
    """
    total: ResourceList = {}
    for container in spec.get("containers", ()):
        add_resources(total, parse_resource_list(container.get("resources", {}).get(part)))
    sidecars: ResourceList = {}
    peak: ResourceList = {}
    for container in spec.get("initContainers", ()):
        needed = parse_resource_list(container.get("resources", {}).get(part))
        if container.get("restartPolicy") == "Always":
            add_resources(total, needed)
            add_resources(sidecars, needed)
            _max_resources(peak, sidecars)
        else:
            add_resources(needed, sidecars)
            _max_resources(peak, needed)
    _max_resources(total, peak)
    whole = parse_resource_list(spec.get("resources", {}).get(part))
    total.update({name: amount for name, amount in whole.items() if is_pod_level_resource(name)})
    if overhead:
        more = parse_resource_list(spec.get("overhead"))
        if part == "limits":
            more = {name: more[name] for name in more if name in total and total[name].amount}
        add_resources(total, more)
    return total


def system_priority_classes() -> list[Obj]:
    """Return the priority classes of every cluster.

    Source: pkg/apis/scheduling/v1/helpers.go, `SystemPriorityClasses`.
    """
    return [
        {"metadata": {"name": name}, "value": value, "description": _DESCRIPTIONS[name]}
        for name, value in SYSTEM_PRIORITY_CLASSES.items()
    ]


class Priority(AdmissionPlugin):
    """The Priority plugin."""

    buckets = frozenset({"pods", _PRIORITY_CLASSES})

    def __init__(self, api: Cluster) -> None:
        self._api = api

    def admit(self, attributes: Attributes) -> None:
        """Set a new pod's priority; keep an existing one's.

        Raises:
            StatusError: 403, the class is missing or contradicts the pod; 403 for the deletion of a
                system class.
        """
        if attributes.kind.bucket == _PRIORITY_CLASSES:
            if attributes.operation == "DELETE" and attributes.name in SYSTEM_PRIORITY_CLASSES:
                text = "this is a system priority class and cannot be deleted"
                raise attributes.forbidden(text)
            return
        pod = attributes.obj
        if attributes.kind.bucket != "pods" or attributes.subresource or pod is None:
            return
        spec = pod["spec"]
        if attributes.old is not None:
            for field in ("priority", "preemptionPolicy"):
                if field in attributes.old["spec"]:
                    spec.setdefault(field, attributes.old["spec"][field])
            return
        chosen = self._class_of(attributes, spec.get("priorityClassName", ""))
        value, policy = chosen.get("value", 0), chosen.get("preemptionPolicy")
        if chosen:
            spec["priorityClassName"] = name_of(chosen)
        else:
            policy = "PreemptLowerPriority"
        if spec.get("priority", value) != value:
            raise _mismatch_error(attributes, "integer value of priority", spec["priority"], value)
        spec["priority"] = value
        if policy is not None:
            given = spec.setdefault("preemptionPolicy", policy)
            if given != policy:
                raise _mismatch_error(attributes, "string value of PreemptionPolicy", given, policy)

    def validate(self, attributes: Attributes) -> None:
        """Allow only one default class.

        Raises:
            StatusError: 403, another class is the default.
        """
        obj = attributes.obj
        if (
            attributes.kind.bucket != _PRIORITY_CLASSES
            or obj is None
            or not obj.get("globalDefault")
        ):
            return
        present = self._default()
        if present is not None and (
            attributes.operation == "CREATE" or name_of(present) != name_of(obj)
        ):
            raise attributes.forbidden(
                f"PriorityClass {name_of(present)} is already marked as default. Only one default "
                "can exist"
            )

    def _class_of(self, attributes: Attributes, name: str) -> Obj:
        """Return the named or the default class; empty for none."""
        if not name:
            return self._default() or {}
        found = self._api.find(_PRIORITY_CLASSES, name)
        if found is None:
            raise attributes.forbidden(f"no PriorityClass with name {name} was found")
        return found

    def _default(self) -> Obj | None:
        found = [one for one in self._api.list(_PRIORITY_CLASSES) if one.get("globalDefault")]
        return min(found, key=lambda one: int(one.get("value", 0)), default=None)


def _mismatch_error(
    attributes: Attributes, what: str, given: object, computed: object
) -> StatusError:
    return attributes.forbidden(
        f"the {what} ({given}) must not be provided in pod spec; priority admission controller "
        f"computed {computed} from the given PriorityClass name"
    )


def _new_pod(attributes: Attributes) -> Obj | None:
    if attributes.kind.bucket != "pods" or attributes.subresource:
        return None
    return attributes.obj if attributes.operation == "CREATE" else None


class RuntimeClass(AdmissionPlugin):
    """The RuntimeClass plugin."""

    buckets = frozenset({"pods"})

    def __init__(self, api: Cluster) -> None:
        self._api = api

    def admit(self, attributes: Attributes) -> None:
        """Set a new pod's overhead, node selector and tolerations from its class.

        Raises:
            StatusError: 403, the class is missing or contradicts the pod.
        """
        pod = _new_pod(attributes)
        if pod is None or "runtimeClassName" not in pod["spec"]:
            return
        spec, chosen = pod["spec"], self._class_of(attributes, pod["spec"])
        overhead, scheduling = chosen.get("overhead"), chosen.get("scheduling")
        if overhead is not None:
            fixed = overhead.get("podFixed") or {}
            if spec.get("overhead") and not _equal_overheads(fixed, spec["overhead"]):
                raise attributes.forbidden(_OVERHEAD_MISMATCH)
            spec.pop("overhead", None)
            if fixed:
                spec["overhead"] = clone(fixed)
        if scheduling is not None:
            _apply_scheduling(attributes, spec, clone(scheduling))

    def validate(self, attributes: Attributes) -> None:
        """Check that a new pod still has the overhead of its class.

        Raises:
            StatusError: 403, the overhead differs.
        """
        pod = _new_pod(attributes)
        if pod is None:
            return
        spec = pod["spec"]
        if "runtimeClassName" not in spec and "overhead" not in spec:
            return
        overhead = self._class_of(attributes, spec).get("overhead")
        if overhead is not None and not _equal_overheads(
            overhead.get("podFixed") or {}, spec.get("overhead") or {}
        ):
            raise attributes.forbidden(_OVERHEAD_MISMATCH)
        if overhead is None and spec.get("overhead") is not None:
            raise attributes.forbidden(_OVERHEAD_WITHOUT_CLASS)

    def _class_of(self, attributes: Attributes, spec: Obj) -> Obj:
        """Return the pod's class; empty if it names none."""
        name = spec.get("runtimeClassName")
        if name is None:
            return {}
        if not name:
            raise StatusError(500, "", "resource name may not be empty")
        found = self._api.find(_RUNTIME_CLASSES, name)
        if found is None:
            raise attributes.forbidden(f'pod rejected: RuntimeClass "{name}" not found')
        return found


def _equal_overheads(one: dict[str, str], other: dict[str, str]) -> bool:
    return one.keys() == other.keys() and all(
        parse_quantity(amount) == parse_quantity(other[name]) for name, amount in one.items()
    )


def _apply_scheduling(attributes: Attributes, spec: Obj, scheduling: Obj) -> None:
    wanted: dict[str, str] = scheduling.get("nodeSelector") or {}
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in wanted.items():
        if selector.setdefault(key, value) != value:
            raise attributes.forbidden(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
    if selector:
        spec["nodeSelector"] = selector
    tolerations = _merge_tolerations(
        [*spec.get("tolerations", ()), *(scheduling.get("tolerations") or ())]
    )
    if tolerations:
        spec["tolerations"] = tolerations


def _merge_tolerations(tolerations: list[Obj]) -> list[Obj]:
    """Drop tolerations that others cover, and later duplicates."""
    merged: list[Obj] = []
    for index, one in enumerate(tolerations):
        later = (other for other in tolerations[index + 1 :] if other != one)
        if not any(_covers(other, one) for other in (*merged, *later)):
            merged.append(one)
    return merged


def _covers(wide: Obj, narrow: Obj) -> bool:
    """Return whether `wide` tolerates everything that `narrow` does."""
    if wide == narrow:
        return True
    exists = wide.get("operator") == "Exists"
    if wide.get("key", "") != narrow.get("key", "") and (wide.get("key") or not exists):
        return False
    if wide.get("effect") and wide["effect"] != narrow.get("effect", ""):
        return False
    most, requested = wide.get("tolerationSeconds"), narrow.get("tolerationSeconds")
    bounded = wide.get("effect") == "NoExecute" and most is not None
    if bounded and (requested is None or requested > most):
        return False
    if wide.get("operator", "Equal") in ("Equal", ""):
        same = wide.get("value", "") == narrow.get("value", "")
        return narrow.get("operator") == "Equal" and same
    return exists


class ServiceAccount(AdmissionPlugin):
    """The ServiceAccount plugin."""

    buckets = frozenset({"pods"})

    def __init__(self, api: Cluster) -> None:
        self._api = api

    def admit(self, attributes: Attributes) -> None:
        """Set a new pod's account, its pull secrets and its token volume.

        Raises:
            StatusError: 403, the account is missing or not allowed.
        """
        pod = _new_pod(attributes)
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
        pod = _new_pod(attributes)
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
        account = self._api.find("serviceaccounts", name, namespace)
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
    for field, shown in (("initContainers", "init container"), ("containers", "container")):
        for container in spec.get(field, ()):
            for how, secret in _container_secrets(container):
                if secret not in mountable:
                    container_text = f"{shown} {container.get('name', '')} with {how}"
                    return f'{container_text} referencing secret.secretName="{secret}" {end} secret'
    pull = {secret.get("name", "") for secret in account.get("imagePullSecrets", ())}
    for index, secret in enumerate(spec.get("imagePullSecrets", ())):
        given = secret.get("name", "")
        if given not in pull:
            return f'imagePullSecrets[{index}].name="{given}" {end} imagePullSecret'
    return ""


def _mount_token(spec: Obj, caller: Caller) -> None:
    """Mount the token volume in every container."""
    names = [volume.get("name", "") for volume in spec.get("volumes", ())]
    present = next((name for name in names if name.startswith(_TOKEN_VOLUME_PREFIX)), "")
    volume = present or _TOKEN_VOLUME_PREFIX + random_suffix()
    mount = {"name": volume, "readOnly": True, "mountPath": _TOKEN_PATH}
    mounted = False
    for field in ("initContainers", "containers"):
        for container in spec.get(field, ()):
            mounts = container.get("volumeMounts", [])
            if not any(one.get("mountPath") == _TOKEN_PATH for one in mounts):
                container["volumeMounts"] = [*mounts, dict(mount)]
                mounted = True
    if mounted and not present:
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


class LimitRanger(AdmissionPlugin):
    """The LimitRanger plugin."""

    buckets = frozenset({"pods", "persistentvolumeclaims"})

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._ranges = api.store.present("limitranges")

    def admit(self, attributes: Attributes) -> None:
        """Set the default requests and limits of a pod's containers, and annotate the pod."""
        pod = attributes.obj
        if attributes.kind.bucket != "pods" or pod is None:
            return
        for limits in self._limits(attributes):
            _apply_defaults(pod, limits)

    def validate(self, attributes: Attributes) -> None:
        """Deny resources beyond a limit range.

        Raises:
            StatusError: 403, with all violations of one limit range.
        """
        obj = attributes.obj
        if obj is None:
            return
        for limits in self._limits(attributes):
            if attributes.kind.bucket == "pods":
                found = [text for limit in limits for text in _pod_violations(limit, obj)]
            else:
                found = [text for limit in limits for text in _claim_violations(limit, obj)]
            texts = list(dict.fromkeys(found))
            if texts:
                text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
                raise attributes.forbidden(text)

    def _limits(self, attributes: Attributes) -> Iterator[list[Obj]]:
        """Yield the limits of each limit range that applies to the request."""
        if not self._ranges or not _is_limited(attributes):
            return
        for found in self._api.list("limitranges", attributes.namespace):
            yield found.get("spec", {}).get("limits", [])


def _is_limited(attributes: Attributes) -> bool:
    old = attributes.old
    if attributes.operation == "DELETE" or (old and "deletionTimestamp" in old["metadata"]):
        return False
    if attributes.kind.bucket == "pods":
        change = attributes.operation == "UPDATE"
        return attributes.subresource == ("resize" if change else "")
    return attributes.kind.bucket == "persistentvolumeclaims" and not attributes.subresource


def _apply_defaults(pod: Obj, limits: Iterable[Obj]) -> None:
    defaults: dict[str, dict[str, str]] = {"limits": {}, "requests": {}}
    for limit in limits:
        if limit.get("type") == "Container":
            defaults["limits"].update(limit.get("default", {}))
            defaults["requests"].update(limit.get("defaultRequest", {}))
    notes: list[str] = []
    for field, shown in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(field, ()):
            resources = dict(container.get("resources", {}))
            for part, word in (("requests", "request"), ("limits", "limit")):
                given, usual = resources.get(part, {}), defaults[part]
                missing = {name: usual[name] for name in usual if name not in given}
                if missing:
                    resources[part] = {**given, **missing}
                    names = ", ".join(sorted(missing))
                    notes.append(f"{names} {word} for {shown} {container.get('name', '')}")
            container["resources"] = resources
    if notes:
        annotations = pod["metadata"].get("annotations", {})
        note = f"LimitRanger plugin set: {'; '.join(notes)}"
        pod["metadata"]["annotations"] = {**annotations, _ANNOTATION: note}


def _pod_violations(limit: Obj, pod: Obj) -> Iterator[str]:
    spec, kind = pod["spec"], limit.get("type", "")
    if kind == "Container":
        for field in ("containers", "initContainers"):
            for container in spec.get(field, ()):
                resources = container.get("resources", {})
                requests = parse_resource_list(resources.get("requests"))
                yield from _violations(
                    limit, requests, parse_resource_list(resources.get("limits"))
                )
    elif kind == "Pod":
        requests = total_pod_resources(spec, "requests", overhead=False)
        yield from _violations(limit, requests, total_pod_resources(spec, "limits", overhead=False))


def _claim_violations(limit: Obj, claim: Obj) -> Iterator[str]:
    kind = limit.get("type", "")
    if kind != "PersistentVolumeClaim":
        return
    requests = parse_resource_list(claim["spec"].get("resources", {}).get("requests"))
    for name, least in sorted(parse_resource_list(limit.get("min")).items()):
        yield from _min_violations(kind, name, least, requests, {})
    for name, most in sorted(parse_resource_list(limit.get("max")).items()):
        start = f"maximum {name} usage per {kind} is {most}"
        if name not in requests:
            yield f"{start}.  No request is specified"
        elif _exceeds(requests[name], most):
            yield f"{start}, but request is {requests[name]}"


def _violations(limit: Obj, requests: ResourceList, limits: ResourceList) -> Iterator[str]:
    kind = limit["type"]
    for name, least in sorted(parse_resource_list(limit.get("min")).items()):
        yield from _min_violations(kind, name, least, requests, limits)
    for name, most in sorted(parse_resource_list(limit.get("max")).items()):
        yield from _max_violations(kind, name, most, requests, limits)
    for name, ratio in sorted(parse_resource_list(limit.get("maxLimitRequestRatio")).items()):
        yield from _ratio_violations(kind, name, ratio, requests, limits)


def _min_violations(
    kind: str, name: str, least: Quantity, requests: ResourceList, limits: ResourceList
) -> Iterator[str]:
    start = f"minimum {name} usage per {kind} is {least}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif _exceeds(least, requests[name]):
        yield f"{start}, but request is {requests[name]}"
    elif name in limits and _exceeds(least, limits[name]):
        yield f"{start}, but limit is {limits[name]}"


def _max_violations(
    kind: str, name: str, most: Quantity, requests: ResourceList, limits: ResourceList
) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {most}"
    if name not in limits:
        yield f"{start}.  No limit is specified"
    elif _exceeds(limits[name], most):
        yield f"{start}, but limit is {limits[name]}"
    elif name in requests and _exceeds(requests[name], most):
        yield f"{start}, but request is {requests[name]}"


def _ratio_violations(
    kind: str, name: str, ratio: Quantity, requests: ResourceList, limits: ResourceList
) -> Iterator[str]:
    start = f"{name} max limit to request ratio per {kind} is {ratio}"
    request, limit = requests.get(name, _ZERO), limits.get(name, _ZERO)
    if not request.amount:
        yield f"{start}, but no request is specified or request is 0"
    elif not limit.amount:
        yield f"{start}, but no limit is specified or limit is 0"
    else:
        observed = limit.amount / request.amount
        if observed > ratio.amount:
            yield f"{start}, but provided ratio is {float(observed):f}"


def _exceeds(one: Quantity, other: Quantity) -> bool:
    """Compare in thousandths, or huge amounts in whole units, rounded up."""
    unit = 1000 if max(one.amount, other.amount) <= _MAX_MILLI else 1
    return math.ceil(one.amount * unit) > math.ceil(other.amount * unit)
