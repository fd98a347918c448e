from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import PODS, Resource
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.condition import EvidenceScope
from pytest_kwait.engine.failure.evidence import gather_evidence
from pytest_kwait.engine.failure.operators import OperatedObjects
from pytest_kwait.engine.failure.owned_pods import OWNERS, STEPS, list_owned_pods
from pytest_kwait.errors import ApiError, InvalidArgument
from tests.engine.fake_session import FakeSession
from tests.objects import job_pod

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = {
    kind: Resource(group, "v1", f"{kind.lower()}s", kind, namespaced=True)
    for kind, group in (
        ("Shop", "example.com"),
        ("Part", "example.com"),
        ("Deployment", "apps"),
        ("ReplicaSet", "apps"),
        ("Job", "batch"),
    )
}
SHOPS = OperatedObjects(KINDS["Shop"], "ci-1", ("corner", "Shop-corner"))


class OwnersSession(FakeSession):
    """A session that knows the kinds of these tests."""

    def resolve(self, kind: str, api_version: str | None = None, *, deadline: Deadline) -> Resource:
        if kind not in KINDS:
            raise InvalidArgument("kind", kind, "the server has no such kind")
        return KINDS[kind]

    def own(self, kind: str, name: str, *owners: tuple[str, str]) -> None:
        """Store an object of a kind whose UID is made of kind and name, with its owners."""
        references = [
            {"apiVersion": "v1", "kind": owner, "name": of, "uid": f"{owner}-{of}"}
            for owner, of in owners
        ]
        obj = job_pod(name) if kind == "Pod" else {}
        metadata = {"name": name, "uid": f"{kind}-{name}", "ownerReferences": references}
        self.put(PODS if kind == "Pod" else KINDS[kind], {**obj, "metadata": metadata})


@pytest.fixture
def session() -> OwnersSession:
    return OwnersSession()


def owned(session: FakeSession, uids: Iterable[str] = ("Shop-corner",)) -> tuple[str, ...]:
    with ThreadPoolExecutor(1) as pool:
        return list_owned_pods(session, "ci-1", uids, pool, Deadline.after(5.0, session.clock))


def test_pods_are_found_through_their_owners(session: OwnersSession) -> None:
    session.own("Shop", "corner")
    session.own("Deployment", "web", ("Shop", "corner"))
    session.own("ReplicaSet", "web-1", ("Deployment", "web"))
    session.own("Job", "import", ("Shop", "corner"))
    session.own("Pod", "web-1-a", ("ReplicaSet", "web-1"))
    session.own("Pod", "import-a", ("Job", "import"))
    session.own("Pod", "direct", ("Shop", "corner"))
    session.own("Pod", "alone")
    session.own("Pod", "other", ("Shop", "other"))
    assert owned(session) == ("direct", "import-a", "web-1-a")
    assert owned(session, ["Shop-other"]) == ("other",)


def test_an_owner_is_read_once(session: OwnersSession) -> None:
    session.own("Job", "import", ("Shop", "corner"))
    for number in range(5):
        session.own("Pod", f"import-{number}", ("Job", "import"))
    assert len(owned(session)) == 5
    assert session.count("get jobs") == 1


def test_without_owners_nothing_more_is_read(session: OwnersSession) -> None:
    session.own("Pod", "alone")
    assert owned(session) == ()
    assert session.requests == ["list pods"]


def test_steps_and_owners_are_bounded(session: OwnersSession) -> None:
    parts = [("Part", f"part-{number}") for number in range(STEPS + 1)]
    for part, above in pairwise([*parts, ("Shop", "corner")]):
        session.own(*part, above)
    session.own("Pod", "deep", parts[0])
    assert owned(session) == ()
    session.own("Pod", "deep", parts[1])
    assert owned(session) == ("deep",)

    for number in range(OWNERS + 5):
        session.own("Pod", f"job-{number}", ("Job", f"job-{number}"))
    session.requests.clear()
    owned(session)
    assert session.count("get jobs") <= OWNERS


def test_owners_in_a_circle_end(session: OwnersSession) -> None:
    session.own("Part", "a", ("Part", "b"))
    session.own("Part", "b", ("Part", "a"))
    session.own("Pod", "web", ("Part", "a"))
    assert owned(session) == ()


@pytest.mark.parametrize("verb", ["list", "get"])
def test_what_may_not_be_read_is_left_out(session: OwnersSession, verb: str) -> None:
    session.own("Job", "import", ("Shop", "corner"))
    session.own("Pod", "import-a", ("Job", "import"))
    session.own("Pod", "direct", ("Shop", "corner"))
    session.own("Pod", "strange", ("Unknown", "a"))
    refused = PODS if verb == "list" else KINDS["Job"]
    session.fail(verb, refused, ApiError("forbidden", status=403, reason="Forbidden"))
    assert owned(session) == (() if verb == "list" else ("direct",))


def test_pods_of_a_custom_object_are_evidence(session: OwnersSession) -> None:
    session.own("Pod", "import-a", ("Shop", "corner"))
    session.own("Pod", "alone")
    findings = gather_evidence(session, EvidenceScope("ci-1"), (), SHOPS)
    assert [pod.name for pod in findings.pods] == ["import-a"]


@pytest.mark.parametrize(
    "scope",
    [
        EvidenceScope("ci-1", pod_names=["alone"]),
        EvidenceScope("ci-1", pods="app=web"),
        EvidenceScope(None),
    ],
)
def test_a_wait_that_knows_its_pods_shows_these(
    session: OwnersSession, scope: EvidenceScope
) -> None:
    session.own("Pod", "import-a", ("Shop", "corner"))
    session.own("Pod", "alone")
    shown: dict[str, Any] = {"alone": ["alone"]}
    findings = gather_evidence(session, scope, (), SHOPS)
    assert [pod.name for pod in findings.pods] == shown.get("".join(scope.pod_names), [])
