"""Trace which modules of the package a request, a wait or a pod's start walks through.

Run `python -m tools.walks [ROOT]` for the figures of a checkout, this one by default; the traced
process imports nothing of this one, so that two commits are traced by the same rules. A walk is the
modules in the order of their first call and the calls between them, seen by `sys.setprofile`.

Calls go one way where one module imports the other, itself or through others. The way back is a
callback then: the caller does not know the module, it calls a function, a Protocol or a subclass's
method that it was given, or pytest or asyncio calls a registered function. Two modules that import
each other, in functions or through others, need each other: there should be none.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import opcode
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, FrameType

PACKAGE = "pytest_kwait"
ROOT = Path(__file__).parents[1]
_READY_SECONDS = 60.0
_END_SECONDS = 60.0
_BACKGROUND = "background"
_CLOCK = "simulator.clock"
_TASKS = "simulator.suspendable"
_WORKQUEUE = "simulator.controllers.workqueue"
_INTERPRETED = {"image": "busybox", "command": ["sleep", "600"]}
_IMAGE = "walks/program:1"
_PROGRAM = {
    "pattern": _IMAGE,
    "command": ["sh", "-c", "echo walking; exec sleep 600"],
    "env": {"PATH": os.defpath},
}
_YIELD = opcode.opmap["YIELD_VALUE"]

_SUITE = """
import pytest

JOB = {{
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {{"name": "sleepers"}},
    "spec": {{
        "parallelism": 1,
        "template": {{"spec": {{
            "restartPolicy": "Never",
            "containers": [{{"name": "c", "image": "busybox", "command": ["sleep", "600"]}}],
        }}}},
    }},
}}

@pytest.fixture
def job(kwait):
    kwait.apply(JOB)

@pytest.mark.wait_for_job_pods_running("sleepers", {count}, timeout="20s")
def test_pods_run(job):
    pass
