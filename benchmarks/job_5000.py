"""CPU time of a wait on a job of 5,000 pods: bar a tenth of the official client's typed Watch.

Run it as `python -m benchmarks.job_5000 [KUBECONFIG [PODS]]`; `-` or nothing starts an etcd
and a kube-apiserver of its own. The server needs no kubelet and no controllers: the job has an
unknown `managedBy`, its pods a scheduler that does not exist, and two processes write their
statuses, up to 250 a second.

Two further processes read the same stream at the same time:

- ours: `wait_for_job_pods_running` with its default options, which watches the Job as well and
  evaluates every change, terminal pods included;
- the official client: its documented loop, `kubernetes.watch.Watch().stream(
  v1.list_namespaced_pod, …)` with events as typed models (`V1Pod`), which counts the pods that run.

The CPU time of each process, user and system, counts from before the first status to after the
last. Neither returns the pods: reading each pod that ours returns is printed as a separate cost.
The bar applies at 200 statuses a second and more: at lower rates events arrive one by one and cost
both of them more.

Before the statuses are written the pods' `managedFields` are cleared, which ends their tracking:
it is half of the server's cost of a status, and no reader uses them.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from kubernetes import client, config, watch

from benchmarks.plane import some_cluster
from benchmarks.rows import Row, run_alone
from pytest_kwait import wait_for_job_pods_running
from pytest_kwait.client.resource import JOBS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS
from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

BAR = 0.1
WRITERS = 2
RATE = 250.0
LIMIT = 900.0
JOB = "sleepers"


def measure_rows(kubeconfig: str = "-", pods: int = 5000) -> list[Row]:
    """Wait for the pods with both."""
    # A control plane of our own takes memory rather than time: two processors have to do for all.
    os.environ.setdefault("GOGC", "400")
    with some_cluster(kubeconfig) as used:
        return compare(used, pods)


def compare(kubeconfig: str, pods: int) -> list[Row]:
    """Wait for the pods of one cluster with both."""
    session = ApiSession.of(config.new_client_from_config(kubeconfig))  # type: ignore[no-untyped-call]
    namespace = f"job-5000-{random.randrange(16**6):06x}"
    with ExitStack() as cleanup:
        cleanup.callback(clean, session, namespace)
        uid = prepare(session, namespace, pods)
        spawn = multiprocessing.get_context("spawn")

        def start(function: Any, *arguments: Any) -> Connection:
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=function, args=(theirs, kubeconfig, *arguments))
            process.start()
            theirs.close()
            cleanup.callback(process.join, 10.0)
            cleanup.callback(process.terminate)
            return ours

        writers = [start(write, namespace, uid, pods, part) for part in range(WRITERS)]
        for pipe in writers:
            pipe.recv()
        readers = {
            "pytest_kwait.wait_for_job_pods_running": start(ours, namespace, uid, pods),
            "kubernetes.watch.Watch, typed": start(theirs, namespace, uid, pods),
        }
        for pipe in readers.values():
            pipe.recv()
        begun = SYSTEM_CLOCK.monotonic()
        for pipe in (*readers.values(), *writers):
            pipe.send("go")
        for pipe in writers:
            pipe.recv()
        took = SYSTEM_CLOCK.monotonic() - begun
        costs = {name: pipe.recv() for name, pipe in readers.items()}
    print(f"{pods} pods of two containers, {pods / took:.0f} statuses a second")
    for name, (seconds, megabytes, more) in costs.items():
        cost = f"{seconds:7.2f} s of CPU  {seconds / pods * 1e6:7.0f} us an event"
        looked = f"; to look at all results {more:.2f} s" if more > 0.01 else ""
        print(f"  {name:<40} {cost}   peak {megabytes:5.0f} MB{looked}")
    one, other = (seconds for seconds, _, _ in costs.values())
    return [Row("CPU, of the official client's watch's", one / other, BAR)]


def prepare(session: ApiSession, namespace: str, pods: int) -> str:
    """Create the job; return its UID."""
    session.create(NAMESPACES, {"metadata": {"name": namespace}}, deadline=soon())
    with suppress(ApiError):  # where controllers run they make it
        account = {"metadata": {"name": "default"}}
        session.create(SERVICE_ACCOUNTS, account, namespace, deadline=soon())
    job = {
        "metadata": {"name": JOB},
        "spec": {
            "managedBy": "benchmarks.example.com/job-5000",
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": pod_spec()},
        },
    }
    created = session.create(JOBS, job, namespace, deadline=soon())
    return str(created["metadata"]["uid"])


def clean(session: ApiSession, namespace: str) -> None:
    """Delete the job; the namespace controller deletes the rest."""
    with suppress(ApiError):
        session.delete(NAMESPACES, namespace, deadline=soon())


def soon() -> Deadline:
    """Return the limit of one request."""
    return Deadline.after(30.0)


def selector_of(uid: str) -> str:
    """Return the selector of the job's pods."""
    return f"batch.kubernetes.io/controller-uid={uid}"


