from __future__ import annotations

import base64
import json
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kwait.apimachinery.secret_mask import MAX_NAMES, SecretMask
from tests.objects import secret

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("gr8-p@ss", "login with gr8-p@ss failed", "login with (hidden) failed"),
        ("gr8-p@ss\n", "gr8-p@ss", "(hidden)"),
        ("gr8-p@ss", "http://db?a=gr8-p%40ss&b=1", "http://db?a=(hidden)&b=1"),
        ("gr8/p ss", "a=gr8%2fp+ss a=gr8%2Fp%20ss", "a=(hidden) a=(hidden)"),
        ("gr8-p@ss", "Z3I4LXBAc3M=", "(hidden)"),
        # `echo $PW | base64`, and user:password.
        ("gr8-p@ss", base64.b64encode(b"gr8-p@ss\n").decode(), "(hidden)MK"),
        ("gr8-p@ss", base64.b64encode(b"me:gr8-p@ss").decode(), "bWU6(hidden)"),
        ("gr8-p@ss", base64.b64encode(b"you:gr8-p@ss").decode(), "eW91Om(hidden)"),
        ("??>>??>>", "Pz8-Pj8_Pj4= Pz8+Pj8/Pj4=", "(hidden) (hidden)"),
        ('say "gr8"', r'{"a": "say \"gr8\""}', '{"a": "(hidden)"}'),
        ("gr8-one\ngr8-two\n", "> gr8-two\n> gr8-one", "> (hidden)\n> (hidden)"),
        ("overlapping", "overlappingoverlapping.", "(hidden)."),
        ("short", "a short one", "a short one"),
        ("x" * 3000, f"<{'x' * 3000}>", "<(hidden)>"),
        # As Go prints JSON within JSON.
        ("p&ss<wörd>", r'{"a":"p\u0026ss\u003cwörd\u003e"}', '{"a":"(hidden)"}'),
        ("kurzwörter", "das kurzwörter: kurzw%C3%B6rter", "das (hidden): (hidden)"),
    ],
)
def test_values_of_secrets_are_masked(value: str, text: str, shown: str) -> None:
    known = SecretMask()
    known.learn(secret(key=value))
    assert known.mask(text) == shown


def test_a_wrapped_base64_text_is_masked() -> None:
    value = "".join(f"{number:x}" for number in range(100))
    known = SecretMask()
    known.learn(secret(key=value))
    assert known.mask(base64.encodebytes(value.encode()).decode()) == "(hidden)\n" * 4


def test_data_that_is_no_text_is_masked_in_base64() -> None:
    known = SecretMask()
    known.learn({"data": {"key": "/////////w=="}})
    assert known.mask("got /////////w==") == "got (hidden)"


@pytest.mark.parametrize("value", [random.Random(1).randbytes(40_000), "пароль-секрет".encode()])
def test_binary_and_other_alphabets_are_not_found_everywhere(value: bytes) -> None:
    known = SecretMask()
    known.learn({"data": {"key": base64.b64encode(value).decode()}})
    assert not known.may_match(b'{"metadata":{"name":"web-1","labels":{"a":"$b: c"}}}' * 100)
    assert known.may_match(base64.b64encode(value))


def test_a_text_that_is_cut_within_a_character_is_masked() -> None:
    known = SecretMask()
    known.learn({"stringData": {"a": "line-of-text\n" + "я" * 40_000}})
    assert known.mask("a line-of-text") == "a (hidden)"


def test_string_data_is_masked_and_invalid_data_is_left_out() -> None:
    known = SecretMask()
    known.learn({"stringData": {"a": "gr8-p@ss", "b": 5}, "data": {"c": "no base64!", "d": None}})
    known.learn({"data": "text"})
    assert known.mask("gr8-p@ss no base64!") == "(hidden) no base64!"


def test_public_data_of_service_account_tokens_is_shown() -> None:
    known = SecretMask()
    token = secret(token="opaque-token", namespace="team-blue")
    known.learn({**token, "type": "kubernetes.io/service-account-token"})
    assert known.mask("team-blue uses opaque-token") == "team-blue uses (hidden)"


def test_large_logs_are_masked_in_one_pass() -> None:
    known = SecretMask()
    for number in range(300):
        known.learn(secret(key=f"value-{number:04}-of-a-secret"))
    text = "an ordinary line of a log\n" * 20_000 + "value-0299-of-a-secret"
    assert known.mask(text) == "an ordinary line of a log\n" * 20_000 + "(hidden)"


