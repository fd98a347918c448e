"""What an exploration must never do, whatever its seed, in a cluster in virtual time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.apimachinery.conditions import is_condition_true
from pytest_kwait.simulator.clock import FAST
from pytest_kwait.simulator.exploration.exploration import Exploration
from pytest_kwait.simulator.protocol.perturbations import LEVELS, PERTURBATIONS
from tests.examples import scaled
from tests.simulator.cluster import Cluster, template
from tests.simulator.exploration.seeds import explore

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

ROOT = Path(__file__).parents[3]
SEEDS = range(scaled(4))
PHASES = {"": 0, "Pending": 0, "Running": 1, "Succeeded": 2, "Failed": 2}
OVER_HTTP = {
    "watch-delay",
    "watch-end",
    "watch-cut",
    "watch-expired",
    "list-expired",
    "bookmark-extra",
    "bookmark-skip",
    "update-conflict",
    "too-many-requests",
    "service-unavailable",
    "webhook-delay",
}
"""Perturbations that only clients meet; their own tests are beside the hooks."""


class Scenario:
    """A cluster under an exploration while workloads come, change and go."""

    def __init__(self, seed: int, level: str) -> None:
        self.cluster = Cluster(nodes=2, scale=FAST)
        self.cluster.run(2)  # its own controllers start with a delay
        self.exploration = Exploration(self.cluster.clock, seed, level)
        explore(self.cluster.api, self.exploration)

    def run(self) -> None:
        cluster = self.cluster
        cluster.create("services", "web", {"selector": {"app": "web"}, "ports": [{"port": 80}]})
        cluster.create(
            "deployments.apps",
            "web",
            {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}},
                "template": template("sleep", "600"),
            },
        )
        job = template("sh", "-c", "sleep 0.2", app="job", restartPolicy="Never")
        cluster.create("jobs.batch", "job", {"completions": 3, "parallelism": 2, "template": job})
        crash = template("sh", "-c", "exit 1", app="crash")
        crash["spec"]["containers"][0]["image"] = "registry.example/app:1"
        cluster.create("pods", "crash", crash["spec"])
        cluster.run(6)
        cluster.change("deployments.apps", "web", lambda obj: obj["spec"].update(replicas=1))
        cluster.run(4)
        cluster.change("deployments.apps", "web", _change_template)
        cluster.run(4)
        cluster.delete("pods", "crash")
        cluster.delete("deployments.apps", "web")
        cluster.run(6)
        cluster.api.create("namespaces", {"metadata": {"name": "other"}})
        cluster.run(2)
        self.accounts = [*cluster.api.list("serviceaccounts", "other")]
        self.certificates = [*cluster.api.list("configmaps", "other")]
        cluster.api.delete("namespaces", "t")
        cluster.run(40)


def _change_template(obj: Obj) -> None:
    obj["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    obj["spec"]["replicas"] = 2


@pytest.fixture(scope="module", params=[(level, seed) for level in LEVELS for seed in SEEDS])
def scenario(request: pytest.FixtureRequest) -> Scenario:
    level, seed = request.param
    made = Scenario(seed, level)
    made.run()
    return made


def versions(scenario: Scenario, resource: str) -> dict[str, list[tuple[str, Obj]]]:
    """Return the changes of every object, by UID."""
    found: dict[str, list[tuple[str, Obj]]] = {}
    for kind, change, obj in scenario.cluster.history:
        if kind == resource:
            found.setdefault(obj["metadata"]["uid"], []).append((change, obj))
    return found


def test_everything_comes_and_goes_in_the_end(scenario: Scenario) -> None:
    api = scenario.cluster.api
    assert api.find("namespaces", "t") is None
    assert not any(api.list(kind, "t") for kind in ("pods", "deployments.apps", "events"))
    assert [one["metadata"]["name"] for one in scenario.accounts] == ["default"]
    assert [one["metadata"]["name"] for one in scenario.certificates] == ["kube-root-ca.crt"]
    jobs = [obj for _, _, obj in scenario.cluster.history if obj["metadata"]["name"] == "job"]
    assert any(is_condition_true(obj, "Complete") for obj in jobs)


def test_names_keep_their_uid_until_they_are_deleted(scenario: Scenario) -> None:
    present: dict[tuple[str, str, str], str] = {}
    revision = 0
    for resource, change, obj in scenario.cluster.history:
        metadata = obj["metadata"]
        key = (resource, metadata.get("namespace", ""), metadata["name"])
        assert present.setdefault(key, metadata["uid"]) == metadata["uid"], key
        if change == "DELETED":
            del present[key]
        assert int(metadata["resourceVersion"]) > revision, "watches go on"
        revision = int(metadata["resourceVersion"])


def test_pods_never_go_back(scenario: Scenario) -> None:
    pods = versions(scenario, "pods")
    assert len(pods) >= 3 + 3 + 1
    for changes in pods.values():
        last: dict[str, Any] = {}
        for _, pod in changes:
            status, metadata = pod.get("status") or {}, pod["metadata"]
            containers = status.get("containerStatuses") or []
            now = {
                "node": pod["spec"].get("nodeName") or "",
                "phase": PHASES[status.get("phase", "")],
                "deleted": "deletionTimestamp" in metadata,
                "address": status.get("podIP", ""),
                "start": status.get("startTime", ""),
                "restarts": sum(one["restartCount"] for one in containers),
                "generation": metadata.get("generation", 0),
                "observed": status.get("observedGeneration", 0),
            }
            for name, value in now.items():
                assert value >= last.get(name, value), f"{name} of {metadata['name']}"
                if name in ("node", "address", "start") and last.get(name):
                    assert value == last[name], f"{name} of {metadata['name']}"
            last = now


def test_statuses_of_pods_are_whole(scenario: Scenario) -> None:
    for changes in versions(scenario, "pods").values():
        for _, pod in changes:
            status = pod.get("status") or {}
            containers = status.get("containerStatuses") or []
            ready = bool(containers) and all(one["ready"] for one in containers)
            assert is_condition_true(pod, "ContainersReady") is ready, pod["metadata"]["name"]
            assert not is_condition_true(pod, "Ready") or is_condition_true(pod, "Initialized")
            if status.get("phase") == "Running":
                assert any(
                    "waiting" not in one["state"] or one["restartCount"] for one in containers
                )
            if any("running" in one["state"] for one in containers):
                assert status.get("podIP")


def test_scheduled_pods_are_deleted_with_grace(scenario: Scenario) -> None:
    for changes in versions(scenario, "pods").values():
        before = changes[-2][1]
        assert changes[-1][0] == "DELETED"
        assert "deletionTimestamp" in before["metadata"], before["metadata"]["name"]
        states = (before.get("status") or {}).get("containerStatuses") or []
        assert not any("running" in one["state"] for one in states), before["metadata"]["name"]


def test_nodes_stay_ready(scenario: Scenario) -> None:
    for changes in versions(scenario, "nodes").values():
        assert all(is_condition_true(node, "Ready") for _, node in changes)
    assert all(is_condition_true(node, "Ready") for node in scenario.cluster.api.list("nodes"))


def test_leases_are_renewed_within_their_duration(scenario: Scenario) -> None:
    for lease in scenario.cluster.api.list("leases.coordination.k8s.io", "kube-node-lease"):
        assert lease["spec"]["leaseDurationSeconds"] == 40
    late = [one.size for one in scenario.exploration.applied if one.name == "heartbeat-delay"]
    assert all(size <= 15 * FAST for size in late)


def test_first_events_are_never_dropped() -> None:
    for seed in SEEDS:
        scenario = Scenario(seed, "harsh")
        scenario.run()
        reasons = scenario.cluster.reasons("crash")
        assert {"Scheduled", "Pulling", "Pulled", "Created", "Started", "BackOff"} <= {*reasons}


def test_same_seed_perturbs_a_cluster_equally() -> None:
    runs = []
    for _ in range(2):
        scenario = Scenario(3, "usual")
        scenario.run()
        runs.append(scenario)
    first, second = ({*run.exploration.applied} for run in runs)
    assert first
    assert first == second


def test_same_seed_perturbs_equally_under_every_hash_seed() -> None:
    command = [sys.executable, "-m", "tests.simulator.exploration.seeded_run", "2"]
    programs = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    outputs = [program.communicate()[0].splitlines() for program in programs]
    assert [program.returncode for program in programs] == [0, 0]
    assert len(outputs[0]) > 1000
    assert outputs[0] == outputs[1]


def test_other_seeds_perturb_it_differently() -> None:
    made = []
    for seed in (1, 2):
        scenario = Scenario(seed, "usual")
        scenario.run()
        made.append({*scenario.exploration.applied})
    assert made[0] != made[1]


def test_every_perturbation_of_the_cluster_occurs() -> None:
    expected = {one.name for one in PERTURBATIONS} - OVER_HTTP
    names: set[str] = set()
    for seed in range(40):
        scenario = Scenario(seed, "harsh")
        scenario.run()
        names.update(one.name for one in scenario.exploration.applied)
        if names >= expected:
            break
    assert names == expected


@pytest.mark.parametrize("name", sorted({one.name for one in PERTURBATIONS} - OVER_HTTP))
def test_only_one_perturbation_is_made_alone(name: str) -> None:
    scenario = Scenario(1, "harsh")
    scenario.exploration = Exploration(scenario.cluster.clock, 1, "harsh", [name])
    explore(scenario.cluster.api, scenario.exploration)
    scenario.run()
    assert {one.name for one in scenario.exploration.applied} <= {name}
    assert scenario.cluster.api.find("namespaces", "t") is None


@pytest.mark.parametrize("seed", SEEDS)
def test_end_releases_a_cluster_at_once(seed: int) -> None:
    scenario = Scenario(seed, "harsh")
    cluster = scenario.cluster
    cluster.create("pods", "p", template("sleep", "600")["spec"])
    cluster.run(0.05)
    scenario.exploration.end()
    explore(cluster.api, None)
    cluster.run(3)
    assert is_condition_true(cluster.get("pods", "p"), "Ready")
