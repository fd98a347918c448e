"""Fixtures of fault trials: the proxy's certificate, a namespace, shorter limits."""

from __future__ import annotations

import ssl
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trustme

from conformance.faults.family import Place
from conformance.faults.trial import Trials
from e2e.kubelet_nodes import first_kubelet_node
from pytest_kwait.cache import collection_watch, shared_informer
from pytest_kwait.cache.reflector import Reflector
from pytest_kwait.client import errors
from pytest_kwait.engine import retry
from pytest_kwait.engine.failure import evidence
from pytest_kwait.framework import service
from pytest_kwait.framework.cluster import api_server
from pytest_kwait.framework.node import kubelet_pods, minions
from pytest_kwait.framework.pod import responding
from pytest_kwait.wait import Backoff
from tools.fault_proxy.exchange import Upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes.client import ApiClient

    from pytest_kwait import Kwait

_SILENCE = 2.0
_SETTLING = 1.0
_EVIDENCE = 0.3
_PAUSES = Backoff(duration=0.1, factor=2.0, jitter=1.0, steps=38, cap=30.0)


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up silent connections after 2 s, instead of 10 to 150 s."""
    monkeypatch.setattr(retry, "REQUEST_TIMEOUT", _SILENCE)
    monkeypatch.setattr(collection_watch, "WATCH_INACTIVITY", _SILENCE)
    monkeypatch.setattr(minions, "HOST_TIMEOUT", _SILENCE)
    monkeypatch.setattr(api_server, "REQUEST_TIMEOUT", _SILENCE)
    monkeypatch.setattr(kubelet_pods, "NODE_TIMEOUT", _SILENCE)
    monkeypatch.setattr(responding, "POD_TIMEOUT", _SILENCE)
    monkeypatch.setattr(service, "REQUEST_TIMEOUT", _SILENCE)
    patient = partial(Reflector, backoff=_PAUSES, list_timeout=_SILENCE, inactivity=_SILENCE)
    monkeypatch.setattr(shared_informer, "Reflector", patient)


@pytest.fixture
def fast_cache_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the cache's pauses to an eighth."""
    monkeypatch.setattr(shared_informer, "Reflector", partial(Reflector, backoff=_PAUSES))


@pytest.fixture
def short_startup_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the grace period after an outage from five seconds to one."""
    monkeypatch.setattr(errors, "STARTUP_GRACE", _SETTLING)


@pytest.fixture
def short_evidence_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gather evidence for 0.3 s, instead of five seconds."""
    monkeypatch.setattr(evidence, "LIMIT", _EVIDENCE)


@pytest.fixture(scope="session")
def trials(kwait_client: ApiClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.num_tickets = 0  # no client of these tests resumes a session
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    folder = tmp_path_factory.mktemp("faults")
    with Trials(Upstream.of(kwait_client), tls, authority.cert_pem.bytes(), folder) as trials:
        yield trials


@pytest.fixture
def place(kwait: Kwait) -> Place:
    return Place(kwait.client, kwait.namespace, first_kubelet_node(kwait))
