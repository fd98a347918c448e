"""The kubelet's own endpoints, through the API server.

Source: k8s.io/kubernetes pkg/kubelet/server/server.go, pkg/registry/core/node/rest/proxy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.http.answer import json_answer, text_answer
from pytest_kwait.simulator.status_error import StatusError

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.http.request import ApiRequest, Target

__all__ = ["serve_node_proxy"]


def serve_node_proxy(api: ClusterApi, request: ApiRequest, target: Target) -> web.Response:
    """What the node's kubelet answers.

    Raises:
        StatusError: 404 for a node that does not exist, 503 for one whose kubelet is gone.
    """
    name = target.name.partition(":")[0]
    api.get("nodes", name)
    kubelet = api.kubelets.get(name)
    if kubelet is None:
        raise StatusError(
            503,
            "ServiceUnavailable",
            f'error trying to reach service: dial tcp: connect to node "{name}": connection '
            "refused",
        )
    match target.rest.strip("/"):
        case "pods":
            return json_answer(request, kubelet.pods())
        case "healthz":
            return text_answer("ok")
        case _:
            return text_answer("404 page not found\n", 404)
