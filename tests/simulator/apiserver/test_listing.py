from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.simulator.apiserver.conftest import Served

MAPS = "/api/v1/namespaces/default/configmaps"


def create(served: Served, *names: str, **labels: str) -> None:
    for name in names:
        served.json("POST", MAPS, {"metadata": {"name": name, "labels": labels}})


def names(page: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


def token(**content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def test_list_pages_show_one_revision(served: Served) -> None:
    create(served, "a", "b", "c")
    first = served.json("GET", f"{MAPS}?limit=1")
    create(served, "ab")
    served.json("DELETE", f"{MAPS}/c")
    second = served.json("GET", f"{MAPS}?limit=1&continue={first['metadata']['continue']}")
    assert names(second) == ["b"]
    assert second["metadata"]["remainingItemCount"] == 1
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    third = served.json("GET", f"{MAPS}?continue={second['metadata']['continue']}")
    assert names(third) == ["c"]
    assert "continue" not in third["metadata"]


def test_list_with_expired_token_offers_an_inconsistent_token(served: Served) -> None:
    create(served, "a", "b", "c")
    first = served.json("GET", f"{MAPS}?limit=1")
    create(served, "d")
    served.run(served.api.store.forget_history)
    refused = served.json("GET", f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
    assert (refused["code"], refused["reason"]) == (410, "Expired")
    rest = served.json("GET", f"{MAPS}?limit=2&continue={refused['metadata']['continue']}")
    assert names(rest) == ["b", "c"]
    assert names(served.json("GET", f"{MAPS}?continue={rest['metadata']['continue']}")) == ["d"]


def test_list_remaining_count_ignores_selectors(served: Served) -> None:
    create(served, "a", on="1")
    create(served, "b")
    page = served.json("GET", f"{MAPS}?limit=1&labelSelector=on")
    assert names(page) == ["a"]
    assert "remainingItemCount" not in page["metadata"]
    rest = served.json("GET", f"{MAPS}?labelSelector=on&continue={page['metadata']['continue']}")
    assert names(rest) == []
    assert "continue" not in served.json("GET", f"{MAPS}?limit=1&labelSelector=!on")["metadata"]


def test_list_of_any_version_has_no_pages(served: Served) -> None:
    create(served, "a", "b")
    for query in ("resourceVersion=0", "resourceVersion=0&resourceVersionMatch=NotOlderThan"):
        assert names(served.json("GET", f"{MAPS}?limit=1&{query}")) == ["a", "b"]
    assert names(served.json("GET", f"{MAPS}?limit=1&resourceVersion=00")) == ["a"]
    assert names(served.json("GET", f"{MAPS}?limit=-1")) == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("%20", "illegal base64 data at input byte 0"),
        ("bm9wZQ", "invalid character 'o' in literal null (expecting 'u')"),
        (token(), "server does not recognize this encoded version "),
        (token(v="x"), "server does not recognize this encoded version x"),
        (
            token(v="meta.k8s.io/v1", rv=0, start="a"),
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        (
            token(v="meta.k8s.io/v1", rv=-1, start=""),
            "encoded start key empty (version meta.k8s.io/v1)",
        ),
        (token(v="meta.k8s.io/v1", rv=-1, start="../a"), "../a"),
        (
            token(v="meta.k8s.io/v1", rv="t", start="a"),
            "json: cannot unmarshal string into Go struct field continueToken.rv of type int64",
        ),
    ],
)
def test_list_rejects_a_foreign_continue_token(served: Served, given: str, message: str) -> None:
    answer = served.json("GET", f"{MAPS}?continue={given}")
    assert answer["code"] == 400
    assert answer["message"] == (f"invalid continue token: continue key is not valid: {message}")


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("limit=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        (f"limit={2**63}", 400, f'strconv.ParseInt: parsing "{2**63}": value out of range'),
        (
            f"resourceVersion={2**64}",
            400,
            f'invalid resource version: resourceVersion: Invalid value: "{2**64}": '
            f'strconv.ParseUint: parsing "{2**64}": value out of range',
        ),
        (
            "sendInitialEvents=",
            422,
            'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
            "sendInitialEvents is forbidden for list",
        ),
    ],
)
def test_list_rejects_unparsable_options(
    served: Served, query: str, code: int, message: str
) -> None:
    answer = served.json("GET", f"{MAPS}?{query}")
    assert (answer["code"], answer["message"]) == (code, message)


def test_get_with_an_invalid_version_is_a_server_error(served: Served) -> None:
    answer = served.json("GET", f"{MAPS}/none?resourceVersion=x")
    assert answer["code"] == 500
    assert "reason" not in answer
    answer = served.json("GET", f"{MAPS}/none?export=true")
    assert answer["message"] == (
        "the export parameter, deprecated since v1.14, is no longer supported"
    )


def test_query_parameters_with_a_semicolon_are_ignored(served: Served) -> None:
    create(served, "a")
    assert names(served.json("GET", f"{MAPS}?labelSelector=x=y;z")) == ["a"]
