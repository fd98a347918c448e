from __future__ import annotations

import copy
from typing import Any

import pytest

from pytest_kwait.apimachinery.times import parse_time_or_none
from pytest_kwait.client.resource import CONFIG_MAPS, NAMESPACES, SECRETS
from pytest_kwait.suite.cleanup.owned_objects import (
    Owner,
    kept_annotations,
    read_provenance,
    with_seal,
)

_OWNER = Owner("r1", "tests/x.py::t", "t", worker="gw1", shard="1/2", attempt=2, nonce="ab")


def made(**metadata: Any) -> dict[str, Any]:
    obj = {"metadata": {"name": "x", **metadata}}
    place = metadata.get("namespace")
    return with_seal(_OWNER, CONFIG_MAPS, obj, place, 1000.0, "default/kwait-r1-1")


def test_sealed_provenance_round_trips() -> None:
    read = read_provenance(CONFIG_MAPS, made(namespace="a"))
    assert read is not None
    assert read.owner.digest == _OWNER.digest
    assert (read.owner.run, read.owner.test) == ("r1", "tests/x.py::t")
    assert (read.heartbeat, read.kept) == ("default/kwait-r1-1", False)
    assert read.expires == 1000.0 + 24 * 3600


def test_provenance_of_a_namespace_round_trips() -> None:
    read = read_provenance(NAMESPACES, _OWNER.manifest(0.0, "default/l"))
    assert read is not None
    assert read.heartbeat == "default/l"


def test_kept_objects_are_annotated() -> None:
    obj = made(namespace="a")
    obj["metadata"]["annotations"] |= kept_annotations(5000.0)
    read = read_provenance(CONFIG_MAPS, obj)
    assert read is not None
    assert (read.kept, read.expires) == (True, 5000.0 + 24 * 3600)


def test_a_generated_name_is_sealed_by_what_it_is_generated_from() -> None:
    obj = with_seal(_OWNER, CONFIG_MAPS, {"metadata": {"generateName": "x-"}}, "a", 0.0)
    obj["metadata"] |= {"name": "x-abcde", "namespace": "a"}
    assert read_provenance(CONFIG_MAPS, obj) is not None
    obj["metadata"]["name"] = "other"
    assert read_provenance(CONFIG_MAPS, obj) is None


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("labels", "pytest-kwait/run", "0123456789abcdef"),
        ("labels", "pytest-kwait/owner", None),
        ("annotations", "pytest-kwait/run", "r2"),
        ("annotations", "pytest-kwait/test", None),
        ("annotations", "pytest-kwait/nonce", "cd"),
        ("annotations", "pytest-kwait/attempt", "²"),
        ("annotations", "pytest-kwait/attempt", None),
        ("annotations", "pytest-kwait/expires", "tomorrow"),
        ("annotations", "pytest-kwait/seal", None),
        ("annotations", "pytest-kwait/seal", "0" * 32),
    ],
)
def test_inconsistent_provenance_is_foreign(part: str, name: str, value: str | None) -> None:
    obj = copy.deepcopy(made(namespace="a"))
    obj["metadata"][part][name] = value
    assert read_provenance(CONFIG_MAPS, obj) is None
    del obj["metadata"][part]
    assert read_provenance(CONFIG_MAPS, obj) is None


def test_copied_provenance_is_foreign() -> None:
    obj = made(namespace="a")
    for change in ({"name": "copy"}, {"namespace": "b"}):
        assert read_provenance(CONFIG_MAPS, {"metadata": obj["metadata"] | change}) is None
    assert read_provenance(SECRETS, obj) is None
    assert read_provenance(SECRETS, {"metadata": None}) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T00:00:10.500000Z", 10.5),
        ("1970-01-01T00:00:10", None),
        ("", None),
        (None, None),
    ],
)
def test_api_times_are_parsed(text: object, seconds: float | None) -> None:
    assert parse_time_or_none(text) == seconds
