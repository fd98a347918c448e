from __future__ import annotations

import pytest

from pytest_kwait import cache
from pytest_kwait.errors import InvalidArgument
from tests.cache.fakes import pod


def test_key_is_namespace_and_name() -> None:
    assert cache.meta_namespace_key_func(pod("a", namespace="ci")) == "ci/a"


def test_key_without_namespace_is_the_name() -> None:
    assert cache.meta_namespace_key_func({"metadata": {"name": "node-1"}}) == "node-1"


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": {"namespace": "ci"}}])
def test_object_without_name_has_no_key(obj: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        cache.meta_namespace_key_func(obj)
    assert str(caught.value) == f"object={obj!r} is not valid: an object with metadata.name"


@pytest.mark.parametrize(
    ("key", "parts"), [("ci/a", ("ci", "a")), ("node-1", ("", "node-1")), ("/a", ("", "a"))]
)
def test_key_splits_into_namespace_and_name(key: str, parts: tuple[str, str]) -> None:
    assert cache.split_meta_namespace_key(key) == parts


def test_key_with_two_slashes_is_refused() -> None:
    with pytest.raises(InvalidArgument) as caught:
        cache.split_meta_namespace_key("a/b/c")
    assert str(caught.value) == "key='a/b/c' is not valid: namespace/name, or name alone"


def test_tombstone_reads_like_its_object_and_keeps_its_key() -> None:
    gone = cache.DeletedFinalStateUnknown("ci/a", pod("a", 3, namespace="ci"))

    assert gone["metadata"]["resourceVersion"] == "3"
    assert cache.deletion_handling_meta_namespace_key_func(gone) == "ci/a"
    assert cache.deletion_handling_meta_namespace_key_func(pod("b")) == "default/b"


def test_namespace_index_has_one_value() -> None:
    assert list(cache.meta_namespace_index_func(pod("a", namespace="ci"))) == ["ci"]
    assert list(cache.meta_namespace_index_func({"metadata": {"name": "node-1"}})) == [""]
