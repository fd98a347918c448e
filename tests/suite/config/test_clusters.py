from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.config.clusters import FurtherCluster
from pytest_kwait.suite.config.values import read_clusters

_INI = "ini kwait_clusters"
_FORM = "use NAME = PROVIDER [OPTIONS], for example 'b = kind --node-image=kindest/node:v1.35.0'"


@pytest.mark.parametrize(
    "value",
    [
        "\nb = embedded\nplain=embedded --api-only\n\n",
        ["b = embedded", "plain = embedded --api-only"],
        {"b": "embedded", "plain": "embedded --api-only"},
    ],
)
def test_forms_of_a_declaration(value: Any) -> None:
    assert read_clusters(value, "clusters", _INI) == (
        FurtherCluster("b", "embedded", (), _INI),
        FurtherCluster("plain", "embedded", ("--api-only",), _INI),
    )


def test_words_are_split_as_a_shell_does() -> None:
    [cluster] = read_clusters("b=kind --cluster-args='--wait 5m'", "clusters", _INI)
    assert cluster.options == ("--cluster-args=--wait 5m",)
    assert str(cluster) == "b (kind)"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", f"clusters='' (from {_INI}) is not valid: {_FORM}"),
        (7, f"clusters=7 (from {_INI}) is not valid: {_FORM}"),
        ({}, f"clusters={{}} (from {_INI}) is not valid: {_FORM}"),
        ([7], f"clusters=7 (from {_INI}) is not valid: {_FORM}"),
        ("embedded", f"clusters='embedded' (from {_INI}) is not valid: {_FORM}"),
        ("b =", f"clusters='' (from {_INI}) is not valid: cluster b has no provider; {_FORM}"),
        (
            {"b": ["kind"]},
            f"clusters=['kind'] (from {_INI}) is not valid: cluster b has no provider; {_FORM}",
        ),
        (
            "b = --api-only",
            f"clusters=' --api-only' (from {_INI}) is not valid: cluster b has no provider; "
            f"{_FORM}",
        ),
        (
            "b = kind 'x",
            f'clusters=" kind \'x" (from {_INI}) is not valid: No closing quotation; {_FORM}',
        ),
        (
            "B_1 = kind",
            f"clusters='B_1' (from {_INI}) is not valid: use up to 63 lower-case letters, digits "
            "and '-', with a letter or digit at both ends",
        ),
        ("b = kind\nb = k3d", f"clusters='b' (from {_INI}) is not valid: use each name once"),
    ],
)
def test_an_invalid_declaration_is_refused(value: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read_clusters(value, "clusters", _INI)
    assert str(refused.value) == message
