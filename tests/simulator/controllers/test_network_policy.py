"""The event that a network policy is not enforced."""

from __future__ import annotations

from pytest_kwait.simulator.controllers.network_policy import NetworkPolicyReporter
from tests.simulator.cluster import new_cluster

POLICIES = "networkpolicies.networking.k8s.io"


def test_each_policy_has_one_event() -> None:
    api = new_cluster()
    spec = {"podSelector": {}, "policyTypes": ["Ingress"]}
    api.create(POLICIES, {"metadata": {"name": "first"}, "spec": spec}, "default")
    NetworkPolicyReporter(api)
    second = api.create(POLICIES, {"metadata": {"name": "second"}, "spec": spec}, "default")
    api.update(POLICIES, {**second, "spec": {**spec, "policyTypes": ["Egress"]}})
    events = api.list("events", "default")
    assert [one["involvedObject"]["name"] for one in events] == ["first", "second"]
    for event in events:
        assert event["involvedObject"]["kind"] == "NetworkPolicy"
        assert (event["type"], event["reason"]) == ("Warning", "NotEnforced")
        assert event["message"] == (
            "the embedded cluster does not enforce network policies: all traffic of pods is allowed"
        )
