"""Validation of pods, pod specs and pod templates.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePodSpec,
validatePodMetadataAndSpec, ValidatePodCreate, ValidatePodTemplateSpec, validatePodDNSConfig,
ValidateHostAliases, validatePodHostName.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import (
    dns_label_texts,
    dns_subdomain_texts,
    ip_texts,
    label_key_texts,
    range_texts,
    underscored_subdomain_texts,
)
from pytest_kwait.simulator.validation.core.pods.annotations import (
    validate_pod_annotations,
    validate_profile_annotations,
)
from pytest_kwait.simulator.validation.core.pods.containers import (
    ContainerContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_image_whitespace,
    validate_init_containers,
)
from pytest_kwait.simulator.validation.core.pods.environment import validate_file_key_volumes
from pytest_kwait.simulator.validation.core.pods.security import validate_pod_security_context
from pytest_kwait.simulator.validation.core.pods.windows import (
    validate_os_fields,
    validate_windows_host_process,
    visit_containers_with_path,
)
from pytest_kwait.simulator.validation.core.resources import (
    validate_overhead,
    validate_pod_resources,
)
from pytest_kwait.simulator.validation.core.scheduling import (
    validate_affinity,
    validate_tolerations,
    validate_topology_spread_constraints,
)
from pytest_kwait.simulator.validation.core.volumes.pod_volumes import validate_volumes
from pytest_kwait.simulator.validation.field_errors import format_internal
from pytest_kwait.simulator.validation.objectmeta import annotation_errors, label_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.field_errors import ErrorList

__all__ = [
    "validate_dns_config",
    "validate_host_aliases",
    "validate_host_name_override",
    "validate_pod",
    "validate_pod_create",
    "validate_pod_spec",
    "validate_pod_template_spec",
]

_MAX_DNS_NAMESERVERS, _MAX_DNS_SEARCHES, _MAX_DNS_SEARCH_CHARACTERS = 3, 32, 2048
_MAX_HOST_NAME_LENGTH = 64


def validate_dns_config(spec: Obj, at: str, found: ErrorList) -> None:
    """What a pod's resolver is told."""
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            found.required(at, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            found.required(f"{at}.nameservers", text)
            return
    if config is None:
        return
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    if len(servers) > _MAX_DNS_NAMESERVERS:
        text = f"must not have more than {_MAX_DNS_NAMESERVERS} nameservers"
        found.invalid(f"{at}.nameservers", servers, text)
    for index, server in enumerate(servers):
        found.texts(f"{at}.nameservers[{index}]", server, ip_texts(server))
    if len(searches) > _MAX_DNS_SEARCHES:
        text = f"must not have more than {_MAX_DNS_SEARCHES} search paths"
        found.invalid(f"{at}.searches", searches, text)
    if len(" ".join(searches)) > _MAX_DNS_SEARCH_CHARACTERS:
        text = (
            f"must not have more than {_MAX_DNS_SEARCH_CHARACTERS} characters (including spaces) in"
            " the search list"
        )
        found.invalid(f"{at}.searches", searches, text)
    for index, search in enumerate(searches):
        if search != ".":
            name = search.removesuffix(".")
            found.texts(f"{at}.searches[{index}]", name, underscored_subdomain_texts(name))
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            found.required(f"{at}.options[{index}]", "must not be empty")


def validate_host_aliases(aliases: list[Obj], at: str, found: ErrorList) -> None:
    """The lines that are added to a pod's hosts."""
    for index, alias in enumerate(aliases):
        address = alias.get("ip", "")
        found.texts(f"{at}[{index}].ip", address, ip_texts(address))
        for place, name in enumerate(alias.get("hostnames", ())):
            here = f"{at}[{index}].hostnames[{place}]"
            found.texts(here, name, dns_subdomain_texts(name))


def validate_host_name_override(spec: Obj, at: str, found: ErrorList) -> None:
    """A host name in place of the pod's own."""
    name, here = spec["hostnameOverride"], f"{at}.hostnameOverride"
    if spec.get("setHostnameAsFQDN"):
        found.forbidden(here, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        found.forbidden(here, "may not be specified when hostNetwork is true")
    if len(name) > _MAX_HOST_NAME_LENGTH:
        found.too_long(here, _MAX_HOST_NAME_LENGTH)
    found.texts(here, name, dns_subdomain_texts(name))


_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTIONS = ("PreemptLowerPriority", "Never")
_MAX_SECONDS = 2**31 - 1
_SUBDOMAIN_FIELDS = ("serviceAccountName", "nodeName")


def validate_pod_create(pod: Obj, found: ErrorList) -> None:
    """A pod that is to be made."""
    validate_pod(pod, found)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        found.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        found.forbidden("spec.nodeName", text)
    validate_profile_annotations(pod["metadata"], spec, "spec", found)


def validate_pod(pod: Obj, found: ErrorList) -> None:
    """What holds of a pod all its life, its metadata aside."""
    metadata, spec = pod["metadata"], pod["spec"]
    if "annotations" in metadata:
        validate_pod_annotations(metadata["annotations"], spec, "metadata.annotations", found)
    validate_pod_spec(spec, "spec", found, metadata=metadata)
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes", ())):
            for place, source in enumerate(volume.get("projected", {}).get("sources") or ()):
                if "serviceAccountToken" in source:
                    here = f"spec.volumes[{index}].projected.sources[{place}].serviceAccountToken"
                    text = "must not be specified when serviceAccountName is not set"
                    found.forbidden(here, text)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field, ())):
            validate_image_whitespace(container, f"spec.{field}[{index}]", found)


