"""Waits that ask the API server: served definitions and answering webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import (
    CUSTOM_RESOURCE_DEFINITIONS,
    ENDPOINT_SLICES,
    PODS,
    SERVICES,
)
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, WaitObserver
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.cluster.webhooks import (
    UncalledWebhook,
    WriteErrors,
    build_probe,
    parse_uncalled_webhook,
    wait_for_webhook_ready,
)
from pytest_kwait.framework.registry import condition_of
from tests.engine.fake_session import FakeSession
from tests.objects import condition, definition, pod, served_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.active_waits import ActiveWait
    from pytest_kwait.engine.options import WaitOptions
    from tests.framework.fake_server import FakeServer

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])


CRD = "widgets.example.com"
V1, V2 = f"/apis/example.com/v1/{CRD[:7]}", f"/apis/example.com/v2/{CRD[:7]}"


def widgets(*conditions: Any, served: bool = True, **fields: Any) -> dict[str, Any]:
    served_in = {"v1": served, "v2": served, "v0": False}
    versions = [served_version(name, served=value) for name, value in served_in.items()]
    return definition(versions=versions, conditions=list(conditions) or None, **fields)


ESTABLISHED = (condition("NamesAccepted"), condition("Established"))


@MODES
def test_a_definition_that_is_served_in_the_end(
    client: ApiClient, session: FakeSession, server: FakeServer, mode: Any
) -> None:
    session.put(CUSTOM_RESOURCE_DEFINITIONS, widgets())
    session.at(1, session.put, CUSTOM_RESOURCE_DEFINITIONS, widgets(*ESTABLISHED))
    session.at(2, server.answers.update, {V1: {}})
    session.at(3, server.answers.update, {V2: {}})
    session.at(4, server.discovered.add, "widgets.v1.example.com")
    session.at(5, server.discovered.add, "widgets.v2.example.com")

    crd = kw.wait_for_crd_established(client, CRD, mode=mode)

    assert crd["kind"] == "CustomResourceDefinition"
    assert session.clock.monotonic() == pytest.approx(5.0, abs=0.11)
    assert server.asked[0][:2] == (f"GET {V1}", {"limit": 1})


@pytest.mark.parametrize(
    ("obj", "answers", "reason"),
    [
        (None, {}, "not found yet"),
        (widgets(), {}, "no condition Established yet"),
        (
            widgets(condition("Established", "False", reason="Installing")),
            {},
            "Established is False: Installing",
        ),
        (
            widgets(*ESTABLISHED),
            {V1: {}},
            "v2 is not served yet: page not found",
        ),
        (
            widgets(*ESTABLISHED),
            {V1: ApiError("conversion webhook failed", status=500)},
            "v1 is not served yet: conversion webhook failed",
        ),
        (widgets(*ESTABLISHED), {V1: {}, V2: {}}, "discovery does not tell of v1 yet"),
        (
            widgets(condition("Established", observedGeneration=1), generation=2),
            {},
            "Established is of generation 1, not yet of 2",
        ),
    ],
)
def test_definitions_that_are_not_served(
    client: ApiClient, session: FakeSession, server: FakeServer, obj: Any, answers: Any, reason: str
) -> None:
    if obj is not None:
        session.put(CUSTOM_RESOURCE_DEFINITIONS, obj)
    server.answers.update(answers)

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_crd_established(client, CRD, timeout=2)

    assert caught.value.args == (
        f"customresourcedefinition {CRD} did not get established and served within 2s: {reason}",
    )


@pytest.mark.parametrize(
    ("obj", "after", "reason"),
    [
        (
            widgets(
                condition("NamesAccepted", "False", reason="KindConflict", message='"Widget"\nin'),
                condition("Established", "False"),
            ),
            45.0,
            'its names are not accepted: KindConflict: "Widget" in',
        ),
        (widgets(*ESTABLISHED, served=False), 45.0, "it serves no version"),
        (
            widgets(*ESTABLISHED, deletionTimestamp="now"),
            5.0,
            "the customresourcedefinition is being deleted",
        ),
    ],
)
def test_definitions_that_fail_early(
    client: ApiClient, session: FakeSession, server: FakeServer, obj: Any, after: float, reason: str
) -> None:
    session.put(CUSTOM_RESOURCE_DEFINITIONS, obj)

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_crd_established(client, CRD)

    assert caught.value.args == (
        f"customresourcedefinition {CRD} can no longer get established and served: {reason}",
    )
    assert session.clock.monotonic() == after


def test_a_version_added_to_a_definition_is_requested(
    client: ApiClient, session: FakeSession, server: FakeServer
) -> None:
    one = widgets(*ESTABLISHED)
    one["spec"] = {**one["spec"], "versions": one["spec"]["versions"][:1]}
    session.put(CUSTOM_RESOURCE_DEFINITIONS, one)
    server.answers[V1] = {}
    server.discovered.update(("widgets.v1.example.com", "widgets.v2.example.com"))
    session.at(1, session.put, CUSTOM_RESOURCE_DEFINITIONS, widgets(*ESTABLISHED))
    session.at(4, server.answers.update, {V2: {}})

    kw.wait_for_crd_established(client, CRD, stable_for="2s")

    assert session.clock.monotonic() == pytest.approx(6.0, abs=0.25)


def test_objects_that_may_not_be_listed(
    client: ApiClient, session: FakeSession, server: FakeServer
) -> None:
    session.put(CUSTOM_RESOURCE_DEFINITIONS, widgets(*ESTABLISHED))
    server.answers[V1] = ApiError("no", status=403, reason="Forbidden")

    with pytest.raises(ApiError, match="no"):
        kw.wait_for_crd_established(client, CRD)
    with pytest.raises(InvalidArgument) as caught:
        kw.wait_for_crd_established(client, "widgets")
    assert str(caught.value) == (
        "crd='widgets' is not valid: use <plural>.<group>, for example widgets.my.org"
    )


CONFIG_MAP_RULE = {
    "operations": ["CREATE", "UPDATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}
HOOK = {"name": "w.example.com", "rules": [CONFIG_MAP_RULE]}
NAME = "validatingwebhookconfiguration/guard"
MAPS = "/api/v1/namespaces/ci-1/configmaps"
GUARD = condition_of(wait_for_webhook_ready)("ci-1", NAME).sources()[0].resource


def guard(**changes: Any) -> dict[str, Any]:
    return {"metadata": {"name": "guard"}, "webhooks": [{**HOOK, **changes}]}


def denied(name: str = "w.example.com", why: str = "not today") -> ApiError:
    return ApiError(f'admission webhook "{name}" denied the request: {why}', status=403)


UNREACHED = ApiError(
    'Internal error occurred: failed calling webhook "w.example.com": connection refused',
    status=500,
)


@MODES
def test_a_webhook_that_answers_in_the_end(
    client: ApiClient, session: FakeSession, server: FakeServer, mode: Any
) -> None:
    session.at(1, session.put, GUARD, guard(objectSelector={"matchLabels": {"a": "b"}}))
    server.answers[MAPS] = UNREACHED
    session.at(3, server.answers.update, {MAPS: denied()})

    found = kw.wait_for_webhook_ready(client, "ci-1", NAME, mode=mode)

    assert found["metadata"]["name"] == "guard"
    assert session.clock.monotonic() == pytest.approx(3.0, abs=0.11)
    method, query, body = server.asked[0]
    assert (method, query["dryRun"]) == (f"POST {MAPS}", "All")
    assert body == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"generateName": "kwait-probe-", "labels": {"a": "b"}},
    }


@MODES
def test_a_webhook_that_lets_everything_through(
    client: ApiClient, session: FakeSession, server: FakeServer, mode: Any
) -> None:
    """For a second without a break, as the server may not have heard of it before."""
    session.put(GUARD, guard())
    server.answers[MAPS] = {"kind": "ConfigMap"}
    session.at(0.45, server.answers.update, {MAPS: UNREACHED})
    session.at(0.75, server.answers.update, {MAPS: {}})

    kw.wait_for_webhook_ready(client, "ci-1", NAME, mode=mode)

    assert session.clock.monotonic() == pytest.approx(1.8, abs=0.11)


SEEN = {"metadata": {"annotations": {"seen": "yes"}}}


@pytest.mark.parametrize(
    ("options", "answer", "reason"),
    [
        (
            {},
            UNREACHED,
            'Internal error occurred: failed calling webhook "w.example.com": connection refused',
        ),
        (
            {},
            denied("other"),
            'the probe was refused otherwise: admission webhook "other" denied '
            "the request: not today",
        ),
        (
            {"denial": "Monday"},
            denied(),
            "the probe was refused otherwise: admission webhook "
            '"w.example.com" denied the request: not today',
        ),
        ({"denial": "Monday"}, {}, "the probe was let through, not refused"),
        (
            {"mutation": SEEN},
            denied(),
            'the probe was refused: admission webhook "w.example.com" '
            "denied the request: not today",
        ),
        (
            {"mutation": SEEN},
            {"metadata": {"annotations": {}}},
            "the probe was let through without .metadata.annotations.seen",
        ),
        (
            {"mutation": SEEN},
            {"metadata": {"annotations": {"seen": "no"}}},
            "the probe was let through without .metadata.annotations.seen of 'yes'",
        ),
        (
            {"mutation": SEEN},
            ApiError("exists", status=409, reason="AlreadyExists"),
            "the probe was let through without an answer",
        ),
        (
            {"mutation": SEEN},
            {"metadata": None},
            "the probe was let through without .metadata of {'annotations': {'seen': 'yes'}}",
        ),
    ],
)
def test_webhooks_that_do_not_answer(
    client: ApiClient,
    session: FakeSession,
    server: FakeServer,
    options: Any,
    answer: Any,
    reason: str,
) -> None:
    session.put(GUARD, guard())
    server.answers[MAPS] = answer

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_webhook_ready(client, "ci-1", NAME, timeout=2, **options)

    assert caught.value.args == (
        f"validatingwebhookconfiguration guard did not answer within 2s: {reason}",
    )


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"denial": "today"}, denied()),
        ({"denial": "today"}, denied("another")),
        ({"mutation": SEEN}, {"metadata": {"name": "x", "annotations": {"seen": "yes", "a": "b"}}}),
    ],
)
def test_answers_that_prove_it(
    client: ApiClient, session: FakeSession, server: FakeServer, options: Any, answer: Any
) -> None:
    session.put(GUARD, guard(failurePolicy="Ignore"))
    server.answers[MAPS] = answer

    kw.wait_for_webhook_ready(client, "ci-1", NAME, **options)

    assert session.clock.monotonic() == 0.0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"failurePolicy": "Ignore"},
            "the failurePolicy of w.example.com is Ignore: that a probe is let through proves "
            "nothing, name the denial or the mutation that does",
        ),
        (
            {"rules": [{**CONFIG_MAP_RULE, "operations": ["DELETE"]}]},
            "no probe can be made up for its rules (only creations of configmaps, secrets, "
            "serviceaccounts, services, pods): give one",
        ),
        (
            {"name": "w", "rules": None},
            "no probe can be made up for its rules (only creations of "
            "configmaps, secrets, serviceaccounts, services, pods): give one",
        ),
    ],
)
def test_webhooks_of_which_nothing_can_be_proven(
    client: ApiClient, session: FakeSession, server: FakeServer, changes: Any, reason: str
) -> None:
    session.put(GUARD, guard(**changes))
    server.answers[MAPS] = {}

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_webhook_ready(client, "ci-1", NAME)

    text = f"validatingwebhookconfiguration guard can no longer answer: {reason}"
    assert caught.value.args == (text,)
    assert session.clock.monotonic() == 5.0


def test_probes_that_the_server_refuses(
    client: ApiClient, session: FakeSession, server: FakeServer
) -> None:
    session.put(GUARD, guard())
    server.answers[MAPS] = ApiError("configmaps is forbidden", status=403, reason="Forbidden")

    with pytest.raises(ApiError, match="configmaps is forbidden"):
        kw.wait_for_webhook_ready(client, "ci-1", NAME)


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (
            ("pod/web",),
            {},
            "target='pod/web' is not valid: use validatingwebhookconfiguration/<name> or "
            "mutatingwebhookconfiguration/<name>",
        ),
        (
            (NAME, {"kind": "Pod"}),
            {},
            "probe={'kind': 'Pod'} is not valid: use an object with apiVersion, kind and metadata",
        ),
        ((NAME,), {"denial": ""}, "denial='' is not valid: use a text"),
        (
            (NAME,),
            {"mutation": {}},
            "mutation={} is not valid: use the part of the object that the webhook adds",
        ),
        (
            (NAME,),
            {"denial": "no", "mutation": SEEN},
            "denial='no' is not valid: leave it out where a mutation is awaited",
        ),
    ],
)
def test_bad_webhooks(arguments: Any, options: Any, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        condition_of(wait_for_webhook_ready)("ci-1", *arguments, **options)

    assert str(caught.value) == text


RULE = {
    "operations": ["CREATE", "UPDATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"resources": ["*"], "apiGroups": ["*"]}, "ConfigMap"),
        ({"resources": ["*/*"], "operations": ["*"], "apiVersions": ["*"]}, "ConfigMap"),
        ({"resources": ["pods"]}, "Pod"),
        ({"resources": ["services", "pods"]}, "Service"),
        ({"resources": ["deployments"], "apiGroups": ["apps"]}, None),
        ({"resources": ["pods/exec"]}, None),
        ({"scope": "Cluster"}, None),
        ({"scope": "Namespaced"}, "ConfigMap"),
        ({"apiVersions": ["v2"]}, None),
    ],
)
def test_generated_probes(rule: Any, kind: str | None) -> None:
    found = build_probe([{"rules": [{**RULE, **rule}]}])

    assert (found[1]["kind"] if found else None) == kind


@pytest.mark.parametrize(
    ("message", "status", "found"),
    [
        (
            'failed calling webhook "w.example.com": failed to call webhook: Post '
            '"https://guard.ci-1.svc:443/check?timeout=10s": dial tcp 10.0.0.3:443: connect: '
            "connection refused",
            500,
            UncalledWebhook(
                "w.example.com",
                "ci-1",
                "guard",
                "443",
                "dial tcp 10.0.0.3:443: connect: connection refused",
            ),
        ),
        (
            'failed calling webhook "w.example.com": failed to call webhook: Post '
            '"https://guard.example.com/check": connection refused',
            500,
            UncalledWebhook("w.example.com", "", "", "", "connection refused"),
        ),
        (
            'failed calling webhook "w.example.com": failed to call webhook: the server could not '
            "find the requested resource",
            500,
            UncalledWebhook(
                "w.example.com", "", "", "", "the server could not find the requested resource"
            ),
        ),
        (
            "conversion webhook for example.com/v1, Kind=Shop failed: Post "
            '"https://guard.ci-1.svc:8443/convert?timeout=30s": EOF',
            500,
            UncalledWebhook(
                "for the conversion of example.com/v1, Kind=Shop", "ci-1", "guard", "8443", "EOF"
            ),
        ),
        ('admission webhook "w" denied the request: https://guard.ci-1.svc:443/', 403, None),
        ("etcdserver: leader changed", 500, None),
    ],
)
def test_webhooks_that_could_not_be_called(message: str, status: int, found: object) -> None:
    error = ApiError(f"Internal error occurred: {message}", status=status)
    assert parse_uncalled_webhook(error) == found


SLICE_LABELS = {"kubernetes.io/service-name": "guard"}


def guard_slice(*, ready: bool) -> dict[str, Any]:
    endpoint = {"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}
    return {"metadata": {"name": "guard-1", "labels": SLICE_LABELS}, "endpoints": [endpoint]}


def put_guard(session: FakeSession) -> None:
    service = {"namespace": "ci-1", "name": "guard"}
    session.put(GUARD, guard(clientConfig={"service": service}))
    session.put(SERVICES, {"metadata": {"name": "guard"}, "spec": {"selector": {"app": "guard"}}})


def uncalled(cause: str, url: str = "https://guard.ci-1.svc:443/check?timeout=10s") -> ApiError:
    where = f'Post "{url}": ' if url else ""
    text = f'failed calling webhook "w.example.com": failed to call webhook: {where}{cause}'
    return ApiError(f"Internal error occurred: {text}", status=500, reason="InternalError")


REFUSED = uncalled("dial tcp 10.0.0.3:443: connect: connection refused")


def await_guard(
    session: FakeSession,
    *answers: ApiError | None,
    first: ApiError = REFUSED,
    sent: list[float] | None = None,
    **options: Any,
) -> ApiError | None:
    """Let a write that `first` has failed wait; the last answer to it is that to all later ones."""
    left = list(answers) or [first]

    def send(_deadline: Deadline) -> ApiError | None:
        if sent is not None:
            sent.append(session.clock.monotonic())
        return left.pop(0) if len(left) > 1 else left[0]

    errors = WriteErrors(session, cast("WaitOptions", options))
    return errors.send_again(first, send, Deadline.after(300, session.clock))


STARTING = pod(
    "guard-a", "Running", labels={"app": "guard"}, conditions=[condition("Ready", "False")]
)
CRASHING = pod(
    "guard-a",
    "Running",
    labels={"app": "guard"},
    containerStatuses=[
        {
            "name": "main",
            "restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1}},
        }
    ],
)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({}, "the service's selector app=guard matches no pod"),
        (STARTING, "1 Running, not ready"),
        (
            CRASHING,
            "pod guard-a: CrashLoopBackOff: container main was restarted 4 times, exit code 1",
        ),
    ],
)
def test_a_webhook_without_a_ready_endpoint(session: FakeSession, found: Any, reason: str) -> None:
    put_guard(session)
    session.put(ENDPOINT_SLICES, guard_slice(ready=False))
    session.log_texts = {"guard-a/main": "no certificate"}
    if found:
        session.put(PODS, found)

    with pytest.raises(WaitFailed) as caught:
        await_guard(session)

    assert caught.value.args == (
        f"webhook w.example.com of {NAME} can no longer be called: service ci-1/guard has no ready "
        f"endpoint: {reason}",
    )
    assert session.clock.monotonic() == 45.0


def test_an_unknown_configuration_and_a_missing_service(session: FakeSession) -> None:
    put_guard(session)
    session.drop(SERVICES, "guard")
    session.fail("list", GUARD, ApiError("no", status=403, reason="Forbidden"))

    with pytest.raises(WaitFailed) as caught:
        await_guard(session, grace="3s")

    assert caught.value.args == (
        "webhook w.example.com can no longer be called: service ci-1/guard has no ready endpoint: "
        "there is no service of that name",
    )
    assert session.clock.monotonic() == 3.0


def test_a_webhook_that_becomes_ready_within_the_grace(session: FakeSession) -> None:
    put_guard(session)
    session.put(PODS, STARTING)
    session.at(44, session.put, ENDPOINT_SLICES, guard_slice(ready=True))
    sent: list[float] = []

    assert await_guard(session, None, sent=sent) is None

    assert sent == [44.0]


@pytest.mark.parametrize(("found", "after"), [({}, 4.5), (STARTING, 45.0), (CRASHING, 4.5)])
def test_pods_of_a_webhook_that_start_have_the_grace_of_a_real_cluster(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, found: Any, after: Any
) -> None:
    monkeypatch.setattr(FakeSession, "time_scale", 0.1)
    put_guard(session)
    session.log_texts = {"guard-a/main": ""}
    if found:
        session.put(PODS, found)

    with pytest.raises(WaitFailed) as caught:
        await_guard(session)

    assert caught.value.waited == pytest.approx(after)


def put_ready_guard(session: FakeSession, *ports: dict[str, Any]) -> None:
    put_guard(session)
    spec = {"selector": {"app": "guard"}, "ports": list(ports)}
    session.put(SERVICES, {"metadata": {"name": "guard"}, "spec": spec})
    session.put(ENDPOINT_SLICES, guard_slice(ready=True))


class RetryCounter(WaitObserver):
    """Counts the retries of waits, and of writes outside of them."""

    def __init__(self) -> None:
        self.of_waits: list[int] = []
        self.others = 0

    def on_end(self, wait: ActiveWait) -> None:
        self.of_waits.append(wait.retries)

    def on_retry(self) -> None:
        self.others += 1


@pytest.fixture
def retries() -> Iterator[RetryCounter]:
    counter = RetryCounter()
    ACTIVE_WAITS.add(counter)
    yield counter
    ACTIVE_WAITS.remove(counter)


def test_writes_that_are_sent_again_are_retries(
    session: FakeSession, retries: RetryCounter
) -> None:
    """They are those of the wait for the webhook's service or of that for its address."""
    put_ready_guard(session)
    assert await_guard(session, REFUSED, REFUSED, None) is None
    session.put(GUARD, guard(clientConfig={"url": "https://guard.example.com/check"}))
    elsewhere = uncalled("EOF", "https://guard.example.com/check?timeout=10s")
    assert await_guard(session, elsewhere, None, first=elsewhere) is None
    assert (retries.of_waits, retries.others) == ([3, 2], 0)


