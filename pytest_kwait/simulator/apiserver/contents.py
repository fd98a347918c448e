"""Bodies of subresources that are objects of a kind of their own: Eviction, Binding, Scale.

Source: k8s.io/apiserver pkg/endpoints/handlers/create.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.apiserver.request_bodies import read_object
from pytest_kwait.simulator.scheme import Kind

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = [
    "BINDING_KIND",
    "CREATED_STATUS",
    "EVICTION_KIND",
    "SCALE_KIND",
    "check_object_name",
    "check_subresource_kind",
    "read_subresource_object",
]

EVICTION_KIND = Kind("policy", "v1", "evictions", "Eviction", namespaced=True)
BINDING_KIND = Kind("", "v1", "bindings", "Binding", namespaced=True)
SCALE_KIND = Kind("autoscaling", "v1", "scales", "Scale", namespaced=True)

CREATED_STATUS = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}
"""What answers a deed that leaves no object of its own."""

_OTHER_API_VERSIONS = {EVICTION_KIND.kind: ("policy/v1beta1",)}
"""Other versions that a body may have."""


async def read_subresource_object(
    api: SimulatedCluster, request: ApiRequest, kind: Kind, namespace: str, caller: Caller
) -> Obj:
    """The object in the body, decoded, in the namespace of the path.

    Raises:
        StatusError: 400 for what is none of that kind, or is in another namespace; 415 for a
            media type that is not read.
    """
    obj = await read_object(request, kind, any_kind=True)
    check_subresource_kind(api, obj, kind)
    clean = api.decode(kind, obj, caller)
    if clean["metadata"].get("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    clean["metadata"]["namespace"] = namespace
    return clean


def check_subresource_kind(api: SimulatedCluster, obj: Obj, kind: Kind) -> None:
    """Hold a body to the kind that it must be of; one that names none is of that kind.

    Raises:
        StatusError: 400, it is of another one.
    """
    name, given = obj.get("kind") or kind.kind, obj.get("apiVersion") or kind.api_version
    if name == kind.kind and given in (kind.api_version, *_OTHER_API_VERSIONS.get(kind.kind, ())):
        return
    version = str(given).rpartition("/")[2]
    if api.kinds.of_kind(str(given), str(name)) is None:
        why = (
            f'no kind "{name}" is registered for version "{given}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
    else:
        package = kind.group.partition(".")[0] or "core"
        why = f"converting ({version}.{name}) to ({package}.{kind.kind}): unknown conversion"
    raise bad_request(f'{name} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def check_object_name(obj: Obj, name: str, namespace: str) -> None:
    """Make the object's name and namespace those of the path.

    Raises:
        StatusError: 400, they are others.
    """
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    given = metadata.get("name")
    if not given:
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be "
            "provided"
        )
    if given != name:
        raise bad_request(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )
    if namespace:
        there = metadata.get("namespace") or namespace
        if there != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
        metadata["namespace"] = namespace
