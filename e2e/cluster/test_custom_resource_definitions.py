"""Waiting for a custom resource definition to be established and served."""

from __future__ import annotations

import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from e2e.objects import Obj, definition, version
from e2e.raising import raises, times_out
from pytest_kwait import InvalidArgument, WaitFailed
from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pytest_kwait import Kwait, Mode
    from pytest_kwait.typing import WaitForCrdEstablished


@pytest.fixture
def group() -> str:
    """An API group unique to the test."""
    return f"g{secrets.token_hex(4)}.example.com"


def widgets(group: str, plural: str = "widgets") -> Obj:
    """Return a definition of three versions, one of which is not served."""
    other, old = version("v2", storage=False), version("v0", storage=False, served=False)
    return definition(group, plural, "Widget", version("v1"), other, old)


def test_objects_can_be_made_at_once(kwait: Kwait, group: str) -> None:
    kwait.create(widgets(group))

    crd = kwait.wait_for_crd_established(f"widgets.{group}", timeout="4m")

    assert crd["status"]["acceptedNames"]["kind"] == "Widget"
    for served in ("v1", "v2"):
        kwait.create(
            {"apiVersion": f"{group}/{served}", "kind": "Widget", "metadata": {"name": served}}
        )
    assert len(kwait.list(f"widgets.{group}")) == 2


def test_a_manifest_of_a_kind_that_has_just_been_defined(kwait: Kwait, group: str) -> None:
    """Without a wait, discovery may not have the kind."""
    kwait.create(widgets(group))
    kwait.apply({"apiVersion": f"{group}/v2", "kind": "Widget", "metadata": {"name": "early"}})
    assert [each["metadata"]["name"] for each in kwait.list(f"widgets.{group}")] == ["early"]


def test_names_that_another_definition_has(kwait: Kwait, group: str) -> None:
    """Conflicting names fail the wait after `grace`."""
    kwait.create(widgets(group))
    kwait.wait_for_crd_established(f"widgets.{group}", timeout="4m")
    kwait.create(widgets(group, "gadgets"))

    with raises(WaitFailed, "its names are not accepted: .*Conflict"):
        kwait.wait_for_crd_established(f"gadgets.{group}", timeout="4m", grace="500ms")


def test_a_definition_that_is_not_there(wait_for_crd_established: WaitForCrdEstablished) -> None:
    reason = "no.such.kind did not get established and served within LIMIT: not found yet"
    times_out(reason, wait_for_crd_established, "no.such.kind")
    with pytest.raises(InvalidArgument, match=re.escape("use <plural>.<group>")):
        wait_for_crd_established("widgets")


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_waits_for_objects_of_a_deleted_definition(kwait: Kwait, group: str, mode: Mode) -> None:
    """They end with it, and name it."""
    kwait.create(widgets(group))
    kwait.wait_for_crd_established(f"widgets.{group}", timeout="4m")
    kwait.apply({"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "there"}})

    def wait(name: str) -> str:
        target = f"widgets.v1.{group}/{name}"
        try:
            kwait.wait_for(target, "condition=Ready", timeout="2m", mode=mode, poll="200ms")
        except WaitFailed as error:
            return str(error.evidence["reason"])
        return "met"

    with ThreadPoolExecutor() as threads:
        waits = [threads.submit(wait, name) for name in ("there", "missing")]
        # Both have begun.
        SYSTEM_CLOCK.sleep(1)
        kwait.delete(f"crd/widgets.{group}")
        reasons = [each.result() for each in waits]

    definition_text = rf"the CustomResourceDefinition widgets\.{group} (was|is being) deleted$"
    for reason in reasons:
        assert re.search(definition_text, reason), reasons


def test_deleted_definition(kwait: Kwait, group: str) -> None:
    """A definition held by finalizers accepts no new objects."""
    kwait.create(widgets(group))
    kwait.wait_for_crd_established(f"widgets.{group}", timeout="4m")
    held = {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
    }
    kwait.apply(held)
    kwait.delete(f"crd/widgets.{group}")
    try:
        with raises(WaitFailed, "the customresourcedefinition is being deleted"):
            kwait.wait_for_crd_established(f"widgets.{group}", timeout="4m", grace="500ms")
    finally:
        kwait.apply({**held, "metadata": {"name": "held", "finalizers": []}})
