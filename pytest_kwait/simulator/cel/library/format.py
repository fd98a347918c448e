"""Named formats.

Source: k8s.io/apiserver pkg/cel/library/format.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.strfmt import matches_format
from pytest_kwait.apimachinery.validation import (
    dns_1035_texts,
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    label_value_texts,
)
from pytest_kwait.simulator.cel.library.urls import find_url_error
from pytest_kwait.simulator.cel.values import OPTIONAL_NONE, OpaqueValue, OptionalValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cel.library.overloads import Overloads

_DATE_TIME_COST, _UUID_COST = 71, 70


def _accept_prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Return a validator of name prefixes, which may end with a dash."""

    def held(text: str) -> list[str]:
        return check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)

    return held


def _validate_uri(text: str) -> list[str]:
    fault = find_url_error(text)
    return [fault] if fault else []


def _make_format_check(name: str, otherwise: str) -> Callable[[str], list[str]]:
    return lambda text: [] if matches_format(text, name) else [otherwise]


_FORMATS: dict[str, tuple[Callable[[str], list[str]], int]] = {
    "dns1123Label": (dns_label_texts, 30),
    "dns1123Subdomain": (dns_subdomain_texts, 60),
    "dns1035Label": (dns_1035_texts, 30),
    "qualifiedName": (label_key_texts, 60),
    "dns1123LabelPrefix": (_accept_prefix(dns_label_texts), 30),
    "dns1123SubdomainPrefix": (_accept_prefix(dns_subdomain_texts), 60),
    "dns1035LabelPrefix": (_accept_prefix(dns_1035_texts), 30),
    "labelValue": (label_value_texts, 40),
    "uri": (_validate_uri, 1103),
    "uuid": (_make_format_check("uuid", "does not match the UUID format"), _UUID_COST),
    "byte": (_make_format_check("byte", "invalid base64"), 84),
    "date": (_make_format_check("date", "invalid date"), _DATE_TIME_COST),
    "datetime": (_make_format_check("datetime", "invalid datetime"), _DATE_TIME_COST),
}
"""By format: its validator, and the length of its pattern for cost estimates."""


def _make_format(name: str) -> OpaqueValue:
    return OpaqueValue("Format", name=name, pattern=_FORMATS[name][1])


def _get_named_format(name: str) -> OptionalValue:
    return OptionalValue(_make_format(name)) if name in _FORMATS else OPTIONAL_NONE


def _validate(named_format: OpaqueValue, text: str) -> OptionalValue:
    texts = _FORMATS[named_format["name"]][0](text)
    return OptionalValue(texts) if texts else OPTIONAL_NONE


def _make_constant(name: str) -> Callable[[], OpaqueValue]:
    return lambda: _make_format(name)


FORMAT_FUNCTIONS: Overloads = {
    ("format.named", ("string",), "optional<Format>"): _get_named_format,
    (".validate", ("Format", "string"), "optional<list<string>>"): _validate,
    **{(f"format.{name}", (), "Format"): _make_constant(name) for name in _FORMATS},
}
