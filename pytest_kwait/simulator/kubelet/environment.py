"""The variables of a container, and what is missing of them."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity
from pytest_kwait.simulator.kubelet.host_names import get_hostname
from pytest_kwait.simulator.kubelet.service_variables import make_service_variables
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.cluster import SimulatedCluster

__all__ = [
    "ContainerConfigError",
    "decode_data",
    "expand",
    "expand_strictly",
    "extract_field",
    "extract_resource",
    "make_environment",
]

_REFERENCE = re.compile(r"\$\$|\$\(([^)$]+)\)")


class ContainerConfigError(Exception):
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


def make_environment(
    api: SimulatedCluster, pod: Obj, container: Obj, node: dict[str, str]
) -> dict[str, str]:
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
        "HOSTNAME": get_hostname(pod),
    }
    env.update(make_service_variables(api, pod))
    for source in container.get("envFrom") or ():
        for key, value in _read_env_from(api, pod, source):
            env[(source.get("prefix") or "") + key] = value
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom")
        if not origin:
            env[variable["name"]] = expand(variable.get("value") or "", env)
            continue
        found = _read_value_from(api, pod, container, origin, node)
        if found is not None:
            env[variable["name"]] = found
    return env


def _read_env_from(api: SimulatedCluster, pod: Obj, source: Obj) -> Iterator[tuple[str, str]]:
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
                raise ContainerConfigError(f'{noun} "{reference["name"]}" not found')
            continue
        yield from decode_data(found).items()


def decode_data(obj: Obj) -> dict[str, str]:
    """Return what a config map or a secret has, decoded, by its keys."""
    data: dict[str, str] = obj.get("data") or {}
    if obj.get("kind") == "Secret":
        return {
            key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()
        }
    return data


def _read_value_from(
    api: SimulatedCluster, pod: Obj, container: Obj, origin: Obj, node: dict[str, str]
) -> str | None:
    if "fieldRef" in origin:
        return extract_field(pod, origin["fieldRef"]["fieldPath"], node)
    if "resourceFieldRef" in origin:
        return extract_resource(api, container, origin["resourceFieldRef"], node["spec.nodeName"])
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
            raise ContainerConfigError(f'{noun} "{reference["name"]}" not found')
        texts = decode_data(found)
        if reference["key"] not in texts:
            if reference.get("optional"):
                return None
            where = f"{namespace}/{reference['name']}"
            raise ContainerConfigError(f"couldn't find key {reference['key']} in {kind} {where}")
        return texts[reference["key"]]
    return None


def extract_field(pod: Obj, path: str, node: dict[str, str]) -> str:
    """Return a field of a pod as text.

    Args:
        pod: the pod.
        path: the field.
        node: what is read of the node, by path.

    Source: pkg/fieldpath/fieldpath.go, `ExtractFieldPathAsString`.
    """
    metadata = pod["metadata"]
    match = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if match is not None:
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = sorted((metadata.get(path.partition(".")[2]) or {}).items())
        return "\n".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in pairs)
    known = {
        "metadata.name": name_of(pod),
        "metadata.namespace": namespace_of(pod),
        "metadata.uid": uid_of(pod),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        **node,
    }
    return str(known.get(path, ""))


def extract_resource(api: SimulatedCluster, container: Obj, reference: Obj, node_name: str) -> str:
    """Return a resource of a container as text, in units of the divisor and rounded up.

    A limit that is not set is what the node has to give.

    Source: pkg/api/v1/resource/helpers.go, `ExtractContainerResourceValue`; kubelet_resources.go.
    """
    kind, _, name = reference["resource"].partition(".")
    resources = container.get("resources") or {}
    amount = (resources.get(kind) or {}).get(name)
    if amount is None and kind == "limits":
        node = api.find("nodes", node_name) or {}
        amount = ((node.get("status") or {}).get("allocatable") or {}).get(name)
    divisor = _parse_amount(str(reference.get("divisor") or "1"))
    if not divisor.amount:
        divisor = _parse_amount("1")
    return str(math.ceil(_parse_amount(str(amount or "0")).amount / divisor.amount))


def _parse_amount(text: str) -> Quantity:
    return parse_quantity(text)


def expand_strictly(text: str, env: dict[str, str]) -> str:
    """`$(NAME)` as its value.

    Raises:
        ConfigError: there is no such variable.

    Source: kubelet/container/helpers.go, `ExpandContainerVolumeMounts`.
    """
    for match in _REFERENCE.finditer(text):
        if match[1] is not None and match[1] not in env:
            raise ContainerConfigError(f"missing value for {match[1]}")
    return expand(text, env)
