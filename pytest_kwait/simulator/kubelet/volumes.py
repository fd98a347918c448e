"""Volumes of pods: mount errors, their contents, and the file system of a container.

Folders of persistent volumes and host paths outlive the pods that write to them. A volume's folder
goes with the volume, a host path with the cluster; other folders belong to the pod.
"""

from __future__ import annotations

import base64
import shutil
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_value
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.busybox.os.files import (
    Directory,
    File,
    Inode,
    StorageQuota,
    get_disk_usage,
)
from pytest_kwait.simulator.busybox.os.host_files import make_read_only_copy, move_to_disk
from pytest_kwait.simulator.image_reference import InvalidImageError, parse_image
from pytest_kwait.simulator.kubelet.cri import ImageSpec
from pytest_kwait.simulator.kubelet.environment import (
    NODE_HOSTS,
    decode_data,
    extract_field,
    extract_resource,
    get_sub_path,
)
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of
from pytest_kwait.simulator.services import get_machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kwait.simulator.busybox.os.machine import Machine
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet.cri import FileContent, ImageService

_PROVISIONED = "pv.kubernetes.io/provisioned-by"
# Source, resource, what a message calls it, the field of its name, what a missing key is one of.
_SOURCE_KINDS = (
    ("configMap", "configmaps", "configmap", "name", "config"),
    ("secret", "secrets", "secret", "secretName", "secret"),
)

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

# Volumes whose files are shared by the containers that mount them.
_SHARED = ("emptyDir", "ephemeral", "hostPath", "image", "persistentVolumeClaim")
_NODE_MEMORY = 32403456 << 10
_PAGE = 4096
_READ_ONLY = ("configMap", "downwardAPI", "projected", "secret")


class PersistentFolders:
    """The folders of a cluster that outlive pods."""

    def __init__(self, cluster: Cluster, machine: Machine) -> None:
        self._cluster = cluster
        self._of_nodes: dict[str, Directory] = {}
        self._of_volumes: dict[str, Directory] = {}
        self._following = False
        self._disk: Path | None = None
        self.storage_owners = machine.memory.storage_owners
        self.storage_owners.add(self)

    def get_host_path(self, place: str, path: str, kind: str = "") -> Inode:
        """Return the file at a path of a node, or else the folder, created if missing.

        Args:
            kind: `FileOrCreate` creates a file instead.
        """
        root = self._get_node_root(place)
        if kind == "FileOrCreate" and self.find_host_path(place, path) is None:
            above, _, name = path.rstrip("/").rpartition("/")
            entries = make_folder_at(root, above).writable_entries()
            entries[name] = File(mtime=self._cluster.clock.time())
        return resolve_sub_path(root, path)

    def find_host_path(self, place: str, path: str) -> Inode | None:
        """Return the file or folder at a path of a node; None if there is none."""
        node: Inode | None = self._get_node_root(place)
        for piece in path.split("/"):
            if piece:
                node = node.entries.get(piece) if isinstance(node, Directory) else None
        return node

    def _get_node_root(self, place: str) -> Directory:
        if place not in self._of_nodes:
            root = self._of_nodes[place] = self._make_folder("nodes", place, 0o755)
            hosts = File(NODE_HOSTS.encode())
            make_folder_at(root, "etc").writable_entries()["hosts"] = hosts
            root.writable_entries()["tmp"] = Directory(mode=0o1777)
        return self._of_nodes[place]

    def move_to_disk(self, disk: Path) -> None:
        """Keep all folders below a folder of the machine from now on, for real programs."""
        if self._disk is None:
            self._disk = disk
            for place, folder in self._of_nodes.items():
                move_to_disk(folder, disk / "nodes" / place)
            for uid, folder in self._of_volumes.items():
                move_to_disk(folder, disk / "volumes" / uid)

    def _make_folder(self, kind: str, name: str, mode: int) -> Directory:
        folder = Directory(mode=mode)
        if self._disk is not None:
            move_to_disk(folder, self._disk / kind / name)
        return folder

    def get_claim_folder(self, place: str, namespace: str, claim: str) -> Inode:
        """Return the folder of the volume that a claim is bound to.

        A volume with a `hostPath` that was not provisioned is that path of the node.
        """
        claim_object = self._cluster.find("persistentvolumeclaims", claim, namespace) or {}
        name = (claim_object.get("spec") or {}).get("volumeName")
        volume = self._cluster.find("persistentvolumes", name) if name else None
        if volume is None:
            # A pod that was bound without the scheduler may have an unbound claim.
            return self.get_host_path(place, f"/var/lib/kubelet/claims/{namespace}/{claim}")
        source = volume["spec"].get("hostPath")
        if source and _PROVISIONED not in (volume["metadata"].get("annotations") or {}):
            return self.get_host_path(place, source["path"], source.get("type") or "")
        if not self._following:
            self._following = True
            self._cluster.subscribe("persistentvolumes", self._volume_changed)
        uid = uid_of(volume)
        if uid not in self._of_volumes:
            self._of_volumes[uid] = self._make_folder("volumes", uid, 0o777)
        return self._of_volumes[uid]

    def _volume_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED":
            self._of_volumes.pop(uid_of(new), None)
            if self._disk is not None:
                shutil.rmtree(self._disk / "volumes" / uid_of(new), ignore_errors=True)

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
    entry = make_folder_at(folder, above).entries.get(name)
    return entry if isinstance(entry, File) else make_folder_at(folder, path)


