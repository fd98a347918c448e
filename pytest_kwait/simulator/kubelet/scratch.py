"""The files of a container as it starts: the image's, those of volumes, and shared folders."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_value
from pytest_kwait.simulator.busybox.os.files import (
    Directory,
    File,
    FileSystem,
    Inode,
    get_disk_usage,
)
from pytest_kwait.simulator.busybox.os.memory import StorageQuota
from pytest_kwait.simulator.kubelet.environment import expand_strictly
from pytest_kwait.simulator.kubelet.kept_folders import resolve_sub_path
from pytest_kwait.simulator.objects import name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.kubelet.kept_folders import PersistentFolders
    from pytest_kwait.simulator.objects import Obj

__all__ = ["PodVolumes", "find_read_only_paths", "make_container_files"]

# Volumes that have files of their own, which are there for who mounts them next.
_SHARED = ("emptyDir", "ephemeral", "hostPath", "persistentVolumeClaim")
_NODE_MEMORY = 32403456 << 10
_PAGE = 4096
_READ_ONLY = ("configMap", "downwardAPI", "projected", "secret")


class PodVolumes:
    """The folders of volumes that containers of a pod share.

    Args:
        kept: folders that outlive a pod.
        place: the node, whose paths `hostPath` names.
    """

    __slots__ = ("__weakref__", "_folders", "_kept", "_place")

    def __init__(self, kept: PersistentFolders, place: str) -> None:
        self._folders: dict[str, Directory] = {}
        self._kept = kept
        self._place = place
        kept.machine.shelves.add(self)

    def mounts(self, pod: Obj, container: Obj, env: dict[str, str]) -> dict[str, Inode]:
        """What is mounted into a container, by path.

        Args:
            pod: the pod.
            container: one of its containers.
            env: its variables, which `subPathExpr` may name.

        Raises:
            ConfigError: `subPathExpr` names a variable that is not there.
        """
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
        found: dict[str, Inode] = {}
        for mount in container.get("volumeMounts") or ():
            volume = volumes.get(mount["name"]) or {}
            if not any(kind in volume for kind in _SHARED):
                continue
            part = mount.get("subPath") or ""
            if mount.get("subPathExpr"):
                part = expand_strictly(mount["subPathExpr"], env)
            node = resolve_sub_path(self._folder(pod, volume), part)
            if mount.get("readOnly") and isinstance(node, Directory):
                node = Directory(node.entries, read_only=True)
            found[mount["mountPath"]] = node
        return found

    def _folder(self, pod: Obj, volume: Obj) -> Directory:
        if "hostPath" in volume:
            return self._kept.get_host_path(self._place, volume["hostPath"]["path"])
        name = volume["name"]
        if "emptyDir" not in volume:
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            claim = claim or f"{name_of(pod)}-{name}"
            return self._kept.get_claim_folder(self._place, namespace_of(pod), claim)
        found = self._folders.get(name)
        if found is None:
            found = self._folders[name] = Directory(mode=0o777)
            if (volume["emptyDir"] or {}).get("medium") == "Memory":
                found.room = StorageQuota(
                    _get_memory_size(pod, volume["emptyDir"]), partial(get_disk_usage, found)
                )
        return found

    def folders(self) -> list[Directory]:
        """The pod's own."""
        return list(self._folders.values())

    def close(self) -> None:
        """Forget what is in the pod's own: it has ended."""
        self._folders.clear()

    def sizes(self) -> dict[str, int]:
        """The bytes of the disk that each of the pod's own volumes takes, by name."""
        return {name: get_disk_usage(folder) for name, folder in self._folders.items()}


def _get_memory_size(pod: Obj, source: Obj) -> int:
    """The bytes that fit into a volume in memory: no more than the pod may hold.

    Source: volume/emptydir/empty_dir.go, `calculateEmptyDirMemorySize`.
    """
    limits = [
        ((one.get("resources") or {}).get("limits") or {}).get("memory")
        for one in pod["spec"]["containers"]
    ]
    size = sum(parse_value(one) for one in limits if one) if all(limits) else _NODE_MEMORY
    if source.get("sizeLimit") and parse_value(source["sizeLimit"]) > 0:
        size = min(size, parse_value(source["sizeLimit"]))
    return -(-size // _PAGE) * _PAGE


def find_read_only_paths(pod: Obj, container: Obj) -> list[str]:
    """Where nothing can be written: volumes that come from the API."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    return [
        mount["mountPath"]
        for mount in container.get("volumeMounts") or ()
        if any(kind in (volumes.get(mount["name"]) or {}) for kind in _READ_ONLY)
    ]


def make_container_files(
    now: Callable[[], float],
    hostname: str,
    network: Network,
    contents: Mapping[str, bytes],
    mounts: Mapping[str, Inode],
    read_only: list[str],
) -> FileSystem:
    """Make the files of a container, when they are first looked at."""

    def root() -> Directory:
        # Loaded with the first container that looks at its files.
        from pytest_kwait.simulator.busybox.rootfs import make_root

        def search() -> str:
            return network.world.search if network.world is not None else "cluster.local"

        made = make_root(hostname, lambda: network.address, search)
        return made

    files = FileSystem(now, root)
    for path, node in mounts.items():
        files.mount(path, lambda node=node: node)  # type: ignore[misc]
    for path, data in contents.items():
        files.mount(path, lambda data=data: File(data, mtime=now()))  # type: ignore[misc]
    for path in read_only:
        files.protect(path)
    return files
