"""Create and update strategies: the base class, the strategy of each kind, decoding by it.

A strategy prepares an object before it is stored: it keeps status apart, counts generations, sets
defaults, validates and warns. Strategies of kinds are imported when first needed.
Source: k8s.io/apiserver pkg/registry/rest/{create,update,delete}.go, pkg/endpoints/handlers;
k8s.io/apimachinery pkg/runtime/serializer; the strategies under k8s.io/kubernetes pkg/registry.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.codec.decode import Decoder
from pytest_kwait.simulator.codec.schema import Form, learned_defaults, struct_of
from pytest_kwait.simulator.objects import clone, copy_fields
from pytest_kwait.simulator.request_info import Caller, internal_caller
from pytest_kwait.simulator.validation.objectmeta import (
    name_is_dns_subdomain,
    validate_object_meta,
)

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Authorizer
    from pytest_kwait.simulator.scheme import Kind
    from pytest_kwait.simulator.validation.objectmeta import ValidateNameFunc

# By resource: the module in this folder and the class in it, imported when first needed.
_STRATEGIES = {
    "apiservices.apiregistration.k8s.io": ("registry.certificates", "APIServiceStrategy"),
    "certificatesigningrequests.certificates.k8s.io": (
        "registry.certificates",
        "CertificateSigningRequestStrategy",
    ),
    "clusterrolebindings.rbac.authorization.k8s.io": (
        "registry.rbac",
        "ClusterRoleBindingStrategy",
    ),
    "clusterroles.rbac.authorization.k8s.io": ("registry.rbac", "ClusterRoleStrategy"),
    "configmaps": ("registry.core", "ConfigMapStrategy"),
    "cronjobs.batch": ("registry.batch", "CronJobStrategy"),
    "csidrivers.storage.k8s.io": ("registry.storage", "CSIDriverStrategy"),
    "csinodes.storage.k8s.io": ("registry.storage", "CSINodeStrategy"),
    "csistoragecapacities.storage.k8s.io": ("registry.storage", "CSIStorageCapacityStrategy"),
    "customresourcedefinitions.apiextensions.k8s.io": (
        "apiextensions.strategy",
        "CustomResourceDefinitionStrategy",
    ),
    "daemonsets.apps": ("registry.apps", "DaemonSetStrategy"),
    "deployments.apps": ("registry.apps", "DeploymentStrategy"),
    "deviceclasses.resource.k8s.io": ("registry.strategy", "DynamicResourceStrategy"),
    "endpoints": ("registry.core_services", "EndpointsStrategy"),
    "endpointslices.discovery.k8s.io": ("registry.core_services", "EndpointSliceStrategy"),
    "events": ("registry.core", "EventStrategy"),
    "horizontalpodautoscalers.autoscaling": (
        "registry.apps",
        "HorizontalPodAutoscalerStrategy",
    ),
    "ingressclasses.networking.k8s.io": ("registry.networking", "IngressClassStrategy"),
    "ingresses.networking.k8s.io": ("registry.networking", "IngressStrategy"),
    "ipaddresses.networking.k8s.io": ("registry.networking", "IPAddressStrategy"),
    "jobs.batch": ("registry.batch", "JobStrategy"),
    "leases.coordination.k8s.io": ("registry.core", "LeaseStrategy"),
    "limitranges": ("registry.core", "LimitRangeStrategy"),
    "namespaces": ("registry.core_namespaces", "NamespaceStrategy"),
    "networkpolicies.networking.k8s.io": ("registry.networking", "NetworkPolicyStrategy"),
    "nodes": ("registry.core", "NodeStrategy"),
    "persistentvolumeclaims": ("registry.storage", "PersistentVolumeClaimStrategy"),
    "persistentvolumes": ("registry.storage", "PersistentVolumeStrategy"),
    "poddisruptionbudgets.policy": ("registry.apps", "PodDisruptionBudgetStrategy"),
    "pods": ("registry.core_pods", "PodStrategy"),
    "podtemplates": ("registry.apps", "PodTemplateStrategy"),
    "priorityclasses.scheduling.k8s.io": ("registry.core", "PriorityClassStrategy"),
    "replicasets.apps": ("registry.apps", "ReplicaSetStrategy"),
    "replicationcontrollers": ("registry.apps", "ReplicationControllerStrategy"),
    "resourceclaims.resource.k8s.io": ("registry.strategy", "DynamicResourceStrategy"),
    "resourceclaimtemplates.resource.k8s.io": ("registry.strategy", "DynamicResourceStrategy"),
    "resourcequotas": ("registry.core", "ResourceQuotaStrategy"),
    "resourceslices.resource.k8s.io": ("registry.strategy", "DynamicResourceStrategy"),
    "rolebindings.rbac.authorization.k8s.io": ("registry.rbac", "RoleBindingStrategy"),
    "roles.rbac.authorization.k8s.io": ("registry.rbac", "RoleStrategy"),
    "runtimeclasses.node.k8s.io": ("registry.core", "RuntimeClassStrategy"),
    "secrets": ("registry.core", "SecretStrategy"),
    "serviceaccounts": ("registry.core", "ServiceAccountStrategy"),
    "servicecidrs.networking.k8s.io": ("registry.networking", "ServiceCIDRStrategy"),
    "services": ("registry.core_services", "ServiceStrategy"),
    "statefulsets.apps": ("registry.apps", "StatefulSetStrategy"),
    "storageclasses.storage.k8s.io": ("registry.storage", "StorageClassStrategy"),
    "volumeattachments.storage.k8s.io": ("registry.storage", "VolumeAttachmentStrategy"),
    "volumeattributesclasses.storage.k8s.io": (
        "registry.storage",
        "VolumeAttributesClassStrategy",
    ),
}

# By resource of admission: the function that validates it; its strategy is the generic one else.
_ADMISSION_VALIDATORS = {
    "mutatingadmissionpolicies": "validate_mutating_admission_policy",
    "mutatingadmissionpolicybindings": "validate_mutating_admission_policy_binding",
    "mutatingwebhookconfigurations": "validate_webhook_configuration",
    "validatingadmissionpolicies": "validate_validating_admission_policy",
    "validatingadmissionpolicybindings": "validate_validating_admission_policy_binding",
    "validatingwebhookconfigurations": "validate_webhook_configuration",
}


def fill_defaults(obj: Obj, defaults: Obj) -> None:
    """Set missing fields from `defaults`; objects that `obj` lacks are not created."""
    for name, value in defaults.items():
        if isinstance(value, dict) and name in obj and isinstance(obj[name], dict):
            fill_defaults(obj[name], value)
        elif name not in obj and not isinstance(value, dict):
            obj[name] = clone(value)


class Strategy:
    """The generic strategy; a subclass may set `validate_*` to a function of `validation/`.

    Args:
        kind: the kind it is for.
    """

    allows_create_on_update = False
    """True if the update of an object that does not exist creates it."""

    allows_unconditional_update = True
    """False if updates must have a resourceVersion."""

    returns_deleted_object = False
    """True if the response to a deletion at once is the object, not a Status."""

    resource_prefix = ""
    """The path of the resource in storage; empty for its plural."""

    default_garbage_collection_policy: str | None = None
    """The default propagation policy of deletions; None decides by the object's finalizers."""

    validate_name: ValidateNameFunc = staticmethod(name_is_dns_subdomain)
    """Validates the name of an object, or the prefix of a generated one."""

    validates_metadata = True
    """True if the kind's own validation includes metadata."""

    validates_metadata_on_update = False
    """True if updates are validated by the rules of new metadata, too."""

    repeats_warnings_on_update = False
    """True if updates get the warnings of creation."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        facts: dict[str, Any] = learned_defaults().get("resources", {}).get(kind.bucket, {})
        self.has_generation = bool(facts.get("generation")) or kind.custom
        self.learned: Obj = facts.get("defaults", {})

    def default(self, obj: Obj) -> None:
        """Set the defaults of the kind's version; called after every decoding."""
        if self.learned:
            fill_defaults(obj, self.learned)

    def prepare_for_create(self, obj: Obj) -> None:
        """Reset the fields that clients do not set, above all status."""
        if self.kind.has_status:
            obj.pop("status", None)
            empty = self.empty_status()
            if empty is not None:
                obj["status"] = empty
        if self.has_generation:
            obj["metadata"]["generation"] = 1

    def prepare_for_caller(self, obj: Obj, caller: Caller) -> None:
        """Set what a new object has by its caller, after `prepare_for_create`."""

    def check_escalation(
        self, rbac: Authorizer, new: Obj, old: Obj | None, namespace: str, caller: Caller
    ) -> None:
        """Refuse an object that grants more than the caller has.

        Args:
            new: the object, decoded.
            old: the object before, None for a new one.
            namespace: the object's namespace.
            caller: the request's caller.

        Raises:
            StatusError: 403 with the missing rules; 404 if the bound role does not exist.
        """

    def empty_status(self) -> Obj | None:
        """Return the status of a new object; None for a kind without status."""
        kind = self.kind
        if kind.custom:
            return None
        shape = struct_of(kind.group, kind.version, kind.kind).fields.get("status")
        if shape is None or shape.default is None:
            return None
        return Decoder(kind).struct({}, shape.struct)

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Restore the fields that an update may not change; increment the generation."""
        if self.kind.has_status:
            copy_fields(new, old, "status")
        if self.has_generation and self.increments_generation(new, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def increments_generation(self, new: Obj, old: Obj) -> bool:
        """Return whether the change increments the generation."""
        if not self.kind.custom and "spec" in (new.keys() | old.keys()):
            return bool(new.get("spec") != old.get("spec"))
        apart = {"metadata", "status"} if self.kind.has_status else {"metadata"}
        return any(new.get(field) != old.get(field) for field in (new.keys() | old.keys()) - apart)

    def prepare_for_status_update(self, new: Obj, old: Obj) -> None:
        """Restore all fields but the status and some metadata."""
        copy_fields(new, old, *((new.keys() | old.keys()) - {"metadata", "status"}))
        metadata, before = new["metadata"], old["metadata"]
        field_names = ["deletionTimestamp", "generation", "ownerReferences"]
        if self.kind.custom:
            field_names += ["labels", "annotations", "finalizers"]
        copy_fields(metadata, before, *field_names)

    def validate_metadata(self, obj: Obj) -> list[FieldError]:
        """Validate the metadata of a new object."""
        return validate_object_meta(obj, self.kind, self.validate_name)

    def validate_create(self, obj: Obj, /) -> list[FieldError]:
        """Validate a new object without its metadata."""
        del obj
        return []

    def validate_immutable(self, new: Obj, old: Obj, /) -> list[FieldError]:
        """Validate immutable fields; their errors precede those of metadata."""
        del new, old
        return []

    def validate_update(self, new: Obj, old: Obj, /) -> list[FieldError]:
        """Validate a change without its metadata."""
        del old
        return self.validate_create(new)

    def validate_status(self, new: Obj, old: Obj, /) -> list[FieldError]:
        """Validate a change of the status."""
        del new, old
        return []

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of valid but suspicious fields of a new object."""

    def warn_on_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of valid but suspicious fields of a change."""
        del old
        if self.repeats_warnings_on_update:
            self.warn_on_create(new, caller)

    def warn_on_status_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of valid but suspicious fields of a status."""

    def check_graceful_delete(self, obj: Obj, requested: int | None) -> int | None:
        """Return the grace period in seconds; None if the kind has no graceful deletion."""
        del obj, requested
        return None


