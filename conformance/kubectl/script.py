"""Scripts of kubectl commands, compared by exit code and normalized output.

kubectl must be of the version that recorded them. Normalization removes values that differ from
run to run and from cluster to cluster.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import string
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pytest_kwait.clock import SYSTEM_CLOCK
from tools.controlplane import assets
from tools.raw_api import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SCRIPTS = Path(__file__).with_name("scripts")
"""The folder of the scripts."""


@cache
def find_kubectl() -> tuple[Path | None, str]:
    """Return a kubectl of the recorded version, or the reason why there is none.

    Searched are KUBEBUILDER_ASSETS, the output of `python -m tools.controlplane build`, and the
    PATH.
    """
    _, minor, _ = assets.pinned("k8s.io/kubernetes").split(".", 2)
    found = []
    for program in _candidates():
        version = _minor(program)
        if version == minor:
            return program, ""
        found.append(f"{program} is of 1.{version}")
    others = f" ({', '.join(found)})" if found else ""
    return None, (
        f"there is no kubectl 1.{minor}{others}: put one on the PATH, or run"
        " python -m tools.controlplane build"
    )


def needs_kubectl() -> pytest.MarkDecorator:
    """Return the marker that skips a test, with the reason, where there is no kubectl."""
    program, reason = find_kubectl()
    return pytest.mark.skipif(program is None, reason=reason or "kubectl")


def _candidates() -> Iterator[Path]:
    if given := os.environ.get("KUBEBUILDER_ASSETS"):
        yield from _executable(Path(given))
    version = f"kubernetes-{assets.pinned('k8s.io/kubernetes')}"
    for folder in sorted(assets.storage().glob(f"{version}-etcd-*[0-9]")):
        yield from _executable(folder)
    if on_path := shutil.which("kubectl"):
        yield Path(on_path)


def _executable(folder: Path) -> Iterator[Path]:
    program = folder / "kubectl"
    if os.access(program, os.X_OK):
        yield program


def _minor(program: Path) -> str:
    command = [str(program), "version", "--client", "--output=json"]
    said = subprocess.run(command, capture_output=True, check=False, timeout=60)
    try:
        return str(json.loads(said.stdout)["clientVersion"]["minor"])
    except (ValueError, KeyError):
        return "unknown"


_RANDOM = "bcdfghjklmnpqrstvwxz2456789"
_RULES = [
    (re.compile(pattern, re.MULTILINE), shown)
    for pattern, shown in (
        # A busy node retries, which is not part of the comparison.
        (r"^.*\bFailedMount\b.*failed to sync \w+ cache: timed out waiting for.*\n", ""),
        (r"^.*\bFailedCreatePodSandBox\b.*\n", ""),
        (r"\beyJ[\w-]+\.[\w-]+\.[\w-]*", "<token>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "<time>"),
        (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uid>"),
        (r"https?://(\d{1,3}(\.\d{1,3}){3}|localhost|\[::1\]):\d+", "<server>"),
        (r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?(/\d+)?\b", "<address>"),
        (r"(containerd|kwait)://\S+|\b\S+@sha256:[0-9a-f]{64}\b|\bsha256:[0-9a-f]{64}\b", "<id>"),
        (r"\b(kwait-)?node-\d+\b", "<node>"),
        # A controller's pods: <name>-<hash>-<suffix>, and names that kubectl generates.
        (rf"-[{_RANDOM}]{{7,10}}-[{_RANDOM}]{{5}}\b", "-<hash>-<suffix>"),
        (rf"(?<=pod-template-hash[=:] )[{_RANDOM}]{{7,10}}\b", "<hash>"),
        (rf"(?<=pod-template-hash=)[{_RANDOM}]{{7,10}}\b", "<hash>"),
        (rf"-(?=[{_RANDOM}]*\d)[{_RANDOM}]{{8,10}}\b", "-<hash>"),
        (rf"-(?=[a-z]*\d|[^aeiou\s]{{5}}\b)[{_RANDOM}]{{5}}\b", "-<suffix>"),
        (r"(?i)(resource ?version\"?: +)\"?\d+\"?", r"\1<revision>"),
        (r"(?<=:)3\d{4}(?=/)|(?<=nodePort: )\d{5}", "<port>"),
        # The widths of columns depend on these values.
        (r"(?<=\S)[ \t]{2,}", "  "),
        (r"[ \t]+$", ""),
        (r"(?:(?<=  )|^)(\d+[smhd])+(?=  |$)|(?<=\()(\d+[smhd])+ ago(?=\))", "<age>"),
        (r"\(x\d+ over (\d+[smhd])+\)", "(again)"),
        (r"<age> \(again\)", "<age>"),
    )
]


def normalize_output(text: str, names: dict[str, str]) -> list[str]:
    """Return the lines of `text` with placeholders for values that differ in every run.

    Args:
        text: the output of a command.
        names: the placeholder by text, for example for the namespace's name.
    """
    for found, shown in names.items():
        text = text.replace(found, shown)
    for pattern, shown in _RULES:
        text = pattern.sub(shown, text)
    return text.splitlines()


Outcome = dict[str, Any]
Step = dict[str, Any]

_READS = frozenset(
    {"get", "describe", "explain", "auth", "api-resources", "api-versions"}
    | {"version", "config", "logs", "top", "events"}
)
_WORKLOADS = ("deployments", "replicasets", "statefulsets", "daemonsets")
_TOGETHER = 4
_UNTIL = 240.0
_SETTLES = 60.0
_PATIENCE = 400.0


def load_script(path: Path) -> dict[str, Any]:
    """Return the script in a file."""
    script: dict[str, Any] = yaml.safe_load(path.read_text())
    script["steps"] = [{"run": step} if isinstance(step, str) else step for step in script["steps"]]
    return script


def play_script(
    script: dict[str, Any],
    kubeconfig: Path,
    kubectl: Path,
    folder: Path,
    expected: Sequence[Outcome] = (),
) -> Iterator[Outcome]:
    """Run the commands in a new namespace; return one outcome for each.

    Args:
        script: the result of `load_script`.
        kubeconfig: the cluster and the user.
        kubectl: the program.
        folder: an empty working directory.
        expected: the expected outcomes, if known.
    """
    endpoint = RawClient(kubeconfig)
    with _namespace(endpoint) as namespace:
        identity = namespace.rpartition("-")[2]
        node = endpoint.request("GET", "/api/v1/nodes").body["items"][0]["metadata"]["name"]
        names = {"ns": namespace, "id": identity, "node": node, "python": sys.executable}
        environment = _environment(kubeconfig, kubectl, folder, namespace)
        for name, text in script.get("files", {}).items():
            (folder / name).write_text(_filled(text, names))
        shown = {
            namespace: "<namespace>",
            identity: "<id>",
            node: "<node>",
            str(folder): "<folder>",
        }

        def run(command: str) -> subprocess.CompletedProcess[str]:
            return _run(_filled(command, names), folder, environment)

        def outcome(step: Step, wanted: Outcome | None) -> Outcome:
            if not _reads(step["run"]):
                wanted = None
            deadline = SYSTEM_CLOCK.monotonic() + (_UNTIL if "until" in step else _SETTLES)
            while True:
                done = run(step["run"])
                found = {"run": step["run"]} | _outcome(step, done, shown)
                said = " ".join((done.stdout + done.stderr).split())
                there = step.get("until", "") in said and wanted in (None, found)
                if there or SYSTEM_CLOCK.monotonic() > deadline:
                    return found
                SYSTEM_CLOCK.sleep(0.1)

        try:
            with ThreadPoolExecutor(_TOGETHER) as runners:
                wanted = chain(expected, repeat(None))
                for group in _groups(script["steps"]):
                    yield from runners.map(outcome, group, islice(wanted, len(group)))
                    if not all(_reads(step["run"]) for step in group):
                        _settle(endpoint, namespace)
        finally:
            for command in script.get("finally", ()):
                run(command)


@contextmanager
def _namespace(endpoint: RawClient) -> Iterator[str]:
    """Yield a namespace with its default objects."""
    # Without digits: a name that reads as a number is quoted in YAML.
    name = f"kubectl-{''.join(secrets.choice(string.ascii_lowercase) for _ in range(8))}"
    endpoint.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    try:
        for kind in ("serviceaccounts", "configmaps"):
            path = f"/api/v1/namespaces/{name}/{kind}?watch=1&timeoutSeconds=20"
            next(endpoint.stream(path))
        yield name
    finally:
        endpoint.request("DELETE", f"/api/v1/namespaces/{name}")


def _environment(kubeconfig: Path, kubectl: Path, folder: Path, namespace: str) -> dict[str, str]:
    """Return a user's environment: kubectl on the PATH, and a kubeconfig with the namespace."""
    home = folder / ".home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "kubectl").symlink_to(kubectl)
    config = yaml.safe_load(kubeconfig.read_text())
    current = next(each for each in config["contexts"] if each["name"] == config["current-context"])
    cluster = next(
        each for each in config["clusters"] if each["name"] == current["context"]["cluster"]
    )
    user = next(each for each in config["users"] if each["name"] == current["context"]["user"])
    context = {"cluster": "here", "user": "me", "namespace": namespace}
    (home / "config").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "here", "cluster": cluster["cluster"]}],
                "users": [{"name": "me", "user": user["user"]}],
                "contexts": [{"name": "work", "context": context}],
                "current-context": "work",
            }
        )
    )
    return {
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "KUBECONFIG": str(home / "config"),
        "KUBECACHEDIR": str(home / "cache"),
        "GOGC": "off",  # hundreds of short processes, a fifth of whose time is the collector's
        "LC_ALL": "C",
        "TZ": "UTC",
    }


