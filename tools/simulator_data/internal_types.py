"""Makes the table of the Go types that refusals show values of.

    python -m tools.simulator_data.internal_types

runs `internal.go` over the modules that `e2e/controlplane` pins. For each type: its fields as they
are shown, their names in the API, what an empty one is shown as (nothing: as an empty struct), the
type that it is made of (nothing: shown as it is), and `o` if it is left out when it is empty.
Needs `go`, nothing else.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from tools.simulator_data.generate import pack, write
from tools.simulator_data.go_types import CONTROLPLANE

PROGRAM = Path(__file__).with_name("internal.go")
DATA = "internal.json.gz"
_MODULES = ("k8s.io/api ", "k8s.io/apimachinery ", "k8s.io/kubernetes ")


def compute_fingerprint() -> str:
    """A text that changes whenever the table may: by the programs or by the modules' versions."""
    lines = CONTROLPLANE.joinpath("go.mod").read_text().splitlines()
    pinned = sorted({line.strip() for line in lines if line.strip().startswith(_MODULES)})
    programs = PROGRAM.read_text() + Path(__file__).read_text()
    return hashlib.sha256((programs + "\n".join(pinned)).encode()).hexdigest()


def main() -> None:
    """Write the data file."""
    output = subprocess.run(
        ["go", "run", str(PROGRAM)], cwd=CONTROLPLANE, check=True, capture_output=True
    ).stdout
    types = dict(sorted(json.loads(output).items()))
    write(DATA, pack({"made_from": compute_fingerprint(), "types": types}))
    sys.stdout.write(f"{len(types)} types\n")


if __name__ == "__main__":
    main()
