"""Run a suite as an Indexed Job: one pod for each shard."""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kwait.cache import SharedInformerFactory
from pytest_kwait.client.resource import JOBS, NODES, PODS, SERVICE_ACCOUNTS
from pytest_kwait.client.responses import decode_object
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import ApiError, ClusterError, InvalidArgument, KwaitError
from pytest_kwait.framework.job.wait import wait_for_job_finish
from pytest_kwait.suite.cleanup.owned_objects import (
    LABEL_MANAGED_BY,
    LABEL_RUN,
    MANAGED_BY,
    run_label_value,
)
from pytest_kwait.suite.shards.pod import ShardResults, unpack_results
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kubernetes.client import ApiClient

CONTAINER = "pytest"
_INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
_JOB_LABEL = "batch.kubernetes.io/job-name"
_SIMULATED_OS = "pytest-kwait embedded"
"""The `osImage` of simulated nodes: of an embedded cluster, and of binaries with controllers."""
_ALTERNATIVE = "run shards beside each other with pytest --kwait-shard=I/N"
_TTL_SECONDS = 3600
"""The Job's `ttlSecondsAfterFinished`, in case the submitter is gone."""

_DEADLINE_MARGIN = 60
"""Extra seconds before the cluster ends the pods of a killed submitter."""

_TERMINATION_GRACE = 120
"""Seconds for the teardown of tests in a deleted pod."""


@dataclass(frozen=True, slots=True)
class ShardSuite:
    """A suite and the settings of its pods.

    Args:
        run: the id of the run.
        shards: the number of shards.
        command: the command that starts Python in the image: `("python",)`.
        arguments: pytest's arguments.
        image: the image of the container; None to use the template's.
        parallelism: the number of concurrent pods; None for all.
        service_account: the service account of the pods; None for the namespace's default.
        template: a pod template; the container `pytest`, or else the first, runs the tests.
    """

    run: str
    shards: int
    command: Sequence[str]
    arguments: Sequence[str]
    image: str | None = None
    parallelism: int | None = None
    service_account: str | None = None
    template: Mapping[str, Any] = field(default_factory=dict)

    def manifest(self, timeout: float) -> dict[str, Any]:
        """Return the Job.

        Args:
            timeout: maximum seconds of the Job.

        Raises:
            InvalidArgument: neither `image` nor the template names an image.
        """
        labels = {LABEL_MANAGED_BY: MANAGED_BY, LABEL_RUN: run_label_value(self.run)}
        template: dict[str, Any] = copy.deepcopy(dict(self.template))
        metadata = template.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        spec = template.setdefault("spec", {})
        containers = spec.setdefault("containers", [])
        named = [container for container in containers if container.get("name") == CONTAINER]
        container = (named or containers or [{"name": CONTAINER}])[0]
        if not containers:
            containers.append(container)
        if self.image is not None:
            container["image"] = self.image
        if not container.get("image"):
            raise InvalidArgument(
                "--image", self.image, "the image that has the suite and pytest-kwait in it"
            )
        container["command"] = [*self.command, "-m", "pytest_kwait.suite.shards.pod"]
        container["args"] = [
            *self.arguments,
            "--kwait-cluster=existing",
            f"--kwait-run-id={self.run}",
            f"--kwait-shard=auto/{self.shards}",
        ]
        spec["restartPolicy"] = "Never"
        spec.setdefault("terminationGracePeriodSeconds", _TERMINATION_GRACE)
        if self.service_account is not None:
            spec["serviceAccountName"] = self.service_account
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"generateName": f"kwait-shards-{self.run[:24]}-", "labels": labels},
            "spec": {
                "completionMode": "Indexed",
                "completions": self.shards,
                "parallelism": min(self.parallelism or self.shards, self.shards),
                # Report a lost shard; do not run its tests twice.
                "backoffLimitPerIndex": 0,
                "activeDeadlineSeconds": int(timeout) + _DEADLINE_MARGIN,
                "ttlSecondsAfterFinished": _TTL_SECONDS,
                "template": template,
            },
        }


@dataclass(frozen=True, slots=True)
class ShardOutcome:
    """The outcome of one shard.

    Args:
        number: its number, from 1.
        pod: the name of its pod; empty if it never had one.
        results: its results; None if lost.
        reason: why they were lost.
        log: the log of its pod, without the results.
    """

    number: int
    pod: str
    results: ShardResults | None
    reason: str = ""
    log: str = ""

    @property
    def passed(self) -> bool:
        """Return whether pytest passed."""
        return self.results is not None and self.results.status == 0


