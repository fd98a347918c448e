"""The REST storage of each resource and subresource, imported when first needed.

Source: k8s.io/kubernetes pkg/registry/{core,batch,certificates}/rest;
k8s.io/apiextensions-apiserver pkg/apiserver/apiserver.go.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pytest_kwait.simulator.registry.generic_store import (
    GenericStore,
    StatusREST,
    SubresourceREST,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.scheme import Kind

# By resource and subresource: the module in the simulator and the class in it.
_STORAGES = {
    ("certificatesigningrequests.certificates.k8s.io", "approval"): (
        "registry.certificates",
        "CertificateSigningRequestApprovalREST",
    ),
    ("certificatesigningrequests.certificates.k8s.io", "status"): (
        "registry.certificates",
        "CertificateSigningRequestStatusREST",
    ),
    ("customresourcedefinitions.apiextensions.k8s.io", ""): (
        "apiextensions.strategy",
        "CustomResourceDefinitionREST",
    ),
    ("jobs.batch", ""): ("registry.batch", "JobREST"),
    ("namespaces", ""): ("registry.core_namespaces", "NamespaceREST"),
    ("namespaces", "finalize"): ("registry.core_namespaces", "NamespaceFinalizeREST"),
    ("namespaces", "status"): ("registry.core_namespaces", "NamespaceStatusREST"),
    ("pods", "ephemeralcontainers"): ("registry.core_pods", "EphemeralContainersREST"),
    ("pods", "resize"): ("registry.core_pods", "ResizeREST"),
    ("services", ""): ("registry.core_services", "ServiceREST"),
}


def storage_class(kind: Kind, subresource: str = "") -> type[GenericStore]:
    """Return the class of a REST storage; a generic one for resources without their own.

    Args:
        kind: the kind of the resource.
        subresource: `status`, `scale`…; empty for the resource itself.
    """
    row = None if kind.custom else _STORAGES.get((kind.bucket, subresource))
    if row is not None:
        module, name = row
        own_class: type[GenericStore] = getattr(
            import_module(f"pytest_kwait.simulator.{module}"), name
        )
        return own_class
    if not subresource:
        return GenericStore
    return StatusREST if subresource == "status" else SubresourceREST
