"""Dry runs: what the server would store, with its defaults and refusals, and nothing stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.objects import config_map, definition, deployment, pod, version
from e2e.raising import raises
from pytest_kwait import ApiError, InvalidManifest

if TYPE_CHECKING:
    from pytest_kwait import Kwait

GROUP = "dryrun.kwait.example.com"


def test_a_dry_run_has_the_defaults_of_the_server(kwait: Kwait) -> None:
    (tried,) = kwait.apply(deployment("web", 2), dry_run=True)

    assert tried["spec"]["strategy"]["type"] == "RollingUpdate"
    assert tried["spec"]["replicas"] == 2
    assert kwait.list("deployments") == kwait.list("pods") == []
    (generated,) = kwait.create({**pod("p"), "metadata": {"generateName": "p-"}}, dry_run=True)
    assert generated["metadata"]["name"].startswith("p-")
    assert kwait.list("pods") == []


def test_a_refusal_of_a_dry_run(kwait: Kwait) -> None:
    """Validation and admission of the server decide."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"count/configmaps": "0"}},
    }
    with raises(ApiError, "spec.replicas: Invalid value: -1"):
        kwait.apply(deployment("web", -1), dry_run=True)
    kwait.create(quota)
    kwait.wait_for("resourcequota/none", "jsonpath={.status.hard}")
    with raises(ApiError, "exceeded quota: none"):
        kwait.create(config_map("c", a="b"), dry_run=True)


def test_changes_of_a_dry_run(kwait: Kwait) -> None:
    kwait.create(config_map("c", a="1"))

    applied = kwait.apply(config_map("c", a="2"), dry_run=True)[0]
    patched = kwait.patch("configmap/c", {"data": {"a": "3"}}, dry_run=True)
    updated = kwait.update("configmap/c", lambda it: it.update(data={"b": "4"}), dry_run=True)

    assert [each["data"] for each in (applied, patched, updated)] == [
        {"a": "2"},
        {"a": "3"},
        {"b": "4"},
    ]
    assert kwait.get("configmap/c")["data"] == {"a": "1"}


def test_objects_outside_of_the_namespace_are_not_made(kwait: Kwait) -> None:
    """Neither are definitions, so their kinds are not known yet."""
    crd = definition(GROUP, "probes", "Probe", version("v1", {"type": "object"}))
    probe = {"apiVersion": f"{GROUP}/v1", "kind": "Probe", "metadata": {"name": "one"}}

    kwait.apply(crd, dry_run=True)
    with pytest.raises(InvalidManifest) as caught:
        kwait.apply(crd, probe, dry_run=True)
    assert str(caught.value).endswith(
        f"; a dry run stores no definitions: apply customresourcedefinition/probes.{GROUP} first"
    )
    with raises(ApiError, "not found"):
        kwait.get(f"crd/probes.{GROUP}")


def test_a_node_is_changed_without_a_marker(kwait: Kwait) -> None:
    """A dry run disturbs no other test."""
    name = kwait.list("nodes")[0]["metadata"]["name"]
    label = "kwait.example.com/dry-run"

    tried = kwait.patch(f"node/{name}", {"metadata": {"labels": {label: "x"}}}, dry_run=True)

    assert tried["metadata"]["labels"][label] == "x"
    assert label not in kwait.get(f"node/{name}")["metadata"]["labels"]
