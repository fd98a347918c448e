"""Environments of scope `cluster`: made by a run, used by the next ones, made again, removed."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import pytest

from conformance.runs import inner_runs
from pytest_kwait.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_kwait import Cluster, Kwait

_SUITE = """
from pathlib import Path

import pytest
import pytest_kwait

DEFINITION = Path(__file__).parent / "definition.yaml"


@pytest_kwait.environment(scope="cluster")
def shop(kwait):
    kwait.apply(DEFINITION.read_text())
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "server"}, "spec": {
        "terminationGracePeriodSeconds": 0, "containers": [
            {"name": "main", "image": "busybox:1.36", "command": ["sleep", "3600"]}]}}
    kwait.create_and_wait(pod)
    yield kwait, {"port": 8080}


@pytest.mark.parametrize("number", range(2))
def test_it(shop, number):
    shared, values = shop
    assert values == {"port": 8080}
    shared.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"of-{number}"}})
    print("in", shared.namespace)
"""
_DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: orders.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: orders, singular: order, kind: Order}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
"""


class Suite:
    """A suite whose environment stays, run several times on one cluster."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self._folder = folder
        self._kubeconfig = kubeconfig
        self.namespaces: list[str] = []
        """The namespace of the environment in each run."""
        self.group = f"stays-{uuid.uuid4().hex[:8]}.example.com"
        self.definition = folder / "definition.yaml"
        self.definition.write_text(_DEFINITION.replace("GROUP", self.group))

    def run(self, *options: str) -> str:
        """Run it; return what the run says of the environment."""
        always = ("--kwait-reuse=always", "-rP", *options)
        status, said = inner_runs.run(self._folder, self._kubeconfig, _SUITE, *always)
        assert (status, "2 passed" in said) == (0, True), said
        [namespace] = set(re.findall(r"^in (t-shop-\S+)$", said, re.MULTILINE))
        self.namespaces.append(namespace)
        [line] = [line for line in said.splitlines() if line.startswith("kwait: environment ")]
        return line.removeprefix("kwait: environment shop: ")

    def remove(self) -> int:
        """Remove all environments that no run uses; return the status of the janitor."""
        return main(["janitor", "--environments", "--kubeconfig", str(self._kubeconfig)])


@pytest.fixture
def suite(tmp_path: Path, kwait_cluster: Cluster) -> Iterator[Suite]:
    suite = Suite(tmp_path, kwait_cluster.kubeconfig)
    yield suite
    suite.remove()


def test_an_environment_stays_until_it_changes_or_is_removed(suite: Suite, kwait: Kwait) -> None:
    """Workers and runs share one; a file or object that has changed makes another one."""
    definition = f"customresourcedefinition/orders.{suite.group}"
    assert suite.run("-n2") == "made, stays 24h0m0s after its last use"
    made = kwait.get(definition)["metadata"]["uid"]

    assert re.fullmatch(r"reused, made \S+ ago", suite.run())
    assert suite.namespaces[0] == suite.namespaces[1]
    assert kwait.get(definition)["metadata"]["uid"] == made

    suite.definition.write_text(f"{suite.definition.read_text()}# a comment\n")
    assert suite.run() == "made again: definition.yaml has changed"
    assert kwait.get(definition)["metadata"]["uid"] != made
    assert suite.namespaces[1] != suite.namespaces[2]

    kwait.patch("configmap/settings", {"data": {"a": "b"}}, namespace=suite.namespaces[2])
    # The server may tell by which client.
    assert suite.run().startswith("made again: configmap/settings was changed")

    assert suite.remove() == 0
    assert not [obj for obj in kwait.list("crd") if obj["spec"]["group"] == suite.group]
    left = {obj["metadata"]["name"] for obj in kwait.list("namespace")}
    assert left.isdisjoint(suite.namespaces)
