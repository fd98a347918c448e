"""Defaults of pod specs that depend on other fields.

Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/v1/conversion.go, pkg/api/pod/util.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.core.resources import aggregate_container_resources

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["default_pod", "default_pod_spec", "drop_disabled_fields"]

_LISTS = ("initContainers", "containers")
_COMPUTE = ("cpu", "memory")
_HUGE_PAGES_PREFIX = "hugepages-"
_IMAGE_REFERENCE = re.compile(
    # An image's name as far as it may be read: [host[:port]/]path[:tag][@digest].
    r"(?:[A-Za-z0-9][-A-Za-z0-9.]*(?::\d+)?/|\[[0-9a-fA-F:]+\](?::\d+)?/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?P<tag>:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
_DISABLED_SOURCES = ("clusterTrustBundle", "podCertificate")


def default_pod_spec(spec: Obj) -> None:
    """Set the defaults of pods and templates that depend on other fields."""
    for field in (*_LISTS, "ephemeralContainers"):
        for container in spec.get(field, ()):
            if not container.get("imagePullPolicy"):
                container["imagePullPolicy"] = _default_pull_policy(container.get("image", ""))
            container.setdefault("resources", {})
    for container in spec.get("ephemeralContainers", ()):
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]


def _default_volume(volume: Obj) -> None:
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}
    elif "image" in volume and not volume["image"].get("pullPolicy"):
        volume["image"]["pullPolicy"] = _default_pull_policy(volume["image"].get("reference", ""))
    elif "azureDisk" in volume:
        volume["azureDisk"].setdefault("readOnly", False)


def _default_pull_policy(image: str) -> str:
    match = _IMAGE_REFERENCE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    latest = match["tag"] == ":latest" or (not match["tag"] and not match["digest"])
    return "Always" if latest else "IfNotPresent"


def default_pod(spec: Obj) -> None:
    """Set the defaults of pods alone: requests from limits, host ports."""
    for field in _LISTS:
        for container in spec.get(field, ()):
            limits = container["resources"].get("limits")
            if limits:
                requests = container["resources"].setdefault("requests", {})
                for name, value in limits.items():
                    requests.setdefault(name, value)
            if spec.get("hostNetwork"):
                for port in container.get("ports", ()):
                    if not port.get("hostPort") and port.get("containerPort"):
                        port["hostPort"] = port["containerPort"]
    if spec.get("resources"):
        _default_pod_resources(spec, spec["resources"])
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1


def _default_pod_resources(spec: Obj, resources: Obj) -> None:
    """Set pod-level requests and limits from those of the containers."""
    limits: dict[str, str] = resources.get("limits", {})
    requests: dict[str, str] = resources.get("requests", {})
    if limits or requests:
        for name, amount in aggregate_container_resources(spec, "limits").items():
            if name.startswith(_HUGE_PAGES_PREFIX) and name not in requests and name not in limits:
                limits[name] = str(amount)
                resources["limits"] = limits
    if not limits:
        return
    for name, amount in aggregate_container_resources(spec, "requests").items():
        if name in _COMPUTE and name not in requests:
            requests[name] = str(amount)
            resources["requests"] = requests
    for name, text in limits.items():
        if name not in requests and (name in _COMPUTE or name.startswith(_HUGE_PAGES_PREFIX)):
            requests[name] = text
            resources["requests"] = requests


def drop_disabled_fields(spec: Obj) -> None:
    """Drop fields of features that are off by default."""
    spec.pop("schedulingGroup", None)
    for volume in spec.get("volumes", ()):
        if "projected" in volume:
            for source in volume["projected"].get("sources") or ():
                for field in _DISABLED_SOURCES:
                    source.pop(field, None)
    for field in (*_LISTS, "ephemeralContainers"):
        for container in spec.get(field, ()):
            lifecycle = container.get("lifecycle", {})
            if "stopSignal" in lifecycle:
                del lifecycle["stopSignal"]
                if not lifecycle:
                    del container["lifecycle"]
