"""Validation of CustomResourceDefinitions: names, versions, columns, subresources, conversion.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go (with
validateCustomResourceConversion and validateCustomResourceDefinitionValidation),
pkg/apiserver/schema/defaulting/validation.go.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pytest_kwait.apimachinery.field_errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from pytest_kwait.apimachinery.validation import dns_1035_texts, dns_subdomain_texts
from pytest_kwait.simulator.apiextensions.definition_schema import (
    FieldPathError,
    SchemaPosition,
    resolve_field_path,
    root_errors,
    schema_errors,
    structural_errors,
    unsupported_reason,
)
from pytest_kwait.simulator.apiextensions.internal_types import (
    hoist_shared_fields,
    internal_version,
    invalid_struct_error,
)
from pytest_kwait.simulator.apiextensions.pruning import (
    EMBEDDED,
    METADATA_KEYS,
    embedded_errors,
    prune,
)
from pytest_kwait.simulator.apiextensions.schema_validation import prefix_error, validate_value
from pytest_kwait.simulator.validation.webhook_client_config import (
    validate_webhook_service,
    validate_webhook_url,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.apiextensions.cel_rules import TotalCost
    from pytest_kwait.simulator.objects import Obj

ApprovalState = Literal["approved", "bypassed", "invalid", "missing"]
"""State of the annotation: a URL, a reason to do without one, another text, or none."""

_STRATEGIES = ("None", "Webhook")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (
    "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
)  # fmt: skip
_SCOPES = ("Cluster", "Namespaced")
_MAX_SELECTABLE_FIELDS = 8
_SELECTABLE_TEXT = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with "
    "formats are allowed."
)
_APPROVED_ANNOTATION = "api-approved.kubernetes.io"
_POLICY_LINK = "see https://github.com/kubernetes/enhancements/pull/1111"


def conversion_errors(spec: Obj, any_ca: bool) -> Iterator[FieldError]:
    """Validate a spec's conversion.

    Args:
        spec: the definition's spec.
        any_ca: whether invalid CA bundles are allowed, as before a definition is established.
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
            yield from validate_webhook_url(config["url"], f"{where}.url")
        else:
            yield from validate_webhook_service(config["service"], f"{where}.service")
        bundle = config.get("caBundle")
        if bundle and not any_ca and not is_ca_bundle(bundle):
            text = "unable to load root certificates: unable to parse bytes as PEM block"
            yield invalid_value(f"{where}.caBundle", bundle, text)
    yield from _review_errors(versions, reviews)


def _review_errors(versions: list[str], at: str) -> Iterator[FieldError]:
    if not versions:
        yield required(at)
        return
    checked_versions: set[str] = set()
    for index, version in enumerate(versions):
        if version in checked_versions:
            yield invalid_value(f"{at}[{index}]", version, "duplicate version")
            continue
        checked_versions.add(version)
        for text in dns_1035_texts(version):
            yield invalid_value(f"{at}[{index}]", version, text)
    if not checked_versions.intersection(_REVIEW_VERSIONS):
        text = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        yield invalid_value(at, versions, text)


def is_ca_bundle(bundle: str) -> bool:
    """Return whether the base64 text `bundle` holds certificates."""
    try:
        ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    except (ValueError, ssl.SSLError):
        return False
    return True


def default_errors(schema: Obj, at: str, *, in_metadata: bool = False) -> list[FieldError]:
    """Validate the defaults of `schema` and of its parts.

    Defaults within metadata are validated against their own schema only.
    """
    errors: list[FieldError] = []
    embedded = bool(schema.get(EMBEDDED))
    in_metadata = in_metadata and not embedded
    value = schema.get("default")
    if value is not None:
        if not in_metadata and prune(value, schema) != value:
            errors.append(invalid_value(f"{at}.default", value, "must not have unknown fields"))
        own_errors = embedded_errors(value, schema, f"{at}.default")
        errors += own_errors or [
            prefix_error(error, f"{at}.default") for error in validate_value(value, schema, "")
        ]
    if isinstance(schema.get("items"), dict):
        errors += default_errors(schema["items"], f"{at}.items", in_metadata=in_metadata)
    for name, inner in (schema.get("properties") or {}).items():
        within = in_metadata or (embedded and name in METADATA_KEYS)
        errors += default_errors(inner, f"{at}.properties[{name}]", in_metadata=within)
    return errors


