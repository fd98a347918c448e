from __future__ import annotations

import base64
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import EVENTS, JOBS, NAMESPACES, PODS, SECRETS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.engine.failure.redaction import (
    SECRET_VALUES,
    SecretValues,
    learn_secrets,
    make_redactor,
    redact_object,
)
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from pytest_kwait.framework.job.wait import wait_for_job_complete
from pytest_kwait.framework.objects.wait import general_condition
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.wait.context import DeadlineExceeded
from tests.engine.fake_session import FakeSession
from tests.objects import condition, created_job, job_pod, secret

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc123", "Authorization: Bearer (hidden)"),
        ('{"Authorization": ["Basic dXNlcjpwYXNz"]}', '{"Authorization": ["Basic (hidden)"]}'),
        ("curl -H 'authorization=bearer s3cr3t-t0ken'", "curl -H 'authorization=bearer (hidden)'"),
        ("401: bearer x7a81c4e9 has expired", "401: bearer (hidden) has expired"),
        (f"using {JWT} now", "using (hidden) now"),
        ("GET /x?token=abcdef&watch=1", "GET /x?token=(hidden)&watch=1"),
        ("db_password=hunter2 host=db", "db_password=(hidden) host=db"),
        ("    token: 31ada4fd-adec.0", "    token: (hidden)"),
        ('"accessToken":"correct horse"', '"accessToken":"(hidden)"'),
        ("client-key-data: LS0tLS1CRUdJ", "client-key-data: (hidden)"),
        ("AWS_SECRET_KEY=wJalrXUtnFEMI", "AWS_SECRET_KEY=(hidden)"),
        ("Set-Cookie: session=1; path=/", "Set-Cookie: (hidden)"),
        ("https://me:pass@registry.example/v2", "https://me:(hidden)@registry.example/v2"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nnext",
            "(hidden)\nnext",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", "(hidden)"),
        (
            '{"kind":"Secret","data":{"a":"c2VjcmV0"},"stringData":{"b":"x"}}',
            '{"kind":"Secret","data":(hidden),"stringData":(hidden)}',
        ),
        (
            'denied: {"kind": "Secret", "data": {"a": "c2V',
            'denied: {"kind": "Secret", "data": (hidden)',
        ),
        ("map[data:map[a:c2VjcmV0] kind:Secret]", "map[data:(hidden) kind:Secret]"),
        (
            "kind: Secret\nmetadata:\n  name: x\ndata:\n  a: c2VjcmV0\n  b: Yg==\ntype: Opaque",
            "kind: Secret\nmetadata:\n  name: x\ndata:(hidden)type: Opaque",
        ),
        ("it used my-own-secret twice: my-own-secret", "it used (hidden) twice: (hidden)"),
    ],
)
def test_secrets_are_redacted(text: str, shown: str) -> None:
    assert make_redactor({"my-own-secret", "short"})(text) == shown


def test_of_a_credential_within_another_nothing_is_left() -> None:
    nested = {"own-words", "own-words-and-more", "and-more-own-words", "x-own-words-and-more-x"}
    for credential in nested:
        assert make_redactor(nested)(f"<{credential}>") == "<(hidden)>"


@pytest.mark.parametrize(
    "text",
    [
        "pull access denied, may require authorization: server message: authorization failed",
        "couldn't find key token in Secret ci-1/x",
        'secret "database-password" not found',
        "invalid bearer token",
        "the token: expired",
        "bearer authentication is required",
        '{"kind":"ConfigMap","data":{"a":"b"}}',
        "a short word",
        "https://registry.example:5000/v2/x@sha256:abc",
    ],
)
def test_texts_without_secrets_stay_unchanged(text: str) -> None:
    assert make_redactor({"short"})(text) == text


