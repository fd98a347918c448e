"""Folders that outlive the pods that write to them: those of volumes, and nodes' own paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.files import File, Folder, Node
from pytest_kwait.simulator.kubelet.memory import machine_of
from pytest_kwait.simulator.objects import uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.objects import Obj

__all__ = ["KeptFolders", "kept_folders", "part_of"]

_PROVISIONED = "pv.kubernetes.io/provisioned-by"


class KeptFolders:
    """The folders of one cluster.

    Args:
        api: where claims and volumes are.
    """

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._of_nodes: dict[str, Folder] = {}
        self._of_volumes: dict[str, Folder] = {}
        self._following = False
        self.machine = machine_of(api.clock)
        self.machine.shelves.add(self)

    def of_node(self, place: str, path: str) -> Folder:
        """A node's own path, which is there as long as the cluster."""
        return folder_at(self._of_nodes.setdefault(place, Folder()), path)

    def of_claim(self, place: str, namespace: str, claim: str) -> Folder:
        """The folder of the volume that a claim is bound to: it goes with the volume.

        One that somebody made for a path of the node (`hostPath`) is that path, as there.
        """
        found = self._api.find("persistentvolumeclaims", claim, namespace) or {}
        name = (found.get("spec") or {}).get("volumeName")
        volume = self._api.find("persistentvolumes", name) if name else None
        if volume is None:
            # A pod that was put on its node by hand waits for nobody's claim to be bound.
            return self.of_node(place, f"/var/lib/kubelet/claims/{namespace}/{claim}")
        source = volume["spec"].get("hostPath")
        if source and _PROVISIONED not in (volume["metadata"].get("annotations") or {}):
            return self.of_node(place, source["path"])
        if not self._following:
            self._following = True
            self._api.subscribe("persistentvolumes", self._volume_changed)
        return self._of_volumes.setdefault(uid_of(volume), Folder(mode=0o777))

    def _volume_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED":
            self._of_volumes.pop(uid_of(new), None)

    def folders(self) -> list[Folder]:
        """All of them."""
        return [*self._of_nodes.values(), *self._of_volumes.values()]


def folder_at(folder: Folder, path: str) -> Folder:
    """The folder at a path within another one, made where it is not there.

    What stands in its way stays: it is another folder then, which nobody else sees.
    """
    for piece in path.split("/"):
        if piece:
            inner = folder.changed().setdefault(piece, Folder(mode=0o777))
            folder = inner if isinstance(inner, Folder) else Folder()
    return folder


def part_of(folder: Folder, path: str) -> Node:
    """What a container gets of a folder that mounts a path of it: a file, if there is one."""
    above, _, name = path.rstrip("/").rpartition("/")
    found = folder_at(folder, above).entries.get(name)
    return found if isinstance(found, File) else folder_at(folder, path)


def kept_folders(api: ClusterApi) -> KeptFolders:
    """The folders of a cluster, which are there as long as its clock."""
    found = api.clock.attached.get("kept folders")
    if not isinstance(found, KeptFolders):
        found = api.clock.attached["kept folders"] = KeptFolders(api)
    return found