def test_a_value_within_another_leaves_nothing_of_it() -> None:
    known = SecretMask()
    known.learn(secret(user="postgres", url="postgres://postgres:pa55@db"))
    assert known.mask("dial postgres://postgres:pa55@db failed") == "dial (hidden) failed"
    assert known.mask("user postgres") == "user postgres"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("username", "zalando"),
        ("POSTGRES_USER", "zalando"),
        ("pgUser", "me@example.com"),
        ("db-host", "db.example.com"),
        ("hostname", "db.example.com:5432"),
        ("database", "zalando-orders"),
        ("dbname", "zalando"),
        ("db", "zalando"),
        ("userName", "zalando"),
        ("DB_USER_NAME", "zalando"),
        ("database-name", "zalando"),
        ("db_host_name", "db.example.com:5432"),
        # The last word says what it is.
        ("auth_user", "zalando"),
        ("keycloak-username", "zalando"),
        ("connectionHost", "db.example.com"),
        ("port", "543210"),
    ],
)
def test_names_of_users_hosts_and_databases_are_shown(key: str, value: str) -> None:
    known = SecretMask()
    known.learn(secret(**{key: value, "password": "gr8-p@ss"}))
    assert known.mask(f"registry/{value}/spilo gr8-p@ss") == f"registry/{value}/spilo (hidden)"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", "zalando"),
        ("user-password", "zalando"),
        ("userName.key", "zalando"),
        ("authuser", "zalando"),
        ("name", "zalando"),
        ("token", "zalando"),
        ("userkey", "zalando"),
        ("value", "zalando"),
        ("transport", "zalando"),
        # Of a key that names users, but with more than a name.
        ("user", "admin:gr8-p@ss"),
        ("username", "admin gr8-p@ss"),
        ("host", "me:gr8-p@ss@db"),
        ("host", "admin:12345a"),
        ("user", "admin:12345"),
        ("database", "postgres://me:gr8-p@ss@db/x"),
        ("database", "line-one\nline-two"),
    ],
)
def test_values_of_other_keys_are_hidden(key: str, value: str) -> None:
    known = SecretMask()
    known.learn(secret(**{key: value}))
    assert known.mask(f"<{value}>") == "<(hidden)>"


@pytest.mark.parametrize("user_first", [False, True])
def test_a_user_that_is_a_password_too_is_hidden(user_first: bool) -> None:
    known = SecretMask()
    user, password = secret(username="zalando"), secret(password="zalando")
    for each in (user, password) if user_first else (password, user):
        known.learn(each)
    known.learn_names(["zalando"])
    assert known.mask("image zalando/spilo") == "image (hidden)/spilo"


@pytest.mark.parametrize("user_first", [False, True])
def test_a_user_is_a_name_elsewhere(user_first: bool) -> None:
    known = SecretMask()
    user, owner = secret(username="zalando"), secret(owner="zalando", token="zalando17")
    for each in (user, owner) if user_first else (owner, user):
        known.learn(each)
    assert known.mask("zalando/spilo zalando17") == "zalando/spilo (hidden)"


@pytest.mark.parametrize("names_first", [False, True])
def test_values_that_are_names_elsewhere_are_shown(names_first: bool) -> None:
    known = SecretMask()
    steps: list[Callable[[], None]] = [
        lambda: known.learn(secret(team="zalando", stage="gr8-p@ss", password="spilo-17")),
        lambda: known.learn_names(["zalando", "spilo-17", "short"]),
    ]
    for step in reversed(steps) if names_first else steps:
        step()
    text = "zalando/spilo-17 gr8-p@ss emFsYW5kbw=="
    assert known.mask(text) == "zalando/(hidden) (hidden) (hidden)"


@pytest.mark.parametrize("hidden_first", [False, True])
def test_a_name_that_is_a_credential_of_any_secret_is_hidden(hidden_first: bool) -> None:
    known = SecretMask()
    known.learn_names(["zalando"])
    secrets = [secret(password="zalando"), secret(team="zalando")]
    for each in secrets if hidden_first else reversed(secrets):
        known.learn(each)
    assert known.mask("a zalando") == "a (hidden)"


def test_keys_that_the_user_names_are_shown() -> None:
    known = SecretMask()
    known.readable_keys = ("stage", "db-*/tenant-*")
    for name in ("db-one", "other"):
        data = secret(stage="production", **{"tenant-a": f"tenant-of-{name}"})
        known.learn({"metadata": {"name": name}, **data})
    text = "production tenant-of-db-one tenant-of-other"
    assert known.mask(text) == "production tenant-of-db-one (hidden)"
    known.learn(secret(password="production"))
    assert known.mask(text) == "(hidden) tenant-of-db-one (hidden)"


def test_names_beyond_the_bound_stay_hidden() -> None:
    known = SecretMask()
    known.learn(secret(team="zalando", a="another"))
    known.learn_names(["zalando"])
    known.learn_names(map("name-{}".format, range(MAX_NAMES - 1)))
    known.learn_names(["another"])
    assert known.mask("zalando another") == "zalando (hidden)"


def test_values_beyond_the_bound_are_left_out() -> None:
    known = SecretMask(max_size=1000)
    full: list[bool] = []
    for each in (secret(a="gr8-p@ss"), secret(b="b" * 1000)):
        known.learn(each)
        full.append(known.is_full)
    assert full == [False, True]
    assert known.mask("gr8-p@ss " + "b" * 1000) == "(hidden) " + "b" * 1000


def test_texts_without_a_value_are_passed_over() -> None:
    known = SecretMask()
    assert not known.may_match(b"anything")
    known.learn(secret(a="gr8-p@ss", b="short1"))
    assert not known.may_match(b"")
    assert not known.may_match(b'{"metadata":{"name":"web","namespace":"t-1"}}' * 100)
    assert known.may_match(b"a short1 one")


@given(
    st.text(min_size=6, max_size=40).filter(lambda text: len(text.strip()) >= 6),
    st.text(max_size=9),
    st.text(max_size=9),
)
def test_a_value_is_found_in_json_wherever_it_stands(value: str, before: str, after: str) -> None:
    few, many = SecretMask(), SecretMask()
    many.learn({"stringData": {str(number): f"other-value-{number}" for number in range(9)}})
    for known in (few, many):
        known.learn({"stringData": {"a": value}})
    text = f"{before}{value.encode('utf-8', 'ignore').decode().strip()}{after}"
    for encoded in (json.dumps(text, ensure_ascii=False), json.dumps(json.dumps(text))):
        data = encoded.encode("utf-8", "surrogatepass")
        assert (few.may_match(data), many.may_match(data)) == (True, True)
