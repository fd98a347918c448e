"""Options of an embedded cluster, for its process and for those that start one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pytest_kwait.simulator.protocol.egress import EgressTarget  # noqa: TC001 - as above
from pytest_kwait.simulator.protocol.image_mapping import ImageMapping  # noqa: TC001 - types of the decoder
from pytest_kwait.simulator.protocol.nodes import Nodes, count_nodes

HOST = "127.0.0.1"

Timing = Literal["fast", "real"]

RequestedIsolation = Literal["auto", "namespaces", "intercepted", "none"]
"""The isolation of programs in pods; `auto` is the first of the others that the machine permits."""
ISOLATED_PARTS = ("processes", "storage", "users")
"""Parts of an isolation that not every one has: processes of a container's own, a limit of what it
writes, and the user of its security context."""

TIME_SCALES: dict[Timing, float] = {"fast": 0.1, "real": 1.0}
"""Maximum delay of an embedded cluster's controllers by timing, as a fraction of a real cluster's.

Fast pauses are a twentieth; computing time does not shrink, and grace periods leave room for as
much again.
"""

TIME_SCALE_HEADER = "Kwait-Time-Scale"
"""The header of every response of a cluster whose controllers are faster than real ones."""

CONTROLLERS_HEADER = "Kwait-Controllers"
"""The header, `none`, of every response of an API server alone."""

_MAX_PORT = 65535


class CommandFlag(NamedTuple):
    """The flag of `kwait up` for an option that no setting of a run has.

    Args:
        name: the flag.
        metavar: its value in the help.
        help: the text of the help, without the default.
        default: the default in the help; empty for the option's own.
    """

    name: str
    metavar: str
    help: str
    default: str = ""


def _flag(value: Any, *flag: str) -> Any:
    """Declare an option with its default and its `CommandFlag`."""
    return field(default=value, metadata={"flag": CommandFlag(*flag)})


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedOptions:
    """Options of an embedded cluster.

    `nodes`, `timing`, `api_only`, `images`, `egress`, `isolation` and `load_balancers` are settings
    of a run as well.

    Args:
        nodes: the number of nodes that are all alike, or the nodes.
        tls_cert_file: the server's certificate; empty for one of its own authority.
        tls_private_key_file: the key of that certificate.
        client_ca_file: a further authority of client certificates; empty for none.

    Raises:
        ValueError: a number is out of range, a certificate has no key, or an API server alone is to
            have load balancers.
    """

    nodes: Nodes = 2
    api_only: bool = False
    port: int = _flag(0, "--port", "P", "port", "any free port")
    address: str = _flag(
        HOST, "--address", "IP", "listen address, 0.0.0.0 for all interfaces", "loopback only"
    )
    timing: Timing = "fast"
    token_auth_file: str = _flag(
        "",
        "--token-auth-file",
        "FILE",
        'further users, one per line: token,user,uid or token,user,uid,"group1,group2"',
    )
    users: tuple[str, ...] = _flag(
        (), "--user", "NAME[=GROUP,...]", "a further user, with a client certificate; repeatable"
    )
    images: tuple[ImageMapping, ...] = ()
    egress: tuple[EgressTarget, ...] = ()
    isolation: RequestedIsolation = "auto"
    load_balancers: bool = False
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    client_ca_file: str = ""

    def __post_init__(self) -> None:
        if count_nodes(self.nodes) < 0:
            raise ValueError("nodes must not be negative")
        if not 0 <= self.port <= _MAX_PORT:
            raise ValueError(f"port must be between 0 and {_MAX_PORT}")
        if self.load_balancers and self.api_only:
            raise ValueError("an API server alone has no load balancers")
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            raise ValueError("tls_cert_file and tls_private_key_file belong together")