def get_persistent_folders(cluster: Cluster) -> PersistentFolders:
    """Return the persistent folders of a cluster."""
    services = cluster.services
    return services.get(
        PersistentFolders,
        lambda: PersistentFolders(cluster, get_machine(services, cluster.clock)),
    )


def _find_mounted_volumes(pod: Obj) -> Iterator[Obj]:
    """Yield the volumes that some container mounts; only those are set up."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    names = {
        mount["name"] for container in containers for mount in container.get("volumeMounts") or ()
    }
    for volume in spec.get("volumes") or ():
        if volume["name"] in names:
            yield volume


def find_missing_volume(cluster: Cluster, pod: Obj) -> tuple[str, str] | None:
    """Return the first volume that cannot be mounted, and why; None if all can."""
    for volume in _find_mounted_volumes(pod):
        for source in list_sources(volume):
            error = find_source_error(cluster, pod, source)
            if error:
                return volume["name"], error
    return None


def list_sources(volume: Obj) -> Iterator[Obj]:
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


def find_source_error(cluster: Cluster, pod: Obj, source: Obj) -> str:
    """Return why a source of a volume cannot be mounted; empty if it can."""
    for field, resource, noun, name_field, key_noun in _SOURCE_KINDS:
        reference = source.get(field)
        if not reference or reference.get("optional"):
            continue
        name = reference[name_field]
        source_object = cluster.find(resource, name, namespace_of(pod))
        if source_object is None:
            return f'{noun} "{name}" not found'
        for item in reference.get("items") or ():
            if item["key"] not in decode_data(source_object) and item["key"] not in (
                source_object.get("binaryData") or {}
            ):
                of = f"{noun} " if field == "configMap" else ""
                return f"{of}references non-existent {key_noun} key: {item['key']}"
    if "serviceAccountToken" in source:
        account = pod["spec"].get("serviceAccountName", "")
        if cluster.find("serviceaccounts", account, namespace_of(pod)) is None:
            return f'failed to fetch token: serviceaccounts "{account}" not found'
    if "hostPath" in source:
        return _find_host_path_error(cluster, pod, source["hostPath"])
    return ""


def _find_host_path_error(cluster: Cluster, pod: Obj, source: Obj) -> str:
    """Return why a path of the node fails its type check; empty if it does not.

    Source: pkg/volume/hostpath/host_path.go, `checkTypeInternal`.
    """
    kind = source.get("type") or ""
    path = source["path"]
    if not kind or (kind == "Directory" and (path.rstrip("/") or "/") in _NODE_FOLDERS):
        return ""
    persistent_folders, place = get_persistent_folders(cluster), pod["spec"].get("nodeName") or ""
    host_path = persistent_folders.find_host_path(place, path)
    if kind.endswith("OrCreate"):
        kind = kind.removesuffix("OrCreate")
        if host_path is None:
            return ""
    is_right = (
        isinstance(host_path, Directory) if kind == "Directory" else isinstance(host_path, File)
    )
    if is_right and kind in ("Directory", "File"):
        return ""
    return f"hostPath type check failed: {path} is not a {_HOST_PATH_TYPES[kind]}"


def make_volume_files(
    cluster: Cluster,
    pod: Obj,
    container: Obj,
    env: dict[str, str],
    places: Mapping[str, str],
) -> dict[str, FileContent]:
    """Return the files that API-backed volumes put into a container, by path.

    Args:
        env: the container's variables, for `subPathExpr`.
        places: values of the `fieldRef` paths that belong to the node.

    Raises:
        ContainerConfigError: `subPathExpr` cannot be used.
    """
    files: dict[str, FileContent] = {}
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for mount in container.get("volumeMounts") or ():
        part = get_sub_path(mount, env)
        root = mount["mountPath"].rstrip("/")
        volume = volumes.get(mount["name"]) or {}
        for source in list_sources(volume):
            for path, content in read_contents(cluster, pod, source, places):
                if not part:
                    files[f"{root}/{path}"] = content
                elif path == part:
                    files[root] = content
                elif path.startswith(f"{part}/"):
                    files[f"{root}/{path[len(part) + 1 :]}"] = content
    return files


def read_contents(
    cluster: Cluster, pod: Obj, source: Obj, places: Mapping[str, str]
) -> Iterator[tuple[str, FileContent]]:
    """Yield path and content of each file of a volume source."""
    for field, resource, _, name_field, _ in _SOURCE_KINDS:
        reference = source.get(field)
        source_object = (
            cluster.find(resource, reference[name_field], namespace_of(pod)) if reference else None
        )
        if reference is None or source_object is None:
            continue
        paths = {item["key"]: item["path"] for item in reference.get("items") or ()}
        for key, value in _decode_bytes(source_object).items():
            if not paths or key in paths:
                yield paths.get(key, key), value
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        yield item["path"], _read_downward(cluster, pod, item, places).encode()
    if "serviceAccountToken" in source:
        service_account_token = source["serviceAccountToken"]
        yield (
            service_account_token["path"],
            partial(issue_token, cluster, pod, service_account_token),
        )


def issue_token(cluster: Cluster, pod: Obj, source: Obj) -> bytes:
    """Return a token that is bound to a pod; empty if the pod or its account is gone.

    Source: kubelet/token/token_manager.go; volume/projected/projected.go, `collectData`.
    """
    account = cluster.find("serviceaccounts", pod["spec"]["serviceAccountName"], namespace_of(pod))
    if account is None:
        return b""
    bound = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
    spec: Obj = {"expirationSeconds": source.get("expirationSeconds"), "boundObjectRef": bound}
    if source.get("audience"):
        spec["audiences"] = [source["audience"]]
    try:
        answer = cluster.accounts.issue(account, {"metadata": {}, "spec": spec})
    except StatusError:
        return b""
    token: str = answer["status"]["token"]
    return token.encode()


def _decode_bytes(obj: Obj) -> dict[str, bytes]:
    """Return the data of a config map or secret, binary data included."""
    if obj.get("kind") == "Secret":
        return {key: _decode_base64(text) for key, text in (obj.get("data") or {}).items()}
    contents = {key: _encode(text) for key, text in (obj.get("data") or {}).items()}
    for key, text in (obj.get("binaryData") or {}).items():
        contents[key] = _decode_base64(text)
    return contents


@lru_cache(maxsize=32)
def _encode(text: str) -> bytes:
    """Encode a text; containers share equal contents, such as certificates."""
    return text.encode()


@lru_cache(maxsize=32)
def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text)


def _read_downward(cluster: Cluster, pod: Obj, item: Obj, places: Mapping[str, str]) -> str:
    if "fieldRef" in item:
        return extract_field(pod, item["fieldRef"]["fieldPath"], dict(places))
    reference = item["resourceFieldRef"]
    spec = pod["spec"]
    every = [*(spec.get("initContainers") or ()), *spec["containers"]]
    container = next(
        (
            container_spec
            for container_spec in every
            if container_spec["name"] == reference.get("containerName")
        ),
        every[0],
    )
    return extract_resource(cluster, container, reference, places["spec.nodeName"])


class PodVolumes:
    """The folders of volumes that the containers of a pod share.

    Args:
        place: the name of the node.
        images: the images of the container runtimes.
    """

    __slots__ = ("__weakref__", "_folders", "_kept", "_place", "images")

    def __init__(self, cluster: Cluster, place: str, images: ImageService) -> None:
        persistent_folders = get_persistent_folders(cluster)
        self.images = images
        self._folders: dict[str, Directory] = {}
        self._kept = persistent_folders
        self._place = place
        persistent_folders.storage_owners.add(self)

    def mounts(self, pod: Obj, container: Obj, env: dict[str, str]) -> dict[str, Inode]:
        """Return the folders and files mounted into a container, by path.

        Args:
            env: the container's variables, for `subPathExpr`.

        Raises:
            ContainerConfigError: `subPathExpr` cannot be used.
        """
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
        nodes_by_path: dict[str, Inode] = {}
        for mount in container.get("volumeMounts") or ():
            volume = volumes.get(mount["name"]) or {}
            if not any(kind in volume for kind in _SHARED):
                continue
            part = get_sub_path(mount, env)
            node = self.get_node(pod, volume)
            if part and isinstance(node, Directory):
                node = resolve_sub_path(node, part)
            if mount.get("readOnly") and isinstance(node, Directory):
                node = Directory(node.entries, read_only=True)
            nodes_by_path[mount["mountPath"]] = node
        return nodes_by_path

    def get_node(self, pod: Obj, volume: Obj) -> Inode:
        """Return the folder or file of a volume that is not API-backed."""
        if "hostPath" in volume:
            source = volume["hostPath"]
            return self._kept.get_host_path(self._place, source["path"], source.get("type") or "")
        if "image" in volume:
            return _make_image_folder(self.images, volume)
        if "emptyDir" not in volume:
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            claim = claim or f"{name_of(pod)}-{volume['name']}"
            return self._kept.get_claim_folder(self._place, namespace_of(pod), claim)
        return self.get_empty_dir(pod, volume)

    def get_empty_dir(self, pod: Obj, volume: Obj) -> Directory:
        """Return the folder of an empty volume."""
        name = volume["name"]
        directory = self._folders.get(name)
        if directory is None:
            directory = self._folders[name] = Directory(mode=0o777)
            if (volume["emptyDir"] or {}).get("medium") == "Memory":
                directory.quota = StorageQuota(
                    get_memory_size(pod, volume["emptyDir"]), partial(get_disk_usage, directory)
                )
        return directory

    def move_to_disk(self, disk: Path) -> None:
        """Keep the folders that outlive the pod on disk, for real programs."""
        self._kept.move_to_disk(disk)

    def folders(self) -> list[Directory]:
        """Return the pod's own folders."""
        return list(self._folders.values())

    def close(self) -> None:
        """Delete the pod's own folders."""
        self._folders.clear()

    def sizes(self) -> dict[str, int]:
        """Return the bytes on disk of the pod's own volumes, by name."""
        return {name: get_disk_usage(folder) for name, folder in self._folders.items()}


