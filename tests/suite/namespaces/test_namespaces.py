from __future__ import annotations

import dataclasses
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import NAMESPACES, SECRETS
from pytest_kwait.client.session import TimeBudget
from pytest_kwait.engine.active_waits import ACTIVE_WAITS
from pytest_kwait.engine.failure.redaction import SECRET_VALUES
from pytest_kwait.engine.options import Timeouts
from pytest_kwait.errors import ApiError, ClusterError, WaitTimeout
from pytest_kwait.suite.cleanup.owned_objects import KEPT_LIFETIME, Owner
from pytest_kwait.suite.config.values import PodSecurityLevel
from pytest_kwait.suite.namespaces.namespaces import _DEFAULT_OBJECTS_DELAY, Namespaces
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait.context import DeadlineExceeded
from tests.objects import secret
from tests.suite.fakes import FakeClient, FakeTransport

if TYPE_CHECKING:
    from pytest_kwait.client.responses import Response
    from pytest_kwait.engine.active_waits import ActiveWait

_OWNER = Owner("r7k2m9", "tests/test_jobs.py::test_scale[a/b]", "test_scale[a/b]", worker="gw0")
_POLL: dict[str, Any] = {"mode": "poll", "poll": 0.01}


def namespaces(transport: FakeTransport, **timeouts: float) -> Namespaces:
    client: Any = FakeClient(transport)
    return Namespaces(client, lambda: Timeouts().merged(timeouts))


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("test_scale[a/b]", "t-scale-a-b"),
        ("e2e/jobs/test_workers.py", "t-workers"),
        ("TestScale", "t-scale"),
        ("test", "t"),
        ("peer test_policy", "t-peer-test-policy"),
        ("w" * 40, "t-" + "w" * 32),
    ],
)
def test_name_is_short_and_says_what_is_tested(title: str, shown: str) -> None:
    owner = Owner("r1", "tests/x.py::x", title)
    assert re.fullmatch(f"{shown}-[bcdfghjklmnpqrstvwxz2456789]{{5}}", owner.name)


def test_names_of_runs_shards_workers_tests_and_attempts_differ() -> None:
    owner = Owner("r1", "x", "t")
    changes: list[dict[str, Any]] = [
        {"run": "r2"},
        {"shard": "2/4"},
        {"worker": "gw1"},
        {"test": "y"},
        {"attempt": 2},
        {"nonce": "n"},
    ]
    names = {owner.name, *(dataclasses.replace(owner, **change).name for change in changes)}
    assert len(names) == 7


@pytest.mark.parametrize("title", ["t" * 300, "", "…", "test_[é-ü]", "-".join("x" * 40), "A" * 63])
@pytest.mark.parametrize("run", ["r", "github-1234567890-attempt-12-of-many"])
def test_name_is_always_a_dns_label(title: str, run: str) -> None:
    name = Owner(run, "tests/x.py::" + title, title, worker="gw12", attempt=12).name
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)
    assert "--" not in name


def test_no_two_owners_share_a_name() -> None:
    owners = [
        Owner("r", "a.py::t", "t"),
        Owner("s", "a.py::t", "t"),
        Owner("r", "b.py::t", "t"),
        Owner("r", "a.py::t", "t", worker="gw0"),
        Owner("r", "a.py::t", "t", shard="1"),
        Owner("r", "a.py::t", "t", attempt=2),
        Owner("r", "a.py::t", "t", nonce="1"),
        Owner("r", "a.py::" + "t" * 99 + "x", "t" * 99 + "x"),
        Owner("r", "a.py::" + "t" * 99 + "y", "t" * 99 + "y"),
    ]
    assert len({owner.name for owner in owners}) == len(owners)


def test_labels_are_hashes_and_annotations_are_plain_text() -> None:
    metadata = _OWNER.manifest(1_700_000_000.0)["metadata"]
    assert metadata["labels"]["app.kubernetes.io/managed-by"] == "pytest-kwait"
    for label in ("pytest-kwait/run", "pytest-kwait/owner"):
        assert re.fullmatch("[0-9a-f]{16}", metadata["labels"][label])
    assert metadata["annotations"] == {
        "pytest-kwait/run": "r7k2m9",
        "pytest-kwait/worker": "gw0",
        "pytest-kwait/test": "tests/test_jobs.py::test_scale[a/b]",
        "pytest-kwait/attempt": "1",
        "pytest-kwait/expires": "2023-11-15T22:13:20Z",
        "pytest-kwait/seal": _OWNER.seal(NAMESPACES, None, _OWNER.name),
    }
    assert KEPT_LIFETIME == 24 * 3600


