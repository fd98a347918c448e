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
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = ["APIServiceStrategy", "CertificateSigningRequestStrategy"]

_DEFAULT_PORT = 443


class CertificateSigningRequestStrategy(Strategy):
    """Requests for certificates."""

    def record_creator(self, obj: Obj, caller: Caller) -> None:
        """Who asks is who is known to ask."""
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
        """What is asked for stays."""
        super().prepare_update(new, old)
        new["spec"] = old["spec"]

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """A request, what for, and by whom to be signed."""
        return validate_certificate_request(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Nothing that could be wrong has changed."""
        del new, old
        return []

    def prepare_subresource(self, new: Obj, old: Obj, subresource: str, now: str) -> None:
        """What is asked for stays, and what was decided where that is not asked about."""
        new["spec"] = old["spec"]
        status, before = {**(new.get("status") or {})}, old.get("status") or {}
        # They may be shared with what is stored.
        status["conditions"] = [{**one} for one in status.get("conditions") or ()]
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
        """What signers may write."""
        return validate_certificate_request_update(new, old, "status")

    def validate_subresource(self, new: Obj, old: Obj, subresource: str) -> list[FieldError]:
        """What those who decide may write."""
        return validate_certificate_request_update(new, old, subresource)


def _keep_decisions(new: Obj, old: Obj) -> None:
    """Undo changes of decisions; those that come or go are left, and refused."""
    conditions = new["status"].get("conditions") or []
    for name in DECISIONS:
        before = get_conditions_of_type(old, name)
        places = [index for index, one in enumerate(conditions) if one.get("type") == name]
        if len(places) == len(before):
            for index, condition in zip(places, before, strict=True):
                conditions[index] = {**condition}


def _transition_time(condition: Obj, before: Obj, now: str) -> str:
    """Since when the condition has its status."""
    for one in before.get("conditions") or ():
        same = one.get("type") == condition.get("type") and one.get("status") == condition.get(
            "status"
        )
        if same and one.get("lastTransitionTime"):
            return str(one["lastTransitionTime"])
    return now


class APIServiceStrategy(Strategy):
    """Services behind groups of the API."""

    validates_metadata_on_update = True

    def default(self, obj: Obj) -> None:
        """They are reached at the port of HTTPS."""
        super().default(obj)
        service = (obj.get("spec") or {}).get("service")
        if service is not None:
            service.setdefault("port", _DEFAULT_PORT)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Named by what they serve, and found."""
        return validate_api_service(obj)