def test_a_write_that_a_verb_sends_again_is_a_retry(
    session: FakeSession, retries: RetryCounter
) -> None:
    """Without fail_fast, or where nothing is known of the webhook, no wait sends it."""
    put_ready_guard(session)
    assert await_guard(session, fail_fast=False) is REFUSED
    unknown = uncalled("EOF", "https://guard.example.com/check?timeout=10s")
    session.drop(GUARD, "guard")
    assert await_guard(session, first=unknown) is unknown
    other = ApiError("busy", status=503, reason="ServiceUnavailable")
    assert await_guard(session, first=other) is other
    assert (retries.of_waits, retries.others) == ([], 2)


UNKNOWN_AUTHORITY = uncalled(
    "tls: failed to verify certificate: x509: certificate signed by unknown authority"
)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (
            UNKNOWN_AUTHORITY,
            "tls: failed to verify certificate: x509: certificate signed by unknown authority; the "
            "configuration's caBundle is not the authority of the certificate",
        ),
        (
            uncalled("x509: certificate is valid for shop.ci-1.svc, not guard.ci-1.svc"),
            "x509: certificate is valid for shop.ci-1.svc, not guard.ci-1.svc",
        ),
        (REFUSED, "dial tcp 10.0.0.3:443: connect: connection refused"),
        (
            uncalled("the server could not find the requested resource", url=""),
            "the server could not find the requested resource; nothing is served at the "
            "configuration's path",
        ),
    ],
)
def test_a_ready_webhook_that_is_not_called(
    session: FakeSession, error: ApiError, cause: str
) -> None:
    put_ready_guard(session, {"port": 443, "targetPort": 9443})
    sent: list[float] = []

    with pytest.raises(WaitFailed) as caught:
        await_guard(session, first=error, sent=sent)

    assert caught.value.args == (
        f"webhook w.example.com of {NAME} can no longer be called: service ci-1/guard, port 443 "
        f"(targetPort 9443): {cause}",
    )
    assert caught.value.__notes__ == [str(error)]
    assert session.clock.monotonic() == 45.0
    assert len(sent) > 100
    assert f"called {len(sent)} times" in str(caught.value)


