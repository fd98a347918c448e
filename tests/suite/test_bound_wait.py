from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from kubernetes.client import ApiClient, V1Job, V1ObjectMeta, V1Pod

from pytest_kwait.client.session import TimeBudget
from pytest_kwait.engine.options import Timeouts
from pytest_kwait.errors import InvalidArgument, WaitTimeout
from pytest_kwait.framework.registry import VERBS, WAITS, Wait
from pytest_kwait.suite.bound_wait import (
    BoundCacheSync,
    BoundWait,
    WaitDefaults,
    check_call,
)
from pytest_kwait.suite.config.settings import Settings

_CLIENT: Any = object()
_DEFAULTS = {"timeout": 900.0, "mode": "watch", "fail_fast": True}


def wait_for_it(*args: Any, **options: Any) -> Any:
    """Stands for a wait: gives back what it was called with."""
    if args[-1] == "never":
        raise WaitTimeout("it did not come")
    return args, options


def wait_for_cache_sync(*args: Any, **options: Any) -> Any:
    return args, options


_WAIT = Wait("wait_for_it", "name", "it", __name__, "job")
_SYNC = Wait(
    "wait_for_cache_sync", "*resources", "it", __name__, "cache_sync", namespaced=False, bound=False
)


def settings(**given: Any) -> Settings:
    return Settings().merged(given, lambda definition: f"option {definition.flag}")


def defaults(in_force: Settings | None = None, **changes: Any) -> WaitDefaults:
    given = in_force or Settings()
    filled: dict[str, Any] = {"timeouts": given.timeouts(), **changes}
    return WaitDefaults(_CLIENT, "ci-1", given, **filled)


def test_client_namespace_and_settings_are_filled_in() -> None:
    assert BoundWait(_WAIT, defaults())("pi") == ((_CLIENT, "ci-1", "pi"), _DEFAULTS)


def test_call_wins_over_settings_and_settings_over_the_table() -> None:
    given = settings(timeout="1m", poll="3s", mode="poll", grace="9s", stable_for="1s")
    _, options = BoundWait(_WAIT, defaults(given))("pi", timeout="5s", grace=None)
    assert options == {
        "timeout": "5s",
        "poll": 3.0,
        "mode": "poll",
        "fail_fast": True,
        "grace": 9.0,
        "stable_for": 1.0,
    }


def test_a_table_that_was_replaced_is_used() -> None:
    table = Timeouts().merged({"job": 7.0, "poll": 0.5})
    _, options = BoundWait(_WAIT, defaults(timeouts=table))("pi")
    assert (options["timeout"], options["poll"]) == (7.0, 0.5)


def test_a_call_can_name_another_namespace() -> None:
    args, _ = BoundWait(_WAIT, defaults())("pi", namespace="other")
    assert args == (_CLIENT, "other", "pi")


def test_waits_without_namespace_refuse_one() -> None:
    wait = Wait("wait_for_it", "", "it", __name__, "job", namespaced=False)
    args, _ = BoundWait(wait, defaults())("pi")
    assert args == (_CLIENT, "pi")
    with pytest.raises(InvalidArgument) as caught:
        BoundWait(wait, defaults())("pi", namespace="other")
    assert str(caught.value) == (
        "namespace='other' is not valid: leave it out, as wait_for_it is about objects without a "
        "namespace"
    )


@pytest.mark.parametrize(("left", "cut"), [(50.06, 50.0), (0.0, 0.1), (901.0, 900.0)])
def test_a_limit_ends_before_the_tests_own(left: float, cut: float) -> None:
    time_budget = TimeBudget(left, "the test's own timeout of 1m0s (pytest-timeout)")
    _, options = BoundWait(_WAIT, defaults(time_budget=lambda: time_budget))("pi")
    assert options["timeout"] == cut


def test_shortened_wait_names_the_test_timeout() -> None:
    time_budget = TimeBudget(50.04, "the test's own timeout of 1m0s (pytest-timeout)")
    with pytest.raises(WaitTimeout) as caught:
        BoundWait(_WAIT, defaults(time_budget=lambda: time_budget))("never")
    assert caught.value.__notes__ == [
        "its limit of 15m0s was cut to 50s to end before the test's own timeout of 1m0s "
        "(pytest-timeout)"
    ]


def test_full_wait_has_no_note() -> None:
    with pytest.raises(WaitTimeout) as caught:
        BoundWait(_WAIT, defaults(time_budget=lambda: TimeBudget(50.0, "x")))(
            "never", timeout="50s"
        )
    assert not hasattr(caught.value, "__notes__")


class Informers:
    def start(self, name: str) -> list[str]:
        return [f"informer of {name}"]


def test_cache_sync_takes_names_and_only_its_own_options() -> None:
    informers: Any = Informers()
    wait = BoundCacheSync(_SYNC, defaults(settings(mode="poll")), lambda: informers)
    assert wait("pods", len, name="me") == (
        ("informer of pods", len),
        {"name": "me", "timeout": Timeouts()["cache_sync"]},
    )


