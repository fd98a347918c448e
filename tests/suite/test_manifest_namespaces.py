"""Moving manifests of others to a namespace: objects, references, and what cannot be moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.manifest_namespaces import move_documents, parse_moves
from pytest_kwait.suite.manifests import InvalidManifest, read_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping

RBAC = "rbac.authorization.k8s.io/v1"


def made(kind: str, name: str, namespace: str | None = None, **fields: Any) -> dict[str, Any]:
    version = fields.pop("version", "v1")
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def binding(*subjects: Mapping[str, str], kind: str = "ClusterRoleBinding") -> dict[str, Any]:
    accounts = [{"kind": "ServiceAccount", **each} for each in subjects]
    return made(kind, "shop", version=RBAC, subjects=accounts)


def hook(**service: str) -> dict[str, Any]:
    webhooks = [{"name": "a", "clientConfig": {"service": service}}]
    return made(
        "ValidatingWebhookConfiguration",
        "shop",
        version="admissionregistration.k8s.io/v1",
        webhooks=webhooks,
    )


def move(*objects: dict[str, Any], to: Any = "t-1") -> list[dict[str, Any]]:
    documents = read_manifests(objects, [])
    return [each.object for each in move_documents(documents, parse_moves(to, "own"))]


def subjects(obj: Mapping[str, Any]) -> list[str | None]:
    return [each.get("namespace") for each in obj["subjects"]]


def services(obj: Mapping[str, Any]) -> list[str | None]:
    return [each["clientConfig"]["service"].get("namespace") for each in obj["webhooks"]]


def test_fixed_namespaces_are_replaced_and_others_left_to_the_writer() -> None:
    moved = move(
        made("Namespace", "shop-system"),
        made("ServiceAccount", "a", "shop-system"),
        made("Widget", "b", "shop-system", version="example.com/v1"),
        made("Secret", "c"),
        made("ClusterRole", "d", "odd", version=RBAC),
    )
    metadata = [each["metadata"] for each in moved]
    assert metadata == [
        {"name": "t-1"},
        {"name": "a", "namespace": "t-1"},
        {"name": "b", "namespace": "t-1"},
        {"name": "c"},
        {"name": "d", "namespace": "odd"},
    ]


@pytest.mark.parametrize("kind", ["RoleBinding", "ClusterRoleBinding"])
def test_service_accounts_of_bindings_move_as_by_kustomize(kind: str) -> None:
    bound = binding(
        {"name": "controller", "namespace": "shop-system"},
        {"name": "default", "namespace": "any"},
        {"name": "none"},
        {"name": "prometheus", "namespace": "monitoring"},
        kind=kind,
    )
    bound["subjects"].append({"kind": "Group", "name": "system:serviceaccounts:shop-system"})
    _, moved = move(made("ServiceAccount", "controller", "shop-system"), bound)
    assert subjects(moved) == ["t-1", "t-1", "t-1", "monitoring", None]


def test_objects_without_a_namespace_are_found_by_name() -> None:
    """As kubebuilder's manifests, whose references have a placeholder."""
    bound = binding({"name": "controller", "namespace": "system"}, {"name": "x", "namespace": "y"})
    moved = move(
        made("ServiceAccount", "controller"),
        made("Service", "webhook"),
        bound,
        hook(name="webhook", namespace="system"),
        hook(name="other", namespace="system"),
    )
    assert subjects(moved[2]) == ["t-1", "y"]
    assert [services(each) for each in moved[3:]] == [["t-1"], ["system"]]


