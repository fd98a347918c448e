"""Validation of containers, init containers and ephemeral containers.

Covers environment variables, ports, probes, lifecycle hooks, volume mounts and devices, restart and
resize policies.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateEnv, ValidateEnvFrom,
validateContainers, validateInitContainers, validateEphemeralContainers, validateContainerCommon,
validateProbe, validateHandler, validateLifecycle, ValidateVolumeMounts, ValidateVolumeDevices,
validateContainerRestartPolicy, validateInitContainerRestartPolicy, validateResizePolicy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList
from pytest_kwait.apimachinery.validation import (
    config_key_texts,
    dns_label_texts,
    dns_subdomain_texts,
    environment_name_texts,
    header_name_texts,
    port_name_texts,
    port_number_texts,
)
from pytest_kwait.simulator.validation.core.pods.security import validate_container_security_context
from pytest_kwait.simulator.validation.core.resources import validate_resource_requirements
from pytest_kwait.simulator.validation.core.volumes import (
    validate_local_descending_path,
    validate_object_field_selector,
    validate_path_no_backsteps,
    validate_resource_field_selector,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kwait.simulator.objects import Obj

_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_NO_SOURCE = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
    "`fileKeyRef`"
)
_MORE_THAN_ONE_SOURCE = "may not have more than one field specified at a time"
_SCHEMES = ("HTTP", "HTTPS")
_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_LIFECYCLE_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")

_MOUNT_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY_MODES = ("Disabled", "Enabled", "IfPossible")

_CONTAINER_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_MAX_RULES, _MAX_CODES = 20, 255
_RESIZABLE_RESOURCES = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PROBES_AND_LIFECYCLE = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL = (
    # In the order of the fields of kube-apiserver's type.
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)

_PORT_COUNT = 65536


def validate_env(variables: Iterable[Obj], at: str) -> ErrorList:
    """Validate the environment variables of a container."""
    errors = ErrorList()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            errors.required(f"{at}[{index}].name")
        elif not (name.isascii() and name.isidentifier()):
            errors.invalid_each(f"{at}[{index}].name", name, environment_name_texts(name))
        if "valueFrom" in variable:
            errors += _validate_env_source(variable, f"{at}[{index}].valueFrom")
    return errors


def _validate_env_source(variable: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    source = variable["valueFrom"]
    if "fieldRef" in source:
        errors += validate_object_field_selector(source["fieldRef"], _ENV_FIELDS, f"{at}.fieldRef")
    if "resourceFieldRef" in source:
        here = f"{at}.resourceFieldRef"
        errors += validate_resource_field_selector(
            source["resourceFieldRef"], here, of_volume=False
        )
    for field in ("configMapKeyRef", "secretKeyRef"):
        if field in source:
            errors += _validate_key_ref(source[field], f"{at}.{field}")
    if "fileKeyRef" in source:
        errors += _validate_file_ref(source["fileKeyRef"], f"{at}.fileKeyRef")
    if not source:
        errors.invalid(at, "", _NO_SOURCE)
    elif variable.get("value"):
        errors.invalid(at, "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        errors.invalid(at, "", _MORE_THAN_ONE_SOURCE)
    return errors


def _validate_key_ref(ref: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    name, key = ref.get("name", ""), ref.get("key", "")
    errors.invalid_each(f"{at}.name", name, dns_subdomain_texts(name))
    errors.require_valid(f"{at}.key", key, config_key_texts)
    return errors


def _validate_file_ref(ref: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    key, volume, path = ref.get("key", ""), ref.get("volumeName", ""), ref.get("path", "")
    errors.require_valid(f"{at}.key", key, environment_name_texts)
    errors.require_valid(f"{at}.volumeName", volume, dns_label_texts)
    if not path:
        errors.required(f"{at}.path")
    else:
        errors += validate_path_no_backsteps(path, f"{at}.path")
    return errors


def validate_env_from(imports: Iterable[Obj], at: str) -> ErrorList:
    """Validate the config maps and secrets whose keys become variables."""
    errors = ErrorList()
    for index, entry in enumerate(imports):
        prefix = entry.get("prefix", "")
        if prefix:
            errors.invalid_each(f"{at}[{index}].prefix", prefix, environment_name_texts(prefix))
        sources = [field for field in ("configMapRef", "secretRef") if field in entry]
        for field in sources:
            name = entry[field].get("name", "")
            if not name:
                errors.required(f"{at}[{index}].{field}.name")
            else:
                masked = f"{name[:-2]}a" if len(name) > 1 and name[-1] == "-" else name
                texts = dns_subdomain_texts(masked)
                errors.invalid_each(f"{at}[{index}].{field}.name", name, texts)
        if not sources:
            errors.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(sources) > 1:
            errors.invalid(at, "", _MORE_THAN_ONE_SOURCE)
    return errors


def validate_file_key_volumes(container: Obj, at: str, volumes: Mapping[str, Obj]) -> ErrorList:
    """Validate that variables from files name `emptyDir` volumes."""
    errors = ErrorList()
    for index, variable in enumerate(container.get("env", ())):
        ref = variable.get("valueFrom", {}).get("fileKeyRef")
        if ref is None:
            continue
        here, name = f"{at}.env[{index}].valueFrom.fileKeyRef.volumeName", ref.get("volumeName", "")
        if name not in volumes:
            errors.not_found(here, name)
        elif "emptyDir" not in volumes[name]:
            errors.invalid(here, name, "referenced volume must be of type emptyDir")
    return errors


def validate_probes(container: Obj, grace: int | None, at: str) -> ErrorList:
    """Validate the three probes of a container."""
    errors = ErrorList()
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        if field in container:
            errors += _validate_probe(container[field], field, grace, f"{at}.{field}")
    return errors


def _validate_probe(probe: Obj, field: str, grace: int | None, at: str) -> ErrorList:
    errors = _validate_handler(probe, _PROBE_HANDLERS, grace, at)
    errors.require_not_negative(
        probe,
        at,
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    )
    own = probe.get("terminationGracePeriodSeconds")
    if own is not None and own <= 0:
        errors.invalid(f"{at}.terminationGracePeriodSeconds", own, "must be greater than 0")
    if field == "readinessProbe":
        if own is not None:
            text = "must not be set for readinessProbes"
            errors.invalid(f"{at}.terminationGracePeriodSeconds", own, text)
    elif probe.get("successThreshold", 0) != 1:
        errors.invalid(f"{at}.successThreshold", probe.get("successThreshold", 0), "must be 1")
    return errors


def validate_lifecycle(lifecycle: Obj, grace: int | None, at: str) -> ErrorList:
    """Validate the lifecycle hooks of a container."""
    errors = ErrorList()
    for field in ("postStart", "preStop"):
        if field in lifecycle:
            errors += _validate_handler(
                lifecycle[field], _LIFECYCLE_HANDLERS, grace, f"{at}.{field}"
            )
    return errors


def _validate_handler(
    handler: Obj, kinds: tuple[str, ...], grace: int | None, at: str
) -> ErrorList:
    errors = ErrorList()
    taken = False
    for kind in kinds:
        action = handler.get(kind)
        if action is None:
            continue
        if taken:
            errors.forbidden(f"{at}.{kind}", "may not specify more than 1 handler type")
            continue
        taken = True
        if kind == "exec":
            if not action.get("command"):
                errors.required(f"{at}.exec.command")
        elif kind == "httpGet":
            errors += _validate_http_get(action, f"{at}.httpGet")
        elif kind == "sleep":
            seconds = action.get("seconds", 0)
            if grace is not None and not 0 <= seconds <= grace:
                text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                errors.invalid(f"{at}.sleep", seconds, text)
        else:
            errors += _validate_handler_port(action.get("port", 0), f"{at}.{kind}.port")
    if not taken:
        errors.required(at, "must specify a handler type")
    return errors


def _validate_http_get(action: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    errors.require_fields(action, at, "path")
    errors += _validate_handler_port(action.get("port", 0), f"{at}.port")
    scheme = action.get("scheme", "")
    errors.require_supported(f"{at}.scheme", scheme, _SCHEMES)
    for header in action.get("httpHeaders", ()):
        name = header.get("name", "")
        errors.invalid_each(f"{at}.httpHeaders", name, header_name_texts(name))
    return errors


def _validate_handler_port(port: int | str, at: str) -> ErrorList:
    errors = ErrorList()
    texts = port_name_texts(port) if isinstance(port, str) else port_number_texts(port)
    errors.invalid_each(at, port, texts)
    return errors


def validate_volume_mounts(container: Obj, volumes: Mapping[str, Obj], at: str) -> ErrorList:
    """Validate a container's mounts; errors about sub paths name the list itself."""
    errors = ErrorList()
    devices = {device.get("name", ""): device for device in container.get("volumeDevices", ())}
    device_paths = {device.get("devicePath", "") for device in devices.values()}
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        name, path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.required(f"{at}[{index}].name")
        if name not in volumes:
            errors.not_found(f"{at}[{index}].name", name)
        if not path:
            errors.required(f"{at}[{index}].mountPath")
        if path in paths:
            errors.invalid(f"{at}[{index}].mountPath", path, "must be unique")
        paths.add(path)
        if name in devices:
            errors.invalid(f"{at}[{index}].name", name, "must not already exist in volumeDevices")
        if path in device_paths:
            text = "must not already exist as a path in volumeDevices"
            errors.invalid(f"{at}[{index}].mountPath", path, text)
        errors += _validate_mount_options(container, mount, index, at)
    return errors


