"""Read JSON and YAML as the server does, with Go's error messages, and write YAML.

JSON is limited in depth. YAML has no dates, and `y` and `n` are booleans.
Source: Go's encoding/json (scanner.go), sigs.k8s.io/json, sigs.k8s.io/yaml, goyaml.v2/resolve.go.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import yaml

MAX_DEPTH = 150
"""Objects and lists within each other. Go bears 10,000; no object of the API comes near either."""

_SPACE = b" \t\r\n"
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"
_ESCAPES = b'bfnrt\\/"'
_STRING_END = re.compile(rb'[\x00-\x1f"\\]')
_TOO_DEEP = "exceeded max depth"
_decode = msgspec.json.Decoder().decode

_MAX_NODES = 400_000
_BOOLEAN = re.compile(r"^[yYnN]$")
_QUOTED_SCALAR = re.compile(r"^([yYnN]|[-+]?0o[0-7]+)$")
"""Texts that the library takes for texts and the server for something else."""
_TEXT = "tag:yaml.org,2002:str"
_JSON_ESCAPE = re.compile(rb"\\(?:(u[dD][89a-fA-F])|(/)|.)", re.DOTALL)
"""An escape of JSON, of which YAML knows neither surrogates nor the slash."""
_SURROGATE = re.compile(rb"\\[uU]0*[dD][89a-fA-F]")
_NUMBER = re.compile(r"^[-+]?\.?[0-9][0-9a-fA-F_.xo+-]*$")
"""Texts that may be numbers."""
_INTEGER = re.compile(r"^[-+]?(0b[01]+|0o[0-7]+|0x[0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)$")
_DECIMAL = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_SPECIAL_FLOAT = re.compile(r"^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$")
_MAX_INTEGER_DIGITS = 66
"""The characters of the longest integer of 64 bits, in base 2."""


class _SyntaxError(Exception):
    pass


def find_json_error(data: bytes) -> str:
    """Return Go's error for invalid JSON; empty for valid JSON."""
    scanner = _Scanner(data)
    try:
        scanner.value()
        scanner.space()
        if scanner.at < len(data):
            scanner.wrong("after top-level value")
    except _SyntaxError as error:
        return str(error)
    return ""


