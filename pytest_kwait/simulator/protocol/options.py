"""Options of an embedded cluster, for its process and for those that start one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_kwait.simulator.image_mapping import ImageMapping  # noqa: TC001 - types of the decoder
from pytest_kwait.simulator.network.egress import EgressTarget  # noqa: TC001 - as above

HOST = "127.0.0.1"

Timing = Literal["fast", "real"]

_MAX_PORT = 65535


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedOptions:
    """Options of an embedded cluster.

    Args:
        nodes: the number of nodes.
        api_only: whether it is an API server alone, without controllers, scheduler and nodes.
        timing: `fast` for pauses twenty times shorter than upstream's, `real` for upstream's own.
        port: the port that it serves on; 0 for any free one.
        address: the listening address; loopback by default.
        token_auth_file: further users and their tokens, in kube-apiserver's format; empty for none.
        users: `NAME` or `NAME=GROUP,...` of users with a client certificate.
        images: the programs that images are mapped to.
        egress: the hosts and ports outside of the cluster that pods may reach.
        tls_cert_file: the server's certificate; empty for one of its own authority.
        tls_private_key_file: the key of that certificate.
        client_ca_file: a further authority of client certificates; empty for none.

    Raises:
        ValueError: a number is out of range, or a certificate has no key.
    """

    nodes: int = 2
    api_only: bool = False
    timing: Timing = "fast"
    port: int = 0
    address: str = HOST
    token_auth_file: str = ""
    users: tuple[str, ...] = ()
    images: tuple[ImageMapping, ...] = ()
    egress: tuple[EgressTarget, ...] = ()
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    client_ca_file: str = ""

    def __post_init__(self) -> None:
        if self.nodes < 0:
            raise ValueError("nodes must not be negative")
        if not 0 <= self.port <= _MAX_PORT:
            raise ValueError(f"port must be between 0 and {_MAX_PORT}")
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            raise ValueError("tls_cert_file and tls_private_key_file belong together")
