"""Waiting for admission webhooks, proven by a dry run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.webhook_server import Server, allow, annotate, deny, serving, webhook
from e2e.raising import raises, times_out
from pytest_kwait import ApiError, WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_a_denying_webhook(kwait: Kwait) -> None:
    """A refusal in its name is an answer; `denial` says which one it must be."""
    with serving(Server(deny)) as server:
        kwait.create(webhook(server, kwait.namespace))
        name = f"validatingwebhookconfiguration/{kwait.namespace}"

        found = kwait.wait_for_webhook_ready(name, timeout="4m")

        assert found["webhooks"][0]["name"] == "sunday.example.com"
        kwait.wait_for_webhook_ready(name, denial="not on a Sunday", timeout="4m")
        times_out(
            "the probe was refused otherwise: .*not on a Sunday",
            kwait.wait_for_webhook_ready,
            name,
            denial="not on a Monday",
        )


def test_a_mutating_webhook(kwait: Kwait) -> None:
    """`mutation` is what must come back; the probe may be one's own, and is never stored."""
    probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}
    with serving(Server(annotate)) as server:
        kwait.create(webhook(server, kwait.namespace, mutating=True))
        name = f"mutatingwebhookconfiguration/{kwait.namespace}"
        seen = {"metadata": {"annotations": {"example.com/seen": "yes"}}}

        kwait.wait_for_webhook_ready(name, mutation=seen, timeout="4m")
        kwait.wait_for_webhook_ready(name, probe, mutation=seen, timeout="4m")

        other = {"metadata": {"annotations": {"example.com/seen": "no"}}}
        times_out(
            "let through without .metadata.annotations.example.com/seen",
            kwait.wait_for_webhook_ready,
            name,
            mutation=other,
        )
    assert not kwait.list("cm", field_selector="metadata.name=probe")


def test_webhook_with_a_late_server(kwait: Kwait) -> None:
    """With failurePolicy Fail whatever is let through has been answered for."""
    first = Server(allow)
    first.server_close()
    kwait.create(webhook(first, kwait.namespace, failure_policy="Fail"))
    name = f"validatingwebhookconfiguration/{kwait.namespace}"

    times_out('failed calling webhook "sunday.example.com"', kwait.wait_for_webhook_ready, name)
    with serving(Server(allow, first.server_port)) as server:
        kwait.apply(webhook(server, kwait.namespace, failure_policy="Fail"))
        kwait.wait_for_webhook_ready(name, timeout="4m")
        kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "allowed"}})


def test_webhooks_that_a_dry_run_cannot_prove(kwait: Kwait) -> None:
    """With failurePolicy Ignore, being let through says nothing."""
    with serving(Server(allow)) as server:
        kwait.create(webhook(server, kwait.namespace))
        name = f"validatingwebhookconfiguration/{kwait.namespace}"

        with raises(WaitFailed, "that a probe is let through proves nothing, name the denial"):
            kwait.wait_for_webhook_ready(name, timeout="4m", grace="500ms")


def test_webhooks_without_a_possible_probe(kwait: Kwait) -> None:
    with serving(Server(deny)) as server:
        kwait.create(webhook(server, kwait.namespace, plural="deployments"))
        name = f"validatingwebhookconfiguration/{kwait.namespace}"

        with raises(WaitFailed, "no probe can be made up for its rules .*: give one"):
            kwait.wait_for_webhook_ready(name, timeout="4m", grace="500ms")
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"generateName": "probe-"},
            "spec": {
                "selector": {"matchLabels": {"app": "probe"}},
                "template": {
                    "metadata": {"labels": {"app": "probe"}},
                    "spec": {"containers": [{"name": "main", "image": "probe"}]},
                },
            },
        }
        kwait.wait_for_webhook_ready(name, deployment, denial="Sunday", timeout="4m")
        with pytest.raises(ApiError, match="422 Invalid"):
            kwait.wait_for_webhook_ready(name, {**deployment, "spec": {}}, timeout="4m")


def test_a_configuration_that_comes_late(kwait: Kwait) -> None:
    with serving(Server(deny)) as server:
        configuration = webhook(server, kwait.namespace)
        threading.Timer(0.5, kwait.create, [configuration]).start()

        kwait.wait_for_webhook_ready(
            f"validatingwebhookconfiguration/{kwait.namespace}", timeout="4m"
        )