def test_nothing_secret_reaches_a_failure() -> None:
    session = FakeSession()
    ended = {"terminated": {"exitCode": 3, "message": f"token={JWT}"}}
    failed = [condition("Failed", message="denied: Bearer own-credential")]
    session.put(JOBS, created_job(status={"conditions": failed}))
    container = {"name": "main", "state": ended}
    session.put(PODS, job_pod("sleepers-a", "Failed", containerStatuses=[container]))
    session.log_texts = {
        "sleepers-a/main": "-----BEGIN PRIVATE KEY-----\nMIIE0\n-----END PRIVATE KEY-----\n"
        "kind: Secret\ndata:\n  a: c2VjcmV0\nown-credential\nlast words"
    }
    involved = {"kind": "Job", "name": "sleepers", "uid": "uid-sleepers"}
    session.put(
        EVENTS,
        {
            "metadata": {"name": "e"},
            "involvedObject": involved,
            "type": "Warning",
            "reason": "Denied",
            "message": 'admission of {"kind":"Secret","data":{"a":"c2VjcmV0"}} password=hunter2',
        },
    )
    message = "proxy said: Authorization: Basic dXNlcjpwYXNz, own-credential"
    session.fail("list", JOBS, ApiError(message, status=503))

    with pytest.raises(WaitFailed) as caught:
        wait_for_condition(
            session, condition_of(wait_for_job_complete)("ci-1", "sleepers"), WaitSettings(60.0)
        )

    said = str(caught.value) + json.dumps(caught.value.evidence) + repr(caught.value.args)
    for value in ("own-credential", "MIIE", "c2VjcmV0", "hunter2", "dXNlcjpwYXNz", "eyJ"):
        assert value not in said
    assert "last words" in said
    assert "proxy said" in said


def test_a_failure_controls_no_terminal() -> None:
    session = FakeSession()
    failed = [condition("Failed", message="\x1b[2Jdenied")]
    session.put(JOBS, created_job(status={"conditions": failed}))
    container = {"name": "main", "state": {"terminated": {"exitCode": 3}}}
    session.put(PODS, job_pod("sleepers-a", "Failed", containerStatuses=[container]))
    session.log_texts = {"sleepers-a/main": "\x1b[31mno database\x1b[0m\x1b]0;title\x07\n"}

    with pytest.raises(WaitFailed) as caught:
        wait_for_condition(
            session, condition_of(wait_for_job_complete)("ci-1", "sleepers"), WaitSettings(60.0)
        )

    assert "\x1b" not in f"{caught.value}{caught.value.evidence}"
    assert "| no database\\x1b]0;title" in str(caught.value)
    assert "\\x1b[2Jdenied" in str(caught.value)


def test_values_of_a_secret_are_not_shown() -> None:
    session = FakeSession()
    session.put(SECRETS, {"metadata": {"name": "s"}, "data": {"key": "cHJlc2VudA=="}})
    awaited = general_condition("ci-1", "secret/s", "jsonpath={.data.key}=YXdhaXRlZA==")

    with pytest.raises(WaitTimeout) as caught:
        wait_for_condition(session, awaited.on([SECRETS]), WaitSettings(1.0))

    assert caught.value.args == (
        "secret ci-1/s did not have {.data.key} equal to (hidden) within 1s: "
        "{.data.key} is another value",
    )
    assert "YXdhaXRlZA" not in json.dumps(caught.value.evidence)
    assert "cHJlc2VudA" not in json.dumps(caught.value.evidence)


def test_credentials_of_a_client_are_known() -> None:
    from kubernetes.client import ApiClient, Configuration

    settings = Configuration(host="https://127.0.0.1:1")
    settings.api_key["authorization"] = "Bearer a-token-of-mine"
    settings.password = "a-password"
    client = ApiClient(settings)
    client.default_headers["Authorization"] = "Basic dXNlcjpwYXNz"

    found = ApiSession.of(client).credentials()

    assert {"a-token-of-mine", "a-password", "dXNlcjpwYXNz"} <= found


def test_a_word_of_many_dashes_takes_no_time() -> None:
    # As ever newer starts within it would: hours.
    text = "a-" * 50_000 + " token=abcdef"
    assert make_redactor(())(text) == text.replace("abcdef", "(hidden)")


