"""What a pod calls itself.

Source: kubelet_pods.go, `GeneratePodHostNameAndDomain`, `generatePodHostsFile`; pkg/util/node.
"""

from __future__ import annotations

from pytest_kwait.simulator.objects import Obj, name_of, namespace_of

__all__ = ["domain", "hostname", "hosts_file", "name_trouble", "short_hostname"]

_MOST = 63
_MOST_QUALIFIED = 64
_CLUSTER = "cluster.local"
_ALWAYS = (
    "# Kubernetes-managed hosts file.\n"
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


def short_hostname(pod: Obj) -> str:
    """Return its host name, without a domain."""
    spec = pod["spec"]
    if spec.get("hostnameOverride"):
        return str(spec["hostnameOverride"])
    if spec.get("hostname"):
        return str(spec["hostname"])
    return name_of(pod)[:_MOST].rstrip("-.")


def domain(pod: Obj) -> str:
    """Return its domain, empty where it has none."""
    spec = pod["spec"]
    if spec.get("hostnameOverride") or not spec.get("subdomain"):
        return ""
    return f"{spec['subdomain']}.{namespace_of(pod)}.svc.{_CLUSTER}"


def _qualified(pod: Obj) -> str:
    return f"{short_hostname(pod)}.{domain(pod)}"


def hostname(pod: Obj) -> str:
    """Return what `hostname` says in its containers."""
    if pod["spec"].get("hostNetwork"):
        return str(pod["spec"].get("nodeName") or "")
    if pod["spec"].get("setHostnameAsFQDN") and domain(pod):
        return _qualified(pod)
    return short_hostname(pod)


def name_trouble(pod: Obj) -> str:
    """Why no sandbox can have its name; empty where one can."""
    if not (pod["spec"].get("setHostnameAsFQDN") and domain(pod)):
        return ""
    name = _qualified(pod)
    if len(name) <= _MOST_QUALIFIED:
        return ""
    return (
        "failed to construct FQDN from pod hostname and cluster domain, "
        f"FQDN {name} is too long ({_MOST_QUALIFIED} characters is the max, "
        f"{len(name)} characters requested)"
    )


def hosts_file(pod: Obj, address: str) -> str:
    """Return the `/etc/hosts` of its containers."""
    name = f"{_qualified(pod)}\t{short_hostname(pod)}" if domain(pod) else short_hostname(pod)
    text = f"{_ALWAYS}{address}\t{name}\n"
    aliases = pod["spec"].get("hostAliases") or ()
    if aliases:
        text += "\n# Entries added by HostAliases.\n"
        for alias in aliases:
            text += f"{alias['ip']}\t" + "\t".join(alias.get("hostnames") or ()) + "\n"
    return text
