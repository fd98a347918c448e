"""Strategies of admission webhook configurations, admission policies and their bindings.

Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go; k8s.io/apiserver
pkg/util/webhook/validation.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import dns_subdomain_texts, label_key_texts
from pytest_kwait.simulator.api_errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.objectmeta import name_texts, validate_label_selector
from pytest_kwait.simulator.validation.webhook_client_config import (
    validate_webhook_service,
    validate_webhook_url,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "MutatingAdmissionPolicyBindingStrategy",
    "MutatingAdmissionPolicyStrategy",
    "ValidatingAdmissionPolicyBindingStrategy",
    "ValidatingAdmissionPolicyStrategy",
    "WebhookConfigurationStrategy",
    "match_condition_errors",
    "match_resources_errors",
    "param_ref_errors",
    "rule_errors",
    "variable_errors",
]

_MAX_MATCH_CONDITIONS = 64


def match_condition_errors(
    conditions: list[Obj],
    at: str,
    *,
    params: bool = False,
) -> list[FieldError]:
    """What is wrong with conditions.

    Args:
        conditions: the conditions.
        at: where they stand; they cannot speak of a policy's variables.
        params: whether there are parameters.
    """
    errors: list[FieldError] = []
    if len(conditions) > _MAX_MATCH_CONDITIONS:
        text = f"Too many: {len(conditions)}: must have at most {_MAX_MATCH_CONDITIONS} items"
        errors.append(FieldError("FieldValueTooMany", at, text))
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        where = f"{at}[{index}]"
        name, text = condition.get("name", ""), condition.get("expression", "")
        if not text.strip():
            errors.append(required(f"{where}.expression"))
        else:
            # Not at import: the expressions' library is loaded where one is met.
            from pytest_kwait.simulator.admission.cel_expressions import compilation_error

            fault, _ = compilation_error(text, "bool", None, params=params)
            if fault:
                errors.append(invalid_value(f"{where}.expression", text, fault))
        if not name:
            errors.append(required(f"{where}.name"))
        else:
            errors += [invalid_value(f"{where}.name", name, why) for why in label_key_texts(name)]
        if name and name in names:
            errors.append(duplicate(f"{where}.name", name))
        names.add(name)
    return errors


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
        errors += validate_label_selector(webhook.get(field, {}), f"{at}.{field}")
    policy = webhook.get("reinvocationPolicy", "Never")
    if policy not in ("IfNeeded", "Never"):
        errors.append(not_supported(f"{at}.reinvocationPolicy", policy, ("IfNeeded", "Never")))
    errors += _client_errors(webhook.get("clientConfig", {}), f"{at}.clientConfig")
    errors += match_condition_errors(webhook.get("matchConditions") or [], f"{at}.matchConditions")
    return errors


def _webhook_name_errors(name: str, at: str) -> list[FieldError]:
    if not name:
        return [required(at)]
    texts = name_texts(name)
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
        return validate_webhook_url(config["url"], f"{at}.url")
    return validate_webhook_service(config["service"], f"{at}.service")


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


_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_MAX_AUDIT_ANNOTATIONS = 20
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_RULES_MESSAGE = "validations or auditAnnotations must contain at least one item"


class ValidatingAdmissionPolicyStrategy(Strategy):
    """ValidatingAdmissionPolicies."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Expressions can be compiled, and it is said what they are about."""
        return [*_validating_policy_errors(obj.get("spec") or {}, name_of(obj))]


