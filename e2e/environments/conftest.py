"""What all workers share: a web server's settings, made once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest_kwait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Kwait


@pytest_kwait.environment(scope="run")
def settings(kwait: Kwait) -> Iterator[Any]:
    """Make a config map; give its namespace and UID."""
    [made] = kwait.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    )
    yield kwait, {"uid": made["metadata"]["uid"]}
