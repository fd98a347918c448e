"""Checks of containers whose programs are plain processes, without namespaces.

A program is refused before it starts if it cannot have its volumes at their paths, in-cluster
configuration, or a port that a program of another pod has. Where it may do without, as with the
token that every pod has, it starts; see `docs/programs.md`.
"""

from __future__ import annotations

import mmap
import os
import shutil
import socket
from contextlib import suppress
from errno import EADDRINUSE
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.simulator.event_recorder import WARNING
from pytest_kwait.simulator.kubelet.cri import Notice
from pytest_kwait.simulator.objects import namespace_of
from pytest_kwait.simulator.runtimes.processes.container_init import ROOT_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.protocol.options import RequestedIsolation
    from pytest_kwait.simulator.runtimes.processes.runtime import ContainerConfig

# Source: kubernetes/plugin/pkg/admission/serviceaccount/admission.go.
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_TOKEN_VOLUME_PREFIX = "kube-api-access-"  # noqa: S105 - a name
_BINDINGS = (
    "clusterrolebindings.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
)  # fmt: skip
_TOKEN_TRACES = (_TOKEN_PATH.encode(), b"in-cluster", b"Service token file")
"""What clients print that find no in-cluster configuration: of Go, kopf, Python."""
_LINKED = f"without namespaces mounts are links below ${ROOT_VARIABLE}"
_MAX_PROGRAM_BYTES = 64 << 20


def find_missing_path(
    cluster: Cluster, pod: Obj, name: str, config: ContainerConfig
) -> Notice | None:
    """Return the event about a path that a container's program needs and cannot have.

    Args:
        name: the name of the container in its pod.
        config: the launcher's configuration of the container.
    """
    mounts = list(_list_mounts(pod, name))
    missing = next((mount for mount in mounts if not _is_reachable(*mount, config)), None)
    if missing is None and not _may_need_token(mounts, config):
        return None
    if _knows_mount_point(config):
        return None
    if missing is not None:
        mount, _ = missing
        text = (
            f'Volume "{mount["name"]}" is not at {mount["mountPath"]}: {_LINKED}; read it there '
            f"and name that variable in env, or {describe_remedy(cluster.isolation)}"
        )
        return Notice(WARNING, "VolumeNotMounted", text)
    return make_token_notice(cluster.isolation) if _is_account_bound(cluster, pod) else None


def make_token_notice(requested: RequestedIsolation) -> Notice:
    """Return the event about a program that cannot have in-cluster configuration."""
    text = (
        f"In-cluster configuration is not at {_TOKEN_PATH}: {_LINKED}; give the program a "
        f"kubeconfig by KUBECONFIG in env, or {describe_remedy(requested)}"
    )
    return Notice(WARNING, "NoInClusterConfig", text)


def has_missed_token(pod: Obj, name: str, config: ContainerConfig, log: bytes) -> bool:
    """Return whether the log of a container that has failed says that it found no token."""
    may_need = _may_need_token(list(_list_mounts(pod, name)), config)
    return may_need and any(trace in log for trace in _TOKEN_TRACES)


def describe_remedy(requested: RequestedIsolation) -> str:
    """Return how programs are isolated, to follow "or"."""
    if requested == "none":
        return "leave out --kwait-isolation=none"
    return "run where --kwait-isolation=intercepted works"


def is_port_taken(number: int, kind: str) -> bool:
    """Return whether a program listens at a port of the machine, alone.

    Args:
        kind: `TCP` or `UDP`.
    """
    with socket.socket(type=socket.SOCK_DGRAM if kind == "UDP" else socket.SOCK_STREAM) as made:
        if kind != "UDP":
            # Closed connections do not count, nor does a program that shares its port. A socket for
            # datagrams would take some.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            made.bind(("", number))
        except OSError as error:
            return error.errno == EADDRINUSE
    return False


def _list_mounts(pod: Obj, name: str) -> Iterator[tuple[Obj, Obj]]:
    """Yield each mount of a container with its volume."""
    spec = pod["spec"]
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            if container["name"] == name:
                for mount in container.get("volumeMounts") or ():
                    yield mount, volumes.get(mount["name"], {})


def _may_need_token(mounts: Sequence[tuple[Obj, Obj]], config: ContainerConfig) -> bool:
    """Return whether a container has a token, and no other configuration of a client."""
    return "KUBECONFIG" not in config.env and any(_is_token(mount) for mount, _ in mounts)


def _is_token(mount: Obj) -> bool:
    """Return whether a mount is the one that the API server adds to every pod."""
    is_added: bool = mount["name"].startswith(_TOKEN_VOLUME_PREFIX)
    return is_added and mount["mountPath"] == _TOKEN_PATH


def _is_reachable(mount: Obj, volume: Obj, config: ContainerConfig) -> bool:
    """Return whether a program may do without a volume at the path of its mount.

    It starts in the folder of its working directory. In place of an `emptyDir` or `hostPath` it has
    what is there on the machine.
    """
    path = os.path.normpath(mount["mountPath"])
    if _is_token(mount):
        return True
    workdir = os.path.normpath(config.workdir)
    if f"{workdir}/".startswith(f"{path}/") and not os.path.isdir(workdir):  # noqa: PTH112
        return True
    if "emptyDir" not in volume and "hostPath" not in volume:
        return False
    return os.access(path, os.R_OK if mount.get("readOnly") else os.W_OK)


def _is_account_bound(cluster: Cluster, pod: Obj) -> bool:
    """Return whether a binding gives rights to the pod's service account itself."""
    namespace = namespace_of(pod)
    account = pod["spec"].get("serviceAccountName") or "default"
    return any(
        subject.get("kind") == "ServiceAccount"
        and subject.get("name") == account
        and (subject.get("namespace") or namespace) == namespace
        for resource, there in zip(_BINDINGS, (None, namespace), strict=True)
        for binding in cluster.list(resource, there)
        for subject in binding.get("subjects") or ()
    )


def _knows_mount_point(config: ContainerConfig) -> bool:
    """Return whether a program reads the variable: by its arguments, environment or own files."""
    texts = (*config.argv, *config.env, *config.env.values())
    if any(ROOT_VARIABLE in text for text in texts):
        return True
    for path in _list_program_files(config):
        with suppress(OSError, ValueError):  # not there, of another user, or empty
            if _has_variable(path, path.stat().st_mtime_ns):
                return True
    return False


def _list_program_files(config: ContainerConfig) -> Iterator[Path]:
    """Yield the files that a command may name: program, scripts, and module of Python."""
    workdir = Path(config.workdir)
    program = shutil.which(config.argv[0], path=config.env.get("PATH"))
    if program is not None:
        yield Path(program)
    for before, word in zip(config.argv, config.argv[1:], strict=False):
        if before == "-m":
            inner = word.replace(".", "/")
            for folder in (config.workdir, *config.env.get("PYTHONPATH", "").split(os.pathsep)):
                yield Path(folder, f"{inner}.py")
                yield Path(folder, inner, "__main__.py")
        elif not word.startswith("-"):
            yield workdir / word


@lru_cache(maxsize=64)
def _has_variable(path: Path, _changed: int) -> bool:
    """Return whether a file has the variable's name; once for each change of the file."""
    if not path.is_file() or path.stat().st_size > _MAX_PROGRAM_BYTES:
        return False
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(ROOT_VARIABLE.encode()) >= 0
