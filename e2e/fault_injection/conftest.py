"""Skip fault injection on clusters other than the embedded one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_kwait import Faults, Kwait


@pytest.fixture
def faults(kwait: Kwait) -> Faults:
    """Give what breaks the cluster."""
    if kwait.cluster.provider != "embedded":
        pytest.skip("faults on demand are the embedded cluster's")
    return kwait.cluster.faults
