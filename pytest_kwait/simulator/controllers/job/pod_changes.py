"""Making and removing the pods of a Job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.job import indexed_jobs, policies
from pytest_kwait.simulator.controllers.job.sync_context import (
    FINALIZER,
    KIND,
    SYNC_BATCH_PERIOD,
    SyncJobContext,
    remove_finalizer,
)
from pytest_kwait.simulator.controllers.pod_control import (
    SlowStartError,
    is_namespace_terminating,
    is_ready,
    is_terminating,
    make_pod_from_template,
    rank_for_deletion,
    slow_start_batch,
)
from pytest_kwait.simulator.objects import Obj, clone, name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import StatusError

__all__ = ["JobPods"]

# Upstream makes up to 500 side by side; here they are made in turn, and requests served between.
_MAX_PODS_PER_SYNC = 100


@dataclass(slots=True)
class JobPods:
    """What a look does to pods.

    Source: kube-controller-manager, job_controller.go, `manageJob`.
    """

    view: SyncJobContext

    def remove_active(self) -> None:
        """Delete what runs; the finalizers stay until it is counted."""
        for pod in self.view.active:
            self.view.context.control.delete(pod, self.view.job)
            self.view.ready -= is_ready(pod)
            self.view.terminating += 1

    def _remove(self, pods: list[Obj]) -> int:
        """Delete pods that are too many: they do not count."""
        for pod in pods:
            remove_finalizer(self.view.context.api, pod)
            self.view.context.control.delete(pod, self.view.job)
            self.view.ready -= is_ready(pod)
            self.view.terminating += 1
        return len(pods)

    def manage(self) -> tuple[int, StatusError | None]:
        """Make and remove pods; how many are active then, and what was refused."""
        spec, active = self.view.spec, len(self.view.active)
        if spec.get("suspend"):
            return active - self._remove(self._removable(active)), None
        parallelism = spec.get("parallelism", 1)
        if spec.get("completions") is None:
            wanted = active if self.view.succeeded > 0 else parallelism
        else:
            wanted = max(0, min(parallelism, spec["completions"] - self.view.succeeded))
        removable = self._removable(max(0, active - wanted))[:_MAX_PODS_PER_SYNC]
        if removable:
            return active - self._remove(removable), None
        terminating = (
            self.view.terminating if policies.has_failed_replacement_policy(self.view.job) else 0
        )
        missing = min(wanted - terminating - active, _MAX_PODS_PER_SYNC)
        if missing <= 0:
            return active, None
        if not self.view.per_index:
            wait = self._wait_for(self.view.next_retries.failures, self.view.next_retries.last)
            if wait > 0:
                self.view.look_again.append(wait)
                return 0, None
        if not self.view.indexed:
            return self._create([None] * missing, active)
        chosen, wait = self._next_indexes(missing)
        if wait > 0:
            self.view.look_again.append(wait)
            return 0, None
        return self._create(list(chosen), active)

    def _removable(self, least: int) -> list[Obj]:
        remove: list[Obj] = []
        keep = self.view.active
        if self.view.indexed:
            remove, keep = indexed_jobs.split_duplicates(self.view.active, self.view.completions)
        if len(remove) < least:
            remove = remove + rank_for_deletion(keep, {})[: least - len(remove)]
        return remove

    def _wait_for(self, failures: int, last: float) -> float:
        """Real seconds until the next try may be made, at least the batch period if any."""
        clock = self.view.context.api.clock
        left = (
            last + policies.calculate_backoff(failures) * clock.scale - clock.time()
            if failures
            else 0.0
        )
        return max(left, SYNC_BATCH_PERIOD * clock.scale) if left > 0 else 0.0

    def _next_indexes(self, count: int) -> tuple[list[int], float]:
        taken = set(self.view.succeeded_indexes) | (self.view.failed_indexes or set())
        taken |= {
            index
            for pod in self.view.active
            if (index := indexed_jobs.get_completion_index(pod)) is not None
        }
        if policies.has_failed_replacement_policy(self.view.job):
            going = [pod for pod in self.view.pods if is_terminating(pod)]
            taken |= {
                index
                for pod in going
                if (index := indexed_jobs.get_completion_index(pod)) is not None
            }
        chosen = indexed_jobs.first_pending_indexes(count, self.view.completions, taken)
        if not self.view.per_index:
            return chosen, 0.0
        waits: dict[int, float] = {}
        for index in chosen:
            last = self.view.delayed.get(index)
            if last is not None:
                failures = indexed_jobs.get_index_failure_count(last, ignored_too=True) + 1
                waits[index] = self._wait_for(failures, self.view.context.ended(last))
        due = [index for index in chosen if waits.get(index, 0.0) <= 0]
        return (due, 0.0) if due else ([], min(waits.values(), default=0.0))

    def _create(self, chosen: list[int | None], active: int) -> tuple[int, StatusError | None]:
        template = self.view.spec["template"]
        plain = make_pod_from_template(template, self.view.job, *KIND)
        finalizers = plain["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

        def create(number: int) -> None:
            index = chosen[number]
            pod = clone(plain)
            if index is not None:
                self._place_index(pod, index)
            self.view.context.control.create(pod, self.view.job)

        try:
            return active + slow_start_batch(len(chosen), 1, create), None
        except SlowStartError as error:
            refusal = None if is_namespace_terminating(error.cause) else error.cause
            return active + error.done, refusal

    def _place_index(self, pod: Obj, index: int) -> None:
        metadata, spec, name = pod["metadata"], pod["spec"], name_of(self.view.job)
        metadata["generateName"] = f"{name[: 63 - 7 - len(str(index))]}-{index}-"
        metadata.setdefault("annotations", {})[indexed_jobs.INDEX] = str(index)
        metadata.setdefault("labels", {})[indexed_jobs.INDEX] = str(index)
        spec["hostname"] = f"{name}-{index}"
        source = {"fieldRef": {"fieldPath": f"metadata.labels['{indexed_jobs.INDEX}']"}}
        for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
            variables = container.setdefault("env", [])
            if all(one["name"] != "JOB_COMPLETION_INDEX" for one in variables):
                variables.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": clone(source)})
        if self.view.per_index:
            last = self.view.delayed.get(index)
            counted, ignored = 0, 0
            if last is not None:
                counted = indexed_jobs.get_index_failure_count(last)
                ignored = indexed_jobs.get_index_failure_count(last, ignored_too=True) - counted
                counts = policies.match_failure_policy(
                    self.view.spec.get("podFailurePolicy"), last
                ).counts
                counted, ignored = counted + counts, ignored + (not counts)
            metadata["annotations"][indexed_jobs.FAILURE_COUNT] = str(counted)
            if ignored:
                metadata["annotations"][indexed_jobs.IGNORED_FAILURE_COUNT] = str(ignored)
