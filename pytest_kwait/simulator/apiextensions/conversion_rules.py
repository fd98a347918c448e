"""How a definition may have its objects converted from version to version.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, func
validateCustomResourceConversion.
"""

from __future__ import annotations

import base64
import ssl
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import (
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.simulator.validation.formats import dns_1035_texts
from pytest_kwait.simulator.validation.webhook_client_config import (
    webhook_service_errors,
    webhook_url_errors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["conversion_errors", "is_ca_bundle"]

_STRATEGIES = ("None", "Webhook")
_REVIEW_VERSIONS = ("v1", "v1beta1")


def conversion_errors(spec: Obj, any_ca: bool) -> Iterator[FieldError]:
    """What is wrong with a spec's conversion.

    Args:
        spec: the definition's spec.
        any_ca: whether certificates that are none are let through, as they are before a definition
            is established.
    """
    conversion: Obj | None = spec.get("conversion")
    if conversion is None:
        return
    at, strategy = "spec.conversion", conversion.get("strategy", "")
    webhook: Obj = conversion.get("webhook") or {}
    config: Obj | None = webhook.get("clientConfig")
    versions: list[str] = webhook.get("conversionReviewVersions") or []
    if strategy not in ("", "None") and spec.get("preserveUnknownFields"):
        text = "must be None if spec.preserveUnknownFields is true"
        yield invalid_value(f"{at}.strategy", strategy, text)
    if not strategy:
        yield required(f"{at}.strategy")
    elif strategy not in _STRATEGIES:
        yield not_supported(f"{at}.strategy", strategy, _STRATEGIES)
    where, reviews = f"{at}.webhookClientConfig", f"{at}.conversionReviewVersions"
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if config is not None:
            yield forbidden_field(where, text)
        if versions:
            yield forbidden_field(reviews, text)
        return
    if config is None:
        yield required(where, "required when strategy is set to Webhook")
    else:
        if ("url" in config) == ("service" in config):
            yield required(where, "exactly one of url or service is required")
        elif "url" in config:
            yield from webhook_url_errors(config["url"], f"{where}.url")
        else:
            yield from webhook_service_errors(config["service"], f"{where}.service")
        bundle = config.get("caBundle")
        if bundle and not any_ca and not is_ca_bundle(bundle):
            text = "unable to load root certificates: unable to parse bytes as PEM block"
            yield invalid_value(f"{where}.caBundle", bundle, text)
    yield from _review_errors(versions, reviews)


def _review_errors(versions: list[str], at: str) -> Iterator[FieldError]:
    if not versions:
        yield required(at)
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            yield invalid_value(f"{at}[{index}]", version, "duplicate version")
            continue
        seen.add(version)
        for text in dns_1035_texts(version):
            yield invalid_value(f"{at}[{index}]", version, text)
    if not seen.intersection(_REVIEW_VERSIONS):
        text = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        yield invalid_value(at, versions, text)


def is_ca_bundle(bundle: str) -> bool:
    """Whether `bundle`, which is base64, has certificates to trust."""
    try:
        ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    except (ValueError, ssl.SSLError):
        return False
    return True
