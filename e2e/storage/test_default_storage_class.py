"""Claims without a class get the cluster's default storage class, if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.objects import claim, user
from e2e.raising import raises
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


DEFAULT = "storageclass.kubernetes.io/is-default-class"


def default_class(kwait: Kwait) -> str:
    """The name of the default class; empty where there is none."""
    found = [each["metadata"] for each in kwait.list("storageclasses")]
    marked = [each for each in found if each.get("annotations", {}).get(DEFAULT) == "true"]
    return str(marked[0]["name"]) if marked else ""


def test_a_claim_without_a_class(kwait: Kwait) -> None:
    """As on kind it just works on the embedded cluster; elsewhere the wait says why it does not."""
    default = default_class(kwait)
    assert bool(default) or kwait.cluster.provider != "embedded"
    kwait.create(claim("data", None), user("reader", "data"))

    if not default:
        with raises(WaitFailed, "it asks for no storage class, and no volume fits it"):
            kwait.wait_for_persistent_volume_claim_phase("data", "Bound", grace="1s", timeout="4m")
        return
    kwait.wait_for_pod_ready("reader", timeout="4m")
    bound = kwait.wait_for_persistent_volume_claim_phase("data", "Bound")
    assert bound["spec"]["storageClassName"] == default
    kwait.delete("pod/reader")
    kwait.delete("persistentvolumeclaim/data")
    kwait.wait_for_persistent_volume_deleted(bound["spec"]["volumeName"], timeout="4m")
