"""A program that prints an exploration's decisions and every change of its cluster, by seed.

`python -m tests.simulator.exploration.seeded_run SEED`. Names, UIDs and IDs are those of the seed,
so that runs differ by nothing but the order of what they do.
"""

from __future__ import annotations

import random
import secrets
import sys
import uuid
from typing import TYPE_CHECKING

import msgspec

from pytest_kwait.simulator import objects
from pytest_kwait.simulator.clock import FAST
from pytest_kwait.simulator.exploration.exploration import Exploration
from tests.simulator.cluster import NAMESPACE, Cluster, pod_spec, set_spec, template
from tests.simulator.exploration.seeds import explore

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_LETTERS = "abcdef"


def _seed_names(seed: int) -> None:
    """Derive random names and IDs from a seed."""
    numbers = random.Random(seed)
    objects.__dict__["_random"] = numbers
    uuid.__dict__["uuid4"] = lambda: uuid.UUID(int=numbers.getrandbits(128))
    secrets.__dict__["token_hex"] = lambda size: numbers.randbytes(size).hex()


def _run(seed: int) -> tuple[Cluster, Exploration]:
    """Change objects of every kind that is followed by several objects of one controller."""
    _seed_names(seed)
    cluster = Cluster(nodes=2, scale=FAST)
    cluster.run(2)  # its own controllers start with a delay
    exploration = Exploration(cluster.clock, seed, "harsh")
    explore(cluster.api, exploration)
    for letter in _LETTERS:
        _create_cluster_objects(cluster, letter)
        _create_objects(cluster, letter)
    cluster.run(4)
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/d"},
    }
    cluster.api.create("persistentvolumes", {"metadata": {"name": "volume"}, "spec": volume})
    # Pods without an owner concern all that may adopt them, and free the quotas.
    cluster.create("pods", "alone", pod_spec("sleep", "9"))
    cluster.run(2)
    cluster.delete("pods", "alone")
    cluster.clock.jump(3600)
    cluster.run(4)
    for letter in _LETTERS:
        cluster.api.delete("customresourcedefinitions.apiextensions.k8s.io", f"as.{letter}.example")
        cluster.delete("replicasets.apps", letter)
    cluster.run(4)
    cluster.api.delete("namespaces", NAMESPACE)
    cluster.run(40)
    return cluster, exploration


def _create_cluster_objects(cluster: Cluster, letter: str) -> None:
    role: Obj = {
        "metadata": {"name": f"role-{letter}"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]},
    }
    cluster.api.create("clusterroles.rbac.authorization.k8s.io", role)
    version: Obj = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "group": f"{letter}.example",
        "scope": "Cluster",
        "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
        "versions": [version],
    }
    cluster.api.create(
        "customresourcedefinitions.apiextensions.k8s.io",
        {"metadata": {"name": f"as.{letter}.example"}, "spec": definition},
    )


def _create_objects(cluster: Cluster, letter: str) -> None:
    cluster.create("replicasets.apps", letter, set_spec(replicas=1))
    cluster.create("resourcequotas", letter, {"hard": {"pods": "99"}})
    cluster.create("services", letter, {"selector": {"app": "web"}, "ports": [{"port": 80}]})
    job = {"template": template("true", app="job", restartPolicy="Never")}
    schedule = {"schedule": "*/30 * * * *", "jobTemplate": {"spec": job}}
    cluster.create("cronjobs.batch", letter, schedule)
    claim: Obj = {"claimName": "late"}
    volumes = [{"name": "v", "persistentVolumeClaim": claim}]
    cluster.create("pods", f"claiming-{letter}", pod_spec("sleep", "9", volumes=volumes))


def main() -> None:
    """Print the decisions and the changes, one a line."""
    cluster, exploration = _run(int(sys.argv[1]))
    lines = [*exploration.applied, *cluster.history]
    sys.stdout.write("\n".join(msgspec.json.encode(line).decode() for line in lines))


if __name__ == "__main__":
    main()
