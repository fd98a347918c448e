"""Warnings about pods and pod templates that are valid but likely wrong.

Source: k8s.io/kubernetes pkg/api/pod/warnings.go, warningsForPodSpecAndMeta,
warningsForOverlappingVirtualPaths; pkg/api/node/util.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.apimachinery.validation import dns_label_texts, label_value_texts
from pytest_kwait.simulator.validation.addresses import get_ip_warnings
from pytest_kwait.simulator.validation.core.nodes import DEPRECATED_NODE_LABELS
from pytest_kwait.simulator.validation.core.pods.pod_spec import (
    APP_ARMOR_ANNOTATION_PREFIX,
    SECCOMP_CONTAINER_ANNOTATION_PREFIX,
    SECCOMP_POD_ANNOTATION,
)
from pytest_kwait.simulator.validation.core.pods.security import visit_containers_with_path
from pytest_kwait.simulator.validation.core.scheduling import RecentlyValid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kwait.simulator.objects import Obj

_DEPRECATED_SOURCES = {
    # By source: its name in paths, and the warning.
    "photonPersistentDisk": (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    "gitRepo": ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "flocker": ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "quobyte": ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}

_RECENTLY_CLEAN = RecentlyValid()
_WITH_FILES = frozenset({"configMap", "secret", "downwardAPI"})

_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_SELECTOR = "a null labelSelector results in matching no pod"
_SECCOMP_ANNOTATION_WARNING = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_BYTE_RESOURCES = ("memory", "ephemeral-storage")


def get_port_warnings(spec: Obj, at: str) -> Iterator[str]:
    """Yield warnings about duplicate ports, then about duplicate port names."""
    lists = (spec.get("containers", ()), spec.get("initContainers", ()))
    if not any("ports" in container for containers in lists for container in containers):
        return
    ports = [
        (f"{place}.ports[{index}]", port)
        for container, place in visit_containers_with_path(spec, at)
        if "ports" in container
        for index, port in enumerate(container["ports"])
    ]
    ports_by_number: dict[tuple[int, str], list[tuple[str, Obj]]] = {}
    for here, port in ports:
        address, host = port.get("hostIP", ""), port.get("hostPort", 0)
        if address and not host:
            yield f"{here}: hostIP set without hostPort: {_render_port(port)}"
        same_ports = ports_by_number.setdefault(
            (port.get("containerPort", 0), port.get("protocol", "")), []
        )
        for there, other_port in same_ports:
            other_address, other_host = other_port.get("hostIP", ""), other_port.get("hostPort", 0)
            if address == other_address and host == other_host:
                yield f"{here}: duplicate port definition with {there}"
            elif not host or not other_host:
                yield f"{here}: overlapping port definition with {there}"
            elif host == other_host and bool(address) != bool(other_address):
                yield f"{here}: dangerously ambiguous port definition with {there}"
        same_ports.append((here, port))
    names: dict[str, str] = {}
    for here, port in ports:
        name = port.get("name", "")
        if name and name in names:
            there = names[name]
            yield (
                f'{here}: duplicate port name "{name}" with {there}, services and probes that '
                f"select ports by name will use {there}"
            )
        elif name:
            names[name] = here


def _render_port(port: Obj) -> str:
    """Return a port as Go prints its struct."""
    return (
        f"{{Name:{port.get('name', '')} HostPort:{port.get('hostPort', 0)} "
        f"ContainerPort:{port.get('containerPort', 0)} Protocol:{port.get('protocol', '')} "
        f"HostIP:{port.get('hostIP', '')}}}"
    )


class _VirtualFile(NamedTuple):
    path: str
    source: str

    def __str__(self) -> str:
        return f'"{self.path}" ({self.source})' if self.source else f'"{self.path}"'


def get_volume_warnings(volumes: list[Obj], at: str) -> Iterator[str]:
    """Yield the warnings about a pod's volumes."""
    for index, volume in enumerate(volumes):
        for source in volume:
            if source in _DEPRECATED_SOURCES:
                called, text = _DEPRECATED_SOURCES[source]
                yield f"{at}.volumes[{index}].{called}: {text}"
    for volume in volumes:
        if "projected" in volume:
            if volume["projected"] not in _RECENTLY_CLEAN:
                texts = list(_find_projected_overlaps(volume))
                yield from texts
                if not texts:
                    _RECENTLY_CLEAN.add(volume["projected"])
        elif _WITH_FILES & volume.keys():
            yield from _find_overlaps(volume)


def _find_overlaps(volume: Obj) -> Iterator[str]:
    name = volume.get("name", "")
    for field, called, key in (
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ):
        source = volume.get(field, {})
        source_text = f'{called} "{source.get(key, "")}"' if key else called
        files = [_VirtualFile(item.get("path", ""), "") for item in source.get("items", ())]
        yield from _find_collisions(
            files, [], f'volume "{name}" ({source_text}): overlapping paths: '
        )


