"""Impersonation: requests of one client that the server treats as another user's.

Source: client-go transport/round_trippers.go impersonatingRoundTripper.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from urllib3 import HTTPHeaderDict

from pytest_kwait.apimachinery.arguments import check_instance, check_text
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.transport import encode_header
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_UNESCAPED = "!#$&'*+-.^_`|~"
"""Characters of a header's name beside letters and digits; `%` begins an escape."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user as whom requests are sent, by a user who may impersonate.

    Args:
        user: the name.
        groups: the groups; the server adds `system:authenticated`.
        uid: the UID; empty for none.
        extra: further attributes, a list of values each.
    """

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def kubeconfig_fields(self) -> dict[str, Any]:
        """Return the fields of a kubeconfig's user."""
        fields: dict[str, Any] = {"as": self.user}
        if self.groups:
            fields["as-groups"] = list(self.groups)
        if self.uid:
            fields["as-uid"] = self.uid
        if self.extra:
            fields["as-user-extra"] = {key: list(values) for key, values in self.extra.items()}
        return fields

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return names and values of the headers, of which names may be repeated."""
        pairs = [("impersonate-user", self.user)]
        pairs += [("impersonate-group", group) for group in self.groups]
        if self.uid:
            pairs.append(("impersonate-uid", self.uid))
        for key, values in self.extra.items():
            name = f"impersonate-extra-{quote(key.lower(), safe=_UNESCAPED)}"
            pairs += [(name, value) for value in values]
        return tuple(pairs)


def parse_impersonation(name: Any, groups: Any, uid: Any, extra: Any) -> Impersonation:
    """Check the attributes of a user, and return its impersonation.

    Raises:
        InvalidArgument: a name is no text or empty, or a list is none.
    """
    check_text("name", name)
    check_instance("uid", uid, str, "use the user's UID as a text")
    attributes = {} if extra is None else extra
    valid = "use a mapping of names to lists of texts, for example {'scopes': ['read']}"
    check_instance("extra", attributes, Mapping, valid)
    for key in attributes:
        check_text("extra", key)
    return Impersonation(
        name,
        _parse_texts("groups", groups, "use a list of the groups' names, for example ['devs']"),
        uid,
        {key: _parse_texts(f"extra {key}", values, valid) for key, values in attributes.items()},
    )


def _parse_texts(what: str, values: Any, valid: str) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidArgument(what, values, valid)
    texts = tuple(values)
    for text in texts:
        if not (isinstance(text, str) and text):
            raise InvalidArgument(what, text, valid)
    return texts


def impersonate(client: ApiClient, impersonation: Impersonation) -> None:
    """Let all requests of a client and of its session be those of another user.

    Not those of `kubernetes.stream`, which sends no headers of its client.
    """
    pairs = impersonation.headers()
    ApiSession.of(client).transport.further_headers = pairs
    rest_client: Any = client.rest_client
    request = rest_client.request

    signature = inspect.signature(request)

    def request_as_user(*args: Any, **options: Any) -> Any:
        call = signature.bind(*args, **options)
        headers = HTTPHeaderDict(call.arguments.get("headers"))
        if pairs[0][0] not in headers:
            for name, value in pairs:
                headers.add(name, encode_header(value))
        call.arguments["headers"] = headers
        return request(*call.args, **call.kwargs)

    rest_client.request = request_as_user
