"""Kubernetes' CEL function libraries: declarations for the checker and implementations.

In reading order: regular expressions, lists, quantities, semantic versions, IP addresses and CIDRs,
URLs, named formats, JSON patches, the authorizer, the table of all. The package `semver` could
replace the comparison of versions only: it has one error for every invalid version, where Go names
the part, no limit of 64 bits, and no loose form. The context variable `AUTHORIZER` holds the
authorizer during an evaluation: functions of an expression only receive their arguments.

Source: k8s.io/apiserver pkg/cel/library.
"""

from __future__ import annotations

import ipaddress
import json
import re
from contextvars import ContextVar
from fractions import Fraction
from functools import lru_cache
from ipaddress import ip_address
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote

from cel_expr_python import cel

from pytest_kwait.apimachinery.go_values import quote_go
from pytest_kwait.apimachinery.quantities import canonicalize_quantity, parse_quantity
from pytest_kwait.apimachinery.strfmt import matches_format
from pytest_kwait.apimachinery.validation import (
    dns_1035_texts,
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    label_value_texts,
)
from pytest_kwait.simulator.cel.values import (
    OPAQUE_TYPE_NAMES,
    OPTIONAL_NONE,
    Duration,
    OpaqueValue,
    OptionalValue,
    is_equal,
)
from pytest_kwait.simulator.codec.go_text import parse_uint

if TYPE_CHECKING:
    from collections.abc import Callable

Overload = tuple[str, tuple[str, ...], str]
"""Name (with a leading dot for a member function), argument types, and result type."""

Overloads = dict[Overload, "Callable[..., Any]"]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface

ESCAPE_KEY = "jsonpatch_escapeKey"
"""The declared name of `jsonpatch.escapeKey`; with a dot, CEL would look up a member function."""

AUTHORIZER: ContextVar[Callable[[dict[str, Any]], tuple[bool, str]]] = ContextVar("DECIDES")
"""The authorizer of the current evaluation: returns whether a check is allowed, and why."""

STAND_IN_NAMES = {"indexOf": "indexOF", "lastIndexOf": "lastIndexOF", "string": "strinG"}
"""Stand-in names of functions that the library declares with fewer overloads."""

