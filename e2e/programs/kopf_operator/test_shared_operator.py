"""An operator that serves all namespaces from its own: messages say what its log says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.conftest import PROGRAMS
from e2e.programs.kopf_operator.test_kopf_operator import greeting, pick, read_manifests
from e2e.raising import times_out

pytest.importorskip("kopf", reason="kopf is not installed")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Kwait, KwaitFactory

pytestmark = [pytest.mark.needs(PROGRAMS), pytest.mark.kwait_skip_unless_programs_isolated]


@pytest.fixture
def operator(kwait_factory: KwaitFactory) -> Iterator[Kwait]:
    """An operator for all namespaces, ready, which may write no config map but by a patch."""
    with kwait_factory("operator") as shared:
        manifests = read_manifests(shared)
        pick(manifests, "ClusterRole")["rules"] += pick(manifests, "Role")["rules"]
        (container,) = pick(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
        container["args"][0] = "--all-namespaces"
        shared.apply(*manifests)
        shared.wait_for_deployment_complete("greeter")
        yield shared


@pytest.fixture
def greetings(kwait: Kwait, operator: Kwait) -> Iterator[str]:
    """Greetings in the test's namespace; gives what their kind is called."""
    kind = f"greetings.{operator.namespace}.example.com"
    yield kind
    # A running operator would add its finalizer again.
    operator.scale("deployment/greeter", 0)
    for left in kwait.list(kind):
        kwait.patch(left, {"metadata": {"finalizers": None}})
        kwait.delete_and_wait(left, timeout="1m")


def wait_for_text(operator: Kwait, kwait: Kwait, text: str) -> None:
    """Wait until the operator's log has a text about the test's namespace."""
    operator.wait_for(
        "deployment/greeter",
        lambda _: any(
            text in part
            for part in operator.logs("deployment/greeter").split(f"[{kwait.namespace}/")[1:]
        ),
        mode="poll",
        poll="200ms",
    )


def test_an_exception_of_a_handler_is_in_the_message(
    kwait: Kwait, operator: Kwait, greetings: str
) -> None:
    """The API server refuses a config map of 2 MB; the operator tries again in a minute."""
    kwait.create(greeting(operator, text="hello " * 3400, copies=100))
    wait_for_text(operator, kwait, "HTTP response body")
    timed_out = times_out(
        rf"hello did not .*operator, by its log {operator.namespace}/greeter-\S+/operator: "
        rf"kopf.objects \[ERROR\] \[{kwait.namespace}/hello\] Handler 'write' failed .*"
        r"\(422\) .*1048576",
        kwait.wait_for,
        f"{greetings}/hello",
        "condition=Ready",
    )
    (record,) = timed_out.evidence["records"]
    assert record["namespace"] == operator.namespace
    # What it should have made is missing for the same reason.
    (record,) = times_out(
        r"operator, by its log .*\(422\)", kwait.wait_for, "configmap/hello", "create"
    ).evidence["records"]
    assert record["pod"].startswith("greeter-")


def test_a_missing_right_is_in_the_message(kwait: Kwait, operator: Kwait, greetings: str) -> None:
    """What it may not do for another test's object is not."""
    role = operator.get(f"clusterrole/{operator.namespace}-greeter")
    rules = [rule for rule in role["rules"] if rule["resources"] != ["configmaps"]]
    operator.patch(role, {"rules": rules})
    kwait.create(greeting(operator))
    other = greeting(operator, "other")
    operator.create(other)
    wait_for_text(operator, kwait, "configmaps")
    wait_for_text(operator, operator, "configmaps")
    (refused,) = times_out(
        r"did not .*refused by the API server, as logs of pods of operators say "
        rf'{operator.namespace}/greeter-\S+/operator: configmaps "hello" is forbidden: User '
        r'.*:greeter" cannot patch resource "configmaps"',
        kwait.wait_for,
        f"{greetings}/hello",
        "condition=Ready",
    ).evidence["refusals"]
    assert len(refused["lines"]) == 1
    operator.scale("deployment/greeter", 0)
    operator.patch(f"{greetings}/other", {"metadata": {"finalizers": None}})