def pod_spec() -> dict[str, Any]:
    """Return the spec of a typical pod: two containers, some environment."""
    environment = [{"name": f"SETTING_{i}", "value": f"value-{i:032d}"} for i in range(25)]
    containers = [
        {"name": name, "image": "busybox:1.36", "command": ["sleep", "60"], "env": environment}
        for name in ("main", "sidecar")
    ]
    return {
        "restartPolicy": "Never",
        "schedulerName": "none",
        "automountServiceAccountToken": False,
        "containers": containers,
    }


def pod_status(number: int) -> dict[str, Any]:
    """Return the status that a kubelet reports of a running pod."""
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    now = "2026-01-01T00:00:00Z"
    address = f"10.244.{number // 250}.{number % 250 + 1}"
    return {
        "phase": "Running",
        "startTime": now,
        "hostIP": "10.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds
        ],
        "containerStatuses": [
            {
                "name": name,
                "image": "docker.io/library/busybox:1.36",
                "imageID": f"docker.io/library/busybox@sha256:{number:064d}",
                "containerID": f"containerd://{number:064d}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "lastState": {},
                "state": {"running": {"startedAt": now}},
            }
            for name in ("main", "sidecar")
        ],
    }


def write(
    pipe: Connection, kubeconfig: str, namespace: str, uid: str, pods: int, part: int
) -> None:
    """Create every second pod, and write their statuses on a signal."""
    session = ApiSession.of(config.new_client_from_config(kubeconfig))  # type: ignore[no-untyped-call]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": JOB, "uid": uid, "controller": True}
    labels = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": JOB}
    numbers = range(part, pods, WRITERS)
    for number in numbers:
        name = f"{JOB}-{number:05d}"
        metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
        pod = {"metadata": metadata, "spec": pod_spec()}
        session.create(PODS, pod, namespace, deadline=soon())
        untracked: dict[str, Any] = {"metadata": {"managedFields": [{}]}}
        session.patch(PODS, name, untracked, namespace, deadline=soon())
    pipe.send("made")
    pipe.recv()
    begun = SYSTEM_CLOCK.monotonic()
    for done, number in enumerate(numbers):
        SYSTEM_CLOCK.sleep(begun + done * WRITERS / RATE - SYSTEM_CLOCK.monotonic())
        patch = {"status": pod_status(number)}
        name = f"{JOB}-{number:05d}"
        session.patch(PODS, name, patch, namespace, subresource="status", deadline=soon())
    pipe.send("written")


def read(
    pipe: Connection,
    wait: Callable[[], object],
    ready: Callable[[], bool],
    read_all: Callable[[], object] = lambda: None,
) -> None:
    """Wait in a thread; send the CPU time since the signal, and that of reading all pods."""
    thread = threading.Thread(target=wait)
    thread.start()
    while not ready():
        SYSTEM_CLOCK.sleep(0.1)
    SYSTEM_CLOCK.sleep(1.0)
    pipe.send("watching")
    pipe.recv()
    before = cpu_seconds()
    thread.join(LIMIT)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    waited = cpu_seconds()
    read_all()
    pipe.send((waited - before, megabytes, cpu_seconds() - waited))


def cpu_seconds() -> float:
    """Return the CPU time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ours(pipe: Connection, kubeconfig: str, namespace: str, uid: str, pods: int) -> None:
    """Wait for all pods with a function of ours."""
    api = config.new_client_from_config(kubeconfig)  # type: ignore[no-untyped-call]

    found: list[dict[str, Any]] = []

    def wait() -> None:
        nonlocal found
        found = wait_for_job_pods_running(api, namespace, JOB, pods, timeout=LIMIT)
        assert len(found) == pods

    def read_all() -> None:
        assert all(pod["status"]["phase"] == "Running" for pod in found)

    def ready() -> bool:
        # Printed once everything has been listed.
        return any(wait.seen.startswith("0 of") for wait in ACTIVE_WAITS.waits())

    read(pipe, wait, ready, read_all)


def theirs(pipe: Connection, kubeconfig: str, namespace: str, uid: str, pods: int) -> None:
    """Count the pods that run as the official client's documentation shows it."""
    v1 = client.CoreV1Api(config.new_client_from_config(kubeconfig))  # type: ignore[no-untyped-call]
    selector = selector_of(uid)
    listed: Any = v1.list_namespaced_pod(namespace, limit=1)
    version = listed.metadata.resource_version

    def wait() -> None:
        running = set()
        watching: Any = watch.Watch  # untyped
        stream = watching().stream(
            v1.list_namespaced_pod,
            namespace,
            label_selector=selector,
            resource_version=version,
        )
        for event in stream:
            pod = event["object"]
            if pod.status.phase == "Running" and event["type"] != "DELETED":
                running.add(pod.metadata.uid)
            else:
                running.discard(pod.metadata.uid)
            if len(running) == pods:
                return

    read(pipe, wait, lambda: True)


if __name__ == "__main__":
    run_alone(measure_rows)
