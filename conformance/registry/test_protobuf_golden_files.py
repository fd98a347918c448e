"""Every built-in kind decodes equally from protobuf and JSON golden files of k8s.io/api."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.codec.decode import Decoder
from pytest_kwait.simulator.codec.protobuf import decode_envelope
from pytest_kwait.simulator.codec.schema import struct_of
from pytest_kwait.simulator.scheme import Scheme
from tools.simulator_data.go_types import CONTROLPLANE

if TYPE_CHECKING:
    from pytest_kwait.clusters import Cluster

LEAST = 60
"""Kinds that have golden files; those of other modules than k8s.io/api have none."""


@pytest.fixture
def golden_files(kwait_cluster: Cluster) -> Path:
    """Return the folder of the module k8s.io/api, of the real server's version.

    Skips where that module is missing: the embedded cluster needs neither Go nor a network.
    """
    give_up = pytest.skip if kwait_cluster.provider == "embedded" else pytest.fail
    if shutil.which("go") is None:
        give_up("there is no go, which fetches the module that has the objects")
    command = ["go", "mod", "download", "-json", "k8s.io/api"]
    fetched = subprocess.run(command, cwd=CONTROLPLANE, capture_output=True, check=False)
    said = json.loads(fetched.stdout or "{}")
    if "Dir" not in said:
        give_up(f"go cannot fetch k8s.io/api: {said.get('Error') or fetched.stderr.decode()}")
    return Path(said["Dir"], "testdata", "HEAD")


def test_golden_objects_round_trip(golden_files: Path) -> None:
    kinds = Scheme()
    read = 0
    for group, version in kinds.group_versions():
        for kind in (kinds.served(group, version) or {}).values():
            path = golden_files / f"{group or 'core'}.{version}.{kind.kind}.pb"
            if not path.exists():
                continue
            golden = json.loads(path.with_suffix(".json").read_text())
            struct = struct_of(group, version, kind.kind)
            decoded = Decoder(kind)
            assert decoded.struct(golden, struct) == golden, kind.kind
            assert not decoded.strict_errors, kind.kind
            assert Decoder(kind).struct(decode_envelope(path.read_bytes()), struct) == golden
            read += 1
    assert read >= LEAST
