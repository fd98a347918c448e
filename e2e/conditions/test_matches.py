"""Parts of objects, awaited and asserted; whole objects without generated parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.objects import deployment
from e2e.raising import times_out
from pytest_kwait import consistently, matches, not_

if TYPE_CHECKING:
    from pytest_kwait import Kwait, KwaitFactory


def test_a_deployment_reaches_the_fields_of_a_file(kwait: Kwait) -> None:
    kwait.create(deployment("web"))
    kwait.scale("deployment/web", 2)
    web = kwait.wait_for("deployment/web", matches("expected_web.yaml"))
    assert web == matches("expected_web.yaml")
    assert web != matches({"spec": {"replicas": 1}})
    kwait.wait_for("deployment/web", consistently("1s", not_(matches({"spec": {"paused": True}}))))

    pods = kwait.wait_for(
        "pods", matches({"status": {"phase": "Running"}}), selector="app=web", count=2
    )
    assert len(pods) == 2


def test_differences_are_in_the_message(kwait: Kwait) -> None:
    kwait.create(deployment("web"))
    expected = matches({"spec": {"replicas": 5}, "metadata": {"labels": {"tier": "front"}}})
    error = times_out("spec.replicas is 1, awaited 5", kwait.wait_for, "deployment/web", expected)
    paths = [each["path"] for each in error.evidence["differences"]]
    assert paths == ["spec.replicas", "metadata.labels"]


def test_normalized_objects_are_the_same_in_each_namespace(
    kwait: Kwait, kwait_factory: KwaitFactory
) -> None:
    with kwait_factory("other") as other:
        seen = []
        for each in (kwait, other):
            each.create(deployment("web"))
            each.wait_for_deployment_complete("web")
            (pod,) = each.wait_for_pods_running(1, selector="app=web")
            seen.append([each.normalized(each.get("deployment/web")), each.normalized(pod)])
    assert seen[0] == seen[1]
    assert seen[0][1]["metadata"]["name"] == "web-*-*"
