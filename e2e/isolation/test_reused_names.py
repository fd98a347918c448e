"""Names of objects that are still being deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api

from e2e.raising import raises
from pytest_kwait import WaitTimeout

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def held(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", **metadata}}


@pytest.mark.kwait(timeouts={"pod_client_deletion": "1s"})
@pytest.mark.parametrize("verb", ["create", "apply"])
def test_reused_name_of_an_object_that_stays(kwait: Kwait, verb: str) -> None:
    """The error names the finalizer; without it the object is created again."""
    (old,) = kwait.create(held(finalizers=["example.com/hold"]))
    kwait.delete("cm/held")

    with raises(WaitTimeout, "did not go away within 1s: being deleted, held by example.com/hold"):
        getattr(kwait, verb)(held())

    core: Any = CoreV1Api(kwait.client)
    core.patch_namespaced_config_map("held", kwait.namespace, {"metadata": {"finalizers": None}})
    (new,) = getattr(kwait, verb)(held())
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
