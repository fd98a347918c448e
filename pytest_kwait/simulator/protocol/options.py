"""Options of an embedded cluster, as its process reads them: a JSON object on a descriptor."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from pytest_kwait.simulator.image_mapping import ImageMapping
from pytest_kwait.simulator.network.egress import EgressTarget

HOST = "127.0.0.1"

Timing = Literal["fast", "real"]


class EmbeddedOptions(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
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
    """

    nodes: Annotated[int, msgspec.Meta(ge=0)] = 2
    api_only: bool = False
    timing: Timing = "fast"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    address: str = HOST
    token_auth_file: str = ""
    users: tuple[str, ...] = ()
    images: tuple[ImageMapping, ...] = ()
    egress: tuple[EgressTarget, ...] = ()
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    client_ca_file: str = ""


_DECODER = msgspec.json.Decoder(EmbeddedOptions)


def read_options(data: bytes) -> EmbeddedOptions:
    """Return the options of a JSON object.

    Raises:
        ValueError: a field is unknown or invalid.
    """
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError as error:  # a ValueError only since msgspec 0.20
        raise ValueError(str(error)) from None


def write_options(options: EmbeddedOptions) -> bytes:
    """Return a JSON object of the options that are not the default."""
    return msgspec.json.encode(options)
