from __future__ import annotations

import pytest

from pytest_kwait.simulator.protocol.egress import EgressTarget
from pytest_kwait.simulator.protocol.image_mapping import make_image_mapping
from pytest_kwait.simulator.protocol.nodes import EmbeddedNode, Taint
from pytest_kwait.simulator.protocol.options import EmbeddedOptions
from pytest_kwait.simulator.protocol.options_json import read_options, write_options


def test_options_are_read_as_they_were_written() -> None:
    options = EmbeddedOptions(
        nodes=3,
        api_only=True,
        timing="real",
        port=6443,
        address="::1",
        token_auth_file="/tokens",
        users=("jane", "ops=system:masters"),
        images=(make_image_mapping("shop/web:*", "python -m 'shop web'", env={"PORT": "80"}),),
        egress=(EgressTarget("pypi.org", 443),),
        isolation="none",
        tls_cert_file="/crt",
        tls_private_key_file="/key",
        client_ca_file="/ca",
    )
    assert read_options(write_options(options)) == options


def test_nodes_are_read_as_they_were_written() -> None:
    node = EmbeddedNode(
        "gpu", {"a": "b"}, (Taint("c", "", "NoExecute"),), {"cpu": "4"}, {"cpu": "3"}
    )
    options = EmbeddedOptions(nodes=(node, EmbeddedNode("plain")))
    assert read_options(write_options(options)) == options


def test_defaults_are_not_written() -> None:
    assert write_options(EmbeddedOptions()) == b"{}"
    assert read_options(b"{}") == EmbeddedOptions()


def test_an_api_server_alone_has_no_load_balancers() -> None:
    with pytest.raises(ValueError, match=r"^an API server alone has no load balancers$"):
        read_options(b'{"api_only": true, "load_balancers": true}')


def test_unknown_option_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^unknown: node; the options are nodes, api_only, "):
        read_options(b'{"node": 3}')
