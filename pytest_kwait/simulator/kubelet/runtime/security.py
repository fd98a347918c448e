"""As whom a container runs and what confines it, and where that is refused.

Source: kuberuntime/security_context_others.go, `verifyRunAsNonRoot`; kuberuntime/helpers.go,
`getSeccompProfile`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.images import Image, is_busybox
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of

__all__ = ["find_run_as_root_error", "find_seccomp_error", "get_run_as_user"]

if TYPE_CHECKING:
    from collections.abc import Mapping

# Source: kubelet's `--root-dir` and kuberuntime_manager.go, `seccompProfileRoot`.
_SECCOMP_PROFILES = "/var/lib/kubelet/seccomp"


def _get_setting(pod: Obj, container: Obj, field: str) -> object:
    """A field of the container's security context, or else of the pod's."""
    own: Mapping[str, object] = container.get("securityContext") or {}
    pods: Mapping[str, object] = pod["spec"].get("securityContext") or {}
    return own[field] if own.get(field) is not None else pods.get(field)


def get_run_as_user(pod: Obj, container: Obj) -> int:
    """Return the number of the user that the container runs as."""
    user = _get_setting(pod, container, "runAsUser")
    return user if isinstance(user, int) else 0


def find_run_as_root_error(pod: Obj, container: Obj, image: Image) -> str:
    """Why the container may not run as it would; empty where it may.

    busybox runs as root by itself; of other images nothing is known, so they are trusted.
    """
    if not _get_setting(pod, container, "runAsNonRoot"):
        return ""
    where = f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"
    of = f'(pod: "{where}", container: {container["name"]})'
    user = _get_setting(pod, container, "runAsUser")
    if user == 0:
        return f"container's runAsUser breaks non-root policy {of}"
    if user is None and is_busybox(image):
        return f"container has runAsNonRoot and image will run as root {of}"
    return ""


def find_seccomp_error(pod: Obj, container: Obj) -> str:
    """Why the container cannot be made with its seccomp profile; empty where it can.

    Nothing confines simulated containers, and their nodes have no files of profiles: one that
    is named is missing, as on a node where nobody has put it. A privileged container has none.
    """
    profile = _get_setting(pod, container, "seccompProfile")
    if not isinstance(profile, dict) or profile.get("type") != "Localhost":
        return ""
    if (container.get("securityContext") or {}).get("privileged"):
        return ""
    path = f"{_SECCOMP_PROFILES}/{profile['localhostProfile']}"
    return (
        "failed to create containerd container: cannot load seccomp profile "
        f'"{path}": open {path}: no such file or directory'
    )
