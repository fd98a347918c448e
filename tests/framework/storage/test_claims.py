"""Waits on claims and their volumes: verdicts, and from call to message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, TerminalState, Verdict
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.events import EventSource, LastEventStore
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.framework.storage.claims import (
    wait_for_persistent_volume_claim_deleted,
    wait_for_persistent_volume_claim_phase,
    wait_for_persistent_volume_claims_phase,
    wait_for_pvc_finalizer,
)
from pytest_kwait.framework.storage.volumes import (
    wait_for_pv_and_pvc,
    wait_for_pv_claim_bound_phase,
)
from pytest_kwait.framework.terminal_states.claims import (
    describe_claim,
    detect_claim_failure,
    storage_class_of,
)
from tests.framework.sources import enter
from tests.framework.storage.claims import bound, claim_event, claimed_volume, fast_claim, user
from tests.objects import pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

SHORT, LONG = Grace.SHORT, Grace.LONG
MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
PROTECTION = "kubernetes.io/pvc-protection"


NO_CLASS = "it asks for no storage class, and no volume fits it"
MISSING = 'ProvisioningFailed: storageclass.storage.k8s.io "fast" not found'
LOST = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"


@pytest.mark.parametrize(
    ("obj", "reported", "terminal"),
    [
        (fast_claim("Bound"), None, None),
        (fast_claim(), None, None),
        (fast_claim(None), None, None),
        (
            fast_claim("Lost"),
            None,
            TerminalState("the claim is Lost, its volume is gone or is another claim's", SHORT),
        ),
        (
            fast_claim("Lost"),
            ("ClaimLost", LOST),
            TerminalState(
                "the claim is Lost: ClaimLost: Bound claim has lost its PersistentVolume", SHORT
            ),
        ),
        (
            fast_claim("Lost"),
            ("ClaimMisbound", "Two claims are bound to the same volume"),
            TerminalState(
                "the claim is Lost: ClaimMisbound: Two claims are bound to the same volume", SHORT
            ),
        ),
        (fast_claim(spec={"storageClassName": None}), None, TerminalState(NO_CLASS, LONG)),
        (fast_claim(spec={"storageClassName": ""}), None, TerminalState(NO_CLASS, LONG)),
        (fast_claim(spec={"storageClassName": "", "volumeName": "pv-1"}), None, None),
        (
            fast_claim(),
            ("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found'),
            TerminalState(MISSING, LONG),
        ),
        (
            fast_claim(),
            ("ProvisioningFailed", "no volume plugin matched name: kubernetes.io/no-provisioner"),
            TerminalState(
                "ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner",
                LONG,
            ),
        ),
        (
            fast_claim(),
            ("ProvisioningFailed", 'failed to provision volume with StorageClass "fast": busy'),
            None,
        ),
        (fast_claim(), ("WaitForFirstConsumer", "waiting for first consumer to be created"), None),
        (fast_claim(), ("ExternalProvisioning", "Waiting for a volume to be created"), None),
        (
            fast_claim(spec={"volumeName": "pv-1"}),
            ("FailedBinding", 'volume "pv-1" already bound to a different claim.'),
            TerminalState('FailedBinding: volume "pv-1" already bound to a different claim', LONG),
        ),
        (
            fast_claim(spec={"volumeName": "pv-1"}),
            ("VolumeMismatch", 'Cannot bind to requested volume "pv-1": too small'),
            TerminalState(
                'VolumeMismatch: Cannot bind to requested volume "pv-1": too small', LONG
            ),
        ),
        ({"metadata": {"name": "data"}}, None, TerminalState(NO_CLASS, LONG)),
        (
            {"metadata": {"name": "data"}, "spec": None, "status": None},
            (None, None),
            TerminalState(NO_CLASS, LONG),
        ),
    ],
)
def test_terminal_states_of_claims(obj: Any, reported: Any, terminal: TerminalState | None) -> None:
    assert detect_claim_failure(obj, claim_event(*reported) if reported else None) == terminal


def test_classes_and_notes() -> None:
    annotations = {"volume.beta.kubernetes.io/storage-class": "old"}
    by_annotation: dict[str, Any] = {"annotations": annotations}
    assert storage_class_of(fast_claim(**by_annotation)) == "old"
    assert storage_class_of(fast_claim()) == "fast"
    assert describe_claim(fast_claim("Bound"), None) == "Bound"
    assert (
        describe_claim(fast_claim(), claim_event("Waiting", "For it. Look there."))
        == "Pending: Waiting: For it"
    )
    assert describe_claim(fast_claim(), claim_event("Waiting")) == "Pending: Waiting"
    assert (
        describe_claim(fast_claim(spec={"volumeName": "a"}), None)
        == "Pending, it asks for volume a"
    )


def test_the_last_event_is_the_one_that_happened_last() -> None:
    events = LastEventStore()
    assert events.last("uid-data") is None
    for each in (
        claim_event("Old", at="3"),
        claim_event("New", at="5"),
        claim_event("Other", at="9", uid="uid-other"),
        claim_event("Early", at="1"),
    ):
        events.put(each, b"", 0.0)
    assert (events.last("uid-data") or {})["reason"] == "New"
    events.put(claim_event("Early", at="5"), b"", 0.0)
    assert (events.last("uid-data") or {})["reason"] == "Early"
    assert sorted(events.uids()) == ["data.Early", "data.New", "data.Old", "data.Other"]
    for gone in ("data.Early", "data.New", "unknown"):
        events.drop(gone)
    assert (events.last("uid-data") or {})["reason"] == "Old"
    series = {**claim_event("Series"), "lastTimestamp": None, "series": {"lastObservedTime": "7"}}
    events.put(series, b"", 0.0)
    assert (events.last("uid-data") or {})["reason"] == "Series"
    events.put({"metadata": {"name": "x"}, "involvedObject": None}, b"", 0.0)
    events.drop("x")


def test_field_selectors_of_event_sources() -> None:
    one = EventSource(EVENTS, "ci-1", LastEventStore(), kind="Pod", about="a")
    every = EventSource(EVENTS, "ci-1", LastEventStore(), kind="Pod")

    assert one.field_selector == "involvedObject.kind=Pod,involvedObject.name=a"
    assert every.field_selector == "involvedObject.kind=Pod"
    assert (str(one), str(every)) == ("events of Pod a in ci-1", "events of Pod (all) in ci-1")


def phase(wanted: str) -> Any:
    return condition_of(wait_for_persistent_volume_claim_phase)("ci-1", "data", wanted)


def phases(wanted: str, *, match_any: bool = False) -> Any:
    return condition_of(wait_for_persistent_volume_claims_phase)(
        "ci-1", ["data", "logs"], wanted, match_any
    )


def pair() -> Any:
    return condition_of(wait_for_pv_and_pvc)("ci-1", "pv-1", "data")


def binds(*names: str) -> Any:
    return condition_of(wait_for_pv_claim_bound_phase)("ci-1", names or ["data"])


def gone(uid: str | None = None) -> Any:
    return condition_of(wait_for_persistent_volume_claim_deleted)("ci-1", "data", uid)


def finalizer(present: bool = True) -> Any:
    return condition_of(wait_for_pvc_finalizer)("ci-1", "data", PROTECTION, present)


ROWS: dict[str, tuple[Any, list[Any], Verdict]] = {
    "no claim": (phase("Bound"), [], Pending("not found yet")),
    "bound": (phase("Bound"), [bound()], Met()),
    "pending": (phase("Bound"), [fast_claim()], Pending("Pending")),
    "pending is awaited": (phase("Pending"), [fast_claim()], Met()),
    "pending is over": (phase("Pending"), [bound()], Failed("the claim is Bound already")),
    "lost is awaited": (phase("Lost"), [fast_claim("Lost")], Met()),
    "lost is awaited of a bound one": (phase("Lost"), [bound()], Pending("Bound")),
    "lost": (
        phase("Bound"),
        [fast_claim("Lost")],
        Failed("the claim is Lost, its volume is gone or is another claim's", SHORT),
    ),
    "no class": (
        phase("Bound"),
        [fast_claim(spec={"storageClassName": ""})],
        Failed(NO_CLASS, LONG),
    ),
    "a class that is missing": (
        phase("Bound"),
        [
            fast_claim(),
            claim_event("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found'),
        ],
        Failed(MISSING, LONG),
    ),
    "a class that has come since": (
        phase("Bound"),
        [
            fast_claim(),
            claim_event(
                "ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found', at="1"
            ),
            claim_event("WaitForFirstConsumer", "waiting for first consumer", at="2"),
        ],
        Pending("Pending: WaitForFirstConsumer: waiting for first consumer"),
    ),
    "a class that is missing, and pods": (
        phase("Bound"),
        [
            fast_claim(),
            claim_event("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found'),
            user("b"),
            user("a"),
            user("done", phase="Succeeded"),
            user("stranger", "logs"),
        ],
        Failed(f"{MISSING} (pods a, b wait for it)", LONG),
    ),
    "a claim of a pod's own": (
        phase("Bound"),
        [
            {**fast_claim(spec={"storageClassName": ""}), "metadata": {"name": "data"}},
            {**pod("da", "Pending"), "spec": {"volumes": [{"name": "ta", "ephemeral": {}}]}},
            {**pod("d", "Pending"), "spec": {"volumes": None}},
        ],
        Failed(NO_CLASS, LONG),
    ),
    "being deleted": (
        phase("Bound"),
        [fast_claim(deletionTimestamp="now")],
        Failed("the persistentvolumeclaim is being deleted", SHORT),
    ),
    "all of two": (phases("Bound"), [bound(), bound("logs", "pv-2")], Met()),
    "one of two": (phases("Bound"), [bound(), fast_claim(name="logs")], Pending("logs: Pending")),
    "one of two is there": (phases("Bound"), [bound()], Pending("logs: not found yet")),
    "one of two is lost": (
        phases("Bound"),
        [fast_claim(spec={"storageClassName": ""}), fast_claim("Lost", "logs")],
        Failed("logs: the claim is Lost, its volume is gone or is another claim's", SHORT),
    ),
    "any of two": (phases("Bound", match_any=True), [bound(), fast_claim("Lost", "logs")], Met()),
    "any of two, one lost": (
        phases("Bound", match_any=True),
        [fast_claim(), fast_claim("Lost", "logs")],
        Pending("data: Pending"),
    ),
    "any of two, both stuck": (
        phases("Bound", match_any=True),
        [fast_claim("Lost"), fast_claim(name="logs", spec={"storageClassName": ""})],
        Failed(f"logs: {NO_CLASS}", LONG),
    ),
    "neither": (pair(), [], Pending("not found yet")),
    "a claim without the volume": (
        pair(),
        [fast_claim(spec={"volumeName": "pv-1"})],
        Pending("Pending, it asks for volume pv-1"),
    ),
    "a pair": (pair(), [bound(), claimed_volume()], Met()),
    "a pair, the volume not Bound yet": (
        pair(),
        [bound(), claimed_volume("Available")],
        Pending("volume pv-1 is Available"),
    ),
    "a pair, the volume unseen": (pair(), [bound()], Pending("there is no volume pv-1 yet")),
    "a pair, the volume failed": (
        pair(),
        [
            bound(),
            {**claimed_volume("Failed"), "status": {"phase": "Failed", "message": "no luck"}},
        ],
        Pending("volume pv-1 is Failed: no luck"),
    ),
    "a pair, the volume named alone": (
        pair(),
        [bound(), claimed_volume("Available", uid=None)],
        Pending("volume pv-1 is Available"),
    ),
    "another volume": (pair(), [bound(volume="pv-2")], Failed("the claim has volume pv-2")),
    "another claim": (
        pair(),
        [
            fast_claim(),
            claimed_volume(name="logs", uid="uid-logs", namespace="ci-2"),
        ],
        Failed("volume pv-1 is kept for claim ci-2/logs of another UID", LONG),
    ),
    "an earlier claim of that name": (
        pair(),
        [fast_claim(), claimed_volume("Released", uid="before")],
        Failed("volume pv-1 is kept for claim ci-1/data of another UID", LONG),
    ),
    "kept for another by name": (
        pair(),
        [
            fast_claim(),
            {
                **claimed_volume("Available"),
                "spec": {"claimRef": {"namespace": "ci-1", "name": "logs"}},
            },
        ],
        Failed("volume pv-1 is kept for claim ci-1/logs", LONG),
    ),
    "a pair whose volume and claim fail": (
        pair(),
        [fast_claim(spec={"storageClassName": ""}), claimed_volume("Released", uid="before")],
        Failed("volume pv-1 is kept for claim ci-1/data of another UID", LONG),
    ),
    "a claim that is gone": (finalizer(False), [], Met()),
    "a pair whose claim fails": (
        pair(),
        [fast_claim(spec={"storageClassName": ""}), claimed_volume("Available", uid=None)],
        Failed(NO_CLASS, LONG),
    ),
    "claims and volumes": (
        binds("data", "logs"),
        [
            bound(),
            bound("logs", "pv-2"),
            claimed_volume(),
            claimed_volume(called="pv-2", name="logs", uid="uid-logs"),
        ],
        Met(),
    ),
    "claims and volumes, one late": (
        binds("data", "logs"),
        [bound(), bound("logs", "pv-2"), claimed_volume()],
        Pending("logs: there is no volume pv-2 yet"),
    ),
    "a bound claim that names no volume": (
        binds(),
        [fast_claim("Bound")],
        Pending("Bound, to no volume by name"),
    ),
    "a claim without volume": (binds(), [fast_claim()], Pending("Pending")),
    "gone": (gone(), [], Met()),
    "another": (gone("before"), [fast_claim()], Met()),
    "there": (gone(), [bound()], Pending("still there, not being deleted")),
    "held": (
        gone(),
        [fast_claim("Bound", deletionTimestamp="now", finalizers=[PROTECTION, "a/b"])],
        Pending(f"being deleted, held by {PROTECTION} and a/b"),
    ),
    "held by a pod": (
        gone(),
        [
            fast_claim("Bound", deletionTimestamp="now", finalizers=[PROTECTION]),
            user("a", phase="Running"),
        ],
        Pending(f"being deleted, held by {PROTECTION} (used by pod a)"),
    ),
    "held by pods": (
        gone(),
        [
            fast_claim("Bound", deletionTimestamp="now", finalizers=[PROTECTION]),
            user("a", phase="Running"),
            user("b", phase="Running"),
        ],
        Pending(f"being deleted, held by {PROTECTION} (used by pods a, b)"),
    ),
    "protected": (finalizer(), [fast_claim(finalizers=[PROTECTION])], Met()),
    "not protected": (finalizer(), [fast_claim()], Pending(f"{PROTECTION} is not there")),
    "protected still": (
        finalizer(False),
        [fast_claim(finalizers=[PROTECTION])],
        Pending(f"{PROTECTION} is still there"),
    ),
}


def enter_all(awaited: Any, objects: list[Any]) -> None:
    """Enter each object where its kind is looked at."""
    for obj in objects:
        positions = {source.resource.kind: at for at, source in enumerate(awaited.sources())}
        kind = "PersistentVolumeClaim"
        if "involvedObject" in obj:
            kind = "Event"
        elif "claimRef" in obj["spec"]:
            for position, source in enumerate(awaited.sources()):
                if (source.resource, source.name) == (PERSISTENT_VOLUMES, obj["metadata"]["name"]):
                    enter(awaited, obj, position=position)
            continue
        elif "volumes" in obj["spec"]:
            kind = "Pod"
        enter(awaited, obj, position=positions[kind])


@pytest.mark.parametrize("name", ROWS)
def test_verdict(name: str) -> None:
    awaited, objects, verdict = ROWS[name]
    enter_all(awaited, objects)

    assert awaited.verdict() == verdict


def test_a_claim_that_was_deleted_while_it_was_awaited() -> None:
    awaited = phase("Bound")
    enter_all(awaited, [fast_claim()])
    awaited.sources()[0].sink.drop("uid-data")
    awaited.sources()[0].sink.drop("unknown")

    assert awaited.verdict() == Failed("the persistentvolumeclaim was deleted")


def test_users_are_forgotten() -> None:
    awaited = phase("Bound")
    enter_all(awaited, [fast_claim(spec={"storageClassName": ""}), user("a")])
    assert awaited.scope().pod_names == ("a",)
    awaited.users.drop("uid-a")
    awaited.users.drop("unknown")

    assert awaited.scope().pod_names == ()
    assert not awaited.users.uids()


@MODES
def test_phase(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim())
    session.at(2, session.put, PERSISTENT_VOLUME_CLAIMS, bound())

    found = kw.wait_for_persistent_volume_claim_phase(client, "ci-1", "data", "Bound", mode=mode)

    assert (found["kind"], found["status"]["phase"]) == ("PersistentVolumeClaim", "Bound")
    assert session.clock.monotonic() == 2.0
    if mode == "watch":
        assert len(session.requests) == 4


@MODES
def test_phases(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, bound())
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim(name="logs"))
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim("Lost", "stranger"))
    session.at(2, session.put, PERSISTENT_VOLUME_CLAIMS, bound("logs", "pv-2"))
    names = ["logs", "data"]

    some = kw.wait_for_persistent_volume_claims_phase(
        client, "ci-1", names, "Bound", match_any=True, mode=mode
    )
    every = kw.wait_for_persistent_volume_claims_phase(client, "ci-1", names, "Bound", mode=mode)
    one = kw.wait_for_persistent_volume_claims_phase(client, "ci-1", ["data"], "Bound", mode=mode)

    assert [each["metadata"]["name"] for each in some] == ["data"]
    assert [each["metadata"]["name"] for each in every] == names
    assert len(one) == 1


@MODES
def test_claims_that_are_created_anew_may_be_followed_by_name(
    client: ApiClient, session: FakeSession, mode: Any
) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, bound())
    other = {"metadata": {"name": "data", "uid": "old"}}
    session.put(PERSISTENT_VOLUMES, claimed_volume())

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_persistent_volume_claims_phase(client, "ci-1", [other], "Bound", mode=mode)
    assert ("follow_name=True waits for a new persistentvolumeclaim of this name") in str(
        caught.value
    )
    assert kw.wait_for_persistent_volume_claims_phase(
        client, "ci-1", [other], "Bound", mode=mode, follow_name=True
    )


@MODES
def test_bound_to_each_other(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim())
    session.put(PERSISTENT_VOLUMES, claimed_volume("Available", uid=None))
    session.at(2, session.put, PERSISTENT_VOLUME_CLAIMS, bound())
    session.at(4, session.put, PERSISTENT_VOLUMES, claimed_volume())

    both = kw.wait_for_pv_and_pvc(client, "ci-1", "pv-1", "data", mode=mode)
    (found,) = kw.wait_for_pv_claim_bound_phase(client, "ci-1", ["data"], mode=mode)

    assert [each["kind"] for each in both] == ["PersistentVolume", "PersistentVolumeClaim"]
    assert found == both[0]
    assert session.clock.monotonic() == 4.0


@MODES
def test_deleted_and_finalizer(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim(finalizers=[PROTECTION]))
    going = fast_claim(finalizers=[PROTECTION], deletionTimestamp="now")
    session.at(2, session.put, PERSISTENT_VOLUME_CLAIMS, going)
    session.at(4, session.drop, PERSISTENT_VOLUME_CLAIMS, "data")

    found = kw.wait_for_pvc_finalizer(client, "ci-1", "data", PROTECTION, mode=mode)
    assert found is not None
    assert found["metadata"]["finalizers"] == [PROTECTION]
    lost = kw.wait_for_pvc_finalizer(client, "ci-1", "data", PROTECTION, False, mode=mode)
    assert lost is None
    assert session.clock.monotonic() == 4.0
    kw.wait_for_persistent_volume_claim_deleted(client, "ci-1", "data", mode=mode)


def test_a_claim_with_a_class_that_is_missing_says_so(
    client: ApiClient, session: FakeSession
) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim())
    reported = claim_event("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found')
    session.put(EVENTS, {**reported, "type": "Warning"})
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    facts = {"message": "pod has unbound immediate PersistentVolumeClaims", **waiting}
    session.put(PODS, {**user("web"), "status": {"phase": "Pending", "conditions": [facts]}})
    session.put(PODS, user("stranger", "logs"))

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_persistent_volume_claim_phase(client, "ci-1", "data", "Bound")

    assert session.clock.monotonic() == 45.0
    assert str(caught.value) == (
        "persistentvolumeclaim ci-1/data can no longer get to phase Bound: ProvisioningFailed:\n"
        '    storageclass.storage.k8s.io "fast" not found (pod web waits for it)\n'
        "  awaited   persistentvolumeclaim ci-1/data to get to phase Bound\n"
        "  limit     3m0s, ended after 45s (watch mode)\n"
        "  seen      Pending\n"
        "  timeline\n"
        "       0.0s  final if it holds for 45s: ProvisioningFailed: storageclass.storage.k8s.io "
        '"...\n'
        '      45.0s  ProvisioningFailed: storageclass.storage.k8s.io "fast" not found (pod web '
        "wa...\n"
        "  pods\n"
        "    web Pending, on no node: Unschedulable: pod has unbound immediate "
        "PersistentVolumeClaims\n"
        "  unbound claims\n"
        '    data, class fast: ProvisioningFailed: storageclass.storage.k8s.io "fast" not found\n'
        "  try: kubectl --namespace ci-1 describe pod/web"
    )


def test_a_lost_claim_says_so(client: ApiClient, session: FakeSession) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim("Lost"))
    session.put(EVENTS, claim_event("ClaimLost", LOST))

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_pv_and_pvc(client, "ci-1", "pv-1", "data")

    assert session.clock.monotonic() == 5.0
    assert caught.value.args == (
        "persistentvolumeclaim ci-1/data can no longer become bound to volume pv-1: the claim is "
        "Lost: ClaimLost: Bound claim has lost its PersistentVolume",
    )


HEADLINES = [
    (
        "wait_for_persistent_volume_claim_phase",
        ("data", "Lost"),
        "persistentvolumeclaim ci-1/data did not get to phase Lost within 2s: Pending",
    ),
    (
        "wait_for_persistent_volume_claims_phase",
        (["data", "b", "c", "d"], "Bound"),
        "persistentvolumeclaims data, b, c and 1 more in ci-1 did not get to phase Bound (all) "
        "within 2s: data: Pending",
    ),
    (
        "wait_for_persistent_volume_claims_phase",
        (["data", "b"], "Bound", True),
        "persistentvolumeclaims data, b in ci-1 did not get to phase Bound (any) within 2s: data: "
        "Pending",
    ),
    (
        "wait_for_persistent_volume_claim_deleted",
        ("data",),
        "persistentvolumeclaim ci-1/data did not go away within 2s: still there, not being deleted",
    ),
    (
        "wait_for_pvc_finalizer",
        ("data", "a/b"),
        "persistentvolumeclaim ci-1/data did not have finalizer a/b within 2s: a/b is not there",
    ),
    (
        "wait_for_pv_and_pvc",
        ("pv-1", "data"),
        "persistentvolumeclaim ci-1/data did not become bound to volume pv-1 within 2s: Pending",
    ),
    (
        "wait_for_pv_claim_bound_phase",
        (["data"],),
        "persistentvolumeclaim ci-1/data did not become bound within 2s: Pending",
    ),
]


@pytest.mark.parametrize(("name", "arguments", "headline"), HEADLINES)
def test_headlines(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, headline: str
) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim())

    with pytest.raises(WaitTimeout) as caught:
        getattr(kw, name)(client, "ci-1", *arguments, timeout=2)

    assert caught.value.args == (headline,)


CLAIM = "PersistentVolumeClaim"
LIST = f"use names or objects of kind {CLAIM}, or a list of these, such as a {CLAIM}List"
BAD: list[tuple[str, tuple[Any, ...], str]] = [
    (
        "wait_for_persistent_volume_claim_phase",
        ("data", "bound"),
        "phase='bound' is not valid: use Pending, Bound, Lost",
    ),
    (
        "wait_for_persistent_volume_claims_phase",
        ([], "Bound"),
        f"claims=[] is not valid: at least one {CLAIM} is needed",
    ),
    (
        "wait_for_persistent_volume_claims_phase",
        (b"data", "Bound"),
        f"claims=b'data' is not valid: {LIST}",
    ),
    (
        "wait_for_persistent_volume_claims_phase",
        (["data"], "Bound", 1),
        "match_any=1 is not valid: use True or False",
    ),
    (
        "wait_for_pv_claim_bound_phase",
        ([{"metadata": None}],),
        f"claims=<object without a name> is not valid: {LIST}",
    ),
    (
        "wait_for_pvc_finalizer",
        ("data", ""),
        "finalizer='' is not valid: use a text",
    ),
    (
        "wait_for_pvc_finalizer",
        ("data", "a/b", None),
        "present=None is not valid: use True or False",
    ),
    ("wait_for_persistent_volume_claim_deleted", ("data", ""), "uid='' is not valid: use a text"),
]


@pytest.mark.parametrize(("name", "arguments", "text"), BAD)
def test_bad_input(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, text: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        getattr(kw, name)(client, "ci-1", *arguments)

    assert str(caught.value) == text
    assert session.requests == []


def test_names(client: ApiClient, session: FakeSession) -> None:
    for name in ("wait_for_persistent_volume_claim_phase", "wait_for_pv_and_pvc"):
        for namespace, first, second in (("CI", "a", "Bound"), ("ci-1", "A", "Bound")):
            with pytest.raises(InvalidArgument):
                getattr(kw, name)(client, namespace, first, second)
    with pytest.raises(InvalidArgument, match="namespace='CI' is not valid"):
        kw.wait_for_persistent_volume_claim_deleted(client, "CI", "a")
    with pytest.raises(InvalidArgument, match="claim='A' is not valid"):
        kw.wait_for_pvc_finalizer(client, "ci-1", "A", "a/b")
    assert session.requests == []
