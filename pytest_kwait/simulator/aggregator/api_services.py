"""Whether who serves a group elsewhere is there.

Source: k8s.io/kube-aggregator pkg/controllers/status/remote/remote_available_controller.go.
"""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.aggregator.local import LOCAL_VERDICT
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, clone, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cluster import SimulatedCluster

__all__ = ["AvailabilityController", "Backend", "check_availability", "resolve_backend"]

_SERVICES = "apiservices.apiregistration.k8s.io"
_SLICES = "endpointslices.discovery.k8s.io"
# Seconds between two looks at who does not answer.
_RETRY_SECONDS = 5.0

Availability = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Backend:
    """Where a group is served.

    Args:
        host: name or address.
        port: its port.
        insecure: whether any certificate will do.
        authority: whom to trust, as PEM; empty for the machine's own.
        name: whom the certificate is to name.
    """

    host: str
    port: int
    insecure: bool
    authority: str
    name: str

    @property
    def url(self) -> str:
        """The start of its addresses."""
        return f"https://{self.host}:{self.port}"

    def trust(self) -> ssl.SSLContext:
        """What a connection to it has to prove.

        Raises:
            ValueError: `authority` is none.
            ssl.SSLError: the same.
        """
        context = ssl.create_default_context(cadata=self.authority or None)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def resolve_backend(api: SimulatedCluster, obj: Obj) -> Backend | None:
    """Where an APIService is served, None where nothing could answer."""
    spec = obj["spec"]
    reference = spec["service"]
    service = api.find("services", reference["name"], reference["namespace"])
    # Nothing listens on the addresses of the embedded cluster's services.
    if service is None or service["spec"].get("type") != "ExternalName":
        return None
    return Backend(
        service["spec"].get("externalName", ""),
        reference.get("port", 443),
        bool(spec.get("insecureSkipTLSVerify")),
        base64.b64decode(spec.get("caBundle") or "").decode(errors="replace"),
        f"{reference['name']}.{reference['namespace']}.svc",
    )


def check_availability(api: SimulatedCluster, obj: Obj) -> Availability | None:
    """Reason and message of a service that cannot be asked; None for one that can."""
    reference = obj["spec"].get("service")
    if reference is None:
        return LOCAL_VERDICT
    name, namespace = reference["name"], reference["namespace"]
    port = reference.get("port", 443)
    told = f'service/{name} in "{namespace}"'
    service = api.find("services", name, namespace)
    if service is None:
        return "ServiceNotFound", f"{told} is not present"
    if service["spec"].get("type") == "ExternalName":
        return None
    ports = [one for one in service["spec"].get("ports") or () if one["port"] == port]
    if not ports:
        return "ServicePortError", f"{told} is not listening on port {port}"
    slices = [
        one
        for one in api.list(_SLICES, namespace)
        if (one["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == name
    ]
    if not slices:
        return "EndpointsNotFound", f"cannot find endpointslices for {told}"
    wanted = ports[0].get("name") or ""
    if not any(
        (entry.get("name") or "") == wanted
        for one in slices
        if any((each.get("conditions") or {}).get("ready") for each in one.get("endpoints") or ())
        for entry in one.get("ports") or ()
    ):
        why = f'endpointslices for {told} have no addresses with port name "{wanted}"'
        return "MissingEndpoints", why
    spec = obj["spec"]
    address = f"{service['spec'].get('clusterIP', '')}:{port}"
    url = f"https://{address}/apis/{spec['group']}/{spec['version']}"
    refused = f'Get "{url}": dial tcp {address}: connect: connection refused'
    return "FailedDiscoveryCheck", f"failing or missing response from {url}: {refused}"


class AvailabilityController:
    """Says of each whether it is there, and has the registry know.

    Args:
        api: the cluster.
        ask: asks a service, and tells the verdict and what it serves; may take its time.
    """

    def __init__(
        self,
        api: SimulatedCluster,
        ask: Callable[[Backend, Obj, Callable[[Availability, list[Obj] | None], None]], None],
    ) -> None:
        self._api = api
        self._ask = ask
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, "apiservice-availability")
        api.subscribe(_SERVICES, self._changed)
        for resource in ("services", _SLICES):
            api.subscribe(resource, self._behind_changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        spec = new["spec"]
        key = (spec.get("group", ""), spec["version"])
        if change == "DELETED":
            self._api.kinds.elsewhere.pop(key, None)
            self._api.kinds.discovered.pop(key, None)
            self._queue.forget(name_of(new))
        elif spec.get("service") is not None:
            self._api.kinds.elsewhere[key] = new
            self._queue.add(name_of(new))
        elif "conditions" not in (new.get("status") or {}):
            self._queue.add(name_of(new))

    def _behind_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        del change
        space = new["metadata"]["namespace"]
        for obj in self._api.kinds.elsewhere.values():
            if obj["spec"]["service"]["namespace"] == space:
                self._queue.add(name_of(obj))

    def _sync(self, name: str) -> None:
        obj = self._api.find(_SERVICES, name)
        if obj is None:
            return
        verdict = check_availability(self._api, obj)
        backend = resolve_backend(self._api, obj) if verdict is None else None
        if verdict is not None or backend is None:
            self._say(name, verdict or LOCAL_VERDICT)
        else:
            self._ask(backend, obj, lambda *found: self._answered(name, *found))

    def _answered(self, name: str, verdict: Availability, resources: list[Obj] | None) -> None:
        obj = self._api.find(_SERVICES, name)
        if obj is not None:
            key = (obj["spec"].get("group", ""), obj["spec"]["version"])
            self._api.kinds.discovered.pop(key, None)
            if resources is not None:
                self._api.kinds.discovered[key] = resources
        self._say(name, verdict)
        if verdict[0] != "Passed":
            self._queue.add_after(name, _RETRY_SECONDS)

    def _say(self, name: str, verdict: Availability) -> None:
        obj = self._api.find(_SERVICES, name)
        if obj is None:
            return
        reason, message = verdict
        value = "True" if reason in ("Passed", LOCAL_VERDICT[0]) else "False"
        status = clone(obj.get("status") or {})
        last: Obj = next(iter(status.get("conditions") or ()), {})
        if (last.get("status"), last.get("reason"), last.get("message")) == (
            value, reason, message
        ):  # fmt: skip
            return
        since = self._api.clock.stamp()
        if last.get("status") == value:
            since = last["lastTransitionTime"]
        status["conditions"] = [
            {
                "type": "Available", "status": value, "lastTransitionTime": since,
                "reason": reason, "message": message,
            }
        ]  # fmt: skip
        self._api.update_status(_SERVICES, {**obj, "status": status})