def _validate_mount_options(container: Obj, mount: Obj, index: int, at: str) -> ErrorList:
    errors = ErrorList()
    if mount.get("subPath"):
        errors += validate_local_descending_path(mount["subPath"], f"{at}.subPath")
    expression = mount.get("subPathExpr")
    if expression:
        if mount.get("subPath"):
            text = "subPathExpr and subPath are mutually exclusive"
            errors.invalid(f"{at}[{index}].subPathExpr", expression, text)
        errors += validate_local_descending_path(expression, f"{at}.subPathExpr")
    propagation, here = mount.get("mountPropagation"), f"{at}.mountPropagation"
    if propagation is not None:
        if propagation not in _MOUNT_PROPAGATIONS:
            errors.not_supported(here, propagation, _MOUNT_PROPAGATIONS)
        privileged = (container.get("securityContext") or {}).get("privileged")
        if propagation == "Bidirectional" and not privileged:
            errors.forbidden(
                here, "Bidirectional mount propagation is available only to privileged containers"
            )
    recursive, here = mount.get("recursiveReadOnly"), f"{at}.recursiveReadOnly"
    if recursive is None or recursive == "Disabled":
        return errors
    if recursive not in _RECURSIVE_READ_ONLY_MODES:
        errors.not_supported(here, recursive, _RECURSIVE_READ_ONLY_MODES)
        return errors
    if not mount.get("readOnly"):
        errors.forbidden(here, "may only be specified when readOnly is true")
    if propagation not in (None, "None"):
        text = "may only be specified when mountPropagation is None or not specified"
        errors.forbidden(here, text)
    return errors


