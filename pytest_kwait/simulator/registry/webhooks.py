"""Configurations of admission webhooks: who is asked, about what, and how.

Source: pkg/apis/admissionregistration/validation/validation.go, k8s.io/apiserver
pkg/util/webhook/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import duplicate, invalid_value, not_supported, required
from pytest_kwait.simulator.registry.match_conditions import match_condition_errors
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.objectmeta import name_errors, selector_errors
from pytest_kwait.simulator.validation.webhook_client_config import (
    webhook_service_errors,
    webhook_url_errors,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["WebhookConfigurationStrategy", "rule_errors"]

_REVIEW_VERSIONS = ("v1", "v1beta1")
_WEBHOOK_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_CHOICES = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
}


class WebhookConfigurationStrategy(Strategy):
    """The strategy of both kinds of configurations."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Every webhook can be asked, and knows when."""
        errors: list[FieldError] = []
        names: set[str] = set()
        for index, webhook in enumerate(obj.get("webhooks", ())):
            at, name = f"webhooks[{index}]", webhook.get("name", "")
            errors += _webhook_errors(webhook, at)
            errors += _version_errors(webhook.get("admissionReviewVersions", []), at)
            if name and name in names:
                errors.append(duplicate(f"{at}.name", name))
            names.add(name)
        return errors


def _webhook_errors(webhook: Obj, at: str) -> list[FieldError]:
    errors = _webhook_name_errors(webhook.get("name", ""), f"{at}.name")
    for index, rule in enumerate(webhook.get("rules", ())):
        errors += rule_errors(rule, f"{at}.rules[{index}]")
    for field, choices in _CHOICES.items():
        if webhook.get(field, choices[0]) not in choices:
            errors.append(not_supported(f"{at}.{field}", webhook[field], choices))
    effects = webhook.get("sideEffects")
    if effects is None:
        text = f"must specify one of {', '.join(_SIDE_EFFECTS)}"
        errors.append(required(f"{at}.sideEffects", text))
    elif effects not in _SIDE_EFFECTS:
        errors.append(not_supported(f"{at}.sideEffects", effects, _SIDE_EFFECTS))
    seconds = webhook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid_value(f"{at}.timeoutSeconds", seconds, text))
    for field in ("namespaceSelector", "objectSelector"):
        errors += selector_errors(webhook.get(field, {}), f"{at}.{field}")
    policy = webhook.get("reinvocationPolicy", "Never")
    if policy not in ("IfNeeded", "Never"):
        errors.append(not_supported(f"{at}.reinvocationPolicy", policy, ("IfNeeded", "Never")))
    errors += _client_errors(webhook.get("clientConfig", {}), f"{at}.clientConfig")
    errors += match_condition_errors(webhook.get("matchConditions") or [], f"{at}.matchConditions")
    return errors


def _webhook_name_errors(name: str, at: str) -> list[FieldError]:
    if not name:
        return [required(at)]
    texts = name_errors(name)
    if texts:
        return [invalid_value(at, name, ",".join(texts))]
    if name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        return [invalid_value(at, name, text)]
    return []


def rule_errors(rule: Obj, at: str) -> list[FieldError]:
    """What is wrong with a rule that says which requests are meant."""
    errors: list[FieldError] = []
    for field, others in (
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
    ):
        values = rule.get(field, [])
        if not values:
            errors.append(required(f"{at}.{field}"))
        elif len(values) > 1 and "*" in values:
            text = f"if '*' is present, must not specify other {others}"
            errors.append(invalid_value(f"{at}.{field}", values, text))
        for index, value in enumerate(values):
            if field == "operations" and value not in _WEBHOOK_OPERATIONS:
                errors.append(not_supported(f"{at}.{field}[{index}]", value, _WEBHOOK_OPERATIONS))
            elif field == "apiVersions" and not value:
                errors.append(required(f"{at}.{field}[{index}]"))
    errors += _resource_errors(rule.get("resources", []), f"{at}.resources")
    scope = rule.get("scope", "*")
    if scope not in ("*", "Cluster", "Namespaced"):
        errors.append(not_supported(f"{at}.scope", scope, ("*", "Cluster", "Namespaced")))
    return errors


def _resource_errors(resources: list[str], at: str) -> list[FieldError]:
    if not resources:
        return [required(at)]
    errors: list[FieldError] = []
    all_below: set[str] = set()
    below_all: set[str] = set()
    last_plain = ""
    for index, pattern in enumerate(resources):
        where = f"{at}[{index}]"
        resource, slash, below = pattern.partition("/")
        if not pattern:
            errors.append(required(where))
        elif not slash:
            last_plain = resource
        else:
            if resource in all_below:
                text = f"if '{resource}/*' is present, must not specify {pattern}"
                errors.append(invalid_value(where, pattern, text))
            if below in below_all:
                text = f"if '*/{below}' is present, must not specify {pattern}"
                errors.append(invalid_value(where, pattern, text))
            if below == "*":
                all_below.add(resource)
            if resource == "*":
                below_all.add(below)
    if len(resources) > 1 and "*/*" in resources:
        text = "if '*/*' is present, must not specify other resources"
        errors.append(invalid_value(at, resources, text))
    # As upstream, which looks at the last one alone.
    if "*" in resources and last_plain not in ("", "*"):
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid_value(at, resources, text))
    return errors


def _client_errors(config: Obj, at: str) -> list[FieldError]:
    if ("url" in config) == ("service" in config):
        return [required(at, "exactly one of url or service is required")]
    if "url" in config:
        return webhook_url_errors(config["url"], f"{at}.url")
    return webhook_service_errors(config["service"], f"{at}.service")


def _version_errors(versions: list[str], at: str) -> list[FieldError]:
    at = f"{at}.admissionReviewVersions"
    if not versions:
        return [required(at, f"must specify one of {', '.join(_REVIEW_VERSIONS)}")]
    errors = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            errors.append(invalid_value(f"{at}[{index}]", version, "duplicate version"))
        seen.add(version)
    if not seen.intersection(_REVIEW_VERSIONS):
        text = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        errors.append(invalid_value(at, versions, text))
    return errors
