from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import InvalidArgument, InvalidManifest, matches

if TYPE_CHECKING:
    from pathlib import Path

WEB: dict[str, Any] = {"spec": {"replicas": 3}}


def test_fields_as_mapping_text_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "expected.yaml").write_text("# a part\nspec: {replicas: 3}\n")
    monkeypatch.chdir(tmp_path)
    for expected, place in (
        (WEB, '{"spec": {"replicas": 3}}'),
        ("spec:\n  replicas: 3\n", '{"spec": {"replicas": 3}}'),
        ("expected.yaml", "expected.yaml"),
        (tmp_path / "expected.yaml", "expected.yaml"),
        ({"data": {"text": "a" * 60}}, '{"data": {"text": "' + "a" * 38 + "..."),
    ):
        made = matches(expected)
        assert made.goal == f"match {place}"
        assert (made == WEB) is ("text" not in place)


def test_a_file_beside_the_calling_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    call = "from pytest_kwait import matches\nmade = matches('expected.yaml')\n"
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "expected.yaml").write_text("spec: {replicas: 3}\n")
    names: dict[str, Any] = {"__file__": str(tmp_path / "suite" / "test_it.py")}
    exec(call, names)
    assert names["made"] == WEB
    with pytest.raises(InvalidManifest) as caught:
        exec(call, {})
    assert str(caught.value) == f"expected.yaml: there is no file {tmp_path / 'expected.yaml'}"


@pytest.mark.parametrize(
    ("expected", "error", "text"),
    [
        (
            {},
            InvalidArgument,
            "matches={} is not valid: the object: give an object with at least one field",
        ),
        (
            "- a: 1\n",
            InvalidArgument,
            "matches=[{'a': 1}] is not valid: the text, document 1, line 1: give an object with at "
            "least one field",
        ),
        (
            3,
            InvalidArgument,
            "matches=3 is not valid: the object: give an object with at least one field",
        ),
        (
            "a: 1\n---\nb: 1\n",
            InvalidManifest,
            "the text: has 2 documents, one with the fields is needed",
        ),
        ("\n", InvalidManifest, "the text: has 0 documents, one with the fields is needed"),
        (
            {"a": object},
            InvalidManifest,
            "the object: holds what JSON cannot: a type (<class 'object'>)",
        ),
        (
            {"a": "(b c)"},
            InvalidArgument,
            "matches='{\"a\": \"(b c)\"}' is not valid: a: 'b c' is no JMESPath expression: "
            'Unexpected token: c: Parse error at column 2, token "c" (UNQUOTED_IDENTIFIER), for '
            "expression:",
        ),
    ],
)
def test_bad_input(expected: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        matches(expected)
    assert str(caught.value) == text
