from __future__ import annotations

import copy
import json
import pickle
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_kwait.engine.object_sinks import LARGE, LazyList, make_object_list

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = [{"name": "a"}, {"name": "b"}, {"name": "c"}]


class Decoding:
    """A decoder that counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, raw: bytes) -> dict[str, Any]:
        self.calls += 1
        decoded: dict[str, Any] = json.loads(raw)
        return decoded


@pytest.fixture
def decoding() -> Decoding:
    return Decoding()


@pytest.fixture
def objects(decoding: Decoding) -> LazyList:
    return LazyList([json.dumps(each).encode() for each in PLAIN], decoding)


def test_few_objects_are_a_plain_list(decoding: Decoding) -> None:
    found = make_object_list([b'{"name":"a"}'] * (LARGE - 1), decoding)
    assert type(found) is list
    assert decoding.calls == LARGE - 1


def test_many_objects_are_decoded_on_access(decoding: Decoding) -> None:
    found = make_object_list([b'{"name":"a"}'] * LARGE, decoding)
    assert isinstance(found, list)
    assert len(found) == LARGE
    assert decoding.calls == 0
    assert found[0] is found[0]
    assert found[-1] == {"name": "a"}
    assert decoding.calls == 2
    found[0]["name"] = "changed"
    assert found.count({"name": "a"}) == LARGE - 1
    assert decoding.calls == LARGE


@pytest.mark.parametrize(
    "look",
    [
        list,
        lambda objects: [*objects],
        lambda objects: list((lambda *each: each)(*objects)),
        lambda objects: objects[:],
        lambda objects: [] + objects,  # noqa: RUF005 - the operator is what is tested
        lambda objects: objects + [],  # noqa: RUF005 - the operator is what is tested
        lambda objects: list(reversed(list(reversed(objects)))),
        lambda objects: sorted(objects, key=lambda each: str(each["name"])),
        lambda objects: json.loads(json.dumps(objects)),
        lambda objects: json.loads(json.dumps(objects, indent=1)),
        lambda objects: pickle.loads(pickle.dumps(objects)),
        lambda objects: objects.copy(),
        copy.copy,
        copy.deepcopy,
    ],
)
def test_access_to_all_items_gives_a_plain_list(
    objects: LazyList, decoding: Decoding, look: Callable[[list[Any]], list[Any]]
) -> None:
    found = look(objects)
    assert type(found) is list
    assert found == PLAIN
    assert decoding.calls == 3


def test_lazy_list_equals_and_prints_as_a_plain_list(objects: LazyList) -> None:
    assert repr(objects) == repr(PLAIN)
    assert objects == PLAIN
    assert PLAIN == objects  # noqa: SIM300 - from both sides
    assert {"name": "b"} in objects


def test_lazy_list_changes_as_a_plain_list(objects: LazyList, decoding: Decoding) -> None:
    objects.sort(key=lambda each: str(each["name"]), reverse=True)
    objects.append({"name": "d"})
    del objects[0]
    objects[0] = {"name": "e"}
    assert objects == [{"name": "e"}, {"name": "a"}, {"name": "d"}]
    assert decoding.calls == 3


def test_an_object_set_is_never_decoded(objects: LazyList) -> None:
    objects[1] = {"name": "mine"}
    assert objects == [PLAIN[0], {"name": "mine"}, PLAIN[2]]


def test_code_that_reads_past_the_class_says_so(objects: LazyList) -> None:
    with pytest.raises(TypeError, match="objects of type _LazyItem is unsupported"):
        msgspec.json.encode(objects)
    assert msgspec.json.decode(msgspec.json.encode(list(objects))) == PLAIN
