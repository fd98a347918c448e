"""What may be written into the status of a certificate signing request, and by which way.

Source: k8s.io/kubernetes pkg/apis/certificates/validation/validation.go.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import (
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "APPROVED",
    "DECISIONS",
    "DENIED",
    "FAILED",
    "get_conditions_of_type",
    "validate_certificate_request_update",
]

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
DECISIONS = (APPROVED, DENIED)

_CONDITIONS_PATH = "status.conditions"
_PEM_BLOCK = re.compile(rb"-----BEGIN ([^-\n]*)-----\r?\n(.*?)-----END \1-----", re.DOTALL)


def get_conditions_of_type(request: Obj, wanted: str) -> list[Obj]:
    """The request's conditions of one type."""
    conditions = (request.get("status") or {}).get("conditions") or ()
    return [one for one in conditions if one.get("type") == wanted]


def validate_certificate_request_update(new: Obj, old: Obj, subresource: str) -> list[FieldError]:
    """What is wrong with a change; `approval` alone decides, `status` alone issues.

    What a request has already is borne: rules that it broke before hold no change up.
    """
    errors = _validate_conditions(new, old)
    certificate, before = _decode_certificate(new), _decode_certificate(old)
    if certificate != before and (text := _validate_certificate_content(certificate)):
        errors.append(invalid_value("status.certificate", "<certificate data>", text))
    for name in (APPROVED, DENIED, FAILED):
        if len(get_conditions_of_type(new, name)) < len(get_conditions_of_type(old, name)):
            errors.append(
                forbidden_field(
                    _CONDITIONS_PATH, f'updates may not remove a condition of type "{name}"'
                )
            )
    if subresource != "approval":
        errors += [
            forbidden_field(_CONDITIONS_PATH, f'updates may not add a condition of type "{name}"')
            for name in DECISIONS
            if len(get_conditions_of_type(new, name)) > len(get_conditions_of_type(old, name))
        ]
    if certificate != before and before:
        text = "updates may not modify existing certificate content"
        errors.append(forbidden_field("status.certificate", text))
    return errors


def _decode_certificate(request: Obj) -> bytes:
    return base64.b64decode((request.get("status") or {}).get("certificate") or "")


def _validate_conditions(new: Obj, old: Obj) -> list[FieldError]:
    conditions = (new.get("status") or {}).get("conditions") or ()
    types = [one.get("type", "") for one in conditions]
    before = [one.get("type", "") for one in (old.get("status") or {}).get("conditions") or ()]
    errors: list[FieldError] = []
    for index, one in enumerate(conditions):
        at, name, status = f"{_CONDITIONS_PATH}[{index}]", types[index], one.get("status", "")
        if not name and "" not in before:
            errors.append(required(f"{at}.type"))
        allowed = ("True",) if name in (APPROVED, DENIED, FAILED) else ("False", "True", "Unknown")
        if not status:
            errors.append(required(f"{at}.status"))
        elif status not in allowed:
            errors.append(not_supported(f"{at}.status", status, allowed))
        seen = types[:index]
        others = [other for other in DECISIONS if other != name]
        if name in DECISIONS and others[0] in seen and not set(DECISIONS) <= set(before):
            text = "Approved and Denied conditions are mutually exclusive"
            errors.append(invalid_value(_CONDITIONS_PATH, name, text))
        if name in seen and len(set(before)) == len(before):
            errors.append(duplicate(f"{at}.type", name))
    return errors


def _validate_certificate_content(content: bytes) -> str:
    """Why the content is no certificate; what is unreadable in it has one text for all cases."""
    if not content:
        return ""
    blocks = list(_PEM_BLOCK.finditer(content))
    if not blocks:
        return "must contain at least one CERTIFICATE PEM block"
    from cryptography import x509

    for block in blocks:
        kind = block[1].decode(errors="replace")
        if kind != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{kind}"'
        if b":" in block[2]:
            return "no PEM block headers are permitted"
        try:
            x509.load_pem_x509_certificate(block[0])
        except ValueError:
            return "x509: malformed certificate"
    return ""
