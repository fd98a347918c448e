"""Configurations of sandboxes and containers, as their runtimes take them.

Source: kuberuntime_sandbox.go, `generatePodSandboxConfig`; kuberuntime_container.go,
`generateContainerConfig`; kuberuntime/security_context.go, `determineEffectiveSecurityContext`;
kuberuntime/security_context_others.go, `verifyRunAsNonRoot`; kuberuntime/helpers.go,
`getSeccompProfile`.
"""

from __future__ import annotations

import math
import signal
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.simulator.kubelet.cri import (
    ContainerConfig,
    LinuxContainerSecurityContext,
    PodSandboxConfig,
)
from pytest_kwait.simulator.kubelet.environment import (
    expand,
    get_domain,
    get_hostname,
    make_hosts_file,
    make_resolver_config,
    make_resources,
)
from pytest_kwait.simulator.objects import name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.kubelet.cri import (
        ContainerLog,
        ContainerMounts,
        FileContent,
        Image,
    )
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.protocol.container_scripts import Script

# Source: kubelet's `--root-dir` and kuberuntime_manager.go, `seccompProfileRoot`.
_SECCOMP_PROFILES = "/var/lib/kubelet/seccomp"
_DEFAULT_SECURITY_CONTEXT = LinuxContainerSecurityContext(run_as_user_origin="the pod")
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def make_sandbox_config(pod: Obj) -> PodSandboxConfig:
    """Return the configuration of a pod's sandbox."""
    spec = pod["spec"]

    hostname = get_hostname(pod)

    def make_files(address: str) -> dict[str, FileContent]:
        return {
            "/etc/hosts": lambda: make_hosts_file(pod, address).encode(),
            "/etc/hostname": f"{hostname}\n".encode(),
            "/etc/resolv.conf": lambda: make_resolver_config(pod).encode(),
        }

    sysctls = (spec.get("securityContext") or {}).get("sysctls") or ()
    return PodSandboxConfig(
        uid=uid_of(pod),
        name=name_of(pod),
        namespace=namespace_of(pod),
        hostname=hostname,
        domainname=get_domain(pod) if spec.get("setHostnameAsFQDN") else "",
        files=make_files,
        host_network=bool(spec.get("hostNetwork")),
        share_pids=bool(spec.get("shareProcessNamespace")),
        storage_bytes=_get_storage(pod),
        sysctls={sysctl["name"]: sysctl["value"] for sysctl in sysctls},
    )


def _get_storage(pod: Obj) -> int | None:
    """Return the bytes that the containers may write outside volumes; None without a limit."""
    limits = [
        ((container.get("resources") or {}).get("limits") or {}).get("ephemeral-storage")
        for container in pod["spec"]["containers"]
    ]
    if limits and all(limits):
        return sum(math.ceil(parse_quantity(limit).amount) for limit in limits if limit)
    return None


def make_container_config(
    pod: Obj,
    container: Obj,
    image: Image,
    env: dict[str, str],
    *,
    attempt: int,
    log: ContainerLog,
    mounts: ContainerMounts,
    node_memory: int,
    target_id: str | None,
    script: Script,
) -> ContainerConfig:
    """Return the configuration of a container.

    Args:
        env: its variables.
        attempt: the number of earlier instances.
        node_memory: the memory of the node in bytes.
        target_id: the id of an ephemeral container's target; None without one.
    """
    return ContainerConfig(
        name=container["name"],
        attempt=attempt,
        image=image,
        log=log,
        mounts=mounts,
        resources=make_resources(pod, container, node_memory),
        security_context=make_security_context(pod, container),
        command=tuple(expand(word, env) for word in container.get("command") or ()),
        args=tuple(expand(word, env) for word in container.get("args") or ()),
        working_dir=container.get("workingDir") or "",
        envs=env,
        stdin=bool(container.get("stdin")),
        stdin_once=bool(container.get("stdinOnce")),
        tty=bool(container.get("tty")),
        stop_signal=find_stop_signal(container, image),
        target_id=target_id,
        ports=list_ports(container),
        termination_message_path=container.get("terminationMessagePath") or "",
        termination_message_from_log=(
            container.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        ),
        script=script,
    )


