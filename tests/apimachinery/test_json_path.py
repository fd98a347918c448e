from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.apimachinery.json_path import JsonPath
from pytest_kwait.errors import InvalidArgument

OBJ: dict[str, Any] = {
    "items": [{"type": "x", "v": 1}, {"type": "y", "v": 2}, {"v": 3}],
    "labels": {"app.io/name": "z"},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{.status.phase}", ["Running"]),
        ("{status.phase}", ["Running"]),
        (".status.phase", ["Running"]),
        ("status.phase", ["Running"]),
        ("{$.status.phase}", ["Running"]),
        ('{["status"]["phase"]}', ["Running"]),
        ("{.status.*}", ["Running"]),
        ('{.items[?(@.type=="y")].v}', [2]),
        ("{.items[?(@.type=='y')].v}", [2]),
        ('{.items[?(@.type!="y")].v}', [1]),
        ("{.items[?(@.v >= 2)].v}", [2, 3]),
        ("{.items[?(@.type)].v}", [1, 2]),
        ("{.items[0,2].v}", [1, 3]),
        ("{.items[-1:].v}", [3]),
        ("{.items[*].v}", [1, 2, 3]),
        ("{..v}", [1, 2, 3]),
        (r"{.labels.app\.io/name}", ["z"]),
        ("{.labels['app.io/name']}", ["z"]),
        ("{.nothing.at.all}", []),
        ("{.items[9]}", []),
        ("{.status.phase.deeper}", []),
    ],
)
def test_paths_of_kubernetes(text: str, found: list[Any]) -> None:
    assert JsonPath(text).find(OBJ) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a path is missing"),
        ("{}", "a path is missing"),
        ("{.a[}", "a bracket is not closed"),
        ("{.a..}", "a name is missing after '.a..'"),
        ("{.a.}", "a name is missing after '.a.'"),
        ("{.a}{.b}", "'}{.b' is no part of a path"),
        ("{.a[x]}", "[x] is neither an index, a name in quotes nor a filter"),
        ("{.a[?(x)]}", "'x' is no filter"),
    ],
)
def test_what_is_no_path(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        JsonPath(text)

    assert str(caught.value) == (
        f"jsonpath={text!r} is not valid: {why}; use a path such as '{{.status.phase}}' or "
        "'{.status.conditions[?(@.type==\"Ready\")].status}'"
    )
