"""`namespace=` of manifests: move the objects of others' manifests, and references to them.

The rules are those of `kustomize edit set namespace`, with the kinds of the server in place of
kustomize's list: `metadata.namespace` of every namespaced object, the name of a Namespace, service
accounts among the subjects of bindings, and the services of webhooks, API services and conversions.
Texts are never changed: addresses in arguments, selectors of namespaces, annotations.

Source: kustomize/api/filters/namespace/namespace.go,
kustomize/api/internal/konfig/builtinpluginconsts/namereference.go.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_kwait.apimachinery.validation import dns_label_texts
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.manifests import Document, InvalidManifest, read_manifests

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.suite.manifests import Source

TargetNamespace: TypeAlias = "str | Literal[True] | Mapping[str, str | Literal[True]]"
"""A namespace, True for the test's own, or a mapping of manifests' namespaces to these."""

_VALID = (
    "use the name of a namespace, True for the test's own, or a mapping of the manifests' "
    'namespaces to these: {"shop-system": True}'
)

_BINDINGS = frozenset({"RoleBinding", "ClusterRoleBinding"})
_WEBHOOKS = frozenset({"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"})

_CLUSTER_SCOPED = (
    _BINDINGS - {"RoleBinding"}
    | _WEBHOOKS
    | {
        "APIService",
        "CSIDriver",
        "ClusterRole",
        "CustomResourceDefinition",
        "IngressClass",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
"""Kinds of Kubernetes whose `metadata.namespace`, which charts may write, means nothing."""


@dataclass(frozen=True, slots=True)
class Moves:
    """The namespaces that objects of manifests are moved to.

    Args:
        target: the namespace of objects that name none; without `by_source`, of all.
        by_source: target by the manifests' namespace; None for the only one that they have.
        is_named: whether the target is given by name; texts may then use it as a variable.
    """

    target: str
    by_source: Mapping[str, str] | None = None
    is_named: bool = False

    def read(
        self,
        sources: Iterable[Source],
        folders: Iterable[Path],
        variables: Mapping[str, Any] | None = None,
    ) -> list[Document]:
        """Return the objects of manifests, moved; arguments as for `read_manifests`.

        Raises:
            InvalidArgument: no object is in a namespace that is to be moved.
            InvalidManifest: a manifest cannot be used, or the objects are in several namespaces.
        """
        namespace = self.target if self.by_source is None else None
        documents = read_manifests(
            sources, folders, variables, namespace, fills_alone=self.is_named
        )
        return move_documents(documents, self)


def parse_moves(value: Any, own: str) -> Moves:
    """Check a value of `namespace=`.

    Args:
        own: the test's own namespace.

    Raises:
        InvalidArgument: no namespace, or no mapping of namespaces.
    """
    if not isinstance(value, Mapping):
        return Moves(_parse_target(value, own), is_named=value is not True)
    if not value:
        raise InvalidArgument("namespace", value, _VALID)
    moved = {}
    for source, target in value.items():
        if not isinstance(source, str):
            raise InvalidArgument("namespace", source, _VALID)
        moved[source] = _parse_target(target, own)
    return Moves(own, moved)


def _parse_target(value: Any, own: str) -> str:
    if value is True:
        return own
    if not isinstance(value, str) or dns_label_texts(value):
        raise InvalidArgument("namespace", value, _VALID)
    return value


def move_documents(documents: list[Document], moves: Moves) -> list[Document]:
    """Return documents whose objects, and the references to them, are in other namespaces.

    Raises:
        InvalidArgument: no object is in a namespace that is to be moved.
        InvalidManifest: the objects are in several namespaces, and one target is given.
    """
    places = _find_namespaces(documents)
    if moves.by_source is None:
        places.pop(moves.target, None)
        if len(places) > 1:
            (first, first_document), (second, second_document), *_ = places.items()
            raise InvalidManifest(
                second_document.place,
                f"{second_document.title} is in namespace {second}, and {first_document.title} of "
                f"{first_document.place} in "
                f"{first}: give namespace={{{first!r}: …, {second!r}: …}}",
            )
        mover = _Mover(dict.fromkeys(places, moves.target), moves.target, documents)
    else:
        for source in moves.by_source:
            if source not in places:
                known = ", ".join(sorted(places)) or "none"
                valid = f"no object of these manifests is in it; their namespaces: {known}"
                raise InvalidArgument("namespace", source, valid)
        mover = _Mover(moves.by_source, None, documents)
    return [Document(mover.move(document.object), document.place) for document in documents]


def _find_namespaces(documents: list[Document]) -> dict[str, Document]:
    """Return the namespaces that documents name, each with the first one in it."""
    first_documents: dict[str, Document] = {}
    for document in documents:
        namespace = _namespace_of(document.object)
        if namespace:
            first_documents.setdefault(namespace, document)
    return first_documents


def _namespace_of(obj: Mapping[str, Any]) -> str:
    """Return the namespace that an object is in, or that it is; empty if it names none."""
    if (obj["apiVersion"], obj["kind"]) == ("v1", "Namespace"):
        return str(obj["metadata"].get("name") or "")
    return "" if obj["kind"] in _CLUSTER_SCOPED else str(obj["metadata"].get("namespace") or "")


class _Mover:
    """Moves objects, and references to them.

    Args:
        by_source: target by namespace.
        target: the target of all, and of what names no namespace; None if several are given.
        documents: all documents, for the names that references may have.
    """

    def __init__(
        self, by_source: Mapping[str, str], target: str | None, documents: list[Document]
    ) -> None:
        self._by_source = by_source
        self._target = target
        self._names = {
            (document.object["kind"], document.object["metadata"].get("name"))
            for document in documents
            if document.object["apiVersion"] == "v1" and not _namespace_of(document.object)
        }

    def move(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return a moved copy of an object."""
        namespace = _namespace_of(obj)
        moved = copy.deepcopy(obj)
        if namespace in self._by_source:
            is_namespace = (obj["apiVersion"], obj["kind"]) == ("v1", "Namespace")
            moved["metadata"]["name" if is_namespace else "namespace"] = self._by_source[namespace]
        for kind, reference, always in _references(moved):
            self._move_reference(kind, reference, always)
        return moved

    def _move_reference(self, kind: str, reference: dict[str, Any], always: bool) -> None:
        namespace = str(reference.get("namespace") or "")
        if namespace in self._by_source:
            reference["namespace"] = self._by_source[namespace]
        elif self._target is not None and (
            always or not namespace or (kind, reference.get("name")) in self._names
        ):
            reference["namespace"] = self._target


