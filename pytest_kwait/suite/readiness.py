"""Readiness of an existing cluster: nodes, system pods and daemon sets, checked once per run.

Source: kubernetes/test/e2e/e2e.go setupSuite.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from pytest_kwait.client.session import ApiSession
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, KwaitError, WaitTimeout
from pytest_kwait.framework.daemonset import wait_for_daemon_sets
from pytest_kwait.framework.node.wait import schedulable_nodes
from pytest_kwait.framework.pod.list_wait import wait_for_almost_all_pods_ready
from pytest_kwait.framework.registry import condition_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.engine.condition import Condition
    from pytest_kwait.suite.config.settings import Settings

SYSTEM_NAMESPACE = "kube-system"
"""The namespace of the cluster's own pods."""

_NOT_READY = "the cluster is not ready for tests"
_ADVICE = (
    "no test that uses the cluster is run; --kwait-no-session-waits runs them all the same,\n"
    "--kwait-allowed-not-ready-nodes N lets N nodes and system pods be as they are"
)


class Readiness:
    """Waits for nodes, system pods and daemon sets when the first test starts.

    Tests do not run on a cluster whose nodes or system pods do not become ready within
    `node_schedulable` and `system_pods_startup`; unready daemon sets are only reported. Objects
    that the run's identity may not read are skipped and reported. A failing system pod may recover,
    so no wait ends before its limit. A cluster without any schedulable node is ready, since tests
    of the API alone need none.

    Args:
        dump: writes a dump of an unready cluster, and returns its place as a line.

    Source: e2e.go setupSuite. Upstream takes any error for ready pods if it saw few others last.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        dump: Callable[[Cluster], str] = lambda cluster: "",
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._dump = dump
        self._lock = threading.Lock()
        self._problem: str | None = None
        self._reported_for = ""
        self.notes: list[str] = []
        """Report lines about a cluster that tests run on."""

    def problem(self, test: str) -> str:
        """Return why tests may not use the cluster; empty if they may.

        The first caller waits, and later callers wait for its result.

        Args:
            test: the calling test; only the first one gets the full message.
        """
        with self._lock:
            if self._problem is None:
                self._problem = self._find()
            if not self._problem:
                return ""
            self._reported_for = self._reported_for or test
            if test == self._reported_for:
                return self._problem
            return f"{_NOT_READY}, as said of {self._reported_for}"

    def _find(self) -> str:
        settings = self._settings
        allowed = settings.allowed_not_ready_nodes
        client = self._cluster.client()
        try:
            session = ApiSession.of(client)
            if allowed >= 0:
                nodes = schedulable_nodes(allowed, settings.non_blocking_taints, least=0)
                self._wait(session, nodes, "node_schedulable", "nodes")
            if allowed >= 0 and settings.min_startup_pods >= 0:
                pods = condition_of(wait_for_almost_all_pods_ready)(
                    SYSTEM_NAMESPACE, settings.min_startup_pods, allowed
                )
                self._wait(session, pods, "system_pods_startup", f"pods of {SYSTEM_NAMESPACE}")
            if allowed >= 0:
                self._check_daemon_sets(session, allowed)
        except KwaitError as error:
            dump_note = self._dump(self._cluster)
            return "\n".join(filter(None, (f"{_NOT_READY}:", str(error), dump_note, _ADVICE)))
        finally:
            client.close()  # type: ignore[no-untyped-call] # the official client has no types here
        return ""

    def _check_daemon_sets(self, session: ApiSession, allowed: int) -> None:
        condition = condition_of(wait_for_daemon_sets)(SYSTEM_NAMESPACE, allowed)
        try:
            self._wait(
                session, condition, "system_daemonset_startup", f"daemon sets of {SYSTEM_NAMESPACE}"
            )
        except WaitTimeout as error:
            self.notes.append(f"tests have run though {error.args[0]}")
        except ApiError as error:
            self.notes.append(
                f"the daemon sets of {SYSTEM_NAMESPACE} could not be looked at: {error}"
            )

    def _wait(self, session: ApiSession, condition: Condition, timeout: str, subject: str) -> Any:
        settings = self._settings
        options = WaitSettings(
            timeout=settings.timeouts()[timeout],
            poll=settings.poll,
            mode=settings.mode,
            fail_fast=False,
        )
        try:
            wait_for_condition(session, condition, options)
        except ApiError as error:
            if error.status != 403:
                raise
            self.notes.append(
                f"not awaited before the first test, as forbidden: {subject}: {error}"
            )
