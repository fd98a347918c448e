"""Generate the table of facts about the API's Go types that OpenAPI lacks.

    python -m tools.simulator_data.go_types

runs `gotypes.go` over the modules that `tools/controlplane` pins, and keeps the types of the
served kinds. For each field, the table has: the JSON name (none: inline), Go's name of its type,
the full name of its struct type, the protobuf number, and letters: `p`ointer, `o`mitted when empty,
omitted when `z`ero, `i`nline, `l`ist, `m`ap. It also lists the kinds in versions that the server
can decode and does not serve. Needs `go` alone.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.simulator_data.generate import pack, write

PROGRAM = Path(__file__).with_name("gotypes.go")
CONTROLPLANE = Path(__file__).parents[1] / "controlplane"
DATA = "gotypes.json.gz"
_MODULES = (
    "k8s.io/api ",
    "k8s.io/apiextensions-apiserver ",
    "k8s.io/apimachinery ",
    "k8s.io/client-go ",
    "k8s.io/kube-aggregator ",
)
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_NO_OBJECTS = ("List", "Options", "WatchEvent")
_UNSERVED = frozenset(
    # Objects that the server's own memory is made of, or that only its clients know.
    [f"{_META}.WatchEvent", f"{_META}.Patch"]
)


def reflect(schemas: dict[str, Any]) -> dict[str, Any]:
    """The table of the types that `schemas` names and of what those are made of."""
    output = subprocess.run(
        ["go", "run", str(PROGRAM)], cwd=CONTROLPLANE, check=True, capture_output=True
    ).stdout
    found = json.loads(output)
    types = found["types"]
    kinds = {key: name for key, name in sorted(found["kinds"].items()) if name in schemas}
    kept: dict[str, Any] = {}
    bases: dict[str, str] = {}
    waiting = sorted(set(schemas) - _UNSERVED)
    while waiting:
        name = waiting.pop()
        known = types.get(name)
        if known is None or name in kept or name in bases:
            continue
        if "base" in known:
            bases[name] = known["base"]
            continue
        fields = [] if known.get("custom") else known.get("fields", [])
        kept[name] = [
            [one["json"], one["go"], one["of"], one["number"], one["flags"]] for one in fields
        ]
        waiting += [one["of"] for one in fields]
    return {
        "made_from": compute_fingerprint(),
        "kinds": kinds,
        "unserved": sorted(
            key
            for key, name in found["kinds"].items()
            if name not in schemas and not key.endswith(_NO_OBJECTS)
        ),
        "bases": dict(sorted(bases.items())),
        "types": dict(sorted(kept.items())),
    }


def compute_fingerprint() -> str:
    """Return a hash of the Go program and the pinned versions of its modules."""
    return hash_inputs(PROGRAM, _MODULES)


def hash_inputs(program: Path, modules: tuple[str, ...]) -> str:
    """Return a hash of a Go program and of the lines of go.mod that pin `modules`."""
    lines = CONTROLPLANE.joinpath("go.mod").read_text().splitlines()
    pinned = sorted({line.strip() for line in lines if line.strip().startswith(modules)})
    return hashlib.sha256((program.read_text() + "\n".join(pinned)).encode()).hexdigest()


def main() -> None:
    """Write the data file."""
    from pytest_kwait.simulator.codec.schema import schemas

    content = reflect(schemas())
    write(DATA, pack(content))
    sys.stdout.write(f"{len(content['types'])} types, {len(content['kinds'])} kinds\n")


if __name__ == "__main__":
    main()
