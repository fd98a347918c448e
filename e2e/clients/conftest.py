"""Fixtures: a running pod, and a custom kind of the test."""

from __future__ import annotations

import gc
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiException, ApisApi, CustomObjectsApi

from e2e.clients.custom import greetings, group_name
from e2e.objects import container, pod
from pytest_kwait import wait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes.client import ApiClient

    from pytest_kwait import Kwait
    from pytest_kwait.clusters import Cluster


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Ignore warnings of sockets that clients leave to the garbage collector."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def kubeconfig(kwait_cluster: Cluster) -> Path:
    """Create the objects that all clients read."""
    return kwait_cluster.kubeconfig


@pytest.fixture
def talker() -> dict[str, Any]:
    """A running pod that has logged two lines."""
    return pod("talker", container(script="echo one; echo two; sleep 300"), labels={"app": "talk"})


@pytest.fixture
def group(kwait: Kwait) -> Iterator[str]:
    """The group of the served custom kind `Greeting`."""
    group = group_name()
    definition = greetings(group)
    kwait.apply(definition)
    kwait.wait_for_crd_established(definition["metadata"]["name"])
    # A real server lists the group with a delay.
    wait.poll_immediate(0.05, 60, lambda: _is_told_of(kwait.client, group))
    yield group
    kwait.delete(f"customresourcedefinition/{definition['metadata']['name']}")


def _is_told_of(client: ApiClient, group: str) -> bool:
    try:
        CustomObjectsApi(client).get_api_resources(group, "v1")
    except ApiException as error:
        if error.status != 404:
            raise
        return False
    return group in [each.name for each in ApisApi(client).get_api_versions().groups]
