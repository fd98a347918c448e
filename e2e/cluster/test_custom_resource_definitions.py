"""Waiting for a custom resource definition to be established and served."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from e2e.cluster.definition import definition
from e2e.raising import raises, times_out
from pytest_kwait import InvalidArgument, WaitFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait

    Wait = Callable[..., Any]


@pytest.fixture
def group() -> str:
    """An API group unique to the test."""
    return f"g{secrets.token_hex(4)}.example.com"


def test_objects_can_be_made_at_once(
    kwait: Kwait, group: str, wait_for_crd_established: Wait
) -> None:
    kwait.create(definition(group))

    crd = wait_for_crd_established(f"widgets.{group}", timeout="4m")

    assert crd["status"]["acceptedNames"]["kind"] == "Widget"
    for served in ("v1", "v2"):
        kwait.create(
            {"apiVersion": f"{group}/{served}", "kind": "Widget", "metadata": {"name": served}}
        )
    assert len(kwait.list(f"widgets.{group}")) == 2


def test_a_manifest_of_a_kind_that_has_just_been_defined(kwait: Kwait, group: str) -> None:
    """Without a wait, discovery may not have the kind."""
    kwait.create(definition(group))
    kwait.apply({"apiVersion": f"{group}/v2", "kind": "Widget", "metadata": {"name": "early"}})
    assert [each["metadata"]["name"] for each in kwait.list(f"widgets.{group}")] == ["early"]


def test_names_that_another_definition_has(
    kwait: Kwait, group: str, wait_for_crd_established: Wait
) -> None:
    """Conflicting names fail the wait after `grace`."""
    kwait.create(definition(group))
    wait_for_crd_established(f"widgets.{group}", timeout="4m")
    kwait.create(definition(group, "gadgets", "Widget"))

    with raises(WaitFailed, "its names are not accepted: .*Conflict"):
        wait_for_crd_established(f"gadgets.{group}", timeout="4m", grace="500ms")


def test_a_definition_that_is_not_there(wait_for_crd_established: Wait) -> None:
    reason = "no.such.kind did not get established and served within LIMIT: not found yet"
    times_out(reason, wait_for_crd_established, "no.such.kind")
    with pytest.raises(InvalidArgument, match=re.escape("use <plural>.<group>")):
        wait_for_crd_established("widgets")


def test_deleted_definition(kwait: Kwait, group: str, wait_for_crd_established: Wait) -> None:
    """A definition held by finalizers accepts no new objects."""
    kwait.create(definition(group))
    wait_for_crd_established(f"widgets.{group}", timeout="4m")
    held = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
    }
    kwait.apply(held)
    kwait.delete(f"crd/widgets.{group}")
    try:
        with raises(WaitFailed, "the customresourcedefinition is being deleted"):
            wait_for_crd_established(f"widgets.{group}", timeout="4m", grace="500ms")
    finally:
        kwait.apply({**held, "metadata": {"name": "held", "finalizers": []}})
