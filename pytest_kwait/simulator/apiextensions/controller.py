"""The controller of CustomResourceDefinitions: establish, serve, finalize.

Source: k8s.io/apiextensions-apiserver pkg/controller/{establish,finalizer,status}.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import get_condition, is_condition_true
from pytest_kwait.simulator.apiextensions.custom_resource_schema import CustomResourceSchema
from pytest_kwait.simulator.apiextensions.definition_validation import is_ca_bundle
from pytest_kwait.simulator.apiextensions.naming import accept_names, set_condition
from pytest_kwait.simulator.apiextensions.strategy import CLEANUP_FINALIZER, INITIAL_CONDITION
from pytest_kwait.simulator.objects import name_of, namespace_of
from pytest_kwait.simulator.scheme import Kind, SubResource

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.store import Change

__all__ = ["DefinitionController", "version_priority"]

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class DefinitionController:
    """Registers the kinds of definitions."""

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._served: dict[str, Any] = {}

    def on_change(self, event: str, new: Obj, old: Obj | None) -> None:
        """Handle a created, changed or deleted definition."""
        name = name_of(new)
        if event == "DELETED":
            self._serve(name, None)
            self._requeue_conflicting(new, name)
            return
        if new["metadata"].get("deletionTimestamp"):
            self._clean_up(new)
            return
        accepted = (new.get("status") or {}).get("acceptedNames")
        if new["spec"]["names"] != accepted or get_condition(new, "NamesAccepted") is None:
            self._api.modify(CRDS, name, "", self._reconcile_names, subresource="status")
            return
        if is_condition_true(new, "NamesAccepted") and not is_condition_true(new, "Established"):
            self._api.modify(CRDS, name, "", self._establish, subresource="status")
            return
        self._serve(name, new if is_condition_true(new, "Established") else None)
        was = ((old or {}).get("status") or {}).get("acceptedNames")
        if was != accepted:
            self._requeue_conflicting(new, name)

    def _serve(self, name: str, definition: Obj | None) -> None:
        """Register the kinds of `definition` under its accepted names; None removes them."""
        served = None
        if definition is not None:
            served = {**definition["spec"], "names": definition["status"]["acceptedNames"]}
        if self._served.get(name) == served:
            return
        self._api.kinds.remove(name)
        self._served.pop(name, None)
        if served is not None:
            self._served[name] = served
            kinds = _kinds_of_definition(served)
            self._convert(name, served.get("conversion") or {}, kinds)
            self._api.kinds.add(kinds)

    def _convert(self, name: str, conversion: Obj, kinds: list[Kind]) -> None:
        """Set the converter of `kinds`."""
        if conversion.get("strategy") != "Webhook":
            return
        # Few definitions have a conversion webhook.
        from pytest_kwait.simulator.apiextensions.webhook_converter import WebhookConverter

        webhook = WebhookConverter(self._api, name, conversion["webhook"])
        for kind in kinds:
            if kind.structure is not None:
                kind.structure.conversion = webhook

    def _reconcile_names(self, definition: Obj) -> None:
        accept_names(definition, self._other_definitions(definition), self._api.clock.stamp())

    def _other_definitions(self, definition: Obj) -> list[Obj]:
        """Return the other definitions of the group."""
        return [
            other
            for other in self._api.list(CRDS)
            if other["spec"]["group"] == definition["spec"]["group"]
            and name_of(other) != name_of(definition)
        ]

    def _requeue_conflicting(self, definition: Obj, name: str) -> None:
        """Reconcile definitions that wait for names, which may have become free."""
        for other in self._other_definitions(definition):
            waits = other["spec"]["names"] != (other.get("status") or {}).get("acceptedNames")
            present = self._api.find(CRDS, name_of(other))
            if waits and name_of(other) != name and present is other:
                self._api.modify(
                    CRDS, name_of(other), "", self._reconcile_names, subresource="status"
                )

    def _establish(self, definition: Obj) -> None:
        webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
        bundle = (webhook.get("clientConfig") or {}).get("caBundle")
        verdict = {
            "type": "Established",
            "status": "True",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        }
        if bundle and not is_ca_bundle(bundle):
            verdict |= {
                "status": "False",
                "reason": "InvalidCABundle",
                "message": "The conversion webhook CABundle is invalid",
            }
        set_condition(definition, verdict, self._api.clock.stamp())

    def _clean_up(self, definition: Obj) -> None:
        name = name_of(definition)
        if CLEANUP_FINALIZER not in definition["metadata"].get("finalizers", ()):
            return
        if (get_condition(definition, "Terminating") or {}).get("reason") == INITIAL_CONDITION[
            "reason"
        ]:
            for version in definition["spec"]["versions"]:
                served = self._api.kinds.served(definition["spec"]["group"], version["name"]) or {}
                kind = served.get(definition["spec"]["names"]["plural"])
                if kind is not None and kind.structure is not None:
                    kind.structure.terminating = True
            self._api.modify(CRDS, name, "", self._terminate, subresource="status")
            return
        kind = self._api.kinds.find(name)
        if kind is not None:
            for obj in self._api.list(name):
                if not obj["metadata"].get("deletionTimestamp"):
                    self._api.delete(kind, name_of(obj), namespace_of(obj))
            if self._api.store.count(name):
                self._wait_until_empty(name)
                return
        self._release(name)

    def _terminate(self, definition: Obj) -> None:
        verdict = {
            "type": "Terminating",
            "status": "True",
            "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
        }
        set_condition(definition, verdict, self._api.clock.stamp())

    def _wait_until_empty(self, name: str) -> None:
        def on_change(_change: Change) -> None:
            if not self._api.store.count(name):
                stop()
                self._release(name)

        stop = self._api.store.watch(name, on_change)

    def _release(self, name: str) -> None:
        if self._api.find(CRDS, name) is not None:
            self._api.modify(CRDS, name, "", _remove_finalizer)


def _remove_finalizer(definition: Obj) -> None:
    finalizers = definition["metadata"].get("finalizers", [])
    definition["metadata"]["finalizers"] = [one for one in finalizers if one != CLEANUP_FINALIZER]


def _version_hash(group: str, version: str, kind: str) -> str:
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


_VERSION_PATTERN = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


def version_priority(name: str) -> tuple[int, int, int, str]:
    """Return a version's sort key: stable, beta, alpha, then others; newer first.

    Source: k8s.io/apimachinery pkg/version/helpers.go, func CompareKubeAwareVersionStrings.
    """
    found = _VERSION_PATTERN.fullmatch(name)
    if found is None:
        return (3, 0, 0, name)
    stage = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return (stage, -int(found[1]), -int(found[3] or 0), name)


def _deprecation_warning(spec: Obj, version: Obj) -> str:
    """Return the warning for requests of a deprecated version; empty for others."""
    if not version.get("deprecated"):
        return ""
    name = f"{spec['group']}/{version['name']} {spec['names']['kind']}"
    return str(version.get("deprecationWarning") or f"{name} is deprecated")


def _storage_version_hash(spec: Obj) -> str:
    """Return the discovery hash of the storage version; empty if it is not served."""
    for version in spec["versions"]:
        if version.get("storage") and version.get("served"):
            return _version_hash(spec["group"], version["name"], spec["names"]["kind"])
    return ""


def _kinds_of_definition(spec: Obj) -> list[Kind]:
    """Return a kind for each served or stored version, in version priority."""
    names, group = spec["names"], spec["group"]
    kinds = []
    versions = [one for one in spec["versions"] if one.get("served") or one.get("storage")]
    versions.sort(key=lambda version: version_priority(version["name"]))
    for version in versions:
        subresources: dict[str, SubResource] = {}
        enabled = version.get("subresources") or {}
        verbs = ("get", "patch", "update")
        if "status" in enabled:
            subresources["status"] = SubResource(
                "status", group, version["name"], names["kind"], verbs
            )
        if enabled.get("scale"):
            subresources["scale"] = SubResource("scale", "autoscaling", "v1", "Scale", verbs)
        kinds.append(
            Kind(
                group=group,
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                singular=names.get("singular", ""),
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                verbs=_VERBS,
                subresources=subresources,
                converted=not version.get("storage"),
                hidden=not version.get("served"),
                list_kind=names.get("listKind", names["kind"] + "List"),
                storage_version_hash=_storage_version_hash(spec),
                structure=CustomResourceSchema(
                    (version.get("schema") or {}).get("openAPIV3Schema") or {},
                    enabled.get("scale"),
                    version.get("additionalPrinterColumns"),
                    tuple(
                        field["jsonPath"].lstrip(".")
                        for field in version.get("selectableFields") or ()
                    ),
                    _deprecation_warning(spec, version),
                ),
            )
        )
    return kinds