class AdmissionStrategy(Strategy):
    """The strategy of webhook configurations, admission policies and their bindings.

    Source: k8s.io/kubernetes pkg/registry/admissionregistration.
    """

    allows_unconditional_update = False

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the object by its resource's function, imported with the first one."""
        from pytest_kwait.simulator.validation import admissionregistration

        errors: list[FieldError] = getattr(
            admissionregistration, _ADMISSION_VALIDATORS[self.kind.plural]
        )(obj)
        return errors


class DynamicResourceStrategy(Strategy):
    """The strategy of device classes, resource claims and their templates, and resource slices."""

    returns_deleted_object = True


def strategy_of(kind: Kind) -> Strategy:
    """Return the strategy of `kind`; the generic one for kinds without their own."""
    if kind.custom:
        module, name = "apiextensions.strategy", "CustomResourceStrategy"
    elif kind.group == "admissionregistration.k8s.io" and kind.plural in _ADMISSION_VALIDATORS:
        return AdmissionStrategy(kind)
    else:
        module, name = _STRATEGIES.get(kind.bucket, ("registry.strategy", "Strategy"))
    strategy_class: type[Strategy] = getattr(
        import_module(f"pytest_kwait.simulator.{module}"), name
    )
    return strategy_class(kind)


def decode_change(strategy: Strategy, obj: Obj, old: Obj, subresource: str | None) -> Obj:
    """Decode what a component of this process made of `old`; only what differs.

    Raises:
        StatusError: 400 for a value of a wrong type.
    """
    kind = strategy.kind
    fields = struct_of(kind.group, kind.version, kind.kind).fields
    decoded = Decoder(kind)
    clean: Obj = {"kind": old["kind"], "apiVersion": old["apiVersion"]}
    changed = False
    if subresource == "status":
        obj = {**old, "metadata": obj["metadata"], "status": obj.get("status")}
    for name, value in obj.items():
        shape = fields.get(name)
        if name in clean or shape is None or value is None:
            continue
        if name in old and value == old[name]:
            clean[name] = dict(value) if name == "metadata" else old[name]
        elif isinstance(value, dict) and shape.form is Form.STRUCT:
            clean[name] = decoded.struct(value, shape.struct, f"{name}.", before=old.get(name))
            changed = changed or name not in ("metadata", "status")
        else:
            clean[name] = value
            changed = True
    if changed:
        return decode(strategy, clean, internal_caller())
    return clean


