from __future__ import annotations

import pytest

from pytest_kwait.clusters.kind_config import KindNodes, load_yaml, read_kind_config
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.nodes import EmbeddedNode, Taint

HEAD = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers"
OF_CONTROL_PLANE = Taint(CONTROL_PLANE, "", "NoSchedule")


def read(text: str) -> KindNodes:
    (document,) = load_yaml(HEAD + text)
    return read_kind_config(document, "kind.yaml")


def test_an_empty_configuration_is_one_node_that_runs_pods() -> None:
    assert read("") == KindNodes(
        (EmbeddedNode("kind-control-plane", {CONTROL_PLANE: ""}),), unused=()
    )


def test_names_and_taints_are_those_of_kind() -> None:
    nodes = read(
        "name: shop\nnodes:\n- role: control-plane\n- role: worker\n- role: control-plane\n"
        "- role: worker\n- role: worker\n- {}\n"
    ).nodes
    assert [(node.name, node.taints) for node in nodes] == [
        ("shop-control-plane", (OF_CONTROL_PLANE,)),
        ("shop-worker", ()),
        ("shop-control-plane2", (OF_CONTROL_PLANE,)),
        ("shop-worker2", ()),
        ("shop-worker3", ()),
        ("shop-control-plane3", (OF_CONTROL_PLANE,)),
    ]
    assert nodes[0].labels == {CONTROL_PLANE: "", EXCLUDED: ""}
    assert nodes[1].labels == {}


def test_labels_are_text() -> None:
    (_, worker) = read(
        "nodes:\n- role: control-plane\n- role: worker\n"
        "  labels: {tier: front, ready: true, size: 010, topology.kubernetes.io/zone: a}\n"
    ).nodes
    assert worker.labels == {
        "tier": "front",
        "ready": "true",
        "size": "010",
        "topology.kubernetes.io/zone": "a",
    }


PATCHES = """
kubeadmConfigPatches:
- |
  kind: JoinConfiguration
  nodeRegistration:
    kubeletExtraArgs:
      system-reserved: memory=1Gi
- |
  kind: KubeletConfiguration
  maxPods: 20
  kubeReserved: {cpu: 500m, pid: "100"}
nodes:
- role: control-plane
  labels: {lost: "true"}
  kubeadmConfigPatches:
  - |
    kind: InitConfiguration
    nodeRegistration:
      kubeletExtraArgs:
        node-labels: "ingress-ready=true"
        register-with-taints: "mine=1:NoExecute"
- role: worker
  labels: {kept: "true"}
  kubeadmConfigPatches:
  - |
    apiVersion: kubeadm.k8s.io/v1beta4
    kind: JoinConfiguration
    nodeRegistration:
      taints:
      - {key: dedicated, value: batch, effect: NoSchedule}
      kubeletExtraArgs:
      - {name: system-reserved, value: "memory=2Gi"}
      - {name: max-pods, value: "5"}
  - |
    kind: InitConfiguration
    nodeRegistration:
      kubeletExtraArgs: {node-labels: "of-the-first=node"}
- role: worker
  kubeadmConfigPatches:
  - |
    kind: JoinConfiguration
    nodeRegistration:
      taints: [{key: dedicated, effect: NoSchedule}]
      kubeletExtraArgs: {register-with-taints: "my-taint=presence:NoSchedule"}
"""


def test_patches_apply_as_with_kubeadm() -> None:
    first, second, third = read(PATCHES).nodes
    reserved = {"cpu": "7500m"}
    assert first == EmbeddedNode(
        "kind-control-plane",
        {"ingress-ready": "true", CONTROL_PLANE: "", EXCLUDED: ""},
        (OF_CONTROL_PLANE, Taint("mine", "1", "NoExecute")),
        {"pods": "20"},
        reserved,
    ), "a patch replaces the argument of the labels"
    assert second == EmbeddedNode(
        "kind-worker",
        {"kept": "true"},
        (Taint("dedicated", "batch", "NoSchedule"),),
        {"pods": "5"},
        {**reserved, "memory": "29596Mi"},
    )
    assert third == EmbeddedNode(
        "kind-worker2",
        {},
        (Taint("my-taint", "presence", "NoSchedule"),),
        {"pods": "20"},
        {**reserved, "memory": "30620Mi"},
    ), "the argument of the kubelet overrides the taints of kubeadm"
    assert read(PATCHES).unused == ()


