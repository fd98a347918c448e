"""Volumes of pods: mount errors, their contents, and the file system of a container.

Folders of persistent volumes and host paths outlive the pods that write to them. A volume's folder
goes with the volume, a host path with the cluster; other folders belong to the pod.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_value
from pytest_kwait.simulator.busybox.os.files import (
    Directory,
    File,
    FileSystem,
    Inode,
    StorageQuota,
    get_disk_usage,
)
from pytest_kwait.simulator.busybox.os.memory import get_machine
from pytest_kwait.simulator.kubelet.environment import (
    decode_data,
    expand_strictly,
    extract_field,
    extract_resource,
)
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.cluster_protocol import Cluster

__all__ = [
    "PersistentFolders",
    "PodVolumes",
    "find_missing_volume",
    "find_read_only_paths",
    "get_persistent_folders",
    "make_container_files",
    "make_volume_files",
    "resolve_sub_path",
]

_PROVISIONED = "pv.kubernetes.io/provisioned-by"


class PersistentFolders:
    """The folders of a cluster that outlive pods."""

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._of_nodes: dict[str, Directory] = {}
        self._of_volumes: dict[str, Directory] = {}
        self._following = False
        self.machine = get_machine(api.clock)
        self.machine.storage_owners.add(self)

    def get_host_path(self, place: str, path: str) -> Directory:
        """Return the folder at a path of a node."""
        return make_folder_at(self._of_nodes.setdefault(place, Directory()), path)

    def get_claim_folder(self, place: str, namespace: str, claim: str) -> Directory:
        """Return the folder of the volume that a claim is bound to.

        A volume with a `hostPath` that was not provisioned is that path of the node.
        """
        found = self._api.find("persistentvolumeclaims", claim, namespace) or {}
        name = (found.get("spec") or {}).get("volumeName")
        volume = self._api.find("persistentvolumes", name) if name else None
        if volume is None:
            # A pod that was bound without the scheduler may have an unbound claim.
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
        """Return all folders."""
        return [*self._of_nodes.values(), *self._of_volumes.values()]


def make_folder_at(folder: Directory, path: str) -> Directory:
    """Return the folder at a path inside another one, created if missing.

    If a file is in the way, the result is a separate folder.
    """
    for piece in path.split("/"):
        if piece:
            inner = folder.writable_entries().setdefault(piece, Directory(mode=0o777))
            folder = inner if isinstance(inner, Directory) else Directory()
    return folder


def resolve_sub_path(folder: Directory, path: str) -> Inode:
    """Return the file at a `subPath`, or else the folder, created if missing."""
    above, _, name = path.rstrip("/").rpartition("/")
    found = make_folder_at(folder, above).entries.get(name)
    return found if isinstance(found, File) else make_folder_at(folder, path)


def get_persistent_folders(api: Cluster) -> PersistentFolders:
    """Return the persistent folders of a cluster."""
    return api.clock.get_shared(PersistentFolders, lambda: PersistentFolders(api))


# Source, resource, what a message calls it, the field of its name, what a missing key is one of.
_SOURCE_KINDS = (
    ("configMap", "configmaps", "configmap", "name", "config"),
    ("secret", "secrets", "secret", "secretName", "secret"),
)


def _find_mounted_volumes(pod: Obj) -> Iterator[Obj]:
    """Yield the volumes that some container mounts; only those are set up."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    names = {mount["name"] for one in containers for mount in one.get("volumeMounts") or ()}
    for volume in spec.get("volumes") or ():
        if volume["name"] in names:
            yield volume


def find_missing_volume(api: Cluster, pod: Obj) -> tuple[str, str] | None:
    """Return the first volume that cannot be mounted, and why; None if all can."""
    for volume in _find_mounted_volumes(pod):
        for source in _list_sources(volume):
            error = _find_source_error(api, pod, source)
            if error:
                return volume["name"], error
    return None


def _list_sources(volume: Obj) -> Iterator[Obj]:
    """Yield the sources of a volume: those of a projected volume, or itself."""
    if "projected" not in volume:
        yield volume
        return
    for source in volume["projected"].get("sources") or ():
        # A projected secret has its name in `name`, not in `secretName`.
        if "secret" in source:
            yield {"secret": {**source["secret"], "secretName": source["secret"].get("name")}}
        else:
            yield source


def _find_source_error(api: Cluster, pod: Obj, source: Obj) -> str:
    for field, resource, noun, name_field, what in _SOURCE_KINDS:
        reference = source.get(field)
        if not reference or reference.get("optional"):
            continue
        name = reference[name_field]
        found = api.find(resource, name, namespace_of(pod))
        if found is None:
            return f'{noun} "{name}" not found'
        for item in reference.get("items") or ():
            if item["key"] not in decode_data(found) and item["key"] not in (
                found.get("binaryData") or {}
            ):
                of = f"{noun} " if field == "configMap" else ""
                return f"{of}references non-existent {what} key: {item['key']}"
    if "hostPath" in source:
        return _find_host_path_error(source["hostPath"])
    return ""


# The folders of a node.
_NODE_FOLDERS = (
    "/",
    "/dev",
    "/etc",
    "/home",
    "/proc",
    "/run",
    "/sys",
    "/tmp",  # noqa: S108
    "/usr",
    "/var",
    "/var/log",
)
_HOST_PATH_TYPES = {
    "Directory": "directory",
    "File": "file",
    "Socket": "socket",
    "CharDevice": "character device",
    "BlockDevice": "block device",
}


