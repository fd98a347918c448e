"""Strategies of certificate signing requests and APIServices.

Source: k8s.io/kubernetes pkg/registry/certificates/certificates/strategy.go;
k8s.io/kube-aggregator pkg/registry/apiservice/strategy.go, pkg/apis/apiregistration/v1/defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.certificates import (
    DECISIONS,
    get_conditions_of_type,
    validate_api_service,
    validate_certificate_request,
    validate_certificate_request_update,
)

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

_DEFAULT_PORT = 443


class CertificateSigningRequestStrategy(Strategy):
    """Certificate signing requests."""

    validate_create = staticmethod(validate_certificate_request)
    validate_subresource = staticmethod(validate_certificate_request_update)

    def prepare_by_caller(self, obj: Obj, caller: Caller) -> None:
        """Write the caller into the spec."""
        spec = obj.setdefault("spec", {})
        for field in ("username", "uid", "groups", "extra"):
            spec.pop(field, None)
        spec["username"] = caller.user
        if caller.uid:
            spec["uid"] = caller.uid
        spec["groups"] = list(caller.groups)
        if caller.extra:
            spec["extra"] = {key: list(values) for key, values in caller.extra.items()}

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Restore the spec."""
        super().prepare_update(new, old)
        new["spec"] = old["spec"]

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Return no errors: only metadata can change."""
        del new, old
        return []

    def prepare_subresource(self, new: Obj, old: Obj, subresource: str, now: str) -> None:
        """Restore the spec, and the fields that this subresource does not write."""
        new["spec"] = old["spec"]
        status, before = {**(new.get("status") or {})}, old.get("status") or {}
        # The stored object may share them.
        status["conditions"] = [{**condition} for condition in status.get("conditions") or ()]
        new["status"] = status
        if subresource == "approval":
            status = new["status"] = {"conditions": status["conditions"]}
            if "certificate" in before:
                status["certificate"] = before["certificate"]
        else:
            _keep_decisions(new, old)
        for condition in status.get("conditions") or ():
            condition["lastUpdateTime"] = condition.get("lastUpdateTime") or now
            if not condition.get("lastTransitionTime"):
                condition["lastTransitionTime"] = _transition_time(condition, before, now)
        if not status.get("conditions"):
            status.pop("conditions", None)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate a change by a signer."""
        return validate_certificate_request_update(new, old, "status")


def _keep_decisions(new: Obj, old: Obj) -> None:
    """Undo changes of decisions; validation rejects added and removed ones."""
    conditions = new["status"].get("conditions") or []
    for name in DECISIONS:
        before = get_conditions_of_type(old, name)
        places = [
            index for index, condition in enumerate(conditions) if condition.get("type") == name
        ]
        if len(places) == len(before):
            for index, condition in zip(places, before, strict=True):
                conditions[index] = {**condition}


def _transition_time(condition: Obj, before: Obj, now: str) -> str:
    """Return the time since which the condition has its status."""
    for previous_condition in before.get("conditions") or ():
        same = previous_condition.get("type") == condition.get("type") and previous_condition.get(
            "status"
        ) == condition.get("status")
        if same and previous_condition.get("lastTransitionTime"):
            return str(previous_condition["lastTransitionTime"])
    return now


class APIServiceStrategy(Strategy):
    """API services."""

    validates_metadata_on_update = True
    validate_create = staticmethod(validate_api_service)

    def default(self, obj: Obj) -> None:
        """Default the port of the service to 443."""
        super().default(obj)
        service = (obj.get("spec") or {}).get("service")
        if service is not None:
            service.setdefault("port", _DEFAULT_PORT)
