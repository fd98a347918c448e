"""Waits on claims and their volumes: verdicts, and from call to message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
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
from tests.engine.fake_session import pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Source
    from tests.engine.fake_session import FakeSession

SHORT, LONG = Grace.SHORT, Grace.LONG
MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
PROTECTION = "kubernetes.io/pvc-protection"


def claim(phase: str | None = "Pending", name: str = "data", **more: Any) -> Any:
    spec = {"storageClassName": "fast", **more.pop("spec", {})}
    return {"metadata": {"name": name, **more}, "spec": spec, "status": {"phase": phase}}


def bound(name: str = "data", volume: str = "pv-1") -> Any:
    return claim("Bound", name, spec={"volumeName": volume})


def volume(phase: str = "Bound", *, called: str = "pv-1", **ref: Any) -> Any:
    held = {"namespace": "ci-1", "name": "data", "uid": "uid-data", **ref}
    return {
        "metadata": {"name": called},
        "spec": {"claimRef": held},
        "status": {"phase": phase},
    }


def event(reason: str, message: str | None = None, at: str = "1", **more: Any) -> Any:
    name = more.pop("name", f"data.{reason}")
    about = {"kind": "PersistentVolumeClaim", "name": "data", "uid": "uid-data"}
    return {
        "metadata": {"name": name},
        "involvedObject": {**about, **more},
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


def user(name: str, claim_name: str = "data", phase: str = "Pending") -> Any:
    uses = {"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}
    return {**pod(name, phase), "spec": {"volumes": [{"name": "other"}, uses]}}


NO_CLASS = "it asks for no storage class, and no volume fits it"
MISSING = 'ProvisioningFailed: storageclass.storage.k8s.io "fast" not found'
LOST = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"


@pytest.mark.parametrize(
    ("obj", "reported", "terminal"),
    [
        (claim("Bound"), None, None),
        (claim(), None, None),
        (claim(None), None, None),
        (
            claim("Lost"),
            None,
            TerminalState("the claim is Lost, its volume is gone or is another claim's", SHORT),
        ),
        (
            claim("Lost"),
            ("ClaimLost", LOST),
            TerminalState(
                "the claim is Lost: ClaimLost: Bound claim has lost its PersistentVolume", SHORT
            ),
        ),
        (
            claim("Lost"),
            ("ClaimMisbound", "Two claims are bound to the same volume"),
            TerminalState(
                "the claim is Lost: ClaimMisbound: Two claims are bound to the same volume", SHORT
            ),
        ),
        (claim(spec={"storageClassName": None}), None, TerminalState(NO_CLASS, LONG)),
        (claim(spec={"storageClassName": ""}), None, TerminalState(NO_CLASS, LONG)),
        (claim(spec={"storageClassName": "", "volumeName": "pv-1"}), None, None),
        (
            claim(),
            ("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found'),
            TerminalState(MISSING, LONG),
        ),
        (
            claim(),
            ("ProvisioningFailed", "no volume plugin matched name: kubernetes.io/no-provisioner"),
            TerminalState(
                "ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner",
                LONG,
            ),
        ),
        (
            claim(),
            ("ProvisioningFailed", 'failed to provision volume with StorageClass "fast": busy'),
            None,
        ),
        (claim(), ("WaitForFirstConsumer", "waiting for first consumer to be created"), None),
        (claim(), ("ExternalProvisioning", "Waiting for a volume to be created"), None),
        (
            claim(spec={"volumeName": "pv-1"}),
            ("FailedBinding", 'volume "pv-1" already bound to a different claim.'),
            TerminalState('FailedBinding: volume "pv-1" already bound to a different claim', LONG),
        ),
        (
            claim(spec={"volumeName": "pv-1"}),
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
    assert detect_claim_failure(obj, event(*reported) if reported else None) == terminal


def test_classes_and_notes() -> None:
    annotations = {"volume.beta.kubernetes.io/storage-class": "old"}
    by_annotation: dict[str, Any] = {"annotations": annotations}
    assert storage_class_of(claim(**by_annotation)) == "old"
    assert storage_class_of(claim()) == "fast"
    assert describe_claim(claim("Bound"), None) == "Bound"
    assert (
        describe_claim(claim(), event("Waiting", "For it. Look there."))
        == "Pending: Waiting: For it"
    )
    assert describe_claim(claim(), event("Waiting")) == "Pending: Waiting"
    assert describe_claim(claim(spec={"volumeName": "a"}), None) == "Pending, it asks for volume a"


def test_the_last_event_is_the_one_that_happened_last() -> None:
    events = LastEventStore()
    assert events.last("uid-data") is None
    for each in (
        event("Old", at="3"),
        event("New", at="5"),
        event("Other", at="9", uid="uid-other"),
        event("Early", at="1"),
    ):
        events.put(each, b"", 0.0)
    assert (events.last("uid-data") or {})["reason"] == "New"
    events.put(event("Early", at="5"), b"", 0.0)
    assert (events.last("uid-data") or {})["reason"] == "Early"
    assert sorted(events.uids()) == ["data.Early", "data.New", "data.Old", "data.Other"]
    for gone in ("data.Early", "data.New", "unknown"):
        events.drop(gone)
    assert (events.last("uid-data") or {})["reason"] == "Old"
    series = {**event("Series"), "lastTimestamp": None, "series": {"lastObservedTime": "7"}}
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
    "pending": (phase("Bound"), [claim()], Pending("Pending")),
    "pending is awaited": (phase("Pending"), [claim()], Met()),
    "pending is over": (phase("Pending"), [bound()], Failed("the claim is Bound already")),
    "lost is awaited": (phase("Lost"), [claim("Lost")], Met()),
    "lost is awaited of a bound one": (phase("Lost"), [bound()], Pending("Bound")),
    "lost": (
        phase("Bound"),
        [claim("Lost")],
        Failed("the claim is Lost, its volume is gone or is another claim's", SHORT),
    ),
    "no class": (phase("Bound"), [claim(spec={"storageClassName": ""})], Failed(NO_CLASS, LONG)),
    "a class that is missing": (
        phase("Bound"),
        [claim(), event("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found')],
        Failed(MISSING, LONG),
    ),
    "a class that has come since": (
        phase("Bound"),
        [
            claim(),
            event("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found', at="1"),
            event("WaitForFirstConsumer", "waiting for first consumer", at="2"),
        ],
        Pending("Pending: WaitForFirstConsumer: waiting for first consumer"),
    ),
    "a class that is missing, and pods": (
        phase("Bound"),
        [
            claim(),
            event("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found'),
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
            {**claim(spec={"storageClassName": ""}), "metadata": {"name": "data"}},
            {**pod("da", "Pending"), "spec": {"volumes": [{"name": "ta", "ephemeral": {}}]}},
            {**pod("d", "Pending"), "spec": {"volumes": None}},
        ],
        Failed(NO_CLASS, LONG),
    ),
    "being deleted": (
        phase("Bound"),
        [claim(deletionTimestamp="now")],
        Failed("the persistentvolumeclaim is being deleted", SHORT),
    ),
    "all of two": (phases("Bound"), [bound(), bound("logs", "pv-2")], Met()),
    "one of two": (phases("Bound"), [bound(), claim(name="logs")], Pending("logs: Pending")),
    "one of two is there": (phases("Bound"), [bound()], Pending("logs: not found yet")),
    "one of two is lost": (
        phases("Bound"),
        [claim(spec={"storageClassName": ""}), claim("Lost", "logs")],
        Failed("logs: the claim is Lost, its volume is gone or is another claim's", SHORT),
    ),
    "any of two": (phases("Bound", match_any=True), [bound(), claim("Lost", "logs")], Met()),
    "any of two, one lost": (
        phases("Bound", match_any=True),
        [claim(), claim("Lost", "logs")],
        Pending("data: Pending"),
    ),
    "any of two, both stuck": (
        phases("Bound", match_any=True),
        [claim("Lost"), claim(name="logs", spec={"storageClassName": ""})],
        Failed(f"logs: {NO_CLASS}", LONG),
    ),
    "neither": (pair(), [], Pending("not found yet")),
    "a claim without the volume": (
        pair(),
        [claim(spec={"volumeName": "pv-1"})],
        Pending("Pending, it asks for volume pv-1"),
    ),
    "a pair": (pair(), [bound(), volume()], Met()),
    "a pair, the volume not Bound yet": (
        pair(),
        [bound(), volume("Available")],
        Pending("volume pv-1 is Available"),
    ),
    "a pair, the volume unseen": (pair(), [bound()], Pending("there is no volume pv-1 yet")),
    "a pair, the volume failed": (
        pair(),
        [bound(), {**volume("Failed"), "status": {"phase": "Failed", "message": "no luck"}}],
        Pending("volume pv-1 is Failed: no luck"),
    ),
    "a pair, the volume named alone": (
        pair(),
        [bound(), volume("Available", uid=None)],
        Pending("volume pv-1 is Available"),
    ),
    "another volume": (pair(), [bound(volume="pv-2")], Failed("the claim has volume pv-2")),
    "another claim": (
        pair(),
        [
            claim(),
            volume(name="logs", uid="uid-logs", namespace="ci-2"),
        ],
        Failed("volume pv-1 is kept for claim ci-2/logs of another UID", LONG),
    ),
    "an earlier claim of that name": (
        pair(),
        [claim(), volume("Released", uid="before")],
        Failed("volume pv-1 is kept for claim ci-1/data of another UID", LONG),
    ),
    "kept for another by name": (
        pair(),
        [
            claim(),
            {**volume("Available"), "spec": {"claimRef": {"namespace": "ci-1", "name": "logs"}}},
        ],
        Failed("volume pv-1 is kept for claim ci-1/logs", LONG),
    ),
    "a pair whose volume and claim fail": (
        pair(),
        [claim(spec={"storageClassName": ""}), volume("Released", uid="before")],
        Failed("volume pv-1 is kept for claim ci-1/data of another UID", LONG),
    ),
    "a claim that is gone": (finalizer(False), [], Met()),
    "a pair whose claim fails": (
        pair(),
        [claim(spec={"storageClassName": ""}), volume("Available", uid=None)],
        Failed(NO_CLASS, LONG),
    ),
    "claims and volumes": (
        binds("data", "logs"),
        [
            bound(),
            bound("logs", "pv-2"),
            volume(),
            volume(called="pv-2", name="logs", uid="uid-logs"),
        ],
        Met(),
    ),
    "claims and volumes, one late": (
        binds("data", "logs"),
        [bound(), bound("logs", "pv-2"), volume()],
        Pending("logs: there is no volume pv-2 yet"),
    ),
    "a bound claim that names no volume": (
        binds(),
        [claim("Bound")],
        Pending("Bound, to no volume by name"),
    ),
    "a claim without volume": (binds(), [claim()], Pending("Pending")),
    "gone": (gone(), [], Met()),
    "another": (gone("before"), [claim()], Met()),
    "there": (gone(), [bound()], Pending("still there, not being deleted")),
    "held": (
        gone(),
        [claim("Bound", deletionTimestamp="now", finalizers=[PROTECTION, "a/b"])],
        Pending(f"being deleted, held by {PROTECTION} and a/b"),
    ),
    "held by a pod": (
        gone(),
        [
            claim("Bound", deletionTimestamp="now", finalizers=[PROTECTION]),
            user("a", phase="Running"),
        ],
        Pending(f"being deleted, held by {PROTECTION} (used by pod a)"),
    ),
    "held by pods": (
        gone(),
        [
            claim("Bound", deletionTimestamp="now", finalizers=[PROTECTION]),
            user("a", phase="Running"),
            user("b", phase="Running"),
        ],
        Pending(f"being deleted, held by {PROTECTION} (used by pods a, b)"),
    ),
    "protected": (finalizer(), [claim(finalizers=[PROTECTION])], Met()),
    "not protected": (finalizer(), [claim()], Pending(f"{PROTECTION} is not there")),
    "protected still": (
        finalizer(False),
        [claim(finalizers=[PROTECTION])],
        Pending(f"{PROTECTION} is still there"),
    ),
}


def enter(awaited: Any, objects: list[Any]) -> None:
    """Put each object into the book of its kind, as far as that is looked at."""
    for obj in objects:
        about: dict[str, Source] = {each.resource.kind: each for each in awaited.sources()}
        uid = f"uid-{obj['metadata']['name']}"
        whole = {**obj, "metadata": {"uid": uid, **obj["metadata"]}}
        kind = "PersistentVolumeClaim"
        if "involvedObject" in obj:
            kind = "Event"
        elif "claimRef" in obj["spec"]:
            for each in awaited.sources():
                if each.name == obj["metadata"]["name"] and each.resource == PERSISTENT_VOLUMES:
                    each.sink.put(whole, msgspec.json.encode(whole), 0.0)
            continue
        elif "volumes" in obj["spec"]:
            kind = "Pod"
        about[kind].sink.put(whole, msgspec.json.encode(whole), 0.0)


@pytest.mark.parametrize("name", ROWS)
def test_verdict(name: str) -> None:
    awaited, objects, verdict = ROWS[name]
    enter(awaited, objects)

    assert awaited.verdict() == verdict


def test_a_claim_that_was_deleted_while_it_was_awaited() -> None:
    awaited = phase("Bound")
    enter(awaited, [claim()])
    awaited.sources()[0].sink.drop("uid-data")
    awaited.sources()[0].sink.drop("unknown")

    assert awaited.verdict() == Failed("the persistentvolumeclaim was deleted")


def test_users_are_forgotten() -> None:
    awaited = phase("Bound")
    enter(awaited, [claim(spec={"storageClassName": ""}), user("a")])
    assert awaited.scope().pod_names == ("a",)
    awaited.users.drop("uid-a")
    awaited.users.drop("unknown")

    assert awaited.scope().pod_names == ()
    assert not awaited.users.uids()


@MODES
def test_phase(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, claim())
    session.at(2, session.put, PERSISTENT_VOLUME_CLAIMS, bound())

    found = kw.wait_for_persistent_volume_claim_phase(client, "ci-1", "data", "Bound", mode=mode)

    assert (found["kind"], found["status"]["phase"]) == ("PersistentVolumeClaim", "Bound")
    assert session.clock.monotonic() == 2.0
    if mode == "watch":
        assert len(session.requests) == 4


@MODES
def test_phases(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, bound())
    session.put(PERSISTENT_VOLUME_CLAIMS, claim(name="logs"))
    session.put(PERSISTENT_VOLUME_CLAIMS, claim("Lost", "stranger"))
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
def test_bound_to_each_other(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, claim())
    session.put(PERSISTENT_VOLUMES, volume("Available", uid=None))
    session.at(2, session.put, PERSISTENT_VOLUME_CLAIMS, bound())
    session.at(4, session.put, PERSISTENT_VOLUMES, volume())

    both = kw.wait_for_pv_and_pvc(client, "ci-1", "pv-1", "data", mode=mode)
    (found,) = kw.wait_for_pv_claim_bound_phase(client, "ci-1", ["data"], mode=mode)

    assert [each["kind"] for each in both] == ["PersistentVolume", "PersistentVolumeClaim"]
    assert found == both[0]
    assert session.clock.monotonic() == 4.0


@MODES
def test_deleted_and_finalizer(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.put(PERSISTENT_VOLUME_CLAIMS, claim(finalizers=[PROTECTION]))
    going = claim(finalizers=[PROTECTION], deletionTimestamp="now")
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
    session.put(PERSISTENT_VOLUME_CLAIMS, claim())
    reported = event("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found')
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
    session.put(PERSISTENT_VOLUME_CLAIMS, claim("Lost"))
    session.put(EVENTS, event("ClaimLost", LOST))

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
    session.put(PERSISTENT_VOLUME_CLAIMS, claim())

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
