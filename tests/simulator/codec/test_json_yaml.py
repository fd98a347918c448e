from __future__ import annotations

import re

import pytest

from pytest_kwait.simulator.codec.json_yaml import find_json_error, read_yaml, write_yaml


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"{}", ""),
        (b' [1, -2.5e+3, "a\\u00e9", true, null, {"a": {}}] ', ""),
        (b"", "unexpected end of JSON input"),
        (b'{"a"', "unexpected end of JSON input"),
        (b'"a', "unexpected end of JSON input"),
        (b"[1", "unexpected end of JSON input"),
        (b"a: b", "invalid character 'a' looking for beginning of value"),
        (b"nope", "invalid character 'o' in literal null (expecting 'u')"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b"{a}", "invalid character 'a' looking for beginning of object key string"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b'"a\nb"', "invalid character '\\n' in string literal"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b'"\\u00g0"', "invalid character 'g' in \\u hexadecimal character escape"),
        (b"-a", "invalid character 'a' in numeric literal"),
        (b"[1.a]", "invalid character 'a' after decimal point in numeric literal"),
        (b"[1ea]", "invalid character 'a' in exponent of numeric literal"),
        (b"01", "invalid character '1' after top-level value"),
        (b"'a'", "invalid character '\\'' looking for beginning of value"),
        (b"\x9e\x8a", "invalid character '\\u009e' looking for beginning of value"),
        (b"\x00", "invalid character '\\x00' looking for beginning of value"),
    ],
)
def test_errors_are_those_of_go(text: bytes, error: str) -> None:
    assert find_json_error(text) == error


def test_any_depth_is_followed() -> None:
    assert find_json_error(b"[" * 100_000 + b"]" * 100_000) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "a: x\n"),
        ("", 'a: ""\n'),
        ("5", 'a: "5"\n'),
        ("true", 'a: "true"\n'),
        ("y", 'a: "y"\n'),
        ("0o17", 'a: "0o17"\n'),
        ("12:30", 'a: "12:30"\n'),
        ("2020-01-01", 'a: "2020-01-01"\n'),
        ("=", "a: =\n"),
        ("x: y", "a: 'x: y'\n"),
        ("é", "a: é\n"),
        ("a\nb", "a: |-\n  a\n  b\n"),
        (5, "a: 5\n"),
        (None, "a: null\n"),
        ([], "a: []\n"),
    ],
)
def test_texts_are_quoted_as_a_real_server_quotes_them(value: object, text: str) -> None:
    assert write_yaml({"a": value}).decode() == text
    assert read_yaml(text.encode())[0] == {"a": value}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (rb'{"a": "\ud83d\ude00"}', "found invalid Unicode character escape code"),
        (b'{"a": 1,\n "b": "\\uD83D"}', "line 2: found invalid Unicode character escape code"),
        (b'a: 1\nb: "\\ud83d"', "line 2: found invalid Unicode character escape code"),
        (rb'{"a": "\/"}', "found unknown escape character"),
    ],
)
def test_yaml_refuses_escapes_that_json_alone_has(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match="error converting YAML to JSON") as error:
        read_yaml(data)
    assert str(error.value) == f"error converting YAML to JSON: yaml: {why}"


def test_yaml_reads_backslashes_that_are_no_such_escape() -> None:
    assert read_yaml(rb'{"a": "\\ud83d \\/ \u00e9"}')[0] == {
        "a": r"\ud83d \/ \u00e9".replace("\\u00e9", "\u00e9")
    }
    assert read_yaml(rb"a: '\ud83d'")[0] == {"a": r"\ud83d"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000),
        ("0x10", 16),
        ("-0x10", -16),
        ("0b11", 3),
        ("010", 8),
        ("0o17", 15),
        ("08", 8),
        ("1_000", 1000),
        ("1_0.5", 10.5),
        ("+5", 5),
        (".5", 0.5),
        ("5.", 5),
        ("1e400", "1e400"),
        ("99999999999999999999", 1e20),
        ("0b2", "0b2"),
        ("_1", "_1"),
        ("1:59", "1:59"),
        ("1:59.5", "1:59.5"),
        ("1" + ":59" * 1_000, "1" + ":59" * 1_000),
        ("1" * 5_000, "1" * 5_000),
        ("0x" + "1" * 5_000, "0x" + "1" * 5_000),
    ],
    ids=lambda value: str(value)[:20],
)
def test_yaml_numbers_are_those_of_a_real_server(text: str, value: object) -> None:
    assert read_yaml(f"a: {text}".encode()) == ({"a": value}, [])


@pytest.mark.parametrize(
    ("text", "name"), [(".inf", "+Inf"), ("-.INF", "-Inf"), ("+.Inf", "+Inf"), (".NaN", "NaN")]
)
def test_yaml_numbers_that_json_lacks_are_errors(text: str, name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"json: unsupported value: {name}")):
        read_yaml(f"a: {text}".encode())
