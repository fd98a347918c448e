"""What forks of whole runs have loaded besides: the official client's classes, a second's work."""

from __future__ import annotations

import gc

gc.disable()

import kubernetes.client  # noqa: E402 - none of its objects is garbage

for _name in ("BatchV1Api", "CoordinationV1Api", "CoreV1Api", "CustomObjectsApi"):
    getattr(kubernetes.client, _name)
gc.freeze()
gc.enable()
