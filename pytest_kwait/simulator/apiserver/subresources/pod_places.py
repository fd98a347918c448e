"""Where a pod is: its container, its node's kubelet.

Source: k8s.io/kubernetes pkg/registry/core/pod/strategy.go, pkg/kubelet/client/kubelet_client.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError, bad_request, not_found
from pytest_kwait.simulator.objects import name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.kubelet_api import Kubelet
    from pytest_kwait.simulator.objects import Obj

__all__ = ["choose_container", "find_kubelet"]

_CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")


def choose_container(pod: Obj, asked: str) -> str:
    """The container that is meant.

    Raises:
        StatusError: 400, there is no such one or it could be several.
    """
    every = [one["name"] for field in _CONTAINER_FIELDS for one in pod["spec"].get(field, ())]
    if asked:
        if asked not in every:
            raise bad_request(f"container {asked} is not valid for pod {name_of(pod)}")
        return asked
    plain = pod["spec"].get("containers", ())
    if len(plain) == 1:
        return str(plain[0]["name"])
    raise bad_request(
        f"a container name must be specified for pod {name_of(pod)}, choose one of: "
        f"[{' '.join(every)}]"
    )


def find_kubelet(api: SimulatedCluster, pod: Obj) -> Kubelet:
    """The kubelet of the pod's node.

    Raises:
        StatusError: 400 for a pod without a node, 404 for a node that is not there, 500 for one
            without a kubelet.
    """
    name = pod["spec"].get("nodeName")
    if not name:
        raise bad_request(f"pod {name_of(pod)} does not have a host assigned")
    if api.find("nodes", name) is None:
        # The server takes what is missing for what was asked for.
        raise not_found("", "pods", name)
    kubelet = api.kubelets.get(name)
    if kubelet is None:
        text = f"dial tcp: lookup {name}: no such host"
        raise StatusError(500, "", f"error dialing backend: {text}")
    return kubelet
