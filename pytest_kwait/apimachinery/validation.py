"""Formats of strings and numbers: DNS names, label keys and values, ports, IP addresses.

A check returns the messages about an invalid value; an empty list for a valid one.

Source: k8s.io/apimachinery pkg/util/validation/{validation,ip}.go,
pkg/api/validate/content/{dns,identifier,kube,path}.go.
"""

from __future__ import annotations

import ipaddress
import re

from pytest_kwait.errors import InvalidArgument

_LABEL_FORM = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FORM = rf"{_LABEL_FORM}(\.{_LABEL_FORM})*"
_UNDERSCORED = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED_FORM = rf"{_UNDERSCORED}(\.{_UNDERSCORED})*"
_RFC_1035_FORM = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD_FORM = rf"\*\.{_SUBDOMAIN_FORM}"
_KEY_FORM = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_FORM = f"({_KEY_FORM})?"
_PERCENT_FORM = "[0-9]+%"
_HEADER_FORM = "[-A-Za-z0-9]+"
_CONFIG_FORM = "[-._a-zA-Z0-9]+"

_LABEL = re.compile(_LABEL_FORM)
_SUBDOMAIN = re.compile(_SUBDOMAIN_FORM)
_UNDERSCORED_SUBDOMAIN = re.compile(_UNDERSCORED_FORM)
_RFC_1035 = re.compile(_RFC_1035_FORM)
_WILDCARD = re.compile(_WILDCARD_FORM)
_KEY = re.compile(_KEY_FORM)
_VALUE = re.compile(_VALUE_FORM)
_PERCENT = re.compile(_PERCENT_FORM)
_HEADER = re.compile(_HEADER_FORM)
_CONFIG_KEY = re.compile(_CONFIG_FORM)
_PORT_SIGNS = re.compile("[-a-z0-9]+")
_PORT_LETTER = re.compile("[a-z]")

_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PLAIN_IPV4 = re.compile(rf"(?:{_BYTE}\.){{3}}{_BYTE}")

_LABEL_MAX, _SUBDOMAIN_MAX, _PORT_NAME_MAX = 63, 253, 15
_ALPHANUMERIC_ENDS = "and must start and end with an alphanumeric character"


def _format_message(what: str, form: str, *examples: str) -> str:
    """Return the message with a regular expression and valid examples."""
    examples_text = " or ".join(f"'{example}', " for example in examples)
    return f"{what} (e.g. {examples_text}regex used for validation is '{form}')"


_LABEL_RULE = _format_message(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    + _ALPHANUMERIC_ENDS,
    _LABEL_FORM,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_RULE = _format_message(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', " + _ALPHANUMERIC_ENDS,
    _SUBDOMAIN_FORM,
    "example.com",
)
_UNDERSCORED_RULE = _format_message(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' "
    "or '.', " + _ALPHANUMERIC_ENDS,
    _UNDERSCORED_FORM,
    "example.com",
)
_RFC_1035_RULE = _format_message(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character",
    _RFC_1035_FORM,
    "my-name",
    "abc-123",
)
_WILDCARD_RULE = _format_message(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
    "must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric "
    "character",
    _WILDCARD_FORM,
    "*.example.com",
)
_KEY_RULE = _format_message(
    "must consist of alphanumeric characters, '-', '_' or '.', " + _ALPHANUMERIC_ENDS,
    _KEY_FORM,
    "MyName",
    "my.name",
    "123-abc",
)
_VALUE_RULE = _format_message(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', " + _ALPHANUMERIC_ENDS,
    _VALUE_FORM,
    "MyValue",
    "my_value",
    "12345",
)
_PERCENT_RULE = _format_message(
    "a valid percent string must be a numeric string followed by an ending '%'",
    _PERCENT_FORM,
    "1%",
    "93%",
)
_HEADER_RULE = _format_message(
    "a valid HTTP header must consist of alphanumeric characters or '-'",
    _HEADER_FORM,
    "X-Header-Name",
)
_CONFIG_RULE = _format_message(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_FORM,
    "key.name",
    "KEY_NAME",
    "key-name",
)


def _match(value: str, form: re.Pattern[str], rule: str, most: int | None = None) -> list[str]:
    texts = []
    if most is not None and len(value.encode()) > most:
        texts.append(f"must be no more than {most} characters")
    if not form.fullmatch(value):
        texts.append(rule)
    return texts


def dns_label_texts(value: str) -> list[str]:
    """Validate a DNS label by RFC 1123."""
    if len(value) <= _LABEL_MAX and _LABEL.fullmatch(value):
        return []
    dotted = not _LABEL.fullmatch(value) and _SUBDOMAIN.fullmatch(value)
    rule = "must not contain dots" if dotted else _LABEL_RULE
    return _match(value, _LABEL, rule, _LABEL_MAX)


def dns_subdomain_texts(value: str) -> list[str]:
    """Validate a DNS subdomain by RFC 1123."""
    if len(value) <= _SUBDOMAIN_MAX and _SUBDOMAIN.fullmatch(value):
        return []
    return _match(value, _SUBDOMAIN, _SUBDOMAIN_RULE, _SUBDOMAIN_MAX)


def underscored_subdomain_texts(value: str) -> list[str]:
    """Validate a DNS subdomain whose labels may have underscores."""
    return _match(value, _UNDERSCORED_SUBDOMAIN, _UNDERSCORED_RULE, _SUBDOMAIN_MAX)


def dns_1035_texts(value: str) -> list[str]:
    """Validate a DNS label by RFC 1035, which starts with a letter."""
    return _match(value, _RFC_1035, _RFC_1035_RULE, _LABEL_MAX)


def wildcard_subdomain_texts(value: str) -> list[str]:
    """Validate `*.` followed by a DNS subdomain."""
    return _match(value, _WILDCARD, _WILDCARD_RULE, _SUBDOMAIN_MAX)


def label_key_texts(value: str) -> list[str]:
    """Validate a label key, also called a qualified name: `[prefix/]name`."""
    if len(value) <= _LABEL_MAX and _KEY.fullmatch(value):
        return []
    prefix, slash, name = value.rpartition("/")
    texts = []
    if "/" in prefix:
        example = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_KEY_RULE}{example}"]
    if slash and not prefix:
        texts.append("prefix part must be non-empty")
    elif slash:
        if len(prefix) > _SUBDOMAIN_MAX:
            texts.append(f"prefix part must be no more than {_SUBDOMAIN_MAX} bytes")
        if not _SUBDOMAIN.fullmatch(prefix):
            texts.append(f"prefix part {_SUBDOMAIN_RULE}")
    if not name:
        texts.append("name part must be non-empty")
    elif len(name.encode()) > _LABEL_MAX:
        texts.append(f"name part must be no more than {_LABEL_MAX} bytes")
    if not _KEY.fullmatch(name):
        texts.append(f"name part {_KEY_RULE}")
    return texts


