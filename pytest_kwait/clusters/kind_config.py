"""Nodes of a kind configuration, as kind would create them.

A kind configuration has roles, labels and patches of kubeadm's configuration. Names, labels,
taints, and what is kept from pods, follow from them as with kind and kubeadm; the rest of a file is
listed as unused.

Source: kind pkg/apis/config/v1alpha4/types.go, pkg/internal/apis/config/validate.go,
pkg/cluster/internal/providers/common/namer.go,
pkg/cluster/internal/create/actions/{config/config,kubeadminit/init}.go, pkg/internal/patch;
kubeadm cmd/kubeadm/app/phases/{kubelet/flags,markcontrolplane/markcontrolplane}.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.nodes import (
    MAX_NODES,
    NODE_ALLOCATABLE,
    EmbeddedNode,
    Taint,
    make_node,
    make_taint,
    parse_pairs,
    parse_taints,
    read_amount,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

API_VERSION = "kind.x-k8s.io/v1alpha4"

_ROLES = ("control-plane", "worker")
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_OWN_LABELS = (_CONTROL_PLANE, "node.kubernetes.io/exclude-from-external-load-balancers")
"""The labels of a control plane, for kubectl's roles and for load balancers."""
_CONTROL_PLANE_TAINT = Taint(_CONTROL_PLANE, "", "NoSchedule")
_CLUSTER_NAME = re.compile("[a-z0-9.-]+")
_PATCHES, _JSON_PATCHES = "kubeadmConfigPatches", "kubeadmConfigPatchesJSON6902"
_CLUSTER_FIELDS = (
    "kind", "apiVersion", "name", "nodes", "networking", "featureGates", "runtimeConfig",
    _PATCHES, _JSON_PATCHES, "containerdConfigPatches", "containerdConfigPatchesJSON6902",
)  # fmt: skip
_NODE_FIELDS = (
    "role", "image", "labels", "extraMounts", "extraPortMappings", _PATCHES, _JSON_PATCHES
)  # fmt: skip
_CLUSTER_USED = ("kind", "apiVersion", "name", "nodes", _PATCHES)
_NODE_USED = ("role", "labels", _PATCHES)

_INIT, _JOIN, _KUBELET = "InitConfiguration", "JoinConfiguration", "KubeletConfiguration"
_OTHER_KINDS = ("ClusterConfiguration", "KubeProxyConfiguration")
_REGISTRATION = "nodeRegistration"
_EXTRA_ARGS = "kubeletExtraArgs"
_NODE_LABELS, _TAINT_ARG, _MAX_PODS = "node-labels", "register-with-taints", "max-pods"
_RESERVED_ARGS = ("system-reserved", "kube-reserved")
_USED_ARGS = (_NODE_LABELS, _TAINT_ARG, _MAX_PODS, *_RESERVED_ARGS)
_KUBELET_FIELDS = {
    "maxPods": _MAX_PODS,
    "systemReserved": "system-reserved",
    "kubeReserved": "kube-reserved",
    "registerWithTaints": _TAINT_ARG,
}
"""Fields of a kubelet's configuration by their flags, which override them."""

_RESERVED_LABELS = frozenset(
    (
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    )
)
"""Labels of Kubernetes' own domains that kubelets set; k8s.io/kubelet pkg/apis."""
_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")


class KindNodes(NamedTuple):
    """The nodes of a kind configuration.

    Args:
        nodes: the nodes.
        unused: the fields of the file that an embedded cluster has no use for, each once.
    """

    nodes: tuple[EmbeddedNode, ...]
    unused: tuple[str, ...]