def _find_projected_overlaps(volume: Obj) -> Iterator[str]:
    name = volume.get("name", "")
    earlier_files: list[_VirtualFile] = []
    lead = f'volume "{name}" (Projected): overlapping paths: '
    sources = volume["projected"].get("sources") or ()
    listed = [_list_files(source) for source in sources]
    paths = [file.path for files in listed for file in files]
    apart = len(set(paths)) == len(paths) and not any("/" in path for path in paths)
    for source, files in zip(sources, listed, strict=True):
        if not source:
            yield f'volume "{name}" (Projected) has no sources provided'
        elif not apart:
            yield from _find_collisions(files, earlier_files, lead)


def _list_files(source: Obj) -> Iterable[_VirtualFile]:
    if "serviceAccountToken" in source:
        return [_VirtualFile(source["serviceAccountToken"].get("path", ""), "ServiceAccountToken")]
    for field, called in (("configMap", "ConfigMap"), ("secret", "Secret")):
        items = source.get(field, {}).get("items")
        if items:
            source_text = f'{called} "{source[field].get("name", "")}"'
            return [_VirtualFile(item.get("path", ""), source_text) for item in items]
    if source.get("downwardAPI", {}).get("items"):
        items = source["downwardAPI"]["items"]
        return [_VirtualFile(item.get("path", ""), "DownwardAPI") for item in items]
    return []


def _find_collisions(
    files: Iterable[_VirtualFile], earlier_files: list[_VirtualFile], lead: str
) -> Iterator[str]:
    for file in files:
        stripped_file = file._replace(path=file.path.rstrip("/"))
        for other_file in earlier_files:
            if (
                stripped_file.path
                and other_file.path
                and _is_same_path(stripped_file.path, other_file.path)
            ):
                yield f"{lead}{stripped_file} with {other_file}"
        earlier_files.append(stripped_file)


def _is_same_path(first_path: str, second_path: str) -> bool:
    return f"{first_path}/".startswith(f"{second_path}/") or f"{second_path}/".startswith(
        f"{first_path}/"
    )


def get_name_warnings(obj: Obj, where: str) -> Iterator[str]:
    """Yield the warning about a name that is used as host name and is no DNS label."""
    texts = dns_label_texts(obj["metadata"].get("name", ""))
    if texts:
        yield (
            f"metadata.name: this is used in {where}, which can result in surprising behavior; a "
            f"DNS label is recommended: [{' '.join(texts)}]"
        )


def get_pod_warnings(spec: Obj, metadata: Obj, at: str) -> Iterator[str]:
    """Yield the warnings about a pod, or about the template at `at`."""
    prefix = f"{at}." if at else ""
    here = f"{prefix}spec"
    for key in sorted(spec.get("nodeSelector", ())):
        if key in DEPRECATED_NODE_LABELS:
            yield f"{here}.nodeSelector[{key}]: {DEPRECATED_NODE_LABELS[key]}"
    if "affinity" in spec:
        yield from _get_node_warnings(spec["affinity"].get("nodeAffinity", {}), here)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        place = f"{here}.topologySpreadConstraints[{index}]"
        key = constraint.get("topologyKey", "")
        if key in DEPRECATED_NODE_LABELS:
            yield f"{place}.topologyKey: {key} is {DEPRECATED_NODE_LABELS[key]}"
        if "labelSelector" not in constraint:
            yield f"{place}.labelSelector: {_NO_SELECTOR}"
    annotations = metadata.get("annotations") or {}
    for key, text in _DEPRECATED_ANNOTATIONS.items() if annotations else ():
        if key in annotations:
            yield f"{prefix}metadata.annotations[{key}]: {text}"
    if "volumes" in spec:
        yield from get_volume_warnings(spec["volumes"], here)
    if "hostAliases" in spec or "imagePullSecrets" in spec:
        yield from _get_duplicate_warnings(spec, here)
    if "overhead" in spec:
        yield from _get_fractional_byte_warnings(spec["overhead"], f"{here}.overhead")
    if SECCOMP_POD_ANNOTATION in annotations and "seccompProfile" not in (
        spec.get("securityContext") or {}
    ):
        place = f"{prefix}metadata.annotations[{SECCOMP_POD_ANNOTATION}]"
        yield f"{place}: {_SECCOMP_ANNOTATION_WARNING}"
    for container, place in visit_containers_with_path(spec, here):
        if annotations:
            yield from _get_profile_warnings(container, spec, annotations, at)
        if container.get("resources"):
            for field in _BYTE_RESOURCES:
                for kind in ("limits", "requests"):
                    amounts = container["resources"].get(kind, {})
                    yield from _get_fractional_byte_warnings(
                        amounts, f"{place}.resources.{kind}", (field,)
                    )
        if len(container.get("env", ())) > 1:
            yield from _get_duplicate_variable_warnings(container["env"], f"{place}.env")
    yield from get_port_warnings(spec, here)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{here}.terminationGracePeriodSeconds: {text}"
    if "affinity" in spec:
        yield from _get_pod_affinity_warnings(spec["affinity"], f"{here}.affinity")
    for index, server in enumerate(spec.get("dnsConfig", {}).get("nameservers", ())):
        yield from get_ip_warnings(f"{here}.dnsConfig.nameservers[{index}]", server)
    for index, alias in enumerate(spec.get("hostAliases", ())):
        yield from get_ip_warnings(f"{here}.hostAliases[{index}].ip", alias.get("ip", ""))


