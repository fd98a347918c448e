"""The `needs` marker, and the nodes that have a kubelet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.kubelet_nodes import list_kubelet_nodes

if TYPE_CHECKING:
    from pytest_kwait import Kwait

EMBEDDED_LACKS = {
    "images": "it runs no images",
}
"""The capabilities that tests can need, and why the embedded cluster lacks them."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "needs(*capabilities): what this test needs of the cluster; where the embedded one has it"
        " not, the test is skipped with the reason",
    )


@pytest.fixture(autouse=True)
def _capable(request: pytest.FixtureRequest) -> None:
    """Skip a test that needs a capability that the cluster lacks."""
    needed = [need for mark in request.node.iter_markers("needs") for need in mark.args]
    if not needed:
        return
    unknown = sorted(set(needed) - set(EMBEDDED_LACKS))
    if unknown:
        pytest.fail(f"needs {', '.join(unknown)}: known are {', '.join(sorted(EMBEDDED_LACKS))}")
    if request.getfixturevalue("kwait_cluster").provider == "embedded":
        reasons = [EMBEDDED_LACKS[need] for need in needed]
        pytest.skip(f"on the embedded cluster: {'; '.join(reasons)}")


@pytest.fixture
def kubelets(kwait: Kwait) -> tuple[str, ...]:
    """Return the names of the nodes with a kubelet."""
    return list_kubelet_nodes(kwait)
