"""Waiting for any condition on any object: as for kubectl, by callables, by combinations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.raising import raises, times_out
from pytest_kwait import (
    InvalidArgument,
    WaitFailed,
    all_of,
    any_of,
    at_least,
    consistently,
    not_,
    stable_for,
)

if TYPE_CHECKING:
    from pytest_kwait import Kwait
    from pytest_kwait.typing import WaitFor

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: shop}}
data: {colour: blue, app.size: "3"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: extras, labels: {app: shop}}
data: {colour: red}
"""


@pytest.fixture(autouse=True)
def _applied(kwait: Kwait) -> None:
    kwait.apply(CONFIG)


def test_wait_for_jsonpath(wait_for: WaitFor) -> None:
    """Paths are those of kubectl, with a value or without."""
    found = wait_for("cm/settings", "jsonpath={.data.colour}=blue")

    assert found["data"]["colour"] == "blue"
    assert wait_for("cm/settings", r"jsonpath={.data.app\.size}=3") == found
    assert wait_for("cm/settings", "jsonpath={.metadata.uid}") == found
    phase = wait_for("namespace/default", "jsonpath={.status.phase}=Active")
    assert phase["kind"] == "Namespace"


def test_wait_for_combined_conditions(wait_for: WaitFor) -> None:
    """Conditions are made of conditions; a callable is one too."""
    blue = all_of("create", lambda obj: obj["data"]["colour"] == "blue")

    assert wait_for("cm/settings", blue)["metadata"]["name"] == "settings"
    assert wait_for("cm/extras", not_(blue))["metadata"]["name"] == "extras"
    assert wait_for("cm/nowhere", any_of("create", "delete")) is None


def test_wait_for_stable_condition(kwait: Kwait) -> None:
    """`stable_for` waits until it has held; `consistently` fails at the first violation."""
    kwait.wait_for("cm/settings", stable_for("500ms", "jsonpath={.data.colour}=blue"))
    kwait.wait_for("cm/settings", consistently("500ms", not_("delete")))

    steady_and_blue = all_of(stable_for("500ms", "create"), "jsonpath={.data.colour}=blue")
    kwait.wait_for("cm/settings", steady_and_blue)
    steady = all_of(stable_for("500ms", "create"))
    assert len(kwait.wait_for("cm", steady, selector="app=shop")) == 2

    with raises(WaitFailed, "it does not hold to begin with"):
        kwait.wait_for("cm/settings", consistently("1s", "jsonpath={.data.colour}=red"))


def test_wait_for_several_objects(wait_for: WaitFor) -> None:
    """Several objects share one limit; a selection is counted."""
    both = wait_for(["cm/settings", "cm/extras"], "create")

    assert [obj["metadata"]["name"] for obj in both] == ["settings", "extras"]
    assert len(wait_for("cm", "create", selector="app=shop", count=at_least(1))) == 2


def test_deletion_of_an_object_whose_name_is_used_again(kwait: Kwait) -> None:
    """An object that is given itself is its UID: a new one of the same name is another one."""
    settings = kwait.get("cm/settings")
    kwait.delete("cm/settings")
    kwait.wait_for("cm/settings", "delete")
    kwait.apply(CONFIG)

    assert kwait.wait_for(settings, "delete") is None
    assert kwait.wait_for([settings], any_of("delete", "condition=Ready")) == [None]
    times_out("still there, not being deleted", kwait.wait_for, "cm/settings", "delete")


def test_failed_waits_for_conditions(wait_for: WaitFor) -> None:
    """Invalid conditions are refused at once; timeouts name the reason."""
    with raises(InvalidArgument, "a bracket is not closed"):
        wait_for("cm/settings", "jsonpath={.data[}")
    with raises(InvalidArgument, "configmapz"):
        wait_for("configmapz/settings", "create")
    times_out("is 'blue', not 'red'", wait_for, "cm/settings", "jsonpath={.data.colour}=red")
