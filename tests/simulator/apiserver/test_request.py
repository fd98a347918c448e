from __future__ import annotations

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiserver.request import (
    AGGREGATED,
    PRODUCED,
    ResponseForm,
    check_produced,
    negotiate,
    negotiate_discovery,
    negotiate_plain,
    negotiate_stream,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ONLY = (
    "only the following media types are accepted: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", ResponseForm()),
        ("*/*", ResponseForm()),
        ("application/*", ResponseForm()),
        ("application/json; charset=utf-8", ResponseForm()),
        ("application/json;stream=watch", ResponseForm()),
        ("application/yaml", ResponseForm("yaml")),
        ("text/html,application/yaml", ResponseForm("yaml")),
        ("application/json;q=0.5,application/yaml", ResponseForm("yaml")),
        ("*/*,application/yaml", ResponseForm("yaml")),
        ("application/vnd.kubernetes.protobuf,application/json", ResponseForm()),
        (TABLE, ResponseForm("json", "Table")),
        (TABLE.replace("v1", "v1beta1"), ResponseForm("json", "Table", "v1beta1")),
        (f"{TABLE.replace('v1', 'v2')},application/json", ResponseForm()),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", ResponseForm("yaml", "Table")),
    ],
)
def test_negotiation_prefers_the_highest_quality(accept: str, form: ResponseForm) -> None:
    assert negotiate(accept) == form


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "application/json;stream=nope",
        "application/yaml;stream=watch",
        "application/json;as=Nope;v=v1;g=meta.k8s.io",
        "application/json;as=Table;g=meta.k8s.io",
        "application/json;as=Table;v=v1;g=nope",
        "application/json;sv=v1",
        "nope",
    ],
)
def test_negotiation_rejects_unsupported_forms(accept: str) -> None:
    with pytest.raises(StatusError) as refused:
        negotiate(accept)
    assert (refused.value.code, refused.value.message) == (406, ONLY)


def test_negotiation_of_plain_objects_rejects_tables() -> None:
    assert negotiate_plain("application/yaml") == ResponseForm("yaml")
    with pytest.raises(StatusError, match="only the following"):
        negotiate_plain(TABLE)


def test_negotiation_of_watches_rejects_yaml() -> None:
    assert negotiate_stream(TABLE) == ResponseForm("json", "Table")
    with pytest.raises(StatusError) as refused:
        negotiate_stream("application/yaml")
    assert refused.value.message == (
        "only the following media types are accepted: application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch"
    )


def test_negotiation_of_aggregated_discovery() -> None:
    assert negotiate_discovery(AGGREGATED)
    assert negotiate_discovery(f"{AGGREGATED},application/json")
    assert not negotiate_discovery(f"application/json,{AGGREGATED};q=0.5")
    assert not negotiate_discovery(AGGREGATED.replace("v=v2", "v=v2beta1"))
    assert not negotiate_discovery("")


def test_routes_check_media_types_only() -> None:
    check_produced("", PRODUCED)
    check_produced("text/html, application/yaml;as=Nope", PRODUCED)
    check_produced("*/*;q=0.1", ("application/json",))
    for accept in ("application/*", "text/html", ",", "application/yaml"):
        with pytest.raises(StatusError) as refused:
            check_produced(accept, ("application/json",))
        assert refused.value.message == (
            "406: Not Acceptable\n\nAvailable representations: application/json"
        )
