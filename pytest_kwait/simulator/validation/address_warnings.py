"""Addresses that are legal and written otherwise than they should be.

Source: k8s.io/apimachinery pkg/util/validation/ip.go, GetWarningsForIP.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["iterate_ip_warnings"]


def iterate_ip_warnings(value: str, at: str) -> Iterator[str]:
    """The warning about an address, if there is one."""
    if ":" not in value:
        return
    try:
        canonical = str(ipaddress.ip_address(value))
    except ValueError:
        return
    if canonical != value:
        text = f'IPv6 address "{value}" should be in RFC 5952 canonical format ("{canonical}")'
        yield f"{at}: {text}"
