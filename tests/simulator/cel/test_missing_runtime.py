"""Installations without the CEL runtime, for instance on platforms without wheels of it."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from tests.objects import served_version
from tests.simulator.apiextensions.test_controller import CRDS, SCHEMA, things
from tests.simulator.cluster import new_cluster

LOADING = ("pytest_kwait.simulator.cel", "pytest_kwait.simulator.apiextensions.cel_rules")
"""How modules are called that load it, or have."""


@pytest.fixture
def without_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(LOADING)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)


@pytest.mark.usefixtures("without_the_runtime")
def test_definitions_with_rules_are_refused_and_say_what_to_install() -> None:
    ruled = {**SCHEMA, "x-kubernetes-validations": [{"rule": "self.spec.size == 'S'"}]}
    version = served_version(schema={"openAPIV3Schema": ruled})
    api = new_cluster()

    for _ in range(2):
        with pytest.raises(StatusError) as caught:
            api.create(CRDS, things(versions=[version]))

        assert caught.value.code == 501
        assert caught.value.message == (
            "the embedded cluster evaluates CEL expressions only with the CEL runtime, which is not"
            " installed: pip install 'pytest-kwait[cel]'"
        )


@pytest.mark.usefixtures("without_the_runtime")
def test_definitions_without_rules_are_served() -> None:
    assert new_cluster().create(CRDS, things())["spec"]["group"] == "example.com"
