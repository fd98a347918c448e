"""Validation of pods, pod specs and pod templates, and of annotations that mirror fields.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePodSpec,
validatePodMetadataAndSpec, ValidatePodCreate, ValidatePodTemplateSpec, validatePodDNSConfig,
ValidateHostAliases, validatePodHostName, ValidatePodSpecificAnnotations,
ValidatePodSpecificAnnotationUpdates, validateSeccompAnnotationsAndFields,
validateAppArmorAnnotationsAndFieldsMatchOnCreate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList
from pytest_kwait.apimachinery.validation import (
    dns_label_texts,
    dns_subdomain_texts,
    ip_texts,
    label_key_texts,
    range_texts,
    underscored_subdomain_texts,
)
from pytest_kwait.simulator.validation.core.pods.containers import (
    ContainerContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_file_key_volumes,
    validate_image_whitespace,
    validate_init_containers,
)
from pytest_kwait.simulator.validation.core.pods.security import (
    validate_os_fields,
    validate_pod_security_context,
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
from pytest_kwait.simulator.validation.core.volumes import (
    validate_local_descending_path,
    validate_volumes,
)
from pytest_kwait.simulator.validation.internal_types import format_internal
from pytest_kwait.simulator.validation.objectmeta import validate_annotations, validate_labels

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER_ANNOTATION_PREFIX = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR_ANNOTATION_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST_PREFIX = "localhost/"
_INTEGER = re.compile(r"0|-?[1-9]\d*")
_MAX_DELETION_COST = 2**31 - 1
_SECCOMP: dict[str, tuple[str, ...]] = {
    "Unconfined": ("unconfined",),
    "RuntimeDefault": ("runtime/default", "docker/default"),
}
_ARMOR: dict[str, tuple[str, ...]] = {
    "Unconfined": ("unconfined",),
    "RuntimeDefault": ("runtime/default",),
}
_MAX_DNS_NAMESERVERS, _MAX_DNS_SEARCHES, _MAX_DNS_SEARCH_CHARACTERS = 3, 32, 2048
_MAX_HOST_NAME_LENGTH = 64

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTIONS = ("PreemptLowerPriority", "Never")
_MAX_SECONDS = 2**31 - 1
_SUBDOMAIN_FIELDS = ("serviceAccountName", "nodeName")


def validate_pod_annotations(annotations: dict[str, str], spec: Obj, at: str) -> ErrorList:
    """Validate the values of annotations that mirror fields."""
    errors = ErrorList()
    if _MIRROR_ANNOTATION in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.invalid(f"{at}[{_MIRROR_ANNOTATION}]", annotations[_MIRROR_ANNOTATION], text)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not (
        _INTEGER.fullmatch(cost) and -_MAX_DELETION_COST - 1 <= int(cost) <= _MAX_DELETION_COST
    ):
        errors.invalid(f"{at}[{_DELETION_COST}]", cost, "must be a 32bit integer")
    if SECCOMP_POD_ANNOTATION in annotations:
        errors += _validate_seccomp_annotation(
            annotations[SECCOMP_POD_ANNOTATION], f"{at}.{SECCOMP_POD_ANNOTATION}"
        )
    for key, value in sorted(annotations.items()):
        if key.startswith(SECCOMP_CONTAINER_ANNOTATION_PREFIX):
            errors += _validate_seccomp_annotation(value, f"{at}.{key}")
    for key, value in sorted(annotations.items()):
        if key.startswith(APP_ARMOR_ANNOTATION_PREFIX):
            name = key.removeprefix(APP_ARMOR_ANNOTATION_PREFIX)
            if all(
                container.get("name") != name
                for container, _ in visit_containers_with_path(spec, "")
            ):
                errors.invalid(f"{at}[{key}]", name, "container not found")
            if value not in ("", "runtime/default", "unconfined") and not value.startswith(
                _LOCALHOST_PREFIX
            ):
                text = f'invalid AppArmor profile name: "{value}"'
                errors.invalid(f"{at}[{key}]", value, text)
    return errors


def _validate_seccomp_annotation(profile: str, at: str) -> ErrorList:
    errors = ErrorList()
    if profile.startswith(_LOCALHOST_PREFIX):
        errors += validate_local_descending_path(profile.removeprefix(_LOCALHOST_PREFIX), at)
    elif profile not in ("runtime/default", "docker/default", "unconfined"):
        errors.invalid(at, profile, "must be a valid seccomp profile")
    return errors


def validate_profile_annotations(metadata: Obj, spec: Obj, at: str) -> ErrorList:
    """Validate that profiles in annotations equal those in fields."""
    errors = ErrorList()
    annotations = metadata.get("annotations")
    if not annotations:
        return errors
    of_pod = spec.get("securityContext") or {}
    if "seccompProfile" in of_pod and SECCOMP_POD_ANNOTATION in annotations:
        here = f"{at}.securityContext.seccompProfile"
        value = annotations[SECCOMP_POD_ANNOTATION]
        errors += _validate_profile_match(
            value, of_pod["seccompProfile"], _SECCOMP, "seccomp", here
        )
    for container, place in visit_containers_with_path(spec, at):
        profile = (container.get("securityContext") or {}).get("seccompProfile")
        value = annotations.get(SECCOMP_CONTAINER_ANNOTATION_PREFIX + container.get("name", ""))
        if profile is not None and value is not None:
            here = f"{place}.securityContext.seccompProfile"
            errors += _validate_profile_match(value, profile, _SECCOMP, "seccomp", here)
    if (spec.get("os") or {}).get("name") == "windows":
        return errors
    for container, place in visit_containers_with_path(spec, at):
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        profile = own or of_pod.get("appArmorProfile")
        value = annotations.get(APP_ARMOR_ANNOTATION_PREFIX + container.get("name", ""))
        if profile is not None and value is not None:
            here = f"{place}.securityContext.appArmorProfile"
            errors += _validate_profile_match(value, profile, _ARMOR, "apparmor", here)
    return errors


def _validate_profile_match(
    value: str,
    profile: Obj,
    known: dict[str, tuple[str, ...]],
    called: str,
    at: str,
) -> ErrorList:
    errors = ErrorList()
    kind = profile.get("type", "")
    if kind == "Localhost":
        if not value.startswith(_LOCALHOST_PREFIX):
            errors.forbidden(f"{at}.type", f"{called} type in annotation and field must match")
        elif value.removeprefix(_LOCALHOST_PREFIX) != profile.get("localhostProfile"):
            text = f"{called} profile in annotation and field must match"
            errors.forbidden(f"{at}.localhostProfile", text)
    elif kind in known and value not in known[kind]:
        errors.forbidden(f"{at}.type", f"{called} type in annotation and field must match")
    return errors


def validate_pod_annotation_update(new: dict[str, str], old: dict[str, str], at: str) -> ErrorList:
    """Validate changes of annotations; some are immutable."""
    errors = ErrorList()
    for key in sorted(old):
        if new.get(key) != old[key]:
            errors += _validate_annotation_immutable(key, "remove or update", at)
    for key in sorted(new.keys() - old.keys()):
        errors += _validate_annotation_immutable(key, "add", at)
    return errors


def _validate_annotation_immutable(key: str, verb: str, at: str) -> ErrorList:
    errors = ErrorList()
    if key.startswith(APP_ARMOR_ANNOTATION_PREFIX):
        errors.forbidden(f"{at}[{key}]", f"may not {verb} AppArmor annotations")
    if key == _MIRROR_ANNOTATION:
        errors.forbidden(f"{at}[{key}]", f"may not {verb} mirror pod annotation")
    return errors


def validate_dns_config(spec: Obj, at: str) -> ErrorList:
    """Validate a pod's DNS configuration."""
    errors = ErrorList()
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            errors.required(at, "must provide `dnsConfig` when `dnsPolicy` is None")
            return errors
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.required(f"{at}.nameservers", text)
            return errors
    if config is None:
        return errors
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    if len(servers) > _MAX_DNS_NAMESERVERS:
        text = f"must not have more than {_MAX_DNS_NAMESERVERS} nameservers"
        errors.invalid(f"{at}.nameservers", servers, text)
    for index, server in enumerate(servers):
        errors.invalid_each(f"{at}.nameservers[{index}]", server, ip_texts(server))
    if len(searches) > _MAX_DNS_SEARCHES:
        text = f"must not have more than {_MAX_DNS_SEARCHES} search paths"
        errors.invalid(f"{at}.searches", searches, text)
    if len(" ".join(searches)) > _MAX_DNS_SEARCH_CHARACTERS:
        text = (
            f"must not have more than {_MAX_DNS_SEARCH_CHARACTERS} characters (including spaces) in"
            " the search list"
        )
        errors.invalid(f"{at}.searches", searches, text)
    for index, search in enumerate(searches):
        if search != ".":
            name = search.removesuffix(".")
            errors.invalid_each(f"{at}.searches[{index}]", name, underscored_subdomain_texts(name))
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            errors.required(f"{at}.options[{index}]", "must not be empty")
    return errors