def _groups(steps: list[Step]) -> Iterator[list[Step]]:
    """Yield the steps in groups that may run in parallel."""
    group: list[Step] = []
    for step in steps:
        if _reads(step["run"]) and not {"until", "alone"} & step.keys():
            group.append(step)
            continue
        if group:
            yield group
            group = []
        yield [step]
    if group:
        yield group


def _settle(endpoint: RawClient, namespace: str) -> None:
    """Wait until the controllers have observed the generation of every workload."""
    deadline = SYSTEM_CLOCK.monotonic() + _UNTIL
    for plural in _WORKLOADS:
        path = f"/apis/apps/v1/namespaces/{namespace}/{plural}"
        while any(map(_unseen, endpoint.request("GET", path).body["items"])):
            if SYSTEM_CLOCK.monotonic() > deadline:
                return
            SYSTEM_CLOCK.sleep(0.05)


def _unseen(workload: dict[str, Any]) -> bool:
    generation = workload["metadata"]["generation"]
    return bool(workload.get("status", {}).get("observedGeneration", 0) < generation)


def _reads(command: str) -> bool:
    first, _, rest = command.partition(" ")
    return first == "kubectl" and rest.partition(" ")[0] in _READS and "\n" not in command


def _run(
    command: str, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
    )


def _filled(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _outcome(step: Step, done: subprocess.CompletedProcess[str], names: dict[str, str]) -> Outcome:
    outcome: Outcome = {"code": done.returncode}
    compare = step.get("compare", "output")
    for stream, text in (("out", done.stdout), ("err", done.stderr)):
        lines = normalize_output(text, names)
        if compare == "last":
            lines = lines[-1:]
        elif compare == "sorted":
            lines = sorted(lines)
        if lines and compare != "code":
            outcome[stream] = lines
    return outcome
