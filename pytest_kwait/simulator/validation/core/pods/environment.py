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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.field_errors import ErrorList

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


def validate_env(variables: Iterable[Obj], at: str, found: ErrorList) -> None:
    """The variables of a container, one by one."""
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            found.required(f"{at}[{index}].name")
        elif not (name.isascii() and name.isidentifier()):
            found.texts(f"{at}[{index}].name", name, environment_name_texts(name))
        if "valueFrom" in variable:
            _validate_env_source(variable, f"{at}[{index}].valueFrom", found)


def _validate_env_source(variable: Obj, at: str, found: ErrorList) -> None:
    source = variable["valueFrom"]
    if "fieldRef" in source:
        validate_object_field_selector(source["fieldRef"], _ENV_FIELDS, f"{at}.fieldRef", found)
    if "resourceFieldRef" in source:
        here = f"{at}.resourceFieldRef"
        validate_resource_field_selector(source["resourceFieldRef"], here, found, of_volume=False)
    for field in ("configMapKeyRef", "secretKeyRef"):
        if field in source:
            _validate_key_ref(source[field], f"{at}.{field}", found)
    if "fileKeyRef" in source:
        _validate_file_ref(source["fileKeyRef"], f"{at}.fileKeyRef", found)
    if not source:
        found.invalid(at, "", _NO_SOURCE)
    elif variable.get("value"):
        found.invalid(at, "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        found.invalid(at, "", _MORE_THAN_ONE_SOURCE)


def _validate_key_ref(ref: Obj, at: str, found: ErrorList) -> None:
    name, key = ref.get("name", ""), ref.get("key", "")
    found.texts(f"{at}.name", name, dns_subdomain_texts(name))
    if not key:
        found.required(f"{at}.key")
    else:
        found.texts(f"{at}.key", key, config_key_texts(key))


def _validate_file_ref(ref: Obj, at: str, found: ErrorList) -> None:
    key, volume, path = ref.get("key", ""), ref.get("volumeName", ""), ref.get("path", "")
    if not key:
        found.required(f"{at}.key")
    else:
        found.texts(f"{at}.key", key, environment_name_texts(key))
    if not volume:
        found.required(f"{at}.volumeName")
    else:
        found.texts(f"{at}.volumeName", volume, dns_label_texts(volume))
    if not path:
        found.required(f"{at}.path")
    else:
        validate_path_no_backsteps(path, f"{at}.path", found)


def validate_env_from(imports: Iterable[Obj], at: str, found: ErrorList) -> None:
    """The config maps and secrets whose keys become variables."""
    for index, entry in enumerate(imports):
        prefix = entry.get("prefix", "")
        if prefix:
            found.texts(f"{at}[{index}].prefix", prefix, environment_name_texts(prefix))
        sources = [field for field in ("configMapRef", "secretRef") if field in entry]
        for field in sources:
            name = entry[field].get("name", "")
            if not name:
                found.required(f"{at}[{index}].{field}.name")
            else:
                masked = f"{name[:-2]}a" if len(name) > 1 and name[-1] == "-" else name
                texts = dns_subdomain_texts(masked)
                found.texts(f"{at}[{index}].{field}.name", name, texts)
        if not sources:
            found.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(sources) > 1:
            found.invalid(at, "", _MORE_THAN_ONE_SOURCE)


def validate_file_key_volumes(
    container: Obj, at: str, volumes: Mapping[str, Obj], found: ErrorList
) -> None:
    """Variables from files name volumes that containers can write them into."""
    for index, variable in enumerate(container.get("env", ())):
        ref = variable.get("valueFrom", {}).get("fileKeyRef")
        if ref is None:
            continue
        here, name = f"{at}.env[{index}].valueFrom.fileKeyRef.volumeName", ref.get("volumeName", "")
        if name not in volumes:
            found.unknown(here, name)
        elif "emptyDir" not in volumes[name]:
            found.invalid(here, name, "referenced volume must be of type emptyDir")