def test_namespace_is_created_awaited_and_deleted_by_uid() -> None:
    transport = FakeTransport()
    made = namespaces(transport)
    name = made.make(_OWNER, _POLL)
    path = f"/api/v1/namespaces/{name}"
    assert name == _OWNER.name
    assert made.owns(name)
    assert transport.requests == [
        "POST /api/v1/namespaces",
        f"GET {path}/configmaps/kube-root-ca.crt",
        f"GET {path}/serviceaccounts/default",
    ]
    uid = transport.objects[path]["metadata"]["uid"]
    assert made.delete(name) is None
    assert path not in transport.objects
    assert not made.owns(name)
    # By name and UID: what is on its way out is awaited at the end of the run.
    assert made.going == {name: uid}


def test_values_of_secrets_are_masked_after_the_deletion_of_their_namespace() -> None:
    transport = FakeTransport()
    made = namespaces(transport)
    name = made.make(_OWNER, _POLL)
    place = SECRETS.path(name, "generated")
    transport.objects[place] = {"metadata": {"name": "generated"}, **secret(password="gr8-p@ss")}
    assert made.delete(name) is None
    assert SECRET_VALUES.mask("set it to gr8-p@ss") == "set it to (hidden)"


def test_secrets_before_a_deletion_are_read_from_the_servers_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consistent list may wait for etcd's next progress notification."""
    transport = FakeTransport()
    made = namespaces(transport)
    name = made.make(_OWNER, _POLL)
    versions = {}
    send = transport.send

    def spy(method: str, path: str, **options: Any) -> Any:
        if method == "GET":
            versions[path] = (options["query"] or {}).get("resourceVersion")
        return send(method, path, **options)

    monkeypatch.setattr(transport, "send", spy)
    assert made.delete(name) is None
    assert versions[SECRETS.path(name)] == "0"


def test_no_default_objects_are_awaited_where_no_controller_creates_them() -> None:
    transport = FakeTransport()
    client: Any = FakeClient(transport)
    made = Namespaces(client, Timeouts, has_controllers=False)
    assert made.make(_OWNER, _POLL) == _OWNER.name
    assert transport.requests == ["POST /api/v1/namespaces"]


def test_foreign_namespace_of_the_same_name_is_not_deleted() -> None:
    transport = FakeTransport()
    made = namespaces(transport)
    name = made.make(_OWNER, _POLL)
    transport.objects[f"/api/v1/namespaces/{name}"]["metadata"]["uid"] = "another"
    assert made.delete(name) is None
    assert f"/api/v1/namespaces/{name}" in transport.objects


def test_finalizers_of_a_remaining_namespace_are_reported() -> None:
    transport = FakeTransport()
    made = namespaces(transport)
    name = made.make(_OWNER, _POLL)
    path = f"/api/v1/namespaces/{name}"
    error = ApiError("no", status=403, reason="Forbidden", method="DELETE", path=path)
    transport.refuse("DELETE", path, error)
    assert made.delete(name) == (
        f"namespace {name} could not be deleted: DELETE {path}: 403 Forbidden: no"
    )
    assert made.going == {}


def test_late_service_account_is_awaited() -> None:
    transport = FakeTransport()
    path = f"/api/v1/namespaces/{_OWNER.name}"
    late = [ApiError("not yet", status=404, reason="NotFound")] * 3
    transport.refuse("GET", f"{path}/configmaps/kube-root-ca.crt", *late)
    transport.refuse("GET", f"{path}/serviceaccounts/default", ApiError("no", status=403))
    assert namespaces(transport).make(_OWNER, _POLL) == _OWNER.name
    assert transport.requests[-3:] == [
        f"GET {path}/serviceaccounts/default",
        f"GET {path}/serviceaccounts",
        f"GET {path}/configmaps",
    ]