def test_a_ready_webhook_has_the_grace_of_a_real_cluster(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeSession, "time_scale", 0.1)
    put_ready_guard(session)

    with pytest.raises(WaitFailed) as caught:
        await_guard(session)

    assert caught.value.waited == pytest.approx(45.0)


def test_a_webhook_that_is_called_in_time(session: FakeSession) -> None:
    put_ready_guard(session)
    assert await_guard(session, UNKNOWN_AUTHORITY, UNKNOWN_AUTHORITY, None, grace="10s") is None
    denied = ApiError("denied", status=403)
    assert await_guard(session, UNKNOWN_AUTHORITY, denied, grace="10s") is denied
    assert session.clock.monotonic() < 1.0


def test_a_webhook_by_url_that_is_not_called(session: FakeSession) -> None:
    session.put(GUARD, guard(clientConfig={"url": "https://guard.example.com/check"}))
    error = uncalled("EOF", url="https://guard.example.com/check?timeout=10s")

    with pytest.raises(WaitFailed) as caught:
        await_guard(session, first=error, grace="3s")

    assert caught.value.args == (f"webhook w.example.com of {NAME} can no longer be called: EOF",)
    assert session.clock.monotonic() == 3.0


def test_a_write_that_does_not_wait_for_its_webhook(session: FakeSession) -> None:
    put_ready_guard(session)
    assert await_guard(session, None, fail_fast=False) is REFUSED
    other = ApiError("leader changed", status=500)
    assert await_guard(session, None, first=other) is other
    assert session.requests == []
    session.drop(GUARD, NAME.partition("/")[2])
    nowhere = uncalled("EOF", url="https://guard.example.com/check")
    assert await_guard(session, None, first=nowhere) is nowhere
