"""Kubeconfigs of service accounts, as clients and programs read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiException, CoreV1Api
from kubernetes.config import list_kube_config_contexts, new_client_from_config

from e2e.service_accounts import READER
from pytest_kwait import ApiError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait import Kwait


def connect(kubeconfig: Path) -> CoreV1Api:
    read: Any = new_client_from_config
    return CoreV1Api(read(str(kubeconfig)))


def test_a_kubeconfig_has_the_rights_of_its_service_account(kwait: Kwait) -> None:
    kwait.apply(READER)
    user = f"system:serviceaccount:{kwait.namespace}:reader"
    kwait.wait_for_authorization_update(user, "list", "pods", timeout="4m")

    core = connect(kwait.kubeconfig_for("reader"))
    assert core.list_namespaced_pod(kwait.namespace).items == []
    with pytest.raises(ApiException) as refused:
        core.list_namespaced_secret(kwait.namespace)
    assert refused.value.status == 403
    message = json.loads(refused.value.body or "")["message"]
    assert f'User "{user}" cannot list resource "secrets"' in message


def test_its_namespace_is_that_of_the_account(kwait: Kwait) -> None:
    peer = kwait.create_namespace("peer")
    read: Any = list_kube_config_contexts
    for kubeconfig, namespace in (
        (kwait.kubeconfig_for("default"), kwait.namespace),
        (kwait.kubeconfig_for("sa/default", namespace=peer.namespace), peer.namespace),
        (peer.kubeconfig_for("default"), peer.namespace),
    ):
        _, context = read(str(kubeconfig))
        assert context["context"]["namespace"] == namespace


def test_a_service_account_that_is_not_there(kwait: Kwait) -> None:
    with pytest.raises(ApiError) as missing:
        kwait.kubeconfig_for("unknown")
    assert missing.value.status == 404
    assert 'serviceaccounts "unknown" not found' in missing.value.message
