"""A pod's spec as a whole, and pod templates.

Source: pkg/apis/core/validation/validation.go, ValidatePodSpec, validatePodMetadataAndSpec,
ValidatePodCreate, ValidatePodTemplateSpec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import (
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    range_texts,
)
from pytest_kwait.simulator.internal_values import internal_json
from pytest_kwait.simulator.pod_rules.annotations import (
    check_pod_annotations,
    check_profile_annotations,
)
from pytest_kwait.simulator.pod_rules.containers import (
    Surroundings,
    check_containers,
    check_ephemeral,
    check_image_blanks,
    check_init_containers,
)
from pytest_kwait.simulator.pod_rules.network import (
    check_dns_config,
    check_host_aliases,
    check_host_names,
)
from pytest_kwait.simulator.pod_rules.placement import check_affinity, check_spread
from pytest_kwait.simulator.pod_rules.resources import check_overhead, check_pod_resources
from pytest_kwait.simulator.pod_rules.security import check_pod_security
from pytest_kwait.simulator.pod_rules.tolerations import check_tolerations
from pytest_kwait.simulator.pod_rules.variables import check_file_volumes
from pytest_kwait.simulator.pod_rules.volumes import check_volumes
from pytest_kwait.simulator.pod_rules.windows import (
    check_host_process,
    check_system,
    containers_at,
)
from pytest_kwait.simulator.validation import annotation_errors, label_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_new_pod", "check_pod", "check_pod_spec", "check_template"]

_LISTS = ("initContainers", "containers", "ephemeralContainers")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTIONS = ("PreemptLowerPriority", "Never")
_MOST_SECONDS = 2**31 - 1
_SUBDOMAINS = ("serviceAccountName", "nodeName")


def check_new_pod(pod: Obj, found: Findings) -> None:
    """A pod that is to be made."""
    check_pod(pod, found)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        found.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        found.forbidden("spec.nodeName", text)
    check_profile_annotations(pod["metadata"], spec, "spec", found)


def check_pod(pod: Obj, found: Findings) -> None:
    """What holds of a pod all its life, its metadata aside."""
    metadata, spec = pod["metadata"], pod["spec"]
    if "annotations" in metadata:
        check_pod_annotations(metadata["annotations"], spec, "metadata.annotations", found)
    check_pod_spec(spec, "spec", found, metadata=metadata)
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes", ())):
            for place, source in enumerate(volume.get("projected", {}).get("sources") or ()):
                if "serviceAccountToken" in source:
                    here = f"spec.volumes[{index}].projected.sources[{place}].serviceAccountToken"
                    text = "must not be specified when serviceAccountName is not set"
                    found.forbidden(here, text)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field, ())):
            check_image_blanks(container, f"spec.{field}[{index}]", found)


def check_template(template: Obj, at: str, found: Findings) -> None:
    """A pod template; its labels and annotations stand beside its metadata."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    found += label_errors(metadata.get("labels", {}), f"{at}.labels")
    if "annotations" in metadata:
        found += annotation_errors(metadata["annotations"], f"{at}.annotations")
        check_pod_annotations(metadata["annotations"], spec, f"{at}.annotations", found)
    check_pod_spec(spec, f"{at}.spec", found)
    check_profile_annotations(metadata, spec, f"{at}.spec", found)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        found.forbidden(f"{at}.spec.ephemeralContainers", text)


