"""Sign and verify JSON web tokens (ES256) with one key of the cluster.

Source: RFC 7638 (key ids); k8s.io/kubernetes pkg/serviceaccount/jwt.go.
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

# PyJWT is imported with the first token: a cluster starts sooner without it.

_ALGORITHM = "ES256"
_MAX_VERIFIED_TOKENS = 1024
"""Tokens whose verified signatures are remembered."""


class InvalidToken(Exception):
    """A token of this cluster that is no longer valid; the text is that of a TokenReview."""


def _drop_signature(token: str) -> str:
    """Return a token without its signature: PyJWT cannot read a token with a cut one."""
    content, dot, _ = token.rpartition(".")
    return content + dot


def parse_unverified_claims(token: str) -> Obj | None:
    """Return the claims of a token without checking its signature; None if it is no token."""
    import jwt

    try:
        claims: Any = jwt.decode(_drop_signature(token), options={"verify_signature": False})
    except jwt.InvalidTokenError:
        return None
    return claims if isinstance(claims, dict) else None


class TokenSigner:
    """Signs claims and verifies the tokens that it signed.

    The key is generated with the first token.
    """

    def __init__(self) -> None:
        self._verified: dict[str, None] = {}

    @cached_property
    def _key(self) -> EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives.asymmetric import ec

        return ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def key_set(self) -> Obj:
        """The public key as a JSON Web Key Set."""
        from jwt.algorithms import ECAlgorithm

        public: Obj = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        key = {name: public[name] for name in ("crv", "kty", "x", "y")}
        canonical = json.dumps(key, separators=(",", ":"), sort_keys=True).encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(canonical).digest())
        kid = digest.rstrip(b"=").decode()
        return {"keys": [{"use": "sig", "kid": kid, "alg": _ALGORITHM, **key}]}

    @property
    def _key_id(self) -> str:
        return str(self.key_set["keys"][0]["kid"])

    def sign(self, claims: Obj) -> str:
        """Return a token with these claims."""
        import jwt

        headers = {"kid": self._key_id, "typ": ""}  # go-jose writes no type
        return jwt.encode(claims, self._key, _ALGORITHM, headers)

    def check(self, token: str) -> None:
        """Verify the signature of a token.

        Raises:
            InvalidToken: it was signed with another key, or was changed.
        """
        if token in self._verified:
            return
        import jwt

        try:
            header = jwt.get_unverified_header(_drop_signature(token))
        except jwt.InvalidTokenError:
            raise InvalidToken("") from None
        if header.get("kid") != self._key_id:
            raise InvalidToken("invalid signature, no keys found")
        try:
            jwt.PyJWS().decode(token, self._key.public_key(), [_ALGORITHM])
        except jwt.InvalidTokenError:
            raise InvalidToken("go-jose/go-jose: error in cryptographic primitive") from None
        if len(self._verified) >= _MAX_VERIFIED_TOKENS:
            self._verified.clear()
        self._verified[token] = None
