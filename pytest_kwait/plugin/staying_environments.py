"""Environments that stay after a run: their inputs, health and removal."""

from __future__ import annotations

import json
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.client.resource import NAMESPACES
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, ClusterError
from pytest_kwait.plugin.cluster import RunCluster
from pytest_kwait.plugin.run import run_of, run_settings
from pytest_kwait.suite.cleanup.janitor import Janitor
from pytest_kwait.suite.cleanup.owned_objects import ENVIRONMENTS_RUN, Owner
from pytest_kwait.suite.environment_inputs import (
    Project,
    describe_change,
    digest_text,
    digest_value,
    list_code,
    list_program,
    recorded_files,
)
from pytest_kwait.suite.environment_objects import (
    describe_changed_object,
    digest_objects,
    digest_programs,
    recorded_objects,
)
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pytest
    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.suite.environments import EnvironmentLease, EnvironmentState

_OLD = "what an earlier run has made of this environment"

_LOOK_TIMEOUT = 15.0
"""Seconds for the requests of one look at the objects of an environment."""


class StayingInputs:
    """The inputs of one environment, and what it has left in the cluster.

    Args:
        function: makes the environment.
        fixtures: the values of the fixtures that it requests, by name.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        fixtures: Mapping[str, Any],
        config: pytest.Config,
        cluster: Cluster,
        client: ApiClient,
    ) -> None:
        self.project = Project(config.rootpath)
        self._function = function
        self._fixtures = fixtures
        self._config = config
        self._cluster = cluster
        self._client = client
        self._session = ApiSession.of(client)
        self._settings = run_settings(config)
        self._inputs: dict[str, str] = {}

    def _list_inputs(self) -> dict[str, str]:
        """Return the digests of all that is known before the function runs; read once."""
        if not self._inputs:
            security = self._settings.pod_security
            self._inputs = {
                "the version of pytest-kwait": digest_text(version("pytest-kwait")),
                "--kwait-pod-security": digest_text(str(security)),
                **list_code(self._function, self.project),
            }
            for name, value in self._fixtures.items():
                self._inputs[f"the value of fixture {name}"] = digest_value(value, self.project)
            for mapping in run_of(self._config).get(RunCluster).mappings_of(self._cluster):
                self._inputs |= list_program(mapping, self.project)
        return self._inputs

    def check(self, state: EnvironmentState) -> str:
        """Return why the environment must be made again, as a sentence; empty if it is as it was.

        Raises:
            ApiError: the server has an error.
        """
        if self._settings.renew:
            return "--kwait-renew asks for it"
        try:
            record = json.loads(state.record)
            before, files, objects = record["inputs"], record["files"], record["objects"]
            programs = dict(record["programs"])
            now = {name: self.project.digest(name) for name in files}
            changed = describe_change(before, self._list_inputs()) or describe_change(files, now)
        except (AttributeError, KeyError, TypeError, ValueError):
            return "its record cannot be read"
        changed = changed or describe_changed_object(self._session, objects, _limit())
        return changed or self._describe_changed_program(objects, programs)

    def _describe_changed_program(
        self, objects: Mapping[str, str], programs: Mapping[str, str]
    ) -> str:
        """Return the first pod that was restarted, as a sentence; empty for none.

        Between two runs it may have started without the program that its image is mapped to.
        """
        now = digest_programs(self._session, objects, _limit()) if programs else {}
        for pod, containers in programs.items():
            if now.get(pod) != containers:
                return f"{pod} was restarted or replaced"
        return ""

    @contextmanager
    def recorded(self) -> Iterator[Callable[[str], str]]:
        """Record what the function reads and creates during the block.

        Yields:
            a function of the namespace that returns the record.
        """
        inputs = self._list_inputs()
        with recorded_files(self.project) as list_files, recorded_objects() as names:

            def finish(namespace: str) -> str:
                files = {name: digest for name, digest in list_files().items() if digest}
                own = f"{NAMESPACES.api_version} {NAMESPACES.kind} - {namespace}"
                objects = digest_objects(self._session, sorted({own, *names}), _limit())
                is_mapped = bool(run_of(self._config).get(RunCluster).mappings_of(self._cluster))
                programs = digest_programs(self._session, objects, _limit()) if is_mapped else {}
                record = {"inputs": inputs, "files": files, "objects": objects}
                return json.dumps(record | {"programs": programs})

            yield finish

    def remove_old(self, lease: EnvironmentLease, state: EnvironmentState) -> None:
        """Remove what earlier processes have made, and wait until it is gone.

        Raises:
            ClusterError: something stays.
        """
        seconds = self._settings.timeouts()["namespace_deletion"]
        janitor = Janitor(self._client, run=ENVIRONMENTS_RUN)
        deadline = Deadline.after(seconds)
        try:
            sweep = janitor.sweep_own(lease.place(), state.kinds, deadline)
            if getattr(self._cluster, "has_controllers", True):
                janitor.wait(sweep, deadline)
        except (ApiError, DeadlineExceeded) as error:
            raise ClusterError(f"{_OLD} cannot be removed: {error}") from error
        left = [f"{leftover}: {leftover.blocked or 'no reason'}" for leftover in sweep.staying]
        if problems := [*sweep.problems, *left]:
            raise ClusterError(f"{_OLD} is not removed: {'; '.join(problems)}")

    def owner(
        self, lease: EnvironmentLease, place: str, title: str, state: EnvironmentState
    ) -> Owner:
        """Return the owner of the objects of the environment."""
        run = run_of(self._config)
        return Owner(
            ENVIRONMENTS_RUN,
            f"environment {place}",
            title,
            attempt=max(state.attempt, 1),
            nonce=run.nonce,
            registration=lease,
        )

    def note(self, name: str, line: str) -> None:
        """Add a line to the end of the run."""
        source = run_of(self._config).source_of(self._cluster)
        source.add_note(f"environment {name}: {line}")

    def describe_making(self, state: EnvironmentState) -> str:
        """Return that the environment is made, and why."""
        if state.reason:
            return f"made again: {state.reason}"
        lifetime = format_duration(self._settings.reuse_for)
        return f"made, stays {lifetime} after its last use"

    def describe_use(self, state: EnvironmentState) -> str:
        """Return that the environment is used as it was."""
        age = format_duration(max(round(self._session.clock.time() - state.made), 0))
        return f"reused, made {age} ago"


def _limit() -> Deadline:
    return Deadline.after(_LOOK_TIMEOUT)
