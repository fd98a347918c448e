"""Folders that outlive the pods that write to them: those of volumes, and nodes' own paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.files import Directory, File, Inode
from pytest_kwait.simulator.busybox.os.memory import get_machine
from pytest_kwait.simulator.objects import uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["PersistentFolders", "get_persistent_folders", "resolve_sub_path"]

_PROVISIONED = "pv.kubernetes.io/provisioned-by"


class PersistentFolders:
    """The folders of one cluster.

    Args:
        api: where claims and volumes are.
    """

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._of_nodes: dict[str, Directory] = {}
        self._of_volumes: dict[str, Directory] = {}
        self._following = False
        self.machine = get_machine(api.clock)
        self.machine.shelves.add(self)

    def get_host_path(self, place: str, path: str) -> Directory:
        """A node's own path, which is there as long as the cluster."""
        return make_folder_at(self._of_nodes.setdefault(place, Directory()), path)

    def get_claim_folder(self, place: str, namespace: str, claim: str) -> Directory:
        """The folder of the volume that a claim is bound to: it goes with the volume.

        One that somebody made for a path of the node (`hostPath`) is that path, as there.
        """
        found = self._api.find("persistentvolumeclaims", claim, namespace) or {}
        name = (found.get("spec") or {}).get("volumeName")
        volume = self._api.find("persistentvolumes", name) if name else None
        if volume is None:
            # A pod that was put on its node by hand waits for nobody's claim to be bound.
            return self.get_host_path(place, f"/var/lib/kubelet/claims/{namespace}/{claim}")
        source = volume["spec"].get("hostPath")
        if source and _PROVISIONED not in (volume["metadata"].get("annotations") or {}):
            return self.get_host_path(place, source["path"])
        if not self._following:
            self._following = True
            self._api.subscribe("persistentvolumes", self._volume_changed)
        return self._of_volumes.setdefault(uid_of(volume), Directory(mode=0o777))

    def _volume_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED":
            self._of_volumes.pop(uid_of(new), None)

    def folders(self) -> list[Directory]:
        """All of them."""
        return [*self._of_nodes.values(), *self._of_volumes.values()]


def make_folder_at(folder: Directory, path: str) -> Directory:
    """The folder at a path within another one, made where it is not there.

    What stands in its way stays: it is another folder then, which nobody else sees.
    """
    for piece in path.split("/"):
        if piece:
            inner = folder.changed().setdefault(piece, Directory(mode=0o777))
            folder = inner if isinstance(inner, Directory) else Directory()
    return folder


def resolve_sub_path(folder: Directory, path: str) -> Inode:
    """What a container gets of a folder that mounts a path of it: a file, if there is one."""
    above, _, name = path.rstrip("/").rpartition("/")
    found = make_folder_at(folder, above).entries.get(name)
    return found if isinstance(found, File) else make_folder_at(folder, path)


def get_persistent_folders(api: SimulatedCluster) -> PersistentFolders:
    """The folders of a cluster, which are there as long as its clock."""
    found = api.clock.attached.get("kept folders")
    if not isinstance(found, PersistentFolders):
        found = api.clock.attached["kept folders"] = PersistentFolders(api)
    return found