def test_repr_names_wait_and_arguments() -> None:
    wait = BoundWait(WAITS["wait_for_job_failed"], defaults())
    assert repr(wait) == "<wait_for_job_failed(name) in ci-1>"
    assert (wait.__name__, wait.__doc__) == (
        "wait_for_job_failed",
        "`pytest_kwait.wait_for_job_failed(name)` on this test's cluster.",
    )


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("wait_for_job_pods_running", ("sleepers", 3), {"timeout": "2m", "namespace": "other"}),
        ("wait_for_job_complete", ("pi",), {}),
        ("wait_for_cache_sync", ("pods", "jobs"), {"timeout": 5, "name": "me"}),
    ],
)
def test_valid_markers_are_accepted(name: str, args: tuple[Any, ...], kwargs: Any) -> None:
    check_call(name, args, kwargs)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "message"),
    [
        (
            "wait_for_job_pods_running",
            ("sleepers", -1),
            {},
            "count=-1 is not valid: use a whole number, 0 or more",
        ),
        (
            "wait_for_job_complete",
            ("Pi",),
            {},
            "job='Pi' is not valid: use a DNS name: up to 253 lower-case letters, digits, '-' and "
            "'.', with a letter or digit at both ends of each part",
        ),
        (
            "wait_for_job_complete",
            ("pi",),
            {"namespace": "Other"},
            "namespace='Other' is not valid: use a DNS label: up to 63 lower-case letters, digits "
            "and '-', with a letter or digit at both ends",
        ),
        (
            "wait_for_cache_sync",
            (),
            {},
            "resources=() is not valid: use wait_for_cache_sync(*resources), "
            "for example ('pods', 'jobs')",
        ),
        (
            "wait_for_cache_sync",
            ("pods",),
            {"poll": 1},
            "argument='poll' is not valid: wait_for_cache_sync takes resource names, timeout and "
            "name",
        ),
        (
            "wait_for_cache_sync",
            ("pods",),
            {"timeout": "soon"},
            "timeout='soon' is not valid: use seconds (90), a timedelta, or a Go duration "
            "('500ms', '90s', '1m30s')",
        ),
    ],
)
def test_invalid_markers_are_refused(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_call(name, args, kwargs)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "args", "valid"),
    [
        (
            "wait_for_node_ready",
            ("node-1",),
            "leave it out, as wait_for_node_ready is about objects without a namespace",
        ),
        (
            "wait_for_cache_sync",
            ("pods",),
            "leave it out, as the informers of wait_for_cache_sync have their own",
        ),
    ],
)
def test_markers_without_namespace_refuse_one(name: str, args: tuple[str], valid: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_call(name, args, {"namespace": "other"})
    assert str(caught.value) == f"namespace='other' is not valid: {valid}"


_OPTIONS = (
    "the options of every wait: timeout, poll, mode, fail_fast, grace, stable_for, "
    "follow_name, stop; methods and fixtures also take namespace and as_model"
)


@pytest.mark.parametrize(
    ("wait", "args", "options", "message"),
    [
        (
            WAITS["wait_for_job_pods_running"],
            ("pi", 3, 4, 5),
            {},
            "arguments of wait_for_job_pods_running=\"('pi', 3, 4, 5)\" is not valid: too many "
            "positional arguments; use wait_for_job_pods_running(name, count) and "
            f"{_OPTIONS}",
        ),
        (
            WAITS["wait_for_job_complete"],
            (),
            {"jop": "pi"},
            "arguments of wait_for_job_complete=\"(jop='pi')\" is not valid: missing a required "
            f"argument: 'name'; use wait_for_job_complete(name, reason=None, "
            f"completions=None) and {_OPTIONS}",
        ),
        (
            VERBS["scale"],
            ("deployment/web",),
            {},
            "arguments of scale=\"('deployment/web')\" is not valid: missing a required argument: "
            f"'replicas'; use scale(target, replicas, *, selector=None) and {_OPTIONS}",
        ),
    ],
)
def test_wrong_arguments_show_what_was_given(
    wait: Wait, args: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        BoundWait(wait, defaults())(*args, **options)
    assert str(caught.value) == message


_PI = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "pi"}}


@pytest.mark.parametrize(
    ("result", "names"), [(_PI, "pi"), ([_PI, _PI], ["pi", "pi"]), ([], []), (None, None)]
)
def test_results_as_models(result: Any, names: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.wait_for_it", lambda *_, **__: result)
    wait = BoundWait(_WAIT, replace(defaults(), client=ApiClient()))

    found = wait("pi", as_model=V1Job)

    listed = found if isinstance(found, list) else [found]
    assert all(isinstance(each, V1Job) for each in listed if each is not None)
    shown = [each and each.metadata.name for each in listed]
    assert (shown if isinstance(found, list) else shown[0]) == names


class ClientBefore37(ApiClient):
    """An official client whose `deserialize` takes an answer."""

    def deserialize(self, response: Any, response_type: Any) -> Any:  # type: ignore[override]
        return response_type(metadata=V1ObjectMeta(**json.loads(response.data)["metadata"]))


def test_results_as_models_of_an_earlier_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.wait_for_it", lambda *_, **__: _PI)
    wait = BoundWait(_WAIT, replace(defaults(), client=ClientBefore37()))

    assert wait("pi", as_model=V1Job).metadata.name == "pi"


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            V1Pod,
            "as_model=<class 'kubernetes.client.models.v1_pod.V1Pod'> is not valid: Job pi is of "
            "another kind",
        ),
        (
            dict,
            "as_model=<class 'dict'> is not valid: use a model of the official client, for example "
            "V1Pod",
        ),
    ],
)
def test_models_of_other_kinds(
    model: type[Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.wait_for_it", lambda *_, **__: _PI)
    with pytest.raises(InvalidArgument) as caught:
        BoundWait(_WAIT, replace(defaults(), client=ApiClient()))("pi", as_model=model)
    assert str(caught.value) == text


@pytest.mark.parametrize("name", ["wait_for_pv_and_pvc", "wait_for_cache_sync"])
def test_waits_for_no_objects_of_one_kind_have_no_model(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        BoundWait(WAITS[name], defaults())("volume", "claim", as_model=V1Pod)
    assert str(caught.value) == (
        "as_model=<class 'kubernetes.client.models.v1_pod.V1Pod'> is not valid: leave it out, as "
        f"{name} returns no objects of one kind"
    )
