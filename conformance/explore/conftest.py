"""The definition of Sites, and operators that end with their test."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import kubernetes
import pytest

import pytest_kwait
from conformance.explore.kopf_tests import IMAGE, manifests
from conformance.explore.site_operator import DEFINITION, GROUP, Candidate, Race, SiteOperator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.explore.kopf_tests import StartKopf
    from pytest_kwait import Kwait


class Start(Protocol):
    """Starts operators and candidates, with or without a planted race."""

    def operator(self, race: Race | None) -> SiteOperator:
        """Start an operator; return it once it is ready."""
        ...

    def candidate(self, identity: str, race: Race | None) -> Candidate:
        """Start a candidate of an election."""
        ...


class _Start:
    def __init__(self, kwait: Kwait, ends: ExitStack) -> None:
        self._kwait = kwait
        self._ends = ends

    def operator(self, race: Race | None) -> SiteOperator:
        operator = SiteOperator(self._kwait.cluster.kubeconfig, self._kwait.namespace, race)
        self._ends.callback(operator.stop)
        operator.start()
        return operator

    def candidate(self, identity: str, race: Race | None) -> Candidate:
        kubeconfig, namespace = self._kwait.cluster.kubeconfig, self._kwait.namespace
        candidate = Candidate(kubeconfig, namespace, identity, race)
        candidate.start()
        self._ends.callback(candidate.stop)
        return candidate


@pytest_kwait.environment(scope="run")
def sites(kwait: Kwait) -> Iterator[None]:
    """Serve Sites until the end of the run."""
    kwait.apply(DEFINITION)
    kwait.wait_for_crd_established(f"sites.{GROUP}")
    yield


@pytest.fixture(scope="session")
def kwait_images() -> Mapping[str, object]:
    """Map the image of the kopf operator to its module."""
    program = Path(__file__).with_name("kopf_operator.py")
    return {IMAGE: [sys.executable, "-m", "kopf", "run", program]}


@pytest.fixture(scope="session")
def _official_client() -> None:
    """Load these parts of the client, which takes seconds, before time matters to a test."""
    for name in ("CoordinationV1Api", "CoreV1Api", "CustomObjectsApi"):
        getattr(kubernetes.client, name)


@pytest.fixture
def start(kwait: Kwait, sites: object, _official_client: None) -> Iterator[Start]:
    """Give what starts operators; they end with the test, and nothing holds its Sites any more."""
    with ExitStack() as ends:
        yield _Start(kwait, ends)
    for site in kwait.list("sites"):
        kwait.patch(site, {"metadata": {"finalizers": None}})


@pytest.fixture
def start_kopf(kwait: Kwait, sites: object) -> Iterator[StartKopf]:
    """Give what starts the kopf operator; it ends with the test, and nothing holds its Sites."""

    def start(mistake: str) -> None:
        kwait.apply(*manifests(mistake))
        kwait.wait_for("pod/sites", "condition=Ready", timeout="1m")

    yield start
    for operator in kwait.list("pods", selector="app=sites"):
        kwait.delete_and_wait(operator, timeout="1m")
    # It would add its finalizer again.
    for site in kwait.list("sites"):
        kwait.patch(site, {"metadata": {"finalizers": None}})