def test_objects_are_shown_without_what_is_secret() -> None:
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    secret = {
        "kind": "Secret",
        "metadata": {
            "name": "keys",
            "managedFields": [{"manager": "x"}],
            "annotations": {applied: '{"data":{"a":"c2VjcmV0"}}', "note": "stays"},
        },
        "data": {"a": "c2VjcmV0", "b": ""},
        "stringData": {"c": "plain words"},
    }
    assert redact_object(secret, make_redactor(())) == {
        "kind": "Secret",
        "metadata": {"name": "keys", "annotations": {"note": "stays"}},
        "data": {"a": "(hidden)", "b": "(hidden)"},
        "stringData": {"c": "(hidden)"},
    }
    assert secret["data"] == {"a": "c2VjcmV0", "b": ""}


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "DB_PASSWORD", "value": "(hidden)"}),
        (
            {"name": "GITHUB_TOKEN_FILE", "value": "/x"},
            {"name": "GITHUB_TOKEN_FILE", "value": "(hidden)"},
        ),
        ({"name": "COLOUR", "value": "blue"}, {"name": "COLOUR", "value": "blue"}),
        (
            {"name": "API_KEY", "valueFrom": {"x": "y"}},
            {"name": "API_KEY", "valueFrom": {"x": "y"}},
        ),
        ({"adminPassword": "hunter2"}, {"adminPassword": "(hidden)"}),
        ({"automountServiceAccountToken": False}, {"automountServiceAccountToken": False}),
        ({"command": ["run", "--token=abcdef"]}, {"command": ["run", "--token=(hidden)"]}),
        ({"message": f"refused {JWT}"}, {"message": "refused (hidden)"}),
        ({"secretName": "keys", "number": 5}, {"secretName": "keys", "number": 5}),
    ],
)
def test_parts_of_objects(part: dict[str, object], shown: dict[str, object]) -> None:
    obj = {"kind": "ConfigMap", "data": {"a": "b"}, "deep": [part]}
    assert redact_object(obj, make_redactor(())) == {**obj, "deep": [shown]}


@pytest.mark.parametrize(
    "obj",
    [
        {"kind": "Secret", "data": None},
        {"metadata": None},
        {},
        {"env": [{"name": None, "value": "x"}, {"value": "x"}]},
        {"token": None, "password": "", "secret": {"secretName": "x"}, "keys": ["x"]},
    ],
)
def test_objects_of_odd_shape(obj: dict[str, object]) -> None:
    assert redact_object(obj, make_redactor(())) == obj


def test_value_is_masked_in_names_of_objects() -> None:
    values = SecretValues()
    values.learn(secret(a="postgres", password="postgres2"))
    assert values.mask("pod postgres-0: postgres2") == "pod (hidden)-0: (hidden)"


MANIFEST: dict[str, Any] = {
    "kind": "Postgresql",
    "metadata": {
        "name": "acid-zalando-main-db",
        "labels": {"team": "orders-team"},
        "annotations": {"note": "in-annotation"},
    },
    "spec": {
        "image": "registry.example/spilo-images/spilo:17",
        "users": {"app-user": ["superuser"]},
        "auth": {"root": "in-auth"},
        "adminPassword": "in-password",
        "env": [{"name": "SOME_NAME", "value": "in-variable"}],
        "command": ["run", "in-command"],
        "note": "x" * 600 + " in-a-long-text",
    },
    "data": {"a": "in-data"},
}


@pytest.mark.parametrize(
    "name",
    ["acid-zalando", "acid-zalando-main", "zalando", "orders-team", "spilo-images",
     "registry.example", "app-user", "SOME_NAME", "superuser"],
)  # fmt: skip
def test_names_in_manifests_are_shown(name: str) -> None:
    values = SecretValues()
    values.learn(secret(a=name, b="gr8-p@ss"))
    values.learn_manifest(MANIFEST)
    assert values.mask(f"{name} gr8-p@ss") == f"{name} (hidden)"


@pytest.mark.parametrize(
    "value",
    ["in-annotation", "in-auth", "in-password", "in-variable", "in-command", "in-data",
     "in-a-long-text"],
)  # fmt: skip
def test_values_that_manifests_have_where_credentials_are_given_stay_hidden(value: str) -> None:
    values = SecretValues()
    values.learn(secret(a=value))
    values.learn_manifest(MANIFEST)
    assert values.mask(value) == "(hidden)"


def test_the_manifest_of_a_secret_shows_its_name_alone() -> None:
    values = SecretValues()
    named = {"metadata": {"name": "zalando-db"}, "stringData": {"a": "zalando", "b": "gr8-p@ss"}}
    values.learn_manifest({"kind": "Secret", **named})
    assert values.mask("zalando gr8-p@ss") == "zalando (hidden)"


SOURCE = '''
from zalando_images import spilo_image

IMAGE = "registry.example/orders-team/spilo:17"
VALUE = "in-a-text"
LOGIN = "scott/tiger-17"
MANIFEST = """
kind: Secret
stringData: {a: in-a-manifest}
"""

def test_upgrade(kwait, big_cluster):
    kwait.exec("pod/acid-team-0", "redis-cli", "-a", "in-a-command")  # in-a-comment
    kwait.wait_for("acid-wait", "jsonpath={.data.a}=in-a-condition")
    wait_for_pod_ready(client, "function-space", "function-pod", "in-a-further-one")
    login("in-a-login", *values)
    print(kwait.logs(), "in-a-print", kwait.get("secret/has in-a-sentence"))
'''


