"""Sign and verify JSON web tokens (ES256) with one key of the cluster.

Source: RFC 7515, RFC 7518 section 3.4, RFC 7638; k8s.io/kubernetes pkg/serviceaccount/jwt.go.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from pytest_kwait.simulator.objects import Obj

__all__ = ["InvalidToken", "TokenSigner", "parse_unverified_claims"]

_BYTES = 32
_MAX_VERIFIED_TOKENS = 1024
"""Tokens whose signatures have been found right, and are not looked at again."""


class InvalidToken(Exception):
    """The token is not one of ours, or no longer good; the text is what a TokenReview tells."""


def _base64url_encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _base64url_decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _encode_json(value: Obj) -> str:
    return _base64url_encode(json.dumps(value, separators=(",", ":"), sort_keys=True).encode())


def parse_unverified_claims(token: str) -> Obj | None:
    """What the token claims, its signature unseen; None for what is no token of this form."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims: Any = json.loads(_base64url_decode(parts[1]))
    except ValueError:
        return None
    return claims if isinstance(claims, dict) else None


class TokenSigner:
    """Signs claims, and tells its own tokens from others.

    The key is made when the first token is.
    """

    def __init__(self) -> None:
        self._good: dict[str, None] = {}

    @cached_property
    def _key(self) -> EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives.asymmetric import ec

        return ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def key_set(self) -> Obj:
        """The public key, as JSON Web Key Sets have it."""
        numbers = self._key.public_key().public_numbers()
        key = {
            "crv": "P-256",
            "kty": "EC",
            "x": _base64url_encode(numbers.x.to_bytes(_BYTES, "big")),
            "y": _base64url_encode(numbers.y.to_bytes(_BYTES, "big")),
        }
        print_of_it = json.dumps(key, separators=(",", ":"), sort_keys=True).encode()
        kid = _base64url_encode(hashlib.sha256(print_of_it).digest())
        return {"keys": [{"use": "sig", "kid": kid, "alg": "ES256", **key}]}

    def sign(self, claims: Obj) -> str:
        """The token with these claims."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        kid = self.key_set["keys"][0]["kid"]
        content = f"{_encode_json({'alg': 'ES256', 'kid': kid})}.{_encode_json(claims)}"
        r, s = decode_dss_signature(self._key.sign(content.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(_BYTES, "big") + s.to_bytes(_BYTES, "big")
        return f"{content}.{_base64url_encode(signature)}"

    def check(self, token: str) -> None:
        """Hold a token to the key.

        Raises:
            BadToken: the signature is not ours.
        """
        if token in self._good:
            return
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

        content, _, last = token.rpartition(".")
        try:
            header = json.loads(_base64url_decode(content.partition(".")[0]))
            signature = _base64url_decode(last)
        except ValueError:
            raise InvalidToken("") from None
        if not isinstance(header, dict) or header.get("kid") != self.key_set["keys"][0]["kid"]:
            raise InvalidToken("invalid signature, no keys found")
        wrong = InvalidToken("go-jose/go-jose: error in cryptographic primitive")
        if len(signature) != 2 * _BYTES:
            raise wrong
        r = int.from_bytes(signature[:_BYTES], "big")
        s = int.from_bytes(signature[_BYTES:], "big")
        try:
            self._key.public_key().verify(
                encode_dss_signature(r, s), content.encode(), ec.ECDSA(hashes.SHA256())
            )
        except InvalidSignature:
            raise wrong from None
        if len(self._good) >= _MAX_VERIFIED_TOKENS:
            self._good.clear()
        self._good[token] = None
