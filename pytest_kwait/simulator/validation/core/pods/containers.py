"""Containers of all three sorts.

Source: pkg/apis/core/validation/validation.go, validateContainers, validateInitContainers,
validateEphemeralContainers, validateContainerCommon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.core.pods.environment import validate_env, validate_env_from
from pytest_kwait.simulator.validation.core.pods.handlers import validate_lifecycle, validate_probes
from pytest_kwait.simulator.validation.core.pods.mounts import (
    validate_volume_devices,
    validate_volume_mounts,
)
from pytest_kwait.simulator.validation.core.pods.restarts import (
    validate_resize_policy,
    validate_restart_policy,
)
from pytest_kwait.simulator.validation.core.pods.security import validate_container_security_context
from pytest_kwait.simulator.validation.core.resources import validate_resource_requirements
from pytest_kwait.simulator.validation.formats import (
    dns_label_texts,
    port_name_texts,
    port_number_texts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = [
    "ContainerContext",
    "validate_containers",
    "validate_ephemeral_containers",
    "validate_init_containers",
]

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PROBES_AND_LIFECYCLE = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL = (
    # In the order of the server's type.
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


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """What containers refer to.

    Args:
        volumes: the sound volumes by name.
        claims: the names of the pod's resource claims.
        grace: the pod's grace period in seconds, None for none.
        restart_policy: the pod's.
        host_users: whether the pod has the users of its host.
    """

    volumes: Mapping[str, Obj]
    claims: frozenset[str]
    grace: int | None
    restart_policy: str
    host_users: bool


def validate_containers(
    containers: list[Obj], around: ContainerContext, at: str, found: ErrorList
) -> None:
    """The containers that a pod is made of: at least one."""
    if not containers:
        found.required(at)
        return
    names: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{at}[{index}]"
        _validate_container_common(container, around, here, found)
        name = container.get("name", "")
        if name in names:
            found.duplicate(f"{here}.name", name)
        names.add(name)
        _validate_probes_and_lifecycle(container, around, here, found)
        validate_restart_policy(container, here, found)
    _validate_host_port_conflicts(containers, at, found)


def validate_init_containers(
    containers: Iterable[Obj],
    regular: Iterable[Obj],
    around: ContainerContext,
    at: str,
    found: ErrorList,
) -> None:
    """The containers that run before, and those of them that stay."""
    names = {one.get("name", "") for one in regular}
    for index, container in enumerate(containers):
        here = f"{at}[{index}]"
        _validate_container_common(container, around, here, found)
        validate_restart_policy(container, here, found)
        name = container.get("name", "")
        if name in names:
            found.duplicate(f"{here}.name", name)
        elif name:
            names.add(name)
        _validate_host_port_conflicts([container], at, found)
        if container.get("restartPolicy") == "Always":
            _validate_probes_and_lifecycle(container, around, here, found)
            continue
        for field in _PROBES_AND_LIFECYCLE:
            if field in container:
                text = "may not be set for init containers without restartPolicy=Always"
                found.forbidden(f"{here}.{field}", text)
        for place, policy in enumerate(container.get("resizePolicy", ())):
            if policy.get("restartPolicy") == "RestartContainer":
                text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                where = f"{here}.resizePolicy[{place}].restartPolicy"
                found.invalid(where, "RestartContainer", text)


def validate_ephemeral_containers(
    spec: Obj, around: ContainerContext, at: str, found: ErrorList
) -> None:
    """The containers that join a running pod."""
    others = {
        one.get("name", "")
        for field in ("containers", "initContainers")
        for one in spec.get(field, ())
    }
    names = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers", ())):
        here = f"{at}[{index}]"
        _validate_container_common(container, around, here, found)
        validate_image_whitespace(container, here, found)
        name, target = container.get("name", ""), container.get("targetContainerName", "")
        if name in names:
            found.duplicate(f"{here}.name", name)
        names.add(name)
        if target and target not in others:
            found.unknown(f"{here}.targetContainerName", target)
        text = "cannot be set for an Ephemeral Container"
        for field in _NOT_EPHEMERAL:
            if container.get(field) or (field in container and field != "resources"):
                found.forbidden(f"{here}.{field}", text)
        for place, mount in enumerate(container.get("volumeMounts", ())):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    found.forbidden(f"{here}.volumeMounts[{place}].{field}", text)


def validate_image_whitespace(container: Obj, at: str, found: ErrorList) -> None:
    """The image's name stands alone."""
    image = container.get("image", "")
    if image != image.strip():
        text = "must not have leading or trailing whitespace"
        found.invalid(f"{at}.image", image, text)


def _validate_probes_and_lifecycle(
    container: Obj, around: ContainerContext, at: str, found: ErrorList
) -> None:
    if "lifecycle" in container:
        validate_lifecycle(container["lifecycle"], around.grace, f"{at}.lifecycle", found)
    validate_probes(container, around.grace, at, found)


def _validate_container_common(
    container: Obj, around: ContainerContext, at: str, found: ErrorList
) -> None:
    name = container.get("name", "")
    if not name:
        found.required(f"{at}.name")
    else:
        found.texts(f"{at}.name", name, dns_label_texts(name))
    if not container.get("image"):
        found.required(f"{at}.image")
    policy = container.get("terminationMessagePolicy", "")
    found.one_of(f"{at}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    if "ports" in container:
        _validate_container_ports(container["ports"], f"{at}.ports", found)
    if "env" in container:
        validate_env(container["env"], f"{at}.env", found)
    if "envFrom" in container:
        validate_env_from(container["envFrom"], f"{at}.envFrom", found)
    if "volumeMounts" in container:
        validate_volume_mounts(container, around.volumes, f"{at}.volumeMounts", found)
    if "volumeDevices" in container:
        validate_volume_devices(container, around.volumes, f"{at}.volumeDevices", found)
    found.one_of(f"{at}.imagePullPolicy", container.get("imagePullPolicy", ""), _PULL_POLICIES)
    if container.get("resources"):
        validate_resource_requirements(
            container["resources"], around.claims, f"{at}.resources", found
        )
    if "resizePolicy" in container:
        validate_resize_policy(container["resizePolicy"], around.restart_policy, at, found)
    if container.get("securityContext"):
        validate_container_security_context(
            container["securityContext"],
            f"{at}.securityContext",
            found,
            host_users=around.host_users,
        )


def _validate_container_ports(ports: Iterable[Obj], at: str, found: ErrorList) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name")
        here = f"{at}[{index}]"
        if name:
            texts = port_name_texts(name)
            if texts:
                found.texts(f"{here}.name", name, texts)
            elif name in names:
                found.duplicate(f"{here}.name", name)
            else:
                names.add(name)
        number, host = port.get("containerPort", 0), port.get("hostPort", 0)
        if number == 0:
            found.required(f"{here}.containerPort")
        elif not 0 < number < _PORT_COUNT:
            found.texts(f"{here}.containerPort", number, port_number_texts(number))
        if host and not 0 < host < _PORT_COUNT:
            found.texts(f"{here}.hostPort", host, port_number_texts(host))
        protocol = port.get("protocol", "")
        if protocol != "TCP":
            found.one_of(f"{here}.protocol", protocol, _PROTOCOLS)


_PORT_COUNT = 65536


def _validate_host_port_conflicts(containers: list[Obj], at: str, found: ErrorList) -> None:
    """No port of the host is taken twice; each list counts on its own."""
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in taken:
                found.duplicate(f"{at}[{index}].ports[{place}].hostPort", key)
            taken.add(key)
