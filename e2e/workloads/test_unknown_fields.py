"""Misspelt fields of manifests are refused at once, with the nearest known name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import ApiError, InvalidManifest, create_and_wait

if TYPE_CHECKING:
    from pytest_kwait import Kwait

WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]},
        },
    },
}


def misspelt(**spec: Any) -> dict[str, Any]:
    return {**WEB, "spec": {**WEB["spec"], **spec}}


@pytest.mark.parametrize("verb", ["apply", "create"])
def test_unknown_field_is_refused_with_the_nearest_name(kwait: Kwait, verb: str) -> None:
    with pytest.raises(InvalidManifest) as caught:
        getattr(kwait, verb)(misspelt(replcias=1))
    assert str(caught.value) == (
        'manifest 1: Deployment web: unknown field "spec.replcias"; did you mean spec.replicas?'
    )
    assert kwait.list("deployments") == []


def test_unknown_field_in_a_list_is_refused(kwait: Kwait) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "busybox:1.36", "imge": "x"}]}}
    with pytest.raises(InvalidManifest) as caught:
        kwait.apply(misspelt(template=template))
    assert str(caught.value) == (
        "manifest 1: Deployment web: unknown field "
        '"spec.template.spec.containers[name="main"].imge"; did you mean '
        'spec.template.spec.containers[name="main"].image?'
    )


def test_applied_value_of_another_type_is_refused_at_once(kwait: Kwait) -> None:
    with pytest.raises(ApiError) as caught:
        kwait.apply(misspelt(replicas="three"))
    assert "expected numeric (int or float), got string" in caught.value.message


@pytest.mark.parametrize("validate", ["warn", "ignore", False])
def test_unknown_field_is_dropped_on_request(kwait: Kwait, validate: str | bool) -> None:
    (made,) = kwait.create(misspelt(replcias=1), validate=validate)
    assert made["spec"]["replicas"] == 0


def test_create_and_wait_refuses_unknown_fields(kwait: Kwait) -> None:
    with pytest.raises(InvalidManifest, match=r"did you mean spec[.]replicas"):
        kwait.create_and_wait(misspelt(replcias=1))
    with pytest.raises(ApiError) as caught:
        create_and_wait(kwait.client, kwait.namespace, misspelt(replcias=1))
    assert caught.value.__notes__ == [
        'unknown field "spec.replcias"; did you mean spec.replicas?',
    ]
