from __future__ import annotations

import gzip
import json

from tools.simulator_data.generate import DATA
from tools.simulator_data.go_types import DATA as GOTYPES
from tools.simulator_data.go_types import compute_fingerprint
from tools.simulator_data.internal_types import DATA as INTERNAL
from tools.simulator_data.internal_types import compute_fingerprint as compute_internal_fingerprint

MOST_BYTES = 1_000_000


def test_the_reflected_types_are_those_of_the_modules_that_the_control_plane_pins() -> None:
    content = json.loads(gzip.decompress(DATA.joinpath(GOTYPES).read_bytes()))
    assert content["made_from"] == compute_fingerprint(), (
        "run python -m tools.simulator_data.go_types"
    )


def test_the_internal_types_are_those_of_the_same_modules() -> None:
    content = json.loads(gzip.decompress(DATA.joinpath(INTERNAL).read_bytes()))
    assert content["made_from"] == compute_internal_fingerprint(), (
        "run python -m tools.simulator_data.internal_types"
    )


def test_the_data_is_small_and_has_no_prose() -> None:
    files = [path for path in DATA.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    schemas = json.loads(gzip.decompress(DATA.joinpath("schemas.json.gz").read_bytes()))
    assert not [name for name, schema in schemas.items() if "description" in schema]