def _find_host_path_error(source: Obj) -> str:
    """Return why a path of the node fails its type check; empty if it does not."""
    kind = source.get("type") or ""
    path = source["path"]
    if kind not in _HOST_PATH_TYPES or (
        kind == "Directory" and (path.rstrip("/") or "/") in _NODE_FOLDERS
    ):
        return ""
    return f"hostPath type check failed: {path} is not a {_HOST_PATH_TYPES[kind]}"


def make_volume_files(
    api: Cluster,
    pod: Obj,
    container: Obj,
    env: dict[str, str],
    places: Mapping[str, str],
) -> dict[str, bytes]:
    """Return the files that API-backed volumes put into a container, by path.

    Args:
        env: the container's variables, for `subPathExpr`.
        places: values of the `fieldRef` paths that belong to the node.

    Raises:
        ContainerConfigError: `subPathExpr` names an unknown variable.
    """
    files: dict[str, bytes] = {}
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for mount in container.get("volumeMounts") or ():
        part = mount.get("subPath") or ""
        if mount.get("subPathExpr"):
            part = expand_strictly(mount["subPathExpr"], env)
        root = mount["mountPath"].rstrip("/")
        volume = volumes.get(mount["name"]) or {}
        for source in _list_sources(volume):
            for path, content in _read_contents(api, pod, source, places):
                if not part:
                    files[f"{root}/{path}"] = content
                elif path == part:
                    files[root] = content
                elif path.startswith(f"{part}/"):
                    files[f"{root}/{path[len(part) + 1 :]}"] = content
    return files


def _read_contents(
    api: Cluster, pod: Obj, source: Obj, places: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each file of a volume source."""
    for field, resource, _, name_field, _ in _SOURCE_KINDS:
        reference = source.get(field)
        found = api.find(resource, reference[name_field], namespace_of(pod)) if reference else None
        if reference is None or found is None:
            continue
        paths = {item["key"]: item["path"] for item in reference.get("items") or ()}
        for key, value in decode_data(found).items():
            if not paths or key in paths:
                yield paths.get(key, key), _encode(value)
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        yield item["path"], _read_downward(api, pod, item, places).encode()
    if "serviceAccountToken" in source:
        # A placeholder: no simulated program uses a token.
        yield source["serviceAccountToken"]["path"], b"token"


@lru_cache(maxsize=32)
def _encode(text: str) -> bytes:
    """Encode a text; containers share equal contents, such as certificates."""
    return text.encode()


def _read_downward(api: Cluster, pod: Obj, item: Obj, places: Mapping[str, str]) -> str:
    if "fieldRef" in item:
        return extract_field(pod, item["fieldRef"]["fieldPath"], dict(places))
    reference = item["resourceFieldRef"]
    spec = pod["spec"]
    every = [*(spec.get("initContainers") or ()), *spec["containers"]]
    container = next(
        (one for one in every if one["name"] == reference.get("containerName")), every[0]
    )
    return extract_resource(api, container, reference, places["spec.nodeName"])


# Volumes whose files are shared by the containers that mount them.
_SHARED = ("emptyDir", "ephemeral", "hostPath", "persistentVolumeClaim")
_NODE_MEMORY = 32403456 << 10
_PAGE = 4096
_READ_ONLY = ("configMap", "downwardAPI", "projected", "secret")


class PodVolumes:
    """The folders of volumes that the containers of a pod share.

    Args:
        kept: the folders that outlive the pod.
        place: the name of the node.
    """

    __slots__ = ("__weakref__", "_folders", "_kept", "_place")

    def __init__(self, kept: PersistentFolders, place: str) -> None:
        self._folders: dict[str, Directory] = {}
        self._kept = kept
        self._place = place
        kept.machine.storage_owners.add(self)

    def mounts(self, pod: Obj, container: Obj, env: dict[str, str]) -> dict[str, Inode]:
        """Return the folders and files mounted into a container, by path.

        Args:
            env: the container's variables, for `subPathExpr`.

        Raises:
            ContainerConfigError: `subPathExpr` names an unknown variable.
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
                found.quota = StorageQuota(
                    _get_memory_size(pod, volume["emptyDir"]), partial(get_disk_usage, found)
                )
        return found

    def folders(self) -> list[Directory]:
        """Return the pod's own folders."""
        return list(self._folders.values())

    def close(self) -> None:
        """Delete the pod's own folders."""
        self._folders.clear()

    def sizes(self) -> dict[str, int]:
        """Return the bytes on disk of the pod's own volumes, by name."""
        return {name: get_disk_usage(folder) for name, folder in self._folders.items()}


def _get_memory_size(pod: Obj, source: Obj) -> int:
    """Return the size of a volume in memory: at most the pod's memory limit.

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
    """Return the mount paths of API-backed volumes, which are read-only."""
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
    """Return the file system of a container, built on first use."""

    def root() -> Directory:
        # Loaded on first use: most containers never look at their files.
        from pytest_kwait.simulator.busybox.rootfs import make_root

        def search() -> str:
            return network.external.search if network.external is not None else "cluster.local"

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
