from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.errors import ClusterError, InvalidArgument
from pytest_kwait.suite.config.pod_security import PodSecurity
from pytest_kwait.suite.further import NamespaceRequest, parse_namespace_request
from tests.suite.fakes import FakeCluster
from tests.suite.test_kwait import make_bench

_MAPPING = 'use a mapping of label names to texts, for example {"team": "a"}'


def test_what_may_be_asked_for() -> None:
    labels = {
        "team": "a",
        "example.com/Tier_1.x": "",
        "pod-security.kubernetes.io/warn": "baseline",
    }
    assert parse_namespace_request("peer", labels, "restricted:latest") == NamespaceRequest(
        "peer", labels, PodSecurity("restricted", "latest")
    )
    assert parse_namespace_request("peer", None, None) == NamespaceRequest("peer", {}, None)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a=b"], f"labels=['a=b'] is not valid: {_MAPPING}"),
        ({"a b": "c"}, f"labels='a b' is not valid: no name of a label; {_MAPPING}"),
        ({"x/": "c"}, f"labels='x/' is not valid: no name of a label; {_MAPPING}"),
        ({1: "c"}, f"labels=1 is not valid: no name of a label; {_MAPPING}"),
        ({"a": 1}, f"labels a=1 is not valid: no value of a label; {_MAPPING}"),
        ({"a": "-b"}, f"labels a='-b' is not valid: no value of a label; {_MAPPING}"),
        (
            {"pytest-kwait/run": "x"},
            "labels='pytest-kwait/run' is not valid: it says whose the namespace is; use another "
            "name",
        ),
    ],
)
def test_labels_that_cannot_be(labels: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_namespace_request("peer", labels, None)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["", "Peer", "a_b", "-a", "a" * 64, None, 3])
def test_names_that_are_none(name: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_namespace_request(name, None, None)
    assert str(caught.value) == (
        f"name={name!r} is not valid: use up to 63 lower-case letters, digits and '-', with a "
        "letter or digit at both ends"
    )


def test_where_none_are_made_none_can_be(tmp_path: Any) -> None:
    bench = make_bench(FakeCluster(), tmp_path, owned=False)
    with pytest.raises(ClusterError) as caught:
        bench.create_namespace("peer")
    assert str(caught.value) == (
        "namespace 'peer' cannot be made: this bench is in ci-1, which was there before, and the "
        "run makes none"
    )
