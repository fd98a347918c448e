from __future__ import annotations

import inspect
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import (
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    STATEFUL_SETS,
)
from pytest_kwait.engine.options import TIMEOUTS
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import strip_kind
from pytest_kwait.framework.registry import VERBS, WAITS
from tests.rows import check_rows

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from tests.engine.fake_session import FakeSession

OPTIONS = (
    "and the options of every wait: timeout, poll, mode, fail_fast, grace, stable_for, "
    "follow_name, stop; methods and fixtures also take namespace and as_model"
)
BOUND = [wait.name for wait in WAITS.values() if wait.bound]


def test_every_wait_is_there_and_its_limit_in_the_table() -> None:
    check_rows(WAITS, _check_limit)


def _check_limit(name: str) -> None:
    wait = WAITS[name]
    assert callable(wait.function)
    assert wait.function.__name__ == wait.name == name
    assert wait.timeout in TIMEOUTS


def test_function_marker_and_usage_take_the_same_arguments() -> None:
    check_rows(BOUND, _check_arguments)


def _check_arguments(name: str) -> None:
    wait = WAITS[name]
    function = [*inspect.signature(wait.function).parameters.values()]

    first = ["client", "namespace"] if wait.namespaced else ["client"]
    assert [p.name for p in function[: len(first)]] == first
    assert function[-1].kind is inspect.Parameter.VAR_KEYWORD
    assert wait.make_condition is not None
    condition = inspect.signature(wait.make_condition).parameters.values()
    assert [(p.name, p.default, p.kind) for p in function[1:-1]] == [
        (p.name, p.default, p.kind) for p in condition if p.kind is not p.VAR_KEYWORD
    ]
    usage = inspect.Signature([p.replace(annotation=p.empty) for p in function[len(first) : -1]])
    assert str(usage) == f"({wait.usage})"


def test_a_wait_returns_the_result_of_its_condition() -> None:
    function = WAITS["wait_for_job_failed"].function

    assert str(inspect.signature(function)) == (
        "(client: 'ApiClient', namespace: 'str', name: 'str', "
        "**options: 'Unpack[WaitOptions]') -> 'dict[str, Any]'"
    )
    assert (function.__doc__ or "").startswith("Return a Job once its Failed condition is True.")


def test_the_client_may_be_given_by_name(client: ApiClient, session: FakeSession) -> None:
    wait_for_namespaces_deleted = WAITS["wait_for_namespaces_deleted"].function

    assert wait_for_namespaces_deleted(client=client, namespaces=[], timeout=1) is None
    assert session.requests == []
    with pytest.raises(InvalidArgument, match=r"^wait option='timout' is not valid: a wait takes"):
        wait_for_namespaces_deleted(client, [], timout=1)


def test_reading_the_list_imports_no_wait() -> None:
    code = (
        "import sys, pytest_kwait.framework.registry\n"
        "print([m for m in ('kubernetes', 'msgspec', 'urllib3') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("wait_for_job_pods_running", ("sleepers", 3), {"timeout": "2m"}),
        ("wait_for_job_complete", ("pi",), {"completions": 3, "mode": "poll"}),
        ("wait_for_pods_on_minions", ("rc/web",), {"poll": 1}),
        ("wait_for_pods_on_minions", (), {"selector": {"app": "web"}}),
        ("wait_for", ("pod/a", "condition=Ready"), {}),
        ("wait_for_cache_sync", ("pods",), {}),
    ],
)
def test_good_arguments(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    WAITS[name].check(*args, **kwargs)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "text"),
    [
        (
            "wait_for_job_pods_running",
            ("sleepers",),
            {},
            "arguments of wait_for_job_pods_running=\"('sleepers')\" is not valid: missing a "
            "required argument: 'count'; "
            f"use wait_for_job_pods_running(name, count) {OPTIONS}",
        ),
        (
            "wait_for_job_finish",
            ("sleepers",),
            {"timout": 3},
            "arguments of wait_for_job_finish=\"('sleepers', timout=3)\" is not valid: got an "
            f"unexpected keyword argument 'timout'; use wait_for_job_finish(name) {OPTIONS}",
        ),
        (
            "wait_for_job_pods_running",
            ("sleepers", -1),
            {},
            "count=-1 is not valid: use a whole number, 0 or more",
        ),
        (
            "wait_for_job_finish",
            ("sleepers",),
            {"mode": "stare"},
            "mode='stare' is not valid: use 'watch' or 'poll'",
        ),
    ],
)
def test_bad_arguments(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        WAITS[name].check(*args, **kwargs)

    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("name", "args", "options", "noun"),
    [
        ("wait_for_job_complete", ("job/pi",), {}, "job default/pi"),
        ("wait_for_job_complete", (), {"name": "jobs.batch/pi"}, "job default/pi"),
        ("wait_for_pod_ready", ("po/web",), {}, "pod default/web"),
        ("wait_for_node_ready", ("node/one",), {}, "node one"),
        ("wait_for_job_complete", ("pi",), {}, "job default/pi"),
    ],
)
def test_a_name_may_have_its_kind(
    name: str, args: tuple[str, ...], options: dict[str, str], noun: str
) -> None:
    make = WAITS[name].make_condition
    assert make is not None
    first = ("default",) if WAITS[name].namespaced else ()
    assert make(*first, *args, **options).subject == noun


def test_a_name_with_another_kind_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"^job='pod/pi' is not valid: "):
        WAITS["wait_for_job_complete"].check("pod/pi")


@pytest.mark.parametrize(
    ("kind", "value", "stripped"),
    [
        (STATEFUL_SETS, "sts/web", "web"),
        (PERSISTENT_VOLUME_CLAIMS, "pvc/data", "data"),
        (NODES, ["node/a", "b"], ["a", "b"]),
        (PERSISTENT_VOLUME_CLAIMS, ("pvc/a", "pv/b"), ("a", "pv/b")),
        (JOBS, "job/x/y", "job/x/y"),
        (JOBS, 3, 3),
    ],
)
def test_the_declared_kind_is_stripped(kind: Resource, value: object, stripped: object) -> None:
    assert strip_kind(value, kind) == stripped


def test_an_object_is_named_by_one_argument() -> None:
    check_rows([*WAITS, *VERBS], _check_named_object)


def _check_named_object(name: str) -> None:
    """`name` has a kind, `target` has it in its value, and both are declared."""
    wait = WAITS.get(name) or VERBS[name]
    arguments = list(wait.signature.parameters)
    assert set(wait.kinds) <= set(arguments)
    assert ("target" in arguments) == ("target" in wait.kinds)
    if "name" in wait.kinds:
        assert arguments[arguments[0] == "namespace"] == "name"
        assert wait.kinds["name"] is not None
    # A singular kind in another place is a second object.
    second = {"claim", "node", "pod", "service"} & set(arguments)
    assert not second or "name" in wait.kinds


_WORDS = {
    "bool": {
        *("all_namespaces", "allowed", "match_any", "present", "schedulable", "status"),
        "want_name",
    },
    "int": {
        *("allowed_not_ready", "completions", "count", "generation", "max_replicas"),
        *("min_count", "min_replicas", "port", "ready_count", "revision"),
    },
}


@pytest.mark.parametrize("kind", ["bool", "int"])
def test_arguments_have_one_family_of_names(kind: str) -> None:
    found = {
        parameter.name
        for declared in WAITS.values()
        for parameter in declared.signature.parameters.values()
        if str(parameter.annotation).partition(" | ")[0] == kind
    }
    assert found == _WORDS[kind]
