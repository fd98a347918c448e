"""The volumes of a pod: what is missing of them, and the files that they put into a container."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.environment import (
    decode_data,
    expand_strictly,
    extract_field,
    extract_resource,
)
from pytest_kwait.simulator.objects import Obj, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kwait.simulator.cluster import SimulatedCluster

__all__ = ["find_missing_volume", "make_volume_files"]

# Source, resource, what a message calls it, the field of its name, what a missing key is one of.
_SOURCE_KINDS = (
    ("configMap", "configmaps", "configmap", "name", "config"),
    ("secret", "secrets", "secret", "secretName", "secret"),
)


def _find_mounted_volumes(pod: Obj) -> Iterator[Obj]:
    """Return the volumes that a container mounts: only those are made ready."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    names = {mount["name"] for one in containers for mount in one.get("volumeMounts") or ()}
    for volume in spec.get("volumes") or ():
        if volume["name"] in names:
            yield volume


def find_missing_volume(api: SimulatedCluster, pod: Obj) -> tuple[str, str] | None:
    """Return the first volume that cannot be mounted, and why; None where all can."""
    for volume in _find_mounted_volumes(pod):
        for source in _list_sources(volume):
            trouble = _find_source_error(api, pod, source)
            if trouble:
                return volume["name"], trouble
    return None


def _list_sources(volume: Obj) -> Iterator[Obj]:
    """Return what a volume is made of: itself, or the sources of a projected one."""
    if "projected" not in volume:
        yield volume
        return
    for source in volume["projected"].get("sources") or ():
        # Within a projected volume a secret has its name where a config map has it.
        if "secret" in source:
            yield {"secret": {**source["secret"], "secretName": source["secret"].get("name")}}
        else:
            yield source


def _find_source_error(api: SimulatedCluster, pod: Obj, source: Obj) -> str:
    for field, resource, noun, name_field, what in _SOURCE_KINDS:
        wanted = source.get(field)
        if not wanted or wanted.get("optional"):
            continue
        name = wanted[name_field]
        found = api.find(resource, name, namespace_of(pod))
        if found is None:
            return f'{noun} "{name}" not found'
        for item in wanted.get("items") or ():
            if item["key"] not in decode_data(found) and item["key"] not in (
                found.get("binaryData") or {}
            ):
                of = f"{noun} " if field == "configMap" else ""
                return f"{of}references non-existent {what} key: {item['key']}"
    if "hostPath" in source:
        return _find_host_path_error(source["hostPath"])
    return ""


# What is taken to be on a node.
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
    """Why a path of the node cannot be had: nodes have little more than their folders."""
    kind = source.get("type") or ""
    path = source["path"]
    if kind not in _HOST_PATH_TYPES or (
        kind == "Directory" and (path.rstrip("/") or "/") in _NODE_FOLDERS
    ):
        return ""
    return f"hostPath type check failed: {path} is not a {_HOST_PATH_TYPES[kind]}"


def make_volume_files(
    api: SimulatedCluster,
    pod: Obj,
    container: Obj,
    env: dict[str, str],
    places: Mapping[str, str],
) -> dict[str, bytes]:
    """Return the files that volumes put into the container, by path.

    Args:
        api: where config maps and secrets are.
        pod: the pod with its status.
        container: where they are mounted.
        env: its variables, which `subPathExpr` may name.
        places: what is read of the node, by field path.

    Raises:
        ConfigError: `subPathExpr` names a variable that is not there.
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
    api: SimulatedCluster, pod: Obj, source: Obj, places: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Return paths within a volume and what is there."""
    for field, resource, _, name_field, _ in _SOURCE_KINDS:
        wanted = source.get(field)
        found = api.find(resource, wanted[name_field], namespace_of(pod)) if wanted else None
        if wanted is None or found is None:
            continue
        paths = {item["key"]: item["path"] for item in wanted.get("items") or ()}
        for key, value in decode_data(found).items():
            if not paths or key in paths:
                yield paths.get(key, key), _encode(value)
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        yield item["path"], _read_downward(api, pod, item, places).encode()
    if "serviceAccountToken" in source:
        # Nothing in a container could use one: programs connect nowhere.
        yield source["serviceAccountToken"]["path"], b"token"


@lru_cache(maxsize=32)
def _encode(text: str) -> bytes:
    """The bytes of a text; one for all containers that mount the same, as certificates are."""
    return text.encode()


def _read_downward(api: SimulatedCluster, pod: Obj, item: Obj, places: Mapping[str, str]) -> str:
    if "fieldRef" in item:
        return extract_field(pod, item["fieldRef"]["fieldPath"], dict(places))
    reference = item["resourceFieldRef"]
    spec = pod["spec"]
    every = [*(spec.get("initContainers") or ()), *spec["containers"]]
    container = next(
        (one for one in every if one["name"] == reference.get("containerName")), every[0]
    )
    return extract_resource(api, container, reference, places["spec.nodeName"])
