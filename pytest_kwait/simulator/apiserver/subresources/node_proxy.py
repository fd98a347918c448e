"""The kubelet's own endpoints, through the API server.

Source: k8s.io/kubernetes pkg/kubelet/server/server.go, pkg/registry/core/node/rest/proxy.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError, bad_request
from pytest_kwait.simulator.apiserver.responses import json_response, text_response
from pytest_kwait.simulator.apiserver.subresources.logs import serve_logs
from pytest_kwait.simulator.apiserver.subresources.proxy import (
    redirect_with_slash,
    split_scheme_name_port,
)

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.kubelet_api import Kubelet

__all__ = ["serve_node_proxy"]

_KUBELET_PORT = "10250"


async def serve_node_proxy(
    api: SimulatedCluster, request: ApiRequest, target: RequestInfo
) -> web.StreamResponse:
    """What the node's kubelet answers.

    Raises:
        StatusError: 404 for a node that does not exist, 503 for one whose kubelet is gone.
    """
    place = split_scheme_name_port(target.name)
    if place is None:
        raise bad_request(f'invalid node request "{target.name}"')
    node = api.get("nodes", place.name)
    redirect = redirect_with_slash(request, target)
    if redirect is not None:
        return redirect
    kubelet = api.kubelets.get(place.name)
    if kubelet is None or place.port not in ("", _KUBELET_PORT):
        addresses = node.get("status", {}).get("addresses") or [{"address": place.name}]
        address = f"{addresses[0]['address']}:{place.port or _KUBELET_PORT}"
        text = f"error trying to reach service: dial tcp {address}: connect: connection refused"
        raise StatusError(503, "ServiceUnavailable", text)
    match target.rest.strip("/").split("/"):
        case ["pods"]:
            return json_response(request, kubelet.pods())
        case ["runningpods"]:
            return json_response(request, kubelet.running_pods())
        case ["healthz"]:
            return text_response("ok")
        case ["metrics"]:
            return text_response(_kubelet_metrics(kubelet))
        case ["containerLogs", namespace, pod, container]:
            if api.find("pods", pod, namespace) is None:
                return text_response(f'pod "{pod}" does not exist\n', 404)
            request.query["container"] = container
            return await serve_logs(api, request, replace(target, name=pod, namespace=namespace))
    return text_response("404 page not found\n", 404)


def _kubelet_metrics(kubelet: Kubelet) -> str:
    """How much runs; what a real kubelet measures beyond that is not there."""
    states = kubelet.counts()
    lines = [
        "# HELP kubelet_running_containers [ALPHA] Number of containers currently running",
        "# TYPE kubelet_running_containers gauge",
        *(
            f'kubelet_running_containers{{container_state="{state}"}} {count}'
            for state, count in states.items()
        ),
        "# HELP kubelet_running_pods [ALPHA] Number of pods that have a running pod sandbox",
        "# TYPE kubelet_running_pods gauge",
        f"kubelet_running_pods {len(kubelet.running_pods()['items'])}",
    ]
    return "\n".join(lines) + "\n"
