"""Answers without what differs from run to run: identities, revisions, times, random names."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["normalize_body"]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SUFFIX = re.compile(r"(?<=[-.])[bcdfghjklmnpqrstvwxz2456789]{5}(?=$|[\" ])")
_ADDRESS = re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b(:\d+)?")
_REVISION = re.compile(r"(?<=current: )\d+|(?<=in record \()\d+(?=\))")
_WEB_TOKEN = re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*")
_AGE = re.compile(r"^(\d+[smhdy])+$")
_IGNORED = frozenset({"managedFields"})
"""Held to the real server by a transcript of their own."""


def normalize_body(value: Any, names: dict[str, str], *, fields: bool = False) -> Any:
    """`value` with placeholders for what cannot be the same twice.

    Args:
        value: decoded JSON or text.
        names: what to write in place of which text, for example the namespace's name.
        fields: whether `managedFields` are kept.
    """
    if isinstance(value, dict):
        return {
            key: _normal_field(key, item, names, fields)
            for key, item in sorted(value.items())
            if fields or key not in _IGNORED
        }
    if isinstance(value, list):
        return [normalize_body(item, names, fields=fields) for item in value]
    return _normalize_text(value, names) if isinstance(value, str) else value


def _normal_field(key: str, value: Any, names: dict[str, str], fields: bool) -> Any:
    if key in ("resourceVersion", "continue") and value:
        return f"<{key}>"
    if key in ("healthCheckNodePort", "nodePort", "storageVersionHash"):
        return f"<{key}>"
    if key == "managedFields" and isinstance(value, list):
        # A server orders them by whole seconds of time first, which may pass between any two steps.
        value = sorted(value, key=_normalize_managed_fields_entry)
    if key == "description":
        return ""
    return normalize_body(value, names, fields=fields)


def _normalize_managed_fields_entry(entry: dict[str, Any]) -> tuple[str, str, str]:
    return entry["operation"], entry["manager"], entry.get("subresource", "")


def _normalize_text(text: str, names: dict[str, str]) -> str:
    for found, shown in names.items():
        text = text.replace(found, shown)
    text = _WEB_TOKEN.sub("<token>", text)
    text = _TIME.sub("<time>", text)
    text = _UID.sub("<uid>", text)
    text = _ADDRESS.sub("<address>", text)
    text = _REVISION.sub("<revision>", text)
    text = _AGE.sub("<age>", text)
    return _SUFFIX.sub("<suffix>", text)
