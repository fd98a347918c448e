"""Nodes of an embedded cluster: names, labels, taints, capacity.

Values are validated as the API server and the kubelet do. Errors have the API server's texts.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - a type of the decoder
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity
from pytest_kwait.apimachinery.validation import (
    dns_subdomain_texts,
    label_key_texts,
    label_value_texts,
)
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

NODE_CAPACITY = {
    "cpu": "8",
    "ephemeral-storage": "104857600Ki",
    "hugepages-1Gi": "0",
    "hugepages-2Mi": "0",
    "memory": "32505856Ki",
    "pods": "110",
}
"""The capacity of a node whose own is not given."""

NODE_ALLOCATABLE = {
    **NODE_CAPACITY,
    "memory": "32403456Ki",
    "ephemeral-storage": "96636764160",
}
"""The part of `NODE_CAPACITY` that pods can use: the rest is the kubelet's for evictions."""

MAX_NODES = 5000
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_FIRST_BLOCK, _NODES_OF_BLOCK = 244, 250
"""The second number of the addresses of pods, and the nodes that share it."""

_HOSTNAME_LABEL = "kubernetes.io/hostname"
_NATIVE_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
_HUGE_PAGES = "hugepages-"
_RESOURCE = (
    "use cpu, memory, ephemeral-storage, pods, hugepages-SIZE or a name with a domain, for example "
    "nvidia.com/gpu"
)
_PAIR = "use KEY=VALUE with commas between them"
_TAINT = (
    "use KEY=VALUE:EFFECT or KEY:EFFECT with the effect NoSchedule, PreferNoSchedule or NoExecute"
)


class Taint(NamedTuple):
    """A taint of a node.

    Args:
        value: empty for none.
        effect: one of `TAINT_EFFECTS`.
    """

    key: str
    value: str
    effect: str

    def to_json(self) -> dict[str, str]:
        """Return the taint as the Node has it."""
        value = {"value": self.value} if self.value else {}
        return {"key": self.key, **value, "effect": self.effect}


