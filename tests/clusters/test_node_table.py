from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clusters.node_table import NodeTable, is_node_file, nodes_of, read_requested_nodes
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.nodes import EmbeddedNode, Taint

if TYPE_CHECKING:
    from pathlib import Path

INI = "ini kwait_nodes"
TAINT = Taint("nvidia.com/gpu", "true", "NoSchedule")
GPU = EmbeddedNode(
    "gpu-1",
    {"pool": "gpu", "topology.kubernetes.io/zone": "a"},
    (TAINT, Taint("slow", "", "PreferNoSchedule")),
    {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"},
    {"cpu": "3500m"},
)
TABLE = {
    "name": "gpu",
    "count": 2,
    "labels": {"pool": "gpu", "topology.kubernetes.io/zone": "a"},
    "taints": ["nvidia.com/gpu=true:NoSchedule", {"key": "slow", "effect": "PreferNoSchedule"}],
    "capacity": {"cpu": 4, "memory": "16Gi", "nvidia.com/gpu": "2"},
    "allocatable": {"cpu": 3.5},
}
LINE = (
    "name=gpu count=2 labels=pool=gpu,topology.kubernetes.io/zone=a "
    "taints=nvidia.com/gpu=true:NoSchedule,slow:PreferNoSchedule "
    "capacity=cpu=4,memory=16Gi,nvidia.com/gpu=2 allocatable=cpu=3.5"
)
FILE = """
nodes:
- name: gpu
  count: 2
  labels: {pool: gpu, topology.kubernetes.io/zone: a}
  taints:
  - nvidia.com/gpu=true:NoSchedule
  - {key: slow, effect: PreferNoSchedule}
  capacity: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 2}
  allocatable: {cpu: 3.5}
- count: 1
"""


def table(value: Any, source: str | None = INI) -> NodeTable:
    read = read_requested_nodes(value, "nodes", source)
    assert isinstance(read, NodeTable)
    return read


@pytest.mark.parametrize("value", [3, "3", " 3\n"])
def test_a_number_stays_a_number(value: int | str) -> None:
    assert read_requested_nodes(value, "nodes", INI) == 3


@pytest.mark.parametrize(
    "value", [[TABLE, {}], [LINE, {}], f"\n{LINE}\n\n  count=1\n", [TABLE, "count=1"]]
)
def test_every_form_of_a_table_says_the_same(value: Any) -> None:
    first, second, third = table(value).nodes
    assert first == GPU
    assert (second.name, second.labels) == ("gpu-2", GPU.labels)
    assert third == EmbeddedNode("kwait-node-3")


def test_a_file_has_the_same_keys(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(FILE)
    read = table(str(file))
    assert [node.name for node in read.nodes] == ["gpu-1", "gpu-2", "kwait-node-3"]
    assert read.nodes[0] == GPU
    assert (read.file, read.note) == (str(file), "")


def test_one_mapping_is_one_entry() -> None:
    assert table({"name": "big", "capacity": {"pods": 5}}).nodes == (
        EmbeddedNode("big", capacity={"pods": "5"}),
    )


def test_a_kind_configuration_is_known_by_its_version(tmp_path: Path) -> None:
    file = tmp_path / "kind.yaml"
    file.write_text(
        "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnetworking: {ipFamily: dual}\n"
        "nodes:\n- role: control-plane\n  image: kindest/node:v1.36.0\n- role: worker\n"
    )
    read = table(str(file))
    assert [node.name for node in read.nodes] == ["kind-control-plane", "kind-worker"]
    assert read.note == "kind.yaml: the embedded cluster does not use networking, image of nodes"


def test_the_text_of_a_table_has_the_first_names() -> None:
    assert str(table("name=a\nname=b")) == "a, b"
    assert str(table("name=a count=9")) == "a-1, a-2, a-3, a-4, a-5, a-6 and 3 more"


def test_a_table_is_an_option_of_the_cluster() -> None:
    assert nodes_of(3) == 3
    assert nodes_of(table("name=a")) == (EmbeddedNode("a"),)


@pytest.mark.parametrize(
    ("value", "is_file"),
    [
        ("kind.yaml", True),
        ("a b/kind.yml", True),
        ("config/kind", True),
        ("nodes.json ", True),
        ("3", False),
        ("name=a labels=file=a.yaml", False),
        ("labels=example.com/a=b", False),
        ("name=a\nname=b.yaml", False),
        (3, False),
        ([], False),
    ],
)
def test_a_file_is_told_from_an_entry(value: object, is_file: bool) -> None:
    assert is_node_file(value) is is_file


_VALID = (
    "use a number from 1 to 5000, the path of a .yaml file, or an entry a line, for example "
    "'name=gpu count=2 labels=pool=gpu capacity=cpu=4,memory=16Gi'"
)
_KEYS = "use the keys name, count, labels, taints, capacity, allocatable"
_DNS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    " or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_RESOURCE = (
    "use cpu, memory, ephemeral-storage, pods, hugepages-SIZE or a name with a domain, for example "
    "nvidia.com/gpu"
)
_TAINT = (
    "use KEY=VALUE:EFFECT or KEY:EFFECT with the effect NoSchedule, PreferNoSchedule or NoExecute"
)


@pytest.mark.parametrize(
    ("value", "what", "shown", "valid"),
    [
        ("many", "nodes", "many", _VALID),
        ("", "nodes", "", _VALID),
        ("name=a\nmany", "nodes", "name=a\nmany", _VALID),
        ([], "nodes", [], _VALID),
        (True, "nodes", True, _VALID),
        (1.5, "nodes", 1.5, _VALID),
        (0, "nodes", 0, "a number from 1 to 5000"),
        ("-1", "nodes", -1, "a number from 1 to 5000"),
        ("5001", "nodes", 5001, "a number from 1 to 5000"),
        ([3], "nodes[0]", 3, _KEYS),
        ([{}, {"label": {}}], "nodes[1]", "label", f"did you mean labels? {_KEYS}"),
        ("name=a\nsize=3", "nodes line 2", "size", _KEYS),
        ("name=a big", "nodes line 1", "big", f"use KEY=VALUE; {_KEYS}"),
        ("name=a name=b", "nodes line 1", "name=b", "name comes twice"),
        ([{"name": 1}], "nodes[0]: name", 1, "use a text"),
        ("name=Gpu", "nodes line 1: name", "Gpu", _DNS),
        (
            f"name={'a' * 64}",
            "nodes line 1: name",
            "a" * 64,
            "it is the value of the label kubernetes.io/hostname too: use at most 63 characters",
        ),
        (
            "name=a\n\nname=b\nname=a",
            "nodes line 4: name",
            "a",
            "the name is that of nodes line 1 too",
        ),
        ("count=0", "nodes line 1: count", 0, "use a whole number from 1 to 5000"),
        ([{"count": "two"}], "nodes[0]: count", "two", "use a whole number from 1 to 5000"),
        ([{"count": True}], "nodes[0]: count", "True", "use a whole number from 1 to 5000"),
        ("count=5000\ncount=1", "nodes", 5001, "use at most 5000 nodes"),
        ("labels=a", "nodes line 1: labels", "a", "use KEY=VALUE with commas between them"),
        ("labels=a=b,a=c", "nodes line 1: labels", "a=b,a=c", "a comes twice"),
        ("labels=a=-b", "nodes line 1: label a", "-b", _LABEL),
        (
            [{"labels": ["a"]}],
            "nodes[0]: labels",
            ["a"],
            "use a mapping, or KEY=VALUE with commas",
        ),
        ([{"labels": {"a": True}}], "nodes[0]: labels a", True, "use a text or a number"),
        ("taints=a=b", "nodes line 1: taints", "a=b", _TAINT),
        ("taints=a:Never", "nodes line 1: taints", "a:Never", _TAINT),
        (
            [{"taints": [{"key": "a", "effect": "Never"}]}],
            "nodes[0]: taints[0]: effect of a",
            "Never",
            "use NoSchedule, PreferNoSchedule or NoExecute",
        ),
        (
            [{"taints": [3]}],
            "nodes[0]: taints[0]",
            3,
            "use KEY=VALUE:EFFECT, or a mapping with key, value and effect",
        ),
        ([{"taints": {}}], "nodes[0]: taints", {}, "use a list of KEY=VALUE:EFFECT"),
        (
            "taints=a=b:NoExecute,a=c:NoExecute",
            "nodes line 1: taints",
            "a:NoExecute",
            "taints must be unique by key and effect pair",
        ),
        ("capacity=gpu=2", "nodes line 1: capacity", "gpu", _RESOURCE),
        ("capacity=kubernetes.io/gpu=2", "nodes line 1: capacity", "kubernetes.io/gpu", _RESOURCE),
        (
            "capacity=cpu=much",
            "nodes line 1: capacity cpu",
            "much",
            "a quantity is a decimal number and one of the suffixes n, u, m, k, M, G, T, P, E, Ki, "
            "Mi, Gi, Ti, Pi, Ei or an exponent such as e3",
        ),
        (
            "capacity=cpu=-1",
            "nodes line 1: capacity cpu",
            "-1",
            "must be greater than or equal to 0",
        ),
        (
            "capacity=nvidia.com/gpu=0.5",
            "nodes line 1: capacity nvidia.com/gpu",
            "0.5",
            "must be an integer",
        ),
        ("capacity=pods=1.5", "nodes line 1: capacity pods", "1.5", "must be an integer"),
        (
            "capacity=cpu=4 allocatable=cpu=5",
            "nodes line 1: allocatable cpu",
            "5",
            "use at most the capacity, 4",
        ),
        (
            "allocatable=nvidia.com/gpu=1",
            "nodes line 1: allocatable nvidia.com/gpu",
            "1",
            "use at most the capacity, 0",
        ),
    ],
)
def test_invalid_values_are_named_with_their_place(
    value: Any, what: str, shown: object, valid: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_requested_nodes(value, "nodes", INI)
    assert str(caught.value) == f"{what}={shown!r} (from {INI}) is not valid: {valid}"


_FILE = "use a kind configuration, or a list nodes with the keys of a node"


@pytest.mark.parametrize(
    ("text", "what", "shown", "valid"),
    [
        ("nodes:\n- labels: {a: [}\n", "nodes", None, "it is no YAML: line 2: "),
        ("a: 1\na: 2\n", "nodes", None, "it is no YAML: line 2: the key 'a' comes twice"),
        ("- name: a\n", "nodes", None, _FILE),
        ("", "nodes", None, _FILE),
        ("nodes: 3\n", "nodes", "3", _FILE),
        ("nodes: []\n", "nodes", [], _FILE),
        ("nodes: [{name: a}]\nsize: 3\n", "nodes", "size", _FILE),
        ("nodes:\n- {name: a}\n- {nam: b}\n", "nodes[1]", "nam", f"did you mean name? {_KEYS}"),
        (
            "apiVersion: k3d.io/v1alpha5\nkind: Simple\n",
            "apiVersion",
            "k3d.io/v1alpha5",
            "use kind.x-k8s.io/v1alpha4, or leave apiVersion and kind out for a list nodes",
        ),
    ],
)
def test_invalid_files_are_named(
    tmp_path: Path, text: str, what: str, shown: object, valid: str
) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(text)
    value, place = (str(file), INI) if shown is None else (shown, f"{file}, {INI}")
    with pytest.raises(InvalidArgument) as caught:
        read_requested_nodes(str(file), "nodes", INI)
    assert str(caught.value).startswith(f"{what}={value!r} (from {place}) is not valid: {valid}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    with pytest.raises(InvalidArgument) as caught:
        read_requested_nodes(str(file), "nodes", "option --kwait-nodes")
    assert str(caught.value) == (
        f"nodes='{file}' (from option --kwait-nodes) is not valid: it cannot be read: no such file "
        "or directory"
    )
