"""What a pod calls itself.

Source: kubelet_pods.go, `GeneratePodHostNameAndDomain`, `generatePodHostsFile`; pkg/util/node.
"""

from __future__ import annotations

from pytest_kwait.simulator.objects import Obj, name_of, namespace_of

__all__ = [
    "find_hostname_error",
    "get_domain",
    "get_hostname",
    "get_short_hostname",
    "make_hosts_file",
]

_MAX_HOSTNAME = 63
_MAX_QUALIFIED_HOSTNAME = 64
_CLUSTER_DOMAIN = "cluster.local"
_HOSTS_HEADER = (
    "# Kubernetes-managed hosts file.\n"
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


def get_short_hostname(pod: Obj) -> str:
    """Return its host name, without a domain."""
    spec = pod["spec"]
    if spec.get("hostnameOverride"):
        return str(spec["hostnameOverride"])
    if spec.get("hostname"):
        return str(spec["get_hostname"])
    return name_of(pod)[:_MAX_HOSTNAME].rstrip("-.")


def get_domain(pod: Obj) -> str:
    """Return its domain, empty where it has none."""
    spec = pod["spec"]
    if spec.get("hostnameOverride") or not spec.get("subdomain"):
        return ""
    return f"{spec['subdomain']}.{namespace_of(pod)}.svc.{_CLUSTER_DOMAIN}"


def _make_qualified_name(pod: Obj) -> str:
    return f"{get_short_hostname(pod)}.{get_domain(pod)}"


def get_hostname(pod: Obj) -> str:
    """Return what `get_hostname` says in its containers."""
    if pod["spec"].get("hostNetwork"):
        return str(pod["spec"].get("nodeName") or "")
    if pod["spec"].get("setHostnameAsFQDN") and get_domain(pod):
        return _make_qualified_name(pod)
    return get_short_hostname(pod)


def find_hostname_error(pod: Obj) -> str:
    """Why no sandbox can have its name; empty where one can."""
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
    """Return the `/etc/hosts` of its containers."""
    name = (
        f"{_make_qualified_name(pod)}\t{get_short_hostname(pod)}"
        if get_domain(pod)
        else get_short_hostname(pod)
    )
    text = f"{_HOSTS_HEADER}{address}\t{name}\n"
    aliases = pod["spec"].get("hostAliases") or ()
    if aliases:
        text += "\n# Entries added by HostAliases.\n"
        for alias in aliases:
            text += f"{alias['ip']}\t" + "\t".join(alias.get("hostnames") or ()) + "\n"
    return text
