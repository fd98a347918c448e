"""Environment of a pod's containers: variables, host names, files in `/etc`, and resources.

Source: kubelet_pods.go, `GeneratePodHostNameAndDomain`, `generatePodHostsFile`,
`getServiceEnvVarMap`; pkg/kubelet/envvars/envvars.go; pkg/util/node; network/dns/dns.go;
kubelet/cm/helpers_linux.go; kubelet/qos/policy.go.
"""

from __future__ import annotations

import base64
import json
import math
import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity
from pytest_kwait.simulator.kubelet.cri import ContainerConfigError, LinuxContainerResources
from pytest_kwait.simulator.kubelet.restart_policy import is_sidecar
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of
from pytest_kwait.simulator.protocol.addresses import (
    CLUSTER_DNS_ADDRESS,
    CLUSTER_DOMAIN,
    NODE_DNS_ADDRESS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kwait.simulator.cluster_protocol import Cluster

NODE_HOSTS = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)

_PERIOD_MICROSECONDS, _MIN_QUOTA = 100_000, 1000
_MIN_SHARES, _MAX_SHARES, _SHARES_PER_CPU = 2, 262_144, 1024
_GUARANTEED_SCORE, _BEST_EFFORT_SCORE = -997, 1000
_MAX_HOSTNAME = 63
_MAX_QUALIFIED_HOSTNAME = 64
_MAX_NAMESERVERS = 3
_HOSTS_HEADER = "# Kubernetes-managed hosts file.\n"
_HOST_NETWORK_HEADER = "# Kubernetes-managed hosts file (host network).\n"

_REFERENCE = re.compile(r"\$\$|\$\(([^)$]+)\)")


def make_service_variables(cluster: Cluster, pod: Obj) -> dict[str, str]:
    """Return the environment variables for services of the pod's namespace and the API server."""
    services = []
    if pod["spec"].get("enableServiceLinks", True) and namespace_of(pod) != "default":
        services = cluster.list("services", namespace_of(pod))
    master = cluster.find("services", "kubernetes", "default")
    if master is not None:
        services = [*services, master]
    env: dict[str, str] = {}
    for service in services:
        address = service["spec"].get("clusterIP")
        if address and address != "None":
            env.update(_make_variables(service, address))
    return env


def _make_variables(service: Obj, address: str) -> dict[str, str]:
    name = name_of(service).upper().replace("-", "_")
    ports = service["spec"].get("ports") or []
    if not ports:
        return {}
    first = ports[0]
    env = {f"{name}_SERVICE_HOST": address, f"{name}_SERVICE_PORT": str(first["port"])}
    for port in ports:
        if port.get("name"):
            word = str(port["name"]).upper().replace("-", "_")
            env[f"{name}_SERVICE_PORT_{word}"] = str(port["port"])
    for index, port in enumerate(ports):
        protocol = str(port.get("protocol") or "TCP")
        url = f"{protocol.lower()}://{address}:{port['port']}"
        if index == 0:
            env[f"{name}_PORT"] = url
        prefix = f"{name}_PORT_{port['port']}_{protocol.upper()}"
        env[prefix] = url
        env[f"{prefix}_PROTO"] = protocol.lower()
        env[f"{prefix}_PORT"] = str(port["port"])
        env[f"{prefix}_ADDR"] = address
    return env


def get_short_hostname(pod: Obj) -> str:
    """Return the host name of a pod without its domain."""
    spec = pod["spec"]
    if spec.get("hostnameOverride"):
        return str(spec["hostnameOverride"])
    if spec.get("hostname"):
        return str(spec["hostname"])
    return name_of(pod)[:_MAX_HOSTNAME].rstrip("-.")


def get_domain(pod: Obj) -> str:
    """Return the domain of a pod; empty without one."""
    spec = pod["spec"]
    if spec.get("hostnameOverride") or not spec.get("subdomain"):
        return ""
    return f"{spec['subdomain']}.{namespace_of(pod)}.svc.{CLUSTER_DOMAIN}"