@dataclass(frozen=True, slots=True)
class EmbeddedNode:
    """A node of an embedded cluster.

    Args:
        name: its name.
        labels: labels besides those of every kubelet, which they override.
        taints: the taints that it registers with.
        capacity: the amounts by resource that differ from `NODE_CAPACITY`.
        allocatable: the amounts that differ from the capacity.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_capacity(self) -> dict[str, str]:
        """The capacity of the Node."""
        return {**NODE_CAPACITY, **self.capacity}

    @property
    def all_allocatable(self) -> dict[str, str]:
        """The amounts that pods can use; all of a capacity that is given, unless given too."""
        return {**NODE_ALLOCATABLE, **self.capacity, **self.allocatable}


Nodes = int | tuple[EmbeddedNode, ...]
"""The number of nodes that are all alike, or the nodes."""


def list_nodes(nodes: Nodes) -> tuple[EmbeddedNode, ...]:
    """Return the nodes, those of a number as `kwait-node-1` and so on."""
    if isinstance(nodes, int):
        return tuple(EmbeddedNode(default_node_name(number)) for number in range(1, nodes + 1))
    return nodes


def count_nodes(nodes: Nodes) -> int:
    """Return the number of nodes."""
    return nodes if isinstance(nodes, int) else len(nodes)


def default_node_name(number: int) -> str:
    """Return the name of a node, by its number from 1, that has none."""
    return f"kwait-node-{number}"


def node_address(number: int) -> str:
    """Return the address of a node by its number from 1."""
    return f"172.30.{number // 250}.{number % 250 + 1}"


def pod_subnet(number: int) -> str:
    """Return the start of the addresses of a node's pods, by its number from 1.

    Those of the first thousand nodes are in `POD_NETWORK`, to which programs have a route.
    """
    block = number // _NODES_OF_BLOCK
    first = block + _FIRST_BLOCK
    return f"10.{first if first < 256 else first - 255}.{number % _NODES_OF_BLOCK}"


def make_node(
    name: str,
    labels: Mapping[str, str],
    taints: Sequence[Taint],
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str],
    *,
    place: str,
    source: str | None,
) -> EmbeddedNode:
    """Return a node of checked values.

    Args:
        name: its name.
        labels: labels besides those of every kubelet.
        taints: its taints.
        capacity: the amounts by resource that differ from `NODE_CAPACITY`.
        allocatable: the amounts that differ from the capacity.
        place: the entry of the node, for messages, for example `nodes[1]`.
        source: where the values come from, for messages.

    Raises:
        InvalidArgument: a value is invalid.

    Source: pkg/apis/core/validation/validation.go, ValidateNode;
    pkg/kubelet/kubelet_node_status.go, initialNode.
    """
    _check(f"{place}: name", name, dns_subdomain_texts(name), source)
    for key, value in labels.items():
        _check(f"{place}: labels", key, label_key_texts(key), source)
        _check(f"{place}: label {key}", value, label_value_texts(value), source)
    if _HOSTNAME_LABEL not in labels and label_value_texts(name):
        valid = f"it is the value of the label {_HOSTNAME_LABEL} too: use at most 63 characters"
        raise InvalidArgument(f"{place}: name", name, valid, source)
    pairs = [(taint.key, taint.effect) for taint in taints]
    for pair in pairs:
        if pairs.count(pair) > 1:
            text = ":".join(pair)
            valid = "taints must be unique by key and effect pair"
            raise InvalidArgument(f"{place}: taints", text, valid, source)
    node = EmbeddedNode(
        name,
        dict(labels),
        tuple(taints),
        _read_amounts(capacity, f"{place}: capacity", source),
        _read_amounts(allocatable, f"{place}: allocatable", source),
    )
    whole = node.all_capacity
    for resource, amount in node.allocatable.items():
        limit = whole.get(resource, "0")
        if parse_quantity(amount) > parse_quantity(limit):
            valid = f"use at most the capacity, {limit}"
            raise InvalidArgument(f"{place}: allocatable {resource}", amount, valid, source)
    return node


def parse_taint(text: str, what: str, source: str | None) -> Taint:
    """Parse `KEY=VALUE:EFFECT` or `KEY:EFFECT`, as `kubectl taint` and the kubelet do.

    Raises:
        InvalidArgument: it has no such form.
    """
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if effect not in TAINT_EFFECTS:
        raise InvalidArgument(what, text, _TAINT, source)
    return make_taint(key, value, effect, what, source)


def make_taint(key: str, value: str, effect: str, what: str, source: str | None) -> Taint:
    """Return a taint of checked values.

    Raises:
        InvalidArgument: a value is invalid.
    """
    _check(f"{what}: key", key, label_key_texts(key), source)
    _check(f"{what}: value of {key}", value, label_value_texts(value), source)
    if effect not in TAINT_EFFECTS:
        valid = f"use {', '.join(TAINT_EFFECTS[:-1])} or {TAINT_EFFECTS[-1]}"
        raise InvalidArgument(f"{what}: effect of {key}", effect, valid, source)
    return Taint(key, value, effect)


def parse_pairs(text: str, what: str, source: str | None) -> dict[str, str]:
    """Parse `KEY=VALUE,...`; a blank text has none.

    Raises:
        InvalidArgument: a part has no `=`, or a key comes twice.
    """
    pairs: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        key, equals, value = part.strip().partition("=")
        if not equals or not key:
            raise InvalidArgument(what, text, _PAIR, source)
        if key in pairs:
            raise InvalidArgument(what, text, f"{key} comes twice", source)
        pairs[key] = value
    return pairs


def parse_taints(text: str, what: str, source: str | None) -> list[Taint]:
    """Parse taints with commas between them; a blank text has none.

    Raises:
        InvalidArgument: one is invalid.
    """
    parts = text.split(",") if text.strip() else ()
    return [parse_taint(part.strip(), what, source) for part in parts]


def read_amount(text: str, what: str, source: str | None) -> Quantity:
    """Return a quantity that is not negative.

    Raises:
        InvalidArgument: it is none.
    """
    try:
        amount = parse_quantity(text)
    except InvalidArgument as error:
        raise InvalidArgument(what, text, error.valid, source) from None
    if amount.amount < 0:
        raise InvalidArgument(what, text, "must be greater than or equal to 0", source)
    return amount


def _read_amounts(amounts: Mapping[str, str], what: str, source: str | None) -> dict[str, str]:
    """Return amounts in their canonical form."""
    read = {}
    for resource, text in amounts.items():
        is_native = resource in _NATIVE_RESOURCES or resource.startswith(_HUGE_PAGES)
        if label_key_texts(resource) or not (is_native or _is_extended(resource)):
            raise InvalidArgument(what, resource, _RESOURCE, source)
        amount = read_amount(text, f"{what} {resource}", source)
        if (resource == "pods" or not is_native) and amount.amount.denominator != 1:
            raise InvalidArgument(f"{what} {resource}", text, "must be an integer", source)
        read[resource] = str(amount)
    return read


def _is_extended(resource: str) -> bool:
    """Return whether a resource is defined outside of Kubernetes.

    Source: pkg/apis/core/v1/helper/helpers.go, IsExtendedResourceName.
    """
    return (
        "/" in resource
        and "kubernetes.io/" not in resource
        and not resource.startswith("requests.")
    )


def _check(what: str, value: str, texts: Sequence[str], source: str | None) -> None:
    if texts:
        raise InvalidArgument(what, value, "; ".join(texts), source)
