"""Cluster-scoped objects, named after the test and deleted with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kubernetes.client
import pytest
from kubernetes.client.exceptions import ApiException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Kwait


@pytest.fixture
def unique(kwait: Kwait) -> Iterator[str]:
    """Return a name for the test's volumes, classes and attachments, or the beginning of one.

    Objects with that name are deleted at the end of the test, finalizers included.
    """
    yield kwait.namespace
    storage = kubernetes.client.StorageV1Api(kwait.client)
    core = kubernetes.client.CoreV1Api(kwait.client)
    kinds: tuple[tuple[Any, Any, Any], ...] = (
        (
            storage.list_volume_attachment,
            storage.patch_volume_attachment,
            storage.delete_volume_attachment,
        ),
        (core.list_persistent_volume, core.patch_persistent_volume, core.delete_persistent_volume),
        (storage.list_storage_class, None, storage.delete_storage_class),
    )
    for find, patch, delete in kinds:
        found: list[Any] = find().items
        for each in found:
            if not each.metadata.name.startswith(kwait.namespace):
                continue
            try:
                delete(each.metadata.name)
                if patch is not None:
                    patch(each.metadata.name, {"metadata": {"finalizers": None}})
            except ApiException as error:
                if error.status != 404:
                    raise