def _make_qualified_name(pod: Obj) -> str:
    return f"{get_short_hostname(pod)}.{get_domain(pod)}"


def get_hostname(pod: Obj) -> str:
    """Return the host name that `hostname` prints in the pod's containers."""
    if pod["spec"].get("hostNetwork"):
        return str(pod["spec"].get("nodeName") or "")
    if pod["spec"].get("setHostnameAsFQDN") and get_domain(pod):
        return _make_qualified_name(pod)
    return get_short_hostname(pod)


def find_hostname_error(pod: Obj) -> str:
    """Return why the host name prevents a sandbox; empty if it does not."""
    if not (pod["spec"].get("setHostnameAsFQDN") and get_domain(pod)):
        return ""
    name = _make_qualified_name(pod)
    if len(name) <= _MAX_QUALIFIED_HOSTNAME:
        return ""
    return (
        "failed to construct FQDN from pod hostname and cluster domain, "
        f"FQDN {name} is too long ({_MAX_QUALIFIED_HOSTNAME} characters is the max, "
        f"{len(name)} characters requested)"
    )


def make_hosts_file(pod: Obj, address: str) -> str:
    """Return the `/etc/hosts` of a pod's containers.

    Source: kubelet_pods.go, `ensureHostsFile`, `managedHostsFileContent`.
    """
    name = (
        f"{_make_qualified_name(pod)}\t{get_short_hostname(pod)}"
        if get_domain(pod)
        else get_short_hostname(pod)
    )
    text = f"{_HOSTS_HEADER}{NODE_HOSTS}{address}\t{name}\n"
    if pod["spec"].get("hostNetwork"):
        text = f"{_HOST_NETWORK_HEADER}{NODE_HOSTS}"
    aliases = pod["spec"].get("hostAliases") or ()
    if aliases:
        text += "\n# Entries added by HostAliases.\n"
        for alias in aliases:
            text += f"{alias['ip']}\t" + "\t".join(alias.get("hostnames") or ()) + "\n"
    return text


def make_resolver_config(pod: Obj) -> str:
    """Return the `/etc/resolv.conf` of a pod's containers.

    Source: network/dns/dns.go, `GetPodDNS`, `appendDNSConfig`.
    """
    spec = pod["spec"]
    policy, config = spec.get("dnsPolicy") or "ClusterFirst", spec.get("dnsConfig") or {}
    if policy == "ClusterFirst" and spec.get("hostNetwork"):
        policy = "Default"
    servers, search, options = [NODE_DNS_ADDRESS], [], {}
    if policy == "None":
        servers = []
    elif policy != "Default":
        servers = [CLUSTER_DNS_ADDRESS]
        search = [
            f"{namespace_of(pod)}.svc.{CLUSTER_DOMAIN}",
            f"svc.{CLUSTER_DOMAIN}",
            CLUSTER_DOMAIN,
        ]
        options = {"ndots": "5"}
    servers = list(dict.fromkeys([*servers, *(config.get("nameservers") or ())]))
    search = list(dict.fromkeys([*search, *(config.get("searches") or ())]))
    for option in config.get("options") or ():
        options[option["name"]] = option.get("value") or ""
    lines = [f"search {' '.join(search)}"] if search else []
    lines += [f"nameserver {server}" for server in servers[:_MAX_NAMESERVERS]]
    if options:
        words = [f"{name}:{value}" if value else name for name, value in options.items()]
        lines.append(f"options {' '.join(words)}")
    return "".join(f"{line}\n" for line in lines)


def expand(text: str, env: dict[str, str]) -> str:
    """Replace `$(NAME)` by its value and `$$` by `$`; unknown names stay.

    Source: third_party/forked/golang/expansion/expand.go.
    """

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


