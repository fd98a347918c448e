"""Command lines and users of etcd and the control plane's servers."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.controlplane.certificates import Authority, Pair
from tools.controlplane.processes import Component, free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from tools.controlplane.network import Network

ADMIN = "system:masters"


@dataclass(frozen=True)
class Users:
    """Tokens by user name; `stranger` is unknown to the server."""

    admin: str
    powerless: str
    stranger: str
    controllers: str
    """Of the controllers and the scheduler: to verify a certificate at each request costs more."""


class ControlPlane:
    """etcd, API server, controllers and scheduler of one cluster, in one folder."""

    def __init__(self, folder: Path, assets: Path, network: Network | None) -> None:
        self._folder = folder
        self._assets = assets
        self._etcd_port, self._peer_port, self.port = free_ports(3)
        self._network = network
        self.pki = folder / "pki"
        self.logs = folder / "logs"
        self._authority = Authority(self.pki)
        # Pods in the network of their node reach this address, too.
        self._host = network.host if network is not None else "127.0.0.1"
        self.server = f"https://{self._host}:{self.port}"
        self.ca = self._authority.certificate
        self.admin = self._authority.client("admin", ADMIN)
        self._controllers_kubeconfig = folder / "controllers.kubeconfig"
        self.users = Users(*(secrets.token_hex(16) for _ in range(4)))

    def storage_and_server(self) -> list[Component]:
        """Return etcd and the API server, which the others need."""
        services = self._network.services if self._network else "10.0.0.0/24"
        hosts = [self._host, services.replace(".0/24", ".1")]
        hosts += ["kubernetes", "kubernetes.default"]
        hosts += ["kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
        serving = self._authority.server("kube-apiserver", hosts)
        kubelets = self._authority.client("kube-apiserver-kubelet-client", ADMIN)
        signing = self._authority.tokens()
        tokens = self.pki / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(
            f"{self.users.admin},token-admin,token-admin,{ADMIN}\n"
            f"{self.users.powerless},powerless,powerless\n"
            f"{self.users.controllers},admin,admin,{ADMIN}\n"
        )
        storage = f"http://127.0.0.1:{self._etcd_port}"
        peers = f"http://127.0.0.1:{self._peer_port}"
        return [
            self._component(
                "etcd",
                f"--data-dir={self._folder / 'etcd'}",
                f"--listen-client-urls={storage}",
                f"--advertise-client-urls={storage}",
                f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=default={peers}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ),
            self._component(
                "kube-apiserver",
                f"--etcd-servers={storage}",
                f"--secure-port={self.port}",
                *self._endpoint(),
                f"--tls-cert-file={serving.certificate}",
                f"--tls-private-key-file={serving.key}",
                f"--client-ca-file={self.ca}",
                f"--token-auth-file={tokens}",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                f"--service-account-key-file={signing.certificate}",
                f"--service-account-signing-key-file={signing.key}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-cluster-ip-range={services}",
                "--allow-privileged",
                f"--kubelet-client-certificate={kubelets.certificate}",
                f"--kubelet-client-key={kubelets.key}",
                "--kubelet-preferred-address-types=InternalIP",
                "--max-requests-inflight=3000",
                "--max-mutating-requests-inflight=1500",
            ),
        ]

    def loops(self) -> list[Component]:
        """Return the controllers and the scheduler."""
        write_kubeconfig(
            self._controllers_kubeconfig,
            self.server,
            self.ca,
            {"controllers": {"token": self.users.controllers}},
        )
        access = (
            f"--kubeconfig={self._controllers_kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )
        return [
            self._component(
                "kube-controller-manager",
                *access,
                "--horizontal-pod-autoscaler-sync-period=2s",
                f"--service-account-private-key-file={self.pki / 'service-accounts.key'}",
                f"--root-ca-file={self.ca}",
                f"--cluster-signing-cert-file={self.ca}",
                f"--cluster-signing-key-file={self._authority.key}",
                "--use-service-account-credentials=false",
            ),
            self._component("kube-scheduler", *access),
        ]

    def node_kubeconfig(self, node: str, file: Path) -> None:
        """Write the kubeconfig of a node's kubelet."""
        self._inner_kubeconfig(file, self._authority.client(f"system:node:{node}", "system:nodes"))

    def network_kubeconfig(self, file: Path) -> None:
        """Write the kubeconfig of the servers of the cluster's network."""
        self._inner_kubeconfig(file, self.admin)

    def _inner_kubeconfig(self, file: Path, pair: Pair) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_kubeconfig(file, self.server, self.ca, {"node": certificate_user(pair)})

    def kubeconfig(self, file: Path) -> None:
        """Write the kubeconfig of the users; its first context is the current one."""
        write_kubeconfig(
            file,
            self.server,
            self.ca,
            {
                "admin": certificate_user(self.admin),
                "admin-token": {"token": self.users.admin},
                "powerless": {"token": self.users.powerless},
                "stranger": {"token": self.users.stranger},
            },
        )

    def _endpoint(self) -> list[str]:
        flags = [f"--bind-address={self._host}", f"--advertise-address={self._host}"]
        if self._network is None:
            # The server refuses to write a loopback address into the Service "kubernetes".
            flags.append("--endpoint-reconciler-type=none")
        return flags

    def _component(self, program: str, *flags: str) -> Component:
        return Component(
            program,
            [str(self._assets / program), *flags],
            self.logs / f"{program}.log",
            folder=self._folder,
        )


def certificate_user(pair: Pair) -> dict[str, str]:
    """Return a user of a kubeconfig with a client certificate."""
    return {
        "client-certificate-data": _encoded(pair.certificate),
        "client-key-data": _encoded(pair.key),
    }


def write_kubeconfig(file: Path, server: str, ca: Path, users: dict[str, dict[str, str]]) -> None:
    """Write a kubeconfig with one context per user, named as the user; JSON is YAML."""
    cluster = {"server": server, "certificate-authority-data": _encoded(ca)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "controlplane", "cluster": cluster}],
        "users": [{"name": name, "user": user} for name, user in users.items()],
        "contexts": [
            {"name": name, "context": {"cluster": "controlplane", "user": name}} for name in users
        ],
        "current-context": next(iter(users)),
    }
    file.touch(mode=0o600)
    file.write_text(json.dumps(content, indent=2) + "\n")


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
