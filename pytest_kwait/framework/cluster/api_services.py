"""Waiting for an APIService: the API server reaches whoever serves the group.

Source: kubernetes/staging/src/k8s.io/kube-aggregator/pkg/controllers/status/remote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.resource import Resource
from pytest_kwait.client.session import Session
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.options import WaitOptions, check_name, resolve_options
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.engine.verdicts import Failed, Patience, Pending, Verdict
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.predicates import ConditionStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

__all__ = ["AvailableService", "api_service_available", "wait_for_api_service_available"]

API_SERVICES = Resource(
    "apiregistration.k8s.io",
    "v1",
    "apiservices",
    "APIService",
    namespaced=False,
    singular="apiservice",
)

_AVAILABLE = ConditionStatus("Available")

_MISCONFIGURED = frozenset({"ServiceNotFound", "ServicePortError"})
"""Reasons that do not pass while pods start: somebody has to make or change a service."""


class AvailableService:
    """An APIService is available.

    Args:
        api_service: its name, `<version>.<group>`.

    Raises:
        InvalidArgument: a name that cannot be one.
    """

    runs_user_code = False
    goal = "become available"

    def __init__(self, api_service: str) -> None:
        # That of the core group is `v1.`.
        given: object = api_service
        if not isinstance(given, str) or "." not in given:
            raise InvalidArgument(
                "api_service", given, "use <version>.<group>, for example v1.apps"
            )
        check_name("api_service", api_service.removesuffix("."))
        self._service = SingleObject(API_SERVICES, api_service)
        self._sources = (Source(API_SERVICES, None, self._service, api_service),)

    @property
    def subject(self) -> str:
        """The APIService."""
        return f"apiservice {self._service.name}"

    def sources(self) -> Sequence[Source]:
        """Return the APIService."""
        return self._sources

    def verdict(self) -> Verdict:
        """Judge by its condition Available."""
        absent = self._service.missing_verdict() or self._service.ending()
        if absent is not None:
            return absent
        verdict = _AVAILABLE.judge(self._service.current or {})
        condition = self._service.condition("Available") or {}
        if isinstance(verdict, Pending) and condition.get("reason") in _MISCONFIGURED:
            return Failed(verdict.reason, Patience.LONG)
        return verdict

    def seen(self) -> str:
        """Say who serves it."""
        service = self._service.spec.get("service")
        if self._service.current is None:
            return ""
        if not service:
            return "served by the API server itself"
        return f"served by service {service.get('namespace')}/{service.get('name')}"

    def result(self) -> dict[str, Any]:
        """Return the APIService."""
        return self._service.object()

    def scope(self) -> EvidenceScope:
        """Return the APIService."""
        return EvidenceScope(None, objects=(self._service.reference(),))


def api_service_available(api_service: str) -> AvailableService:
    """Return the condition of `wait_for_api_service_available`."""
    return AvailableService(api_service)


def wait_for_api_service_available(
    client: ApiClient, api_service: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return an APIService once its condition Available is True.

    That endpoints are missing or discovery fails may pass, for as long as the limit; that there is
    no service, or that it has not this port, is believed after `grace`.

    Args:
        client: the official client.
        api_service: its name, `<version>.<group>`.
        **options: `timeout` (default: `api_service`, 1 minute) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the APIService was deleted, or names a service that is
            not there.
        WaitTimeout: it did not come within the limit.

    Source: kubernetes/test/e2e/apimachinery/aggregator.go SetUpSampleAPIServer.
    """
    condition = api_service_available(api_service)
    settings = resolve_options(options, timeout="api_service")
    return cast("dict[str, Any]", wait_for_condition(Session.of(client), condition, settings))
