"""Plugins are called for their own resources only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.objects import Obj, clone
from pytest_kwait.simulator.request_info import internal_caller
from tests.simulator.cluster import new_cluster

if TYPE_CHECKING:
    from pytest_kwait.simulator.admission.chain import AdmissionChain

_ODD: Obj = {
    "metadata": {"name": "n", "namespace": "default"},
    "globalDefault": True,
    "spec": {"runtimeClassName": "none", "priorityClassName": "none", "containers": [{}]},
}


def _plugins(admission: AdmissionChain) -> tuple[AdmissionPlugin, ...]:
    return admission._plugins


_NAMES = [type(one).__name__ for one in _plugins(new_cluster().admission)]


def test_a_disabled_plugin_is_left_out() -> None:
    api = SimulatedCluster(disabled_plugins=["ServiceAccount"])
    names = [type(one).__name__ for one in _plugins(api.admission)]
    assert names == [name for name in _NAMES if name != "ServiceAccount"]


@pytest.mark.parametrize("number", range(len(_NAMES)), ids=_NAMES)
def test_plugins_skip_other_resources(number: int) -> None:
    api = new_cluster()
    plugin = _plugins(api.admission)[number]
    if plugin.buckets is None:
        return
    for kind in api.kinds:
        if kind.bucket in plugin.buckets:
            continue
        obj = clone(_ODD)
        asked = Attributes("CREATE", kind, "default", "n", obj, None, "", internal_caller())
        plugin.admit(asked)
        plugin.validate(asked)
        assert asked.obj is obj
        assert obj == _ODD


def test_plugins_name_served_resources() -> None:
    api = new_cluster()
    known = {kind.bucket for kind in api.kinds}
    for plugin in _plugins(api.admission):
        assert plugin.buckets is None or plugin.buckets <= known
