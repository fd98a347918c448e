"""The network of a cluster with nodes: a namespace of its own, with its proxy and DNS server.

All nodes of a cluster are in it, and the API server reaches its pods and services by routes. It
ends with its processes.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane.errors import BrokenError
from tools.controlplane.polling import poll_until
from tools.controlplane.processes import Component

DOMAIN = "cluster.local"
PODS = "10.244.0.0/16"
"""The addresses of the pods of all nodes of all clusters on this machine."""

_PATIENCE = 10.0


@dataclass(frozen=True)
class Network:
    """The addresses of a cluster, which no other cluster on this machine has.

    Args:
        number: the number of the cluster on this machine, from 0 to 255.
    """

    number: int

    @property
    def host(self) -> str:
        """The address of this machine, where the API server is."""
        return f"10.245.{self.number}.1"

    @property
    def nodes(self) -> str:
        """The address of all nodes."""
        return f"10.245.{self.number}.2"

    @property
    def services(self) -> str:
        """The addresses of the services."""
        return f"10.246.{self.number}.0/24"

    @property
    def dns(self) -> str:
        """The address of the DNS server's service."""
        return f"10.246.{self.number}.10"

    def create(self) -> Namespace:
        """Create the namespace with a link to this machine."""
        with subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) as holder:
            try:
                return self._connect(holder.pid)
            finally:
                holder.kill()

    def _connect(self, pid: int) -> Namespace:
        path = Path(f"/proc/{pid}/ns/net")
        ours = Path("/proc/self/ns/net").stat().st_ino
        if not poll_until(lambda: path.stat().st_ino != ours, _PATIENCE, 0.01):
            raise BrokenError("unshare has not made a network namespace")
        namespace = Namespace(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        link = f"kwait{self.number}"
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "machine", "netns", str(pid))
        run("ip", "address", "add", f"{self.host}/30", "dev", link)
        run("ip", "link", "set", link, "up")
        namespace.run("ip", "link", "set", "lo", "up")
        namespace.run("ip", "address", "add", f"{self.nodes}/30", "dev", "machine")
        namespace.run("ip", "link", "set", "machine", "up")
        # Without it, requests for images of the internet end only after a time-out.
        namespace.run("ip", "route", "add", "unreachable", "default")
        # Packets to services must be forwarded for the proxy to refuse those without endpoints.
        namespace.run("ip", "route", "add", self.services, "via", self.host)
        namespace.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        self.add_route(self.services)
        return namespace

    def add_route(self, addresses: str) -> None:
        """Lead connections of this machine to addresses in the namespace."""
        run("ip", "route", "add", addresses, "via", self.nodes)


class Namespace:
    """A network namespace, which is there until it is closed and its processes have ended.

    Args:
        file: an open file descriptor of it.
    """

    def __init__(self, file: int) -> None:
        self._file = file

    def wrap(self, *command: str) -> list[str]:
        """Return a command line that runs a command in it."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self._file}", "--", *command]

    def run(self, *command: str) -> None:
        """Run a command in it."""
        run(*self.wrap(*command))

    def close(self) -> None:
        """Close it."""
        os.close(self._file)


def run(*command: str) -> None:
    """Run a command; raise with its output if it fails."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise BrokenError(f"{' '.join(command)} failed: {done.stdout.strip()}")


@dataclass(frozen=True)
class NetworkServers:
    """The proxy of the services, and the DNS server.

    Args:
        folder: the cluster's.
        assets: the folder of the programs.
        kubeconfig: of an administrator, with the API server's address in the namespace.
        search_path: the folders of further programs.
    """

    folder: Path
    assets: Path
    kubeconfig: Path
    search_path: str

    def components(self, network: Network, namespace: Namespace, node: str) -> list[Component]:
        """Write their configuration and return their processes."""
        proxy = self.folder / "kube-proxy.json"
        proxy.write_text(json.dumps(self._proxy(node), indent=2))
        corefile = self.folder / "Corefile"
        corefile.write_text(self._corefile(network))
        return [
            self._component(namespace, "kube-proxy", f"--config={proxy}"),
            self._component(namespace, "coredns", f"-conf={corefile}"),
        ]

    def _component(self, namespace: Namespace, program: str, *flags: str) -> Component:
        return Component(
            program,
            namespace.wrap(str(self.assets / program), *flags),
            self.folder / "logs" / f"{program}.log",
            folder=self.folder,
            variables={"PATH": self.search_path},
        )

    def _proxy(self, node: str) -> dict[str, object]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "clusterCIDR": PODS,
            # The limits are the machine's, not those of a namespace.
            "conntrack": {"maxPerCore": 0, "min": 0},
            "detectLocalMode": "ClusterCIDR",
            "hostnameOverride": node,
            "mode": "nftables",
            "nftables": {"minSyncPeriod": "50ms", "syncPeriod": "30s"},
        }

    def _corefile(self, network: Network) -> str:
        return f"""\
.:53 {{
    bind {network.nodes}
    errors
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {self.kubeconfig}
        fallthrough in-addr.arpa
    }}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""


def describe_dns_service(network: Network) -> list[tuple[str, dict[str, object]]]:
    """Return the DNS server's service and its endpoints, each with the path of its collection."""
    ports = [("dns", "UDP"), ("dns-tcp", "TCP")]
    listed = [{"name": name, "port": 53, "protocol": protocol} for name, protocol in ports]
    labels = {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}
    return [
        (
            "/api/v1/namespaces/kube-system/services",
            {
                "metadata": {"name": "kube-dns", "labels": labels},
                "spec": {"clusterIP": network.dns, "ports": listed},
            },
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices",
            {
                "metadata": {
                    "name": "kube-dns",
                    "labels": {"kubernetes.io/service-name": "kube-dns"},
                },
                "addressType": "IPv4",
                "endpoints": [{"addresses": [network.nodes], "conditions": {"ready": True}}],
                "ports": listed,
            },
        ),
    ]