def list_image_files(images: ImageService, volume: Obj) -> Mapping[str, str]:
    """Return the files and folders of the machine that an image volume consists of, by path.

    An image whose files are unknown is empty.
    """
    reference = volume["image"].get("reference") or ""
    try:
        spec = ImageSpec(parse_image(reference), reference)
    except InvalidImageError:
        return {}
    return images.image_status(spec).files


def _make_image_folder(images: ImageService, volume: Obj) -> Directory:
    """Return the read-only folder of an image volume."""
    root = Directory()
    for path, source in list_image_files(images, volume).items():
        above, _, name = path.rstrip("/").rpartition("/")
        make_folder_at(root, above).entries[name] = make_read_only_copy(Path(source))
    return Directory(root.entries, read_only=True)


def get_memory_size(pod: Obj, source: Obj) -> int:
    """Return the size of a volume in memory: at most the pod's memory limit.

    Source: volume/emptydir/empty_dir.go, `calculateEmptyDirMemorySize`.
    """
    limits = [
        ((container.get("resources") or {}).get("limits") or {}).get("memory")
        for container in pod["spec"]["containers"]
    ]
    size = sum(parse_value(limit) for limit in limits if limit) if all(limits) else _NODE_MEMORY
    if source.get("sizeLimit") and parse_value(source["sizeLimit"]) > 0:
        size = min(size, parse_value(source["sizeLimit"]))
    return -(-size // _PAGE) * _PAGE


def find_read_only_paths(pod: Obj, container: Obj) -> list[str]:
    """Return the mount paths of API-backed volumes, and a root that the container protects."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    root = (container.get("securityContext") or {}).get("readOnlyRootFilesystem")
    paths = [
        mount["mountPath"]
        for mount in container.get("volumeMounts") or ()
        if any(kind in (volumes.get(mount["name"]) or {}) for kind in _READ_ONLY)
    ]
    return ["/", *paths] if root else paths