def test_names_in_the_source_of_the_test_are_shown(tmp_path: Path) -> None:
    """Identifiers, images and names of objects; other texts may be values of Secrets."""
    path = tmp_path / "test_orders_service.py"
    path.write_text(SOURCE)
    values = SecretValues()
    names = [
        "zalando", "spilo_image", "orders-team", "upgrade", "big_cluster", "service",
        "acid-team", "acid-wait", "function-space", "function-pod",
    ]  # fmt: skip
    others = [
        "in-a-text", "tiger-17", "in-a-manifest", "in-a-command", "in-a-comment", "in-a-condition",
        "in-a-further-one", "in-a-login", "in-a-print", "in-a-sentence",
    ]  # fmt: skip
    values.learn(secret(**{f"a{number}": name for number, name in enumerate(names + others)}))
    values.find_source = lambda: path
    values.learn_source()
    values.learn_source()
    assert [name for name in names if values.mask(name) != name] == []
    assert [name for name in others if values.mask(name) == name] == []


@pytest.mark.parametrize("text", [None, "def broken(:", "\0"])
def test_a_source_that_is_no_python_shows_nothing(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "test_a.py"
    if text is not None:
        path.write_text(text)
    values = SecretValues()
    values.find_source = lambda: path
    values.learn(secret(a="broken"))
    values.learn_source()
    assert values.mask("broken") == "(hidden)"


def test_values_beyond_the_bound_are_not_masked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    values = SecretValues(max_size=1000)
    values.learn(secret(a="gr8-p@ss", b="b" * 1000, c="c" * 1000))
    assert values.mask("gr8-p@ss " + "b" * 1000) == "(hidden) " + "b" * 1000
    assert caplog.messages == ["values of further Secrets are not masked: there are too many"]


def test_log_records_are_masked(caplog: pytest.LogCaptureFixture) -> None:
    SECRET_VALUES.learn(secret(key="logged-gr8-p@ss"))
    logging.getLogger("pytest_kwait.wait").warning("it says %s", "logged-gr8-p@ss")
    logging.getLogger("pytest_kwait.wait").warning("it says %s", "hello")
    assert caplog.messages == ["it says (hidden)", "it says hello"]


def test_secrets_of_the_namespace_are_masked_in_messages_and_evidence() -> None:
    session = FakeSession()
    session.put(SECRETS, {"metadata": {"name": "db"}, **secret(pw="waited-gr8-p@ss")})
    session.put(JOBS, created_job())
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": "waited-gr8-p@ss"}}
    statuses = [{"name": "main", "state": ended}]
    session.put(PODS, job_pod("sleepers-a", containerStatuses=statuses))
    session.log_texts["sleepers-a/main"] = "login with waited-gr8-p@ss\n"

    with pytest.raises(WaitTimeout) as caught:
        wait_for_condition(
            session,
            condition_of(wait_for_job_complete)("ci-1", "sleepers"),
            WaitSettings(1.0, fail_fast=False),
        )

    shown = str(caught.value) + json.dumps(caught.value.evidence)
    assert "waited" not in shown.replace("awaited", "")
    assert "login with (hidden)" in shown
    # Once, after the logs, which may have values of Secrets that came meanwhile.
    assert session.requests.count("list secrets") == 1


def test_a_wait_that_succeeds_lists_no_secrets() -> None:
    session = FakeSession()
    session.put(JOBS, created_job(status={"conditions": [condition("Complete")]}))
    wait_for_condition(
        session, condition_of(wait_for_job_complete)("ci-1", "sleepers"), WaitSettings(1.0)
    )
    assert [request for request in session.requests if "secrets" in request] == []


def test_forbidden_lists_of_secrets_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    session = FakeSession()
    for _ in range(2):
        session.fail("list", SECRETS, ApiError("no", status=403, reason="Forbidden"))
    learn_secrets(session, ["ci-1", None, "ci-2", "ci-1"])
    assert caplog.messages == [
        "values of Secrets that this run has neither read nor written may be shown: Secrets cannot "
        "be listed (forbidden)"
    ]
    assert session.requests == ["list secrets", "list secrets"]


def test_lists_of_secrets_are_cached() -> None:
    session = FakeSession()
    learn_secrets(session, ["ci-1"])
    learn_secrets(session, ["ci-1"])
    learn_secrets(session, ["ci-1"], None)
    session.clock.sleep(1.5)
    learn_secrets(session, ["ci-1"], None)
    assert session.requests == ["list secrets"]
    learn_secrets(session, ["ci-1"])
    assert session.requests == ["list secrets", "list secrets"]


def test_lists_of_secrets_end_by_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession()
    given: list[float] = []

    def time_out(*_: object, deadline: Any, **__: object) -> None:
        given.append(deadline.remaining)
        session.clock.sleep(0.75)
        raise DeadlineExceeded

    monkeypatch.setattr(session, "list", time_out)
    learn_secrets(session, ["ci-1", "ci-2", "ci-3"], limit=1.0)
    assert given == pytest.approx([1.0, 0.25, 0.0])
    given.clear()
    learn_secrets(session, ["ci-4"], limit=60.0)
    assert given == pytest.approx([2.0])


def test_a_list_of_another_thread_is_awaited() -> None:
    """Its values are not known before its end."""
    session = FakeSession()
    session.put(SECRETS, {"metadata": {"name": "s"}, **secret(password="gr8-p@ss")})
    began, goes_on = threading.Event(), threading.Event()
    list_secrets = session.list

    def list_slowly(*args: Any, **options: Any) -> Any:
        began.set()
        assert goes_on.wait(60.0)
        return list_secrets(*args, **options)

    session.list = list_slowly  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(learn_secrets, session, ["ci-1"])
        assert began.wait(60.0)
        second = pool.submit(learn_secrets, session, ["ci-1"], None, 60.0)
        assert not second.done()
        goes_on.set()
        second.result()
        assert SECRET_VALUES.mask("gr8-p@ss") == "(hidden)"
        first.result()
    assert session.requests == ["list secrets"]


def test_values_of_other_processes_are_received_once() -> None:
    """Whatever number of threads ask for them: none is left out."""
    sent = [
        "value:" + base64.b64encode(f"gr8-value-{number}".encode()).decode() for number in range(99)
    ]
    length = 0

    def exchange(words: Sequence[str], position: int | None) -> Sequence[str]:
        nonlocal length
        length = min(length + 3, len(sent))
        return sent[position:length]

    values = SecretValues()
    values.exchange = exchange
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(values.receive) for _ in range(40)]:
            done.result()
    texts = [f"gr8-value-{number}" for number in range(99)]
    assert [text for text in texts if values.mask(text) == text] == []


