"""One test with a set-up that stays: an operator and fifty definitions; bar 2 s, pytest included.

Run it as `python -m benchmarks.reused_environment [ROUNDS]`. Peer: the same with `--kwait-renew`, a
fresh set-up, in turn and on the same cluster.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.children import run_child
from benchmarks.pairs import Pairs, measure, seconds
from benchmarks.rows import Row, run_alone
from pytest_kwait.clusters.simulator_process import SimulatorProcess

BAR = 2.0
_DEFINITIONS = 50
_SUITE = """
import pytest
import pytest_kwait

@pytest.fixture(scope="session")
def kwait_images():
    return {"shop/operator:*": ["python", "operator_main.py"]}

@pytest_kwait.environment(scope="cluster")
def shop(kwait):
    kwait.apply("definitions.yaml", "operator.yaml")
    kwait.wait_for_rollout_status("deployment/operator")
    yield

def test_order(shop, kwait):
    order = {"apiVersion": "shop.example.com/v1", "kind": "Order7", "metadata": {"name": "a"}}
    kwait.create(order)
    assert shop.get("deployment/operator")
"""
_OPERATOR = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator}
spec:
  selector: {matchLabels: {app: operator}}
  template:
    metadata: {labels: {app: operator}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "shop/operator:1"}]
"""
_DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: order%(n)ds.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: order%(n)ds, singular: order%(n)d, kind: Order%(n)d}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
"""


def measure_rows(rounds: int = 5) -> list[Row]:
    """Run both in turns."""
    with TemporaryDirectory() as folder, TemporaryDirectory() as place:
        definitions = [_DEFINITION % {"n": number} for number in range(_DEFINITIONS)]
        files = {
            "pytest.ini": "[pytest]\n",
            "test_shop.py": _SUITE,
            "operator.yaml": _OPERATOR,
            "definitions.yaml": "---".join(definitions),
            "operator_main.py": "import time\ntime.sleep(3600)\n",
        }
        for name, text in files.items():
            Path(folder, name).write_text(text)
        kubeconfig = Path(place, "kubeconfig")
        process = SimulatorProcess(kubeconfig, Path(place, "log"))
        try:
            pairs = _compare(folder, kubeconfig, rounds)
        finally:
            process.stop()
    print("one test with an operator and fifty definitions")
    print(pairs.lines("set-up of an earlier run", "--kwait-renew"))
    return [
        Row("a run with a set-up that stays", median(pairs.ours), BAR, "s"),
        Row("the same of one that is made", pairs.median_ratio, 1.0),
    ]


def _compare(folder: str, kubeconfig: Path, rounds: int) -> Pairs:
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--kwait-kubeconfig={kubeconfig}", "--kwait-reuse=always"]
    # The plugins that pytest-kwait brings; others that are installed here take their own time.
    command += ["-p", "pytest_kwait.plugin", "-p", "pytest_timeout", "-p", "xdist.plugin"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is kept, as usual

    def run(*options: str) -> float:
        return seconds(lambda: run_child([*command, *options], cwd=folder, env=environment))

    return measure(run, lambda: run("--kwait-renew"), rounds)


if __name__ == "__main__":
    run_alone(measure_rows)
