"""Parallel tests on one cluster, with the same names in their own namespaces: try `-n 2`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_kwait import Kwait, KwaitFactory

GREETER = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "greeter"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {"name": "c", "image": "busybox:1.36", "command": ["sh", "-c", "echo hi"]}
                ],
            }
        }
    },
}


@pytest.mark.parametrize("number", range(4))
def test_same_name_in_each_test(kwait: Kwait, number: int) -> None:
    """A Job of one name in each of several tests: none sees another's."""
    assert kwait.list("jobs") == []
    kwait.create(GREETER)

    assert (
        kwait.wait_for_job_complete("greeter", completions=1)["metadata"]["namespace"]
        == kwait.namespace
    )


def test_further_kwait_object(kwait: Kwait, kwait_factory: KwaitFactory) -> None:
    """`kwait_factory` makes further namespaces, and removes them."""
    with kwait_factory("second") as second:
        assert second.namespace != kwait.namespace
        second.create(GREETER)
        assert kwait.list("jobs") == []