class _TextLoader(yaml.SafeLoader):
    """YAML loader of settings: every scalar is text, as Go decodes it into a string."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way to replace them in a subclass
        "<": [("tag:yaml.org,2002:merge", re.compile("^<<$"))]
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return a mapping without keys that come twice."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                mark = node.value[index][0].start_mark
                problem = f"the key {key!r} comes twice"
                raise yaml.constructor.ConstructorError(None, None, problem, mark)
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> list[Any]:
    """Return the documents of a YAML text with all scalars as text, empty documents left out.

    Raises:
        ValueError: it is no YAML; with the line.
    """
    try:
        documents = list(yaml.load_all(text, _TextLoader))
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"it is no YAML: {line}{error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        raise ValueError(f"it is no YAML: {first}") from None
    return [document for document in documents if document != ""]


def read_kind_config(config: Mapping[str, Any], source: str | None) -> KindNodes:
    """Return the nodes that kind would create.

    Args:
        config: the document, with scalars as text.
        source: the file and its own source, for messages.

    Raises:
        InvalidArgument: kind would refuse it, or a node's kubelet would.
    """
    _check_fields("Cluster", config, _CLUSTER_FIELDS, source)
    for name, valid in (("kind", "Cluster"), ("apiVersion", API_VERSION)):
        if config.get(name) != valid:
            raise InvalidArgument(name, config.get(name), f"use {valid}", source)
    cluster = config.get("name") or "kind"
    if not isinstance(cluster, str) or not _CLUSTER_NAME.fullmatch(cluster):
        valid = f"cluster names must match ^{_CLUSTER_NAME.pattern}$"
        raise InvalidArgument("name", cluster, valid, source)
    entries = _read_list("nodes", config.get("nodes"), source) or [{}]
    if len(entries) > MAX_NODES:
        raise InvalidArgument("nodes", len(entries), f"use at most {MAX_NODES}", source)
    roles = [_read_role(f"nodes[{index}]", entry, source) for index, entry in enumerate(entries)]
    if _ROLES[0] not in roles:
        raise InvalidArgument("nodes", roles, f"use at least one {_ROLES[0]}", source)
    reader = _Reader(config, entries, roles.index(_ROLES[0]), source)
    nodes = []
    for index, role in enumerate(roles):
        number = roles[:index].count(role) + 1
        name = f"{cluster}-{role}{number if number > 1 else ''}"
        nodes.append(reader.read(index, role, name))
    return KindNodes(tuple(nodes), tuple(dict.fromkeys(reader.unused)))


def _read_role(place: str, entry: Any, source: str | None) -> str:
    if not isinstance(entry, Mapping):
        raise InvalidArgument(place, entry, f"use {', '.join(_NODE_FIELDS)}", source)
    _check_fields(place, entry, _NODE_FIELDS, source)
    role: str = entry.get("role") or _ROLES[0]
    if role not in _ROLES:
        raise InvalidArgument(f"{place}: role", role, f"use {' or '.join(_ROLES)}", source)
    return role


class _Reader:
    """Reads the nodes of one configuration.

    Args:
        config: the configuration.
        entries: its nodes.
        first: the index of the first control plane, which kubeadm initializes; the others join.
        source: the source for messages.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        entries: Sequence[Mapping[str, Any]],
        first: int,
        source: str | None,
    ) -> None:
        self.unused = [name for name in config if name not in _CLUSTER_USED]
        """The fields that an embedded cluster has no use for, with repetitions."""
        self._entries = entries
        self._first = first
        self._source = source
        self._patches = list(self._read_patches("", config))
        of_first = self._read_patches(f"nodes[{first}]: ", entries[first])
        self._kubelet = self._read_kubelet([*self._patches, *of_first])

    def read(self, index: int, role: str, name: str) -> EmbeddedNode:
        """Return a node."""
        entry, place = self._entries[index], f"nodes[{index}]"
        self.unused += [f"{field} of nodes" for field in entry if field not in _NODE_USED]
        patches = [*self._patches, *self._read_patches(f"{place}: ", entry)]
        given = {_NODE_LABELS: self._join_labels(place, entry)}
        kind = _INIT if index == self._first else _JOIN
        arguments, registered = self._read_registration(kind, patches, given)
        labels = self._read_labels(place, arguments[_NODE_LABELS])
        taints = self._find_taints(place, role, arguments, registered)
        if role == _ROLES[0]:
            # With one node kind removes the other label, or nothing could be exposed.
            own = _OWN_LABELS[:1] if len(self._entries) == 1 else _OWN_LABELS
            labels |= dict.fromkeys(own, "")
        arguments = {**self._kubelet, **arguments}
        pods = {"pods": arguments[_MAX_PODS]} if arguments.get(_MAX_PODS) else {}
        allocatable = self._subtract_reserved(arguments, f"{place}: {_EXTRA_ARGS} ")
        return make_node(name, labels, taints, pods, allocatable, place=place, source=self._source)

    def _join_labels(self, place: str, entry: Mapping[str, Any]) -> str:
        """Return the labels of a node as an argument, as in kind's template: patches replace it."""
        labels = {} if _is_null(entry.get("labels")) else entry["labels"]
        if not isinstance(labels, Mapping) or not all(
            isinstance(value, str) for value in labels.values()
        ):
            raise InvalidArgument(
                f"{place}: labels", labels, "use a mapping of texts", self._source
            )
        return ",".join(f"{key}={value}" for key, value in labels.items())

    def _read_labels(self, place: str, argument: str) -> dict[str, str]:
        """Return the labels of an argument, which a kubelet must accept."""
        labels = parse_pairs(argument, f"{place}: {_EXTRA_ARGS} {_NODE_LABELS}", self._source)
        for label in labels:
            if not _is_allowed(label):
                raise InvalidArgument(
                    f"{place}: labels",
                    label,
                    "a kubelet refuses labels of kubernetes.io and k8s.io but its own and those "
                    f"of {' and '.join(_KUBELET_DOMAINS)}",
                    self._source,
                )
        return labels

    def _find_taints(
        self,
        place: str,
        role: str,
        arguments: Mapping[str, str],
        registered: Sequence[Taint] | None,
    ) -> list[Taint]:
        """Return the taints of a node.

        Args:
            arguments: the arguments of its kubelet.
            registered: the taints that kubeadm gives to it; None for the default.
        """
        text = arguments.get(_TAINT_ARG, self._kubelet.get(_TAINT_ARG, ""))
        of_kubelet = parse_taints(text, f"{place}: {_EXTRA_ARGS} {_TAINT_ARG}", self._source)
        if role != _ROLES[0]:
            # kubeadm makes the same argument of them, which that of a patch overrides.
            return of_kubelet if _TAINT_ARG in arguments else [*(registered or of_kubelet)]
        of_kubeadm = [_CONTROL_PLANE_TAINT] if registered is None else registered
        taints = [*of_kubeadm, *(taint for taint in of_kubelet if taint not in of_kubeadm)]
        if len(self._entries) == 1:
            taints = [taint for taint in taints if taint.key != _CONTROL_PLANE]
        return taints

    def _subtract_reserved(self, arguments: Mapping[str, str], what: str) -> dict[str, str]:
        """Return what pods can use of the resources that a kubelet reserves a part of."""
        left: dict[str, str] = {}
        for name in _RESERVED_ARGS:
            reserved = parse_pairs(arguments.get(name, ""), f"{what}{name}", self._source)
            for resource, text in reserved.items():
                whole = left.get(resource) or NODE_ALLOCATABLE.get(resource)
                if whole is None or resource == "pods":
                    continue  # of processes, which no Node has
                argument = f"{what}{name} {resource}"
                rest = read_amount(whole, argument, None) - read_amount(
                    text, argument, self._source
                )
                if rest.amount < 0:
                    valid = f"use at most {NODE_ALLOCATABLE[resource]}"
                    raise InvalidArgument(argument, text, valid, self._source)
                left[resource] = str(rest)
        return left

    def _read_patches(
        self, place: str, entry: Mapping[str, Any]
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Return the patches of a cluster or a node, each with its place."""
        for index, text in enumerate(
            _read_list(f"{place}{_PATCHES}", entry.get(_PATCHES), self._source)
        ):
            what = f"{place}{_PATCHES}[{index}]"
            try:
                documents = load_yaml(text) if isinstance(text, str) else [text]
            except ValueError as error:
                raise InvalidArgument(what, text, str(error), self._source) from None
            for document in documents:
                kinds = (_INIT, _JOIN, _KUBELET, *_OTHER_KINDS)
                if not isinstance(document, Mapping) or document.get("kind") not in kinds:
                    valid = f"use YAML with a kind: {', '.join(kinds)}"
                    raise InvalidArgument(what, text, valid, self._source)
                yield what, document

    def _read_kubelet(self, patches: list[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
        """Return the arguments of all kubelets, of the configuration that the first node has."""
        arguments = {}
        for what, patch in patches:
            if patch["kind"] != _KUBELET:
                continue
            for name, value in patch.items():
                argument = _KUBELET_FIELDS.get(name)
                if argument is None:
                    if name not in ("kind", "apiVersion"):
                        self.unused.append(f"{name} of {_KUBELET}")
                elif name == "registerWithTaints":
                    taints = self._read_taints(f"{what}: {name}", value) or []
                    arguments[argument] = ",".join(
                        f"{key}={text}:{effect}" for key, text, effect in taints
                    )
                elif isinstance(value, Mapping):
                    pairs = [f"{resource}={text}" for resource, text in value.items()]
                    arguments[argument] = ",".join(pairs)
                else:
                    arguments[argument] = str(value)
        return arguments

    def _read_registration(
        self, kind: str, patches: list[tuple[str, Mapping[str, Any]]], given: Mapping[str, str]
    ) -> tuple[dict[str, str], list[Taint] | None]:
        """Return the arguments of a kubelet, and the taints that kubeadm gives to its node.

        Args:
            kind: the kind of kubeadm's configuration of the node.
            patches: those of the cluster and of the node.
            given: the arguments without patches.
        """
        arguments, taints = dict(given), None
        for what, patch in patches:
            if patch["kind"] in _OTHER_KINDS:
                self.unused.append(patch["kind"])
            if patch["kind"] != kind:
                continue
            self.unused += [
                f"{name} of {kind}"
                for name in patch
                if name not in ("kind", "apiVersion", "metadata", _REGISTRATION)
            ]
            registration = {} if _is_null(patch.get(_REGISTRATION)) else patch[_REGISTRATION]
            if not isinstance(registration, Mapping):
                valid = f"use a mapping as {_REGISTRATION}"
                raise InvalidArgument(what, registration, valid, self._source)
            for name, value in registration.items():
                if name == "taints":
                    taints = self._read_taints(f"{what}: taints", value)
                elif name == _EXTRA_ARGS:
                    arguments |= self._read_arguments(f"{what}: {_EXTRA_ARGS}", value)
                else:
                    self.unused.append(f"{_REGISTRATION}.{name}")
        self.unused += [f"{_EXTRA_ARGS} {name}" for name in arguments if name not in _USED_ARGS]
        return arguments, taints

    def _read_arguments(self, what: str, value: Any) -> dict[str, str]:
        """Return arguments of a kubelet: of a mapping, or since v1beta4 of a list."""
        if isinstance(value, list) and all(
            isinstance(entry, Mapping) and isinstance(entry.get("name"), str) for entry in value
        ):
            value = {entry["name"]: entry.get("value", "") for entry in value}
        if _is_null(value):
            return {}
        if not isinstance(value, Mapping) or not all(
            isinstance(text, str) for text in value.values()
        ):
            valid = "use a mapping of arguments to texts, or a list with name and value"
            raise InvalidArgument(what, value, valid, self._source)
        return {name: "" if _is_null(text) else text for name, text in value.items()}

    def _read_taints(self, what: str, value: Any) -> list[Taint] | None:
        """Return taints; None if they are not set."""
        if _is_null(value):
            return None
        if not isinstance(value, list):
            raise InvalidArgument(what, value, "use a list of taints", self._source)
        taints = []
        for index, entry in enumerate(value):
            place = f"{what}[{index}]"
            if not isinstance(entry, Mapping):
                valid = "use a mapping with key, value and effect"
                raise InvalidArgument(place, entry, valid, self._source)
            key, text, effect = (str(entry.get(name, "")) for name in ("key", "value", "effect"))
            taints.append(make_taint(key, text, effect, place, self._source))
        return taints


def _is_null(value: object) -> bool:
    return value in (None, "", "null", "~")


def _read_list(what: str, value: Any, source: str | None) -> list[Any]:
    if _is_null(value):
        return []
    if not isinstance(value, list):
        raise InvalidArgument(what, value, "use a list", source)
    return value


def _check_fields(
    what: str, entry: Mapping[str, Any], valid: tuple[str, ...], source: str | None
) -> None:
    """Refuse fields that kind does not know, as it does."""
    for name in entry:
        if name not in valid:
            raise InvalidArgument(what, name, f"the fields are {', '.join(valid)}", source)


def _is_allowed(label: str) -> bool:
    """Return whether a kubelet may set a label of its node.

    Source: cmd/kubelet/app/options/options.go, ValidateKubeletFlags;
    k8s.io/kubelet pkg/apis/well_known_labels.go, IsKubeletLabel.
    """
    domain = label.rpartition("/")[0]
    if not any(domain == own or domain.endswith(f".{own}") for own in ("kubernetes.io", "k8s.io")):
        return True
    return label in _RESERVED_LABELS or any(
        domain == own or domain.endswith(f".{own}") for own in _KUBELET_DOMAINS
    )
