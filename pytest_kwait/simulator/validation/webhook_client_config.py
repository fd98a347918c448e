"""Validation of a webhook's `clientConfig`: URL or service.

Used for admission webhooks and for conversion webhooks.
Source: k8s.io/apiserver pkg/util/webhook/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_kwait.apimachinery.field_errors import ErrorList, invalid_value, required
from pytest_kwait.apimachinery.validation import dns_subdomain_texts

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_FORM = "; desired format: https://host[/path]"


def validate_webhook_url(url: str, at: str) -> ErrorList:
    """Validate the URL of a webhook."""
    try:
        split = urlsplit(url)
        user, _, _ = split.netloc.rpartition("@")
    except ValueError as error:
        return ErrorList([required(at, f"url must be a valid URL: {error}{_FORM}")])
    errors = ErrorList()
    if split.scheme != "https":
        text = f"'https' is the only allowed URL scheme{_FORM}"
        errors.invalid(at, split.scheme, text)
    if not split.netloc:
        errors.invalid(at, "", f"host must be specified{_FORM}")
    if user:
        text = "user information is not permitted in the URL"
        errors.invalid(at, user, text)
    if split.fragment:
        text = "fragments are not permitted in the URL"
        errors.invalid(at, split.fragment, text)
    if split.query:
        text = "query parameters are not permitted in the URL"
        errors.invalid(at, split.query, text)
    return errors


def validate_webhook_service(service: Obj, at: str) -> ErrorList:
    """Validate the service reference of a webhook.

    Upstream's callers pass name and namespace in the other order: the error of a missing one is at
    the other.
    """
    errors = ErrorList()
    for empty_field, reported in (("namespace", "name"), ("name", "namespace")):
        if not service.get(empty_field):
            errors.append(required(f"{at}.{reported}"))
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        errors.invalid(f"{at}.port", port, text)
    path = service.get("path", "")
    if path in ("", "/"):
        return errors
    if path == "//":
        return ErrorList(
            [*errors, invalid_value(f"{at}.path", path, "segment[0] may not be empty")]
        )
    if not path.startswith("/"):
        errors.invalid(f"{at}.path", path, "must start with a '/'")
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        texts = dns_subdomain_texts(step) if step else ["may not be empty"]
        sign = ":" if step else ""
        errors += [
            invalid_value(f"{at}.path", path, f"segment[{index}]{sign} {text}") for text in texts
        ]
    return errors