def _references(obj: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield kind and mapping of each reference, and whether one target moves it in any case."""
    group, kind, spec = obj["apiVersion"].partition("/")[0], obj["kind"], _mapping(obj, "spec")
    if group == "rbac.authorization.k8s.io" and kind in _BINDINGS:
        for subject in _mappings(obj.get("subjects")):
            if subject.get("kind") == "ServiceAccount":
                yield "ServiceAccount", subject, subject.get("name") == "default"
    elif group == "admissionregistration.k8s.io" and kind in _WEBHOOKS:
        for webhook in _mappings(obj.get("webhooks")):
            yield from _service(_mapping(webhook, "clientConfig"), always=False)
    elif group == "apiregistration.k8s.io" and kind == "APIService":
        yield from _service(spec, always=True)
    elif group == "apiextensions.k8s.io" and kind == "CustomResourceDefinition":
        webhook = _mapping(_mapping(spec, "conversion"), "webhook")
        yield from _service(_mapping(webhook, "clientConfig"), always=True)


def _service(
    holder: Mapping[str, Any], *, always: bool
) -> Iterator[tuple[str, dict[str, Any], bool]]:
    service = holder.get("service")
    if isinstance(service, dict):
        yield "Service", service, always


def _mapping(obj: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = obj.get(name)
    return value if isinstance(value, dict) else {}


def _mappings(values: Any) -> list[dict[str, Any]]:
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )
