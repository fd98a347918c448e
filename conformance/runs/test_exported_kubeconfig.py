"""Clients that read KUBECONFIG when their module is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait

SUITE = '''
import os
import subprocess
import sys

import pytest
from kubernetes.client import CoreV1Api
from kubernetes.config import load_kube_config

load_kube_config()
CORE = CoreV1Api()
# Without the classes of the API, which take a second to load.
PROGRAM = """
import json
from kubernetes import client, config

config.load_kube_config()
api, place = client.ApiClient(), "/api/v1/namespaces/kube-system"
request = api.param_serialize("GET", place, auth_settings=["BearerToken"])
print(json.loads(api.call_api(*request).read())["metadata"]["uid"])
"""


@pytest.mark.parametrize("number", range(2))
def test_it(kwait, number):
    uid = kwait.get("namespace/kube-system")["metadata"]["uid"]
    assert CORE.read_namespace("kube-system").metadata.uid == uid
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout.strip() == uid, done.stderr
'''


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), marks=pytest.mark.own_cluster, id="one process"),
        pytest.param(("-n2",), id="workers"),
    ],
)
def test_modules_and_programs_reach_the_cluster_of_the_run(
    kwait: Kwait, tmp_path: Path, options: tuple[str, ...]
) -> None:
    kubeconfig = kwait.cluster.kubeconfig
    status, said = run(tmp_path, kubeconfig, SUITE, "--kwait-export-kubeconfig", *options)
    assert status == 0, said
    assert "2 passed" in said


@pytest.mark.own_cluster
def test_a_cluster_of_the_run_is_started_for_them(tmp_path: Path) -> None:
    status, said = run(tmp_path, None, SUITE, "--kwait-export-kubeconfig")
    assert status == 0, said
