"""Cost of a test's namespace relative to the bare API calls: bar 1.5.

Run it as `python -m benchmarks.namespace_overhead [KUBECONFIG [ROUNDS]]`; without a kubeconfig (or
with `-`) on an etcd, a kube-apiserver and a kube-controller-manager of its own. Ours: what the
fixture does before and after a test, labels, annotations, seal and tracking included. Peer: the
official client creates a namespace, polls until its service account and root CA exist, and deletes
it.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kubernetes import client, config

from benchmarks.pairs import measure, seconds
from benchmarks.plane import control_plane
from benchmarks.rows import Row, run_alone
from pytest_kwait.engine.options import Timeouts
from pytest_kwait.suite.cleanup.owned_objects import Owner
from pytest_kwait.suite.namespaces.namespaces import Namespaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BAR = 1.5


def measure_rows(kubeconfig: str = "-", rounds: int = 40) -> list[Row]:
    """Make and delete a namespace with both in turns."""
    with _cluster(kubeconfig) as path:
        api: Any = config.new_client_from_config(path)  # type: ignore[no-untyped-call] # has none
        core = client.CoreV1Api(api)
        namespaces = Namespaces(api, Timeouts)

        def ours() -> float:
            owner = Owner("bench", "t.py::test_it", "test_it", nonce=uuid.uuid4().hex)
            return seconds(lambda: namespaces.delete(namespaces.make(owner, {})))

        def peer() -> float:
            return seconds(lambda: _bare(core, f"bench-{uuid.uuid4().hex[:8]}"))

        pairs = measure(ours, peer, rounds)
        calls = measure(
            lambda: seconds(lambda: _calls(core, f"bench-{uuid.uuid4().hex[:8]}")),
            lambda: 1.0,
            rounds // 2,
        )
    print(f"a namespace made, ready and deleted, {rounds} rounds in turns")
    print(pairs.lines("pytest-kwait", "the official client, bare calls"))
    print(calls.lines("the calls to make and to delete alone", "").splitlines()[0])
    return [Row("a namespace, of the bare calls' time", pairs.median_ratio, BAR)]


def _bare(core: Any, name: str) -> None:
    core.create_namespace({"metadata": {"name": name}})
    _until(lambda: core.read_namespaced_service_account("default", name))
    _until(lambda: core.read_namespaced_config_map("kube-root-ca.crt", name))
    core.delete_namespace(name)


def _calls(core: Any, name: str) -> None:
    core.create_namespace({"metadata": {"name": name}})
    core.delete_namespace(name)


def _until(read: Callable[[], object]) -> None:
    while True:
        try:
            read()
        except client.ApiException as error:
            if error.status != 404:
                raise
        else:
            return


@contextmanager
def _cluster(kubeconfig: str) -> Iterator[str]:
    if kubeconfig != "-":
        yield kubeconfig
        return
    with control_plane(controllers=True) as own:
        yield str(own)


if __name__ == "__main__":
    run_alone(measure_rows)
