"""Every built-in kind is read from protobuf and from JSON alike.

Kubernetes keeps an object of each kind with every field set, in both forms, to hold its own
versions to each other.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.registry.gotypes import CONTROLPLANE
from pytest_kwait.simulator.decoded import Decoded
from pytest_kwait.simulator.protobuf import decode_envelope
from pytest_kwait.simulator.registry import Registry
from pytest_kwait.simulator.schema import struct_of

if TYPE_CHECKING:
    from pytest_kwait.clusters import Cluster

LEAST = 60
"""Kinds that have golden files; those of other modules than k8s.io/api have none."""


@pytest.mark.needs("its own registry")
def test_golden_objects_are_read_whole(kwait_cluster: Cluster) -> None:
    del kwait_cluster  # only for what `needs` says: where the server is built, its modules are
    found = subprocess.run(
        ["go", "mod", "download", "-json", "k8s.io/api"],
        cwd=CONTROLPLANE,
        check=True,
        capture_output=True,
    )
    folder = Path(json.loads(found.stdout)["Dir"], "testdata", "HEAD")
    kinds = Registry()
    read = 0
    for group, version in kinds.group_versions():
        for kind in (kinds.served(group, version) or {}).values():
            path = folder / f"{group or 'core'}.{version}.{kind.kind}.pb"
            if not path.exists():
                continue
            golden = json.loads(path.with_suffix(".json").read_text())
            struct = struct_of(group, version, kind.kind)
            decoded = Decoded(kind)
            assert decoded.struct(golden, struct) == golden, kind.kind
            assert not decoded.complaints, kind.kind
            assert Decoded(kind).struct(decode_envelope(path.read_bytes()), struct) == golden
            read += 1
    assert read >= LEAST