class ShardJob:
    """Submits a suite, follows its pods, and collects their results as they end.

    Args:
        namespace: the namespace of the Job.
        report: called with a line when a shard starts.
        done: called with each finished shard, one at a time.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        suite: ShardSuite,
        *,
        report: Callable[[str], object],
        done: Callable[[ShardOutcome], object],
    ) -> None:
        self._client = client
        self._session = ApiSession.of(client)
        self._namespace = namespace
        self._suite = suite
        self._report = report
        self._done = done
        self._lock = threading.Lock()
        self._started: set[int] = set()
        self._over: set[int] = set()

    def run(self, deadline: Deadline, *, keep: bool = False) -> None:
        """Run all shards, then delete the Job, even after an error.

        Args:
            deadline: when it must be finished.
            keep: whether to keep the Job for an hour.

        Raises:
            ClusterError: the cluster runs no pods, or no images; or it refuses the Job.
            WaitFailed: the pods can no longer finish, e.g. their image cannot be pulled.
            WaitTimeout: they did not end in time.
        """
        self._check_cluster(deadline)
        manifest = self._suite.manifest(deadline.remaining)
        try:
            made = self._session.create(JOBS, manifest, self._namespace, deadline=deadline)
        except ApiError as error:
            raise ClusterError(f"the Job could not be made: {error}") from error
        name = made["metadata"]["name"]
        self._report(f"job {self._namespace}/{name} runs {self._suite.shards} shards")
        factory = SharedInformerFactory(
            self._client, namespace=self._namespace, label_selector=f"{_JOB_LABEL}={name}"
        )
        pods = factory.informer_for("pods")
        pods.add_event_handler(add=self._report_pod, update=lambda _, pod: self._report_pod(pod))
        try:
            with factory:
                factory.wait_for_cache_sync(timeout=deadline.remaining)
                wait_for_job_finish(self._client, self._namespace, name, timeout=deadline.remaining)
            for pod in self._pods(name, deadline):
                self._report_pod(pod)
        finally:
            self._missing_outcomes()
            if not keep:
                self._remove(name)

    def _check_cluster(self, deadline: Deadline) -> None:
        """Refuse a cluster that cannot run the Job.

        A client without access to nodes is on a shared cluster, which can.
        """
        try:
            answer = request_with_retry(
                # All of them: tests add nodes of their own.
                lambda deadline: self._session.request("GET", NODES.path(), deadline=deadline),
                deadline,
            )
        except ApiError:
            return
        except DeadlineExceeded as error:
            raise ClusterError(f"the cluster does not answer: {error}") from error
        nodes = decode_object(answer.data).get("items") or []
        infos = [(node.get("status") or {}).get("nodeInfo") or {} for node in nodes]
        if any(info.get("osImage") == _SIMULATED_OS for info in infos):
            raise ClusterError(
                "the nodes of this cluster are simulated and run no images; `kwait shards run` "
                f"needs a cluster with real nodes, or {_ALTERNATIVE}"
            )
        if not nodes and not self._has_controllers(deadline):
            raise ClusterError(
                "this cluster has no nodes and no controllers, so nothing runs a Job; use a "
                f"cluster with real nodes, or {_ALTERNATIVE}"
            )

    def _has_controllers(self, deadline: Deadline) -> bool:
        """Return whether the namespace has what a controller creates in each."""
        try:
            request_with_retry(
                lambda deadline: self._session.get(
                    SERVICE_ACCOUNTS, "default", self._namespace, deadline=deadline
                ),
                deadline,
            )
        except ApiError as error:
            return error.status != 404
        return True

    def _pods(self, name: str, deadline: Deadline) -> list[dict[str, Any]]:
        listed = request_with_retry(
            lambda deadline: self._session.list(
                PODS, self._namespace, label_selector=f"{_JOB_LABEL}={name}", deadline=deadline
            ),
            deadline,
        )
        return [item.object for item in listed.items]

    def _report_pod(self, pod: Mapping[str, Any]) -> None:
        metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
        index_text = str((metadata.get("annotations") or {}).get(_INDEX_ANNOTATION, ""))
        if not index_text.isdecimal():
            return
        number, name, phase = int(index_text) + 1, str(metadata.get("name")), status.get("phase")
        with self._lock:
            if phase == "Running" and number not in self._started:
                self._started.add(number)
                node = (pod.get("spec") or {}).get("nodeName")
                self._report(f"shard {number}/{self._suite.shards} runs on {node} (pod {name})")
            if phase not in ("Succeeded", "Failed") or number in self._over:
                return
            self._over.add(number)
            self._done(self._shard(number, name, pod))

    def _shard(self, number: int, name: str, pod: Mapping[str, Any]) -> ShardOutcome:
        container = _container(pod)
        try:
            log = request_with_retry(
                lambda deadline: self._session.logs(
                    self._namespace, name, container=container, deadline=deadline
                ),
                Deadline.after(60.0),
            )
        except (KwaitError, DeadlineExceeded) as error:
            return ShardOutcome(number, name, None, f"its log could not be read: {error}")
        results = unpack_results(log)
        if results is None:
            return ShardOutcome(
                number, name, None, f"no results: {_termination_reason(pod, container)}", log
            )
        return ShardOutcome(number, name, results, log=results.log)

    def _missing_outcomes(self) -> None:
        with self._lock:
            for number in range(1, self._suite.shards + 1):
                if number not in self._over:
                    self._over.add(number)
                    self._done(ShardOutcome(number, "", None, "it did not end"))

    def _remove(self, name: str) -> None:
        try:
            request_with_retry(
                lambda deadline: self._session.delete(
                    JOBS,
                    name,
                    self._namespace,
                    propagation_policy="Background",
                    deadline=deadline,
                ),
                Deadline.after(30.0),
            )
        except (KwaitError, DeadlineExceeded) as error:
            self._report(f"job {self._namespace}/{name} stays: {error}")


def _container(pod: Mapping[str, Any]) -> str:
    names = [container["name"] for container in pod["spec"]["containers"]]
    return CONTAINER if CONTAINER in names else str(names[0])


def _termination_reason(pod: Mapping[str, Any], container: str) -> str:
    status = pod.get("status") or {}
    for container_status in status.get("containerStatuses") or []:
        ended = (container_status.get("state") or {}).get("terminated")
        if container_status.get("name") == container and ended:
            return f"{ended.get('reason') or 'ended'}, exit code {ended.get('exitCode')}"
    return str(status.get("message") or status.get("reason") or f"pod {status.get('phase')}")
