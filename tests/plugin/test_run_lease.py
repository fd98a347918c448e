from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from pytest_kwait.plugin import run_lease

if TYPE_CHECKING:
    from pytest_kwait.clusters.cluster import Cluster


def test_workers_that_ask_at_once_get_one_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=30)
    source = SimpleNamespace(registration=lambda cluster: None)
    run = SimpleNamespace(id="ci-1", nonce="0a", source=source)
    monkeypatch.setattr(run_lease, "run_of", lambda config: run)
    monkeypatch.setattr(run_lease, "run_settings", lambda config: both.wait())
    monkeypatch.setattr(run_lease, "format_shard", lambda config: "")
    plugins = SimpleNamespace(getplugin=lambda name: None)
    config = cast("pytest.Config", SimpleNamespace(stash=pytest.Stash(), pluginmanager=plugins))
    cluster = cast("Cluster", SimpleNamespace(provider="existing"))

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(run_lease.registration_of, config, cluster) for _ in range(2)]
        first, second = (each.result() for each in asked)

    assert first is second
    assert list(run_lease.registrations_of(config).values()) == [first]
