from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import CONFIG_MAPS, PODS, Resource
from pytest_kwait.engine.condition import EvidenceScope
from pytest_kwait.engine.failure.evidence import LogTail, gather_evidence
from pytest_kwait.engine.failure.operators import OperatedObjects
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.context import DeadlineExceeded
from tests.engine.fake_session import FakeSession
from tests.objects import job_pod

if TYPE_CHECKING:
    from pytest_kwait.client.responses import ObjectList

WIDGET = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)
WIDGETS = OperatedObjects(WIDGET, "ci-1", ("hello", "uid-hello"))


def refusal(verb: str) -> str:
    return (
        f'configmaps is forbidden: User "system:serviceaccount:shared:greeter" cannot {verb} '
        'resource "configmaps" in API group "" in the namespace "ci-1"'
    )


def operator_pod(name: str, account: str, namespace: str) -> dict[str, Any]:
    running = {"name": "main", "ready": True, "state": {"running": {}}}
    made = job_pod(name, containerStatuses=[running])
    metadata = {"name": name, "namespace": namespace}
    return {**made, "metadata": metadata, "spec": {"serviceAccountName": account}}


class NamespacedSession(FakeSession):
    """A session that lists the objects of the namespace that is asked for."""

    def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> ObjectList:
        listed = super().list(resource, namespace, **options)
        items = [
            item
            for item in listed.items
            if namespace in (None, item.object["metadata"].get("namespace"))
        ]
        return replace(listed, items=items)

    def grant(
        self,
        binding: str,
        subject: dict[str, str],
        *rules: dict[str, Any],
        kind: str = "ClusterRole",
    ) -> None:
        """Bind a role of the same name."""
        reference = {"kind": kind, "name": binding}
        self.put(rbac(kind), {"metadata": {"name": binding}, "rules": rules})
        bound = {"metadata": {"name": binding}, "roleRef": reference, "subjects": [subject]}
        self.put(rbac(f"{kind}Binding"), bound)


def rbac(kind: str) -> Resource:
    plural = f"{kind.lower()}s"
    is_namespaced = not kind.startswith("Cluster")
    return Resource("rbac.authorization.k8s.io", "v1", plural, kind, namespaced=is_namespaced)


