"""The files of a container as it starts: the image's, those of volumes, and shared folders."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pytest_kwait.simulator.kubelet.files import File, Files, Folder, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.kubelet.network import Network
    from pytest_kwait.simulator.objects import Obj

__all__ = ["SharedVolumes", "container_files", "kept_folders", "read_only_paths"]

# Volumes that have files of their own, which are there for who mounts them next.
_SHARED = ("emptyDir", "ephemeral", "hostPath", "persistentVolumeClaim")
_READ_ONLY = ("configMap", "downwardAPI", "projected", "secret")


_KEPT: WeakKeyDictionary[ClusterApi, dict[str, Folder]] = WeakKeyDictionary()


def kept_folders(api: ClusterApi) -> dict[str, Folder]:
    """The folders of a cluster that outlive its pods."""
    return _KEPT.setdefault(api, {})


class SharedVolumes:
    """The folders of volumes that containers of a pod share.

    Args:
        kept: folders that outlive a pod, of claims and of nodes' own paths, by their names.
    """

    __slots__ = ("_folders", "_kept")

    def __init__(self, kept: dict[str, Folder]) -> None:
        self._folders: dict[str, Folder] = {}
        self._kept = kept

    def mounts(self, pod: Obj, container: Obj, place: str) -> dict[str, Node]:
        """What is mounted into a container, by path.

        Args:
            pod: the pod.
            container: one of its containers.
            place: the node, whose paths `hostPath` names.
        """
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
        found: dict[str, Node] = {}
        for mount in container.get("volumeMounts") or ():
            volume = volumes.get(mount["name"]) or {}
            if not any(kind in volume for kind in _SHARED):
                continue
            folder = self._folder(pod, volume, place)
            for piece in (mount.get("subPath") or "").split("/"):
                if piece:
                    inner = folder.changed().setdefault(piece, Folder())
                    folder = inner if isinstance(inner, Folder) else Folder()
            if mount.get("readOnly"):
                folder = Folder(folder.entries, read_only=True)
            found[mount["mountPath"]] = folder
        return found

    def _folder(self, pod: Obj, volume: Obj, place: str) -> Folder:
        name, folders = volume["name"], self._folders
        if "persistentVolumeClaim" in volume or "ephemeral" in volume:
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            name = f"{pod['metadata']['namespace']}/{claim or pod['metadata']['name'] + '-' + name}"
            folders = self._kept
        elif "hostPath" in volume:
            name, folders = f"{place}:{volume['hostPath']['path']}", self._kept
        memory = (volume.get("emptyDir") or {}).get("medium") == "Memory"
        return folders.setdefault(name, Folder(mode=0o777, memory=memory))


def read_only_paths(pod: Obj, container: Obj) -> list[str]:
    """Where nothing can be written: volumes that come from the API."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    return [
        mount["mountPath"]
        for mount in container.get("volumeMounts") or ()
        if any(kind in (volumes.get(mount["name"]) or {}) for kind in _READ_ONLY)
    ]


def container_files(
    now: Callable[[], float],
    hostname: str,
    network: Network,
    contents: Mapping[str, bytes],
    mounts: Mapping[str, Node],
    read_only: list[str],
) -> Files:
    """Make the files of a container, when they are first looked at."""

    def root() -> Folder:
        # Loaded with the first container that looks at its files.
        from pytest_kwait.simulator.kubelet.image_files import image_root

        def search() -> str:
            return network.world.search if network.world is not None else "cluster.local"

        made = image_root(hostname, lambda: network.address, search)
        return made

    files = Files(now, root)
    for path, node in mounts.items():
        files.mount(path, lambda node=node: node)  # type: ignore[misc]
    for path, data in contents.items():
        files.mount(path, lambda data=data: File(data, mtime=now()))  # type: ignore[misc]
    for path in read_only:
        files.protect(path)
    return files
