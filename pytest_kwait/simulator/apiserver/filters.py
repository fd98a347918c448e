"""Request filters: authentication, impersonation, authorization, and the `timeout` parameter.

Source: k8s.io/apiserver pkg/server/config.go (DefaultBuildHandlerChain),
pkg/endpoints/filters/{authentication,authorization,impersonation,request_deadline}.go,
pkg/authentication/request/{bearertoken,x509}.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pytest_kwait.simulator.api_errors import StatusError, bad_request, forbidden, unauthorized
from pytest_kwait.simulator.authentication.service_accounts import ISSUER, InvalidToken
from pytest_kwait.simulator.authorization.impersonation import (
    ImpersonatedUser,
    Impersonator,
    missing_user_error,
)
from pytest_kwait.simulator.request_info import (
    AUTHENTICATED,
    MASTERS,
    AuthorizationAttributes,
    User,
    add_group,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, Sequence

    from pytest_kwait.simulator.apiserver.request import ApiRequest, RequestInfo
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.scheme import Kind

ADMINS = MASTERS

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_STREAMS = frozenset({"attach", "exec", "portforward"})
_REVIEW_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
_PREFIX, _PREFIX_INITIALS = b"impersonate-", frozenset(b"Ii")
_EXTRA = "impersonate-extra-"
_UNKNOWN = "invalid bearer token"
_UID_OID = "1.3.6.1.4.1.57683.2"
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


class StaticTokens:
    """The static bearer tokens.

    Args:
        tokens: users by token.
    """

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._tokens = {
            token: User(user.name, add_group(user.groups, AUTHENTICATED), user.uid, user.extra)
            for token, user in tokens.items()
        }

    def user_of(self, token: str) -> User | None:
        """Return the token's user; None if it is unknown."""
        return self._tokens.get(token)


class AuthFilters:
    """Authentication and authorization of every request.

    Args:
        credentials: the tokens besides those of service accounts.
    """

    def __init__(self, cluster: ApiServerCluster, credentials: StaticTokens) -> None:
        self._cluster = cluster
        self._credentials = credentials
        self._impersonation = Impersonator(cluster.rbac)

    def authenticate(self, request: ApiRequest, target: RequestInfo | None) -> None:
        """Set the request's user, or the user that it impersonates.

        Raises:
            StatusError: 401 for an unknown token, 403 for a forbidden impersonation.
        """
        user = self._user(request)
        if user is not None:
            request.caller.become(user)
        for name, _ in request.http.raw_headers:
            if name[0] in _PREFIX_INITIALS and name[:12].lower() == _PREFIX:
                self._impersonate(request, target)
                return

    def _impersonate(self, request: ApiRequest, target: RequestInfo | None) -> None:
        impersonated = _read_impersonation(request)
        if impersonated is not None:
            attributes = _authorization_attributes(request, target)
            request.caller.become(self._impersonation.become(impersonated, attributes))

    def _user(self, request: ApiRequest) -> User | None:
        certified = _read_certificate_user(request.http.transport)
        if certified is not None:
            return certified
        words = request.header("Authorization").split()
        if len(words) < 2 or words[0].lower() != "bearer":
            return None
        known = self._credentials.user_of(words[1])
        if known is not None:
            return known
        try:
            identity = self._cluster.accounts.user_of(words[1])
        except InvalidToken:
            identity = None
        if identity is None:
            raise unauthorized()
        return _with_authenticated_group(identity[0])

    def review_token(self, token: str, audiences: Sequence[str]) -> tuple[User, list[str]] | str:
        """Return a token's user and its valid audiences, or the error."""
        known = self._credentials.user_of(token)
        accepted = list(audiences) or [ISSUER]
        if known is not None and ISSUER in accepted:
            return known, [ISSUER]
        try:
            identity = self._cluster.accounts.user_of(token, accepted)
        except InvalidToken as error:
            return f"[{_UNKNOWN}, {error}]"
        return (
            _UNKNOWN if identity is None else (_with_authenticated_group(identity[0]), identity[1])
        )

    def authorize(self, request: ApiRequest, target: RequestInfo | None) -> None:
        """Check that the user may make the request.

        Raises:
            StatusError: 403, access is denied.
        """
        if MASTERS in request.caller.groups:
            return
        attributes = _authorization_attributes(request, target)
        decision = self._cluster.rbac.decide(attributes)
        if not decision.allowed:
            raise attributes.refusal(decision.reason)
        if (
            attributes.subresource in _STREAMS
            and attributes.resource == "pods"
            and attributes.verb != "create"
        ):
            # Opening a stream by GET needs `create`, too.
            may = AuthorizationAttributes(
                attributes.user,
                "create",
                "",
                "pods",
                attributes.subresource,
                attributes.name,
                attributes.namespace,
            )
            decision = self._cluster.rbac.decide(may)
            if not decision.allowed:
                raise forbidden("", "pods", attributes.name, decision.reason)


