"""What a container gets from the API: variables and volumes, and what is missing of them."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.cluster_api import ClusterApi

__all__ = ["ConfigError", "environment", "expand", "missing_volume", "volume_files"]

_REFERENCE = re.compile(r"\$\$|\$\(([^)$]+)\)")


class ConfigError(Exception):
    """Something that a container refers to is not there; `str` is the kubelet's text."""


def expand(text: str, env: dict[str, str]) -> str:
    """`$(NAME)` as its value; `$$` as a dollar sign; unknown names as they stand.

    Source: third_party/forked/golang/expansion/expand.go.
    """

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


def environment(api: ClusterApi, pod: Obj, container: Obj, node: dict[str, str]) -> dict[str, str]:
    """Return the container's variables in their order.

    Args:
        api: where config maps and secrets are.
        pod: the pod with its status.
        container: whose variables.
        node: what `fieldRef` reads of the node: `spec.nodeName`, `status.hostIP`, `status.podIP`.

    Raises:
        ConfigError: a config map, a secret or a key in one is not there.

    Source: kubelet_pods.go, `makeEnvironmentVariables`.
    """
    env = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOSTNAME": hostname(pod),
    }
    for source in container.get("envFrom") or ():
        for key, value in _all_of(api, pod, source):
            env[(source.get("prefix") or "") + key] = value
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom")
        if not origin:
            env[variable["name"]] = expand(variable.get("value") or "", env)
            continue
        found = _value_of(api, pod, container, origin, node)
        if found is not None:
            env[variable["name"]] = found
    return env


def hostname(pod: Obj) -> str:
    """Return what the pod calls itself."""
    return str(pod["spec"].get("hostname") or name_of(pod))[:63]


def _all_of(api: ClusterApi, pod: Obj, source: Obj) -> Iterator[tuple[str, str]]:
    for field, resource, noun in (
        ("configMapRef", "configmaps", "configmap"),
        ("secretRef", "secrets", "secret"),
    ):
        reference = source.get(field)
        if not reference:
            continue
        found = api.find(resource, reference["name"], namespace_of(pod))
        if found is None:
            if not reference.get("optional"):
                raise ConfigError(f'{noun} "{reference["name"]}" not found')
            continue
        yield from _texts(found).items()


def _texts(obj: Obj) -> dict[str, str]:
    data: dict[str, str] = obj.get("data") or {}
    if obj.get("kind") == "Secret":
        return {
            key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()
        }
    return data


def _value_of(
    api: ClusterApi, pod: Obj, container: Obj, origin: Obj, node: dict[str, str]
) -> str | None:
    if "fieldRef" in origin:
        return _field(pod, origin["fieldRef"]["fieldPath"], node)
    if "resourceFieldRef" in origin:
        kind, _, name = origin["resourceFieldRef"]["resource"].partition(".")
        return str(((container.get("resources") or {}).get(kind) or {}).get(name, "0"))
    for field, resource, noun, kind in (
        ("configMapKeyRef", "configmaps", "configmap", "ConfigMap"),
        ("secretKeyRef", "secrets", "secret", "Secret"),
    ):
        reference = origin.get(field)
        if not reference:
            continue
        namespace = namespace_of(pod)
        found = api.find(resource, reference["name"], namespace)
        if found is None:
            if reference.get("optional"):
                return None
            raise ConfigError(f'{noun} "{reference["name"]}" not found')
        texts = _texts(found)
        if reference["key"] not in texts:
            if reference.get("optional"):
                return None
            where = f"{namespace}/{reference['name']}"
            raise ConfigError(f"couldn't find key {reference['key']} in {kind} {where}")
        return texts[reference["key"]]
    return None


def _field(pod: Obj, path: str, node: dict[str, str]) -> str:
    metadata = pod["metadata"]
    match = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if match is not None:
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    known = {
        "metadata.name": name_of(pod),
        "metadata.namespace": namespace_of(pod),
        "metadata.uid": uid_of(pod),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        **node,
    }
    return str(known.get(path, ""))


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
        for field, resource, noun, name_field in (
            ("configMap", "configmaps", "configmap", "name"),
            ("secret", "secrets", "secret", "secretName"),
        ):
            source = volume.get(field)
            if not source or source.get("optional"):
                continue
            name = source[name_field]
            found = api.find(resource, name, namespace_of(pod))
            if found is None:
                return volume["name"], f'{noun} "{name}" not found'
            for item in source.get("items") or ():
                if item["key"] not in (found.get("data") or {}):
                    what = "config" if field == "configMap" else "secret"
                    return volume["name"], f"references non-existent {what} key: {item['key']}"
    return None


def volume_files(api: ClusterApi, pod: Obj, container: Obj) -> dict[str, bytes]:
    """Return the files that config maps and secrets put into the container, by path."""
    files: dict[str, bytes] = {}
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for mount in container.get("volumeMounts") or ():
        volume = volumes.get(mount["name"]) or {}
        for field, resource, name_field in (
            ("configMap", "configmaps", "name"),
            ("secret", "secrets", "secretName"),
        ):
            source = volume.get(field)
            found = api.find(resource, source[name_field], namespace_of(pod)) if source else None
            if source is None or found is None:
                continue
            paths = {item["key"]: item["path"] for item in source.get("items") or ()}
            for key, value in _texts(found).items():
                if paths and key not in paths:
                    continue
                path = mount["mountPath"].rstrip("/")
                if not mount.get("subPath"):
                    path = f"{path}/{paths.get(key, key)}"
                elif mount["subPath"] != paths.get(key, key):
                    continue
                files[path] = value.encode()
    return files
