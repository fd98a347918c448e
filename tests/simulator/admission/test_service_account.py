from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from tests.objects import pod

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"


def account(api: SimulatedCluster, name: str = "robot", **fields: Any) -> None:
    metadata = {"name": name, **fields.pop("metadata", {})}
    api.create("serviceaccounts", {"metadata": metadata, **fields}, "default")


def made(api: SimulatedCluster, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = api.create("pods", pod(**spec), "default")["spec"]
    return found


def refused(api: SimulatedCluster, metadata: dict[str, Any] | None = None, **spec: Any) -> str:
    asked = pod(**spec)
    asked["metadata"] = metadata or asked["metadata"]
    with pytest.raises(StatusError) as error:
        api.create("pods", asked, "default")
    assert (error.value.code, error.value.reason) == (403, "Forbidden")
    return error.value.message


def test_pods_get_an_account_and_its_token(api: SimulatedCluster) -> None:
    spec = made(api)
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    (mount,) = spec["containers"][0]["volumeMounts"]
    assert mount == {"name": volume["name"], "readOnly": True, "mountPath": _TOKEN}


@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounted"),
    [(False, None, False), (False, True, True), (True, False, False), (None, None, True)],
)
def test_pod_setting_overrides_token_mount(
    api: SimulatedCluster, of_account: bool | None, of_pod: bool | None, mounted: bool
) -> None:
    field = "automountServiceAccountToken"
    fields: dict[str, Any] = {} if of_account is None else {field: of_account}
    account(api, **fields)
    spec = made(api, serviceAccountName="robot", **({} if of_pod is None else {field: of_pod}))
    assert ("volumes" in spec) == mounted


def test_existing_mount_prevents_the_token_mount(api: SimulatedCluster) -> None:
    mine = {"name": "c", "image": "x", "volumeMounts": [{"name": "v", "mountPath": _TOKEN}]}
    spec = made(api, containers=[mine], volumes=[{"name": "v"}])
    assert [volume["name"] for volume in spec["volumes"]] == ["v"]


def test_pods_get_the_accounts_pull_secrets(api: SimulatedCluster) -> None:
    account(api, imagePullSecrets=[{"name": "registry"}])
    assert made(api, serviceAccountName="robot")["imagePullSecrets"] == [{"name": "registry"}]


def test_missing_account_is_denied(api: SimulatedCluster) -> None:
    why = 'error looking up service account default/no: serviceaccount "no" not found'
    assert refused(api, serviceAccountName="no") == f'pods "p" is forbidden: {why}'
    assert refused(api, {"generateName": "p-"}, serviceAccountName="no") == (
        f'pods "p-" is forbidden: {why}'
    )


def test_enforced_mountable_secrets_deny_others(api: SimulatedCluster) -> None:
    enforce = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    account(api, metadata=enforce, secrets=[{"name": "mine"}])
    volumes = [
        {"name": "a", "secret": {"secretName": "mine"}},
        {"name": "b", "secret": {"secretName": "other"}},
    ]
    assert refused(api, serviceAccountName="robot", volumes=volumes) == (
        'pods "p" is forbidden: volume with secret.secretName="other" is not allowed because '
        "service account robot does not reference that secret"
    )
    reference = {"secretKeyRef": {"name": "other", "key": "k"}}
    container = {"name": "c", "image": "x", "env": [{"name": "E", "valueFrom": reference}]}
    assert refused(api, serviceAccountName="robot", containers=[container]) == (
        'pods "p" is forbidden: container c with envVar E referencing secret.secretName="other" '
        "is not allowed because service account robot does not reference that secret"
    )
    assert refused(api, serviceAccountName="robot", imagePullSecrets=[{"name": "r"}]) == (
        'pods "p" is forbidden: imagePullSecrets[0].name="r" is not allowed because service '
        "account robot does not reference that imagePullSecret"
    )


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"serviceAccountName": "default"}, "a mirror pod may not reference service accounts"),
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
            "a mirror pod may not reference secrets",
        ),
        (
            {
                "volumes": [
                    {
                        "name": "v",
                        "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]},
                    }
                ]
            },
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
    ],
)
def test_mirror_pod_may_not_name_accounts_or_volumes(
    api: SimulatedCluster, spec: dict[str, Any], why: str
) -> None:
    mirror = {"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}}
    assert refused(api, mirror, **spec) == f'pods "p" is forbidden: {why}'
