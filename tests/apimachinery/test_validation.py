"""Each format, by the values that it accepts and its messages about others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.apimachinery import validation

if TYPE_CHECKING:
    from collections.abc import Callable

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    " or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
RFC_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
    "'93%', regex used for validation is '[0-9]+%')"
)
HEADER = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', "
    "regex used for validation is '[-A-Za-z0-9]+')"
)
PORT_SIGNS = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
PORT_LETTER = "must contain at least one letter (a-z)"
ENVIRONMENT = (
    "a valid environment variable name must consist only of printable ASCII characters other than "
    "'='"
)
IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (validation.dns_label_texts, ["a", "1-b", "a" * 63]),
        (validation.dns_subdomain_texts, ["a", "a-b.c", "1", "a" * 253]),
        (validation.underscored_subdomain_texts, ["_a.b", "a_b"]),
        (validation.dns_1035_texts, ["a", "a-1"]),
        (validation.wildcard_subdomain_texts, ["*.a.b"]),
        (validation.label_key_texts, ["a", "example.com/a", "A_b.c", "a" * 63]),
        (validation.label_value_texts, ["", "a", "A_b.c", "a" * 63]),
        (validation.percent_texts, ["0%", "250%"]),
        (validation.header_name_texts, ["X-A"]),
        (validation.config_key_texts, [".a", "a..b", "A_1"]),
        (validation.environment_name_texts, ["A", "1-a.b", " "]),
        (validation.path_segment_texts, ["system:a", "..."]),
        (validation.port_name_texts, ["http", "1-a", "a" * 15]),
        (validation.ip_texts, ["10.0.0.1", "255.255.255.255", "0.0.9.249", "::1", "FE80::1"]),
        (validation.canonical_ip_texts, ["10.0.0.1", "::1"]),
    ],
)
def test_what_has_the_form(texts: Callable[[str], list[str]], values: list[str]) -> None:
    assert {value: texts(value) for value in values} == {value: [] for value in values}


@pytest.mark.parametrize(
    ("texts", "value", "found"),
    [
        (validation.dns_label_texts, "a.b", ["must not contain dots"]),
        (validation.ip_texts, f"{'9' * 5000}.1.1.1", [IP]),
        (validation.ip_texts, f"{'0' * 5000}1.2.3.4", ["must not have leading 0s"]),
        (validation.dns_label_texts, "A" * 64, ["must be no more than 63 characters", LABEL]),
        (validation.dns_label_texts, "", [LABEL]),
        (
            validation.dns_subdomain_texts,
            "A" * 254,
            ["must be no more than 253 characters", SUBDOMAIN],
        ),
        (validation.dns_1035_texts, "1a", [RFC_1035]),
        (validation.label_key_texts, "", ["name part must be non-empty", f"name part {KEY}"]),
        (validation.label_key_texts, "/a", ["prefix part must be non-empty"]),
        (validation.label_key_texts, "A/a", [f"prefix part {SUBDOMAIN}"]),
        (validation.label_key_texts, "a" * 64, ["name part must be no more than 63 bytes"]),
        (
            validation.label_key_texts,
            "a/b/c",
            [
                f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. "
                "'example.com/MyName')"
            ],
        ),
        (validation.label_value_texts, "-" * 64, ["must be no more than 63 bytes", VALUE]),
        (validation.percent_texts, "5", [PERCENT]),
        (validation.header_name_texts, "a b", [HEADER]),
        (validation.config_key_texts, "a b", [CONFIG_KEY]),
        (validation.config_key_texts, "..", ["must not be '..'"]),
        (validation.config_key_texts, "..a", ["must not start with '..'"]),
        (validation.environment_name_texts, "", ["environment variable name must be non-empty"]),
        (validation.environment_name_texts, "a=b", [ENVIRONMENT]),
        (validation.environment_name_texts, "\n", [ENVIRONMENT]),
        (validation.path_segment_texts, "..", ["may not be '..'"]),
        (validation.path_segment_texts, "a/%", ["may not contain '/'", "may not contain '%'"]),
        (validation.port_name_texts, "A_1", [PORT_SIGNS, PORT_LETTER]),
        (
            validation.port_name_texts,
            "-" + "a" * 15 + "--",
            [
                "must be no more than 15 characters",
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen",
            ],
        ),
        (validation.port_name_texts, "1", [PORT_LETTER]),
        (validation.ip_texts, "1.2.3", [IP]),
        (validation.ip_texts, "1.2.3.256", [IP]),
        (validation.ip_texts, "1.2.3.4\n", [IP]),
        (validation.ip_texts, "1.2.3.00", ["must not have leading 0s"]),
        (validation.ip_texts, "fe80::1%eth0", [IP]),
        (validation.ip_texts, "010.0.0.1", ["must not have leading 0s"]),
        (validation.ip_texts, "::ffff:1.2.3.4", ["must not be an IPv4-mapped IPv6 address"]),
        (validation.canonical_ip_texts, "FE80::1", ['must be in canonical form ("fe80::1")']),
    ],
)
def test_what_is_said_of_the_rest(
    texts: Callable[[str], list[str]], value: str, found: list[str]
) -> None:
    assert texts(value) == found


def test_numbers_are_held_to_their_range() -> None:
    assert validation.port_number_texts(65535) == []
    assert validation.port_number_texts(0) == ["must be between 1 and 65535, inclusive"]
    assert validation.range_texts(-1001, -1000, 1000) == [
        "must be between -1000 and 1000, inclusive"
    ]
    assert validation.path_segment_texts("..", prefix=True) == []