def decode(strategy: Strategy, obj: Obj, caller: Caller, *, keeps_nulls: bool = False) -> Obj:
    """Decode an object as its kind has it: typed, pruned, defaulted.

    Raises:
        StatusError: 400 for a value of a wrong type, or for unknown fields if they are refused.
    """
    kind = strategy.kind
    decoded = Decoder(kind, keeps_nulls=keeps_nulls)
    if kind.structure is not None:
        metadata = obj.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            raise bad_request(f"{kind.kind}.metadata: expected an object")
        clean = kind.structure.decode(obj, decoded)
        decoded.add_custom_strict_errors(obj)
    else:
        clean = decoded.struct(obj, struct_of(kind.group, kind.version, kind.kind))
    caller.empty_fields = decoded.emptied
    caller.emptied_objects = decoded.emptied_objects
    strict_errors = [*caller.strict_errors, *decoded.strict_errors]
    if strict_errors and caller.field_validation != "Ignore":
        if caller.field_validation == "Strict":
            raise bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"strict decoding error: {', '.join(strict_errors)}"
            )
        for text in strict_errors:
            caller.warn(text)
    ordered: Obj = {"kind": kind.kind, "apiVersion": kind.api_version}
    ordered["metadata"] = clean.pop("metadata", None) or {}
    clean.pop("kind", None)
    clean.pop("apiVersion", None)
    ordered.update(clean)
    strategy.default(ordered)
    return ordered
