from __future__ import annotations

import pytest

from pytest_kwait.simulator.rules.addresses import (
    cidr_errors,
    cidr_warnings,
    domain_path_errors,
    endpoint_ip_errors,
    fqdn_errors,
    ip_family,
    ip_warnings,
)


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("10.0.0.0/8", []),
        ("fd00::/8", []),
        ("x", ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
        ("10.0.0.0/99", ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
        ("010.0.0.0/8", ["must not have leading 0s in IP or prefix length"]),
        ("10.0.0.0/08", ["must not have leading 0s in IP or prefix length"]),
        ("10.0.0.1/8", ["must not have bits set beyond the prefix length"]),
        ("::ffff:10.0.0.0/104", ["must not have an IPv4-mapped IPv6 address"]),
    ],
)
def test_networks(value: str, texts: list[str]) -> None:
    expected = [f'at: Invalid value: "{value}": {text}' for text in texts]
    assert [str(error) for error in cidr_errors("at", value)] == expected
    assert cidr_errors("at", value, [value]) == []


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
        ("::1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("169.254.1.1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ("224.0.0.1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
        ("ff02::1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ],
)
def test_where_no_endpoint_can_be(value: str, part: str) -> None:
    assert [str(error) for error in endpoint_ip_errors("at", value)] == [
        f'at: Invalid value: "{value}": {part}'
    ]


def test_endpoints_can_be_anywhere_else() -> None:
    assert endpoint_ip_errors("at", "10.0.0.1") == endpoint_ip_errors("at", "239.0.0.1") == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", "at: Required value"),
        (
            "a",
            'at: Invalid value: "a": should be a domain with at least two segments separated by '
            "dots",
        ),
    ],
)
def test_names_that_are_no_domains(value: str, text: str) -> None:
    assert [str(error) for error in fqdn_errors("at", value)] == [text]
    assert fqdn_errors("at", "example.com.") == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", "at: Required value"),
        ("a", 'at: Invalid value: "a": must be a domain-prefixed path (such as "acme.io/foo")'),
        (
            "a.example/b c",
            'at: Invalid value: "b c": Invalid path (regex used for validation is '
            "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
        ),
    ],
)
def test_names_that_are_no_paths_below_domains(value: str, text: str) -> None:
    assert [str(error) for error in domain_path_errors("at", value)] == [text]
    assert domain_path_errors("at", "a.example/b") == []


def test_families() -> None:
    assert [ip_family(value) for value in ("1.2.3.4", "01.2.3.4", "::1", "x")] == [
        "IPv4",
        "IPv4",
        "IPv6",
        "",
    ]


def test_odd_forms_are_warned_of() -> None:
    assert ip_warnings("at", "1.2.3.4") == ip_warnings("at", "fd00::1") == []
    assert ip_warnings("at", "01.2.3.4") == [
        'at: non-standard IP address "01.2.3.4" is invalid: use "1.2.3.4"'
    ]
    assert ip_warnings("at", "FD00::1") == [
        'at: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")'
    ]
    assert cidr_warnings("at", "FD00::/8") == [
        'at: IPv6 CIDR value "FD00::/8" should be in RFC 5952 canonical format ("fd00::/8")'
    ]
