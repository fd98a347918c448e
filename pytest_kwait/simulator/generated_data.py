"""Generated data files: resources, schemas, Go types, bootstrap objects.

Source: a running API server and the Go types behind it, read by `tools.simulator_data`.
"""

from __future__ import annotations

import gzip
from importlib import resources
from typing import Any

import msgspec


def read_data(name: str) -> Any:
    """The content of a gzipped JSON file in `data`."""
    file = resources.files("pytest_kwait.simulator") / "data" / name
    return msgspec.json.decode(gzip.decompress(file.read_bytes()))