def test_polling_of_the_service_account_backs_off() -> None:
    transport = FakeTransport()
    path = f"/api/v1/namespaces/{_OWNER.name}"
    late = [ApiError("not yet", status=404, reason="NotFound")] * 3
    transport.refuse("GET", f"{path}/configmaps/kube-root-ca.crt", *late)
    clock = FakeClock()
    client: Any = FakeClient(transport, clock)
    assert Namespaces(client, Timeouts).make(_OWNER, _POLL) == _OWNER.name
    assert clock.monotonic() == pytest.approx((1 + 1.5 + 2.25) * _DEFAULT_OBJECTS_DELAY / 64)
    assert transport.requests[1:] == [
        *[f"GET {path}/configmaps/kube-root-ca.crt"] * 4,
        f"GET {path}/serviceaccounts/default",
    ]


def test_namespace_without_service_account_is_deleted_again() -> None:
    transport = FakeTransport()
    transport.bare_namespaces = True
    made = namespaces(transport, service_account_provision=0.03)
    with pytest.raises(WaitTimeout, match=r"serviceaccount"):
        made.make(_OWNER, _POLL)
    assert transport.objects == {}


_CUT = "was cut to 500ms to end before the test's own timeout of 1s (pytest-timeout)"


def hurried(transport: FakeTransport) -> Namespaces:
    client: Any = FakeClient(transport)
    time_budget = TimeBudget(0.5, "the test's own timeout of 1s (pytest-timeout)")
    return Namespaces(client, Timeouts, time_budget=lambda: time_budget)


def test_missing_service_account_is_reported_before_the_test_timeout() -> None:
    transport = FakeTransport()
    transport.bare_namespaces = True
    path = f"/api/v1/namespaces/{_OWNER.name}"
    denied = ApiError("no", status=403, reason="Forbidden", method="DELETE", path=path)
    transport.refuse("DELETE", path, denied)
    with pytest.raises(WaitTimeout) as caught:
        hurried(transport).make(_OWNER, _POLL)
    assert str(caught.value).splitlines()[0] == (
        f"serviceaccount {_OWNER.name}/default did not get created within 500ms: not found yet"
    )
    assert caught.value.__notes__ == [
        f"its limit of 2m0s {_CUT}",
        f"namespace {_OWNER.name} could not be deleted: DELETE {path}: 403 Forbidden: no",
    ]


def test_server_errors_are_reported_before_the_test_timeout() -> None:
    transport = FakeTransport()
    busy = ApiError("busy", status=503, method="POST", path="/api/v1/namespaces")
    transport.refuse("POST", "/api/v1/namespaces", *[busy] * 20)
    with pytest.raises(ApiError, match="503: busy") as caught:
        hurried(transport).make(_OWNER, _POLL)
    assert caught.value.__notes__ == [f"its limit of 5m0s {_CUT}"]


def test_silent_server_is_reported_before_the_test_timeout() -> None:
    class Silent(FakeTransport):
        def send(self, method: str, path: str, **options: Any) -> Response:
            deadline = options["deadline"]
            deadline.clock.sleep(deadline.remaining)
            raise DeadlineExceeded(f"{method} {path} has had no answer")

    with pytest.raises(ClusterError) as caught:
        hurried(Silent()).make(_OWNER, _POLL)
    assert str(caught.value) == (
        f"there was no answer whether namespace {_OWNER.name} was made, which {_OWNER.test} needs: "
        "POST /api/v1/namespaces has had no answer"
    )
    assert caught.value.__notes__ == [f"its limit of 5m0s {_CUT}"]