def quote_character(code: int) -> str:
    """Quote a character as Go does in errors."""
    if code == ord("'"):
        return r"'\''"
    if code == ord('"'):
        return "'\"'"
    sign = chr(code)
    if 0x7F <= code < 0xA0 or code == 0xAD:
        return f"'\\u{code:04x}'" if code > 0x7F else "'\\x7f'"
    if code < 0x20:
        named = {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r"}
        return f"'{named.get(code, f'{chr(92)}x{code:02x}')}'"
    return f"'{json.dumps(sign, ensure_ascii=False)[1:-1]}'"


class _Scanner:
    """Validates one JSON value, without recursion."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def wrong(self, where: str) -> None:
        """Reject the current character.

        Raises:
            _Wrong: always.
        """
        raise _SyntaxError(f"invalid character {quote_character(self.peek())} {where}")

    def peek(self) -> int:
        """Return the current character.

        Raises:
            _Wrong: at the end.
        """
        if self.at >= len(self.data):
            raise _SyntaxError("unexpected end of JSON input")
        return self.data[self.at]

    def space(self) -> None:
        """Skip white space."""
        while self.at < len(self.data) and self.data[self.at] in _SPACE:
            self.at += 1

    def value(self) -> None:
        """Read a whole value."""
        open_: list[int] = []
        while True:
            self.space()
            sign = self.peek()
            if sign in b"{[":
                self.at += 1
                open_.append(sign)
                self.space()
                if self.peek() == sign + 2:  # "}" follows "{", and "]" "[", two signs later
                    self.at += 1
                    open_.pop()
                else:
                    if sign == ord("{"):
                        self._key()
                    continue
            else:
                self._scalar(sign)
            if not self._next(open_):
                return

    def _next(self, open_: list[int]) -> bool:
        """Move to the next value of the open list or object; returns whether there is one."""
        while open_:
            self.space()
            sign, inside = self.peek(), open_[-1]
            if sign == ord(","):
                self.at += 1
                if inside == ord("{"):
                    self.space()
                    self._key()
                return True
            if sign != inside + 2:
                self.wrong(
                    "after object key:value pair" if inside == ord("{") else "after array element"
                )
            self.at += 1
            open_.pop()
        return False

    def _key(self) -> None:
        if self.peek() != ord('"'):
            self.wrong("looking for beginning of object key string")
        self._string()
        self.space()
        if self.peek() != ord(":"):
            self.wrong("after object key")
        self.at += 1

    def _scalar(self, sign: int) -> None:
        if sign == ord('"'):
            self._string()
        elif sign in _LITERALS:
            self._literal(_LITERALS[sign])
        elif sign == ord("-") or sign in _DIGITS:
            self._number()
        else:
            self.wrong("looking for beginning of value")

    def _literal(self, word: bytes) -> None:
        for expected in word:
            if self.peek() != expected:
                self.wrong(f"in literal {word.decode()} (expecting '{chr(expected)}')")
            self.at += 1

    def _string(self) -> None:
        self.at += 1
        while True:
            match = _STRING_END.search(self.data, self.at)
            self.at = len(self.data) if match is None else match.start()
            sign = self.peek()
            if sign < 0x20:
                self.wrong("in string literal")
            self.at += 1
            if sign == ord('"'):
                return
            escape = self.peek()
            if escape == ord("u"):
                for _ in range(4):
                    self.at += 1
                    if self.peek() not in _HEX:
                        self.wrong("in \\u hexadecimal character escape")
            elif escape not in _ESCAPES:
                self.wrong("in string escape code")
            self.at += 1

    def _number(self) -> None:
        if self.peek() == ord("-"):
            self.at += 1
            if self.peek() not in _DIGITS:
                self.wrong("in numeric literal")
        if self.peek() == ord("0"):
            self.at += 1
        else:
            self._digits()
        if self.at < len(self.data) and self.data[self.at] == ord("."):
            self.at += 1
            if self.peek() not in _DIGITS:
                self.wrong("after decimal point in numeric literal")
            self._digits()
        if self.at < len(self.data) and self.data[self.at] in b"eE":
            self.at += 1
            if self.peek() in b"+-":
                self.at += 1
            if self.peek() not in _DIGITS:
                self.wrong("in exponent of numeric literal")
            self._digits()

    def _digits(self) -> None:
        while self.at < len(self.data) and self.data[self.at] in _DIGITS:
            self.at += 1


def read_json(data: bytes) -> Any:
    """Decode JSON; invalid UTF-8 becomes U+FFFD.

    Raises:
        ValueError: with Go's message, the JSON is invalid or too deep.
    """
    try:
        value = _decode(data)
    except RecursionError:
        raise _too_deep_error(data) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = _read_leniently(data)
    if data.count(b"{") + data.count(b"[") > MAX_DEPTH:
        check_depth(value, data)
    return value


def check_depth(value: Any, data: bytes = b"{") -> None:
    """Check the depth of a decoded value.

    Raises:
        ValueError: it is too deep.
    """
    layer, depth = [value], 0
    while layer:
        depth += 1
        if depth > MAX_DEPTH + 1:
            raise _too_deep_error(data)
        below: list[Any] = []
        for node in layer:
            if isinstance(node, dict):
                below += [item for item in node.values() if isinstance(item, dict | list)]
            elif isinstance(node, list):
                below += [item for item in node if isinstance(item, dict | list)]
        layer = below


def _too_deep_error(data: bytes) -> ValueError:
    sign = "[" if data.count(b"[") > data.count(b"{") else "{"
    return ValueError(f"invalid character '{sign}' {_TOO_DEEP}")


def _read_leniently(data: bytes) -> Any:
    """Decode JSON with invalid UTF-8 or lone surrogates."""
    text = data.decode(errors="replace")
    try:
        json.loads(text, parse_constant=_refuse_constant)
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _decode(_replace_lone_surrogates(whole).encode())
    except RecursionError:
        raise _too_deep_error(data) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(find_json_error(data) or str(error)) from None


def _refuse_constant(name: str) -> Any:
    """Reject `NaN` and infinities."""
    raise ValueError(name)


def _replace_lone_surrogates(text: str) -> str:
    """Replace the escapes of lone surrogates by U+FFFD."""
    if "\\u" not in text:
        return text
    value = json.loads(text)
    again = json.dumps(value, ensure_ascii=False)
    return again.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        """A YAML loader with the server's resolvers that records duplicate keys."""

        def __init__(self, stream: bytes) -> None:
            super().__init__(stream)
            self.repeated: list[tuple[int, str]] = []

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = set()
            for key, _ in node.value:
                if key.value in keys and key.tag != "tag:yaml.org,2002:merge":
                    self.repeated.append((key.start_mark.line + 1, key.value))
                keys.add(key.value)
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            return mapping

    def number(loader: Loader, node: yaml.ScalarNode) -> int | float | str:
        return _read_yaml_number(loader.construct_scalar(node))

    Loader.add_constructor("tag:yaml.org,2002:int", number)
    Loader.bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}
    Loader.yaml_implicit_resolvers = {
        sign: [
            rule
            for rule in rules
            if not rule[0].endswith((":timestamp", ":value", ":int", ":float"))
        ]
        for sign, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for sign in "+-.0123456789":
        Loader.yaml_implicit_resolvers[sign] = [
            *Loader.yaml_implicit_resolvers.get(sign, ()),
            ("tag:yaml.org,2002:int", _NUMBER),
            ("tag:yaml.org,2002:int", _SPECIAL_FLOAT),
        ]
    for sign in "yYnN":
        rules = Loader.yaml_implicit_resolvers.setdefault(sign, [])
        rules.append(("tag:yaml.org,2002:bool", _BOOLEAN))
    return Loader


def _read_yaml_number(text: str) -> int | float | str:
    """Read a number as an integer of 64 bits, or else a float; a text where neither holds it.

    Raises:
        ValueError: an infinity or not a number, which JSON does not have.

    Source: goyaml.v2/resolve.go, func resolve.
    """
    plain = text.replace("_", "")
    if _SPECIAL_FLOAT.match(text):
        sign = "-" if text[0] == "-" else "+"
        name = "NaN" if text.lower() == ".nan" else f"{sign}Inf"
        raise ValueError(f"json: unsupported value: {name}")
    if _INTEGER.match(plain) and len(plain) <= _MAX_INTEGER_DIGITS:
        digits = plain.lstrip("+-")
        octal = digits[0] == "0" and digits.isdigit() and len(digits) > 1
        number = int(plain, 8 if octal else 0)
        if -(2**63) <= number < 2**64:
            return number
    value = float(plain) if _DECIMAL.match(plain) else math.inf
    if math.isinf(value):
        return text
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


def read_yaml(data: bytes) -> tuple[Any, list[str]]:
    """Decode YAML as JSON values; returns the value and its duplicate keys.

    Raises:
        ValueError: the YAML is invalid.
    """
    import yaml

    _check_escapes(data)
    value = _try_json(data)
    if value is not None:
        return value, []
    try:
        loader: Any = _loader()(data)
        value = loader.get_single_data()
        _check_expansion(value)
        value = _json_values(value)
        check_depth(value)
        _check_surrogates(data, value)
    except RecursionError:
        raise ValueError("yaml: exceeded max depth") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"error converting YAML to JSON: {error}") from None
    repeated = sorted(loader.repeated)
    return value, [f'line {line}: key "{key}" already set in map' for line, key in repeated]


