"""Validation of admission webhook configurations, admission policies and their bindings.

Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.apimachinery.field_errors import ErrorList
from pytest_kwait.apimachinery.validation import dns_subdomain_texts, label_key_texts
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.validation.objectmeta import name_texts, validate_label_selector
from pytest_kwait.simulator.validation.webhook_client_config import (
    validate_webhook_service,
    validate_webhook_url,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_MUTATION_FIELDS = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
"""The field of a mutation's expression, by its patch type."""
_MAX_MATCH_CONDITIONS = 64
_MAX_AUDIT_ANNOTATIONS = 20
_REVIEW_VERSIONS = ("v1", "v1beta1")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MUTATING_POLICY_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_FAILURE_POLICIES = ("Fail", "Ignore")
_MATCH_POLICIES = ("Equivalent", "Exact")
_REINVOCATION_POLICIES = ("IfNeeded", "Never")
_SCOPES = ("*", "Cluster", "Namespaced")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_RULES_MESSAGE = "validations or auditAnnotations must contain at least one item"


class _Scope(NamedTuple):
    """The names that a policy's expressions may use.

    Args:
        variables: the types of the policy's variables; each is added once it is validated.
        params: whether the policy has parameters.
    """

    variables: dict[str, Obj]
    params: bool


def validate_webhook_configuration(configuration: Obj) -> ErrorList:
    """Validate a mutating or validating webhook configuration."""
    errors = ErrorList()
    names: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks", ())):
        at, name = f"webhooks[{index}]", webhook.get("name", "")
        errors += _validate_webhook(webhook, at)
        errors += _validate_review_versions(webhook.get("admissionReviewVersions", []), at)
        if name and name in names:
            errors.duplicate(f"{at}.name", name)
        names.add(name)
    return errors


