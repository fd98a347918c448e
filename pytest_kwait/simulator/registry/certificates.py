"""Certificate signing requests: strategy and REST storages; the strategy of APIServices.

Source: k8s.io/kubernetes
pkg/registry/certificates/certificates/{strategy.go,storage/storage.go};
k8s.io/kube-aggregator pkg/registry/apiservice/strategy.go, pkg/apis/apiregistration/v1/defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.registry.generic_store import StatusREST, SubresourceREST
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.certificates import (
    DECISIONS,
    get_conditions_of_type,
    validate_api_service,
    validate_certificate_request,
    validate_certificate_request_update,
)
from pytest_kwait.simulator.validation.objectmeta import name_is_path_segment

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

_DEFAULT_PORT = 443


class CertificateSigningRequestStrategy(Strategy):
    """The strategy of certificate signing requests."""

    validate_name = staticmethod(name_is_path_segment)
    validate_create = staticmethod(validate_certificate_request)

    def prepare_for_caller(self, obj: Obj, caller: Caller) -> None:
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

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Restore the spec."""
        super().prepare_for_update(new, old)
        new["spec"] = old["spec"]

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Return no errors: only metadata can change."""
        del new, old
        return []

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate a change by a signer."""
        return validate_certificate_request_update(new, old, "status")


class CertificateSigningRequestStatusREST(StatusREST):
    """The REST storage of the status of certificate signing requests, which signers write."""

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Restore the spec and the decisions; set the times of conditions."""
        super().prepare_for_update(new, old)
        new["spec"] = old["spec"]
        status = new["status"] = _copy_status(new)
        _keep_decisions(new, old)
        _set_condition_times(status, old.get("status") or {}, self._cluster.clock.stamp())


class CertificateSigningRequestApprovalREST(SubresourceREST):
    """The REST storage of `certificatesigningrequests/approval`."""

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Restore the spec and the certificate; set the times of conditions."""
        new["spec"] = old["spec"]
        before = old.get("status") or {}
        status = new["status"] = {"conditions": _copy_status(new)["conditions"]}
        if "certificate" in before:
            status["certificate"] = before["certificate"]
        _set_condition_times(status, before, self._cluster.clock.stamp())
        super().prepare_for_update(new, old)

    def validate_update(self, new: Obj, old: Obj, caller: Caller) -> list[FieldError]:
        """Validate a change by an approver."""
        del caller
        return validate_certificate_request_update(new, old, "approval")


def _copy_status(request: Obj) -> Obj:
    """Return a status whose conditions the stored object does not share."""
    status = {**(request.get("status") or {})}
    status["conditions"] = [{**condition} for condition in status.get("conditions") or ()]
    return status


def _set_condition_times(status: Obj, before: Obj, now: str) -> None:
    """Set missing times of conditions; drop an empty list of conditions."""
    for condition in status["conditions"]:
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or now
        if not condition.get("lastTransitionTime"):
            condition["lastTransitionTime"] = _transition_time(condition, before, now)
    if not status["conditions"]:
        del status["conditions"]


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
    """The strategy of API services."""

    validate_name = staticmethod(name_is_path_segment)
    allows_unconditional_update = False
    validates_metadata_on_update = True
    validate_create = staticmethod(validate_api_service)

    def default(self, obj: Obj) -> None:
        """Default the port of the service to 443."""
        super().default(obj)
        service = (obj.get("spec") or {}).get("service")
        if service is not None:
            service.setdefault("port", _DEFAULT_PORT)