@pytest.mark.parametrize(
    ("registration", "taints"),
    [
        ("taints: []", []),
        ("taints: [{key: a, effect: NoSchedule}]", [Taint("a", "", "NoSchedule")]),
        ("taints:", [OF_CONTROL_PLANE]),
        ("name: other", [OF_CONTROL_PLANE]),
    ],
)
def test_taints_of_a_control_plane(registration: str, taints: list[Taint]) -> None:
    text = (
        "nodes:\n- role: control-plane\n  kubeadmConfigPatches:\n  - |\n"
        f"    kind: InitConfiguration\n    nodeRegistration:\n      {registration}\n"
        "- role: worker\n"
    )
    assert list(read(text).nodes[0].taints) == taints
    # kind removes the taint of its only node, and no other.
    single = text.replace("- role: worker\n", "")
    assert read(single).nodes[0].taints == tuple(t for t in taints if t != OF_CONTROL_PLANE)


def test_taints_of_the_kubelet_configuration_are_those_of_all_kubelets() -> None:
    nodes = read(
        "kubeadmConfigPatches:\n- |\n  kind: KubeletConfiguration\n  registerWithTaints:\n"
        "  - {key: a, value: b, effect: NoExecute}\n"
        "nodes: [{role: control-plane}, {role: worker}]\n"
    ).nodes
    taint = Taint("a", "b", "NoExecute")
    assert [node.taints for node in nodes] == [(OF_CONTROL_PLANE, taint), (taint,)]


def test_the_rest_is_listed_once() -> None:
    config = read(
        "networking: {ipFamily: dual}\nfeatureGates: {A: true}\n"
        "kubeadmConfigPatches:\n- |\n  kind: ClusterConfiguration\n  apiServer: {}\n"
        "nodes:\n- role: control-plane\n  image: kindest/node:v1.36.0\n"
        "  extraPortMappings: [{containerPort: 80, hostPort: 80}]\n"
        "  kubeadmConfigPatches:\n"
        "  - |\n    kind: InitConfiguration\n    nodeRegistration:\n      criSocket: /run/x\n"
        "      kubeletExtraArgs: {eviction-hard: memory.available<1Gi}\n"
        "  - |\n    kind: KubeletConfiguration\n    serializeImagePulls: false\n"
        "- role: worker\n  image: kindest/node:v1.36.0\n  extraMounts: []\n"
    )
    assert config.unused == (
        "networking",
        "featureGates",
        "serializeImagePulls of KubeletConfiguration",
        "image of nodes",
        "extraPortMappings of nodes",
        "ClusterConfiguration",
        "nodeRegistration.criSocket",
        "kubeletExtraArgs eviction-hard",
        "extraMounts of nodes",
    )


