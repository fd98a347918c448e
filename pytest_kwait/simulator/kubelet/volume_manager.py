"""The volumes of one pod, in the forms that container runtimes need.

Source: pkg/kubelet/volumemanager.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.cri import MemoryMounts
from pytest_kwait.simulator.kubelet.volume_folders import PodVolumeFolders
from pytest_kwait.simulator.kubelet.volumes import (
    PodVolumes,
    find_read_only_paths,
    make_volume_files,
)
from pytest_kwait.simulator.objects import uid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_kwait.simulator.kubelet.cri import EmptyDir, Mount
    from pytest_kwait.simulator.kubelet.pod_context import PodContext
    from pytest_kwait.simulator.objects import Obj


class VolumeManager:
    """The volumes of one pod: in memory, and as folders once a runtime has opened them.

    Args:
        get_node_fields: returns values of the `fieldRef` paths that belong to the node.
    """

    def __init__(self, worker: PodContext, get_node_fields: Callable[[], dict[str, str]]) -> None:
        self._worker = worker
        self.get_node_fields = get_node_fields
        self.in_memory = PodVolumes(worker.cluster, worker.node.name, worker.node.runtimes)
        self._folders: PodVolumeFolders | None = None

    @property
    def worker(self) -> PodContext:
        """The pod."""
        return self._worker

    @property
    def folders(self) -> PodVolumeFolders:
        """The folders, which are open."""
        assert self._folders is not None  # noqa: S101 - by the runtime that asks for them
        return self._folders

    def open_folders(self, disk: Path) -> VolumeManager:
        """Keep the volumes as folders below `disk` from now on."""
        if self._folders is None:
            worker = self._worker
            self.in_memory.move_to_disk(disk)
            folder = disk / "pods" / uid_of(worker.pod)
            self._folders = PodVolumeFolders(worker.cluster, folder, self.in_memory)
        return self

    def write(self) -> None:
        """Write the API-backed volumes."""
        self.folders.write(self._worker.pod, self.get_node_fields())

    def update(self) -> None:
        """Write changed API-backed volumes, unless the kubelet is stopped."""
        if not self._worker.node.is_kubelet_stopped:
            with suppress(OSError):
                self.write()

    def list_empty_dirs(self) -> tuple[EmptyDir, ...]:
        """Return the empty folders, which the runtime makes."""
        return self.folders.list_empty_dirs(self._worker.pod)

    def share_empty_dirs(self, folders: Mapping[str, Path]) -> None:
        """Let containers with volumes in memory use the empty folders that were made."""
        self.folders.share_empty_dirs(self._worker.pod, folders)

    def close(self) -> None:
        """Remove the folders of the pod."""
        if self._folders is not None:
            self._folders.close()

    def make_mounts(self, container: Obj, env: dict[str, str]) -> ContainerVolumes:
        """Return the volumes of a container.

        Args:
            container: its part of the pod's spec.
            env: its variables, for `subPathExpr`.
        """
        return ContainerVolumes(self, container, env)


class ContainerVolumes:
    """The volumes of one container."""

    def __init__(self, manager: VolumeManager, container: Obj, env: dict[str, str]) -> None:
        self._manager = manager
        self._container = container
        self._env = env

    def has(self, container_path: str) -> bool:
        """Return whether a volume is mounted at a path."""
        return any(
            mount["mountPath"] == container_path
            for mount in self._container.get("volumeMounts") or ()
        )

    def in_memory(self) -> MemoryMounts:
        """Return them as files in memory."""
        manager, container = self._manager, self._container
        pod, cluster = manager.worker.pod, manager.worker.cluster
        places = manager.get_node_fields()
        files = make_volume_files(cluster, pod, container, self._env, places)
        nodes = manager.in_memory.mounts(pod, container, self._env)
        return MemoryMounts(files, nodes, find_read_only_paths(pod, container))

    def on_disk(self) -> list[Mount]:
        """Return them as folders of the machine."""
        manager = self._manager
        return manager.folders.list_mounts(manager.worker.pod, self._container, self._env)
