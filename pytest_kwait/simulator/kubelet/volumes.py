"""The volumes of a pod: what is missing of them, and the files that they put into a container."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.environment import (
    expand_strictly,
    field_text,
    resource_text,
    texts_of,
)
from pytest_kwait.simulator.objects import Obj, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kwait.simulator.cluster_api import ClusterApi

__all__ = ["missing_volume", "volume_files"]

# Source, resource, what a message calls it, the field of its name, what a missing key is one of.
_KINDS = (
    ("configMap", "configmaps", "configmap", "name", "config"),
    ("secret", "secrets", "secret", "secretName", "secret"),
)


def _mounted(pod: Obj) -> Iterator[Obj]:
    """Return the volumes that a container mounts: only those are made ready."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    names = {mount["name"] for one in containers for mount in one.get("volumeMounts") or ()}
    for volume in spec.get("volumes") or ():
        if volume["name"] in names:
            yield volume


def missing_volume(api: ClusterApi, pod: Obj) -> tuple[str, str] | None:
    """Return the first volume that cannot be mounted, and why; None where all can."""
    for volume in _mounted(pod):
        for source in _sources(volume):
            trouble = _trouble(api, pod, source)
            if trouble:
                return volume["name"], trouble
    return None


def _sources(volume: Obj) -> Iterator[Obj]:
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


def _trouble(api: ClusterApi, pod: Obj, source: Obj) -> str:
    for field, resource, noun, name_field, what in _KINDS:
        wanted = source.get(field)
        if not wanted or wanted.get("optional"):
            continue
        name = wanted[name_field]
        found = api.find(resource, name, namespace_of(pod))
        if found is None:
            return f'{noun} "{name}" not found'
        for item in wanted.get("items") or ():
            if item["key"] not in texts_of(found) and item["key"] not in (
                found.get("binaryData") or {}
            ):
                of = f"{noun} " if field == "configMap" else ""
                return f"{of}references non-existent {what} key: {item['key']}"
    if "hostPath" in source:
        return _host_trouble(source["hostPath"])
    return ""


# What is taken to be on a node.
_ON_NODES = (
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
_TYPES = {
    "Directory": "directory",
    "File": "file",
    "Socket": "socket",
    "CharDevice": "character device",
    "BlockDevice": "block device",
}


def _host_trouble(source: Obj) -> str:
    """Why a path of the node cannot be had: nodes have little more than their folders."""
    kind = source.get("type") or ""
    path = source["path"]
    if kind not in _TYPES or (kind == "Directory" and (path.rstrip("/") or "/") in _ON_NODES):
        return ""
    return f"hostPath type check failed: {path} is not a {_TYPES[kind]}"


def volume_files(
    api: ClusterApi,
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
        for source in _sources(volume):
            for path, content in _contents(api, pod, source, places):
                if not part:
                    files[f"{root}/{path}"] = content
                elif path == part:
                    files[root] = content
                elif path.startswith(f"{part}/"):
                    files[f"{root}/{path[len(part) + 1 :]}"] = content
    return files


def _contents(
    api: ClusterApi, pod: Obj, source: Obj, places: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Return paths within a volume and what is there."""
    for field, resource, _, name_field, _ in _KINDS:
        wanted = source.get(field)
        found = api.find(resource, wanted[name_field], namespace_of(pod)) if wanted else None
        if wanted is None or found is None:
            continue
        paths = {item["key"]: item["path"] for item in wanted.get("items") or ()}
        for key, value in texts_of(found).items():
            if not paths or key in paths:
                yield paths.get(key, key), _encoded(value)
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        yield item["path"], _downward(api, pod, item, places).encode()
    if "serviceAccountToken" in source:
        # Nothing in a container could use one: programs connect nowhere.
        yield source["serviceAccountToken"]["path"], b"token"


@lru_cache(maxsize=32)
def _encoded(text: str) -> bytes:
    """The bytes of a text; one for all containers that mount the same, as certificates are."""
    return text.encode()


def _downward(api: ClusterApi, pod: Obj, item: Obj, places: Mapping[str, str]) -> str:
    if "fieldRef" in item:
        return field_text(pod, item["fieldRef"]["fieldPath"], dict(places))
    reference = item["resourceFieldRef"]
    spec = pod["spec"]
    every = [*(spec.get("initContainers") or ()), *spec["containers"]]
    container = next(
        (one for one in every if one["name"] == reference.get("containerName")), every[0]
    )
    return resource_text(api, container, reference, places["spec.nodeName"])