class ValidatingAdmissionPolicyBindingStrategy(Strategy):
    """ValidatingAdmissionPolicyBindings."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """A policy is named, with what follows where it is broken."""
        return [*_validating_binding_errors(obj.get("spec") or {})]


def _validating_policy_errors(spec: Obj, name: str) -> Iterator[FieldError]:
    policy = spec.get("failurePolicy", "Fail")
    if policy not in ("Fail", "Ignore"):
        yield not_supported("spec.failurePolicy", policy, ("Fail", "Ignore"))
    kind: Obj | None = spec.get("paramKind")
    if kind is not None:
        for field in ("apiVersion", "kind"):
            if not kind.get(field):
                yield required(f"spec.paramKind.{field}")
    constraints: Obj | None = spec.get("matchConstraints")
    if constraints is None:
        yield required("spec.matchConstraints")
    else:
        if not constraints.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
        yield from match_resources_errors(constraints, "spec.matchConstraints")
    conditions = spec.get("matchConditions") or []
    yield from match_condition_errors(conditions, "spec.matchConditions", params=kind is not None)
    variables: dict[str, Obj] = {}
    for index, variable in enumerate(spec.get("variables") or ()):
        yield from variable_errors(
            variable, variables, kind is not None, f"spec.variables[{index}]"
        )
    validations, notes = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not notes:
        yield required("spec.validations", _NO_RULES_MESSAGE)
        yield required("spec.auditAnnotations", _NO_RULES_MESSAGE)
    for index, validation in enumerate(validations):
        at = f"spec.validations[{index}]"
        yield from _validation_errors(validation, variables, kind is not None, at)
    if len(notes) > _MAX_AUDIT_ANNOTATIONS:
        shown = [
            {"Key": note.get("key", ""), "ValueExpression": note.get("valueExpression", "")}
            for note in notes
        ]
        why = f"must not have more than {_MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        yield invalid_value("spec.auditAnnotations", shown, why)
    keys: set[str] = set()
    for index, note in enumerate(notes):
        at = f"spec.auditAnnotations[{index}]"
        yield from _audit_annotation_errors(note, name, variables, kind is not None, at)
        if note.get("key", "") in keys:
            yield duplicate(f"{at}.key", note.get("key", ""))
        keys.add(note.get("key", ""))


def _audit_annotation_errors(
    note: Obj, policy: str, variables: dict[str, Obj], params: bool, at: str
) -> Iterator[FieldError]:
    """What is wrong with what a policy notes for audits: its value is a text or nothing."""
    key, text = note.get("key", ""), note.get("valueExpression", "").strip()
    if policy:
        for why in label_key_texts(f"{policy}/{key}"):
            yield invalid_value(f"{at}.key", f"{policy}/{key}", why)
    else:
        yield invalid_value(f"{at}.key", key, "requires metadata.name be non-empty")
    if not text:
        yield required(f"{at}.valueExpression", "valueExpression is not specified")
        return
    # Not at import: the expressions' library is loaded where one is met.
    from pytest_kwait.simulator.admission.cel_expressions import value_type
    from pytest_kwait.simulator.cel.expressions import CompilationError

    try:
        found = value_type(text, variables, params=params)
    except CompilationError as error:
        why = f"compilation failed: {error}".replace("null_type", "null")
        yield invalid_value(f"{at}.valueExpression", note["valueExpression"], why)
        return
    if found not in ("STRING", "NULL"):
        why = f"must evaluate to one of [string null_type] but got {found.lower()}"
        yield invalid_value(f"{at}.valueExpression", note["valueExpression"], why)


def match_resources_errors(constraints: Obj, at: str) -> Iterator[FieldError]:
    """What is wrong with what a policy or a binding is about."""
    for field in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(constraints.get(field) or {}, f"{at}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(constraints.get(field) or ()):
            yield from rule_errors(rule, f"{at}.{field}[{index}]")
    policy = constraints.get("matchPolicy", "Equivalent")
    if policy not in ("Equivalent", "Exact"):
        yield not_supported(f"{at}.matchPolicy", policy, ("Equivalent", "Exact"))


def _policy_expression_errors(
    holder: Obj, field: str, wanted: str, variables: dict[str, Obj], params: bool, at: str
) -> Iterator[FieldError]:
    # Not at import: the expressions' library is loaded where one is met.
    from pytest_kwait.simulator.admission.cel_expressions import compilation_error

    text = holder.get(field, "")
    fault, found = compilation_error(text, wanted, variables, params=params)
    if fault:
        yield invalid_value(f"{at}.{field}", text, fault)
    if _IDENTIFIER.fullmatch(holder.get("name", "")):
        variables.setdefault(holder["name"], found)


def variable_errors(
    variable: Obj, variables: dict[str, Obj], params: bool, at: str
) -> Iterator[FieldError]:
    """What is wrong with a policy's variable, which is among `variables` from then on."""
    name = variable.get("name", "")
    if not name:
        yield required(f"{at}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name):
        yield invalid_value(f"{at}.name", name, "must be a valid CEL identifier")
    if name and name in variables:
        yield duplicate(f"{at}.name", name)
    if not variable.get("expression", "").strip():
        yield required(f"{at}.expression", "expression is not specified")
    else:
        yield from _policy_expression_errors(variable, "expression", "", variables, params, at)


def _validation_errors(
    validation: Obj, variables: dict[str, Obj], params: bool, at: str
) -> Iterator[FieldError]:
    text, message = validation.get("expression", "").strip(), validation.get("message", "")
    if not text:
        yield required(f"{at}.expression", "expression is not specified")
    else:
        yield from _policy_expression_errors(
            validation, "expression", "bool", variables, params, at
        )
    if validation.get("messageExpression", "").strip():
        yield from _policy_expression_errors(
            validation, "messageExpression", "string", variables, params, at
        )
    if message and not message.strip():
        yield invalid_value(f"{at}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid_value(f"{at}.message", message, "must not contain line breaks")
    elif "\n" in text and not message:
        why = "message must be specified if expression contains line breaks"
        yield required(f"{at}.message", why)
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{at}.reason", reason, _REASONS)


def param_ref_errors(reference: Obj | None) -> Iterator[FieldError]:
    """What is wrong with where a binding has its parameters from."""
    if reference is None:
        return
    given = [field for field in ("name", "selector") if reference.get(field) is not None]
    if not given:
        yield required("spec.paramRef", "one of name or selector must be specified")
    elif len(given) > 1:
        why = "name and selector are mutually exclusive"
        for field in given:
            yield forbidden_field(f"spec.paramRef.{field}", why)
    action, at = reference.get("parameterNotFoundAction"), "spec.paramRef"
    if action is None:
        yield required(f"{at}.parameterNotFoundAction")
    elif action not in ("Deny", "Allow"):
        yield not_supported(f"{at}.parameterNotFoundAction", action, ("Deny", "Allow"))


def _validating_binding_errors(spec: Obj) -> Iterator[FieldError]:
    name = spec.get("policyName", "")
    if not name:
        yield required("spec.policyName")
    else:
        for why in label_key_texts(name):
            yield invalid_value("spec.policyName", name, why)
    yield from param_ref_errors(spec.get("paramRef"))
    if spec.get("matchResources") is not None:
        yield from match_resources_errors(spec["matchResources"], "spec.matchResources")
    actions: list[str] = spec.get("validationActions") or []
    if not actions:
        why = "at least one validation action is required"
        yield required("spec.validationActions", why)
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"spec.validationActions[{index}]", action, _ACTIONS)
        elif action in actions[:index]:
            yield duplicate(f"spec.validationActions[{index}]", action)
    if {"Deny", "Warn"} <= set(actions):
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        yield invalid_value("spec.validationActions", actions, why)


_MUTATING_POLICY_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_PATCH_TYPE_FIELDS = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


class MutatingAdmissionPolicyStrategy(Strategy):
    """MutatingAdmissionPolicies."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Expressions can be compiled, and it is said what they are about."""
        return [*_mutating_policy_errors(obj.get("spec") or {})]


class MutatingAdmissionPolicyBindingStrategy(Strategy):
    """MutatingAdmissionPolicyBindings."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """A policy is named, with its parameters and its limits."""
        return [*_mutating_binding_errors(obj.get("spec") or {})]


def _mutating_policy_errors(spec: Obj) -> Iterator[FieldError]:
    policy = spec.get("failurePolicy", "Fail")
    if policy not in ("Fail", "Ignore"):
        yield not_supported("spec.failurePolicy", policy, ("Fail", "Ignore"))
    kind: Obj | None = spec.get("paramKind")
    if kind is not None:
        for field in ("apiVersion", "kind"):
            if not kind.get(field):
                yield required(f"spec.paramKind.{field}")
    constraints: Obj | None = spec.get("matchConstraints")
    if constraints is None:
        yield required("spec.matchConstraints")
    else:
        yield from match_resources_errors(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
        yield from _operation_errors(constraints, "spec.matchConstraints")
    params = kind is not None
    conditions = spec.get("matchConditions") or []
    yield from match_condition_errors(conditions, "spec.matchConditions", params=params)
    variables: dict[str, Obj] = {}
    for index, variable in enumerate(spec.get("variables") or ()):
        yield from variable_errors(variable, variables, params, f"spec.variables[{index}]")
    mutations = spec.get("mutations") or []
    if not mutations:
        yield required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        yield from _mutation_errors(mutation, variables, params, f"spec.mutations[{index}]")
    again = spec.get("reinvocationPolicy")
    if not again:
        yield required("spec.reinvocationPolicy")
    elif again not in ("IfNeeded", "Never"):
        yield not_supported("spec.reinvocationPolicy", again, ("IfNeeded", "Never"))


def _operation_errors(constraints: Obj, at: str) -> Iterator[FieldError]:
    for rule in constraints.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTATING_POLICY_OPERATIONS:
                yield not_supported(
                    f"{at}.resourceRules.operations", operation, _MUTATING_POLICY_OPERATIONS
                )


def _mutation_errors(
    mutation: Obj, variables: dict[str, Obj], params: bool, at: str
) -> Iterator[FieldError]:
    kind = mutation.get("patchType")
    if not kind:
        yield required(f"{at}.patchType")
        return
    if kind not in _PATCH_TYPE_FIELDS:
        yield not_supported(f"{at}.patchType", kind, tuple(_PATCH_TYPE_FIELDS))
        return
    field = _PATCH_TYPE_FIELDS[kind]
    if mutation.get(field) is None:
        yield required(f"{at}.{field}", f"must be specified when patchType is {kind}")
    else:
        text = mutation[field].get("expression", "").strip()
        yield from _mutation_expression_errors(
            text, kind, variables, params, f"{at}.{field}.expression"
        )
    for other in _PATCH_TYPE_FIELDS.values():
        if other != field and mutation.get(other) is not None:
            why = f"must not be specified when patchType is {kind}"
            yield invalid_value(f"{at}.{other}", f"{{{other}}}", why)


def _mutation_expression_errors(
    text: str, kind: str, variables: dict[str, Obj], params: bool, at: str
) -> Iterator[FieldError]:
    if not text:
        yield required(at)
        return
    # Not at import: the expressions' library is loaded where one is met.
    from pytest_kwait.simulator.admission.cel_expressions import mutation_compilation_error

    fault = mutation_compilation_error(text, kind, variables, params=params)
    if fault:
        yield invalid_value(at, text, fault)


def _mutating_binding_errors(spec: Obj) -> Iterator[FieldError]:
    name = spec.get("policyName", "")
    if not name:
        yield required("spec.policyName")
    else:
        for why in dns_subdomain_texts(name):
            yield invalid_value("spec.policyName", name, why)
    yield from param_ref_errors(spec.get("paramRef"))
    limits = spec.get("matchResources")
    if limits is not None:
        yield from match_resources_errors(limits, "spec.matchResources")
        yield from _operation_errors(limits, "spec.matchResources")
