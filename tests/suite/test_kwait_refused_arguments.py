"""Wrong arguments of the methods of `kwait`: named with their value, before any request."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import InvalidArgument
from tests.rows import check_rows
from tests.suite.fakes import FakeCluster
from tests.suite.test_kwait import make_kwait

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait

VALUES: dict[str, Any] = {
    "annotations": {"a": "b"},
    "change": lambda obj: None,
    "kind": "widget",
    "labels": {"a": "b"},
    "patch": {"a": 1},
    "port": 80,
    "replicas": 1,
    "source": "/",
    "target": "widget.v1.example.com/w",
}
TARGETS = {
    "copy_from": "/a",
    "copy_to": "/a",
    "restart": "deployment/a",
    "rollout_undo": "deployment/a",
    "rolling_update": "rc/a",
}
GIVEN_BY_POSITION = {"debug": "true", "exec": "true", "kubectl": "get", "taint": "a:NoSchedule"}

METHODS = (
    "get", "list", "delete", "events", "logs", "exec", "copy_to", "copy_from", "port_forward",
    "url", "scale", "restart", "rolling_update", "patch", "update", "label", "annotate", "cordon",
    "uncordon", "taint", "drain", "evict", "resize", "rollout_undo", "run", "debug",
    "delete_and_wait",
)  # fmt: skip


class Wrong:
    """A value of a type that no argument takes."""

    def __repr__(self) -> str:
        return "<wrong>"


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def kwait(cluster: FakeCluster, tmp_path: Path) -> Kwait:
    return make_kwait(cluster, tmp_path, owned=False)


def call(kwait: Kwait, verb: str, /, **wrong: object) -> None:
    method = getattr(kwait, verb)
    values = {**VALUES, "target": TARGETS.get(verb, VALUES["target"])}
    positional: list[object] = []
    named: dict[str, object] = {}
    for argument, parameter in inspect.signature(method).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional.append(wrong.pop(argument, GIVEN_BY_POSITION.get(verb, "a")))
        elif argument in wrong and parameter.kind is parameter.KEYWORD_ONLY:
            named[argument] = wrong.pop(argument)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            positional.append(wrong.pop(argument, values.get(argument, "a")))
        elif argument in wrong:
            named[argument] = wrong.pop(argument)
    method(*positional, **named, **wrong)


def test_a_wrong_argument_is_refused_before_any_request(kwait: Kwait, cluster: FakeCluster) -> None:
    rows = [
        (name, argument)
        for name in METHODS
        for argument, parameter in inspect.signature(getattr(kwait, name)).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]

    def check(row: tuple[str, str]) -> None:
        name, argument = row
        with pytest.raises(InvalidArgument) as caught:
            call(kwait, name, **{argument: Wrong()})
        assert "<wrong>" in str(caught.value)
        requests = list(cluster.transport.requests)
        cluster.transport.requests.clear()
        assert requests == []

    assert len(rows) > 90
    check_rows(rows, check, name=lambda row: f"{row[0]}({row[1]}=…)")


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("port_forward", {"port": 0}, (
            "port=0 is not valid: use a number from 1 to 65535, or a port's name"
        )),
        ("port_forward", {"local_port": -1}, (
            "local_port=-1 is not valid: use a number up to 65535, 0 for any free port"
        )),
        ("url", {"port": ""}, (
            "port='' is not valid: use a number from 1 to 65535, or a port's name"
        )),
        ("url", {"path": 3}, "path=3 is not valid: use a text, for example '/healthz'"),
        ("url", {"scheme": "ftp"}, "scheme='ftp' is not valid: use 'http' or 'https'"),
        ("exec", {"stdin": 3}, "stdin=3 is not valid: use bytes or a text"),
        ("copy_to", {"source": 3}, "source=3 is not valid: use the path of a file or folder"),
        ("copy_to", {"target": "tmp"}, (
            "target='tmp' is not valid: use an absolute path in the container, for example "
            "'/tmp/data'"
        )),
        ("copy_to", {"container": ""}, (
            "container='' is not valid: use a string that is not empty"
        )),
        ("copy_from", {"source": "tmp"}, (
            "source='tmp' is not valid: use an absolute path in the container, for example "
            "'/tmp/data'"
        )),
        ("copy_from", {"target": ""}, "target='' is not valid: use the path of a file or folder"),
        ("copy_from", {"pod": "configmap/x"}, (
            "pod='configmap/x' is not valid: use the name of a pod, 'pod/name', or what selects "
            "pods: 'deployment/web'"
        )),
        ("exec", {"command": 3}, (
            "command=(3,) is not valid: use texts: the program and its arguments"
        )),
        ("logs", {"tail": -1}, "tail=-1 is not valid: use a whole number, 0 or more"),
        ("logs", {"since": "1m"}, "since='1m' is not valid: use a whole number, 0 or more"),
        ("logs", {"previous": 1}, "previous=1 is not valid: use True or False"),
        ("logs", {"container": ""}, "container='' is not valid: use a string that is not empty"),
        ("delete", {"grace_period": -1}, (
            "grace_period=-1 is not valid: use a whole number, 0 or more"
        )),
        ("delete", {"propagation": "Later"}, (
            "propagation='Later' is not valid: use Background, Foreground or Orphan"
        )),
        ("get", {"as_model": dict}, (
            "as_model=<class 'dict'> is not valid: use a model of the official client, for "
            "example V1Pod"
        )),
    ],
)  # fmt: skip
def test_the_text_of_a_refused_argument(
    kwait: Kwait, cluster: FakeCluster, method: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call(kwait, method, **arguments)
    assert str(caught.value) == message
    assert cluster.transport.requests == []


def test_a_node_is_not_cordoned_for_a_drain_that_cannot_begin(
    kwait: Kwait, cluster: FakeCluster
) -> None:
    for options in ({"selector": "app in (a"}, {"timeout": "soon"}, {"force": "yes"}):
        with pytest.raises(InvalidArgument):
            kwait.drain("n", **options)  # type: ignore[arg-type]
    assert cluster.transport.requests == []
