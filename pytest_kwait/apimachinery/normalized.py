"""Objects without generated parts, for comparison with a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NAMESPACE = "NAMESPACE"
"""The text in place of the namespace's name."""

GENERATED = "*"
"""The text in place of the generated part of a name."""

_HASH_LABELS = ("pod-template-hash", "controller-revision-hash", "pod-template-generation")

# By the server, the kubelet, the scheduler and the controllers of the cluster; each differs from
# one run to the next.
_FIELDS = frozenset(
    (
        "clusterIP", "clusterIPs", "containerID", "creationTimestamp", "deletionGracePeriodSeconds",
        "deletionTimestamp", "generation", "healthCheckNodePort", "hostIP", "hostIPs", "imageID",
        "managedFields", "nodeName", "nodePort", "observedGeneration", "podIP", "podIPs",
        "resourceVersion", "selfLink", "uid", "volumeName", *_HASH_LABELS, "controller-uid",
        "batch.kubernetes.io/controller-uid", "kubectl.kubernetes.io/last-applied-configuration",
    )
)  # fmt: skip
"""The fields, labels and annotations that are left out."""

_OWN_ANNOTATION = "kwait.dev/"
_TIME_FIELD = re.compile(r".*(?:Time|Timestamp|[a-z]At)")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_TOKEN_VOLUME = re.compile(r"kube-api-access-\w+")


def normalize_object(obj: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Return a copy of an object without generated parts, with sorted fields.

    Left out are times, UIDs, versions, generations, `managedFields`, addresses, nodes and the
    volume of the token. Generated parts of names are `*`, the namespace is `NAMESPACE`.

    Args:
        namespace: the name of the test's namespace.
    """
    words = {**dict.fromkeys(_list_generated(obj), GENERATED), namespace: NAMESPACE}
    # The longest first: a name may begin with another one.
    ordered = sorted(filter(None, words), key=len, reverse=True)
    whole = "|".join(map(re.escape, ordered))
    pattern = re.compile(rf"(?<![a-z0-9])(?:{whole})(?![a-z0-9])")
    plain: dict[str, Any] = _normalize(
        obj, lambda text: pattern.sub(lambda found: words[found[0]], text)
    )
    metadata = plain.get("metadata")
    if isinstance(metadata, dict) and metadata.get("namespace") == NAMESPACE:
        del metadata["namespace"]
    return plain


def _list_generated(obj: Mapping[str, Any]) -> Iterator[str]:
    """Yield the generated parts of names that an object shows."""
    metadata = obj.get("metadata") or {}
    name, prefix = str(metadata.get("name") or ""), metadata.get("generateName")
    if prefix and name.startswith(prefix):
        yield name.removeprefix(prefix)
    yield str(metadata.get("uid") or "")
    labels = metadata.get("labels") or {}
    yield from (str(labels.get(label) or "") for label in _HASH_LABELS[:2])
    yield from (str(owner.get("uid") or "") for owner in metadata.get("ownerReferences") or ())


def _normalize(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        parts = {
            key: _normalize(part, change)
            for key, part in sorted(value.items())
            if not _is_generated(key, part)
        }
        # One that had generated fields alone says nothing.
        return {key: part for key, part in parts.items() if part or not value[key]}
    if isinstance(value, list):
        return [_normalize(part, change) for part in value if not _is_token_volume(part)]
    return change(value) if isinstance(value, str) else value


def _is_generated(key: str, value: Any) -> bool:
    if key in _FIELDS or key.startswith(_OWN_ANNOTATION):
        return True
    return isinstance(value, str) and bool(_TIME_FIELD.fullmatch(key) and _TIME.fullmatch(value))


def _is_token_volume(value: Any) -> bool:
    name = value.get("name") if isinstance(value, dict) else None
    return isinstance(name, str) and _TOKEN_VOLUME.fullmatch(name) is not None
