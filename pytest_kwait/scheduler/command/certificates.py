"""The certificate that the server shows: given, kept in a folder, or made for this run."""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from pathlib import Path

from pytest_kwait.scheduler.command.config_errors import CommandError

__all__ = ["make_tls_context", "read_client_authorities"]

_PAIR = "kube-scheduler"
_log = logging.getLogger(__name__)


def make_tls_context(
    *, certificate: str, key: str, folder: str, address: str, client_ca: str | None
) -> ssl.SSLContext:
    """Return what a server needs to speak TLS.

    Args:
        certificate: the file of the certificate; empty to look in the folder.
        key: the file of its key.
        folder: where a self-signed pair is kept, or is made; empty to hold one in memory.
        address: what the server listens on: a self-signed certificate is made out for it.
        client_ca: the authorities of client certificates as PEM; None to ask for no certificate.

    Raises:
        ProgramError: files that cannot be read or written, or that are no pair.

    Source: apiserver pkg/server/options/serving.go MaybeDefaultWithSelfSignedCerts.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if certificate or key:
        _load(context, Path(certificate), Path(key))
    elif folder:
        pair = Path(folder, f"{_PAIR}.crt"), Path(folder, f"{_PAIR}.key")
        if not _has_pair(*pair):
            _write_pair(*pair, *_make_self_signed(address))
            _log.info("Generated self-signed cert (%s, %s)", *pair)
        _load(context, *pair)
    else:
        _load_generated(context, *_make_self_signed(address))
        _log.info("Generated self-signed cert in-memory")
    if client_ca is not None:
        try:
            context.load_verify_locations(cadata=client_ca)
        except (ssl.SSLError, ValueError) as error:
            raise CommandError(f"unable to load client CA provider: {error}") from None
        # Whoever shows none is anonymous, or has a token.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def read_client_authorities(path: str) -> str:
    """Return the authorities of client certificates in a file as PEM.

    Raises:
        ProgramError: it cannot be read, or has none.
    """
    try:
        pem = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandError(f"unable to load client CA provider: open {path}: {why}") from None
    if "-----BEGIN CERTIFICATE-----" not in pem:
        raise CommandError(f"unable to load client CA provider: {path} has no certificates")
    return pem


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
    except OSError as error:
        why = error.strerror or str(error)
        if isinstance(error, ssl.SSLError):
            why = "they are not a certificate and its key"
        raise CommandError(
            f"unable to load server certificate {certificate}, {key}: {why}"
        ) from None


def _load_generated(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # OpenSSL's Python binding reads a pair from files alone.
    with tempfile.TemporaryDirectory(prefix="kwait-scheduler-") as folder:
        pair = Path(folder, "tls.crt"), Path(folder, "tls.key")
        _write_pair(*pair, certificate, key)
        _load(context, *pair)


def _refuse_password() -> bytes:
    """Fail where OpenSSL would ask the terminal."""
    return b""


def _has_pair(certificate: Path, key: Path) -> bool:
    """Whether both are there.

    Source: client-go util/cert/io.go CanReadCertAndKey.
    """
    there = [os.access(path, os.R_OK) for path in (certificate, key)]
    if any(there) and not all(there):
        missing = key if there[0] else certificate
        raise CommandError(
            f"error reading {missing}, certificate and key must be supplied as a pair"
        )
    return all(there)


def _write_pair(certificate_path: Path, key_path: Path, certificate: bytes, key: bytes) -> None:
    for path, content, mode in ((certificate_path, certificate, 0o644), (key_path, key, 0o600)):
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        except OSError as error:
            raise CommandError(f"open {path}: {error.strerror}") from None


def _make_self_signed(address: str) -> tuple[bytes, bytes]:
    """Make a certificate for localhost and the address, and its key, both as PEM."""
    import trustme  # costs 60 ms, and most schedulers serve without

    authority = trustme.CA()
    hosts = ["localhost", "127.0.0.1"]
    if address not in {"0.0.0.0", "::", *hosts}:  # noqa: S104 # compared with, not listened on
        hosts.append(address)
    leaf = authority.issue_cert(*hosts)
    chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems)
    return chain + authority.cert_pem.bytes(), leaf.private_key_pem.bytes()
