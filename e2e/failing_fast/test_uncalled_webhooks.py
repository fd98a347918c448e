"""Objects whose admission webhook is down are not written for the grace period, then fail early."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api
from kubernetes.client.exceptions import ApiException

from e2e.objects import container, pod
from e2e.raising import raises
from pytest_kwait import WaitFailed, create_and_wait, wait

if TYPE_CHECKING:
    from pytest_kwait import Kwait

GOODS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "goods"}}
LABELS = {"app": "guard"}


@pytest.fixture
def guard(kwait: Kwait) -> str:
    """Configure a webhook whose service has no pods; returns how messages name it."""
    # A long name is broken into lines.
    name = f"guard-{kwait.namespace[-8:]}"
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "guard"},
        "spec": {"selector": LABELS, "ports": [{"port": 443}]},
    }
    rule = {
        "operations": ["CREATE", "UPDATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }
    webhook = {
        "name": "guard.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 2,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kwait.namespace}},
        "rules": [rule],
        "clientConfig": {"service": {"namespace": kwait.namespace, "name": "guard"}},
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook],
    }
    kwait.create(service, configuration)
    core: Any = CoreV1Api(kwait.client)

    def is_called() -> bool:
        try:
            core.create_namespaced_config_map(kwait.namespace, GOODS, dry_run="All")
        except ApiException as error:
            return "failed calling webhook" in str(error.body)
        return False

    # A server calls a new webhook only once it has seen the configuration.
    wait.poll_immediate(0.1, 60, is_called)
    return f"webhook guard.example.com of validatingwebhookconfiguration/{name}"


@pytest.mark.kwait(grace="2s")
@pytest.mark.parametrize("verb", ["apply", "create"])
def test_a_webhook_without_pods(kwait: Kwait, guard: str, verb: str) -> None:
    """The message names webhook, configuration, service and the selector that matches nothing."""
    with raises(
        WaitFailed,
        f"{guard} can no longer be called: service guard has no ready endpoint: the service's "
        "selector app=guard matches no pod",
    ) as caught:
        getattr(kwait, verb)(GOODS)
    server, manifest = caught.value.__notes__
    assert 'failed calling webhook "guard.example.com"' in server
    assert manifest == "configmap/goods of manifest 1"


def test_the_function_fails_early_too(kwait: Kwait, guard: str) -> None:
    down = f"{guard} can no longer be called: service .*guard has no ready endpoint"
    with raises(WaitFailed, down) as caught:
        create_and_wait(kwait.client, kwait.namespace, GOODS, "create", grace="2s", timeout="4m")
    (server,) = caught.value.__notes__
    assert 'failed calling webhook "guard.example.com"' in server


@pytest.mark.kwait(grace="2s")
def test_a_webhook_whose_pod_is_not_ready(kwait: Kwait, guard: str) -> None:
    """The pod's log says why."""
    never = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1000}
    script = "echo no certificate; sleep 300"
    kwait.create(pod("guard", container(script=script, readinessProbe=never), labels=LABELS))
    kwait.wait_for("pod/guard", "jsonpath={.status.phase}=Running")

    with raises(
        WaitFailed,
        f"{guard} can no longer be called: service guard has no ready endpoint: 1 Running, not "
        r"ready .*log of guard/main \| no certificate",
    ):
        kwait.create(GOODS)


@pytest.mark.kwait(grace="2s")
@pytest.mark.parametrize("verb", ["create", "label"])
def test_a_webhook_whose_ready_pod_does_not_answer(kwait: Kwait, guard: str, verb: str) -> None:
    """What cannot heal by itself ends by grace: the message names service, ports and cause."""
    kwait.patch("service/guard", {"spec": {"ports": [{"port": 443, "targetPort": 9999}]}})
    kwait.create(pod("guard", labels=LABELS))
    kwait.wait_for_endpoint_ports("guard", {"guard": [9999]})
    before = kwait.get("configmap/kube-root-ca.crt")
    with raises(
        WaitFailed,
        rf"{guard} can no longer be called: service (\S+/)?guard, port 443 \(targetPort 9999\): "
        # The last of many calls may have been cut off.
        r"(dial tcp \S+:443: connect: connection re|context deadline exceeded).*called \d+ times",
    ):
        if verb == "create":
            kwait.create(GOODS)
        else:
            kwait.label("configmap/kube-root-ca.crt", {"e2e": "seen"})
    assert kwait.get("configmap/kube-root-ca.crt") == before
