"""Fifty pods of a web app until all are Ready: the embedded cluster beside a real kubelet.

Run it as `python -m tools.controlplane run -- python -m benchmarks.fifty_pods [ROUNDS]`: it needs
root and Go.

Bar: the embedded cluster takes at most 0.3 of the real kubelet's time, in the same run. Both run
the same program of one image mapping, with a readiness probe, and start each round without pods,
once what removes the other's has come to rest.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubernetes import config

from benchmarks.pairs import measure, seconds
from benchmarks.rows import CannotMeasureError, Row, run_alone
from e2e.objects import deployment
from pytest_kwait import wait_for, wait_for_pods_with_label_running_ready
from pytest_kwait.client.resource import DEPLOYMENTS, SERVICE_ACCOUNTS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.clusters.simulator_process import SimulatorProcess
from pytest_kwait.simulator.protocol.image_mapping import make_image_mapping
from pytest_kwait.simulator.protocol.options import EmbeddedOptions
from tools.controlplane.cluster import FOLDER_VARIABLE
from tools.controlplane.polling import poll_until
from tools.controlplane.program_images import import_images

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 50
RATIO = 0.3
NAMESPACE = "default"
TIMEOUT = 600
_LABELS = {"app": "fifty"}
_IDLE = 0.85
_PATIENCE = 60.0
_ROOT = Path(__file__).parents[1]


def _deployment() -> dict[str, Any]:
    serving = {
        "name": "web",
        "image": "kwait.test/benchmarks/web:1",
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1},
    }
    made = deployment("fifty", COUNT)
    made["spec"]["template"]["spec"]["containers"] = [serving]
    return made


def _is_machine_idle() -> bool:
    """Return whether its processors had little to do for a second."""
    before = _read_processor_times()
    SYSTEM_CLOCK.sleep(1)
    idle, total = (after - one for one, after in zip(before, _read_processor_times(), strict=True))
    return idle > _IDLE * total


def _read_processor_times() -> tuple[int, int]:
    """Return the time of all processors without work, and altogether.

    Source: proc_stat(5), the first line.
    """
    times = [int(one) for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return times[3] + times[4], sum(times)


def _starter(kubeconfig: str) -> Callable[[], float]:
    """Return a function that starts the pods, and ends them before it returns the seconds."""
    api = config.new_client_from_config(kubeconfig)  # type: ignore[no-untyped-call]
    session = ApiSession.of(api)
    deadline = Deadline.after(TIMEOUT)
    session.get(SERVICE_ACCOUNTS, "default", NAMESPACE, deadline=deadline)

    def start() -> None:
        session.create(DEPLOYMENTS, _deployment(), NAMESPACE, deadline=Deadline.after(TIMEOUT))
        wait_for_pods_with_label_running_ready(api, NAMESPACE, _LABELS, COUNT, timeout=TIMEOUT)

    def run() -> float:
        if not poll_until(_is_machine_idle, _PATIENCE):
            print("  the machine does not come to rest", flush=True)
        took = seconds(start)
        print(f"  {took:.1f} s on {api.configuration.host}", flush=True)
        session.delete(DEPLOYMENTS, "fifty", NAMESPACE, deadline=Deadline.after(TIMEOUT))
        wait_for(api, NAMESPACE, "pods", "delete", selector=_LABELS, timeout=TIMEOUT)
        return took

    return run


def measure_rows(rounds: int = 3) -> list[Row]:
    """Start the pods on both in turns.

    Raises:
        CannotMeasureError: there is no real node.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise CannotMeasureError(
            "no real node: python -m tools.controlplane run -- python -m benchmarks fifty_pods"
        )
    mapping = make_image_mapping(
        "kwait.test/benchmarks/web:1", [sys.executable, "-m", "e2e.programs.shop.web"],
        env={"PYTHONPATH": _ROOT}, workdir="/srv",
    )  # fmt: skip
    import_images(Path(folder), [mapping])
    with tempfile.TemporaryDirectory() as name:
        kubeconfig = Path(name) / "kubeconfig"
        process = SimulatorProcess(
            kubeconfig, Path(name) / "log", EmbeddedOptions(nodes=1, images=(mapping,))
        )
        try:
            ours, peer = _starter(str(kubeconfig)), _starter(os.environ["KWAIT_KUBECONFIG"])
            pairs = measure(ours, peer, rounds)
        finally:
            process.stop()
    print(f"{COUNT} pods of a web app, from the creation of their deployment to all Ready")
    print(pairs.lines("on the embedded cluster", "on a real kubelet"))
    return [Row("all pods Ready, of a real kubelet's time", pairs.median_ratio, RATIO)]


if __name__ == "__main__":
    run_alone(measure_rows)
