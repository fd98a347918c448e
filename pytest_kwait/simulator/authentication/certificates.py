"""Users by their client certificates: the common name is theirs, organizations are groups.

Source: k8s.io/apiserver pkg/authentication/request/x509/x509.go. What the cluster's authority did
not sign, or what is expired, ends the connection where upstream answers 401: the TLS library lets
no such certificate through.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pytest_kwait.simulator.users import AUTHENTICATED, User, add_group

if TYPE_CHECKING:
    import asyncio

__all__ = ["read_certificate_user"]

_UID_OID = "1.3.6.1.4.1.57683.2"
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


def read_certificate_user(transport: asyncio.BaseTransport | None) -> User | None:
    """The user whom a connection's certificate names, None where it shows none."""
    shown = transport.get_extra_info("peercert") if transport is not None else None
    if not shown or transport is None:
        return None
    name, uid = "", ""
    groups: tuple[str, ...] = ()
    for entry in shown["subject"]:
        for field, value in entry:
            if field == "commonName":
                name = value
            elif field == "organizationName":
                groups = (*groups, value)
            elif field == _UID_OID:
                uid = value
    if not name:
        return None
    raw: bytes = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    seen = f"X509SHA256={hashlib.sha256(raw).hexdigest()}"
    return User(name, add_group(groups, AUTHENTICATED), uid, {_CREDENTIAL_ID: (seen,)})
