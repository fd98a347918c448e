"""Candidates that run a script: parsed records and injected faults."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait import wait
from pytest_kwait.client.session import TimeBudget
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, WaitObserver
from pytest_kwait.errors import InvalidArgument, KwaitError, WaitTimeout
from pytest_kwait.suite.election import candidate_main, candidates
from pytest_kwait.suite.election.candidates import Candidates
from pytest_kwait.testing import FakeClock
from tests.clusters.kubeconfigs import contents, written
from tests.suite.fakes import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.engine.active_waits import ActiveWait

LEASE = "/apis/coordination.k8s.io/v1/namespaces/ci-1/leases/boss"
COMPETES = "sys.stdin.readline()"
LEADS = """
say(sees=told["identity"])
say(led=now, until=now + 60)
sys.stdin.readline()
say(lost=time.monotonic())
"""
START = """
import json, sys, time
told, now = json.loads(sys.argv[1]), time.monotonic()
def say(**facts): print(json.dumps(facts), flush=True)
"""


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def elect(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made: list[Candidates] = []

    def elect(program: str, number: int = 1, **options: Any) -> Candidates:
        monkeypatch.setattr(candidates, "PROGRAM", (sys.executable, "-c", START + program))
        made.append(
            Candidates(
                cast("Cluster", cluster),
                cluster.client(),
                "ci-1",
                number,
                **{"lease": "boss", **options},
            )
        )
        return made[-1]

    yield elect
    for each in made:
        each.stop()
        assert not any(one.alive for one in each)


def test_leader_and_its_end(elect: Callable[..., Candidates]) -> None:
    election = elect(LEADS)
    leader = election.leader()

    assert (leader.identity, leader.seen, leader.leads) == ("candidate-0", ["candidate-0"], True)
    assert election.leaders == [leader]
    assert str(leader) == "candidate-0 leads"
    (term,) = election.terms
    assert (term.identity, term.ended, [term.started]) == ("candidate-0", None, leader.acts)
    leader.stop()
    (term,) = election.terms
    assert term.ended is not None
    assert term.last_act <= term.ended < term.until
    assert (str(leader), leader.leads, election.leaders) == ("candidate-0 was stopped", False, [])


def test_configuration_of_a_candidate(elect: Callable[..., Candidates]) -> None:
    election = elect(f"print(sys.argv[1])\nsay(sees=sys.argv[1])\n{LEADS}", lease_duration="4s")
    told = json.loads(election.leader().seen[0])

    port = told.pop("port")
    assert 0 < port < 65536
    assert told == {
        "kubeconfig": "/fake/kubeconfig",
        "context": None,
        "namespace": "ci-1",
        "lease": "boss",
        "identity": "candidate-0",
        "options": {
            "lease_duration": 4.0,
            "renew_deadline": 2.0,
            "retry_period": 0.5,
            "release_on_cancel": True,
        },
    }


def test_killed_leader_stops_leading(elect: Callable[..., Candidates]) -> None:
    election = elect(LEADS)
    leader = election.leader()
    before = SYSTEM_CLOCK.monotonic()
    leader.kill()

    (term,) = election.terms
    assert not leader.leads
    assert term.ended is not None
    assert before <= term.ended < term.until
    with pytest.raises(KwaitError) as caught:
        leader.pause()
    assert str(caught.value) == "candidate-0 was killed already"
    with pytest.raises(KwaitError) as caught:
        election.leader()
    assert str(caught.value) == (
        "no candidate of lease ci-1/boss can lead: candidate-0 was killed; the lease has no holder"
    )


def test_a_paused_leader_leads_as_long_as_its_lease(
    elect: Callable[..., Candidates], monkeypatch: pytest.MonkeyPatch
) -> None:
    election = elect("say(led=now, until=now + 600); sys.stdin.readline()")
    leader = election.leader()
    leader.pause()
    assert str(leader) == "candidate-0 leads (paused)"
    expired = FakeClock(start=leader.terms[0].until)
    monkeypatch.setattr(candidates, "SYSTEM_CLOCK", expired)
    assert str(leader) == "candidate-0 competes (paused)"
    leader.resume()
    assert str(leader) == "candidate-0 competes"


def test_timeout_without_a_leader(elect: Callable[..., Candidates], cluster: FakeCluster) -> None:
    cluster.transport.objects[LEASE] = {
        "metadata": {"name": "boss"},
        "spec": {"holderIdentity": "operator"},
    }
    election = elect(f"print('no route to host', flush=True); {COMPETES}", 2)
    election[1].cut_off()
    wait.poll_immediate(0.02, 30, lambda: all(each.output for each in election))
    with pytest.raises(WaitTimeout) as caught:
        election.leader("100ms")
    assert str(caught.value) == (
        "no candidate of lease ci-1/boss led within 100ms: candidate-0 competes, "
        "candidate-1 competes (cut off); the lease is held by operator; no route to host"
    )
    election[1].reconnect()
    assert str(election[1]) == "candidate-1 competes"


def test_a_leader_is_awaited_within_the_tests_own_limit(
    elect: Callable[..., Candidates],
) -> None:
    left = TimeBudget(0.25, "the test's own timeout of 5s (pytest-timeout)")
    election = elect(COMPETES, time_budget=lambda: left)
    told: list[str] = []

    class Onlooker(WaitObserver):
        def on_start(self, wait: ActiveWait) -> None:
            told.append(wait.subject)
            assert 0.1 < wait.limit <= 0.2

        def on_end(self, wait: ActiveWait) -> None:
            told.extend((wait.text, wait.outcome))

    observer = Onlooker()
    ACTIVE_WAITS.add(observer)
    try:
        with pytest.raises(WaitTimeout) as caught:
            election.leader()
    finally:
        ACTIVE_WAITS.remove(observer)
    assert caught.value.args[0].startswith("no candidate of lease ci-1/boss led within 200ms: ")
    assert caught.value.__notes__ == [
        "its limit of 1m0s was cut to 200ms to end before the test's own timeout of 5s "
        "(pytest-timeout)"
    ]
    assert told == [
        "lease ci-1/boss",
        "lease ci-1/boss to have a leader: candidate-0 competes",
        "timed out",
    ]


@pytest.mark.parametrize(
    ("program", "outcome"),
    [(LEADS, "met"), ("", "failed early")],
    ids=["one leads", "all have ended"],
)
def test_outcome_of_a_wait_for_a_leader(
    elect: Callable[..., Candidates], program: str, outcome: str
) -> None:
    outcomes: list[str] = []

    class Onlooker(WaitObserver):
        def on_end(self, wait: ActiveWait) -> None:
            outcomes.append(wait.outcome)

    election = elect(program)
    observer = Onlooker()
    ACTIVE_WAITS.add(observer)
    try:
        with contextlib.suppress(KwaitError):
            election.leader()
    finally:
        ACTIVE_WAITS.remove(observer)
    assert outcomes == [outcome]


def test_failed_candidate_is_reported(elect: Callable[..., Candidates]) -> None:
    election = elect("sys.exit('cannot start')")
    with pytest.raises(KwaitError) as caught:
        election.leader()
    assert str(caught.value) == (
        "no candidate of lease ci-1/boss can lead: candidate-0 has ended with status 1; "
        "the lease has no holder; cannot start"
    )


def test_a_lease_is_stolen(elect: Callable[..., Candidates], cluster: FakeCluster) -> None:
    spec = {"holderIdentity": "candidate-0", "leaseDurationSeconds": 3, "leaseTransitions": 1}
    cluster.transport.objects[LEASE] = {"metadata": {"name": "boss"}, "spec": spec}
    election = elect(COMPETES)
    assert election.holder == "candidate-0"
    election.steal()
    assert cluster.transport.objects[LEASE]["spec"] == {**spec, "holderIdentity": "thief"}
    election.steal("other", "1500ms")
    assert cluster.transport.objects[LEASE]["spec"]["leaseDurationSeconds"] == 2
    assert election.holder == "other"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"number": 0}, "number=0 is not valid: use a whole number, 1 or more"),
        (
            {"lease": "Boss"},
            "name='Boss' is not valid: use a DNS name: up to 253 lower-case letters, digits, '-' "
            "and '.', with a letter or digit at both ends of each part",
        ),
        (
            {"lease_duration": 2},
            "lease_duration=2.0 is not valid: leaseDuration must be greater than renewDeadline",
        ),
        ({"release_on_cancel": 1}, "release_on_cancel=1 is not valid: use True or False"),
    ],
)
def test_invalid_arguments_are_refused(
    elect: Callable[..., Candidates], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        elect(COMPETES, **options)
    assert str(caught.value) == text


def test_requests_go_through_the_relay(tmp_path: Path) -> None:
    config = contents("one")
    config["clusters"][0]["cluster"]["server"] = "https://one.example:6443/prefix"
    client = candidate_main._make_client(written(tmp_path / "config", config), None, 4711)
    settings: Any = client.configuration
    for _ in range(2):  # the loader's hook would set it all again
        settings.auth_settings()
        assert settings.host == "https://127.0.0.1:4711/prefix"
    assert settings.tls_server_name == "one.example"
    assert settings.auth_settings()["BearerToken"]["value"] == "Bearer token-of-one"


@pytest.mark.parametrize(
    ("host", "proxy", "end"),
    [
        ("https://one.example:6443", None, ("one.example", 6443)),
        ("https://one.example", None, ("one.example", 443)),
        ("http://[::1]:8080", None, ("::1", 8080)),
        ("https://one.example:6443", "http://proxy.example:3128", ("proxy.example", 3128)),
    ],
)
def test_target_of_the_relay(host: str, proxy: str | None, end: tuple[str, int]) -> None:
    client: Any = FakeCluster().client()
    client.configuration.host, client.configuration.proxy = host, proxy
    assert candidate_main.server_endpoint(client.configuration) == end
