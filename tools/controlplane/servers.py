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

ADMIN = "system:masters"


@dataclass(frozen=True)
class Users:
    """Tokens by user name; the stranger's is one that the server does not know."""

    admin: str
    powerless: str
    stranger: str


class ControlPlane:
    """etcd, API server, controllers and scheduler of one cluster, in one folder."""

    def __init__(self, folder: Path, assets: Path, address: str | None) -> None:
        self._folder = folder
        self._assets = assets
        self._etcd_port, self._peer_port, self.port = free_ports(3)
        self._address = address
        self.pki = folder / "pki"
        self.logs = folder / "logs"
        self._authority = Authority(self.pki)
        self.server = f"https://127.0.0.1:{self.port}"
        self.ca = self._authority.certificate
        self.admin = self._authority.client("admin", ADMIN)
        self._admin_kubeconfig = folder / "admin.kubeconfig"
        self.users = Users(*(secrets.token_hex(16) for _ in range(3)))

    def storage_and_server(self) -> list[Component]:
        """Return etcd and the API server; the others need them to answer."""
        hosts = ["127.0.0.1", "10.0.0.1", "localhost", "kubernetes", "kubernetes.default"]
        hosts += ["kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
        serving = self._authority.server("kube-apiserver", hosts)
        kubelets = self._authority.client("kube-apiserver-kubelet-client", ADMIN)
        signing = self._authority.tokens()
        tokens = self.pki / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(
            f"{self.users.admin},token-admin,token-admin,{ADMIN}\n"
            f"{self.users.powerless},powerless,powerless\n"
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
                "--bind-address=127.0.0.1",
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
                "--service-cluster-ip-range=10.0.0.0/24",
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
            self._admin_kubeconfig, self.server, self.ca, {"admin": certificate_user(self.admin)}
        )
        access = (
            f"--kubeconfig={self._admin_kubeconfig}",
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
        """Write the file by which a kubelet authenticates as its node."""
        pair = self._authority.client(f"system:node:{node}", "system:nodes")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_kubeconfig(file, self.server, self.ca, {"node": certificate_user(pair)})

    def kubeconfig(self, file: Path) -> None:
        """Write the file for those who use the cluster; its first context is the current one."""
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
        # The server refuses to write a loopback address into the Service "kubernetes".
        if self._address is None:
            return ["--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"]
        return [f"--advertise-address={self._address}"]

    def _component(self, program: str, *flags: str) -> Component:
        return Component(
            program,
            [str(self._assets / program), *flags],
            self.logs / f"{program}.log",
            folder=self._folder,
        )


def certificate_user(pair: Pair) -> dict[str, str]:
    """Return a kubeconfig's user who has a certificate."""
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