def validate_host_aliases(aliases: list[Obj], at: str) -> ErrorList:
    """Validate the host aliases of a pod."""
    errors = ErrorList()
    for index, alias in enumerate(aliases):
        address = alias.get("ip", "")
        errors.invalid_each(f"{at}[{index}].ip", address, ip_texts(address))
        for place, name in enumerate(alias.get("hostnames", ())):
            here = f"{at}[{index}].hostnames[{place}]"
            errors.invalid_each(here, name, dns_subdomain_texts(name))
    return errors


def validate_host_name_override(spec: Obj, at: str) -> ErrorList:
    """Validate a host name override."""
    errors = ErrorList()
    name, here = spec["hostnameOverride"], f"{at}.hostnameOverride"
    if spec.get("setHostnameAsFQDN"):
        errors.forbidden(here, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        errors.forbidden(here, "may not be specified when hostNetwork is true")
    if len(name) > _MAX_HOST_NAME_LENGTH:
        errors.too_long(here, _MAX_HOST_NAME_LENGTH)
    errors.invalid_each(here, name, dns_subdomain_texts(name))
    return errors


def validate_pod_create(pod: Obj) -> ErrorList:
    """Validate a new pod."""
    errors = validate_pod(pod)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.forbidden("spec.nodeName", text)
    errors += validate_profile_annotations(pod["metadata"], spec, "spec")
    return errors


def validate_pod(pod: Obj) -> ErrorList:
    """Validate a pod without its metadata, on create and on update."""
    errors = ErrorList()
    metadata, spec = pod["metadata"], pod["spec"]
    if "annotations" in metadata:
        errors += validate_pod_annotations(metadata["annotations"], spec, "metadata.annotations")
    errors += validate_pod_spec(spec, "spec", metadata=metadata)
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes", ())):
            for place, source in enumerate(volume.get("projected", {}).get("sources") or ()):
                if "serviceAccountToken" in source:
                    here = f"spec.volumes[{index}].projected.sources[{place}].serviceAccountToken"
                    text = "must not be specified when serviceAccountName is not set"
                    errors.forbidden(here, text)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field, ())):
            errors += validate_image_whitespace(container, f"spec.{field}[{index}]")
    return errors