"""


class Walk(NamedTuple):
    """The modules and calls of a walk.

    Args:
        modules: dotted names without the package, in the order of their first call.
        calls: pairs of caller and callee; a generator or coroutine is called where it starts.
        direct: the calls that went through no other package.
    """

    modules: list[str]
    calls: list[tuple[str, str]]
    direct: set[tuple[str, str]]

    @property
    def folders(self) -> set[str]:
        """The folders directly in the package that were entered."""
        return {name.split(".")[0] for name in self.modules}

    @property
    def two_way(self) -> list[tuple[str, str]]:
        """Pairs of modules that call each other, callbacks included."""
        calls = set(self.calls)
        return sorted(pair for pair in calls if pair[0] < pair[1] and pair[::-1] in calls)

    def find_mutual(self, root: Path) -> list[tuple[str, str]]:
        """Return the two-way pairs of which neither direction is a callback."""
        graph = _read_imports(root)
        known: dict[str, set[str]] = {}

        def knows(caller: str, callee: str) -> bool:
            above, below = (f"{PACKAGE}.{name}" if name else PACKAGE for name in (caller, callee))
            if above not in known:
                known[above] = _find_reachable(graph, above)
            return (caller, callee) in self.direct and below in known[above]

        return [(a, b) for a, b in self.two_way if knows(a, b) and knows(b, a)]


@cache
def _read_imports(root: Path) -> dict[str, set[str]]:
    """Return what each module imports; reading the package takes seconds."""
    from tools.structure import import_graph, read_package

    return import_graph(read_package(root))


def _find_reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    rest = [start]
    while rest:
        new = graph[rest.pop()] - reached
        reached |= new
        rest += new
    return reached


class _Tracer:
    """Record calls between modules of the package, by asyncio task.

    Functions that a clock has called during the last record are left out of the next, with all
    that they call: heartbeats come at any time.
    """

    def __init__(self) -> None:
        self.on = False
        self._timed: set[CodeType] = set()
        self._timed_before: set[CodeType] = set()
        self._seen: dict[str, tuple[dict[str, None], dict[tuple[str, str], bool]]] = {}
        self._names: dict[str, str | None] = {}

    def start(self, *_: object) -> None:
        self._seen = {}
        self._timed_before, self._timed = self._timed, set()
        self.on = True

    def dump(self, path: Path) -> None:
        self.on = False
        found = {
            task: [list(order), [[*call, direct] for call, direct in calls.items()]]
            for task, (order, calls) in self._seen.items()
        }
        part = path.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.replace(path)

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if not self.on or event != "call":
            return
        name = self._name(frame)
        if name is None or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return  # not of the package, or the body of a module or class
        if frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _YIELD:
            return  # a generator or coroutine that goes on
        caller = frame.f_back
        while caller is not None and self._name(caller) is None:
            caller = caller.f_back
        above = None if caller is None else self._name(caller)
        is_timer = self._is_timer(caller)
        if not is_timer and self._is_recorded(above, name, is_direct=caller is frame.f_back):
            return
        if self._is_import(caller):
            return
        if is_timer and name not in (_CLOCK, _TASKS):
            self._timed.add(frame.f_code)
        if self._timed_before and self._is_timed(frame):
            return
        order, calls = self._seen.setdefault(_task_name(), ({}, {}))
        order.setdefault(name)
        if above is not None and above != name:
            calls[above, name] = calls.get((above, name), False) or caller is frame.f_back

    def _is_recorded(self, above: str | None, name: str, *, is_direct: bool) -> bool:
        """Return whether a further call would change nothing of the record, as most would."""
        order, calls = self._seen.get(_task_name(), ({}, {}))
        if name not in order:
            return False
        if above is None or above == name:
            return True
        was_direct = calls.get((above, name))
        return was_direct is not None and (was_direct or not is_direct)

    def _is_import(self, frame: FrameType | None) -> bool:
        """Return whether a frame, or one that has called it, is the body of a module or class."""
        while frame is not None:
            is_body = not frame.f_code.co_flags & inspect.CO_OPTIMIZED
            if is_body and self._name(frame) and frame.f_globals.get("__name__") != "__main__":
                return True
            frame = frame.f_back
        return False

    def _is_timer(self, caller: FrameType | None) -> bool:
        """Return whether a caller is the clock, or what the event loop runs its timers with."""
        if caller is None or self._name(caller) not in (_CLOCK, _TASKS):
            return False
        above = caller.f_back
        is_of_loop = above is not None and above.f_globals.get("__name__") == "asyncio.events"
        return is_of_loop or self._name(caller) == _CLOCK

    def _is_timed(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code in self._timed_before:
                return True
            frame = frame.f_back
        return False

    def _name(self, frame: FrameType) -> str | None:
        path = frame.f_code.co_filename
        if path not in self._names:
            _, found, rest = path.rpartition(f"{os.sep}{PACKAGE}{os.sep}")
            name = rest.removesuffix(".py").replace(os.sep, ".").removesuffix(".__init__")
            self._names[path] = name if found and path.endswith(".py") else None
        return self._names[path]


def _task_name() -> str:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return _BACKGROUND
    return _BACKGROUND if task is None else task.get_name()


def _run_traced(output: Path, module: str, arguments: list[str], *, at_once: bool) -> None:
    """Run a module as `python -m` does; SIGUSR1 restarts the record, SIGUSR2 writes it."""
    tracer = _Tracer()
    signal.signal(signal.SIGUSR1, tracer.start)
    signal.signal(signal.SIGUSR2, lambda *_: tracer.dump(output))
    threading.setprofile(tracer.profile)
    sys.setprofile(tracer.profile)
    if at_once:
        tracer.start()
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sys.setprofile(None)
        if at_once:
            tracer.dump(output)


def _command(output: Path, module: str, *arguments: str, at_once: bool = False) -> list[str]:
    mode = ["--at-once"] if at_once else []
    return [sys.executable, "-P", __file__, "--trace", str(output), *mode, module, *arguments]


def _environment(root: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KWAIT_")}
    return {**kept, "PYTHONPATH": str(root)}


def _read(output: Path, wanted: Callable[[list[str]], bool] = lambda _: True) -> Walk:
    modules: dict[str, None] = {}
    calls: dict[tuple[str, str], None] = {}
    direct: set[tuple[str, str]] = set()
    for order, pairs in json.loads(output.read_text()).values():
        if wanted(order):
            modules.update(dict.fromkeys(order))
            calls.update(dict.fromkeys((above, below) for above, below, _ in pairs))
            direct |= {(above, below) for above, below, is_direct in pairs if is_direct}
    return Walk(list(modules), list(calls), direct)


def _run_suite(root: Path, count: int, *options: str) -> Walk:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "walk.json")
        Path(folder, "test_walk.py").write_text(_SUITE.format(count=count))
        command = _command(output, "pytest", "-q", "-p", "no:cacheprovider", *options, at_once=True)
        suite = subprocess.Popen(
            command, cwd=folder, env=_environment(root), stdout=subprocess.DEVNULL
        )
        try:
            suite.wait()
        finally:
            # After a test's limit: it ends its workers and its cluster, which write in the folder.
            suite.send_signal(signal.SIGINT)
            suite.wait(_END_SECONDS)
        return _read(output)


class _Cluster:
    """A traced embedded cluster, for the time of a `with` block."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = tempfile.TemporaryDirectory()
        self.output = Path(self._folder.name, "walk.json")

    def __enter__(self) -> Self:
        kubeconfig = Path(self._folder.name, "kubeconfig")
        ready, end = os.pipe()
        with tempfile.TemporaryFile() as options:
            given = {"nodes": 1, "timing": "fast", "images": [_PROGRAM]}
            options.write(json.dumps(given).encode())
            options.seek(0)
            command = _command(
                self.output, f"{PACKAGE}.simulator", "--kubeconfig", str(kubeconfig),
                "--options-fd", str(options.fileno()), "--ready-fd", str(end),
            )  # fmt: skip
            self._process = subprocess.Popen(
                command,
                env=_environment(self._root),
                pass_fds=[end, options.fileno()],
                stderr=subprocess.DEVNULL,
            )
        os.close(end)
        os.read(ready, 1)
        os.close(ready)
        from kubernetes import client, config

        loader: Any = config
        loaded = client.Configuration()
        # The client's certificates are removed with the folder.
        loader.load_kube_config(
            str(kubeconfig), client_configuration=loaded, temp_file_path=self._folder.name
        )
        self.core: Any = client.CoreV1Api(client.ApiClient(loaded))
        _until(lambda: self.core.list_namespaced_service_account("default").items)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def watch_pods(self) -> Iterator[Any]:
        """Yield the events of pods, over a connection that is opened at once."""
        from kubernetes import watch

        pods: Any = watch
        yield from pods.Watch().stream(self.core.list_namespaced_pod, "default", timeout_seconds=30)

    def begin(self) -> None:
        """Restart the record."""
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(0.2)

    def end(self) -> None:
        """Write the record."""
        self._process.send_signal(signal.SIGUSR2)
        _until(self.output.exists)

    def settle(self) -> None:
        """Wait for a second without work of controllers; its heartbeats are no part of the walk."""

        def is_idle() -> bool:
            self.begin()
            time.sleep(1.0)
            self.end()
            modules = _read(self.output).modules
            self.output.unlink()
            return _WORKQUEUE not in modules

        _until(is_idle)

    def create_pod(
        self, scheduler: str = "default-scheduler", container: Mapping[str, Any] = _INTERPRETED
    ) -> None:
        """Create the pod `walker`."""
        spec = {"schedulerName": scheduler, "containers": [{"name": "c", **container}]}
        self.core.create_namespaced_pod("default", {"metadata": {"name": "walker"}, "spec": spec})


