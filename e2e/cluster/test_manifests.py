"""Manifests with variables, kustomizations, and models of the official client."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from kubernetes.client import V1ConfigMap, V1ConfigMapList, V1ObjectMeta

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait

APP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {image: {{ image }}}
"""


@pytest.mark.kwait_manifests(APP, image="shop:1")
def test_variables(kwait: Kwait) -> None:
    assert kwait.get("cm/app")["data"] == {"image": "shop:1"}
    (changed,) = kwait.apply(APP, image="shop:2")
    assert changed["data"] == {"image": "shop:2"}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_a_kustomization(kwait: Kwait, tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(APP.replace("{{ image }}", "shop"))
    (tmp_path / "kustomization.yaml").write_text("namePrefix: my-\nresources: [app.yaml]\n")

    (made,) = kwait.apply(tmp_path)

    assert made["metadata"]["name"] == "my-app"


def test_models(kwait: Kwait) -> None:
    """Taken wherever a dict is, and returned where asked."""

    def model(name: str) -> V1ConfigMap:
        metadata = V1ObjectMeta(name=name)
        return V1ConfigMap(api_version="v1", kind="ConfigMap", metadata=metadata, data={"a": "1"})

    kwait.create(model("one"), V1ConfigMapList(items=[model("two"), model("three")]))

    found = kwait.get("cm/one", as_model=V1ConfigMap)
    assert found.metadata is not None
    assert (found.metadata.name, found.data) == ("one", {"a": "1"})
    listed = kwait.list("cm", field_selector={"metadata.name": "two"}, as_model=V1ConfigMap)
    assert [each.data for each in listed] == [{"a": "1"}]
    kwait.label(found, {"team": "a"})
    kwait.delete(found)
