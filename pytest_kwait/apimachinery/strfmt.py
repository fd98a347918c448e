"""String and number formats of OpenAPI schemas: `date-time`, `uuid`, `ipv4` and others.

Source: k8s.io/kube-openapi pkg/validation/strfmt, k8s.io/apiextensions-apiserver
pkg/apiserver/validation/formats.go.
"""

from __future__ import annotations

import ipaddress
import re
from email.utils import parseaddr
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_kwait.apimachinery.validation import dns_label_texts, dns_subdomain_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_HEX = "[0-9a-fA-F]"
_UUID = f"{_HEX}{{8}}-?{_HEX}{{4}}-?%s{_HEX}{{3}}-?%s{_HEX}{{3}}-?{_HEX}{{12}}"
_ANY, _VARIANT = _HEX, "[89abAB]"
_CREDIT_CARD = (
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|"
    r"3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})"
)
_BYTE = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_COLOR = r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)"
_MAC = (
    f"(?:{_HEX}{{2}}([:-]))(?:{_HEX}{{2}}\\1){{4,}}{_HEX}{{2}}|(?:{_HEX}{{4}}\\.){{2,}}{_HEX}{{4}}"
)
_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))"
_DURATION = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|[-+]?0"
_UNITS = r"(\d+)\s*([A-Za-zµ]+)"
_UNIT_NAMES = ("ns", "nano", "us", "µs", "micro", "ms", "milli", "s", "sec", "m", "min", "h", "hr",
               "hour", "d", "day", "w", "wk", "week")  # fmt: skip
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NUMBER_FORMATS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def _pattern_format(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _is_date(text: str) -> bool:
    match = re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1]:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return leap or (month, day) != (2, 29)


def _is_date_time(text: str) -> bool:
    day, sign, clock = text.lower().partition("t")
    match = re.fullmatch(_TIME, clock)
    if not sign or match is None or not _is_date(day):
        return False
    return match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _is_duration(text: str) -> bool:
    if re.fullmatch(_DURATION, text):
        return True
    return any(
        unit.lower().startswith(_UNIT_NAMES) for _, unit in re.findall(_UNITS, text, re.IGNORECASE)
    )


def _is_host(text: str) -> bool:
    if len(text.encode()) > 255:
        return False
    labels = text.split(".")
    good = all(
        0 < len(label.encode()) <= 63
        and all(sign.isalnum() or sign == "-" or not sign.isascii() for sign in label)
        and not label.startswith("-")
        and not label.endswith("-")
        for label in labels
    )
    top = labels[-1]
    return good and (len(labels) == 1 or (len(top) >= 2 and top.isalpha()))


def _is_uri(text: str) -> bool:
    if not text or any(ord(sign) < 33 or ord(sign) == 127 for sign in text):
        return False
    try:
        split = urlsplit(text)
        port = split.port
    except ValueError:
        return False
    del port
    return text.startswith("/") or bool(split.scheme)


def _is_ip(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        if version == 4:
            # Leading zeros are valid, as before Go 1.17.
            text = re.sub(r"\b0+(?=[0-9])", "", text)
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return bool(re.search(r"/\d+$", text))


def _is_email(text: str) -> bool:
    name, _, host = parseaddr(text)[1].rpartition("@")
    return bool(name and host) and " " not in host


def _is_isbn(*sizes: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        digits = re.sub(r"[\s-]+", "", text)
        if len(digits) not in sizes or not re.fullmatch(r"[0-9]+X?", digits):
            return False
        if len(digits) == 10:
            values = [10 if sign == "X" else int(sign) for sign in digits]
            return sum((index + 1) * value for index, value in enumerate(values)) % 11 == 0
        if "X" in digits:
            return False
        return (
            sum(int(sign) * (3 if index % 2 else 1) for index, sign in enumerate(digits)) % 10 == 0
        )

    return check


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not re.fullmatch(_CREDIT_CARD, digits):
        return False
    total = 0
    for index, sign in enumerate(reversed(digits)):
        value = int(sign) * (2 if index % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _is_color(text: str) -> bool:
    match = re.fullmatch(_COLOR, text)
    return match is not None and all(int(part) <= 255 for part in match.groups())


_FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _pattern_format(f"{_HEX}{{24}}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_host,
    "ipv4": _is_ip(4),
    "ipv6": _is_ip(6),
    "cidr": _is_cidr,
    "mac": _pattern_format(_MAC),
    "uuid": _pattern_format(_UUID % (_ANY, _ANY)),
    "uuid3": _pattern_format(_UUID % ("3", _ANY)),
    "uuid4": _pattern_format(_UUID % ("4", _VARIANT)),
    "uuid5": _pattern_format(_UUID % ("5", _VARIANT)),
    "isbn": _is_isbn(10, 13),
    "isbn10": _is_isbn(10),
    "isbn13": _is_isbn(13),
    "creditcard": _is_credit_card,
    "ssn": _pattern_format(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _pattern_format(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _is_color,
    "byte": _pattern_format(_BYTE),
    "password": lambda _text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": lambda text: not dns_label_texts(text),
    "k8slongname": lambda text: not dns_subdomain_texts(text),
}


def matches_format(text: str, form: str) -> bool:
    """Return whether `text` has the format; unknown formats match every text."""
    check = _FORMATS.get(form.replace("-", ""))
    return check is None or check(text)


def find_known_format(schema: Mapping[str, Any]) -> str:
    """Return the format that `schema` is validated against; empty if none."""
    form: str = schema.get("format", "")
    kind = schema.get("type", "")
    if not form:
        return ""
    if kind in ("", "string") or schema.get("x-kubernetes-int-or-string"):
        return form if form.replace("-", "") in _FORMATS else ""
    return form if form in _NUMBER_FORMATS.get(kind, ()) else ""


def list_unknown_formats(node: Any) -> Iterator[str]:
    """Return the formats of a definition's schemas that are not validated."""
    for version in node.get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            yield from _unknown_in_schema(schema)
            if all(
                other_version.get("schema") == version.get("schema")
                for other_version in node["versions"]
            ):
                return


def _unknown_in_schema(schema: Mapping[str, Any]) -> Iterator[str]:
    if schema.get("format") and not find_known_format(
        {**schema, "x-kubernetes-int-or-string": False}
    ):
        yield schema["format"]
    for name in ("items", "not", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _unknown_in_schema(schema[name])
    for name in ("allOf", "anyOf", "oneOf"):
        for inner in schema.get(name) or ():
            yield from _unknown_in_schema(inner)
    for inner in (schema.get("properties") or {}).values():
        yield from _unknown_in_schema(inner)
