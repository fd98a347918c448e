"""Validation of config maps, secrets, leases and events.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateConfigMap, ValidateSecret;
pkg/apis/core/validation/events.go; pkg/apis/coordination/validation/validation.go;
pkg/registry/core/secret/strategy.go.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import (
    NEGATIVE,
    ErrorList,
    forbidden_field,
    invalid_value,
    render_json,
    required,
    too_long,
)
from pytest_kwait.apimachinery.validation import (
    config_key_texts,
    dns_subdomain_texts,
    label_key_texts,
)
from pytest_kwait.simulator.codec.json_yaml import find_json_error, json_type_name
from pytest_kwait.simulator.objects import annotations_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kwait.simulator.objects import Obj

_MAX_SECRET_SIZE = 1 << 20
_SERVICE_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"
_DATA_IMMUTABLE = "field is immutable when `immutable` is set"
_REQUIRED_KEYS = {
    # The required keys by type of secret.
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
_JSON_KEYS = {".dockercfg", ".dockerconfigjson"}
_PEM_BLOCK = re.compile(
    rb"^-----BEGIN (?P<type>[^\n]*)-----[ \t\r]*\n"
    rb"(?:[^\n]*:[^\n]*\n)*"  # headers
    rb"(?P<text>(?:(?!-----BEGIN )[^\n]*\n)*?)"
    rb"-----END (?P=type)-----[ \t\r]*$",
    re.MULTILINE,
)
_TLS_KEYS = ("tls.crt", "tls.key")
_NAMESPACE_MISMATCH = "does not match event.namespace"
_REFERENCE_FIELDS = {
    "Kind": "kind",
    "Namespace": "namespace",
    "Name": "name",
    "UID": "uid",
    "APIVersion": "apiVersion",
    "ResourceVersion": "resourceVersion",
    "FieldPath": "fieldPath",
}
_SOURCE_FIELDS = {"Component": "component", "Host": "host"}
_MAX_LENGTHS = {"reportingInstance": 128, "action": 128, "reason": 128}
_MAX_NOTE_LENGTH = 1024


def _validate_keys(keys: Iterable[str], field: str) -> ErrorList:
    return ErrorList(
        [
            invalid_value(f"{field}[{key}]", key, text)
            for key in keys
            for text in config_key_texts(key)
        ]
    )


def validate_immutable_data(new: Obj, old: Obj, *fields: str) -> ErrorList:
    """Validate that immutable data does not change."""
    if not old.get("immutable"):
        return ErrorList()
    errors = ErrorList()
    if not new.get("immutable"):
        errors.forbidden("immutable", _DATA_IMMUTABLE)
    errors += [
        forbidden_field(field, _DATA_IMMUTABLE)
        for field in fields
        if new.get(field) != old.get(field)
    ]
    return errors


def validate_config_map(obj: Obj) -> ErrorList:
    """Validate a config map."""
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    errors = ErrorList()
    for key in data:
        errors += _validate_keys([key], "data")
        if key in binary:
            text = "duplicate of key present in binaryData"
            errors.invalid(f"data[{key}]", key, text)
    errors += _validate_keys(binary, "binaryData")
    size = sum(len(text.encode()) for text in data.values())
    size += sum(len(base64.b64decode(text)) for text in binary.values())
    return (
        errors
        if size <= _MAX_SECRET_SIZE
        else ErrorList([*errors, too_long("[]", _MAX_SECRET_SIZE)])
    )


def validate_secret(obj: Obj) -> ErrorList:
    """Validate a secret."""
    data, kind = obj.get("data") or {}, obj.get("type", "")
    errors = _validate_keys(data, "data")
    if sum(len(base64.b64decode(text or "")) for text in data.values()) > _MAX_SECRET_SIZE:
        errors.too_long("data", _MAX_SECRET_SIZE)
    if kind == "kubernetes.io/service-account-token" and not annotations_of(obj).get(
        _SERVICE_ACCOUNT_ANNOTATION
    ):
        errors.required(f"metadata.annotations[{_SERVICE_ACCOUNT_ANNOTATION}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        errors += [required("data[username]"), required("data[password]")]
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        errors.required("data[ssh-privatekey]")
    for key in _REQUIRED_KEYS.get(kind, ()):
        if key not in data:
            errors.required(f"data[{key}]")
        elif key in _JSON_KEYS and (
            why := _find_json_object_error(base64.b64decode(data[key] or ""))
        ):
            at = f"data[{key}]"
            errors.invalid(at, "<secret contents redacted>", why)
    return errors


def _find_json_object_error(content: bytes) -> str:
    """Return Go's error for a text that is no JSON object; empty for an object or null."""
    if why := find_json_error(content):
        return why
    value = json.loads(content)
    if value is None or isinstance(value, dict):
        return ""
    name = json_type_name(value)
    return f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"