def _get_setting(pod: Obj, container: Obj, field: str) -> object:
    """Return a field of the container's security context, or else of the pod's."""
    own: Mapping[str, object] = container.get("securityContext") or {}
    pods: Mapping[str, object] = pod["spec"].get("securityContext") or {}
    return own[field] if own.get(field) is not None else pods.get(field)


def make_security_context(pod: Obj, container: Obj) -> LinuxContainerSecurityContext:
    """Return the rights of a container."""
    own, of_pod = container.get("securityContext") or {}, pod["spec"].get("securityContext") or {}
    if not own and not of_pod:
        return _DEFAULT_SECURITY_CONTEXT
    user, group = (_get_setting(pod, container, name) for name in ("runAsUser", "runAsGroup"))
    groups = [*(of_pod.get("supplementalGroups") or ())]
    if of_pod.get("fsGroup") is not None:
        groups.append(of_pod["fsGroup"])
    capabilities = own.get("capabilities") or {}
    return LinuxContainerSecurityContext(
        run_as_user=user if isinstance(user, int) else None,
        run_as_user_origin=(
            f'container "{container["name"]}"' if own.get("runAsUser") is not None else "the pod"
        ),
        run_as_group=group if isinstance(group, int) else None,
        supplemental_groups=tuple(dict.fromkeys(groups)),
        privileged=bool(own.get("privileged")),
        readonly_rootfs=bool(own.get("readOnlyRootFilesystem")),
        no_new_privs=own.get("allowPrivilegeEscalation") is False,
        add_capabilities=tuple(capabilities.get("add") or ()),
        drop_capabilities=tuple(capabilities.get("drop") or ()),
        seccomp_profile=_find_seccomp_profile(pod, container),
    )


def _find_seccomp_profile(pod: Obj, container: Obj) -> str:
    """Return the path of a container's own seccomp profile; empty without one.

    A privileged container has no profile.
    """
    profile = _get_setting(pod, container, "seccompProfile")
    if not isinstance(profile, dict) or profile.get("type") != "Localhost":
        return ""
    if (container.get("securityContext") or {}).get("privileged"):
        return ""
    return f"{_SECCOMP_PROFILES}/{profile['localhostProfile']}"


def find_run_as_root_error(pod: Obj, container: Obj, image: Image) -> str:
    """Return why `runAsNonRoot` forbids the container; empty if it does not.

    An image whose user is unknown is allowed.
    """
    if not _get_setting(pod, container, "runAsNonRoot"):
        return ""
    where = f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"
    of = f'(pod: "{where}", container: {container["name"]})'
    user = _get_setting(pod, container, "runAsUser")
    if user == 0:
        return f"container's runAsUser breaks non-root policy {of}"
    if user is None and image.username:
        return (
            f"container has runAsNonRoot and image has non-numeric user ({image.username}), "
            f"cannot verify user is non-root {of}"
        )
    if user is None and image.uid == 0:
        return f"container has runAsNonRoot and image will run as root {of}"
    return ""


def find_stop_signal(container: Obj, image: Image) -> int:
    """Return the number of the signal that ends a container: its own, or that of its image."""
    name = (container.get("lifecycle") or {}).get("stopSignal") or image.stop_signal or "SIGTERM"
    if name.isdigit():
        return int(name)
    base, plus, offset = name.partition("+")
    base, minus, below = (base, "", "") if plus else name.partition("-")
    number = int(getattr(signal, base, signal.SIGTERM))
    if plus and offset.isdigit():
        return number + int(offset)
    return number - int(below) if minus and below.isdigit() else number


def list_ports(container: Obj) -> frozenset[tuple[int, str]]:
    """Return the numbers of a container's ports and of those that it is probed at, with kinds."""
    ports = {
        (int(port_spec["containerPort"]), str(port_spec.get("protocol") or "TCP"))
        for port_spec in container.get("ports") or ()
    }
    for field in _PROBES:
        probe = container.get(field)
        if not probe:
            continue
        for action in probe.keys() & {"httpGet", "tcpSocket", "grpc"}:
            port = (probe[action] or {}).get("port")
            if isinstance(port, int):
                ports.add((port, "TCP"))
    return frozenset(ports)