def test_services_of_webhooks_api_services_and_conversions_move() -> None:
    crd = made(
        "CustomResourceDefinition",
        "widgets.example.com",
        version="apiextensions.k8s.io/v1",
        spec={"conversion": {"webhook": {"clientConfig": {"service": {"namespace": "x"}}}}},
    )
    api = made(
        "APIService",
        "v1.example.com",
        version="apiregistration.k8s.io/v1",
        spec={"service": {"name": "api", "namespace": "y"}},
    )
    local = made("APIService", "v1.", version="apiregistration.k8s.io/v1", spec={"version": "v1"})
    moved = move(made("Service", "webhook", "a"), hook(name="w", namespace="a"), crd, api, local)
    assert services(moved[1]) == ["t-1"]
    conversion = moved[2]["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
    assert conversion == {"namespace": "t-1"}
    assert moved[3]["spec"]["service"] == {"name": "api", "namespace": "t-1"}
    assert moved[4]["spec"] == {"version": "v1"}


def test_nothing_else_changes() -> None:
    texts = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "shop", "annotations": {"inject": "shop/cert"}},
        "data": {"url": "http://web.shop.svc"},
        "spec": {
            "namespaceSelector": {"matchNames": ["shop"]},
            "subjects": [{"namespace": "shop"}],
        },
    }
    (moved,) = move(texts)
    assert moved == texts | {"metadata": {**texts["metadata"], "namespace": "t-1"}}  # type: ignore[dict-item]


def test_a_mapping_moves_what_it_names() -> None:
    system = {"name": "default", "namespace": "kube-system"}
    moved = move(
        made("ServiceAccount", "a", "shop"),
        made("RoleBinding", "b", "kube-system", version=RBAC),
        made("Secret", "c"),
        binding({"name": "a", "namespace": "shop"}, system),
        to={"shop": True},
    )
    assert [each["metadata"].get("namespace") for each in moved[:3]] == ["own", "kube-system", None]
    assert subjects(moved[3]) == ["own", "kube-system"]
    assert parse_moves({"shop": "t-2"}, "own").target == "own"


def test_one_target_for_two_namespaces_is_an_error() -> None:
    objects = made("Service", "a", "shop"), made("Role", "b", "kube-system", version=RBAC)
    with pytest.raises(InvalidManifest) as caught:
        move(*objects)
    assert str(caught.value) == (
        "manifest 2: role/b is in namespace kube-system, and service/a of manifest 1 in shop: "
        "give namespace={'shop': …, 'kube-system': …}"
    )
    # What is there already needs no move.
    assert [each["metadata"]["namespace"] for each in move(*objects, to="shop")] == ["shop", "shop"]


@pytest.mark.parametrize(
    ("to", "message"),
    [
        (
            {"store": True},
            "namespace='store' is not valid: no object of these manifests is in it; their "
            "namespaces: shop",
        ),
        (
            "Shop",
            "namespace='Shop' is not valid: use the name of a namespace, True for the test's own, "
            'or a mapping of the manifests\' namespaces to these: {"shop-system": True}',
        ),
    ],
)
def test_invalid_targets(to: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        move(made("Service", "a", "shop"), to=to)
    assert str(caught.value) == message


@pytest.mark.parametrize("to", [False, 1, {}, {1: "a"}, {"shop": False}, ""])
def test_invalid_values(to: Any) -> None:
    with pytest.raises(InvalidArgument, match="namespace"):
        parse_moves(to, "own")


DASHBOARD = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: shop}
data: {legend: "{{ namespace }}", pod: "{{pod}}"}
"""


def test_a_named_target_is_a_variable_too() -> None:
    text = DASHBOARD.replace("{{pod}}", "web")
    (found,) = parse_moves("t-1", "own").read([text], [])
    assert found.object["data"]["legend"] == "t-1"
    (found,) = parse_moves(True, "own").read([text.replace("web", "{{ a }}")], [], {"a": "b"})
    assert found.object["data"] == {"legend": "own", "pod": "b"}
    # It need not be used, and with it alone other braces mean nothing.
    (found,) = parse_moves("t-1", "own").read([DASHBOARD.replace("{{ namespace }}", "x")], [])
    assert found.object["data"]["pod"] == "{{pod}}"


@pytest.mark.parametrize("to", [True, {"shop": True}])
def test_without_a_name_nothing_is_a_template(to: Any) -> None:
    (found,) = parse_moves(to, "own").read([DASHBOARD], [])
    assert found.object["data"] == {"legend": "{{ namespace }}", "pod": "{{pod}}"}
    assert found.object["metadata"]["namespace"] == "own"
