"""Service account tokens: signing, TokenRequest, legacy secrets, authentication.

Source: k8s.io/kubernetes pkg/registry/core/serviceaccount/storage/token.go,
pkg/serviceaccount/{claims,legacy,jwt}.go; RFC 7638 (key ids).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.field_errors import invalid_value
from pytest_kwait.apimachinery.times import format_time
from pytest_kwait.simulator.api_errors import bad_request, conflict, invalid
from pytest_kwait.simulator.objects import name_of, namespace_of, new_uid, uid_of
from pytest_kwait.simulator.request_info import (
    User,
    parse_service_account_user,
    service_account_groups,
)
from pytest_kwait.simulator.scheme import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

# PyJWT is imported with the first token: a cluster starts sooner without it.

ISSUER = "https://kubernetes.default.svc"
"""The issuer of tokens, and their default audience."""

_ALGORITHM = "ES256"
_MAX_VERIFIED_TOKENS = 1024
"""Tokens whose verified signatures are remembered."""
_LEGACY_ISSUER = "kubernetes/serviceaccount"
_LEGACY_CLAIM_PREFIX = "kubernetes.io/serviceaccount/"
_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
TOKEN_REQUESTS = Kind(_GROUP, "v1", "tokenrequests", _KIND, namespaced=True)
"""The kind of the body of `serviceaccounts/token`; it has no resource of its own."""

_EXTRA_PREFIX = "authentication.kubernetes.io/"
_INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
_SHORTEST, _LONGEST = 600, 1 << 32
_LEEWAY = 60.0
"""Seconds by which clocks may differ."""
TOKEN_SECONDS = 3600
"""The life of a token whose request names none."""
_POD_SECONDS, _POD_EXTENDED = 3607, 365 * 24 * 3600
"""Seconds that volumes of pods request, and the extended lifetime of those tokens."""


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


class ServiceAccountTokens:
    """Issues and verifies the tokens of one cluster's service accounts."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._signer = TokenSigner()

    @property
    def key_set(self) -> Obj:
        """The public key as a JSON Web Key Set."""
        return self._signer.key_set

    def discovery(self, keys: str) -> Obj:
        """Return the OpenID Connect discovery document of the issuer.

        Args:
            keys: the URL of the key set.
        """
        return {
            "issuer": ISSUER,
            "jwks_uri": keys,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    # -- issuing

    def issue(self, account: Obj, request: Obj) -> Obj:
        """Answer a decoded TokenRequest with a token.

        Raises:
            StatusError: the request is invalid.
        """
        name, namespace, uid = name_of(account), namespace_of(account), uid_of(account)
        metadata, spec = request["metadata"], request["spec"]
        _check_identity(metadata, name, namespace, uid)
        spec["audiences"] = spec.get("audiences") or [ISSUER]
        seconds = spec.get("expirationSeconds")
        spec["expirationSeconds"] = seconds = TOKEN_SECONDS if seconds is None else seconds
        for wrong, text in (
            (seconds < _SHORTEST, "may not specify a duration less than 10 minutes"),
            (seconds > _LONGEST, "may not specify a duration larger than 2^32 seconds"),
        ):
            if wrong:
                error = invalid_value("spec.expirationSeconds", seconds, text)
                raise invalid(_GROUP, _KIND, "", [error])
        now = self._cluster.clock.time()
        bound = self._bound(spec["boundObjectRef"], name, namespace)
        private: Obj = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}
        private.update(bound)
        lasts = seconds
        if "pod" in bound and seconds == _POD_SECONDS and spec["audiences"] == [ISSUER]:
            lasts, private["warnafter"] = _POD_EXTENDED, int(now) + seconds
        claims = {
            "aud": spec["audiences"],
            "exp": int(now) + lasts,
            "iat": int(now),
            "iss": ISSUER,
            "jti": new_uid(),
            "kubernetes.io": private,
            "nbf": int(now),
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        identity = {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "creationTimestamp": format_time(now),
        }
        return {
            "kind": _KIND,
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {**metadata, **identity},
            "spec": spec,
            "status": {
                "token": self._signer.sign(claims),
                "expirationTimestamp": format_time(now + seconds),
            },
        }

    def _bound(self, reference: Obj | None, account: str, namespace: str) -> Obj:
        """Return the claims about the object that the token is bound to."""
        if reference is None:
            return {}
        version, kind = reference.get("apiVersion", ""), reference.get("kind", "")
        name = reference.get("name", "")
        resource = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}.get(kind)
        group, _, short = version.rpartition("/")
        if resource is None or group:
            where = f"{group}/{short}, Kind={kind}"
            raise bad_request(f"cannot bind token to object of type {where}")
        bound_object = self._cluster.get(resource, name, "" if kind == "Node" else namespace)
        if kind == "Pod" and bound_object["spec"].get("serviceAccountName") != account:
            raise bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with different '
                "serviceaccount name."
            )
        uid = reference.get("uid")
        if uid and uid != uid_of(bound_object):
            raise conflict(
                group,
                kind,
                name,
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        claims: Obj = {kind.lower(): {"name": name, "uid": uid_of(bound_object)}}
        node_name = bound_object["spec"].get("nodeName") if kind == "Pod" else None
        if node_name:
            node = self._cluster.find("nodes", node_name)
            claims["node"] = {"name": node_name} | ({"uid": uid_of(node)} if node else {})
        return claims

    def legacy(self, account: Obj, secret: Obj) -> str:
        """Return the token of a secret, valid as long as the secret exists."""
        return self._signer.sign(_make_legacy_claims(account, secret))

    # -- verifying

    def user_of(
        self, token: str, audiences: Sequence[str] = (ISSUER,)
    ) -> tuple[User, list[str]] | None:
        """Return the user and the matching audiences; None for a token of another issuer.

        Raises:
            InvalidToken: it is not valid any more, or is for other audiences.
        """
        claims = parse_unverified_claims(token)
        if claims is None or claims.get("iss") not in (ISSUER, _LEGACY_ISSUER):
            return None
        self._signer.check(token)
        token_audiences = claims.get("aud") or [ISSUER]
        fitting = [audience for audience in audiences if audience in token_audiences]
        if not fitting:
            raise InvalidToken(
                f"token audiences {_format_list(token_audiences)} is invalid for the target "
                f"audiences {_format_list(audiences)}"
            )
        if claims["iss"] == _LEGACY_ISSUER:
            return self._legacy_user(token, claims), fitting
        return self._bound_user(claims), fitting

    def _bound_user(self, claims: Obj) -> User:
        now = self._cluster.clock.time()
        if now - _LEEWAY > claims["exp"]:
            raise InvalidToken("service account token has expired")
        if now + _LEEWAY < claims["nbf"]:
            raise InvalidToken("service account token is not valid yet")
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        self._account(namespace, account["name"], account["uid"])
        extra = {f"{_EXTRA_PREFIX}credential-id": (f"JTI={claims['jti']}",)}
        for kind in ("secret", "pod", "node"):
            reference = private.get(kind)
            if reference is None:
                continue
            if kind != "node" or "pod" not in private:
                self._holds(kind, reference, "" if kind == "node" else namespace)
            if kind != "secret":
                extra[f"{_EXTRA_PREFIX}{kind}-name"] = (reference["name"],)
                if reference.get("uid"):
                    extra[f"{_EXTRA_PREFIX}{kind}-uid"] = (reference["uid"],)
        groups = service_account_groups(namespace)
        return User(claims["sub"], groups, account["uid"], dict(sorted(extra.items())))

    def _account(self, namespace: str, name: str, uid: str) -> None:
        account = self._cluster.find("serviceaccounts", name, namespace)
        if account is None:
            raise InvalidToken(f'serviceaccounts "{name}" not found')
        if uid_of(account) != uid:
            raise InvalidToken(
                f"service account UID ({uid_of(account)}) does not match claim ({uid})"
            )

    def _holds(self, kind: str, reference: Obj, namespace: str) -> None:
        """Check the object that a token is bound to."""
        bound_object = self._cluster.find(f"{kind}s", reference["name"], namespace)
        if bound_object is None or self._is_deleted(bound_object):
            raise InvalidToken("service account token has been invalidated")
        if uid_of(bound_object) != reference["uid"]:
            raise InvalidToken(
                f"{kind} UID ({uid_of(bound_object)}) does not match service account {kind} ref "
                "claim "
                f"({reference['uid']})"
            )

    def _is_deleted(self, obj: Obj) -> bool:
        deleted = obj["metadata"].get("deletionTimestamp")
        return deleted is not None and deleted < format_time(self._cluster.clock.time() - _LEEWAY)

    def _legacy_user(self, token: str, claims: Obj) -> User:
        namespace, secret_name = (
            claims[f"{_LEGACY_CLAIM_PREFIX}namespace"],
            claims[f"{_LEGACY_CLAIM_PREFIX}secret.name"],
        )
        name = claims[f"{_LEGACY_CLAIM_PREFIX}service-account.name"]
        uid = claims[f"{_LEGACY_CLAIM_PREFIX}service-account.uid"]
        if parse_service_account_user(claims["sub"]) != (namespace, name):
            raise InvalidToken("sub claim is invalid")
        secret = self._cluster.find("secrets", secret_name, namespace)
        if secret is None or secret["metadata"].get("deletionTimestamp"):
            raise InvalidToken("Token has been invalidated")
        stored_token = (secret.get("data") or {}).get("token", "")
        if not hmac.compare_digest(base64.b64encode(token.encode()), stored_token.encode()):
            raise InvalidToken("Token does not match server's copy")
        account = self._cluster.find("serviceaccounts", name, namespace)
        if account is None:
            raise InvalidToken(f'serviceaccounts "{name}" not found')
        if account["metadata"].get("deletionTimestamp"):
            raise InvalidToken(f"ServiceAccount {namespace}/{name} has been deleted")
        if uid_of(account) != uid:
            raise InvalidToken(
                f"ServiceAccount UID ({uid_of(account)}) does not match claim ({uid})"
            )
        if (secret["metadata"].get("labels") or {}).get(_INVALID_SINCE):
            raise InvalidToken(
                f"the token in secret {namespace}/{secret_name} for service account "
                f"{namespace}/{name} has been marked invalid. Use tokens from the TokenRequest API "
                f"or manually created secret-based tokens, or remove the '{_INVALID_SINCE}' label "
                "from the secret to temporarily allow use of this token"
            )
        return User(claims["sub"], service_account_groups(namespace), uid)


def _make_legacy_claims(account: Obj, secret: Obj) -> Obj:
    """Return the claims of the token of a secret."""
    namespace = namespace_of(account)
    return {
        "iss": _LEGACY_ISSUER,
        f"{_LEGACY_CLAIM_PREFIX}namespace": namespace,
        f"{_LEGACY_CLAIM_PREFIX}secret.name": name_of(secret),
        f"{_LEGACY_CLAIM_PREFIX}service-account.name": name_of(account),
        f"{_LEGACY_CLAIM_PREFIX}service-account.uid": uid_of(account),
        "sub": f"system:serviceaccount:{namespace}:{name_of(account)}",
    }


def sign_legacy_token(account: Obj, secret: Obj, key: bytes) -> str:
    """Return the token of a secret, signed by a server's key.

    Args:
        key: the private key as PEM.
    """
    import jwt
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    private_key: Any = load_pem_private_key(key, password=None)
    # Without a key id: the server tries its keys.
    return jwt.encode(_make_legacy_claims(account, secret), private_key, "ES256")


def _format_list(values: Sequence[str]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _check_identity(metadata: Obj, name: str, namespace: str, uid: str) -> None:
    for field, own in (("name", name), ("namespace", namespace)):
        value = metadata.get(field)
        if value and value != own:
            text = f"must match the service account {field} if specified"
            raise invalid(_GROUP, _KIND, name, [invalid_value(f"metadata.{field}", value, text)])
    value = metadata.get("uid")
    if value and value != uid:
        why = (
            f"the UID in the token request ({value}) does not match the UID of the service "
            f"account ({uid})"
        )
        raise conflict(_GROUP, _KIND, name, why)
