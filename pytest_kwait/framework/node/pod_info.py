"""Whether a host's agent knows a pod: asked of the kubelet, or of a fake."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import msgspec

from pytest_kwait.client.resource import NODES, PODS
from pytest_kwait.client.responses import ObjectMeta, get_list_decoder
from pytest_kwait.engine.object_counter import decode_whole
from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline

__all__ = ["FakePodInfo", "NodeProxyPodInfo", "PodInfo"]

HOST_TIMEOUT = 10.0
"""Seconds that one host's agent has for its answer."""


class PodInfo(Protocol):
    """What a host's agent knows of a pod.

    Source: kubernetes v0.7 pkg/client/podinfo.go, PodInfoGetter.
    """

    def __call__(self, host: str, pod: dict[str, Any], /) -> dict[str, Any]:
        """Return the pod as the host's agent has it.

        Args:
            host: the node's name.
            pod: the pod as the API has it, at least its metadata.

        Raises:
            LookupError: the agent does not know the pod.
        """
        ...


class _Known(TypedDict, total=False):
    metadata: ObjectMeta


class NodeProxyPodInfo:
    """The pod info of one look: asks each kubelet once, through the API server's node proxy.

    Args:
        session: who asks the server.
        deadline: when the look must be over.
    """

    def __init__(self, session: Session, deadline: Deadline) -> None:
        self._session = session
        self._deadline = deadline
        self._pods: dict[str, dict[str, bytes]] = {}

    def __call__(self, host: str, pod: dict[str, Any], /) -> dict[str, Any]:
        """Return the pod as the host's kubelet has it.

        Raises:
            ApiError: the kubelet could not be asked.
            DeadlineExceeded: it did not answer in time.
            LookupError: it does not know the pod, or the API server does not know the host.
        """
        if host not in self._pods:
            self._pods[host] = self._ask(host)
        metadata = pod["metadata"]
        annotations = metadata.get("annotations") or {}
        # The kubelet knows a static pod by the hash of its file, its mirror carries that along.
        for uid in (metadata.get("uid"), annotations.get("kubernetes.io/config.mirror")):
            if uid in self._pods[host]:
                return decode_whole(PODS, self._pods[host][uid])
        raise LookupError(f"{host} does not know pod {metadata['name']}")

    def _ask(self, host: str) -> dict[str, bytes]:
        path = NODES.path(name=host, subresource="proxy/pods")
        deadline = self._deadline.at_most(HOST_TIMEOUT)
        try:
            answer = self._session.request("GET", path, deadline=deadline)
        except ApiError as error:
            if error.status == 404:
                raise LookupError(f"there is no node {host}") from error
            raise
        try:
            page, _ = get_list_decoder(_Known).decode_page(answer.data)
        except msgspec.DecodeError as error:
            raise ApiError(
                f"the kubelet of {host} did not answer with a list of pods",
                status=answer.status,
                reason="NotJSON",
                method="GET",
                path=path,
            ) from error
        return {item.object["metadata"].get("uid") or "": item.raw for item in page.items}


class FakePodInfo:
    """A pod info that knows what it is told, for tests of one's own.

    Args:
        known: names of pods by host.
    """

    def __init__(self, known: Mapping[str, Iterable[str]] | None = None) -> None:
        self._known: defaultdict[str, set[str]] = defaultdict(set)
        self.asked: list[tuple[str, str]] = []
        """Host and pod name of every question, in order."""
        for host, names in (known or {}).items():
            self.know(host, *names)

    def know(self, host: str, *names: str) -> None:
        """Let the agent of `host` know pods of these names from now on."""
        self._known[host].update(names)

    def forget(self, host: str, *names: str) -> None:
        """Let the agent of `host` know pods of these names no more."""
        self._known[host].difference_update(names)

    def __call__(self, host: str, pod: dict[str, Any], /) -> dict[str, Any]:
        """Return the pod as it was given.

        Raises:
            LookupError: nobody said that the host knows it.
        """
        name = pod["metadata"]["name"]
        self.asked.append((host, name))
        if name not in self._known[host]:
            raise LookupError(f"{host} does not know pod {name}")
        return pod
