"""Pods and pod templates: defaults, quality of service, what may change once they exist.

Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go,
pkg/registry/core/pod/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.algorithm.quantities import parse_quantity
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.status_error import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.simulator.strategies.generic import Strategy
from pytest_kwait.simulator.validation import label_errors, name_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "PodStrategy",
    "default_pod_spec",
    "quality_of_service",
    "validate_pod_spec",
    "validate_template",
]

_CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)
_LISTS = ("initContainers", "containers")


def default_pod_spec(spec: Obj) -> None:
    """Defaults that depend on other fields, for pods and templates alike."""
    for field in (*_LISTS, "ephemeralContainers"):
        for container in spec.get(field, ()):
            _default_container(container, bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes", ()):
        if not any(key != "name" for key in volume):
            volume["emptyDir"] = {}
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]


def _default_container(container: Obj, host_network: bool) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = (
            "Always" if _tag(container.get("image", "")) == "latest" else "IfNotPresent"
        )
    container.setdefault("resources", {})
    if host_network:
        for port in container.get("ports", ()):
            port.setdefault("hostPort", port.get("containerPort", 0))


def _tag(image: str) -> str:
    """The tag of an image reference: `latest` where it has none, empty with a digest."""
    if "@" in image:
        return ""
    last = image.rpartition("/")[2]
    return last.partition(":")[2] or "latest"


def quality_of_service(spec: Obj) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`. Source: pkg/apis/core/v1/helper/qos."""
    requests: set[str] = set()
    limits: set[str] = set()
    guaranteed = True
    for field in _LISTS:
        for container in spec.get(field, ()):
            resources = container.get("resources", {})
            asked = {
                name: value
                for name, value in resources.get("requests", {}).items()
                if name in ("cpu", "memory") and value not in ("0", "")
            }
            most = {
                name: value
                for name, value in resources.get("limits", {}).items()
                if name in ("cpu", "memory") and value not in ("0", "")
            }
            requests |= asked.keys()
            limits |= most.keys()
            if most.keys() != {"cpu", "memory"} or any(
                asked.get(name, value) != value for name, value in most.items()
            ):
                guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def validate_pod_spec(
    spec: Obj, path: str, *, restart_policies: tuple[str, ...] = ("Always", "OnFailure", "Never")
) -> list[FieldError]:
    """What is wrong with a pod's or a template's spec."""
    errors: list[FieldError] = []
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes", ())):
        at = f"{path}.volumes[{index}]"
        name = volume.get("name", "")
        errors += _label_name(name, f"{at}.name")
        if name in volumes:
            errors.append(duplicate(f"{at}.name", name))
        volumes.add(name)
    containers = spec.get("containers") or []
    if not containers:
        errors.append(required(f"{path}.containers"))
    names: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field, ())):
            errors += _validate_container(container, f"{path}.{field}[{index}]", names, volumes)
    policy = spec.get("restartPolicy")
    if not policy:
        errors.append(required(f"{path}.restartPolicy"))
    elif policy not in restart_policies:
        errors.append(not_supported(f"{path}.restartPolicy", policy, restart_policies))
    dns = spec.get("dnsPolicy")
    if dns not in ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"):
        errors.append(
            not_supported(
                f"{path}.dnsPolicy",
                dns,
                ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
            )
        )
    errors += label_errors(spec.get("nodeSelector", {}), f"{path}.nodeSelector")
    account = spec.get("serviceAccountName")
    if account:
        errors += [
            invalid_value(f"{path}.serviceAccountName", account, text)
            for text in name_errors(account)
        ]
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        errors.append(
            invalid_value(
                f"{path}.activeDeadlineSeconds",
                deadline,
                "must be between 1 and 2147483647, inclusive",
            )
        )
    return errors


def _label_name(name: str, at: str) -> list[FieldError]:
    if not name:
        return [required(at)]
    return [invalid_value(at, name, text) for text in name_errors(name, label=True)]


def _validate_container(
    container: Obj, at: str, names: set[str], volumes: set[str]
) -> list[FieldError]:
    errors = []
    name = container.get("name", "")
    errors += _label_name(name, f"{at}.name")
    if name and name in names:
        errors.append(duplicate(f"{at}.name", name))
    names.add(name)
    image = container.get("image", "")
    if not image:
        errors.append(required(f"{at}.image"))
    elif image != image.strip():
        errors.append(
            invalid_value(f"{at}.image", image, "must not have leading or trailing whitespace")
        )
    ports: set[str] = set()
    for index, port in enumerate(container.get("ports", ())):
        number = port.get("containerPort", 0)
        if number == 0:
            errors.append(required(f"{at}.ports[{index}].containerPort"))
        elif not 1 <= number <= 65535:
            errors.append(
                invalid_value(
                    f"{at}.ports[{index}].containerPort",
                    number,
                    "must be between 1 and 65535, inclusive",
                )
            )
        protocol = port.get("protocol")
        if protocol not in ("SCTP", "TCP", "UDP"):
            errors.append(
                not_supported(f"{at}.ports[{index}].protocol", protocol, ("SCTP", "TCP", "UDP"))
            )
        port_name = port.get("name")
        if port_name:
            if port_name in ports:
                errors.append(duplicate(f"{at}.ports[{index}].name", port_name))
            ports.add(port_name)
    for index, variable in enumerate(container.get("env", ())):
        if not variable.get("name"):
            errors.append(required(f"{at}.env[{index}].name"))
    for index, mount in enumerate(container.get("volumeMounts", ())):
        where = f"{at}.volumeMounts[{index}]"
        if not mount.get("name"):
            errors.append(required(f"{where}.name"))
        elif mount["name"] not in volumes:
            errors.append(
                FieldError("FieldValueNotFound", f"{where}.name", f'Not found: "{mount["name"]}"')
            )
        if not mount.get("mountPath"):
            errors.append(required(f"{where}.mountPath"))
    policy = container.get("imagePullPolicy")
    if policy not in ("Always", "IfNotPresent", "Never"):
        errors.append(
            not_supported(f"{at}.imagePullPolicy", policy, ("Always", "IfNotPresent", "Never"))
        )
    errors += _validate_resources(container.get("resources", {}), f"{at}.resources")
    return errors


