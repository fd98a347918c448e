"""Names and addresses that a pod knows, and is known by.

Source: pkg/apis/core/validation/validation.go, validatePodDNSConfig, ValidateHostAliases,
validatePodHostName.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.formats import (
    dns_subdomain_texts,
    ip_texts,
    underscored_subdomain_texts,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_dns_config", "validate_host_aliases", "validate_host_name_override"]

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
            f"must not have more than {_MAX_DNS_SEARCH_CHARACTERS} characters (including spaces) in the search "
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