def _check_escapes(data: bytes) -> None:
    """Reject the escapes of JSON objects that Go's YAML does not know.

    Raises:
        ValueError: there is one.

    Source: goyaml.v2/scannerc.go, `yaml_parser_scan_flow_scalar`.
    """
    if b"\\" not in data or not data.lstrip().startswith(b"{"):
        return
    for match in _JSON_ESCAPE.finditer(data):
        if match.lastindex is not None:
            why = ("invalid Unicode character escape code", "unknown escape character")
            raise _escape_error(data, match.start(), why[match.lastindex - 1])


def _check_surrogates(data: bytes, value: Any) -> None:
    """Reject the escapes of surrogates, as `_check_escapes`.

    Raises:
        ValueError: there is one.
    """
    found = _SURROGATE.search(data)
    if found is None:
        return
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        why = "invalid Unicode character escape code"
        raise _escape_error(data, found.start(), why) from None


def _escape_error(data: bytes, position: int, why: str) -> ValueError:
    line = data.count(b"\n", 0, position) + 1
    # Go's library leaves the first line out.
    place = f"line {line}: " if line > 1 else ""
    return ValueError(f"error converting YAML to JSON: yaml: {place}found {why}")


def _try_json(data: bytes) -> Any:
    """Decode as JSON; None if only YAML can read it or it has duplicate keys."""
    if not data.lstrip().startswith(b"{"):
        return None
    repeated = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        result = dict(items)
        repeated = repeated or len(result) != len(items)
        return result

    try:
        value = read_json(data)
        json.loads(data, object_pairs_hook=pairs)
    except ValueError:
        return None
    return None if repeated else value


