"""Connecting to pods, services and nodes: admission, options, container, kubelet.

Source: k8s.io/apiserver pkg/endpoints/handlers/rest.go, ConnectResource; k8s.io/kubernetes
pkg/registry/core/pod/strategy.go, pkg/kubelet/client/kubelet_client.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.api_errors import (
    StatusError,
    bad_request,
    method_not_allowed,
    not_found,
)
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.registry.generic_store import run_write
from pytest_kwait.simulator.scheme import Kind

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster, Cluster
    from pytest_kwait.simulator.kubelet_api import KubeletApi
    from pytest_kwait.simulator.objects import Obj

_CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}
_OPTION_KINDS = {
    "attach": "PodAttachOptions",
    "exec": "PodExecOptions",
    "portforward": "PodPortForwardOptions",
}
_OPTION_FLAGS = {
    "attach": ("stdin", "stdout", "stderr", "tty"),
    "exec": ("stdin", "stdout", "stderr", "tty"),
}


def choose_container(pod: Obj, attributes: str) -> str:
    """Choose the container of a request.

    Raises:
        StatusError: 400, it does not exist or the choice is ambiguous.
    """
    every = [
        container["name"] for field in _CONTAINER_FIELDS for container in pod["spec"].get(field, ())
    ]
    if attributes:
        if attributes not in every:
            raise bad_request(f"container {attributes} is not valid for pod {name_of(pod)}")
        return attributes
    plain = pod["spec"].get("containers", ())
    if len(plain) == 1:
        return str(plain[0]["name"])
    raise bad_request(
        f"a container name must be specified for pod {name_of(pod)}, choose one of: "
        f"[{' '.join(every)}]"
    )


def find_kubelet(cluster: Cluster, pod: Obj) -> KubeletApi:
    """Return the kubelet of the pod's node.

    Raises:
        StatusError: 400 for an unscheduled pod, 404 for a missing node, 500 for a missing kubelet.
    """
    name = pod["spec"].get("nodeName")
    if not name:
        raise bad_request(f"pod {name_of(pod)} does not have a host assigned")
    if cluster.find("nodes", name) is None:
        # As upstream: a missing node is reported as a pod.
        raise not_found("", "pods", name)
    kubelet = cluster.kubelets.get(name)
    if kubelet is None:
        text = f"dial tcp: lookup {name}: no such host"
        raise StatusError(500, "", f"error dialing backend: {text}")
    return kubelet


async def admit_connection(
    cluster: ApiServerCluster, request: ApiRequest, kind: Kind, target: RequestInfo
) -> None:
    """Check method and parameters of a connection, and run admission.

    Raises:
        StatusError: 405 for an unsupported method, 400 for invalid parameters, or any denial.
    """
    verbs = kind.subresources[target.subresource].verbs
    if _VERBS.get(request.method, "delete") not in verbs and request.method != "OPTIONS":
        raise method_not_allowed()
    options = _connect_options(request, kind, target)
    content = Kind("", "v1", "", options["kind"], namespaced=kind.namespaced)
    attributes = Attributes(
        "CONNECT", kind, target.namespace or "", target.name, options, None, target.subresource,
        request.caller, subresource_kind=content,
    )  # fmt: skip

    def admit() -> None:
        cluster.admission.admit_subresource(attributes)
        cluster.admission.validate_subresource(attributes)

    await run_write(cluster, admit)


def _connect_options(request: ApiRequest, kind: Kind, target: RequestInfo) -> Obj:
    name = _OPTION_KINDS.get(target.subresource, f"{kind.kind}ProxyOptions")
    options: Obj = {"kind": name, "apiVersion": "v1"}
    for flag in _OPTION_FLAGS.get(target.subresource, ()):
        if request.flag(flag):
            options[flag] = True
    if target.subresource in _OPTION_FLAGS and request.query.get("container"):
        options["container"] = request.query["container"]
    command = [value for key, value in request.queries if key == "command"]
    if target.subresource == "exec" and command:
        options["command"] = command
    ports = [value for key, value in request.queries if key == "ports"]
    if target.subresource == "portforward" and ports:
        options["ports"] = [_parse_port(part) for text in ports for part in text.split(",")]
    if target.subresource == "proxy" and target.rest:
        options["path"] = f"/{target.rest}"
    return options


def _parse_port(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise bad_request(
            f'cannot convert to []int32: strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)
