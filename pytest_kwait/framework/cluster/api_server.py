"""Waiting for the API server itself: every check behind `/readyz` passes.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.client.errors import make_unreadable_error
from pytest_kwait.client.outage import StartupGrace
from pytest_kwait.client.session import Session
from pytest_kwait.engine.condition import EvidenceScope, ObjectReference, Source
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.retry import ErrorAction, classify_error
from pytest_kwait.engine.verdicts import Met, Pending, Verdict
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.clock import Deadline

__all__ = ["HealthyServer", "api_server_healthy", "wait_for_api_server_healthy"]

READYZ = "/readyz"
_CHECK_PASSED = b"readyz check passed"

REQUEST_TIMEOUT = 5.0
"""Seconds that the server has for its answer."""


class HealthyServer:
    """The API server says that it is ready."""

    runs_user_code = False
    subject = "API server"
    goal = "become healthy"
    session: Session | None = None
    """Who asks; set by the wait."""

    def __init__(self) -> None:
        self._trouble = "not asked yet"
        self._outage: StartupGrace | None = None

    def sources(self) -> Sequence[Source]:
        """Return nothing: its health cannot be watched."""
        return ()

    def questions(self) -> Sequence[str]:
        """Return what to ask for."""
        return (READYZ,)

    def is_urgent(self) -> bool:
        """Whether it has not been asked for yet."""
        return False

    def ask(self, questions: Sequence[str], deadline: Deadline) -> str:
        """Return what is wrong; empty where nothing is."""
        if self.session is None:
            raise InvalidArgument("session", None, "give one to ask with")
        outage = self._outage = self._outage or StartupGrace(self.session.clock)
        limit = deadline.at_most(REQUEST_TIMEOUT)
        query = {"verbose": "true"}
        try:
            answer = self.session.request(
                "GET", questions[0], query=query, accept="*/*", deadline=limit
            )
        except DeadlineExceeded:
            if deadline.expired:
                raise
            return f"no answer within {REQUEST_TIMEOUT:g}s"
        except ApiError as error:
            # A refusal is not the server's health, unless it has only just come back.
            if not outage.tolerates(error) and classify_error(error) is ErrorAction.STOP:
                raise
            if error.status:
                return f"{READYZ} answers {error.status}: {error.message}"
            return error.message
        if _CHECK_PASSED not in answer.data and answer.data.strip() != b"ok":
            # Whoever stands before the server answers everything with 200, perhaps for a moment.
            raise make_unreadable_error(
                "GET", READYZ, answer.status, answer.data, "the checks of a server"
            )
        return ""

    def record_answers(self, answers: str) -> None:
        """Note the answer."""
        self._trouble = answers

    def verdict(self) -> Verdict:
        """Judge by the last answer."""
        return Pending(self._trouble) if self._trouble else Met()

    def seen(self) -> str:
        """Return nothing: the verdict says it all."""
        return ""

    def result(self) -> Any:
        """Return nothing: there is no object."""
        return None

    def scope(self) -> EvidenceScope:
        """Return what shows its health; of one that is not healthy nothing else is asked."""
        look = f"--raw={READYZ}?verbose"
        return EvidenceScope(None, objects=(ObjectReference("", "", "", look, exists=False),))


def api_server_healthy() -> HealthyServer:
    """Return the condition of `wait_for_api_server_healthy`."""
    return HealthyServer()


def wait_for_api_server_healthy(client: ApiClient, **options: Unpack[WaitOptions]) -> None:
    """Return None once the API server says that it is ready.

    A server that cannot be reached, or that is only starting, is waited for; the message names the
    checks that fail. It is asked every `poll`, 100 ms if not given. Behind a load balancer one
    answer is that of one server: `stable_for` asks for longer.

    Args:
        client: the official client.
        **options: `timeout` (default: `api_server`, 1 minute) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an option that cannot be meant.
        WaitTimeout: it did not come within the limit.
    """
    condition = api_server_healthy()
    settings = resolve_options(options, timeout="api_server", poll="serving_poll")
    condition.session = Session.of(client)
    wait_for_condition(condition.session, condition, settings)