def schema_validation_errors(validation: Obj | None, at: str, status: bool) -> list[FieldError]:
    """Validate the schema of a version, or of all of them.

    Args:
        validation: the parent of the schema.
        at: its path.
        status: whether the objects have a status subresource.
    """
    schema: Obj | None = (validation or {}).get("openAPIV3Schema")
    if schema is None:
        return []
    at = f"{at}.openAPIV3Schema"
    errors = root_errors(schema, at, status)
    why = unsupported_reason(schema)
    ruled = False
    if not why:
        structure = structural_errors(schema, at) or default_errors(schema, at)
        errors += structure
        ruled = not structure
    rules = _LazyRuleValidation()
    version_errors, about_rules = schema_errors(
        schema, SchemaPosition(at, root=True, ruled=ruled), rules.errors
    )
    errors += version_errors + about_rules + rules.total(at)
    if not errors and why:
        errors.append(invalid_value(at, "", why))
    return errors


class _LazyRuleValidation:
    """Validates rules; CEL is loaded with the first one."""

    def __init__(self) -> None:
        self._costs: TotalCost | None = None

    def errors(self, schema: Obj, place: SchemaPosition) -> list[FieldError]:
        """Validate the rules of one schema."""
        from pytest_kwait.simulator.apiextensions.cel_rules import TotalCost, expression_errors

        self._costs = self._costs or TotalCost()
        return expression_errors(schema, place, self._costs)

    def total(self, at: str) -> list[FieldError]:
        """Return an error if the rules exceed the total cost limit."""
        return [] if self._costs is None else self._costs.errors(at)


@dataclass(frozen=True, slots=True)
class ValidationOptions:
    """Exceptions for parts that the old definition had already.

    Args:
        stored: the texts of old rules, which may exceed cost limits.
        any_ca: whether the CA bundle of a conversion webhook may be invalid.
        old: the old definition; None for a new one.
    """

    any_ca: bool = True
    old: Obj | None = None


def spec_errors(spec: Obj, leniency: ValidationOptions) -> list[FieldError]:
    """Validate a definition's spec."""
    return [*_spec_errors(hoist_shared_fields(spec), leniency)]