def _validate_resources(resources: Obj, at: str) -> list[FieldError]:
    errors = []
    for field in ("limits", "requests"):
        for name, value in resources.get(field, {}).items():
            if parse_quantity(value).amount < 0:
                errors.append(
                    invalid_value(
                        f"{at}.{field}[{name}]", value, "must be greater than or equal to 0"
                    )
                )
    limits = resources.get("limits", {})
    for name, value in resources.get("requests", {}).items():
        if name in limits and parse_quantity(limits[name]) < parse_quantity(value):
            errors.append(
                invalid_value(
                    f"{at}.requests",
                    value,
                    f"must be less than or equal to {name} limit of {limits[name]}",
                )
            )
    return errors


class PodStrategy(Strategy):
    """Pods."""

    def default(self, obj: Obj) -> None:
        """Defaults of the spec, those of pods alone included."""
        super().default(obj)
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        for field in _LISTS:
            for container in spec.get(field, ()):
                resources = container["resources"]
                limits = resources.get("limits", {})
                if limits:
                    requests = resources.setdefault("requests", {})
                    for name, value in limits.items():
                        requests.setdefault(name, value)

    def prepare_create(self, obj: Obj) -> None:
        """Pending, with the quality of service that its resources make."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": obj["metadata"]["creationTimestamp"],
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """The spec's rules."""
        return validate_pod_spec(obj.get("spec", {}), "spec")

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """A pod's spec hardly changes at all."""
        spec, before = new.get("spec", {}), old.get("spec", {})
        if spec == before:
            return []
        errors: list[FieldError] = []
        for field in _LISTS:
            after = len(spec.get(field, ()))
            if after != len(before.get(field, ())):
                text = "pod updates may not add or remove containers"
                errors.append(forbidden_field(f"spec.{field}", text))
        if errors:
            return errors
        errors += _validate_tolerations(spec, before)
        allowed = clone(spec)
        for field in _LISTS:
            for container, was in zip(allowed.get(field, ()), before.get(field, ()), strict=True):
                if not container.get("image"):
                    errors.append(required(f"spec.{field}[0].image"))
                container["image"] = was.get("image", "")
        for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
            if field in before:
                allowed[field] = before[field]
            else:
                allowed.pop(field, None)
        if before.get("schedulingGates"):
            for field in ("nodeSelector", "affinity"):
                if field in before:
                    allowed[field] = before[field]
                else:
                    allowed.pop(field, None)
        if (
            before.get("terminationGracePeriodSeconds", 0) < 0
            and spec.get("terminationGracePeriodSeconds") == 1
        ):
            allowed["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
        if allowed != before:
            errors.append(forbidden_field("spec", _CHANGEABLE))
        return errors

    def grace(self, obj: Obj, asked: int | None) -> int | None:
        """The asked or the pod's own period; none at all before it runs and after it ended."""
        spec, status = obj.get("spec", {}), obj.get("status", {})
        period = asked if asked is not None else int(spec.get("terminationGracePeriodSeconds", 0))
        if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
            return 0
        return 1 if period < 0 else period

    def prepare_status(self, new: Obj, old: Obj) -> None:
        """The quality of service stays, whoever forgets it."""
        super().prepare_status(new, old)
        before = old.get("status", {})
        status = new.setdefault("status", {})
        if "qosClass" in before:
            status.setdefault("qosClass", before["qosClass"])


def _validate_tolerations(spec: Obj, before: Obj) -> list[FieldError]:
    kept: list[Any] = spec.get("tolerations", [])
    for toleration in before.get("tolerations", ()):
        if not any(_extends(one, toleration) for one in kept):
            text = "existing toleration can not be modified except its tolerationSeconds"
            return [forbidden_field("spec.tolerations", text)]
    return []


def _extends(new: Obj, old: Obj) -> bool:
    return {**new, "tolerationSeconds": None} == {**old, "tolerationSeconds": None}


def validate_template(
    template: Obj, path: str, *, restart_policies: tuple[str, ...] = ("Always",)
) -> list[FieldError]:
    """What is wrong with a pod template."""
    labels = template.get("metadata", {}).get("labels", {})
    return [
        *label_errors(labels, f"{path}.labels"),
        *validate_pod_spec(
            template.get("spec", {}), f"{path}.spec", restart_policies=restart_policies
        ),
    ]
