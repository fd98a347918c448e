"""Waits on the API server's `/readyz` checks and on the availability of APIServices.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go,
kubernetes/staging/src/k8s.io/kube-aggregator/pkg/controllers/status/remote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.errors import StartupGrace, make_unreadable_error
from pytest_kwait.client.resource import Resource
from pytest_kwait.engine.condition import (
    EvidenceScope,
    Failed,
    Grace,
    Met,
    ObjectReference,
    Pending,
    Verdict,
)
from pytest_kwait.engine.retry import ErrorAction, classify_error
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.named_objects import ObjectCondition, ProbeCondition
from pytest_kwait.framework.predicates import ConditionStatus
from pytest_kwait.framework.registry import wait
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

READYZ = "/readyz"
_CHECK_PASSED = b"readyz check passed"

REQUEST_TIMEOUT = 5.0
"""Timeout of one request to the server, in seconds."""
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
"""Reasons that do not pass while pods start: a service must be created or changed."""


class HealthyServer(ProbeCondition):
    """The API server reports that it is ready."""

    subject = "API server"
    goal = "become healthy"

    def __init__(self) -> None:
        self._trouble = "not asked yet"
        self._outage: StartupGrace | None = None

    def probe_targets(self) -> Sequence[str]:
        """Return the path to request."""
        return (READYZ,)

    def send_requests(self, targets: Sequence[str], deadline: Deadline) -> str:
        """Return the error; empty if the server is healthy."""
        session = self.client_session
        outage = self._outage = self._outage or StartupGrace(session.clock)
        limit = deadline.at_most(REQUEST_TIMEOUT)
        query = {"verbose": "true"}
        try:
            answer = session.request("GET", targets[0], query=query, accept="*/*", deadline=limit)
        except DeadlineExceeded:
            if deadline.expired:
                raise
            return f"no answer within {REQUEST_TIMEOUT:g}s"
        except ApiError as error:
            # A refusal says nothing about the server's health, except just after a restart.
            if not outage.record_error(error) and classify_error(error) is ErrorAction.STOP:
                raise
            if error.status:
                return f"{READYZ} answers {error.status}: {error.message}"
            return error.message
        if _CHECK_PASSED not in answer.data and answer.data.strip() != b"ok":
            # A proxy in front of the server answers every path with 200, perhaps for a moment.
            raise make_unreadable_error(
                "GET", READYZ, answer.status, answer.data, "the checks of a server"
            )
        return ""

    def record_answers(self, answers: str) -> None:
        """Record the answer."""
        self._trouble = answers

    def verdict(self) -> Verdict:
        """Decide by the last answer."""
        return Pending(self._trouble) if self._trouble else Met()

    def result(self) -> Any:
        """Return None: there is no object."""
        return None

    def scope(self) -> EvidenceScope:
        """Return the server's health as evidence; an unhealthy server gets no other requests."""
        look = f"--raw={READYZ}?verbose"
        return EvidenceScope(None, objects=(ObjectReference("", "", "", look, exists=False),))


@wait(limit="api_server", summary="an API server that says it is ready", poll="serving_poll")
def wait_for_api_server_healthy(
    client: ApiClient, **options: Unpack[WaitOptions]
) -> ConditionOf[None]:
    """Return None once the API server reports that it is ready.

    A server that is unreachable or still starting is awaited; the message names the failing checks.
    The check runs every `poll`, 100 ms by default. Behind a load balancer each answer comes from
    one server; use `stable_for` to require several.
    """
    return HealthyServer()


class AvailableService(ObjectCondition):
    """An APIService is available.

    Args:
        api_service: its name, `<version>.<group>`.
    """

    goal = "become available"

    def __init__(self, api_service: str) -> None:
        # The APIService of the core group is named `v1.`.
        value: object = api_service
        if not isinstance(value, str) or "." not in value:
            raise InvalidArgument(
                "api_service", value, "use <version>.<group>, for example v1.apps"
            )
        check_name("api_service", api_service.removesuffix("."))
        super().__init__(API_SERVICES, None, api_service)

    def verdict(self) -> Verdict:
        """Decide by its Available condition."""
        absent = self.object.missing_verdict() or self.object.ending()
        if absent is not None:
            return absent
        verdict = _AVAILABLE.evaluate(self.object.current or {})
        condition = self.object.condition("Available") or {}
        if isinstance(verdict, Pending) and condition.get("reason") in _MISCONFIGURED:
            return Failed(verdict.reason, Grace.LONG)
        return verdict

    def summarize(self) -> str:
        """Return a summary of the service behind it."""
        service = self.object.spec.get("service")
        if self.object.current is None:
            return ""
        if not service:
            return "served by the API server itself"
        return f"served by service {service.get('namespace')}/{service.get('name')}"


@wait(limit="api_service", kind=API_SERVICES, summary="an APIService that is available")
def wait_for_api_service_available(
    client: ApiClient, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return an APIService once its condition Available is True.

    Missing endpoints and failed discovery may recover until the limit. A missing service or service
    port fails the wait after `grace`.

    Args:
        name: its name, `<version>.<group>`.

    Raises:
        WaitFailed: the APIService was deleted, or its service does not exist.

    Source: kubernetes/test/e2e/apimachinery/aggregator.go SetUpSampleAPIServer.
    """
    return AvailableService(name)
