"""A runner of commands: each is a Job, which is followed to its end.

It is the product of this example, and uses the official client alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubernetes import client, watch
from urllib3.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Result:
    """The result of a command.

    Args:
        state: `Complete` or `Failed`, or `Cancelled` if its Job was deleted meanwhile.
        attempts: how many pods ran it.
        log: what the last of them wrote.
    """

    state: str
    attempts: int
    log: str


class Runner:
    """Runs commands in one namespace."""

    def __init__(self, api: client.ApiClient, namespace: str, image: str) -> None:
        # In its types each field may be None.
        self._batch: Any = client.BatchV1Api(api)
        self._core: Any = client.CoreV1Api(api)
        self._namespace = namespace
        self._image = image

    def submit(self, name: str, command: Sequence[str], retries: int = 0) -> None:
        """Start a command; `follow` returns its result."""
        container = {"name": "main", "image": self._image, "command": [*command]}
        template = {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
            }
        }
        job = {"metadata": {"name": name}, "spec": {"backoffLimit": retries, "template": template}}
        self._batch.create_namespaced_job(self._namespace, job)

    def follow(self, name: str) -> Result:
        """Wait for the end of a command, and return its result.

        When the connection of its watch breaks, it begins anew.
        """
        selector = f"metadata.name={name}"
        while True:
            jobs = self._batch.list_namespaced_job(self._namespace, field_selector=selector)
            if not jobs.items:
                return Result("Cancelled", 0, "")
            if state := _find_end(jobs.items[0]):
                return self._make_result(name, state)
            events: Any = watch.Watch().stream(
                self._batch.list_namespaced_job,
                self._namespace,
                field_selector=selector,
                resource_version=jobs.metadata.resource_version,
            )
            try:
                for event in events:
                    if event["type"] == "DELETED" or _find_end(event["object"]):
                        break
            except ProtocolError:
                continue

    def cancel(self, name: str) -> None:
        """Stop a command, with its pods."""
        self._batch.delete_namespaced_job(name, self._namespace, propagation_policy="Foreground")

    def _make_result(self, name: str, state: str) -> Result:
        pods = self._core.list_namespaced_pod(self._namespace, label_selector=f"job-name={name}")
        last = max(pods.items, key=lambda pod: pod.metadata.creation_timestamp)
        log = self._core.read_namespaced_pod_log(last.metadata.name, self._namespace)
        return Result(state, len(pods.items), log)


def _find_end(job: Any) -> str:
    """Return the condition that a Job has ended with; empty if it has not."""
    for condition in job.status.conditions or ():
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            return str(condition.type)
    return ""
