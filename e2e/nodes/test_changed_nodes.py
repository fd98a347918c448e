"""Changing nodes: allowed to tests that run alone; own objects need no restoration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.kubelet_nodes import first_kubelet_node
from pytest_kwait import KwaitError

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_nodes_are_changed_only_by_tests_that_run_alone(kwait: Kwait) -> None:
    name = first_kubelet_node(kwait)
    with pytest.raises(KwaitError) as caught:
        kwait.cordon(name)

    assert str(caught.value) == (
        f"a change of node/{name} disturbs every test on the cluster: mark this one with "
        "@pytest.mark.kwait_disruptive, and it runs alone"
    )


def test_own_objects_need_no_restoration(kwait: Kwait) -> None:
    """What the test created goes with it."""
    name = f"own-{kwait.namespace[-5:]}"
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1}
    kwait.create({**kind, "metadata": {"name": name}})

    found = kwait.label(f"pc/{name}", {"color": "red"})

    assert found["metadata"]["labels"]["color"] == "red"
    assert "pytest-kwait/changed" not in found["metadata"]["labels"]