def _validate_webhook(webhook: Obj, at: str) -> ErrorList:
    errors = _validate_webhook_name(webhook.get("name", ""), f"{at}.name")
    for index, rule in enumerate(webhook.get("rules", ())):
        errors += _validate_rule(rule, f"{at}.rules[{index}]")
    for field, valid in (("failurePolicy", _FAILURE_POLICIES), ("matchPolicy", _MATCH_POLICIES)):
        if webhook.get(field, valid[0]) not in valid:
            errors.not_supported(f"{at}.{field}", webhook[field], valid)
    effects = webhook.get("sideEffects")
    if effects is None:
        errors.required(f"{at}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    elif effects not in _SIDE_EFFECTS:
        errors.not_supported(f"{at}.sideEffects", effects, _SIDE_EFFECTS)
    seconds = webhook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        errors.invalid(f"{at}.timeoutSeconds", seconds, text)
    for field in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(webhook.get(field, {}), f"{at}.{field}")
    policy = webhook.get("reinvocationPolicy", "Never")
    errors.require_supported(f"{at}.reinvocationPolicy", policy, _REINVOCATION_POLICIES)
    errors += _validate_client_config(webhook.get("clientConfig", {}), f"{at}.clientConfig")
    conditions = webhook.get("matchConditions") or []
    return errors + _validate_match_conditions(conditions, f"{at}.matchConditions", params=False)


def _validate_webhook_name(name: str, at: str) -> ErrorList:
    errors = ErrorList()
    texts = name_texts(name)
    if not name:
        errors.required(at)
    elif texts:
        errors.invalid(at, name, ",".join(texts))
    elif name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        errors.invalid(at, name, text)
    return errors


def _validate_match_conditions(conditions: list[Obj], at: str, *, params: bool) -> ErrorList:
    """Validate match conditions; they cannot use a policy's variables."""
    errors = ErrorList()
    if len(conditions) > _MAX_MATCH_CONDITIONS:
        errors.too_many(at, len(conditions), _MAX_MATCH_CONDITIONS)
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        where = f"{at}[{index}]"
        name, text = condition.get("name", ""), condition.get("expression", "")
        if not text.strip():
            errors.required(f"{where}.expression")
        else:
            # Not at import: the expressions' library is loaded by the first expression.
            from pytest_kwait.simulator.cel.admission_compiler import compilation_error

            fault, _ = compilation_error(text, "bool", None, params=params)
            if fault:
                errors.invalid(f"{where}.expression", text, fault)
        errors.require_valid(f"{where}.name", name, label_key_texts)
        if name and name in names:
            errors.duplicate(f"{where}.name", name)
        names.add(name)
    return errors


def _validate_rule(rule: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    for field, plural_noun in (
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
    ):
        values = rule.get(field, [])
        if not values:
            errors.required(f"{at}.{field}")
        elif len(values) > 1 and "*" in values:
            text = f"if '*' is present, must not specify other {plural_noun}"
            errors.invalid(f"{at}.{field}", values, text)
        for index, value in enumerate(values):
            if field == "operations" and value not in _OPERATIONS:
                errors.not_supported(f"{at}.{field}[{index}]", value, _OPERATIONS)
            elif field == "apiVersions" and not value:
                errors.required(f"{at}.{field}[{index}]")
    errors += _validate_rule_resources(rule.get("resources", []), f"{at}.resources")
    scope = rule.get("scope", "*")
    errors.require_supported(f"{at}.scope", scope, _SCOPES)
    return errors


def _validate_rule_resources(resources: list[str], at: str) -> ErrorList:
    errors = ErrorList()
    if not resources:
        errors.required(at)
        return errors
    with_all_subresources: set[str] = set()
    subresources_of_all: set[str] = set()
    last_plain = ""
    for index, pattern in enumerate(resources):
        where = f"{at}[{index}]"
        resource, slash, subresource = pattern.partition("/")
        if not pattern:
            errors.required(where)
        elif not slash:
            last_plain = resource
        else:
            if resource in with_all_subresources:
                text = f"if '{resource}/*' is present, must not specify {pattern}"
                errors.invalid(where, pattern, text)
            if subresource in subresources_of_all:
                text = f"if '*/{subresource}' is present, must not specify {pattern}"
                errors.invalid(where, pattern, text)
            if subresource == "*":
                with_all_subresources.add(resource)
            if resource == "*":
                subresources_of_all.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.invalid(at, resources, "if '*/*' is present, must not specify other resources")
    # As upstream, which compares the last one only.
    if "*" in resources and last_plain not in ("", "*"):
        text = "if '*' is present, must not specify other resources without subresources"
        errors.invalid(at, resources, text)
    return errors


def _validate_client_config(config: Obj, at: str) -> ErrorList:
    if ("url" in config) == ("service" in config):
        errors = ErrorList()
        errors.required(at, "exactly one of url or service is required")
        return errors
    if "url" in config:
        return validate_webhook_url(config["url"], f"{at}.url")
    return validate_webhook_service(config["service"], f"{at}.service")


def _validate_review_versions(versions: list[str], at: str) -> ErrorList:
    errors, at = ErrorList(), f"{at}.admissionReviewVersions"
    if not versions:
        errors.required(at, f"must specify one of {', '.join(_REVIEW_VERSIONS)}")
        return errors
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.invalid(f"{at}[{index}]", version, "duplicate version")
    if not {*versions}.intersection(_REVIEW_VERSIONS):
        text = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        errors.invalid(at, versions, text)
    return errors


def validate_validating_admission_policy(policy: Obj) -> ErrorList:
    """Validate a ValidatingAdmissionPolicy and compile its expressions."""
    spec, name = policy.get("spec") or {}, name_of(policy)
    errors = _validate_failure_policy_and_param_kind(spec)
    scope = _Scope({}, spec.get("paramKind") is not None)
    constraints: Obj | None = spec.get("matchConstraints")
    if constraints is None:
        errors.required("spec.matchConstraints")
    else:
        if not constraints.get("resourceRules"):
            errors.required("spec.matchConstraints.resourceRules")
        errors += _validate_match_resources(constraints, "spec.matchConstraints")
    errors += _validate_conditions_and_variables(spec, scope)
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        errors.required("spec.validations", _NO_RULES_MESSAGE)
        errors.required("spec.auditAnnotations", _NO_RULES_MESSAGE)
    for index, validation in enumerate(validations):
        errors += _validate_validation(validation, scope, f"spec.validations[{index}]")
    if len(annotations) > _MAX_AUDIT_ANNOTATIONS:
        internal_annotations = [
            {
                "Key": annotation.get("key", ""),
                "ValueExpression": annotation.get("valueExpression", ""),
            }
            for annotation in annotations
        ]
        text = f"must not have more than {_MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        errors.invalid("spec.auditAnnotations", internal_annotations, text)
    keys: set[str] = set()
    for index, annotation in enumerate(annotations):
        at, key = f"spec.auditAnnotations[{index}]", annotation.get("key", "")
        errors += _validate_audit_annotation(annotation, name, scope, at)
        errors.require_unique(f"{at}.key", key, keys)
    return errors


def _validate_failure_policy_and_param_kind(spec: Obj) -> ErrorList:
    errors = ErrorList()
    policy = spec.get("failurePolicy", "Fail")
    errors.require_supported("spec.failurePolicy", policy, _FAILURE_POLICIES)
    kind: Obj | None = spec.get("paramKind")
    if kind is not None:
        errors.require_fields(kind, "spec.paramKind", "apiVersion", "kind")
    return errors


def _validate_match_resources(resources: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    for field in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(resources.get(field) or {}, f"{at}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(resources.get(field) or ()):
            errors += _validate_rule(rule, f"{at}.{field}[{index}]")
    policy = resources.get("matchPolicy", "Equivalent")
    errors.require_supported(f"{at}.matchPolicy", policy, _MATCH_POLICIES)
    return errors


def _validate_conditions_and_variables(spec: Obj, scope: _Scope) -> ErrorList:
    errors = _validate_match_conditions(
        spec.get("matchConditions") or [], "spec.matchConditions", params=scope.params
    )
    for index, variable in enumerate(spec.get("variables") or ()):
        errors += _validate_variable(variable, scope, f"spec.variables[{index}]")
    return errors


def _validate_variable(variable: Obj, scope: _Scope, at: str) -> ErrorList:
    errors = ErrorList()
    name = variable.get("name", "")
    if not name:
        errors.required(f"{at}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name):
        errors.invalid(f"{at}.name", name, "must be a valid CEL identifier")
    if name and name in scope.variables:
        errors.duplicate(f"{at}.name", name)
    if not variable.get("expression", "").strip():
        errors.required(f"{at}.expression", "expression is not specified")
    else:
        errors += _validate_expression(variable, "expression", "", scope, at)
    return errors


def _validate_expression(
    parent: Obj, field: str, result_type: str, scope: _Scope, at: str
) -> ErrorList:
    """Compile an expression of a policy; that of a variable adds its type to the scope."""
    # Not at import: the expressions' library is loaded by the first expression.
    from pytest_kwait.simulator.cel.admission_compiler import compilation_error

    errors = ErrorList()
    text = parent.get(field, "")
    fault, type_name = compilation_error(text, result_type, scope.variables, params=scope.params)
    if fault:
        errors.invalid(f"{at}.{field}", text, fault)
    if _IDENTIFIER.fullmatch(parent.get("name", "")):
        scope.variables.setdefault(parent["name"], type_name)
    return errors


def _validate_validation(validation: Obj, scope: _Scope, at: str) -> ErrorList:
    errors = ErrorList()
    text, message = validation.get("expression", "").strip(), validation.get("message", "")
    if not text:
        errors.required(f"{at}.expression", "expression is not specified")
    else:
        errors += _validate_expression(validation, "expression", "bool", scope, at)
    if validation.get("messageExpression", "").strip():
        errors += _validate_expression(validation, "messageExpression", "string", scope, at)
    if message and not message.strip():
        errors.invalid(f"{at}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        errors.invalid(f"{at}.message", message, "must not contain line breaks")
    elif "\n" in text and not message:
        why = "message must be specified if expression contains line breaks"
        errors.required(f"{at}.message", why)
    reason = validation.get("reason")
    errors.require_supported(f"{at}.reason", reason, _REASONS)
    return errors


def _validate_audit_annotation(annotation: Obj, policy: str, scope: _Scope, at: str) -> ErrorList:
    errors = ErrorList()
    key, text = annotation.get("key", ""), annotation.get("valueExpression", "")
    if policy:
        errors.invalid_each(f"{at}.key", f"{policy}/{key}", label_key_texts(f"{policy}/{key}"))
    else:
        errors.invalid(f"{at}.key", key, "requires metadata.name be non-empty")
    if not text.strip():
        errors.required(f"{at}.valueExpression", "valueExpression is not specified")
        return errors
    # Not at import: the expressions' library is loaded by the first expression.
    from pytest_kwait.simulator.cel.admission_compiler import get_expression_type
    from pytest_kwait.simulator.cel.expressions import CompilationError

    try:
        expression_type = get_expression_type(text.strip(), scope.variables, params=scope.params)
    except CompilationError as error:
        why = f"compilation failed: {error}".replace("null_type", "null")
        errors.invalid(f"{at}.valueExpression", text, why)
        return errors
    if expression_type not in ("STRING", "NULL"):
        why = f"must evaluate to one of [string null_type] but got {expression_type.lower()}"
        errors.invalid(f"{at}.valueExpression", text, why)
    return errors


def validate_validating_admission_policy_binding(binding: Obj) -> ErrorList:
    """Validate a ValidatingAdmissionPolicyBinding."""
    spec, errors = binding.get("spec") or {}, ErrorList()
    name = spec.get("policyName", "")
    errors.require_valid("spec.policyName", name, label_key_texts)
    errors += _validate_param_ref(spec.get("paramRef"))
    if spec.get("matchResources") is not None:
        errors += _validate_match_resources(spec["matchResources"], "spec.matchResources")
    actions: list[str] = spec.get("validationActions") or []
    if not actions:
        errors.required("spec.validationActions", "at least one validation action is required")
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.not_supported(f"spec.validationActions[{index}]", action, _ACTIONS)
        elif action in actions[:index]:
            errors.duplicate(f"spec.validationActions[{index}]", action)
    if {"Deny", "Warn"} <= set(actions):
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        errors.invalid("spec.validationActions", actions, why)
    return errors


def _validate_param_ref(reference: Obj | None) -> ErrorList:
    errors, at = ErrorList(), "spec.paramRef"
    if reference is None:
        return errors
    fields = [field for field in ("name", "selector") if reference.get(field) is not None]
    if not fields:
        errors.required(at, "one of name or selector must be specified")
    elif len(fields) > 1:
        for field in fields:
            errors.forbidden(f"{at}.{field}", "name and selector are mutually exclusive")
    action = reference.get("parameterNotFoundAction")
    if action is None:
        errors.required(f"{at}.parameterNotFoundAction")
    elif action not in ("Deny", "Allow"):
        errors.not_supported(f"{at}.parameterNotFoundAction", action, ("Deny", "Allow"))
    return errors


def validate_mutating_admission_policy(policy: Obj) -> ErrorList:
    """Validate a MutatingAdmissionPolicy and compile its expressions."""
    spec = policy.get("spec") or {}
    errors = _validate_failure_policy_and_param_kind(spec)
    scope = _Scope({}, spec.get("paramKind") is not None)
    constraints: Obj | None = spec.get("matchConstraints")
    if constraints is None:
        errors.required("spec.matchConstraints")
    else:
        errors += _validate_match_resources(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            errors.required("spec.matchConstraints.resourceRules")
        errors += _validate_mutating_operations(constraints, "spec.matchConstraints")
    errors += _validate_conditions_and_variables(spec, scope)
    mutations = spec.get("mutations") or []
    if not mutations:
        errors.required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        errors += _validate_mutation(mutation, scope, f"spec.mutations[{index}]")
    errors.require_one_of(
        "spec.reinvocationPolicy", spec.get("reinvocationPolicy") or "", _REINVOCATION_POLICIES
    )
    return errors


def _validate_mutating_operations(resources: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    for rule in resources.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTATING_POLICY_OPERATIONS:
                path = f"{at}.resourceRules.operations"
                errors.not_supported(path, operation, _MUTATING_POLICY_OPERATIONS)
    return errors


def _validate_mutation(mutation: Obj, scope: _Scope, at: str) -> ErrorList:
    errors = ErrorList()
    kind = mutation.get("patchType") or ""
    errors.require_one_of(f"{at}.patchType", kind, tuple(_MUTATION_FIELDS))
    if errors:
        return errors
    field = _MUTATION_FIELDS[kind]
    if mutation.get(field) is None:
        errors.required(f"{at}.{field}", f"must be specified when patchType is {kind}")
    else:
        text = mutation[field].get("expression", "").strip()
        errors += _validate_mutation_expression(text, kind, scope, f"{at}.{field}.expression")
    for other_field in _MUTATION_FIELDS.values():
        if other_field != field and mutation.get(other_field) is not None:
            why = f"must not be specified when patchType is {kind}"
            errors.invalid(f"{at}.{other_field}", f"{{{other_field}}}", why)
    return errors


def _validate_mutation_expression(text: str, kind: str, scope: _Scope, at: str) -> ErrorList:
    errors = ErrorList()
    if not text:
        errors.required(at)
        return errors
    # Not at import: the expressions' library is loaded by the first expression.
    from pytest_kwait.simulator.cel.admission_compiler import mutation_compilation_error

    fault = mutation_compilation_error(text, kind, scope.variables, params=scope.params)
    if fault:
        errors.invalid(at, text, fault)
    return errors


def validate_mutating_admission_policy_binding(binding: Obj) -> ErrorList:
    """Validate a MutatingAdmissionPolicyBinding."""
    spec, errors = binding.get("spec") or {}, ErrorList()
    name = spec.get("policyName", "")
    errors.require_valid("spec.policyName", name, dns_subdomain_texts)
    errors += _validate_param_ref(spec.get("paramRef"))
    resources = spec.get("matchResources")
    if resources is not None:
        errors += _validate_match_resources(resources, "spec.matchResources")
        errors += _validate_mutating_operations(resources, "spec.matchResources")
    return errors