def _get_node_warnings(affinity: Obj, at: str) -> Iterator[str]:
    at = f"{at}.affinity.nodeAffinity"
    for index, term in enumerate(affinity.get(_REQUIRED, {}).get("nodeSelectorTerms") or ()):
        yield from _get_term_warnings(term, f"{at}.{_REQUIRED}.nodeSelectorTerms[{index}]")
    for index, preferred in enumerate(affinity.get(_PREFERRED, ())):
        place = f"{at}.{_PREFERRED}[{index}].preference"
        yield from _get_term_warnings(preferred.get("preference", {}), place, values=True)


def _get_term_warnings(term: Obj, at: str, *, values: bool = False) -> Iterator[str]:
    for index, rule in enumerate(term.get("matchExpressions", ())):
        key, place = rule.get("key", ""), f"{at}.matchExpressions[{index}]"
        if key in DEPRECATED_NODE_LABELS:
            yield f"{place}.key: {key} is {DEPRECATED_NODE_LABELS[key]}"
        for number, value in enumerate(rule.get("values", ()) if values else ()):
            for text in label_value_texts(value):
                yield f"{place}.values[{number}]: {value} is invalid, {text}"


def _get_duplicate_warnings(spec: Obj, at: str) -> Iterator[str]:
    for field, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        checked_values: set[str] = set()
        for index, item in enumerate(spec.get(field, ())):
            value = item.get(key, "")
            if value in checked_values:
                yield f'{at}.{field}[{index}].{key}: duplicate {key} "{value}"'
            checked_values.add(value)
    for index, item in enumerate(spec.get("imagePullSecrets", ())):
        if not item.get("name"):
            yield f'{at}.imagePullSecrets[{index}].name: invalid empty name ""'


def _get_fractional_byte_warnings(
    amounts: Obj, at: str, fields: tuple[str, ...] = _BYTE_RESOURCES
) -> Iterator[str]:
    for field in fields:
        text = amounts.get(field)
        if text is not None and text[-1:] in "munk" and parse_quantity(text).amount.denominator > 1:
            yield f'{at}[{field}]: fractional byte value "{text}" is invalid, must be an integer'


def _get_profile_warnings(
    container: Obj, spec: Obj, annotations: dict[str, str], template: str
) -> Iterator[str]:
    context = container.get("securityContext") or {}
    key = SECCOMP_CONTAINER_ANNOTATION_PREFIX + container.get("name", "")
    at = f"{template}.metadata.annotations" if template else "metadata.annotations"
    if "seccompProfile" not in context and key in annotations:
        yield f"{at}[{key}]: {_SECCOMP_ANNOTATION_WARNING}"
    key = APP_ARMOR_ANNOTATION_PREFIX + container.get("name", "")
    if not template or key not in annotations or "appArmorProfile" in context:
        return
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    kinds = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
    expected: Obj | None = None
    if annotations[key] in kinds:
        expected = {"type": kinds[annotations[key]]}
    elif local := annotations[key].removeprefix("localhost/"):
        expected = {"type": "Localhost", "localhostProfile": local}
    if of_pod is None or of_pod != expected:
        yield f'{at}[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'


def _get_duplicate_variable_warnings(variables: list[Obj], at: str) -> Iterator[str]:
    checked_names: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name", ""), variable.get("value", "")
        if name not in checked_names:
            checked_names.add(name)
            continue
        reference = f"$({name})"
        if "valueFrom" in variable or value == reference or reference not in value:
            text = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{at}[{index}]: {text}"


def _get_pod_affinity_warnings(affinity: Obj, at: str) -> Iterator[str]:
    for field in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(field, {})
        for index, term in enumerate(terms.get(_REQUIRED, ())):
            if "labelSelector" not in term:
                yield f"{at}.{field}.{_REQUIRED}[{index}].labelSelector: {_NO_SELECTOR}"
        for index, weighted in enumerate(terms.get(_PREFERRED, ())):
            if "labelSelector" not in weighted.get("podAffinityTerm", {}):
                place = f"{at}.{field}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector"
                yield f"{place}: {_NO_SELECTOR}"
