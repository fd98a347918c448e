"""Validation of environment variables and their sources.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateEnv, ValidateEnvFrom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import (
    config_key_texts,
    dns_label_texts,
    dns_subdomain_texts,
    environment_name_texts,
)
from pytest_kwait.simulator.validation.core.volumes.downward_api import (
    validate_object_field_selector,
    validate_resource_field_selector,
)
from pytest_kwait.simulator.validation.core.volumes.sources import validate_path_no_backsteps
from pytest_kwait.simulator.validation.field_errors import ErrorList

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kwait.simulator.objects import Obj

__all__ = ["validate_env", "validate_env_from", "validate_file_key_volumes"]

_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_NO_SOURCE = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
    "`fileKeyRef`"
)
_MORE_THAN_ONE_SOURCE = "may not have more than one field specified at a time"


def validate_env(variables: Iterable[Obj], at: str) -> ErrorList:
    """Validate the environment variables of a container."""
    errors = ErrorList()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            errors.required(f"{at}[{index}].name")
        elif not (name.isascii() and name.isidentifier()):
            errors.invalid_each(f"{at}[{index}].name", name, environment_name_texts(name))
        if "valueFrom" in variable:
            errors += _validate_env_source(variable, f"{at}[{index}].valueFrom")
    return errors


def _validate_env_source(variable: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    source = variable["valueFrom"]
    if "fieldRef" in source:
        errors += validate_object_field_selector(source["fieldRef"], _ENV_FIELDS, f"{at}.fieldRef")
    if "resourceFieldRef" in source:
        here = f"{at}.resourceFieldRef"
        errors += validate_resource_field_selector(
            source["resourceFieldRef"], here, of_volume=False
        )
    for field in ("configMapKeyRef", "secretKeyRef"):
        if field in source:
            errors += _validate_key_ref(source[field], f"{at}.{field}")
    if "fileKeyRef" in source:
        errors += _validate_file_ref(source["fileKeyRef"], f"{at}.fileKeyRef")
    if not source:
        errors.invalid(at, "", _NO_SOURCE)
    elif variable.get("value"):
        errors.invalid(at, "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        errors.invalid(at, "", _MORE_THAN_ONE_SOURCE)
    return errors


def _validate_key_ref(ref: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    name, key = ref.get("name", ""), ref.get("key", "")
    errors.invalid_each(f"{at}.name", name, dns_subdomain_texts(name))
    if not key:
        errors.required(f"{at}.key")
    else:
        errors.invalid_each(f"{at}.key", key, config_key_texts(key))
    return errors


def _validate_file_ref(ref: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    key, volume, path = ref.get("key", ""), ref.get("volumeName", ""), ref.get("path", "")
    if not key:
        errors.required(f"{at}.key")
    else:
        errors.invalid_each(f"{at}.key", key, environment_name_texts(key))
    if not volume:
        errors.required(f"{at}.volumeName")
    else:
        errors.invalid_each(f"{at}.volumeName", volume, dns_label_texts(volume))
    if not path:
        errors.required(f"{at}.path")
    else:
        errors += validate_path_no_backsteps(path, f"{at}.path")
    return errors


def validate_env_from(imports: Iterable[Obj], at: str) -> ErrorList:
    """Validate the config maps and secrets whose keys become variables."""
    errors = ErrorList()
    for index, entry in enumerate(imports):
        prefix = entry.get("prefix", "")
        if prefix:
            errors.invalid_each(f"{at}[{index}].prefix", prefix, environment_name_texts(prefix))
        sources = [field for field in ("configMapRef", "secretRef") if field in entry]
        for field in sources:
            name = entry[field].get("name", "")
            if not name:
                errors.required(f"{at}[{index}].{field}.name")
            else:
                masked = f"{name[:-2]}a" if len(name) > 1 and name[-1] == "-" else name
                texts = dns_subdomain_texts(masked)
                errors.invalid_each(f"{at}[{index}].{field}.name", name, texts)
        if not sources:
            errors.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(sources) > 1:
            errors.invalid(at, "", _MORE_THAN_ONE_SOURCE)
    return errors


def validate_file_key_volumes(container: Obj, at: str, volumes: Mapping[str, Obj]) -> ErrorList:
    """Validate that variables from files name `emptyDir` volumes."""
    errors = ErrorList()
    for index, variable in enumerate(container.get("env", ())):
        ref = variable.get("valueFrom", {}).get("fileKeyRef")
        if ref is None:
            continue
        here, name = f"{at}.env[{index}].valueFrom.fileKeyRef.volumeName", ref.get("volumeName", "")
        if name not in volumes:
            errors.not_found(here, name)
        elif "emptyDir" not in volumes[name]:
            errors.invalid(here, name, "referenced volume must be of type emptyDir")
    return errors
