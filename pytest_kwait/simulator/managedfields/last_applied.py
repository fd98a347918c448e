"""What `kubectl apply` noted in an object, once kubectl applies it on the server.

Source: k8s.io/apimachinery pkg/util/managedfields/internal/{lastapplied,lastappliedmanager,
lastappliedupdater}.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_kwait.simulator.managedfields.field_sets import compare_fields, field_set_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.codec.schema import Shape
    from pytest_kwait.simulator.managedfields.field_sets import Paths
    from pytest_kwait.simulator.objects import Obj

__all__ = ["KUBECTL_MANAGER", "last_applied_fields", "update_last_applied"]

KUBECTL_MANAGER = "kubectl"
"""The manager that takes over what it has applied on the client; any other one does not."""

_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_ESCAPES = str.maketrans({found: f"\\u{ord(found):04x}" for found in "<>&\u2028\u2029"})
_MAX_ANNOTATIONS_SIZE = 256 * 1024


def last_applied_fields(live: Obj, shape: Shape) -> Paths:
    """The fields that kubectl has applied on the client and that are still as it applied them.

    Args:
        live: the object as it is, without `managedFields`.
        shape: its type.
    """
    try:
        last = json.loads(_annotations_or_empty(live).get(_ANNOTATION) or "null")
    except ValueError:
        return set()
    if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion"):
        return set()
    changes = compare_fields(last, live, shape)
    return field_set_of(last, shape) - changes.modified - changes.removed


def update_last_applied(live: Obj, configuration: Obj) -> bool:
    """Note the configuration in an object that has such a note; whether that changes it.

    Together with an object's other annotations it may be too large: then the note goes.
    """
    annotations = _annotations_or_empty(live)
    if _ANNOTATION not in annotations:
        return False
    applied = dict(configuration, metadata=dict(configuration["metadata"]))
    given = applied["metadata"].get("annotations")
    if isinstance(given, dict):
        applied["metadata"]["annotations"] = {
            name: text for name, text in given.items() if name != _ANNOTATION
        }
    text = json.dumps(applied, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    text = text.translate(_ESCAPES) + "\n"
    before = annotations[_ANNOTATION]
    others = {name: value for name, value in annotations.items() if name != _ANNOTATION}
    note = {_ANNOTATION: text}
    size = sum(len(name.encode()) + len(value.encode()) for name, value in (others | note).items())
    live["metadata"]["annotations"] = others | note if size <= _MAX_ANNOTATIONS_SIZE else others
    return before != text


def _annotations_or_empty(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}
