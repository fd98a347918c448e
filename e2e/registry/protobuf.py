"""Makes the table of protobuf fields that lets the embedded cluster read kubectl's typed creates.

    python -m e2e.registry.protobuf

reads the `generated.proto` files of the Go modules that `e2e/controlplane` pins, and keeps of them
what the kinds of the registry are made of. Needs `go`, nothing else.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from e2e.registry.generate import write
from pytest_kwait.simulator.registry import Registry
from pytest_kwait.simulator.schema import schemas

MODULES = ("k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver")
CONTROLPLANE = Path(__file__).parents[1] / "controlplane"
_PACKAGE = re.compile(r"^package ([\w.]+);")
_MESSAGE = re.compile(r"^message (\w+) \{")
_FIELD = re.compile(r"^  (optional|repeated) ([\w.]+) (\w+) = (\d+);")
_MAP = re.compile(r"^  map<string, ([\w.]+)> (\w+) = (\d+);")
_SCALARS = frozenset({"string", "bytes", "bool", "int32", "int64", "double", "uint32", "uint64"})
_OPTIONS = "k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions"

Messages = dict[str, dict[str, list[str]]]
"""Fields by number, messages by name: JSON name, type, and `repeated`, `map` or nothing."""


def parse(text: str) -> Messages:
    """The messages of one file."""
    package, message = "", ""
    found: Messages = {}
    for line in text.splitlines():
        if match := _PACKAGE.match(line):
            package = match[1]
        elif match := _MESSAGE.match(line):
            message = f"{package}.{match[1]}"
            found[message] = {}
        elif match := _FIELD.match(line):
            mode, kind, name, number = match.groups()
            found[message][number] = [name, _full(kind, package), mode.replace("optional", "")]
        elif match := _MAP.match(line):
            kind, name, number = match.groups()
            found[message][number] = [name, _full(kind, package), "map"]
    return found


def _full(kind: str, package: str) -> str:
    if kind in _SCALARS:
        return kind
    return kind.removeprefix(".") if kind.startswith(".") else f"{package}.{kind}"


def reachable(messages: Messages, roots: list[str]) -> Messages:
    """What the roots are made of."""
    kept: Messages = {}
    waiting = [root for root in roots if root in messages]
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept[name] = messages[name]
            waiting += [kind for _, kind, _ in messages[name].values() if kind in messages]
    return dict(sorted(kept.items()))


def main() -> None:
    """Write the data file."""
    messages: Messages = {}
    for module in MODULES:
        folder = subprocess.run(
            ["go", "list", "-m", "-f", "{{.Dir}}", module],
            cwd=CONTROLPLANE,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for path in sorted(Path(folder).rglob("generated.proto")):
            messages |= parse(path.read_text())
    served = {(kind.group, kind.version, kind.kind) for kind in Registry()} | {
        ("autoscaling", "v1", "Scale"),
        ("policy", "v1", "Eviction"),
        ("authentication.k8s.io", "v1", "TokenRequest"),
    }
    roots, kinds = [_OPTIONS], {}
    for name, schema in schemas().items():
        for entry in schema.get("x-kubernetes-group-version-kind", ()):
            if (entry["group"], entry["version"], entry["kind"]) in served:
                message = name.removeprefix("io.").replace("k8s.", "k8s.io.", 1)
                roots.append(message)
                group_version = "/".join(filter(None, (entry["group"], entry["version"])))
                kinds[f"{group_version} {entry['kind']}"] = message
    content: dict[str, Any] = {
        "kinds": dict(sorted(kinds.items())),
        "messages": reachable(messages, roots),
    }
    write("protobuf.json.gz", content)
    sys.stdout.write(f"{len(content['messages'])} messages\n")


if __name__ == "__main__":
    main()