def validate_volume_devices(container: Obj, volumes: Mapping[str, Obj], at: str) -> ErrorList:
    """Validate the block devices of a container."""
    errors = ErrorList()
    mounts = {
        mount.get("name", ""): mount.get("mountPath", "")
        for mount in container.get("volumeMounts", ())
    }
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices", ())):
        name, path = device.get("name", ""), device.get("devicePath", "")
        at_name, at_path = f"{at}[{index}].name", f"{at}[{index}].devicePath"
        volume = volumes.get(name)
        if not name:
            errors.required(at_name)
        if name in names:
            errors.invalid(at_name, name, "must be unique")
        if volume is not None and not {"persistentVolumeClaim", "ephemeral"} & volume.keys():
            errors.invalid(
                at_name,
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block "
                "mode",
            )
        if volume is None:
            errors.not_found(at_name, name)
        if not path:
            errors.required(at_path)
        if path in paths:
            errors.invalid(at_path, path, "must be unique")
        if ".." in path.split("/"):
            errors.invalid(at_path, path, "can not contain backsteps ('..')")
        else:
            paths.add(path)
        if name in mounts:
            errors.invalid(at_name, name, "must not already exist in volumeMounts")
        if path in mounts.values():
            text = "must not already exist as a path in volumeMounts"
            errors.invalid(at_path, path, text)
        if name:
            names.add(name)
    return errors