def _spec_errors(spec: Obj, leniency: ValidationOptions) -> Iterator[FieldError]:
    yield from _group_errors(spec.get("group", ""))
    scope = spec.get("scope", "")
    if not scope:
        yield required("spec.scope")
    elif scope not in _SCOPES:
        yield not_supported("spec.scope", scope, _SCOPES)
    versions: list[Obj] = spec.get("versions") or []
    if (spec.get("validation") or {}).get("openAPIV3Schema") is None:
        for index, version in enumerate(versions):
            if (version.get("schema") or {}).get("openAPIV3Schema") is None:
                yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    if spec.get("preserveUnknownFields") and _has_default_values(spec):
        text = "must be false in order to use defaults in the schema"
        yield invalid_value("spec.preserveUnknownFields", True, text)
    names: set[str] = set()
    for index, version in enumerate(versions):
        at = f"spec.versions[{index}]"
        names.add(version.get("name", ""))
        yield from _label_errors(version.get("name", ""), f"{at}.name")
        below = spec.get("subresources") if "subresources" in spec else version.get("subresources")
        yield from _version_errors(version, at, "status" in (below or {}))
    if len(names) < len(versions):
        yield _versions_error(spec, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        yield _versions_error(spec, text)
    if spec.get("version"):
        yield from _label_errors(spec["version"], "spec.version")
    crd_names = spec.get("names") or {}
    for field in ("plural", "singular", "kind", "listKind"):
        if not crd_names.get(field):
            yield required(f"spec.names.{field}")
    yield from names_errors(crd_names, "spec.names")
    below_any = [spec.get("subresources"), *(version.get("subresources") for version in versions)]
    status = any("status" in (subresources or {}) for subresources in below_any)
    yield from schema_validation_errors(spec.get("validation"), "spec.validation", status)
    yield from _subresource_errors(spec.get("subresources"), "spec.subresources")
    for index, column in enumerate(spec.get("additionalPrinterColumns") or ()):
        yield from _column_errors(column, f"spec.additionalPrinterColumns[{index}]")
    if spec.get("selectableFields"):
        validation = spec.get("validation")
        if validation is None:
            text = "may only be set when validations.schema is included"
            yield invalid_value("spec.selectableFields", "", text)
        else:
            schema = validation.get("openAPIV3Schema") or {}
            yield from _selectable_errors(spec["selectableFields"], schema, "spec.selectableFields")
    yield from conversion_errors(spec, leniency.any_ca)


def _versions_error(spec: Obj, text: str) -> FieldError:
    versions = spec.get("versions")
    internal_versions = (
        None if versions is None else [internal_version(version) for version in versions]
    )
    return invalid_struct_error("spec.versions", internal_versions, text)


def _group_errors(group: str) -> Iterator[FieldError]:
    if not group:
        yield required("spec.group")
    elif texts := dns_subdomain_texts(group):
        yield invalid_value("spec.group", group, ",".join(texts))
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")


def _label_errors(name: str, at: str) -> Iterator[FieldError]:
    if texts := dns_1035_texts(name):
        yield invalid_value(at, name, ",".join(texts))


def _has_default_values(node: Any) -> bool:
    if isinstance(node, dict):
        return any(
            (key == "default" and value is not None) or _has_default_values(value)
            for key, value in node.items()
        )
    return isinstance(node, list) and any(map(_has_default_values, node))


def _version_errors(version: Obj, at: str, status: bool) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is not None:
        for text in _deprecation_warning_errors(warning, bool(version.get("deprecated"))):
            yield invalid_value(f"{at}.deprecationWarning", warning, text)
    yield from schema_validation_errors(version.get("schema"), f"{at}.schema", status)
    yield from _subresource_errors(version.get("subresources"), f"{at}.subresources")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column_errors(column, f"{at}.additionalPrinterColumns[{index}]")
    if version.get("selectableFields"):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        where = f"{at}.selectableFields"
        if schema is None:
            text = "may only be set when `version.schema.openAPIV3Schema` is not included"
            yield invalid_value(where, "", text)
        else:
            yield from _selectable_errors(version["selectableFields"], schema, where)


def _deprecation_warning_errors(warning: str, deprecated: bool) -> Iterator[str]:
    if not deprecated:
        yield "can only be set for deprecated versions"
        return
    if len(warning.encode()) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    at = 0
    for sign in warning:
        if not sign.isprintable():
            yield (
                "must only contain printable UTF-8 characters; non-printable character found at "
                f"index {at}"
            )
            return
        at += len(sign.encode())


def names_errors(names: Obj, at: str) -> Iterator[FieldError]:
    """Validate the given names."""
    for field in ("plural", "singular"):
        if names.get(field):
            yield from _label_errors(names[field], f"{at}.{field}")
    for field in ("kind", "listKind"):
        name = names.get(field, "")
        if name and (texts := dns_1035_texts(name.lower())):
            text = "may have mixed case, but should otherwise match: " + ",".join(texts)
            yield invalid_value(f"{at}.{field}", name, text)
    for index, name in enumerate(names.get("shortNames") or ()):
        yield from _label_errors(name, f"{at}.shortNames[{index}]")
    if names.get("kind") and names["kind"] == names.get("listKind"):
        text = "kind and listKind may not be the same"
        yield invalid_value(f"{at}.listKind", names["listKind"], text)
    for index, name in enumerate(names.get("categories") or ()):
        yield from _label_errors(name, f"{at}.categories[{index}]")


def _subresource_errors(below: Obj | None, at: str) -> Iterator[FieldError]:
    scale = (below or {}).get("scale")
    if scale is None:
        return
    for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        path, where = scale.get(field, ""), f"{at}.scale.{field}"
        if not path:
            yield required(where)
        elif not path.startswith("."):
            yield invalid_value(where, path, "must be a simple json path starting with .")
        elif not path.startswith(f"{root}."):
            yield invalid_value(where, path, f"should be a json path under {root}")
    path, where = scale.get("labelSelectorPath", ""), f"{at}.scale.labelSelectorPath"
    if path and not path.startswith("."):
        yield invalid_value(where, path, "must be a simple json path starting with .")
    elif path and not path.startswith((".spec.", ".status.")):
        text = "should be a json path under either .spec or .status"
        yield invalid_value(where, path, text)


def _column_errors(column: Obj, at: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield required(f"{at}.name")
    kind, text = column.get("type", ""), f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield required(f"{at}.type", text)
    elif kind not in _COLUMN_TYPES:
        yield invalid_value(f"{at}.type", kind, text)
    form = column.get("format", "")
    if form and form not in _COLUMN_FORMATS:
        text = f"must be one of {','.join(_COLUMN_FORMATS)}"
        yield invalid_value(f"{at}.format", form, text)
    path = column.get("jsonPath", "")
    if not path:
        yield required(f"{at}.JSONPath")
    elif not path.startswith("."):
        text = "must be a simple json path starting with ."
        yield invalid_value(f"{at}.JSONPath", path, text)


def _selectable_errors(fields: list[Obj], schema: Obj, at: str) -> Iterator[FieldError]:
    if why := unsupported_reason(schema):
        yield invalid_value(f"{at.rpartition('.')[0]}.schema.openAPIV3Schema", "", why)
        return
    field_paths: set[str] = set()
    for index, field in enumerate(fields):
        path, where = field.get("jsonPath", ""), f"{at}[{index}].jsonPath"
        if not path:
            yield required(where)
            continue
        try:
            written, field_schema = resolve_field_path(path, schema, brackets=False)
        except FieldPathError as error:
            yield invalid_value(where, path, f"is an invalid path: {error}")
            continue
        if re.match(r"metadata\b", written):
            yield invalid_value(where, path, "must not point to fields in metadata")
        if field_schema.get("type") not in ("string", "boolean", "integer"):
            yield invalid_value(where, path, _SELECTABLE_TEXT)
        if written in field_paths:
            yield duplicate(where, path)
        field_paths.add(written)
    if len(field_paths) > _MAX_SELECTABLE_FIELDS:
        text = f"Too many: {len(field_paths)}: must have at most {_MAX_SELECTABLE_FIELDS} items"
        yield FieldError("FieldValueTooMany", at, text)


def stored_version_errors(definition: Obj) -> list[FieldError]:
    """Validate the stored versions: all exist, and the storage version is one of them."""
    at = "status.storedVersions"
    stored: list[str] = (definition.get("status") or {}).get("storedVersions") or []
    if not stored:
        return [invalid_value(at, None, "must have at least one stored version")]
    versions: list[Obj] = definition["spec"].get("versions") or []
    errors = [
        invalid_value(at, stored, f"must have the storage version {version.get('name', '')}")
        for version in versions
        if version.get("storage") and version.get("name", "") not in stored
    ]
    names = {version.get("name", "") for version in versions}
    for index, name in enumerate(stored):
        if name not in names:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            errors.append(invalid_value(f"{at}[{index}]", name, text))
    return errors


def approval_errors(new: Obj, old: Obj | None) -> list[FieldError]:
    """Validate the approval annotation of the community's groups."""
    if not is_protected_group(new["spec"].get("group", "")):
        return []
    state, text = approval_state(new)
    if state in ("approved", "bypassed") or (old is not None and approval_state(old)[0] == state):
        return []
    at = f"metadata.annotations[{_APPROVED_ANNOTATION}]"
    if state == "missing":
        return [required(at, text)]
    return [invalid_value(at, new["metadata"]["annotations"][_APPROVED_ANNOTATION], text)]


def is_protected_group(group: str) -> bool:
    """Return whether a group belongs to the community, whose APIs need an approval."""
    return re.search(r"(^|\.)(k8s|kubernetes)\.io$", group) is not None


def approval_state(definition: Obj) -> tuple[ApprovalState, str]:
    """Return the state of a definition's approval, and its reason as a sentence."""
    annotation: str = (definition["metadata"].get("annotations") or {}).get(
        _APPROVED_ANNOTATION, ""
    )
    text = f'protected groups must have approval annotation "{_APPROVED_ANNOTATION}"'
    if not annotation:
        return "missing", f"{text}, {_POLICY_LINK}"
    if annotation.startswith("unapproved"):
        return "bypassed", f"not approved: {json.dumps(annotation, ensure_ascii=False)}"
    try:
        url = urlsplit(annotation)
    except ValueError:
        url = urlsplit("")
    if url.scheme and url.netloc:
        return "approved", f"approved in {annotation}"
    form = 'with either a URL or a reason starting with "unapproved"'
    return "invalid", f"{text} {form}, {_POLICY_LINK}"