def validate_pod_template_spec(template: Obj, at: str) -> ErrorList:
    """Validate a pod template with its labels and annotations."""
    errors = ErrorList()
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    errors += validate_labels(metadata.get("labels", {}), f"{at}.labels")
    if "annotations" in metadata:
        errors += validate_annotations(metadata["annotations"], f"{at}.annotations")
        errors += validate_pod_annotations(metadata["annotations"], spec, f"{at}.annotations")
    errors += validate_pod_spec(spec, f"{at}.spec")
    errors += validate_profile_annotations(metadata, spec, f"{at}.spec")
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.forbidden(f"{at}.spec.ephemeralContainers", text)
    return errors


def validate_pod_spec(spec: Obj, at: str, *, metadata: Obj | None = None) -> ErrorList:
    """Validate the spec of a pod, or of a template, whose `metadata` is None."""
    errors = ErrorList()
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        errors.required(f"{at}.terminationGracePeriodSeconds")
    host_users = spec.get("hostUsers") is not False
    name = (metadata or {}).get("name", "")
    pod = metadata is not None
    volumes, volume_errors = validate_volumes(
        spec.get("volumes", ()), name, f"{at}.volumes", pod=pod
    )
    errors += volume_errors
    claims = frozenset(
        claim["name"] for claim in spec.get("resourceClaims", ()) if claim.get("name")
    )
    if "resourceClaims" in spec:
        errors += _validate_resource_claims(spec["resourceClaims"], f"{at}.resourceClaims")
    around = ContainerContext(volumes, claims, grace, spec.get("restartPolicy", ""), host_users)
    containers = spec.get("containers") or []
    errors += validate_containers(containers, around, f"{at}.containers")
    if "initContainers" in spec:
        init = spec["initContainers"]
        errors += validate_init_containers(init, containers, around, f"{at}.initContainers")
    if "ephemeralContainers" in spec:
        errors += validate_ephemeral_containers(spec, around, f"{at}.ephemeralContainers")
    if "resources" in spec:
        errors += validate_pod_resources(spec, claims, f"{at}.resources")
    if spec.get("hostNetwork"):
        errors += _validate_host_network_ports(containers, f"{at}.containers", pod=pod)
    errors.require_one_of(f"{at}.restartPolicy", around.restart_policy, _RESTART_POLICIES)
    errors.require_one_of(f"{at}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS_POLICIES)
    if "nodeSelector" in spec:
        errors += validate_labels(spec["nodeSelector"], f"{at}.nodeSelector")
    errors += validate_pod_security_context(spec, f"{at}.securityContext")
    if "affinity" in spec:
        errors += validate_affinity(spec["affinity"], f"{at}.affinity")
    if "dnsConfig" in spec or spec.get("dnsPolicy") == "None":
        errors += validate_dns_config(spec, f"{at}.dnsConfig")
    errors += _validate_scheduling_gates(spec, at)
    if "topologySpreadConstraints" in spec:
        errors += validate_topology_spread_constraints(
            spec["topologySpreadConstraints"], f"{at}.topologySpreadConstraints"
        )
    errors += validate_windows_host_process(spec, at)
    if not host_users:
        errors += _validate_user_namespace(spec, at)
    if "hostnameOverride" in spec:
        errors += validate_host_name_override(spec, at)
    errors += _validate_name_fields(spec, at)
    errors += _validate_pod_spec_fields(spec, at)
    return errors


def _validate_pod_spec_fields(spec: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    if "tolerations" in spec:
        errors += validate_tolerations(spec["tolerations"], f"{at}.tolerations")
    if "hostAliases" in spec:
        errors += validate_host_aliases(spec["hostAliases"], f"{at}.hostAliases")
    for field in ("priorityClassName", "runtimeClassName"):
        if spec.get(field) or (field in spec and field == "runtimeClassName"):
            errors.invalid_each(f"{at}.{field}", spec[field], dns_subdomain_texts(spec[field]))
    if "preemptionPolicy" in spec:
        errors.require_one_of(f"{at}.preemptionPolicy", spec["preemptionPolicy"], _PREEMPTIONS)
    if "overhead" in spec:
        errors += validate_overhead(spec["overhead"], f"{at}.overhead")
    if "os" in spec:
        errors += validate_os_fields(spec, at)
    if any("env" in container for field in _CONTAINER_LISTS for container in spec.get(field) or ()):
        volumes = {volume.get("name", ""): volume for volume in spec.get("volumes", ())}
        for container, here in visit_containers_with_path(spec, at):
            errors += validate_file_key_volumes(container, here, volumes)
    return errors


def _validate_resource_claims(claims: list[Obj], at: str) -> ErrorList:
    errors = ErrorList()
    names: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{at}[{index}]", claim.get("name", "")
        if not name:
            errors.required(f"{here}.name")
        elif name in names:
            errors.duplicate(f"{here}.name", name)
        else:
            errors.invalid_each(f"{here}.name", name, dns_label_texts(name))
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
            errors.invalid(here, format_internal("core.PodResourceClaim", claim), text)
        for field in fields:
            errors.invalid_each(f"{here}.{field}", claim[field], dns_subdomain_texts(claim[field]))
    return errors


def _validate_host_network_ports(containers: list[Obj], at: str, *, pod: bool) -> ErrorList:
    errors = ErrorList()
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports", ())):
            host = port.get("hostPort", 0)
            if (pod or host) and host != port.get("containerPort", 0):
                text = "must match `containerPort` when `hostNetwork` is true"
                errors.invalid(f"{at}[{index}].ports[{place}].hostPort", host, text)
    return errors


def _validate_scheduling_gates(spec: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    for index, gate in enumerate(spec.get("readinessGates", ())):
        kind = gate.get("conditionType", "")
        errors.invalid_each(
            f"{at}.readinessGates[{index}].conditionType", kind, label_key_texts(kind)
        )
    names: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        name, here = gate.get("name", ""), f"{at}.schedulingGates[{index}]"
        errors.invalid_each(here, name, label_key_texts(name))
        errors.require_unique(here, name, names)
    return errors


def _validate_user_namespace(spec: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    text = "when `hostUsers` is false"
    for field, reported_field in (
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ):
        if spec.get(field):
            errors.forbidden(f"{at}.{reported_field}", text)
    for container, here in visit_containers_with_path(spec, at):
        if container.get("volumeDevices"):
            errors.forbidden(f"{here}.volumeDevices", text)
    return errors


def _validate_name_fields(spec: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    for field in _SUBDOMAIN_FIELDS:
        if spec.get(field):
            errors.invalid_each(f"{at}.{field}", spec[field], dns_subdomain_texts(spec[field]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        here = f"{at}.activeDeadlineSeconds"
        errors.invalid_each(here, deadline, range_texts(deadline, 1, _MAX_SECONDS))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors.invalid_each(f"{at}.{field}", spec[field], dns_label_texts(spec[field]))
    return errors