def label_value_texts(value: str) -> list[str]:
    """Validate a label value."""
    texts = []
    if len(value.encode()) > _LABEL_MAX:
        texts.append(f"must be no more than {_LABEL_MAX} bytes")
    return texts if _VALUE.fullmatch(value) else [*texts, _VALUE_RULE]


def percent_texts(value: str) -> list[str]:
    """Validate a percentage: `93%`."""
    return _match(value, _PERCENT, _PERCENT_RULE)


def header_name_texts(value: str) -> list[str]:
    """Validate the name of an HTTP header."""
    return _match(value, _HEADER, _HEADER_RULE)


def config_key_texts(value: str) -> list[str]:
    """Validate a key of a config map or a secret."""
    texts = _match(value, _CONFIG_KEY, _CONFIG_RULE, _SUBDOMAIN_MAX)
    if value in (".", ".."):
        texts.append(f"must not be '{value}'")
    elif value.startswith(".."):
        texts.append("must not start with '..'")
    return texts


def environment_name_texts(value: str) -> list[str]:
    """Validate the name of an environment variable: printable characters except `=`."""
    if not value:
        return ["environment variable name must be non-empty"]
    if all(" " <= sign <= "~" and sign != "=" for sign in value):
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters other "
        "than '='"
    ]


def path_segment_texts(value: str, *, prefix: bool = False) -> list[str]:
    """Validate a path segment of a URL; with `prefix` the start of one."""
    if not prefix and value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in value]


def range_texts(value: int, least: int, most: int) -> list[str]:
    """Validate a number from `least` to `most`."""
    return [] if least <= value <= most else [f"must be between {least} and {most}, inclusive"]


def port_number_texts(value: int) -> list[str]:
    """Validate a port number."""
    return range_texts(value, 1, 65535)


def port_name_texts(value: str) -> list[str]:
    """Validate a port name by RFC 6335."""
    checks = (
        (len(value) > _PORT_NAME_MAX, f"must be no more than {_PORT_NAME_MAX} characters"),
        (
            not _PORT_SIGNS.fullmatch(value),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (not _PORT_LETTER.search(value), "must contain at least one letter (a-z)"),
        ("--" in value, "must not contain consecutive hyphens"),
        (value[:1] == "-" or value[-1:] == "-", "must not begin or end with a hyphen"),
    )
    return [text for wrong, text in checks if wrong]


def ip_texts(value: str) -> list[str]:
    """Validate an IP address in any unambiguous form."""
    if _PLAIN_IPV4.fullmatch(value):
        return []
    address = _parse_ip(value)
    if address is None:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    texts = []
    if "." in value and any(
        len(part) > 1 and part[0] == "0" for part in value.rpartition(":")[2].split(".")
    ):
        texts.append("must not have leading 0s")
    elif isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        texts.append("must not be an IPv4-mapped IPv6 address")
    return texts


def canonical_ip_texts(value: str) -> list[str]:
    """Validate an IP address in its canonical form."""
    texts = ip_texts(value)
    address = _parse_ip(value)
    if texts or address is None or str(address) == value:
        return texts
    return [f'must be in canonical form ("{address}")']


def _parse_ip(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address of `value`, ignoring leading zeros in its decimal parts."""
    head, colon, tail = value.rpartition(":")
    if "." in tail:
        parts = tail.split(".")
        if not all(part.isascii() and part.isdigit() for part in parts):
            return None
        tail = ".".join(part.lstrip("0") or "0" for part in parts)
    if "%" in value:
        return None
    try:
        return ipaddress.ip_address(f"{head}{colon}{tail}")
    except ValueError:
        return None


def check_namespace(value: object, what: str = "namespace") -> str:
    """Return `value` as the name of a namespace.

    Raises:
        InvalidArgument: it is not a DNS label.
    """
    if not isinstance(value, str) or dns_label_texts(value):
        raise InvalidArgument(
            what,
            value,
            "use a DNS label: up to 63 lower-case letters, digits and '-', "
            "with a letter or digit at both ends",
        )
    return value


def check_name(what: str, value: object) -> str:
    """Return `value` as the name of an object.

    Raises:
        InvalidArgument: it is not a DNS subdomain.
    """
    if not isinstance(value, str) or dns_subdomain_texts(value):
        raise InvalidArgument(
            what,
            value,
            "use a DNS name: up to 253 lower-case letters, digits, '-' and '.', "
            "with a letter or digit at both ends of each part",
        )
    return value