def make_environment(
    cluster: Cluster,
    pod: Obj,
    container: Obj,
    node: dict[str, str],
    image_env: Mapping[str, str],
) -> dict[str, str]:
    """Return the environment variables of a container.

    Args:
        node: values of the `fieldRef` paths that belong to the node, such as `status.hostIP`.
        image_env: variables of the image that those of the container may refer to.

    Raises:
        ContainerConfigError: a config map, a secret or a key is missing.

    Source: kubelet_pods.go, `makeEnvironmentVariables`.
    """
    env = {**image_env, "HOSTNAME": get_hostname(pod)}
    env.update(make_service_variables(cluster, pod))
    for source in container.get("envFrom") or ():
        for key, value in _read_env_from(cluster, pod, source):
            env[(source.get("prefix") or "") + key] = value
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom")
        if not origin:
            env[variable["name"]] = expand(variable.get("value") or "", env)
            continue
        resolved_value = _read_value_from(cluster, pod, container, origin, node)
        if resolved_value is not None:
            env[variable["name"]] = resolved_value
    return env


def _read_env_from(cluster: Cluster, pod: Obj, source: Obj) -> Iterator[tuple[str, str]]:
    for field, resource, noun in (
        ("configMapRef", "configmaps", "configmap"),
        ("secretRef", "secrets", "secret"),
    ):
        reference = source.get(field)
        if not reference:
            continue
        data_object = cluster.find(resource, reference["name"], namespace_of(pod))
        if data_object is None:
            if not reference.get("optional"):
                raise ContainerConfigError(f'{noun} "{reference["name"]}" not found')
            continue
        yield from decode_data(data_object).items()


def decode_data(obj: Obj) -> dict[str, str]:
    """Return the decoded data of a config map or secret."""
    data: dict[str, str] = obj.get("data") or {}
    if obj.get("kind") == "Secret":
        return {
            key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()
        }
    return data


def _read_value_from(
    cluster: Cluster, pod: Obj, container: Obj, origin: Obj, node: dict[str, str]
) -> str | None:
    if "fieldRef" in origin:
        return extract_field(pod, origin["fieldRef"]["fieldPath"], node)
    if "resourceFieldRef" in origin:
        return extract_resource(
            cluster, container, origin["resourceFieldRef"], node["spec.nodeName"]
        )
    for field, resource, noun, kind in (
        ("configMapKeyRef", "configmaps", "configmap", "ConfigMap"),
        ("secretKeyRef", "secrets", "secret", "Secret"),
    ):
        reference = origin.get(field)
        if not reference:
            continue
        namespace = namespace_of(pod)
        data_object = cluster.find(resource, reference["name"], namespace)
        if data_object is None:
            if reference.get("optional"):
                return None
            raise ContainerConfigError(f'{noun} "{reference["name"]}" not found')
        texts = decode_data(data_object)
        if reference["key"] not in texts:
            if reference.get("optional"):
                return None
            where = f"{namespace}/{reference['name']}"
            raise ContainerConfigError(f"couldn't find key {reference['key']} in {kind} {where}")
        return texts[reference["key"]]
    return None


def extract_field(pod: Obj, path: str, node: dict[str, str]) -> str:
    """Return a field of a pod as text; `node` has the values of paths that belong to the node.

    Source: pkg/fieldpath/fieldpath.go, `ExtractFieldPathAsString`.
    """
    metadata = pod["metadata"]
    match = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if match is not None:
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = sorted((metadata.get(path.partition(".")[2]) or {}).items())
        return "\n".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in pairs)
    known = {
        "metadata.name": name_of(pod),
        "metadata.namespace": namespace_of(pod),
        "metadata.uid": uid_of(pod),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        **node,
    }
    return str(known.get(path, ""))