def _read_certificate_user(transport: asyncio.BaseTransport | None) -> User | None:
    """Return the user of a connection's client certificate, None without one."""
    peer_certificate = transport.get_extra_info("peercert") if transport is not None else None
    if not peer_certificate or transport is None:
        return None
    name, uid = "", ""
    groups: tuple[str, ...] = ()
    for entry in peer_certificate["subject"]:
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
    credential_id = f"X509SHA256={hashlib.sha256(raw).hexdigest()}"
    return User(name, add_group(groups, AUTHENTICATED), uid, {_CREDENTIAL_ID: (credential_id,)})


def _with_authenticated_group(user: User) -> User:
    return User(user.name, add_group(user.groups, AUTHENTICATED), user.uid, user.extra)


def _authorization_attributes(
    request: ApiRequest, target: RequestInfo | None
) -> AuthorizationAttributes:
    """Return the authorization attributes, even of unknown resources."""
    user, method = request.caller.identity, request.method
    if target is None:
        return AuthorizationAttributes(user, method.lower(), path=unquote(request.path))
    verb = _VERBS.get(method, "")
    name, namespace = target.name, target.namespace or ""
    if target.resource == "namespaces" and target.namespace is None:
        namespace = target.name
    if target.watch:
        verb = "watch"
    elif method in ("GET", "HEAD"):
        verb = "get"
        if not name:
            verb = "watch" if request.flag("watch") else "list"
            name = _name_in_field_selector(request.query.get("fieldSelector", ""))
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return AuthorizationAttributes(
        user, verb, target.group, target.resource, target.subresource, name, namespace
    )


def _name_in_field_selector(selector: str) -> str:
    """Return the name that a field selector requires; empty if there is none."""
    for term in selector.split(","):
        field, _, value = term.partition("=")
        name = value.removeprefix("=")
        if field == "metadata.name" and name not in ("", ".", "..") and not {*"/%"} & {*name}:
            return name
    return ""


def _read_impersonation(request: ApiRequest) -> ImpersonatedUser | None:
    """Return the impersonation headers; None if there are none.

    Raises:
        StatusError: 400, the headers name no user.
    """
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in request.http.headers.items():
        if header.lower().startswith(_EXTRA):
            key = unquote(header[len(_EXTRA) :].lower())
            extra[key] = (*extra.get(key, ()), value)
    impersonated = ImpersonatedUser(
        request.header("Impersonate-User"),
        request.header("Impersonate-Uid"),
        tuple(request.http.headers.getall("Impersonate-Group", ())),
        extra,
    )
    if impersonated.name:
        return impersonated
    if impersonated.only_name:
        return None
    raise missing_user_error(impersonated)


def check_read_only(request: ApiRequest, target: RequestInfo | None, message: str) -> None:
    """Refuse writes and connections to pods; reviews of access store nothing.

    Raises:
        StatusError: 405, with `message`.
    """
    is_connection = target is not None and target.subresource in {*_STREAMS, "proxy"}
    is_review = target is not None and target.group in _REVIEW_GROUPS
    if is_connection or (request.method not in ("GET", "HEAD", "OPTIONS") and not is_review):
        raise StatusError(405, "MethodNotAllowed", message, {})


def check_timeout(request: ApiRequest) -> None:
    """Check the `timeout` parameter; requests finish long before it.

    Raises:
        StatusError: 400, it is not a duration.
    """
    from pytest_kwait.apimachinery.go_values import parse_duration

    text = request.query["timeout"]
    if not text or request.flag("watch"):
        return
    try:
        parse_duration(text)
    except ValueError as error:
        raise bad_request(f"invalid timeout specified in the request URL - {error}") from None


def explore_request(cluster: ApiServerCluster, request: ApiRequest, target: RequestInfo) -> None:
    """Refuse a request, if an exploration decides so.

    Raises:
        StatusError: 429 or 503 with Retry-After.
    """
    if cluster.clock.exploration is not None:
        # Not at import: few clusters explore.
        from pytest_kwait.simulator.exploration.requests import refuse_request

        refuse_request(cluster.clock.exploration, request, target, target.subresource)


async def explore_update(
    cluster: ApiServerCluster, request: ApiRequest, kind: Kind, target: RequestInfo, version: object
) -> None:
    """Hold an update until another write of its object, if an exploration decides so.

    Args:
        target: the object.
        version: the resourceVersion in the update, if any.
    """
    if cluster.clock.exploration is not None and isinstance(version, str) and version:
        # Not at import: few clusters explore.
        from pytest_kwait.simulator.exploration.requests import hold_update

        exploration, bucket = cluster.clock.exploration, kind.bucket
        await hold_update(exploration, cluster.store, bucket, request, target, version)