def _until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + _READY_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the embedded cluster did not come so far")
        time.sleep(0.05)


def trace_marker_wait(root: Path) -> Walk:
    """Trace a run of one test with the marker of a wait that holds."""
    return _run_suite(root, 1, "--kwait-cluster=embedded")


def trace_failing_wait(root: Path) -> Walk:
    """Trace a run of one test with the marker of a wait that fails, to its message."""
    return _run_suite(root, 3, "--kwait-cluster=embedded")


def trace_shard_run(root: Path) -> Walk:
    """Trace a run of one shard of two."""
    return _run_suite(root, 1, "--kwait-cluster=embedded", "--kwait-shard=1/1")


def trace_post_pod(root: Path) -> Walk:
    """Trace the POST of a pod to the event of a watch of pods, without controllers."""
    with _Cluster(root) as cluster:
        seen = threading.Event()

        def follow() -> None:
            for event in cluster.watch_pods():
                if event["object"].metadata.name == "walker":
                    seen.set()
                    return

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        time.sleep(1.0)
        cluster.begin()
        cluster.create_pod(scheduler="none")
        seen.wait(_READY_SECONDS)
        cluster.end()
        # The tasks of the two connections; what is called without a task belongs to controllers.
        data = json.loads(cluster.output.read_text())
        data.pop(_BACKGROUND, None)
        cluster.output.write_text(json.dumps(data))
        return _read(cluster.output)