def get_secret_warnings(obj: Obj) -> list[str]:
    """Return the warning about a TLS secret whose certificate and key are no pair."""
    if obj.get("type") != "kubernetes.io/tls":
        return []
    data = obj.get("data") or {}
    certificate, key = (base64.b64decode(data.get(name) or "") for name in _TLS_KEYS)
    try:
        _check_key_pair(certificate, key)
    except ValueError as error:
        return [str(error)]
    return []


def _check_key_pair(certificate: bytes, key: bytes) -> None:
    """Check a certificate and its private key.

    Source: Go's crypto/tls/tls.go, func X509KeyPair.

    Raises:
        ValueError: with Go's message.
    """
    leaf = _find_certificate(certificate)
    secret = _find_private_key(key)
    # Most clusters see no certificate.
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519

    try:
        public = x509.load_der_x509_certificate(leaf).public_key()
    except ValueError:
        raise ValueError("x509: malformed certificate") from None
    try:
        private = serialization.load_der_private_key(secret, None)
    except (TypeError, ValueError):
        raise ValueError("tls: failed to parse private key") from None
    kinds = (
        (rsa.RSAPublicKey, rsa.RSAPrivateKey),
        (ec.EllipticCurvePublicKey, ec.EllipticCurvePrivateKey),
        (ed25519.Ed25519PublicKey, ed25519.Ed25519PrivateKey),
    )
    if isinstance(private, x25519.X25519PrivateKey):
        raise ValueError("tls: found unknown private key type in PKCS#8 wrapping")
    if not any(isinstance(private, private_type) for _, private_type in kinds):
        raise ValueError("tls: failed to parse private key")
    for public_type, private_type in kinds:
        if isinstance(public, public_type):
            if not isinstance(private, private_type):
                raise ValueError("tls: private key type does not match public key type")
            if private.public_key() != public:
                raise ValueError("tls: private key does not match public key")
            return
    raise ValueError("tls: unknown public key algorithm")


def _find_certificate(data: bytes) -> bytes:
    skipped = []
    for kind, content in pem_blocks(data):
        if kind == "CERTIFICATE":
            return content
        skipped.append(kind)
    if not skipped:
        raise ValueError("tls: failed to find any PEM data in certificate input")
    if len(skipped) == 1 and skipped[0].endswith("PRIVATE KEY"):
        raise ValueError(
            "tls: failed to find certificate PEM data in certificate input, but did find a private "
            "key; PEM inputs may have been switched"
        )
    raise ValueError(
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM '
        f"blocks of the following types: [{' '.join(skipped)}]"
    )


def _find_private_key(data: bytes) -> bytes:
    skipped = []
    for kind, content in pem_blocks(data):
        if kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY"):
            return content
        skipped.append(kind)
    if not skipped:
        raise ValueError("tls: failed to find any PEM data in key input")
    if skipped == ["CERTIFICATE"]:
        raise ValueError(
            "tls: found a certificate rather than a key in the PEM for the private key"
        )
    raise ValueError(
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after '
        f"skipping PEM blocks of the following types: [{' '.join(skipped)}]"
    )