def extract_resource(cluster: Cluster, container: Obj, reference: Obj, node_name: str) -> str:
    """Return a container's resource as text, in units of the divisor, rounded up.

    An unset limit is the node's allocatable amount.

    Source: pkg/api/v1/resource/helpers.go, `ExtractContainerResourceValue`; kubelet_resources.go.
    """
    kind, _, name = reference["resource"].partition(".")
    resources = container.get("resources") or {}
    amount = (resources.get(kind) or {}).get(name)
    if amount is None and kind == "limits":
        node = cluster.find("nodes", node_name) or {}
        amount = ((node.get("status") or {}).get("allocatable") or {}).get(name)
    divisor = _parse_amount(str(reference.get("divisor") or "1"))
    if not divisor.amount:
        divisor = _parse_amount("1")
    return str(math.ceil(_parse_amount(str(amount or "0")).amount / divisor.amount))


def _parse_amount(text: str) -> Quantity:
    return parse_quantity(text)


def get_sub_path(mount: Obj, env: dict[str, str]) -> str:
    """Return the path below its volume that a mount asks for; empty for the whole volume.

    Args:
        env: the container's variables, for `subPathExpr`.

    Raises:
        ContainerConfigError: a variable is unknown, or the path leaves the volume.

    Source: kubelet_pods.go, `makeMounts`; kubelet/container/helpers.go,
    `ExpandContainerVolumeMounts`; pkg/volume/validation, `ValidatePathNoBacksteps`.
    """
    expression = mount.get("subPathExpr")
    if not expression:
        part: str = mount.get("subPath") or ""
        return part
    for match in _REFERENCE.finditer(expression):
        if match[1] is not None and match[1] not in env:
            raise ContainerConfigError(f"missing value for {match[1]}")
    part = expand(expression, env)
    if part.startswith("/"):
        raise ContainerConfigError(f"error SubPath `{part}` must not be an absolute path")
    if ".." in part.split("/"):
        raise ContainerConfigError(f"unable to provision SubPath `{part}`: must not contain '..'")
    return part


def _find_amount(container: Obj, kind: str, name: str, scale: int = 1) -> int:
    """Return an amount of a container's resources, rounded up; 0 if it is not set."""
    text = ((container.get("resources") or {}).get(kind) or {}).get(name)
    return math.ceil(parse_quantity(text).amount * scale) if text is not None else 0


def make_resources(pod: Obj, container: Obj, node_memory: int) -> LinuxContainerResources:
    """Return the resources of a container.

    Args:
        node_memory: the memory of the node in bytes.

    Source: kuberuntime_container_linux.go, `generateLinuxContainerResources`.
    """
    limit = _find_amount(container, "limits", "cpu", 1000)
    quota = max(limit * _PERIOD_MICROSECONDS // 1000, _MIN_QUOTA) if limit else None
    request = _find_amount(container, "requests", "cpu", 1000) or limit
    return LinuxContainerResources(
        cpu_period=_PERIOD_MICROSECONDS,
        cpu_quota=quota,
        cpu_shares=min(max(request * _SHARES_PER_CPU // 1000, _MIN_SHARES), _MAX_SHARES),
        memory_limit_in_bytes=get_memory_limit(container),
        oom_score_adj=find_oom_score(pod, container, node_memory),
    )


def get_memory_limit(container: Obj) -> int | None:
    """Return the memory limit of a container in bytes; None without one."""
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    return math.ceil(parse_quantity(limit).amount) if limit is not None else None


def find_oom_score(pod: Obj, container: Obj, node_memory: int) -> int:
    """Return the `oom_score_adj` of a container's processes."""
    spec = pod["spec"]
    quality = (pod.get("status") or {}).get("qosClass")
    if spec.get("priorityClassName") == "system-node-critical" or quality == "Guaranteed":
        return _GUARANTEED_SCORE
    if quality == "BestEffort" or not node_memory:
        return _BEST_EFFORT_SCORE
    request = _find_amount(container, "requests", "memory")
    if is_sidecar(container):
        request = max(
            request,
            min(
                _find_amount(spec_container, "requests", "memory")
                for spec_container in spec["containers"]
            ),
        )
    score = 1000 - 1000 * request // node_memory
    return min(max(score, 1000 + _GUARANTEED_SCORE), _BEST_EFFORT_SCORE - 1)