def account(name: str, namespace: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def rule(groups: str, resources: str, *verbs: str) -> dict[str, Any]:
    return {"apiGroups": [groups], "resources": [resources], "verbs": verbs}


def put_operator(session: FakeSession, name: str, namespace: str, log: str) -> None:
    session.put(PODS, operator_pod(name, name, namespace))
    session.log_texts[f"{name}/main"] = log


HANDLER_FAILED = """\
[2026-01-01 00:00:01,000] kopf.objects         [ERROR   ] [ci-2/hello] Handler 'write' failed.
[2026-01-01 00:00:02,000] kopf.objects         [ERROR   ] [ci-1/hello] Handler 'write' failed.
Traceback (most recent call last):
  File "greeter.py", line 7, in write
    raise ValueError("no text")
ValueError: no text
[2026-01-01 00:00:03,000] kopf.objects         [INFO    ] [ci-1/other] Creation is processed.
"""


def test_a_shared_operator_says_why_in_its_own_namespace() -> None:
    """It is found by its rights on the kind; pods of others there, and of no rights, are not."""
    session = NamespacedSession()
    session.grant("greeter", account("greeter", "shared"), rule("example.com", "widgets", "watch"))
    put_operator(session, "greeter", "shared", HANDLER_FAILED)
    put_operator(session, "neighbour", "shared", HANDLER_FAILED)
    put_operator(session, "web", "ci-1", HANDLER_FAILED)

    findings = gather_evidence(session, EvidenceScope("ci-1"), (), WIDGETS)

    text = "[ERROR] [ci-1/hello] Handler 'write' failed. ValueError: no text"
    record = LogTail("greeter", "main", False, (f"kopf.objects {text}",), "shared")
    assert findings.records == (record,)
    assert session.count("logs neighbour/main") == 0


def test_a_shared_operator_is_refused_requests() -> None:
    """Only refusals in the object's namespace, or of all, are evidence: it serves others too."""
    session = NamespacedSession()
    session.grant("greeter", account("greeter", "shared"), rule("example.com", "widgets", "watch"))
    elsewhere = refusal("create").replace('"ci-1"', '"ci-2"')
    everywhere = refusal("list").replace('in the namespace "ci-1"', "at the cluster scope")
    log = f"{elsewhere}\n{everywhere}\nhello in ci-1: {refusal('patch')}\n(403) of another\n"
    put_operator(session, "greeter", "shared", log)

    findings = gather_evidence(session, EvidenceScope("ci-1"), (), WIDGETS)

    refused = (everywhere, refusal("patch"))
    assert findings.refusals == (LogTail("greeter", "main", False, refused, "shared"),)
    # The refusal says it already.
    assert findings.records == ()


def test_operators_by_their_rights() -> None:
    """Those of the kind come first, then those of its group, then those with all rights."""
    session = NamespacedSession()
    rules = {
        "b-kind": rule("example.com", "widgets/status", "patch"),
        "a-group": rule("example.com", "*", "*"),
        "a-all": rule("*", "*", "*"),
        "reader": rule("*", "*", "get", "list", "watch"),
        "stranger": rule("example.org", "widgets", "*"),
    }
    for name, granted in rules.items():
        session.grant(name, account(name, "shared"), granted)
        put_operator(session, name, "shared", "hello in ci-1 failed")
    session.grant("user", {"kind": "User", "name": "web"}, rule("example.com", "widgets", "*"))
    put_operator(session, "web", "ci-1", "hello failed")

    findings = gather_evidence(session, EvidenceScope("ci-1"), (), WIDGETS)

    assert [tail.pod for tail in findings.records] == ["b-kind", "a-group", "a-all"]
    assert {entry for entry in session.requests if entry.startswith("logs ")} == {
        "logs b-kind/main", "logs a-group/main", "logs a-all/main", "logs web/main",
    }  # fmt: skip


def test_an_operator_of_the_namespace_and_a_group_of_accounts() -> None:
    """In the namespace itself a record needs the object's name alone."""
    session = NamespacedSession()
    granted = rule("example.com", "widgets", "watch")
    session.grant("near", account("near", "ci-1"), granted, kind="Role")
    put_operator(session, "near", "ci-1", "E0101 00:00:00.000001 1 page.go:1] hello: no text")
    group = {"kind": "Group", "name": "system:serviceaccounts:shared"}
    session.grant("all", group, granted)
    put_operator(session, "far", "shared", "uid-hello of ci-1 is done\nhello is done")

    records = gather_evidence(session, EvidenceScope("ci-1"), (), WIDGETS).records

    assert records == (
        LogTail("near", "main", False, ("E0101 00:00:00.000001 1 page.go:1] hello: no text",)),
        LogTail("far", "main", False, ("uid-hello of ci-1 is done",), "shared"),
    )


@pytest.mark.parametrize(
    "error", [ApiError("no", status=403, reason="Forbidden"), DeadlineExceeded()]
)
def test_an_operator_whose_rights_may_not_be_read(error: Exception) -> None:
    """A pod of the namespace with an account of its own may be one; nothing is said of the rest."""
    session = NamespacedSession()
    session.fail("list", rbac("ClusterRole"), error)
    put_operator(session, "greeter", "ci-1", "hello failed")
    session.put(PODS, operator_pod("web", "default", "ci-1"))
    session.log_texts["web/main"] = "hello failed"

    findings = gather_evidence(session, EvidenceScope("ci-1"), (), WIDGETS)

    assert findings.records == (LogTail("greeter", "main", False, ("hello failed",)),)
    assert findings.errors == ()


def test_the_operator_that_should_have_created_an_object() -> None:
    """An account that may only read its kind, as most may, is not its operator."""
    session = NamespacedSession()
    session.grant("greeter", account("greeter", "shared"), rule("", "configmaps", "create"))
    session.grant("reader", account("reader", "shared"), rule("", "configmaps", "get", "watch"))
    put_operator(session, "greeter", "shared", HANDLER_FAILED)
    put_operator(session, "reader", "shared", HANDLER_FAILED)
    put_operator(session, "web", "ci-1", HANDLER_FAILED)
    missing = OperatedObjects(CONFIG_MAPS, "ci-1", ("hello",), is_custom=False)

    findings = gather_evidence(session, EvidenceScope("ci-1"), (), missing)

    assert [(tail.pod, tail.namespace) for tail in findings.records] == [("greeter", "shared")]
    assert session.count("logs ") == 1


def test_the_operator_of_a_cluster_scoped_object() -> None:
    session = NamespacedSession()
    session.grant("greeter", account("greeter", "shared"), rule("example.com", "widgets", "watch"))
    put_operator(session, "greeter", "shared", "Widget hello-2 failed\nWidget hello failed")
    objects = OperatedObjects(replace(WIDGET, namespaced=False), None, ("hello",))

    (tail,) = gather_evidence(session, EvidenceScope(None), (), objects).records

    assert (tail.namespace, tail.lines) == ("shared", ("Widget hello failed",))