def test_lost_create_response_is_looked_up() -> None:
    transport = FakeTransport()
    made = namespaces(transport)
    manifest = _OWNER.manifest(0.0)
    manifest["metadata"]["uid"] = "of-the-lost-answer"
    transport.objects[f"/api/v1/namespaces/{_OWNER.name}"] = manifest
    for plural, name in (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")):
        transport.objects[f"/api/v1/namespaces/{_OWNER.name}/{plural}/{name}"] = {
            "metadata": {"name": name, "uid": name}
        }
    transport.refuse("POST", "/api/v1/namespaces", ApiError("reset", reason="ConnectionReset"))
    assert made.make(_OWNER, _POLL) == _OWNER.name
    assert made.delete(_OWNER.name) is None
    assert f"/api/v1/namespaces/{_OWNER.name}" not in transport.objects


def test_existing_foreign_namespace_is_not_used() -> None:
    transport = FakeTransport()
    taken = namespaces(transport).make(_OWNER, _POLL)
    made = namespaces(transport)
    name = made.make(_OWNER, _POLL)
    assert re.fullmatch(r"t-scale-a-b-[b-z2-9]{5}", name)
    assert name != taken
    notes = transport.objects[f"/api/v1/namespaces/{name}"]["metadata"]["annotations"]
    assert notes["pytest-kwait/test"] == _OWNER.test
    assert made.delete(name) is None
    assert f"/api/v1/namespaces/{taken}" in transport.objects


def test_terminating_namespace_is_not_used() -> None:
    transport = FakeTransport()
    old = _OWNER.manifest(0.0)
    old["metadata"] |= {"uid": "old", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    transport.objects[f"/api/v1/namespaces/{_OWNER.name}"] = old
    # The answer to the first try gets lost, so that what is there could be taken for its work.
    transport.refuse("POST", "/api/v1/namespaces", ApiError("reset", reason="ConnectionReset"))
    assert namespaces(transport).make(_OWNER, _POLL) != _OWNER.name


def test_namespace_of_another_run_is_not_adopted_after_a_lost_response() -> None:
    transport = FakeTransport()
    theirs = replace(_OWNER, nonce="another").manifest(0.0)
    theirs["metadata"] |= {"name": _OWNER.name, "uid": "theirs"}
    path = f"/api/v1/namespaces/{_OWNER.name}"
    transport.objects[path] = theirs
    transport.refuse("POST", "/api/v1/namespaces", ApiError("reset", reason="ConnectionReset"))
    made = namespaces(transport, service_account_provision=0.1)
    name = made.make(_OWNER, _POLL)
    assert name != _OWNER.name
    assert made.delete(name) is None
    assert transport.objects[path]["metadata"]["uid"] == "theirs"


def test_exhausted_names_are_an_error() -> None:
    transport = FakeTransport()
    taken = ApiError("n", status=409, reason="AlreadyExists", method="POST", path="/x")
    transport.refuse("POST", "/api/v1/namespaces", taken, taken, taken)
    with pytest.raises(ClusterError) as caught:
        namespaces(transport).make(_OWNER, _POLL)
    assert str(caught.value) == (
        "no namespace could be made for tests/test_jobs.py::test_scale[a/b]: 3 names were taken, "
        "or belonged to namespaces that are being deleted; the last answer: POST /x: 409 "
        "AlreadyExists: n"
    )


@pytest.mark.parametrize("status", [429, 500, 503])
def test_create_is_retried_on_a_busy_server(status: int) -> None:
    transport = FakeTransport()
    transport.refuse("POST", "/api/v1/namespaces", ApiError("busy", status=status))
    made = namespaces(transport)
    assert made.delete(made.make(_OWNER, _POLL)) is None
    assert transport.requests.count("POST /api/v1/namespaces") == 2


def test_forbidden_create_names_the_namespace_option() -> None:
    transport = FakeTransport()
    message = (
        'namespaces is forbidden: User "ci" cannot create resource "namespaces" in API group "" '
        "at the cluster scope"
    )
    error = ApiError(message, status=403, reason="Forbidden", method="POST", path="/x")
    transport.refuse("POST", "/api/v1/namespaces", error)
    with pytest.raises(ClusterError) as caught:
        namespaces(transport).make(_OWNER, _POLL)
    assert str(caught.value) == (
        "the run may not create namespaces, and tests/test_jobs.py::test_scale[a/b] needs one: "
        "grant its user `create namespaces`, or give --kwait-namespace NAME: tests then share the "
        "namespace of that name, which must exist, and what they make in it is removed one by "
        f"one. The server said: POST /x: 403 Forbidden: {message}"
    )


def test_refused_create_reports_the_servers_message() -> None:
    transport = FakeTransport()
    error = ApiError(
        'admission webhook "quota.example.com" denied the request: 50 of 50 namespaces',
        status=403,
        reason="Forbidden",
        method="POST",
        path="/api/v1/namespaces",
    )
    transport.refuse("POST", "/api/v1/namespaces", error)
    with pytest.raises(ClusterError) as caught:
        namespaces(transport).make(_OWNER, _POLL)
    assert str(caught.value) == (
        f"the cluster refused namespace {_OWNER.name}, which tests/test_jobs.py::test_scale[a/b] "
        'needs: POST /api/v1/namespaces: 403 Forbidden: admission webhook "quota.example.com" '
        "denied the request: 50 of 50 namespaces"
    )


def test_pod_security_levels_are_labels_and_reserved_labels_are_refused() -> None:
    transport = FakeTransport()
    client: Any = FakeClient(transport)
    made = Namespaces(client, Timeouts, PodSecurityLevel("baseline", "v1.30"))
    first = made.make(_OWNER, _POLL, labels={"team": "a", "pytest-kwait/run": "mine"})
    second = made.make(
        _OWNER.derive("peer", 1), _POLL, pod_security=PodSecurityLevel("privileged", "")
    )
    labels = [
        transport.objects[f"/api/v1/namespaces/{name}"]["metadata"]["labels"]
        for name in (first, second)
    ]
    assert labels[0] == {
        "team": "a",
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/enforce-version": "v1.30",
        "app.kubernetes.io/managed-by": "pytest-kwait",
        **_OWNER.labels,
    }
    assert labels[1]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert "pod-security.kubernetes.io/enforce-version" not in labels[1]
    assert labels[1]["pytest-kwait/owner"] == labels[0]["pytest-kwait/owner"]
    assert re.fullmatch(r"t-peer-test-scale-a-b-[b-z2-9]{5}", second)


class _Quota:
    """A run that has as many namespaces as it may, and says for how long."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = list(reasons)
        self.asked: list[float] = []
        self.shown: list[str] = []
        self.waits: list[ActiveWait] = []

    def place(self) -> str:
        return "default/kwait-r1"

    def record(self, kind: str) -> None:
        """Nothing."""

    def acquire_namespace_quota(self, name: str, seconds: float) -> str:
        self.asked.append(seconds)
        self.shown += [each.text for each in ACTIVE_WAITS.waits()]
        self.waits += ACTIVE_WAITS.waits()
        return self.reasons.pop(0)


def test_wait_for_the_quota_is_an_active_wait() -> None:
    quota = _Quota("100 are there", "")
    owner = replace(_OWNER, registration=quota)
    client: Any = FakeClient(FakeTransport())
    made = Namespaces(client, Timeouts, time_budget=lambda: TimeBudget(7.0, "the end"))
    assert made.make(owner, _POLL) == owner.name
    assert quota.asked[0] == 0
    assert 6.0 < quota.asked[1] <= 7.0
    assert quota.shown == [
        f"namespace {owner.name} to fit into the limit on namespaces: 100 are there"
    ]
    (waited,) = quota.waits
    assert waited.outcome == "met"
    assert 6.0 < waited.limit <= 7.0


def test_exhausted_quota_is_reported_and_nothing_is_created() -> None:
    transport = FakeTransport()
    quota = _Quota("100 are there", "100 are there still")
    owner = replace(_OWNER, registration=quota)
    with pytest.raises(ClusterError) as caught:
        namespaces(transport).make(owner, _POLL)
    assert str(caught.value) == (
        f"namespace {owner.name} could not be created within 0s: 100 are there still"
    )
    assert [wait.outcome for wait in quota.waits] == ["timed out"]
    assert transport.objects == {}


def test_kept_namespace_gets_a_new_expiry_and_a_hint() -> None:
    transport = FakeTransport()
    made = namespaces(transport)
    name = made.make(_OWNER, _POLL)
    assert made.keep(name) == (
        f"kubectl --kubeconfig /fake/kubeconfig get all,events --namespace {name}"
    )
    notes = transport.objects[f"/api/v1/namespaces/{name}"]["metadata"]["annotations"]
    assert notes["pytest-kwait/kept"] == "true"
    assert notes["pytest-kwait/test"] == _OWNER.test
    assert not made.owns(name)


def test_existing_namespace_must_exist_and_is_never_deleted() -> None:
    transport = FakeTransport()
    made = namespaces(transport)
    with pytest.raises(ClusterError) as caught:
        made.existing("team-a", "option --kwait-namespace")
    assert str(caught.value) == (
        "namespace='team-a' (from option --kwait-namespace) is not in the cluster: create it, or "
        "leave the setting out to have a namespace made"
    )
    no = ApiError("no", status=403, reason="Forbidden", method="GET", path="/x")
    transport.refuse("GET", "/api/v1/namespaces/team-a", no)
    with pytest.raises(ApiError, match="GET /x: 403 Forbidden: no"):
        made.existing("team-a", "option --kwait-namespace")
    transport.objects["/api/v1/namespaces/team-a"] = {"metadata": {"name": "team-a"}}
    assert made.existing("team-a", "option --kwait-namespace") == "team-a"
    assert not made.owns("team-a")
    assert made.delete("team-a") is None
    assert "/api/v1/namespaces/team-a" in transport.objects