def pem_blocks(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the type and the content of each block of PEM data; skip malformed ones.

    Source: Go's encoding/pem/pem.go, func Decode.
    """
    for match in _PEM_BLOCK.finditer(data):
        text = re.sub(rb"[ \t\r\n]", b"", match["text"])
        with suppress(binascii.Error):
            yield match["type"].decode(errors="replace"), base64.b64decode(text, validate=True)


def validate_lease(obj: Obj) -> ErrorList:
    """Validate a lease."""
    spec = obj.get("spec") or {}
    seconds, changes = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    errors = ErrorList()
    if seconds is not None and seconds <= 0:
        at = "spec.leaseDurationSeconds"
        errors.invalid(at, seconds, "must be greater than 0")
    if changes is not None and changes < 0:
        errors.invalid("spec.leaseTransitions", changes, NEGATIVE)
    return errors


def validate_event(event: Obj, *, newer: bool) -> ErrorList:
    """Validate an event in its core form; `newer` if the request was events.k8s.io/v1."""
    errors = _validate_common_fields(event, newer=newer)
    if not newer:
        return errors
    name = event["metadata"].get("name", "")
    errors.invalid_each("metadata.name", name, dns_subdomain_texts(name))
    errors += _validate_series(event)
    if not event.get("eventTime"):
        errors.required("eventTime")
    kind = event.get("type", "")
    if kind not in ("Normal", "Warning"):
        errors.invalid("type", "", f"has invalid value: {kind}")
    source = event.get("source") or {}
    unset = [field for field in ("firstTimestamp", "lastTimestamp", "count") if event.get(field)]
    unset += ["source"] if source.get("component") or source.get("host") else []
    errors += [invalid_value(field, "", "needs to be unset") for field in unset]
    return errors


def _validate_common_fields(event: Obj, *, newer: bool) -> ErrorList:
    about = (event.get("involvedObject") or {}).get("namespace", "")
    namespace, at = event["metadata"].get("namespace", ""), "involvedObject.namespace"
    if not event.get("eventTime"):
        astray = namespace not in ("", "default") if not about else namespace != about
        return ErrorList([invalid_value(at, about, _NAMESPACE_MISMATCH)]) if astray else ErrorList()
    errors = ErrorList()
    if not about and namespace not in ("default", "kube-system"):
        errors.invalid(at, about, _NAMESPACE_MISMATCH)
    reporter = event.get("reportingComponent", "")
    at = "reportingController" if newer else "reportingComponent"
    if not reporter:
        errors.required(at)
    errors.invalid_each(at, reporter, label_key_texts(reporter))
    for field, most in _MAX_LENGTHS.items():
        value = event.get(field, "")
        if not value:
            errors.required(field)
        if len(value.encode()) > most:
            errors.invalid(field, "", f"can have at most {most} characters")
    if len(event.get("message", "").encode()) > _MAX_NOTE_LENGTH:
        text = f"can have at most {_MAX_NOTE_LENGTH} characters"
        errors.invalid("message", "", text)
    return errors


def _validate_series(event: Obj) -> ErrorList:
    series = event.get("series")
    if series is None:
        return ErrorList()
    errors = ErrorList()
    if series.get("count", 0) < 2:
        errors.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        errors.required("series.lastObservedTime")
    return errors


def validate_event_update(new: Obj, old: Obj, *, newer: bool) -> ErrorList:
    """Validate a change of an event; in events.k8s.io/v1 only the series may change."""
    errors = _validate_common_fields(new, newer=newer)
    if not newer:
        return errors
    if new.get("series") != old.get("series"):
        errors += _validate_series(new)
    for field, reported_field in (
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ):
        if (new.get(field) or None) != (old.get(field) or None):
            errors.invalid(reported_field, _render_field(field, new), "field is immutable")
    return errors


def _render_field(field: str, event: Obj) -> object:
    value = event.get(field)
    if field in ("involvedObject", "related"):
        if value is None:
            return None
        return render_json({name: value.get(key, "") for name, key in _REFERENCE_FIELDS.items()})
    if field == "source":
        return render_json(
            {name: (value or {}).get(key, "") for name, key in _SOURCE_FIELDS.items()}
        )
    if field == "count":
        return value or 0
    return value if value is not None or field.endswith(("Time", "Timestamp")) else ""
