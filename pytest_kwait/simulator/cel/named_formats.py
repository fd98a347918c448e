"""Formats of texts that have a name: `format.dns1123Label().validate(text)`.

Source: k8s.io/apiserver pkg/cel/library/format.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.cel_values import NONE, Optional, Own
from pytest_kwait.simulator.cel.urls import url_fault
from pytest_kwait.simulator.custom_resources.formats import fits
from pytest_kwait.simulator.formats import (
    dns_1035_texts,
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    label_value_texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTIONS"]

_DATE_TIME, _UUID = 71, 70


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """What a name begins with may end with a dash, which hides what is before it as well."""

    def held(text: str) -> list[str]:
        return check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)

    return held


def _uri(text: str) -> list[str]:
    fault = url_fault(text)
    return [fault] if fault else []


def _form(name: str, otherwise: str) -> Callable[[str], list[str]]:
    return lambda text: [] if fits(text, name) else [otherwise]


_FORMATS: dict[str, tuple[Callable[[str], list[str]], int]] = {
    "dns1123Label": (dns_label_texts, 30),
    "dns1123Subdomain": (dns_subdomain_texts, 60),
    "dns1035Label": (dns_1035_texts, 30),
    "qualifiedName": (label_key_texts, 60),
    "dns1123LabelPrefix": (_prefix(dns_label_texts), 30),
    "dns1123SubdomainPrefix": (_prefix(dns_subdomain_texts), 60),
    "dns1035LabelPrefix": (_prefix(dns_1035_texts), 30),
    "labelValue": (label_value_texts, 40),
    "uri": (_uri, 1103),
    "uuid": (_form("uuid", "does not match the UUID format"), _UUID),
    "byte": (_form("byte", "invalid base64"), 84),
    "date": (_form("date", "invalid date"), _DATE_TIME),
    "datetime": (_form("datetime", "invalid datetime"), _DATE_TIME),
}
"""What holds a text to it and says why it does not fit, and how long its pattern counts as."""


def _made(name: str) -> Own:
    return Own("Format", name=name, pattern=_FORMATS[name][1])


def _named(name: str) -> Optional:
    return Optional(_made(name)) if name in _FORMATS else NONE


def _validate(found: Own, text: str) -> Optional:
    texts = _FORMATS[found["name"]][0](text)
    return Optional(texts) if texts else NONE


def _constant(name: str) -> Callable[[], Own]:
    return lambda: _made(name)


FUNCTIONS: dict[tuple[str, tuple[str, ...], str], Callable[..., Any]] = {
    ("format.named", ("string",), "optional<Format>"): _named,
    (".validate", ("Format", "string"), "optional<list<string>>"): _validate,
    **{(f"format.{name}", (), "Format"): _constant(name) for name in _FORMATS},
}
"""By name, types taken and type given."""
