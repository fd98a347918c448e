from __future__ import annotations

import pytest

from pytest_kwait.simulator.codec.yaml_text import read_yaml, write_yaml


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
