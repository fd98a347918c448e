"""What network policies allow, of pods with addresses of their own.

A pod that a policy selects is isolated in the directions of that policy: it has the connections
that one of its policies for the direction allows, and no others. A connection needs the consent of
both pods. Services are judged by their endpoints. The cluster's DNS server counts as a pod of
`kube-system` with the label `k8s-app: kube-dns`. A pod is always allowed to reach itself and its
node, and to be reached by nodes: their addresses are those of probes, of pods with `hostNetwork`
and of what comes from outside.

Source: k8s.io/api networking/v1 types.go, `NetworkPolicySpec`; sigs.k8s.io/kube-network-policies
pkg/networkpolicy/networkpolicy.go, `evaluatePacket`, `evaluateIPBlocks`.
"""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, ip_network
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_kwait.apimachinery.selectors import matches_label_selector
from pytest_kwait.simulator.event_recorder import WARNING, EventRecorder
from pytest_kwait.simulator.network.cluster_names import is_kubernetes_service
from pytest_kwait.simulator.network.filter_rules import (
    ALL_PORTS,
    LAST_PORT,
    FilterRule,
    PortRange,
    intersect_ports,
)
from pytest_kwait.simulator.network.service_endpoints import list_addresses, list_targets
from pytest_kwait.simulator.objects import labels_of, name_of, namespace_of, uid_of
from pytest_kwait.simulator.protocol.addresses import CLUSTER_DNS_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

NETWORK_POLICIES = "networkpolicies.networking.k8s.io"
Direction = Literal["Ingress", "Egress"]

_POD, _NETWORK_POLICY = ("v1", "Pod"), ("networking.k8s.io/v1", "NetworkPolicy")
_ANY_ADDRESS = "0.0.0.0/0"
_MAX_DENIALS_OF_POD = 8
_DNS_PORTS = {("dns", "UDP"): 53, ("dns-tcp", "TCP"): 53}


class Endpoint(NamedTuple):
    """A pod as policies see it.

    Args:
        pod: the object; None for the cluster's DNS server.
        address: its address.
        node: the address of its node; empty before that is known.
        ports: the numbers of its named ports, by name and protocol.
    """

    pod: Obj | None
    namespace: str
    name: str
    address: str
    labels: Mapping[str, str]
    node: str
    ports: Mapping[tuple[str, str], int]


class Denial(NamedTuple):
    """Why a connection is not allowed.

    Args:
        direction: the direction that is restricted.
        endpoint: the pod whose direction it is.
        policies: the names of the policies that isolate it.
    """

    direction: Direction
    endpoint: Endpoint
    policies: tuple[str, ...]

    def __str__(self) -> str:
        """Return the reason as a part of a sentence."""
        kind = "policy" if len(self.policies) == 1 else "policies"
        side = self.direction.lower()
        return f"{side} of pod {self.endpoint.name} by network {kind} {', '.join(self.policies)}"


