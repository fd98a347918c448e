"""Each resource and subresource has one REST storage, most a generic one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.registry.generic_store import (
    GenericStore,
    StatusREST,
    SubresourceREST,
)
from pytest_kwait.simulator.registry.rest_storages import _STORAGES, storage_class
from pytest_kwait.simulator.scheme import Scheme
from tests.rows import check_rows

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

KINDS = Scheme()


def test_every_row_names_the_storage_of_a_subresource_that_is_served() -> None:
    check_rows(sorted(_STORAGES), _check_storage)


def _check_storage(row: tuple[str, str]) -> None:
    resource, subresource = row
    kind = KINDS[resource]
    assert not subresource or subresource in kind.subresources
    rest = storage_class(kind, subresource)
    assert issubclass(rest, GenericStore)
    assert issubclass(rest, StatusREST) is (subresource == "status")
    assert rest.__name__ == _STORAGES[row][1]


@pytest.mark.parametrize(
    ("subresource", "rest"),
    [("", GenericStore), ("status", StatusREST), ("scale", SubresourceREST)],
)
def test_resources_without_a_row_have_the_generic_storages(
    subresource: str, rest: type[GenericStore]
) -> None:
    assert storage_class(KINDS["deployments.apps"], subresource) is rest


def test_storage_of_a_version_stores_in_another(api: SimulatedCluster) -> None:
    served = api.kinds.served("autoscaling", "v1") or {}
    storage = api.storage(served["horizontalpodautoscalers"])
    assert storage.kind.version == "v1"
    assert storage.stored_kind.version == "v2"
    assert storage is api.storage(storage.kind)
    assert storage is not api.storage(storage.kind, "status")