def trace_pod_start(root: Path) -> Walk:
    """Trace all calls from a pod's creation until it is Running."""
    with _Cluster(root) as cluster:
        cluster.settle()
        cluster.begin()
        cluster.create_pod()

        def is_running() -> bool:
            pod = cluster.core.read_namespaced_pod("walker", "default")
            return bool(pod.status.phase == "Running")

        _until(is_running)
        cluster.end()
        return _read(cluster.output)


def trace_program_start(root: Path) -> Walk:
    """Trace all calls from the creation of a pod with a mapped image to its program's first log."""
    with _Cluster(root) as cluster:
        cluster.settle()
        cluster.begin()
        cluster.create_pod(container={"image": _IMAGE})
        from kubernetes.client import ApiException

        def is_logged() -> bool:
            try:
                return bool(cluster.core.read_namespaced_pod_log("walker", "default"))
            except ApiException:
                return False  # it has not started

        _until(is_logged)
        cluster.end()
        return _read(cluster.output)


WALKS: dict[str, Callable[[Path], Walk]] = {
    "marker wait": trace_marker_wait,
    "failing wait": trace_failing_wait,
    "POST pod": trace_post_pod,
    "pod to Running": trace_pod_start,
    "program to log": trace_program_start,
    "shard run": trace_shard_run,
}


def trace_walk(name: str, root: Path = ROOT) -> Walk:
    """Trace one of `WALKS` in a checkout."""
    return WALKS[name](root)


def main() -> None:
    """Print the figures of every walk, or run a module traced."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--at-once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--modules", action="store_true", help="list the modules of each walk")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="ROOT")
    given = parser.parse_args()
    if given.trace:
        _run_traced(given.trace, given.rest[0], given.rest[1:], at_once=given.at_once)
        return
    root = Path(given.rest[0]).resolve() if given.rest else ROOT
    for name in WALKS:
        walk = trace_walk(name, root)
        mutual = walk.find_mutual(root)
        print(
            f"{name:15} {len(walk.modules):3} modules in {len(walk.folders)} folders, "
            f"{len(walk.two_way)} two-way pairs, {len(mutual)} besides callbacks"
        )
        if given.modules:
            for module in walk.modules:
                print(f"    {module}")
            for pair in walk.two_way:
                note = "" if pair in mutual else " (callback)"
                print(f"    {pair[0]} <-> {pair[1]}{note}")


if __name__ == "__main__":
    main()
