"""Claims of the class `fast`, the volumes and events of `data`, and the pods that use it."""

from __future__ import annotations

from typing import Any

from tests.objects import claim, event, pod, volume


def fast_claim(phase: str | None = "Pending", name: str = "data", **fields: Any) -> Any:
    return claim(phase, name, storageClassName="fast", **fields)


def bound(name: str = "data", volume: str = "pv-1") -> Any:
    return fast_claim("Bound", name, spec={"volumeName": volume})


def claimed_volume(phase: str = "Bound", *, called: str = "pv-1", **ref: Any) -> Any:
    return volume(
        phase, called, claimRef={"namespace": "ci-1", "name": "data", "uid": "uid-data", **ref}
    )


def claim_event(reason: str, message: str | None = None, at: str = "1", **about: Any) -> Any:
    made = event(reason, message, "PersistentVolumeClaim/data", lastTimestamp=at)
    made["involvedObject"] |= about
    return made


def user(name: str, claim_name: str = "data", phase: str = "Pending") -> Any:
    uses = {"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}
    return {**pod(name, phase), "spec": {"volumes": [{"name": "other"}, uses]}}
