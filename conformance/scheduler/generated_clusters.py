"""Clusters generated from a seed: nodes, their pods, and pending pods."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Obj = dict[str, Any]

NAMESPACES = {"one": {"team": "red"}, "two": {"team": "blue"}, "three": {}}
"""The namespaces and their labels."""

SERVICES = {"one": {"app": "web"}, "two": {"app": "db"}}
"""The selectors of services, one in each namespace."""

OVERHEAD_CLASS = "heavy"
"""A runtime class with overhead."""

_APPS = ("web", "db", "job")
_ZONES = ("a", "b", "c")
_KEYS = ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack")
_TAINTS = ("dedicated", "slow", "old")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_IMAGES = ("registry.example/large:1", "registry.example/small", "registry.example/other:2")
_MEBIBYTE = 1024 * 1024
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class GeneratedCluster:
    """A cluster with pending pods.

    Args:
        seed: the seed of the generator.
        nodes: the nodes, with their status.
        placed: the pods on them.
        waiting: the pods without a node.
    """

    seed: int
    nodes: list[Obj]
    placed: list[Obj]
    waiting: list[Obj]


def generate_cluster(seed: int, nodes: int, placed: int, waiting: int) -> GeneratedCluster:
    """Return the cluster of this seed."""
    random = Random(seed)
    some = [_node(random, f"w{seed}-node-{number}") for number in range(nodes)]
    names = [node["metadata"]["name"] for node in some]
    return GeneratedCluster(
        seed,
        some,
        [_placed(random, f"w{seed}-placed-{number}", names) for number in range(placed)],
        [_waiting(random, f"w{seed}-pod-{number}", names) for number in range(waiting)],
    )


def _node(random: Random, name: str) -> Obj:
    labels = {"kubernetes.io/hostname": name, "size": str(random.randint(1, 9))}
    if random.random() < 0.85:
        labels["topology.kubernetes.io/zone"] = random.choice(_ZONES)
    if random.random() < 0.7:
        labels["rack"] = random.choice("xyz")
    if random.random() < 0.5:
        labels["disk"] = random.choice(("ssd", "hdd"))
    spec: Obj = {"unschedulable": True} if random.random() < 0.1 else {}
    taints = [
        {"key": key, "value": random.choice("12"), "effect": random.choice(_EFFECTS)}
        for key in _TAINTS
        if random.random() < 0.15
    ]
    allocatable = {
        "cpu": random.choice(("1", "2", "2500m", "4")),
        "memory": random.choice(("1Gi", "2Gi", "4Gi")),
        "ephemeral-storage": random.choice(("5Gi", "20Gi")),
        "pods": random.choice(("3", "6", "110", "110")),
    }
    if random.random() < 0.5:
        allocatable["example.com/gpu"] = random.choice(("1", "2"))
    images = [
        {"names": [image if ":" in image else f"{image}:latest"], "sizeBytes": size * _MEBIBYTE}
        for image, size in zip(_IMAGES, (900, 20, 300), strict=True)
        if random.random() < 0.4
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {**spec, "taints": taints},
        "status": {
            "allocatable": allocatable,
            "capacity": allocatable,
            "images": images,
            "conditions": [{"type": "Ready", "status": "True", "reason": "MadeUp"}],
        },
    }


def _pod(random: Random, name: str, spec: Obj) -> Obj:
    labels = {"app": random.choice(_APPS), "revision": random.choice("12")}
    metadata = {"name": name, "namespace": random.choice(list(NAMESPACES)), "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(random: Random, name: str, most: int = 800) -> Obj:
    requests: Obj = {}
    if random.random() < 0.7:
        requests["cpu"] = f"{random.randint(1, most)}m"
    if random.random() < 0.7:
        requests["memory"] = f"{random.randint(1, most)}Mi"
    if random.random() < 0.1:
        requests["ephemeral-storage"] = f"{random.randint(1, 6)}Gi"
    image = random.choice(_IMAGES)
    return {"name": name, "image": image, "resources": {"requests": requests}}


def _placed(random: Random, name: str, nodes: list[str]) -> Obj:
    spec: Obj = {
        "nodeName": random.choice(nodes),
        "containers": [_container(random, "c", 500)],
        # Otherwise the cluster evicts it from nodes with NoExecute.
        "tolerations": [{"operator": "Exists"}],
    }
    for feature in (_host_port, _kept_apart, _kept_together, _prefers_pods):
        if random.random() < 0.12:
            feature(random, spec, nodes)
    pod = _pod(random, name, spec)
    if random.random() < 0.1:
        # Terminating: without a kubelet it stays so.
        pod["metadata"]["annotations"] = {"ending": "yes"}
    return pod


def _waiting(random: Random, name: str, nodes: list[str]) -> Obj:
    spec: Obj = {"containers": [_container(random, "c")]}
    for feature in random.sample(_FEATURES, random.choice((1, 1, 2, 3))):
        feature(random, spec, nodes)
    if "resources" in spec:
        # Containers may not ask for more than the pod as a whole.
        for one in (*spec["containers"], *spec.get("initContainers", ())):
            one["resources"]["requests"].pop("cpu", None)
    return _pod(random, name, spec)


# -- features of pods


def _selected(random: Random, spec: Obj, nodes: list[str]) -> None:
    spec["nodeSelector"] = {"disk": random.choice(("ssd", "hdd"))}


def _term(random: Random, nodes: list[str]) -> Obj:
    term: Obj = {}
    if random.random() < 0.8:
        term["matchExpressions"] = random.choices(
            [
                {"key": "size", "operator": "Gt", "values": [str(random.randint(1, 6))]},
                {"key": "size", "operator": "Lt", "values": [str(random.randint(4, 9))]},
                {"key": "size", "operator": "Gt", "values": ["large"]},
                {"key": "disk", "operator": random.choice(("Exists", "DoesNotExist"))},
                {"key": "rack", "operator": "In", "values": random.sample("xyz", 2)},
                {"key": "rack", "operator": "NotIn", "values": random.sample("xyz", 2)},
            ],
            k=random.choice((1, 1, 2)),
        )
    if random.random() < 0.25:
        operator = random.choice(("In", "In", "NotIn"))
        name = random.choice([*nodes, *nodes, "nowhere"])
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
        if random.random() < 0.4:
            term["matchFields"] += [
                {"key": "metadata.name", "operator": "In", "values": [random.choice(nodes)]}
            ]
    return term


def _node_affinity(random: Random, spec: Obj, nodes: list[str]) -> None:
    terms = [_term(random, nodes) for _ in range(random.choice((1, 1, 1, 2)))]
    affinity = {_REQUIRED: {"nodeSelectorTerms": terms}}
    spec.setdefault("affinity", {}).setdefault("nodeAffinity", {}).update(affinity)


def _prefers_nodes(random: Random, spec: Obj, nodes: list[str]) -> None:
    terms = [
        {"weight": random.randint(1, 100), "preference": _term(random, nodes)} for _ in range(2)
    ]
    # An empty preference is rejected; any expression will do.
    for one in terms:
        if not one["preference"]:
            one["preference"] = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})[_PREFERRED] = terms


def _tolerates(random: Random, spec: Obj, nodes: list[str]) -> None:
    spec["tolerations"] = [
        random.choice(
            [
                {"operator": "Exists"},
                {"key": random.choice(_TAINTS), "operator": "Exists"},
                {"key": random.choice(_TAINTS), "value": random.choice("12")},
                {"key": random.choice(_TAINTS), "value": "1", "effect": random.choice(_EFFECTS)},
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
            ]
        )
        for _ in range(2)
    ]
    for one in spec["tolerations"]:
        if one.get("effect") == "NoExecute":
            one["tolerationSeconds"] = 60


def _host_port(random: Random, spec: Obj, nodes: list[str]) -> None:
    port: Obj = {"hostPort": random.choice((8080, 8081)), "containerPort": 80}
    port["protocol"] = random.choice(("TCP", "TCP", "UDP"))
    if random.random() < 0.4:
        port["hostIP"] = random.choice(("127.0.0.1", "10.0.0.7"))
    spec["containers"][0]["ports"] = [port]


def _much(random: Random, spec: Obj, nodes: list[str]) -> None:
    spec["containers"].append(_container(random, "more", 2500))


def _initial(random: Random, spec: Obj, nodes: list[str]) -> None:
    spec["initContainers"] = [_container(random, f"i{number}", 2000) for number in range(3)]
    spec["initContainers"][random.randint(0, 2)]["restartPolicy"] = "Always"


def _whole(random: Random, spec: Obj, nodes: list[str]) -> None:
    spec["resources"] = {"requests": {"cpu": f"{random.randint(2500, 3500)}m"}}


def _overhead(random: Random, spec: Obj, nodes: list[str]) -> None:
    spec["runtimeClassName"] = OVERHEAD_CLASS


def _device(random: Random, spec: Obj, nodes: list[str]) -> None:
    amount = random.choice(("1", "2"))
    resources = spec["containers"][0]["resources"]
    resources["requests"]["example.com/gpu"] = amount
    resources["limits"] = {"example.com/gpu": amount}


def _pods_meant(random: Random) -> Obj:
    term: Obj = {"topologyKey": random.choice(_KEYS)}
    choice = random.random()
    if choice < 0.6:
        term["labelSelector"] = {"matchLabels": {"app": random.choice(_APPS)}}
    elif choice < 0.9:
        operator = random.choice(("In", "NotIn"))
        expression = {"key": "app", "operator": operator, "values": random.sample(_APPS, 2)}
        term["labelSelector"] = {"matchExpressions": [expression]}
    else:
        term["labelSelector"] = {}
    choice = random.random()
    if choice < 0.15:
        term["namespaces"] = random.sample(list(NAMESPACES), 2)
    elif choice < 0.3:
        term["namespaceSelector"] = {"matchLabels": {"team": random.choice(("red", "blue"))}}
    elif choice < 0.4:
        term["namespaceSelector"] = {}
    elif choice < 0.5:
        expression = {"key": "team", "operator": "DoesNotExist"}
        term["namespaceSelector"] = {"matchExpressions": [expression]}
    choice = random.random()
    if choice < 0.15:
        term["matchLabelKeys"] = ["revision"]
    elif choice < 0.3:
        term["mismatchLabelKeys"] = ["revision"]
    return term


def _kept_apart(random: Random, spec: Obj, nodes: list[str]) -> None:
    terms = [_pods_meant(random) for _ in range(random.choice((1, 1, 2)))]
    spec.setdefault("affinity", {}).setdefault("podAntiAffinity", {})[_REQUIRED] = terms


def _kept_together(random: Random, spec: Obj, nodes: list[str]) -> None:
    terms = [_pods_meant(random) for _ in range(random.choice((1, 1, 2)))]
    spec.setdefault("affinity", {}).setdefault("podAffinity", {})[_REQUIRED] = terms


def _prefers_pods(random: Random, spec: Obj, nodes: list[str]) -> None:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = [{"weight": random.randint(1, 100), "podAffinityTerm": _pods_meant(random)}]
        spec.setdefault("affinity", {}).setdefault(kind, {})[_PREFERRED] = terms


def _constraint(random: Random, unsatisfiable: str) -> Obj:
    constraint: Obj = {
        "maxSkew": random.randint(1, 2),
        "topologyKey": random.choice(_KEYS),
        "whenUnsatisfiable": unsatisfiable,
    }
    choice = random.random()
    if choice < 0.8:
        constraint["labelSelector"] = {"matchLabels": {"app": random.choice(_APPS)}}
        if random.random() < 0.3:
            constraint["matchLabelKeys"] = ["revision"]
    elif choice < 0.9:
        constraint["labelSelector"] = {}
    if random.random() < 0.3:
        constraint["nodeAffinityPolicy"] = random.choice(("Honor", "Ignore"))
    if random.random() < 0.3:
        constraint["nodeTaintsPolicy"] = random.choice(("Honor", "Ignore"))
    if unsatisfiable == "DoNotSchedule" and random.random() < 0.3:
        constraint["minDomains"] = random.randint(1, 6)
    return constraint


def _spread(random: Random, spec: Obj, nodes: list[str]) -> None:
    _add_constraint(spec, _constraint(random, "DoNotSchedule"))


def _spread_softly(random: Random, spec: Obj, nodes: list[str]) -> None:
    _add_constraint(spec, _constraint(random, "ScheduleAnyway"))


def _add_constraint(spec: Obj, constraint: Obj) -> None:
    others = spec.setdefault("topologySpreadConstraints", [])
    pairs = [(one["topologyKey"], one["whenUnsatisfiable"]) for one in others]
    if (constraint["topologyKey"], constraint["whenUnsatisfiable"]) not in pairs:
        others.append(constraint)


_FEATURES: list[Callable[[Random, Obj, list[str]], None]] = [
    _selected, _node_affinity, _node_affinity, _prefers_nodes, _tolerates, _host_port, _much,
    _initial, _whole, _overhead, _device, _kept_apart, _kept_apart, _kept_together, _kept_together,
    _prefers_pods, _spread, _spread, _spread, _spread_softly,
]  # fmt: skip