def check_pod_spec(spec: Obj, at: str, found: Findings, *, metadata: Obj | None = None) -> None:
    """The spec of a pod, or of a template, which has no metadata of its own."""
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        found.required(f"{at}.terminationGracePeriodSeconds")
    host_users = spec.get("hostUsers") is not False
    name = (metadata or {}).get("name", "")
    pod = metadata is not None
    volumes = check_volumes(spec.get("volumes", ()), name, f"{at}.volumes", found, pod=pod)
    claims = frozenset(one["name"] for one in spec.get("resourceClaims", ()) if one.get("name"))
    if "resourceClaims" in spec:
        _check_claims(spec["resourceClaims"], f"{at}.resourceClaims", found)
    around = Surroundings(volumes, claims, grace, spec.get("restartPolicy", ""), host_users)
    containers = spec.get("containers") or []
    check_containers(containers, around, f"{at}.containers", found)
    if "initContainers" in spec:
        init = spec["initContainers"]
        check_init_containers(init, containers, around, f"{at}.initContainers", found)
    if "ephemeralContainers" in spec:
        check_ephemeral(spec, around, f"{at}.ephemeralContainers", found)
    if "resources" in spec:
        check_pod_resources(spec, claims, f"{at}.resources", found)
    if spec.get("hostNetwork"):
        _check_host_ports(containers, f"{at}.containers", found, pod=pod)
    found.one_of(f"{at}.restartPolicy", around.restart_policy, _RESTART_POLICIES)
    found.one_of(f"{at}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS_POLICIES)
    if "nodeSelector" in spec:
        found += label_errors(spec["nodeSelector"], f"{at}.nodeSelector")
    check_pod_security(spec, f"{at}.securityContext", found)
    if "affinity" in spec:
        check_affinity(spec["affinity"], f"{at}.affinity", found)
    if "dnsConfig" in spec or spec.get("dnsPolicy") == "None":
        check_dns_config(spec, f"{at}.dnsConfig", found)
    _check_gates(spec, at, found)
    if "topologySpreadConstraints" in spec:
        check_spread(spec["topologySpreadConstraints"], f"{at}.topologySpreadConstraints", found)
    check_host_process(spec, at, found)
    if not host_users:
        _check_own_users(spec, at, found)
    if "hostnameOverride" in spec:
        check_host_names(spec, at, found)
    _check_names(spec, at, found)
    _check_rest(spec, at, found)


def _check_rest(spec: Obj, at: str, found: Findings) -> None:
    if "tolerations" in spec:
        check_tolerations(spec["tolerations"], f"{at}.tolerations", found)
    if "hostAliases" in spec:
        check_host_aliases(spec["hostAliases"], f"{at}.hostAliases", found)
    for field in ("priorityClassName", "runtimeClassName"):
        if spec.get(field) or (field in spec and field == "runtimeClassName"):
            found.texts(f"{at}.{field}", spec[field], dns_subdomain_texts(spec[field]))
    if "preemptionPolicy" in spec:
        found.one_of(f"{at}.preemptionPolicy", spec["preemptionPolicy"], _PREEMPTIONS)
    if "overhead" in spec:
        check_overhead(spec["overhead"], f"{at}.overhead", found)
    if "os" in spec:
        check_system(spec, at, found)
    if any("env" in one for field in _LISTS for one in spec.get(field) or ()):
        volumes = {one.get("name", ""): one for one in spec.get("volumes", ())}
        for container, here in containers_at(spec, at):
            check_file_volumes(container, here, volumes, found)


def _check_claims(claims: list[Obj], at: str, found: Findings) -> None:
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
            found.invalid(here, internal_json("core.PodResourceClaim", claim), text)
        for field in fields:
            found.texts(f"{here}.{field}", claim[field], dns_subdomain_texts(claim[field]))


def _check_host_ports(containers: list[Obj], at: str, found: Findings, *, pod: bool) -> None:
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports", ())):
            host = port.get("hostPort", 0)
            if (pod or host) and host != port.get("containerPort", 0):
                text = "must match `containerPort` when `hostNetwork` is true"
                found.invalid(f"{at}[{index}].ports[{place}].hostPort", host, text)


def _check_gates(spec: Obj, at: str, found: Findings) -> None:
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


def _check_own_users(spec: Obj, at: str, found: Findings) -> None:
    text = "when `hostUsers` is false"
    for field, shown in (
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ):
        if spec.get(field):
            found.forbidden(f"{at}.{shown}", text)
    for container, here in containers_at(spec, at):
        if container.get("volumeDevices"):
            found.forbidden(f"{here}.volumeDevices", text)


def _check_names(spec: Obj, at: str, found: Findings) -> None:
    for field in _SUBDOMAINS:
        if spec.get(field):
            found.texts(f"{at}.{field}", spec[field], dns_subdomain_texts(spec[field]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        here = f"{at}.activeDeadlineSeconds"
        found.texts(here, deadline, range_texts(deadline, 1, _MOST_SECONDS))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            found.texts(f"{at}.{field}", spec[field], dns_label_texts(spec[field]))
