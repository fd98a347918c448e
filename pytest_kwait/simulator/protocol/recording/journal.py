"""A journal: one file with the history of a namespace or of the cluster, without Secrets' data.

A journal that grows too large becomes the older part, and a new one begins with the present state.

Secrets are written without data. Their values are hidden in all texts: messages, commands, logs.
Names and selectors stay, or objects would no longer refer to each other.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.protocol.recording.files import (
    JOURNAL_SUFFIX,
    OLDER_SUFFIX,
    VERSION,
    RecordingHeader,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.apimachinery.secret_mask import SecretMask
    from pytest_kwait.simulator.objects import Obj

_MAX_PART = 32 * 1024 * 1024
"""Bytes from which a journal is divided; its parts are at most two."""

KEPT_SECONDS = 60.0
"""How long the journal of a removed namespace stays, for tests that fail in their teardown."""

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_IDENTITIES = frozenset(
    {
        "apiVersion",
        "generateName",
        "kind",
        "labels",
        "managedFields",
        "matchLabels",
        "name",
        "namespace",
        "nodeName",
        "ownerReferences",
        "resourceVersion",
        "selector",
        "uid",
    }
)
"""Fields whose values identify objects."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict[str, Any])


class RecordingJournal:
    """One journal file.

    Args:
        stem: its path without suffix.
        namespace: the namespace whose objects it has; None for the cluster's.
    """

    def __init__(self, stem: Path, namespace: str | None) -> None:
        self.path = stem.with_name(stem.name + JOURNAL_SUFFIX)
        self.namespace = namespace
        self.started = 0.0
        self.ended_at: float | None = None
        self._older = stem.with_name(stem.name + OLDER_SUFFIX)
        self._size = 0
        self._max_size = 0
        self._file = -1

    @property
    def is_full(self) -> bool:
        """Return whether it is to be divided."""
        return self._size >= self._max_size

    def open(self, started: float) -> None:
        """Create the file, with a header; what is written becomes the older part."""
        if self._size:
            self.close()
            self.path.replace(self._older)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(
            self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
        )
        self.started, self.ended_at = started, None
        self._size, self._max_size = 0, _MAX_PART
        self.write(_encoder.encode(RecordingHeader(VERSION, started)) + b"\n")

    def write(self, data: bytes) -> int:
        """Append lines; return the offset of the first."""
        offset, remaining_data = self._size, memoryview(data)
        while remaining_data:
            remaining_data = remaining_data[os.write(self._file, remaining_data) :]
        self._size += len(data)
        return offset

    def write_state(self, data: bytes) -> int:
        """Append the lines of the present objects, which a new part begins with, as `write`."""
        offset = self.write(data)
        # A large state alone does not fill a part.
        self._max_size = max(_MAX_PART, 2 * self._size)
        return offset

    def read(self, offset: int, size: int) -> bytes:
        """Return written bytes."""
        return os.pread(self._file, size, offset)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def remove(self) -> None:
        """Close and remove the files."""
        self.close()
        for path in (self.path, self._older):
            with contextlib.suppress(OSError):
                path.unlink()

    def encode_change(
        self, at: float, change: str, resource: str, key: str, revision: int, raw: bytes
    ) -> bytes:
        """Return the line of an object.

        Args:
            at: its time, in seconds since the epoch.
            change: `STATE`, `ADDED`, `MODIFIED` or `DELETED`.
            resource: the object's resource with its group.
            key: its `NAMESPACE/NAME`, or its name.
            revision: its resourceVersion.
            raw: its JSON, without data of Secrets.
        """
        return b'{"at":%.6f,"type":"%b","resource":"%b","key":%b,"revision":%d,"object":%b}\n' % (
            at - self.started,
            change.encode(),
            resource.encode(),
            _encoder.encode(key),
            revision,
            raw,
        )


def without_data(secret: Obj) -> Obj:
    """Return a Secret with the keys of its data alone."""
    redacted_secret: Obj = {**secret, "metadata": {**secret["metadata"]}}
    for field in ("data", "stringData"):
        if isinstance(secret.get(field), dict):
            redacted_secret[field] = dict.fromkeys(secret[field], "")
    annotations = secret["metadata"].get("annotations")
    if annotations and _LAST_APPLIED in annotations:
        redacted_secret["metadata"]["annotations"] = {
            key: value for key, value in annotations.items() if key != _LAST_APPLIED
        }
    return redacted_secret


def hide_values(raw: bytes, mask: SecretMask) -> bytes:
    """Return an object's JSON with values of Secrets hidden; fields that identify objects stay."""
    if not mask.may_match(raw):
        return raw
    obj = _decoder.decode(raw)
    masked_object = mask_texts(obj, mask)
    return raw if masked_object == obj else _encoder.encode(masked_object)


def mask_texts(value: Any, mask: SecretMask) -> Any:
    """Return JSON values without values of Secrets; fields that identify objects stay."""
    if isinstance(value, str):
        return mask.mask(value)
    if isinstance(value, list):
        return [mask_texts(item, mask) for item in value]
    if isinstance(value, dict):
        return {
            key: item if key in _IDENTITIES else mask_texts(item, mask)
            for key, item in value.items()
        }
    return value
