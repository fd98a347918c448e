"""Run benchmarks and print one table of their figures: `python -m benchmarks [NAME ...]`.

Each runs in a process of its own, with its default arguments; what it prints meanwhile goes to
standard error. One that fails, or lacks something, has a row that says why.
"""

from __future__ import annotations

import argparse
import sys
import traceback

from benchmarks.children import run_benchmark
from benchmarks.rows import CannotMeasureError, format_table

BENCHMARKS = {
    "apply_definitions": "apply of 15,000 lines of definitions, beside kubectl",
    "binaries_start": "start of the cluster of binaries, beside the bare programs",
    "container_start": "start of a program in a pod, beside a process",
    "e2e_duration": "e2e/ on the embedded cluster, beside a real one",
    "embedded_api": "latency and throughput of the embedded API, beside kube-apiserver and aiohttp",
    "embedded_capacity": "10,000 pods on 500 nodes with 200 watchers",
    "embedded_start": "start and memory of the embedded cluster, beside etcd and kube-apiserver",
    "explored_runs": "200 explored runs, beside plain ones",
    "fifty_pods": "50 pods of a web app, beside a real kubelet",
    "four_shards": "200 tests in four jobs of two workers",
    "informer_5000": "an informer of 5,000 pods, beside the official client's and kr8s",
    "inner_loop": "one test on a running cluster, beside an empty test",
    "intercepted": "programs in pods by intercepted system calls, beside the same alone",
    "job_5000": "a wait for 5,000 pods, beside the official client's watch",
    "latency_peers": "return of a wait, beside lightkube, kr8s, kubectl and the official client",
    "namespace_overhead": "a test's namespace, beside the bare calls",
    "plugin_load": "loading the plugin, beside pytest without it",
    "programs": "programs in pods and requests to them, beside the same on loopback",
    "recording": "recordings of a suite, beside the same without",
    "report_10000": "the report of 10,000 waits, beside a static table",
    "reused_environment": "a test with a set-up that stays, beside a fresh one",
    "scheduler_throughput": "pods a second of the scheduler, beside kube-scheduler",
    "thousand_pods": "1,000 pods of one controller, beside a real control plane",
    "wait_latency": "return of a wait, beside lightkube's",
    "worst_pause": "reads while another client sends large requests, beside kube-apiserver",
}

_MAX_REASON = 70
"""Characters of a reason in the table; all of it is on standard error."""


def main() -> int:
    """Print the table; return 1 where a bar is missed or a benchmark failed."""
    listed = "\n".join(f"  {name:<21} {text}" for name, text in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        usage="%(prog)s [NAME ...]",
        description="Run benchmarks, all by default, and print one table of their figures.",
        epilog=f"benchmarks:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="a benchmark")
    names: list[str] = parser.parse_args().name or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}: there are {', '.join(BENCHMARKS)}")
    cells: list[tuple[str, ...]] = []
    is_good = True
    for name in names:
        sys.stderr.write(f"=== {name}: {BENCHMARKS[name]}\n")
        sys.stderr.flush()
        found = run_benchmark(name)
        if isinstance(found, list):
            cells += [row.list_cells(name) for row in found]
            is_good = is_good and all(row.is_met for row in found)
        elif isinstance(found, (CannotMeasureError, ModuleNotFoundError)):
            cells.append((name, str(found), "", "", "not measured"))
        else:
            traceback.print_exception(found)
            first = f"{type(found).__name__}: {found}".partition("\n")[0].removesuffix(":")
            shown = first if len(first) <= _MAX_REASON else f"{first[:_MAX_REASON]}…"
            cells.append((name, shown, "", "", "failed"))
            is_good = False
    print(format_table(cells))
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