_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\((?:\?P?<\w+>|(?!\?))", re.S)
_COMPARABLE_KINDS = ("int", "double", "bool", "string", "duration", "timestamp")
_SUMMABLE_KINDS = ("int", "double", "duration")

_IDENTIFIER_CHARACTERS = re.compile(r"[0-9A-Za-z-]*", re.ASCII)
_LOOSE_VERSION = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?((?:[-+].*)?)", re.S)

_MAX_DIGITS = 18
"""Digits of a parsed number; longer texts are invalid."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PORT = re.compile(r"(:[0-9]*)?")
_WITH_PORT = re.compile(r":[0-9]*$")
_INVALID_USER_CHARACTERS = re.compile(r"[^A-Za-z0-9\-._:~!$&'()*+,;=%@]")
_INVALID_HOST_CHARACTERS = re.compile(r"[ #/?@\\^`{|}]")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})(.{0,2})", re.DOTALL)
_HOST_ESCAPE = re.compile(r"%(?!25|[89A-Fa-f][0-9A-Fa-f])(.{0,2})", re.DOTALL)
_ESCAPED_PATH = re.compile(r"[A-Za-z0-9\-_.~/!$&'()*+,;=:@\[\]%]*")

_DATE_TIME_COST, _UUID_COST = 71, 70

_STRING_CONVERSIONS: dict[Overload, str] = {
    ("string", (kind,), "string"): overload
    for kind, overload in (
        ("bool", "bool_to_string"),
        ("bytes", "bytes_to_string"),
        ("double", "double_to_string"),
        ("duration", "duration_to_string"),
        ("int", "int64_to_string"),
        ("string", "string_to_string"),
        ("timestamp", "timestamp_to_string"),
        ("uint", "uint64_to_string"),
    )
}


@lru_cache(maxsize=1)
def _compile_search() -> cel.Expression:
    """Return RE2's search through CEL functions, which capture at most one group."""
    config = cel.NewEnvConfigFromYaml("extensions:\n- name: optional\n- name: regex\n")
    variables = {"text": cel.Type.STRING, "pattern": cel.Type.STRING}
    return cel.NewEnv(config=config, variables=variables).compile("regex.extractAll(text, pattern)")


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    plain = _GROUP.sub(lambda found: "(?:" if found[0].startswith("(") else found[0], pattern)
    found = _compile_search().eval(data={"text": text, "pattern": plain})
    if found.type() == cel.Type.ERROR:
        raise ValueError(f"Illegal regex: {found.value()}")
    values: list[str] = found.plain_value()  # type: ignore[assignment]
    return values if most < 0 else values[:most]


def _find(text: str, pattern: str) -> str:
    found = _find_all(text, pattern, 1)
    return found[0] if found else ""


_REGEX_FUNCTIONS: Overloads = {
    (".find", ("string", "string"), "string"): _find,
    (".findAll", ("string", "string"), "list<string>"): _find_all,
    (".findAll", ("string", "string", "int"), "list<string>"): _find_all,
}


def _is_sorted(values: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(values))


def _min(values: list[Any]) -> Any:
    if not values:
        raise ValueError("min called on empty list")
    return min(values)


def _max(values: list[Any]) -> Any:
    if not values:
        raise ValueError("max called on empty list")
    return max(values)


def _sum(values: list[Any]) -> Any:
    if values and isinstance(values[0], Duration):
        return sum(values, Duration(0))
    return sum(values)


def _index_of(values: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(values, list):
        return next((at for at, value in enumerate(values) if is_equal(value, wanted)), -1)
    if start < 0:
        raise ValueError(f"index out of range: {start}")
    found: int = start if wanted == "" else values.find(wanted, start)
    return found


def _last_index_of(values: Any, wanted: Any, end: int | None = None) -> int:
    if isinstance(values, list):
        places = [at for at, value in enumerate(values) if is_equal(value, wanted)]
        return places[-1] if places else -1
    if end is None:
        end = len(values)
    if end < 0:
        raise ValueError(f"index out of range: {end}")
    found: int = end if wanted == "" else values.rfind(wanted, 0, end + len(wanted))
    return found


_SEARCHES: dict[str, Callable[..., Any]] = {".indexOf": _index_of, ".lastIndexOf": _last_index_of}

_LIST_FUNCTIONS: Overloads = {
    **{(".isSorted", (f"list<{kind}>",), "bool"): _is_sorted for kind in _COMPARABLE_KINDS},
    **{(".min", (f"list<{kind}>",), kind): _min for kind in _COMPARABLE_KINDS},
    **{(".max", (f"list<{kind}>",), kind): _max for kind in _COMPARABLE_KINDS},
    **{
        (name, (f"list<{kind}>", kind), "int"): run
        for name, run in _SEARCHES.items()
        for kind in _COMPARABLE_KINDS
    },
    **{(name, ("string", "string"), "int"): run for name, run in _SEARCHES.items()},
    **{(name, ("string", "string", "int"), "int"): run for name, run in _SEARCHES.items()},
    **{(".sum", (f"list<{kind}>",), kind): _sum for kind in _SUMMABLE_KINDS},
}


def _parse_quantity_value(text: str) -> OpaqueValue:
    canonicalize_quantity(text)
    return _make_quantity(parse_quantity(text).amount)


def _make_quantity(amount: Fraction) -> OpaqueValue:
    return OpaqueValue("Quantity", amount=amount)


def _get_amount(quantity: Any) -> Fraction:
    return Fraction(quantity["amount"] if isinstance(quantity, OpaqueValue) else quantity)


def _is_quantity(text: str) -> bool:
    try:
        _parse_quantity_value(text)
    except ValueError:
        return False
    return True


def _as_integer(quantity: Any) -> int:
    amount = _get_amount(quantity)
    if amount.denominator != 1 or not -(2**63) <= amount < 2**63:
        raise ValueError("cannot convert value to integer")
    return int(amount)


def _is_integer(quantity: Any) -> bool:
    return _get_amount(quantity).denominator == 1


def _get_sign(quantity: Any) -> int:
    amount = _get_amount(quantity)
    return (amount > 0) - (amount < 0)


def _compare_quantities(left: Any, right: Any) -> int:
    return _get_sign(_make_quantity(_get_amount(left) - _get_amount(right)))


def _add(left: Any, right: Any) -> OpaqueValue:
    return _make_quantity(_get_amount(left) + _get_amount(right))


def _subtract(left: Any, right: Any) -> OpaqueValue:
    return _make_quantity(_get_amount(left) - _get_amount(right))


_QUANTITY_FUNCTIONS: Overloads = {
    ("quantity", ("string",), "Quantity"): _parse_quantity_value,
    ("isQuantity", ("string",), "bool"): _is_quantity,
    (".asInteger", ("Quantity",), "int"): _as_integer,
    (".asApproximateFloat", ("Quantity",), "double"): lambda one: float(_get_amount(one)),
    (".isInteger", ("Quantity",), "bool"): _is_integer,
    ("sign", ("Quantity",), "int"): _get_sign,
    **{(".add", ("Quantity", other), "Quantity"): _add for other in ("Quantity", "int")},
    **{(".sub", ("Quantity", other), "Quantity"): _subtract for other in ("Quantity", "int")},
    (".isLessThan", ("Quantity", "Quantity"), "bool"): lambda one, two: (
        _compare_quantities(one, two) < 0
    ),
    (".isGreaterThan", ("Quantity", "Quantity"), "bool"): lambda one, two: (
        _compare_quantities(one, two) > 0
    ),
    (".compareTo", ("Quantity", "Quantity"), "int"): _compare_quantities,
}


def _parse_semver(text: str, loose: bool = False) -> OpaqueValue:
    if loose and (found := _LOOSE_VERSION.fullmatch(text)):
        plain = ((part or "0").lstrip("0") or "0" for part in found.groups()[:3])
        text = ".".join(plain) + found[4]
    parts = text.split(".", 2)
    if len(parts) < 3:
        raise ValueError("No Major.Minor.Patch elements found" if text else "Version string empty")
    rest, plus, build = parts[2].partition("+")
    patch, dash, before = rest.partition("-")
    numbers = []
    for name, part in (("Major", parts[0]), ("Minor", parts[1]), ("Patch", patch)):
        if not re.fullmatch("[0-9]*", part):
            shown = quote_go(part)
            raise ValueError(f"Invalid character(s) found in {name.lower()} number {shown}")
        if len(part) > 1 and part.startswith("0"):
            raise ValueError(f'{name} number must not contain leading zeroes "{part}"')
        numbers.append(parse_uint(part))
    early = before.split(".") if dash else []
    for part in early:
        _check_part(part, "Prerelease", "prerelease")
        if part.isdigit() and len(part) > 1 and part.startswith("0"):
            why = "Numeric PreRelease version must not contain leading zeroes"
            raise ValueError(f'{why} "{part}"')
        if part.isdigit():
            parse_uint(part)
    for part in build.split(".") if plus else ():
        _check_part(part, "Build meta data", "build meta data")
    return OpaqueValue("Semver", numbers=numbers, before=early)


def _check_part(part: str, name: str, inside: str) -> None:
    if not part:
        raise ValueError(f"{name} is empty")
    if not _IDENTIFIER_CHARACTERS.fullmatch(part):
        shown = quote_go(part)
        raise ValueError(f"Invalid character(s) found in {inside} {shown}")


def _is_semver(text: str, loose: bool = False) -> bool:
    try:
        _parse_semver(text, loose)
    except ValueError:
        return False
    return True


def _make_sort_key(version: dict[str, Any]) -> tuple[Any, ...]:
    parts = [(0, int(one), "") if one.isdigit() else (1, 0, one) for one in version["before"]]
    return (*version["numbers"], not parts, parts)


def _compare_versions(left: dict[str, Any], right: dict[str, Any]) -> int:
    return (_make_sort_key(left) > _make_sort_key(right)) - (
        _make_sort_key(left) < _make_sort_key(right)
    )


_SEMVER_FUNCTIONS: Overloads = {
    ("semver", ("string",), "Semver"): _parse_semver,
    ("semver", ("string", "bool"), "Semver"): _parse_semver,
    ("isSemver", ("string",), "bool"): _is_semver,
    ("isSemver", ("string", "bool"), "bool"): _is_semver,
    (".major", ("Semver",), "int"): lambda version: version["numbers"][0],
    (".minor", ("Semver",), "int"): lambda version: version["numbers"][1],
    (".patch", ("Semver",), "int"): lambda version: version["numbers"][2],
    (".isLessThan", ("Semver", "Semver"), "bool"): lambda one, two: _compare_versions(one, two) < 0,
    (".isGreaterThan", ("Semver", "Semver"), "bool"): lambda one, two: (
        _compare_versions(one, two) > 0
    ),
    (".compareTo", ("Semver", "Semver"), "int"): _compare_versions,
}


def _parse_ip(text: str) -> OpaqueValue:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        why = f'ParseAddr("{text}"): {_find_ip_error(text)}'
        raise ValueError(
            f'IP Address "{text}" parse error during conversion from string: {why}'
        ) from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id:
            raise ValueError(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped:
            raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return OpaqueValue("IP", text=str(address))


def _find_ip_error(text: str) -> str:
    """Return Go's message about a text that is no IP address."""
    if ":" in text or "." not in text:
        return "unable to parse IP"
    fields = text.split(".")
    for field in fields:
        if not field.isdigit():
            return "unexpected character" if field else "IPv4 field must have at least one digit"
        if len(field) > 1 and field[0] == "0":
            return "IPv4 field has octet with leading zero"
        if len(field) > _MAX_DIGITS or int(field) > 255:
            return "IPv4 field has value >255"
    return "IPv4 address too short" if len(fields) < 4 else "IPv4 address too long"


def _is_ip(text: str) -> bool:
    try:
        _parse_ip(text)
    except ValueError:
        return False
    return True


def _is_canonical(text: str) -> bool:
    return bool(_parse_ip(text)["text"] == text)


def _get_address(value: Any) -> Address:
    return ipaddress.ip_address(value["text"])


def _make_predicate(question: str) -> Callable[[OpaqueValue], bool]:
    return lambda value: bool(getattr(_get_address(value), question))


def _make_link_local_predicate(multicast: bool) -> Callable[[OpaqueValue], bool]:
    blocks = ("224.0.0.0/24", "ff02::/16") if multicast else ("169.254.0.0/16", "fe80::/10")

    def check(value: OpaqueValue) -> bool:
        return any(_get_address(value) in ipaddress.ip_network(block) for block in blocks)

    return check


def _is_global_unicast(value: OpaqueValue) -> bool:
    address = _get_address(value)
    if str(address) == "255.255.255.255" or address.is_unspecified or address.is_loopback:
        return False
    return not address.is_multicast and not _make_link_local_predicate(False)(value)


def _parse_cidr(text: str) -> OpaqueValue:
    failed = "network address parse error during conversion from string: "
    if why := _find_prefix_error(text):
        raise ValueError(f'{failed}{failed}netip.ParsePrefix("{text}"): {why}')
    network = ipaddress.ip_interface(text)
    if isinstance(network, ipaddress.IPv6Interface) and network.ip.ipv4_mapped:
        raise ValueError(f'{failed}IPv4-mapped IPv6 address "{text}" is not allowed')
    return OpaqueValue("CIDR", text=str(network))


def _find_prefix_error(text: str) -> str:
    """Return Go's message about a text that is no CIDR; empty if it is one."""
    address, slash, bits = text.rpartition("/")
    if not slash:
        return "no '/'"
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return f'ParseAddr("{address}"): {_find_ip_error(address)}'
    if not bits.isdigit() or (len(bits) > 1 and bits[0] == "0") or len(bits) > _MAX_DIGITS:
        return f'bad bits after slash: "{bits}"'
    return "" if int(bits) <= found.max_prefixlen else "prefix length out of range"


def _is_cidr(text: str) -> bool:
    try:
        _parse_cidr(text)
    except ValueError:
        return False
    return True


def _get_network(value: Any) -> Network:
    return ipaddress.ip_interface(value["text"])


def _to_value(read: Callable[[str], OpaqueValue], value: Any) -> OpaqueValue:
    """Return the parsed value of an argument that may be a text."""
    if isinstance(value, OpaqueValue):
        return value
    try:
        return read(value)
    except ValueError:
        raise ValueError("no such overload") from None


def _contains_ip(value: Any, other: Any) -> bool:
    address = _get_address(_to_value(_parse_ip, other))
    return address in _get_network(value).network


def _contains_cidr(value: Any, other: Any) -> bool:
    outer, inner = _get_network(value).network, _get_network(_to_value(_parse_cidr, other))
    return inner.ip in outer and outer.prefixlen <= inner.network.prefixlen


_IP_CIDR_FUNCTIONS: Overloads = {
    ("ip", ("string",), "IP"): _parse_ip,
    ("isIP", ("string",), "bool"): _is_ip,
    ("string", ("IP",), "string"): lambda value: value["text"],
    ("string", ("CIDR",), "string"): lambda value: value["text"],
    ("ip.isCanonical", ("string",), "bool"): _is_canonical,
    (".family", ("IP",), "int"): lambda value: _get_address(value).version,
    (".isUnspecified", ("IP",), "bool"): _make_predicate("is_unspecified"),
    (".isLoopback", ("IP",), "bool"): _make_predicate("is_loopback"),
    (".isLinkLocalMulticast", ("IP",), "bool"): _make_link_local_predicate(True),
    (".isLinkLocalUnicast", ("IP",), "bool"): _make_link_local_predicate(False),
    (".isGlobalUnicast", ("IP",), "bool"): _is_global_unicast,
    ("cidr", ("string",), "CIDR"): _parse_cidr,
    ("isCIDR", ("string",), "bool"): _is_cidr,
    (".containsIP", ("CIDR", "IP"), "bool"): _contains_ip,
    (".containsIP", ("CIDR", "string"), "bool"): _contains_ip,
    (".containsCIDR", ("CIDR", "CIDR"), "bool"): _contains_cidr,
    (".containsCIDR", ("CIDR", "string"), "bool"): _contains_cidr,
    (".ip", ("CIDR",), "IP"): lambda value: OpaqueValue("IP", text=str(_get_network(value).ip)),
    (".masked", ("CIDR",), "CIDR"): lambda value: OpaqueValue(
        "CIDR", text=str(_get_network(value).network)
    ),
    (".prefixLength", ("CIDR",), "int"): lambda value: _get_network(value).network.prefixlen,
}


class _URL(NamedTuple):
    """The parts of a request URL; path and query as they are written."""

    scheme: str
    host: str
    path: str
    query: str


def find_url_error(text: str) -> str:
    """Return Go's message about a text that is no request URL; empty if it is one."""
    try:
        _split_url(text)
    except ValueError as error:
        return f"parse {quote_go(text)}: {error}"
    return ""


def _split_url(text: str) -> _URL:
    """Split a request URL, in which `#` has no meaning.

    Source: Go's net/url, funcs ParseRequestURI, parseAuthority and unescape.

    Raises:
        ValueError: with Go's message, the text is no request URL.
    """
    if any(ord(sign) < 32 or ord(sign) == 127 for sign in text):
        raise ValueError("net/url: invalid control character in URL")
    if not text:
        raise ValueError("empty url")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    rest, _, query = text[found.end() if found else 0 :].partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise ValueError("invalid URI for request")
        return _URL(scheme, "", "", query)
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, _, host = authority.rpartition("@")
        host = _read_host(host)
        if _INVALID_USER_CHARACTERS.search(user):
            raise ValueError("net/url: invalid userinfo")
        _check_escapes(user, _ESCAPE)
    _check_escapes(rest, _ESCAPE)
    return _URL(scheme, host, rest, query)


def _check_escapes(text: str, wrong: re.Pattern[str]) -> None:
    if found := wrong.search(text):
        raise ValueError(f"invalid URL escape {json.dumps(found[0], ensure_ascii=False)}")


def _read_host(host: str) -> str:
    name, bracket, rest = host.rpartition("]")
    if host.startswith("["):
        if not bracket:
            raise ValueError("missing ']' in host")
        name = name[1:]
    else:
        name, colon, port = host.partition(":")
        rest = colon + port
    if not _PORT.fullmatch(rest):
        raise ValueError(f'invalid port "{rest}" after host')
    _check_escapes(name, _HOST_ESCAPE)
    if odd := _INVALID_HOST_CHARACTERS.search(name):
        raise ValueError(f"invalid character {json.dumps(odd[0])} in host name")
    if bracket and host.startswith("["):
        try:
            ip_address(name)
        except ValueError:
            raise ValueError(f'invalid host: ParseAddr("{name}"): unable to parse IP') from None
    return unquote(host)


def _escape_path(path: str) -> str:
    """Return a path as it is written if that is a valid encoding, else encoded anew."""
    return path if _ESCAPED_PATH.fullmatch(path) else quote(unquote(path), safe="$&+,/:;=@-_.~")


def _parse_url(text: str) -> OpaqueValue:
    if fault := find_url_error(text):
        raise ValueError(f"URL parse error during conversion from string: {fault}")
    # Only here does Go know fragments.
    url = _split_url(text.partition("#")[0])
    pairs = [one for one in url.query.split("&") if ";" not in one and not _ESCAPE.search(one)]
    host = url.host
    name, _, port = host.rpartition(":") if _WITH_PORT.search(host) else (host, "", "")
    return OpaqueValue(
        "URL",
        scheme=url.scheme,
        host=host,
        hostname=name.strip("[]"),
        port=port,
        path=_escape_path(url.path),
        query=parse_qs("&".join(pairs), keep_blank_values=True),
    )


def _is_url(text: str) -> bool:
    try:
        _parse_url(text)
    except ValueError:
        return False
    return True


def _make_getter(name: str) -> Callable[[OpaqueValue], Any]:
    return lambda url: url[name]


_URL_FUNCTIONS: Overloads = {
    ("url", ("string",), "URL"): _parse_url,
    ("isURL", ("string",), "bool"): _is_url,
    (".getScheme", ("URL",), "string"): _make_getter("scheme"),
    (".getHost", ("URL",), "string"): _make_getter("host"),
    (".getHostname", ("URL",), "string"): _make_getter("hostname"),
    (".getPort", ("URL",), "string"): _make_getter("port"),
    (".getEscapedPath", ("URL",), "string"): _make_getter("path"),
    (".getQuery", ("URL",), "map<string,list<string>>"): _make_getter("query"),
}


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


def _validate(found: OpaqueValue, text: str) -> OptionalValue:
    texts = _FORMATS[found["name"]][0](text)
    return OptionalValue(texts) if texts else OPTIONAL_NONE


def _make_constant(name: str) -> Callable[[], OpaqueValue]:
    return lambda: _make_format(name)


_FORMAT_FUNCTIONS: Overloads = {
    ("format.named", ("string",), "optional<Format>"): _get_named_format,
    (".validate", ("Format", "string"), "optional<list<string>>"): _validate,
    **{(f"format.{name}", (), "Format"): _make_constant(name) for name in _FORMATS},
}


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


_JSON_PATCH_FUNCTIONS: Overloads = {
    (ESCAPE_KEY, ("string",), "string"): _escape_key,
}


def make_authorizer(user: dict[str, Any], resource: dict[str, str]) -> OpaqueValue:
    """Return the variable `authorizer`.

    Args:
        user: the user of the request.
        resource: the requested resource.
    """
    own = OpaqueValue("ResourceCheck", user=user, **resource)
    return OpaqueValue("Authorizer", user=user, requestResource=own)


def _make_setter(kind: str, field: str) -> Callable[[OpaqueValue, str], OpaqueValue]:
    def narrowed(value: OpaqueValue, given: str) -> OpaqueValue:
        kept = {key: one for key, one in value.items() if key != "requestResource"}
        return OpaqueValue(kind, **{**kept, field: given})

    return narrowed


def _make_path_check(value: OpaqueValue, path: str) -> OpaqueValue:
    if not path:
        raise ValueError("path must not be empty")
    return _make_setter("PathCheck", "path")(value, path)


def _make_service_account_authorizer(_: OpaqueValue, namespace: str, name: str) -> OpaqueValue:
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    user = {
        "name": f"system:serviceaccount:{namespace}:{name}",
        "groups": [*groups, "system:authenticated"],
    }
    return OpaqueValue("Authorizer", user=user)


def _check(value: OpaqueValue, verb: str) -> OpaqueValue:
    allowed, reason = AUTHORIZER.get()({**value, "verb": verb})
    return OpaqueValue("Decision", allowed=allowed, reason=reason)


_AUTHZ_FUNCTIONS: Overloads = {
    (".path", ("Authorizer", "string"), "PathCheck"): _make_path_check,
    (
        ".serviceAccount",
        ("Authorizer", "string", "string"),
        "Authorizer",
    ): _make_service_account_authorizer,
    (".group", ("Authorizer", "string"), "GroupCheck"): _make_setter("GroupCheck", "group"),
    (".resource", ("GroupCheck", "string"), "ResourceCheck"): _make_setter(
        "ResourceCheck", "resource"
    ),
    **{
        (f".{field}", ("ResourceCheck", "string"), "ResourceCheck"): _make_setter(
            "ResourceCheck", field
        )
        for field in ("subresource", "namespace", "name", "fieldSelector", "labelSelector")
    },
    (".check", ("PathCheck", "string"), "Decision"): _check,
    (".check", ("ResourceCheck", "string"), "Decision"): _check,
    (".allowed", ("Decision",), "bool"): lambda value: value["allowed"],
    (".reason", ("Decision",), "string"): lambda value: value["reason"],
    (".errored", ("Decision",), "bool"): lambda _: False,
    (".error", ("Decision",), "string"): lambda _: "",
}
LIBRARY_FUNCTIONS: Overloads = {
    **_REGEX_FUNCTIONS,
    **_LIST_FUNCTIONS,
    **_QUANTITY_FUNCTIONS,
    **_SEMVER_FUNCTIONS,
    **_IP_CIDR_FUNCTIONS,
    **_URL_FUNCTIONS,
    **_FORMAT_FUNCTIONS,
    **_JSON_PATCH_FUNCTIONS,
    **_AUTHZ_FUNCTIONS,
}
"""All functions and their implementations."""


@lru_cache(maxsize=1)
def declare_functions() -> list[cel.FunctionDecl]:
    """Return the declarations of the functions, except those of `describe_functions`."""
    known: dict[str, list[cel.Overload]] = {}
    for overload in (*LIBRARY_FUNCTIONS, *_STRING_CONVERSIONS):
        name, takes, gives = overload
        bare = name.lstrip(".")
        if _needs_description(overload):
            continue
        shown = STAND_IN_NAMES.get(bare, bare)
        known.setdefault(shown, []).append(
            cel.Overload(
                _STRING_CONVERSIONS.get(overload, f"{shown}({','.join(takes)})"),
                return_type=resolve_type(gives),
                parameters=[resolve_type(one) for one in takes],
                is_member=name.startswith("."),
            )
        )
    return [cel.FunctionDecl(name, overloads) for name, overloads in known.items()]


def _needs_description(overload: Overload) -> bool:
    _, takes, gives = overload
    return "Format" in (*takes, gives) or gives.startswith("optional<")


@lru_cache(maxsize=1)
def describe_functions() -> str:
    """Return the part of an environment's description with functions that return optionals.

    The library accepts such types only there.
    """
    return "functions:\n" + "".join(
        _describe_overload(*overload)
        for overload in LIBRARY_FUNCTIONS
        if _needs_description(overload)
    )


def _describe_overload(name: str, takes: tuple[str, ...], gives: str) -> str:
    bare, member = name.lstrip("."), name.startswith(".")
    overload = [f"id: {bare}", f"return: {describe_type(gives)}"]
    arguments = [describe_type(one) for one in takes]
    if member:
        overload.append(f"target: {arguments.pop(0)}")
    overload.append(f"args: [{', '.join(arguments)}]")
    return f"- {{name: {bare}, overloads: [{{{', '.join(overload)}}}]}}\n"


def describe_type(name: str) -> str:
    """Return a type, by name, as the description of an environment writes it."""
    outer, _, inner = name.partition("<")
    outer = {"optional": "optional_type", **OPAQUE_TYPE_NAMES}.get(outer, outer)
    if not inner:
        return f"{{type_name: {outer}}}"
    parts = inner[:-1].split(",", 1) if outer == "map" else [inner[:-1]]
    shown = ", ".join(describe_type(part.strip()) for part in parts)
    return f"{{type_name: {outer}, params: [{shown}]}}"


def resolve_type(name: str) -> cel.Type:
    """Return a type by its name in CEL syntax, or by the name of one of Kubernetes' types."""
    return (
        cel.Type.AbstractType(OPAQUE_TYPE_NAMES[name])
        if name in OPAQUE_TYPE_NAMES
        else cel.Type(name)
    )
