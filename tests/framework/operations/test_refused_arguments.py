"""Wrong arguments of verbs: named with their value, before any request."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiClient

import pytest_kwait
from pytest_kwait.client.session import ApiSession
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.registry import VERBS
from tests.rows import check_rows

if TYPE_CHECKING:
    from collections.abc import Callable

WIDGET = "widget.v1.example.com/w"
"""An object of a custom kind: a request finds out what that is."""

VALUES: dict[str, Any] = {
    "annotations": {"a": "b"},
    "change": lambda obj: None,
    "labels": {"a": "b"},
    "patch": {"a": 1},
    "replicas": 1,
    "taints": "a:NoSchedule",
}
TARGETS = {"restart": "deployment/a", "rollout_undo": "deployment/a", "rolling_update": "rc/a"}

CALLED_BY_KWAIT = {"wait_for_created", "wait_for_gone", "wait_for_objects_ready"}
"""Their arguments are objects that the server has sent."""


class Wrong:
    """A value of a type that no argument takes."""

    def __repr__(self) -> str:
        return "<wrong>"


@pytest.fixture
def refusing_client(monkeypatch: pytest.MonkeyPatch) -> ApiClient:
    """A client whose server must not be asked."""
    client = ApiClient()

    def refuse(method: str, path: str, **_: object) -> Any:
        pytest.fail(f"the server is asked first: {method} {path}")

    monkeypatch.setattr(ApiSession.of(client).transport, "send", refuse)
    return client


def give_arguments(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Return valid arguments for what a verb requires."""
    values = {**VALUES, "target": TARGETS.get(name, WIDGET)}
    return {
        argument: values.get(argument, "a")
        for argument, parameter in inspect.signature(function).parameters.items()
        if argument != "client"
        and parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_KEYWORD
    }


def test_a_wrong_argument_is_refused_before_any_request(refusing_client: ApiClient) -> None:
    rows = [
        (verb.name, argument)
        for verb in VERBS.values()
        if verb.name not in CALLED_BY_KWAIT
        for argument, parameter in inspect.signature(
            getattr(pytest_kwait, verb.name)
        ).parameters.items()
        if argument != "client" and parameter.kind is not parameter.VAR_KEYWORD
    ]

    def check(row: tuple[str, str]) -> None:
        name, argument = row
        function = getattr(pytest_kwait, name)
        with pytest.raises(InvalidArgument) as caught:
            function(refusing_client, **give_arguments(name, function) | {argument: Wrong()})
        named = "node" if name in ("cordon", "uncordon", "taint", "drain") else argument
        assert caught.value.what in (argument, named, "pod")
        assert "<wrong>" in str(caught.value)

    assert len(rows) > 50
    check_rows(rows, check, name=lambda row: f"{row[0]}({row[1]}=…)")


BOOL = "use True or False"
ENV = 'use a mapping of names to texts: {"COLOUR": "red"}'


@pytest.mark.parametrize(
    ("verb", "arguments", "message"),
    [
        ("patch", {"patch": "a"}, (
            "patch='a' is not valid: use a list of operations with type='json', a mapping of "
            "fields with any other"
        )),
        ("patch", {"type": "smart"}, (
            "type='smart' is not valid: use 'strategic', 'merge', 'json' or 'apply'"
        )),
        ("patch", {"subresource": ""}, (
            "subresource='' is not valid: use the name of a subresource, for example 'status'"
        )),
        ("update", {"subresource": 3}, (
            "subresource=3 is not valid: use the name of a subresource, for example 'status'"
        )),
        ("label", {"overwrite": "no"}, f"overwrite='no' is not valid: {BOOL}"),
        ("annotate", {"overwrite": 1}, f"overwrite=1 is not valid: {BOOL}"),
        ("taint", {"overwrite": None}, f"overwrite=None is not valid: {BOOL}"),
        ("drain", {"ignore_daemon_sets": 1}, f"ignore_daemon_sets=1 is not valid: {BOOL}"),
        ("drain", {"delete_empty_dir_data": 1}, f"delete_empty_dir_data=1 is not valid: {BOOL}"),
        ("drain", {"force": "yes"}, f"force='yes' is not valid: {BOOL}"),
        ("run", {"check": 0}, f"check=0 is not valid: {BOOL}"),
        ("run", {"env": ["A"]}, f"env=['A'] is not valid: {ENV}"),
        ("run", {"env": {"A": 1}}, f"env={{'A': 1}} is not valid: {ENV}"),
        ("run", {"command": 3}, "command=3 is not valid: use texts: the program and its arguments"),
        ("restart", {"target": "job/a"}, (
            "target='job/a' is not valid: use 'deployment/name', 'daemonset/name' or "
            "'statefulset/name'"
        )),
    ],
)  # fmt: skip
def test_the_text_of_a_refused_argument(
    refusing_client: ApiClient, verb: str, arguments: dict[str, Any], message: str
) -> None:
    function = getattr(pytest_kwait, verb)
    with pytest.raises(InvalidArgument) as caught:
        function(refusing_client, **give_arguments(verb, function) | arguments)
    assert str(caught.value) == message


def test_a_node_is_not_cordoned_for_a_selector_that_the_server_would_refuse(
    refusing_client: ApiClient,
) -> None:
    with pytest.raises(InvalidArgument, match=r"selector='app in \(a' is not valid: "):
        pytest_kwait.drain(refusing_client, "n", selector="app in (a")
