"""Certificate signing requests, and the services that stand behind groups of the API.

Source: k8s.io/kubernetes pkg/registry/certificates/certificates/strategy.go;
k8s.io/kube-aggregator pkg/registry/apiservice/strategy.go, pkg/apis/apiregistration/v1/defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.rules.certificates import api_service_errors, request_errors
from pytest_kwait.simulator.strategies.generic import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.caller import Caller
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["ApiServiceStrategy", "RequestStrategy"]

_PORT = 443


class RequestStrategy(Strategy):
    """Requests for certificates."""

    def note_caller(self, obj: Obj, caller: Caller) -> None:
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
        return request_errors(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Nothing that could be wrong has changed."""
        del new, old
        return []


class ApiServiceStrategy(Strategy):
    """Services behind groups of the API."""

    looks_at_metadata_again = True

    def default(self, obj: Obj) -> None:
        """They are reached at the port of HTTPS."""
        super().default(obj)
        service = (obj.get("spec") or {}).get("service")
        if service is not None:
            service.setdefault("port", _PORT)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Named by what they serve, and found."""
        return api_service_errors(obj)