def validate_restart_policy(container: Obj, at: str) -> ErrorList:
    """Validate a container's own restart policy and its rules for exit codes."""
    errors = ErrorList()
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", [])
    if policy is None:
        if rules:
            text = "must specify restartPolicy when restart rules are used"
            errors.required(f"{at}.restartPolicy", text)
    elif policy not in _CONTAINER_RESTART_POLICIES:
        errors.not_supported(f"{at}.restartPolicy", policy, _CONTAINER_RESTART_POLICIES)
    if len(rules) > _MAX_RULES:
        errors.too_many(f"{at}.restartPolicyRules", len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        here = f"{at}.restartPolicyRules[{index}]"
        action, codes = rule.get("action", ""), rule.get("exitCodes")
        if action not in _ACTIONS:
            errors.not_supported(f"{here}.action", action, _ACTIONS)
        if codes is None:
            errors.required(f"{here}.exitCodes", "must be specified")
            continue
        operator, values = codes.get("operator", ""), codes.get("values", [])
        if operator not in _OPERATORS:
            errors.not_supported(f"{here}.exitCodes.operator", operator, _OPERATORS)
        if len(values) > _MAX_CODES:
            errors.too_many(f"{here}.exitCodes.values", len(values), _MAX_CODES)
    return errors


def validate_resize_policy(policies: list[Obj], of_pod: str, at: str) -> ErrorList:
    """Validate the resize policies; `of_pod` is the pod's restart policy."""
    errors = ErrorList()
    here = f"{at}.resizePolicy"
    checked_resources: set[str] = set()
    for index, resize_policy in enumerate(policies):
        resource, policy = (
            resize_policy.get("resourceName", ""),
            resize_policy.get("restartPolicy", ""),
        )
        errors.require_unique(f"{here}[{index}]", resource, checked_resources)
        errors.require_one_of(here, resource, _RESIZABLE_RESOURCES)
        errors.require_one_of(here, policy, _RESIZE_POLICIES)
        if of_pod == "Never" and policy != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.invalid(here, policy, text)
    return errors


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """The parts of a pod that its containers refer to.

    Args:
        volumes: the valid volumes by name.
        claims: the names of the pod's resource claims.
        grace: the pod's grace period in seconds; None if unset.
        restart_policy: the pod's restart policy.
        host_users: whether the pod uses the host's user namespace.
    """

    volumes: Mapping[str, Obj]
    claims: frozenset[str]
    grace: int | None
    restart_policy: str
    host_users: bool


def validate_containers(containers: list[Obj], around: ContainerContext, at: str) -> ErrorList:
    """Validate the containers of a pod; at least one is required."""
    errors = ErrorList()
    if not containers:
        errors.required(at)
        return errors
    names: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{at}[{index}]"
        errors += _validate_container_common(container, around, here)
        name = container.get("name", "")
        errors.require_unique(f"{here}.name", name, names)
        errors += _validate_probes_and_lifecycle(container, around, here)
        errors += validate_restart_policy(container, here)
    errors += _validate_host_port_conflicts(containers, at)
    return errors


def validate_init_containers(
    containers: Iterable[Obj],
    regular: Iterable[Obj],
    around: ContainerContext,
    at: str,
) -> ErrorList:
    """Validate init containers and sidecars."""
    errors = ErrorList()
    names = {container.get("name", "") for container in regular}
    for index, container in enumerate(containers):
        here = f"{at}[{index}]"
        errors += _validate_container_common(container, around, here)
        errors += validate_restart_policy(container, here)
        name = container.get("name", "")
        if name in names:
            errors.duplicate(f"{here}.name", name)
        elif name:
            names.add(name)
        errors += _validate_host_port_conflicts([container], at)
        if container.get("restartPolicy") == "Always":
            errors += _validate_probes_and_lifecycle(container, around, here)
            continue
        for field in _PROBES_AND_LIFECYCLE:
            if field in container:
                text = "may not be set for init containers without restartPolicy=Always"
                errors.forbidden(f"{here}.{field}", text)
        for place, policy in enumerate(container.get("resizePolicy", ())):
            if policy.get("restartPolicy") == "RestartContainer":
                text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                where = f"{here}.resizePolicy[{place}].restartPolicy"
                errors.invalid(where, "RestartContainer", text)
    return errors


def validate_ephemeral_containers(spec: Obj, around: ContainerContext, at: str) -> ErrorList:
    """Validate ephemeral containers."""
    errors = ErrorList()
    container_names = {
        container.get("name", "")
        for field in ("containers", "initContainers")
        for container in spec.get(field, ())
    }
    names = set(container_names)
    for index, container in enumerate(spec.get("ephemeralContainers", ())):
        here = f"{at}[{index}]"
        errors += _validate_container_common(container, around, here)
        errors += validate_image_whitespace(container, here)
        name, target = container.get("name", ""), container.get("targetContainerName", "")
        errors.require_unique(f"{here}.name", name, names)
        if target and target not in container_names:
            errors.not_found(f"{here}.targetContainerName", target)
        text = "cannot be set for an Ephemeral Container"
        for field in _NOT_EPHEMERAL:
            if container.get(field) or (field in container and field != "resources"):
                errors.forbidden(f"{here}.{field}", text)
        for place, mount in enumerate(container.get("volumeMounts", ())):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    errors.forbidden(f"{here}.volumeMounts[{place}].{field}", text)
    return errors


def validate_image_whitespace(container: Obj, at: str) -> ErrorList:
    """Validate that the image has no leading or trailing whitespace."""
    errors = ErrorList()
    image = container.get("image", "")
    if image != image.strip():
        text = "must not have leading or trailing whitespace"
        errors.invalid(f"{at}.image", image, text)
    return errors


def _validate_probes_and_lifecycle(container: Obj, around: ContainerContext, at: str) -> ErrorList:
    errors = ErrorList()
    if "lifecycle" in container:
        errors += validate_lifecycle(container["lifecycle"], around.grace, f"{at}.lifecycle")
    errors += validate_probes(container, around.grace, at)
    return errors


def _validate_container_common(container: Obj, around: ContainerContext, at: str) -> ErrorList:
    errors = ErrorList()
    name = container.get("name", "")
    errors.require_valid(f"{at}.name", name, dns_label_texts)
    errors.require_fields(container, at, "image")
    policy = container.get("terminationMessagePolicy", "")
    errors.require_one_of(f"{at}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    if "ports" in container:
        errors += _validate_container_ports(container["ports"], f"{at}.ports")
    if "env" in container:
        errors += validate_env(container["env"], f"{at}.env")
    if "envFrom" in container:
        errors += validate_env_from(container["envFrom"], f"{at}.envFrom")
    if "volumeMounts" in container:
        errors += validate_volume_mounts(container, around.volumes, f"{at}.volumeMounts")
    if "volumeDevices" in container:
        errors += validate_volume_devices(container, around.volumes, f"{at}.volumeDevices")
    errors.require_one_of(
        f"{at}.imagePullPolicy", container.get("imagePullPolicy", ""), _PULL_POLICIES
    )
    if container.get("resources"):
        errors += validate_resource_requirements(
            container["resources"], around.claims, f"{at}.resources"
        )
    if "resizePolicy" in container:
        errors += validate_resize_policy(container["resizePolicy"], around.restart_policy, at)
    if container.get("securityContext"):
        errors += validate_container_security_context(
            container["securityContext"],
            f"{at}.securityContext",
            host_users=around.host_users,
        )
    return errors


def _validate_container_ports(ports: Iterable[Obj], at: str) -> ErrorList:
    errors = ErrorList()
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name")
        here = f"{at}[{index}]"
        if name:
            texts = port_name_texts(name)
            if texts:
                errors.invalid_each(f"{here}.name", name, texts)
            elif name in names:
                errors.duplicate(f"{here}.name", name)
            else:
                names.add(name)
        number, host = port.get("containerPort", 0), port.get("hostPort", 0)
        if number == 0:
            errors.required(f"{here}.containerPort")
        elif not 0 < number < _PORT_COUNT:
            errors.invalid_each(f"{here}.containerPort", number, port_number_texts(number))
        if host and not 0 < host < _PORT_COUNT:
            errors.invalid_each(f"{here}.hostPort", host, port_number_texts(host))
        protocol = port.get("protocol", "")
        if protocol != "TCP":
            errors.require_one_of(f"{here}.protocol", protocol, _PROTOCOLS)
    return errors


def _validate_host_port_conflicts(containers: list[Obj], at: str) -> ErrorList:
    """Validate that no host port occurs twice within one list of containers."""
    errors = ErrorList()
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            errors.require_unique(f"{at}[{index}].ports[{place}].hostPort", key, taken)
    return errors