def validate_pod_template_spec(template: Obj, at: str, found: ErrorList) -> None:
    """A pod template; its labels and annotations stand beside its metadata."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    found += label_errors(metadata.get("labels", {}), f"{at}.labels")
    if "annotations" in metadata:
        found += annotation_errors(metadata["annotations"], f"{at}.annotations")
        validate_pod_annotations(metadata["annotations"], spec, f"{at}.annotations", found)
    validate_pod_spec(spec, f"{at}.spec", found)
    validate_profile_annotations(metadata, spec, f"{at}.spec", found)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        found.forbidden(f"{at}.spec.ephemeralContainers", text)


def validate_pod_spec(spec: Obj, at: str, found: ErrorList, *, metadata: Obj | None = None) -> None:
    """The spec of a pod, or of a template, which has no metadata of its own."""
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        found.required(f"{at}.terminationGracePeriodSeconds")
    host_users = spec.get("hostUsers") is not False
    name = (metadata or {}).get("name", "")
    pod = metadata is not None
    volumes = validate_volumes(spec.get("volumes", ()), name, f"{at}.volumes", found, pod=pod)
    claims = frozenset(one["name"] for one in spec.get("resourceClaims", ()) if one.get("name"))
    if "resourceClaims" in spec:
        _validate_resource_claims(spec["resourceClaims"], f"{at}.resourceClaims", found)
    around = ContainerContext(volumes, claims, grace, spec.get("restartPolicy", ""), host_users)
    containers = spec.get("containers") or []
    validate_containers(containers, around, f"{at}.containers", found)
    if "initContainers" in spec:
        init = spec["initContainers"]
        validate_init_containers(init, containers, around, f"{at}.initContainers", found)
    if "ephemeralContainers" in spec:
        validate_ephemeral_containers(spec, around, f"{at}.ephemeralContainers", found)
    if "resources" in spec:
        validate_pod_resources(spec, claims, f"{at}.resources", found)
    if spec.get("hostNetwork"):
        _validate_host_network_ports(containers, f"{at}.containers", found, pod=pod)
    found.one_of(f"{at}.restartPolicy", around.restart_policy, _RESTART_POLICIES)
    found.one_of(f"{at}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS_POLICIES)
    if "nodeSelector" in spec:
        found += label_errors(spec["nodeSelector"], f"{at}.nodeSelector")
    validate_pod_security_context(spec, f"{at}.securityContext", found)
    if "affinity" in spec:
        validate_affinity(spec["affinity"], f"{at}.affinity", found)
    if "dnsConfig" in spec or spec.get("dnsPolicy") == "None":
        validate_dns_config(spec, f"{at}.dnsConfig", found)
    _validate_scheduling_gates(spec, at, found)
    if "topologySpreadConstraints" in spec:
        validate_topology_spread_constraints(
            spec["topologySpreadConstraints"], f"{at}.topologySpreadConstraints", found
        )
    validate_windows_host_process(spec, at, found)
    if not host_users:
        _validate_user_namespace(spec, at, found)
    if "hostnameOverride" in spec:
        validate_host_name_override(spec, at, found)
    _validate_name_fields(spec, at, found)
    _validate_pod_spec_fields(spec, at, found)


def _validate_pod_spec_fields(spec: Obj, at: str, found: ErrorList) -> None:
    if "tolerations" in spec:
        validate_tolerations(spec["tolerations"], f"{at}.tolerations", found)
    if "hostAliases" in spec:
        validate_host_aliases(spec["hostAliases"], f"{at}.hostAliases", found)
    for field in ("priorityClassName", "runtimeClassName"):
        if spec.get(field) or (field in spec and field == "runtimeClassName"):
            found.texts(f"{at}.{field}", spec[field], dns_subdomain_texts(spec[field]))
    if "preemptionPolicy" in spec:
        found.one_of(f"{at}.preemptionPolicy", spec["preemptionPolicy"], _PREEMPTIONS)
    if "overhead" in spec:
        validate_overhead(spec["overhead"], f"{at}.overhead", found)
    if "os" in spec:
        validate_os_fields(spec, at, found)
    if any("env" in one for field in _CONTAINER_LISTS for one in spec.get(field) or ()):
        volumes = {one.get("name", ""): one for one in spec.get("volumes", ())}
        for container, here in visit_containers_with_path(spec, at):
            validate_file_key_volumes(container, here, volumes, found)


def _validate_resource_claims(claims: list[Obj], at: str, found: ErrorList) -> None:
    names: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{at}[{index}]", claim.get("name", "")
        if not name:
            found.required(f"{here}.name")
        elif name in names:
            found.duplicate(f"{here}.name", name)
        else:
            found.texts(f"{here}.name", name, dns_label_texts(name))
            names.add(name)
        fields = [
            field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim
        ]
        if len(fields) != 1:
            names_of = "`resourceClaimName`{}`resourceClaimTemplateName`"
            text = (
                f"at most one of {names_of.format(' or ')} may be specified"
                if fields
                else f"must specify one of: {names_of.format(', ')}"
            )
            found.invalid(here, format_internal("core.PodResourceClaim", claim), text)
        for field in fields:
            found.texts(f"{here}.{field}", claim[field], dns_subdomain_texts(claim[field]))


def _validate_host_network_ports(
    containers: list[Obj], at: str, found: ErrorList, *, pod: bool
) -> None:
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports", ())):
            host = port.get("hostPort", 0)
            if (pod or host) and host != port.get("containerPort", 0):
                text = "must match `containerPort` when `hostNetwork` is true"
                found.invalid(f"{at}[{index}].ports[{place}].hostPort", host, text)


def _validate_scheduling_gates(spec: Obj, at: str, found: ErrorList) -> None:
    for index, gate in enumerate(spec.get("readinessGates", ())):
        kind = gate.get("conditionType", "")
        found.texts(f"{at}.readinessGates[{index}].conditionType", kind, label_key_texts(kind))
    names: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        name, here = gate.get("name", ""), f"{at}.schedulingGates[{index}]"
        found.texts(here, name, label_key_texts(name))
        if name in names:
            found.duplicate(here, name)
        names.add(name)


def _validate_user_namespace(spec: Obj, at: str, found: ErrorList) -> None:
    text = "when `hostUsers` is false"
    for field, shown in (
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ):
        if spec.get(field):
            found.forbidden(f"{at}.{shown}", text)
    for container, here in visit_containers_with_path(spec, at):
        if container.get("volumeDevices"):
            found.forbidden(f"{here}.volumeDevices", text)


def _validate_name_fields(spec: Obj, at: str, found: ErrorList) -> None:
    for field in _SUBDOMAIN_FIELDS:
        if spec.get(field):
            found.texts(f"{at}.{field}", spec[field], dns_subdomain_texts(spec[field]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        here = f"{at}.activeDeadlineSeconds"
        found.texts(here, deadline, range_texts(deadline, 1, _MAX_SECONDS))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            found.texts(f"{at}.{field}", spec[field], dns_label_texts(spec[field]))
