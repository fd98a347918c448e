"""Owners that own each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.objects import config_map

if TYPE_CHECKING:
    from pytest_kwait import Kwait


@pytest.mark.parametrize("block", [True, False])
def test_a_circle_of_owners_is_deleted(kwait: Kwait, *, block: bool) -> None:
    """Deletion in the foreground waits for dependents, but not for ever."""
    made = kwait.create(config_map("a"), config_map("b"), config_map("c"))
    for owner, dependent in zip(made, [*made[1:], made[0]], strict=True):
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        name = dependent["metadata"]["name"]
        kwait.apply(
            {**config_map(name), "metadata": {"name": name, "ownerReferences": [reference]}}
        )

    kwait.delete("configmap/a", propagation="Foreground")

    for name in ("a", "b", "c"):
        kwait.wait_for(f"configmap/{name}", "delete", timeout="2m")