class RunSession(FakeSession):
    """A cluster with Secrets in several namespaces."""

    def __init__(self, **secrets: dict[str, Any]) -> None:
        super().__init__()
        self.secrets = secrets
        self.listed: list[str] = []
        for name in secrets:
            run = "r7" if name.startswith("t") else "another"
            self.put(NAMESPACES, {"metadata": {"name": name, "labels": {"run": run}}})

    def list(self, resource: Any, namespace: str | None = None, **options: Any) -> Any:
        if resource is not SECRETS:
            return super().list(resource, namespace, **options)
        self.listed.append(str(namespace))
        self.put(SECRETS, {"metadata": {"name": "s"}, **self.secrets[str(namespace)]})
        return super().list(resource, namespace, **options)


def test_secrets_of_all_namespaces_of_the_run_are_masked() -> None:
    session = RunSession(
        t1=secret(password="gr8-own"), t2=secret(password="gr8-other"), x1=secret(password="gr8-x")
    )
    SECRET_VALUES.run_selector = "run=r7"
    learn_secrets(session, ["t1"])
    assert session.listed == ["t1", "t2"]
    assert SECRET_VALUES.mask("gr8-own gr8-other gr8-x..") == "(hidden) (hidden) gr8-x.."
    learn_secrets(session, ["t2"])
    assert session.listed == ["t1", "t2"]
    learn_secrets(session, ["t2"], 0.0)
    assert session.listed == ["t1", "t2", "t2", "t1"]
    # Its values were learned before its deletion.
    gone = {"name": "t1", "labels": {"run": "r7"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    session.put(NAMESPACES, {"metadata": gone})
    learn_secrets(session, ["t2"], 0.0)
    assert session.listed == ["t1", "t2", "t2", "t1", "t2"]


def test_namespaces_of_the_run_that_may_not_be_listed_are_left_out() -> None:
    session = RunSession(t1=secret(password="gr8-own"), t2=secret(password="gr8-other"))
    session.fail("list", NAMESPACES, ApiError("no", status=403, reason="Forbidden"))
    SECRET_VALUES.run_selector = "run=r7"
    learn_secrets(session, ["t1"])
    assert SECRET_VALUES.mask("gr8-own gr8-other") == "(hidden) gr8-other"