def _make_endpoint(pod: Obj, address: str) -> Endpoint:
    sidecars = [
        container
        for container in pod["spec"].get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    ports = {
        (port["name"], port.get("protocol", "TCP")): port["containerPort"]
        for container in (*pod["spec"]["containers"], *sidecars)
        for port in container.get("ports") or ()
        if port.get("name")
    }
    node = (pod.get("status") or {}).get("hostIP") or ""
    return Endpoint(
        pod, namespace_of(pod), name_of(pod), address, labels_of(pod), node, ports
    )  # fmt: skip


class PolicySet:
    """The policies of one moment, with the pods that they are about.

    Args:
        cluster: whose objects these are.
        policies: all policies.
    """

    def __init__(self, cluster: Cluster, policies: Sequence[Obj]) -> None:
        self._cluster = cluster
        self._policies: dict[str, list[Obj]] = {}
        for policy in policies:
            self._policies.setdefault(namespace_of(policy), []).append(policy)
        self._isolating: dict[tuple[Direction, str], list[Obj]] = {}
        self._peers: dict[tuple[int, str], bool] = {}
        self._labels = {name_of(found): labels_of(found) for found in cluster.list("namespaces")}

    @cached_property
    def endpoints(self) -> dict[str, Endpoint]:
        """The pods by address, and the DNS server."""
        found = {
            address: _make_endpoint(pod, address)
            for kubelet in self._cluster.kubelets.values()
            for address, pod in kubelet.list_addresses()
        }
        found[CLUSTER_DNS_ADDRESS] = Endpoint(
            None, "kube-system", "kube-dns", CLUSTER_DNS_ADDRESS, {"k8s-app": "kube-dns"}, "",
            _DNS_PORTS,
        )  # fmt: skip
        return found

    # -- one connection

    def find_denial(
        self, client: Endpoint, address: str, port: int, protocol: str
    ) -> Denial | None:
        """Return why a pod may not connect to an address; None if it may.

        Args:
            address: of a pod, a node, or outside of the cluster; of no service.
        """
        target = self.endpoints.get(address)
        if address in (client.address, client.node):
            return None
        if not _has(self._list_egress(client, address, target), port, protocol):
            return self._make_denial("Egress", client)
        if target is not None and not _has(
            self._list_ports("Ingress", target, client), port, protocol
        ):
            return self._make_denial("Ingress", target)
        return None

    def _make_denial(self, direction: Direction, endpoint: Endpoint) -> Denial:
        policies = self._list_policies(direction, endpoint)
        return Denial(direction, endpoint, tuple(sorted(map(name_of, policies))))

    def _list_policies(self, direction: Direction, endpoint: Endpoint) -> list[Obj]:
        """Return the policies that isolate a pod in a direction."""
        known = self._isolating.get((direction, endpoint.address))
        if known is None:
            known = self._isolating[direction, endpoint.address] = [
                policy
                for policy in self._policies.get(endpoint.namespace, ())
                if direction in policy["spec"]["policyTypes"]
                and matches_label_selector(policy["spec"].get("podSelector") or {}, endpoint.labels)
            ]
        return known

    def _list_rules(self, direction: Direction, endpoint: Endpoint) -> list[tuple[Obj, Obj]] | None:
        """Return the rules for a pod with their policies; None if it is not isolated."""
        policies = self._list_policies(direction, endpoint)
        if not policies:
            return None
        return [
            (policy, rule)
            for policy in policies
            for rule in policy["spec"].get(direction.lower()) or ()
        ]

    def _list_ports(
        self, direction: Direction, endpoint: Endpoint, other: Endpoint
    ) -> list[PortRange]:
        """Return the ports on which a pod allows connections with another one."""
        rules = self._list_rules(direction, endpoint)
        if rules is None:
            return [ALL_PORTS]
        target = endpoint if direction == "Ingress" else other
        return [
            ports
            for policy, rule in rules
            if self._is_peer(policy, rule, direction, other)
            for ports in _list_ranges(rule, target)
        ]

    def _is_peer(self, policy: Obj, rule: Obj, direction: Direction, other: Endpoint) -> bool:
        known = self._peers.get((id(rule), other.address))
        if known is None:
            peers = rule.get("from" if direction == "Ingress" else "to")
            known = not peers or any(self._matches(policy, peer, other) for peer in peers)
            self._peers[id(rule), other.address] = known
        return known

    def _matches(self, policy: Obj, peer: Obj, other: Endpoint) -> bool:
        if peer.get("ipBlock"):
            return any(
                IPv4Address(other.address) in network for network in _list_networks(peer["ipBlock"])
            )
        namespaces = peer.get("namespaceSelector")
        if namespaces is None:
            is_in_namespace = other.namespace == namespace_of(policy)
        else:
            labels = self._labels.get(other.namespace, {})
            is_in_namespace = matches_label_selector(namespaces, labels)
        pods = peer.get("podSelector")
        return is_in_namespace and (pods is None or matches_label_selector(pods, other.labels))

    def _list_egress(
        self, client: Endpoint, address: str, target: Endpoint | None
    ) -> list[PortRange]:
        """Return the ports of an address that a pod's own policies allow."""
        if target is not None:
            return self._list_ports("Egress", client, target)
        blocks = self._list_blocks(client)
        if blocks is None:
            return [ALL_PORTS]
        host = _parse_host(address)
        return [ports for network, ports in blocks if host in network]

    def _list_blocks(self, client: Endpoint) -> list[tuple[IPv4Network, PortRange]] | None:
        """Return the networks that a pod may reach; None if its egress is not isolated."""
        rules = self._list_rules("Egress", client)
        if rules is None:
            return None
        return [
            (network, ports)
            for _, rule in rules
            for network in _list_rule_networks(rule)
            for ports in _list_ranges(rule, None)
        ]

    # -- all connections

    def list_filter_rules(self) -> list[FilterRule]:
        """Return rules with the same effect, for all pods."""
        isolated = [
            endpoint
            for endpoint in self.endpoints.values()
            if self._list_policies("Ingress", endpoint)
        ]
        return [
            rule
            for client in self.endpoints.values()
            if client.pod is not None
            for rule in self._list_rules_of(client, isolated)
        ]

    def _list_rules_of(
        self, client: Endpoint, isolated: Sequence[Endpoint]
    ) -> Iterator[FilterRule]:
        source, blocks = client.address, self._list_blocks(client)
        targets = isolated if blocks is None else tuple(self.endpoints.values())
        if not targets:
            return
        for address in (client.address, client.node):
            if address:
                yield FilterRule(source, f"{address}/32", ALL_PORTS, is_allowed=True)
        yield from self._list_service_rules(client)
        for target in targets:
            network = f"{target.address}/32"
            for ports in intersect_ports(
                self._list_ports("Ingress", target, client),
                self._list_ports("Egress", client, target),
            ):
                yield FilterRule(source, network, ports, is_allowed=True)
            if target in isolated:
                yield FilterRule(source, network, ALL_PORTS, is_allowed=False)
        if blocks is not None:
            for block, ports in blocks:
                yield FilterRule(source, str(block), ports, is_allowed=True)
            yield FilterRule(source, _ANY_ADDRESS, ALL_PORTS, is_allowed=False)

    def _list_service_rules(self, client: Endpoint) -> Iterator[FilterRule]:
        """Yield rules for the addresses of services: one leads on if an endpoint may be reached.

        A service without endpoints refuses connections by itself. The address of the DNS server is
        no service's here.
        """
        for service in self._cluster.list("services"):
            spec = service["spec"]
            addresses = [one for one in list_addresses(service) if one != CLUSTER_DNS_ADDRESS]
            if spec.get("type") == "ExternalName" or not addresses:
                continue
            for port in spec.get("ports") or ():
                protocol = port.get("protocol", "TCP")
                targets = (
                    [self._cluster.server_address]
                    if is_kubernetes_service(service)
                    else list_targets(self._cluster, service, port)
                )
                is_allowed = not targets or any(
                    self.find_denial(client, address, number, protocol) is None
                    for address, number in targets
                )
                ports = PortRange(protocol, port["port"], port["port"])
                for address in addresses:
                    yield FilterRule(client.address, f"{address}/32", ports, is_allowed)


def _parse_host(address: str) -> IPv4Address:
    """Return an address; that of a server with another kind of address is in no block but all."""
    try:
        return IPv4Address(address)
    except ValueError:
        return IPv4Address(0)


def _has(ranges: Sequence[PortRange], port: int, protocol: str) -> bool:
    return any(ports.has(port, protocol) for ports in ranges)


def _list_ranges(rule: Obj, target: Endpoint | None) -> list[PortRange]:
    """Return the ports of a rule; named ones are those of the target."""
    if not rule.get("ports"):
        return [ALL_PORTS]
    found: list[PortRange] = []
    for port in rule["ports"]:
        protocol, number = port.get("protocol") or "TCP", port.get("port")
        if number is None:
            found.append(PortRange(protocol, 0, LAST_PORT))
            continue
        if isinstance(number, str):
            number = None if target is None else target.ports.get((number, protocol))
            if number is None:
                continue
        found.append(PortRange(protocol, number, port.get("endPort") or number))
    return found


def _list_rule_networks(rule: Obj) -> Iterator[IPv4Network]:
    """Yield the networks of a rule of egress; pods are found by their labels beside them."""
    if not rule.get("to"):
        yield IPv4Network(_ANY_ADDRESS)
    for peer in rule.get("to") or ():
        if peer.get("ipBlock"):
            yield from _list_networks(peer["ipBlock"])


def _list_networks(block: Obj) -> list[IPv4Network]:
    """Return the networks of an `ipBlock`, without those that it excludes."""
    network = ip_network(block["cidr"], strict=False)
    if not isinstance(network, IPv4Network):
        return []
    found = [network]
    for text in block.get("except") or ():
        excluded = ip_network(text, strict=False)
        if isinstance(excluded, IPv4Network):
            found = [rest for one in found for rest in _exclude(one, excluded)]
    return found


def _exclude(network: IPv4Network, excluded: IPv4Network) -> list[IPv4Network]:
    if not network.overlaps(excluded):
        return [network]
    if network.subnet_of(excluded):
        return []
    return list(network.address_exclude(excluded))


class NetworkPolicies:
    """The policies of a cluster, as they are when a connection is made."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._recorder = EventRecorder(cluster, "kwait-network")
        self._reported: dict[str, set[str]] = {}

    def list_filter_rules(self) -> list[FilterRule]:
        """Return the rules for all pods that there are now; none without policies."""
        policies = self._cluster.list(NETWORK_POLICIES)
        return PolicySet(self._cluster, policies).list_filter_rules() if policies else []

    def is_allowed(self, client: str, address: str, port: int, protocol: str = "TCP") -> bool:
        """Return whether a pod may connect; an event on it says why not.

        Args:
            client: the address of the pod; others may always.
            address: of a pod, a node or outside of the cluster; of no service.
        """
        policies = self._cluster.list(NETWORK_POLICIES)
        if not policies or not client:
            return True
        policy_set = PolicySet(self._cluster, policies)
        endpoint = policy_set.endpoints.get(client)
        if endpoint is None or endpoint.pod is None:
            return True
        denial = policy_set.find_denial(endpoint, address, port, protocol)
        if denial is not None:
            self._report(endpoint.pod, f"{address}:{port}/{protocol}", denial)
        return denial is None

    def _report(self, pod: Obj, place: str, denial: Denial) -> None:
        reported = self._reported.setdefault(uid_of(pod), set())
        message = f"connection to {place} is denied: {denial}"
        if message not in reported and len(reported) < _MAX_DENIALS_OF_POD:
            reported.add(message)
            self._recorder.event(pod, _POD, WARNING, "ConnectionDenied", message)

    def report_failure(self, reason: str) -> None:
        """Report that programs cannot be restricted, once on each policy."""
        message = f"programs in pods are not restricted: {reason}"
        for policy in self._cluster.list(NETWORK_POLICIES):
            if message not in self._reported.setdefault(uid_of(policy), set()):
                self._reported[uid_of(policy)].add(message)
                self._recorder.event(policy, _NETWORK_POLICY, WARNING, "NotEnforced", message)

    def forget(self, obj: Obj) -> None:
        """Forget what was reported of a pod or policy that is gone."""
        self._reported.pop(uid_of(obj), None)


def get_network_policies(cluster: Cluster) -> NetworkPolicies:
    """Return the policies of a cluster."""
    return cluster.services.get(NetworkPolicies, lambda: NetworkPolicies(cluster))
