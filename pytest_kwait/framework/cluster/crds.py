"""Wait for a CustomResourceDefinition: established, and every served version answers.

The Established condition becomes True slightly before the server serves the paths, and some
time before discovery lists them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.resource import CUSTOM_RESOURCE_DEFINITIONS, Resource
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.engine.retry import request_once
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.named_objects import ObjectCondition, ProbeCondition
from pytest_kwait.framework.objects.conditions import detect_names_conflict
from pytest_kwait.framework.predicates import ConditionStatus
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf


_ESTABLISHED = ConditionStatus("Established")


class ServedDefinition(ObjectCondition, ProbeCondition):
    """A definition is established, and every version that it serves answers.

    Args:
        crd: its name, `<plural>.<group>`.
    """

    goal = "get established and served"

    def __init__(self, crd: str) -> None:
        plural, dot, group = check_name("crd", crd).partition(".")
        if not dot:
            raise InvalidArgument("crd", crd, "use <plural>.<group>, for example widgets.my.org")
        self._plural, self._group = plural, group
        super().__init__(CUSTOM_RESOURCE_DEFINITIONS, None, crd)
        self._asked: str | None = None
        self._trouble = "not asked yet"

    def verdict(self) -> Verdict:
        """Decide by the definition's conditions, then by the server's answers."""
        own = self._own()
        if own is not None:
            return own
        return Pending(self._trouble) if self._trouble else Met()

    def _own(self) -> Verdict | None:
        """Return the verdict by the definition alone; None if the definition is established."""
        crd = self.object
        absent = crd.missing_verdict() or crd.ending()
        if absent is not None:
            return absent
        terminal = detect_names_conflict(crd.current or {})
        if terminal is not None:
            return Failed(terminal.reason, terminal.grace)
        verdict = _ESTABLISHED.evaluate(crd.current or {})
        if isinstance(verdict, Met):
            return None if self._served() else Failed("it serves no version", Grace.LONG)
        return verdict

    def _version(self) -> str:
        metadata = (self.object.current or {}).get("metadata") or {}
        return str(metadata.get("resourceVersion"))

    def _served(self) -> list[Resource]:
        spec = self.object.spec
        names = spec.get("names") or {}
        return [
            Resource(
                self._group,
                str(version.get("name")),
                self._plural,
                str(names.get("kind") or self._plural),
                namespaced=spec.get("scope") == "Namespaced",
            )
            for version in spec.get("versions") or ()
            if version.get("served")
        ]

    def probe_targets(self) -> Sequence[Resource]:
        """Return the versions to request; none before the definition is established."""
        return self._served() if self._own() is None else ()

    def is_urgent(self) -> bool:
        """Return whether the definition has changed since the last check."""
        return self._asked != self._version()

    def send_requests(self, targets: Sequence[Resource], deadline: Deadline) -> str:
        """Return the versions that are not served yet; empty if all are."""
        session = self.client_session
        self._asked = self._version()
        for resource in targets:
            try:
                request_once(partial(_list_one, session, resource.path()), deadline)
            except ApiError as error:
                if error.status != 404 and error.status < 500:
                    raise
                return f"{resource.version} is not served yet: {error.message}"
        for resource in targets:
            name = f"{resource.plural}.{resource.version}.{resource.group}"
            try:
                request_once(partial(_resolve, session, name, resource.api_version), deadline)
            except InvalidArgument:
                return f"discovery does not tell of {resource.version} yet"
        return ""

    def record_answers(self, answers: str) -> None:
        """Record the answer."""
        self._trouble = answers

    def summarize(self) -> str:
        """Return a summary of its conditions."""
        conditions = self.object.status.get("conditions") or ()
        return ", ".join(
            f"{condition.get('type')} {condition.get('status')}" for condition in conditions
        )


def _list_one(session: ApiSession, path: str, deadline: Deadline) -> None:
    session.request("GET", path, query={"limit": 1}, deadline=deadline)


def _resolve(session: ApiSession, name: str, api_version: str, deadline: Deadline) -> None:
    session.resolve(name, api_version, deadline=deadline)


@wait(
    limit="crd",
    kind=CUSTOM_RESOURCE_DEFINITIONS,
    summary="a CustomResourceDefinition that is established, with all versions served",
    poll="serving_poll",
)
def wait_for_crd_established(
    client: ApiClient, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a definition once it is established and every version it serves can be used.

    Beyond the Established condition, a list of each served version must succeed and discovery must
    include it, so that clients find the kind. Both are requested every `poll`, 100 ms by default,
    once the condition is True.

    Args:
        client: the official client; its user must be allowed to list the custom objects.
        name: the definition's name, `<plural>.<group>`.

    Raises:
        WaitFailed: the definition is being deleted or gone, or another one has its names.

    Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/test/integration/fixtures/
    resources.go CreateNewV1CustomResourceDefinition, which lists and watches as well.
    """
    return ServedDefinition(name)