def _check_expansion(value: Any) -> None:
    """Limit the expansion of aliases.

    Raises:
        ValueError: with the server's message, the expansion is too large or recursive.

    Source: goyaml.v2/decode.go, `allowedAliasRatio`.
    """
    sizes: dict[int, int] = {}
    todo: list[tuple[Any, bool]] = [(value, False)]
    while todo:
        node, again = todo.pop()
        items = list(node.values()) if isinstance(node, dict) else node
        if not isinstance(items, list):
            continue
        if again:
            size = 1 + sum(sizes.get(id(item), 1) for item in items)
            if size > _MAX_NODES:
                raise ValueError("yaml: document contains excessive aliasing")
            sizes[id(node)] = size
        elif id(node) not in sizes:
            sizes[id(node)] = _MAX_NODES + 1  # unless it turns out to be less: it is inside itself
            todo.append((node, True))
            todo += [(item, False) for item in items]


def _json_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {_json_key(key): _json_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_values(item) for item in value]
    return value


def _json_key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def write_yaml(value: Any) -> bytes:
    """Write decoded JSON as YAML in the server's style."""
    import yaml

    return yaml.dump(value, Dumper=_dumper(), allow_unicode=True, sort_keys=True).encode()


@cache
def _dumper() -> type[yaml.SafeDumper]:
    import yaml

    class Dumper(yaml.SafeDumper):
        """A YAML dumper that quotes as the server does."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def _resolved(dumper: Any, value: str) -> Any:
        return dumper.resolve(yaml.ScalarNode, value, (True, False))

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = None
        if "\n" in value:
            style = "|"
        elif _QUOTED_SCALAR.match(value) or _resolved(dumper, value) != _TEXT:
            style = '"'
        return dumper.represent_scalar(_TEXT, value, style)

    # Objects may be of a class of their own, see `objects`.
    Dumper.add_multi_representer(dict, yaml.SafeDumper.represent_dict)
    Dumper.add_representer(str, text)
    Dumper.yaml_implicit_resolvers = {
        sign: rules
        for sign, rules in Dumper.yaml_implicit_resolvers.items()
        if sign not in ("=", "<")
    }
    return Dumper


def not_a_map_message(value: object) -> str:
    """The message of Go's JSON reader on a value that must be an object."""
    name = json_type_name(value)
    return f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"


def json_type_name(value: object) -> str:
    """Return the name that Go's JSON decoder gives the type of a value."""
    names = {list: "array", str: "string", bool: "bool"}
    return "object" if isinstance(value, dict) else names.get(type(value), "number")
