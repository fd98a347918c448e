"""The committed resources, documents and defaults equal a real server's."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

from tools.raw_api import RawClient
from tools.simulator_data.generate import DATA, generate

if TYPE_CHECKING:
    from pytest_kwait.clusters import Cluster


def content(name: str, data: bytes) -> dict[str, Any]:
    """Return the content of a data file, decompressed."""
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {entry: json.loads(archive.read(entry)) for entry in archive.namelist()}
    found: dict[str, Any] = json.loads(gzip.decompress(data))
    return found


def test_generated_data_equals_the_servers(kwait_cluster: Cluster) -> None:
    generated = generate(RawClient(kwait_cluster.kubeconfig))
    for name, data in sorted(generated.items()):
        made, committed = content(name, data), content(name, DATA.joinpath(name).read_bytes())
        made.pop("version", None)  # when and with which Go the server was built
        committed.pop("version", None)
        again = "run python -m tools.simulator_data.generate KUBECONFIG"
        assert made.keys() == committed.keys(), f"{name}: {again}"
        for part in made:
            assert made[part] == committed[part], f"{name}, {part}: {again}"
