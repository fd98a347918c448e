"""Generate the table of internal Go types that error messages show values of.

    python -m tools.simulator_data.internal_types

runs `internal.go` over the modules that `tools/controlplane` pins. For each field of a type, the
table has: the name in messages, the name in the API, the text of an empty value (none: an empty
struct), the field's type (none: shown as it is), and `o` if an empty value is left out.
Needs `go` alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tools.simulator_data.generate import pack, write
from tools.simulator_data.go_types import CONTROLPLANE, hash_inputs

PROGRAM = Path(__file__).with_name("internal.go")
DATA = "internal.json.gz"
_MODULES = ("k8s.io/api ", "k8s.io/apimachinery ", "k8s.io/kubernetes ")


def compute_fingerprint() -> str:
    """Return a hash of the Go program and the pinned versions of its modules."""
    return hash_inputs(PROGRAM, _MODULES)


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