WORKER = "nodes:\n- role: control-plane\n- role: worker\n"
JOIN = "  kubeadmConfigPatches:\n  - |\n    kind: JoinConfiguration\n    nodeRegistration:\n      "
_PATCH_KINDS = (
    "use YAML with a kind: InitConfiguration, JoinConfiguration, KubeletConfiguration, "
    "ClusterConfiguration, KubeProxyConfiguration"
)
_NODE = (
    "the fields are role, image, labels, extraMounts, extraPortMappings, kubeadmConfigPatches, "
    "kubeadmConfigPatchesJSON6902"
)
_CLUSTER = (
    "the fields are kind, apiVersion, name, nodes, networking, featureGates, runtimeConfig, "
    "kubeadmConfigPatches, kubeadmConfigPatchesJSON6902, containerdConfigPatches, "
    "containerdConfigPatchesJSON6902"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node: []", f"Cluster='node' {{}}{_CLUSTER}"),
        ("name: Shop", "name='Shop' {}cluster names must match ^[a-z0-9.-]+$"),
        ("nodes: 3", "nodes='3' {}use a list"),
        ("nodes: [worker]", f"nodes[0]='worker' {{}}{_NODE.replace('the fields are', 'use')}"),
        ("nodes: [{roles: worker}]", f"nodes[0]='roles' {{}}{_NODE}"),
        ("nodes: [{role: master}]", "nodes[0]: role='master' {}use control-plane or worker"),
        ("nodes: [{role: worker}]", "nodes=['worker'] {}use at least one control-plane"),
        (
            WORKER + "  labels: {node-role.kubernetes.io/worker: ''}",
            "nodes[1]: labels='node-role.kubernetes.io/worker' {}a kubelet refuses labels of "
            "kubernetes.io and k8s.io but its own and those of kubelet.kubernetes.io and "
            "node.kubernetes.io",
        ),
        (WORKER + "  labels: [a]", "nodes[1]: labels=['a'] {}use a mapping of texts"),
        (
            WORKER + "  kubeadmConfigPatches: ['kind: Deployment']",
            f"nodes[1]: kubeadmConfigPatches[0]='kind: Deployment' {{}}{_PATCH_KINDS}",
        ),
        (
            WORKER + "  kubeadmConfigPatches: ['a: [']",
            "nodes[1]: kubeadmConfigPatches[0]='a: [' {}it is no YAML: line 1: expected the node "
            "content, but found '<stream end>'",
        ),
        (
            WORKER + JOIN + "taints: all",
            "nodes[1]: kubeadmConfigPatches[0]: taints='all' {}use a list of taints",
        ),
        (
            WORKER + JOIN + "taints: [{key: a, effect: Never}]",
            "nodes[1]: kubeadmConfigPatches[0]: taints[0]: effect of a='Never' {}use NoSchedule, "
            "PreferNoSchedule or NoExecute",
        ),
        (
            WORKER + JOIN + "kubeletExtraArgs: [a]",
            "nodes[1]: kubeadmConfigPatches[0]: kubeletExtraArgs=['a'] {}use a mapping of "
            "arguments to texts, or a list with name and value",
        ),
        (
            WORKER + JOIN + "kubeletExtraArgs: {node-labels: a}",
            "nodes[1]: kubeletExtraArgs node-labels='a' {}use KEY=VALUE with commas between them",
        ),
        (
            WORKER + JOIN + "kubeletExtraArgs: {system-reserved: cpu=9}",
            "nodes[1]: kubeletExtraArgs system-reserved cpu='9' {}use at most 8",
        ),
        (
            WORKER + JOIN + "kubeletExtraArgs: {max-pods: many}",
            "nodes[1]: capacity pods='many' {}a quantity is a decimal number and one of the "
            "suffixes n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3",
        ),
    ],
)
def test_what_kind_refuses_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read(text)
    assert str(caught.value) == message.format("(from kind.yaml) is not valid: ")


def test_another_kind_is_refused() -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_kind_config({"apiVersion": "kind.x-k8s.io/v1alpha4"}, "kind.yaml")
    assert str(caught.value) == "kind=None (from kind.yaml) is not valid: use Cluster"


def test_anchors_and_merges_are_read() -> None:
    nodes = read(
        "nodes:\n- role: control-plane\n- &worker {role: worker, labels: {a: b}}\n- *worker\n"
        "- {<<: *worker, labels: {c: d}}\n"
    ).nodes
    assert [node.labels for node in nodes[1:]] == [{"a": "b"}, {"a": "b"}, {"c": "d"}]
