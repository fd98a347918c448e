"""Names and addresses that a pod knows, and is known by.

Source: pkg/apis/core/validation/validation.go, validatePodDNSConfig, ValidateHostAliases,
validatePodHostName.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import (
    dns_subdomain_texts,
    ip_texts,
    underscored_subdomain_texts,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_dns_config", "check_host_aliases", "check_host_names"]

_MOST_SERVERS, _MOST_SEARCHES, _MOST_SIGNS = 3, 32, 2048
_MOST_HOST_NAME = 64


def check_dns_config(spec: Obj, at: str, found: Findings) -> None:
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
    if len(servers) > _MOST_SERVERS:
        text = f"must not have more than {_MOST_SERVERS} nameservers"
        found.invalid(f"{at}.nameservers", servers, text)
    for index, server in enumerate(servers):
        found.texts(f"{at}.nameservers[{index}]", server, ip_texts(server))
    if len(searches) > _MOST_SEARCHES:
        text = f"must not have more than {_MOST_SEARCHES} search paths"
        found.invalid(f"{at}.searches", searches, text)
    if len(" ".join(searches)) > _MOST_SIGNS:
        text = (
            f"must not have more than {_MOST_SIGNS} characters (including spaces) in the search "
            "list"
        )
        found.invalid(f"{at}.searches", searches, text)
    for index, search in enumerate(searches):
        if search != ".":
            name = search.removesuffix(".")
            found.texts(f"{at}.searches[{index}]", name, underscored_subdomain_texts(name))
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            found.required(f"{at}.options[{index}]", "must not be empty")


def check_host_aliases(aliases: list[Obj], at: str, found: Findings) -> None:
    """The lines that are added to a pod's hosts."""
    for index, alias in enumerate(aliases):
        address = alias.get("ip", "")
        found.texts(f"{at}[{index}].ip", address, ip_texts(address))
        for place, name in enumerate(alias.get("hostnames", ())):
            here = f"{at}[{index}].hostnames[{place}]"
            found.texts(here, name, dns_subdomain_texts(name))


def check_host_names(spec: Obj, at: str, found: Findings) -> None:
    """A host name in place of the pod's own."""
    name, here = spec["hostnameOverride"], f"{at}.hostnameOverride"
    if spec.get("setHostnameAsFQDN"):
        found.forbidden(here, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        found.forbidden(here, "may not be specified when hostNetwork is true")
    if len(name) > _MOST_HOST_NAME:
        found.too_long(here, _MOST_HOST_NAME)
    found.texts(here, name, dns_subdomain_texts(name))
