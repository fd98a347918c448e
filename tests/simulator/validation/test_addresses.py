from __future__ import annotations

import pytest

from pytest_kwait.simulator.validation.addresses import (
    get_cidr_warnings,
    get_ip_family,
    get_ip_warnings,
    validate_cidr,
    validate_domain_prefixed_path,
    validate_endpoint_ip,
    validate_fqdn,
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
def test_cidrs(value: str, texts: list[str]) -> None:
    expected = [f'at: Invalid value: "{value}": {text}' for text in texts]
    assert [str(error) for error in validate_cidr("at", value)] == expected
    assert validate_cidr("at", value, [value]) == []


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
def test_invalid_endpoint_ips(value: str, part: str) -> None:
    assert [str(error) for error in validate_endpoint_ip("at", value)] == [
        f'at: Invalid value: "{value}": {part}'
    ]


def test_valid_endpoint_ips() -> None:
    assert validate_endpoint_ip("at", "10.0.0.1") == validate_endpoint_ip("at", "239.0.0.1") == []


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
def test_invalid_fqdns(value: str, text: str) -> None:
    assert [str(error) for error in validate_fqdn("at", value)] == [text]
    assert validate_fqdn("at", "example.com.") == []


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
def test_invalid_domain_prefixed_paths(value: str, text: str) -> None:
    assert [str(error) for error in validate_domain_prefixed_path("at", value)] == [text]
    assert validate_domain_prefixed_path("at", "a.example/b") == []


def test_ip_families() -> None:
    assert [get_ip_family(value) for value in ("1.2.3.4", "01.2.3.4", "::1", "x")] == [
        "IPv4",
        "IPv4",
        "IPv6",
        "",
    ]


def test_non_canonical_addresses_are_warned_of() -> None:
    assert get_ip_warnings("at", "1.2.3.4") == get_ip_warnings("at", "fd00::1") == []
    assert get_ip_warnings("at", "01.2.3.4") == [
        'at: non-standard IP address "01.2.3.4" is invalid: use "1.2.3.4"'
    ]
    assert get_ip_warnings("at", "FD00::1") == [
        'at: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")'
    ]
    assert get_cidr_warnings("at", "FD00::/8") == [
        'at: IPv6 CIDR value "FD00::/8" should be in RFC 5952 canonical format ("fd00::/8")'
    ]
