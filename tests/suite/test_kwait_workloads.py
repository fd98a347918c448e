"""Calls and arguments of the verbs of `Kwait` that wait."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.client.session import TimeBudget
from pytest_kwait.errors import InvalidArgument, WaitTimeout
from pytest_kwait.framework.registry import VERBS
from pytest_kwait.suite.bound_wait import WaitDefaults
from pytest_kwait.suite.cleanup.owned_objects import Owner
from pytest_kwait.suite.config.settings import Settings
from pytest_kwait.suite.kwait import Kwait
from tests.suite.fakes import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.clusters.cluster import Cluster

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """The arguments of the verbs' functions after the client."""
    noted: list[Call] = []
    for name, verb in VERBS.items():

        def note(client: Any, *args: Any, name: str = name, **options: Any) -> list[str]:
            noted.append((name, args, options))
            return [name]

        monkeypatch.setattr(import_module(verb.module), name, note)
    return noted


def make_kwait(
    settings: Settings, time_budget: Callable[[], TimeBudget | None] = lambda: None
) -> Kwait:
    cluster = FakeCluster()
    client = cluster.client()
    defaults = WaitDefaults(client, "ci-1", settings, settings.timeouts(), time_budget)
    owner = Owner("r1", "tests/test_x.py::test_y", "test_y")
    return Kwait(
        cast("Cluster", cluster),
        client,
        "ci-1",
        owner=owner,
        defaults=lambda: defaults,
        folders=list,
        owned=True,
    )


@pytest.fixture
def kwait() -> Iterator[Kwait]:
    made = make_kwait(Settings())
    yield made
    made.close()


def test_arguments_and_settings_are_filled_in(kwait: Kwait, calls: list[Call]) -> None:
    returned: object = kwait.scale("deployment/web", 3, timeout=5)
    assert returned == ["scale"]
    kwait.restart("deployment/web", namespace="other")
    kwait.delete_and_wait("pod/a", grace_period=0)

    assert [(name, args) for name, args, _ in calls] == [
        ("scale", ("ci-1", "deployment/web", 3)),
        ("restart", ("other", "deployment/web")),
        ("delete_and_wait", ("ci-1", "pod/a")),
    ]
    options = [each for _, _, each in calls]
    assert [each["timeout"] for each in options] == [5, 300.0, 600.0]
    assert {each["mode"] for each in options} == {"watch"}
    assert options[2]["grace_period"] == 0


def test_rolling_update_polls_by_default(kwait: Kwait, calls: list[Call]) -> None:
    kwait.rolling_update("rc/web", "1s")
    kwait.rolling_update("rc/web", mode="watch", poll=1)
    set_up = make_kwait(Settings().merged({"mode": "watch", "poll": 3}, lambda _: "option"))
    set_up.rolling_update("rc/web")

    assert [args for _, args, _ in calls] == [
        ("ci-1", "rc/web", "1s"),
        ("ci-1", "rc/web", 60.0),
        ("ci-1", "rc/web", 60.0),
    ]
    taken = [(each["mode"], each["poll"], each["timeout"]) for _, _, each in calls]
    assert taken == [("poll", 5.0, 300.0), ("watch", 1, 300.0), ("watch", 3, 300.0)]


def test_a_strict_rolling_update_watches(kwait: Kwait, calls: list[Call]) -> None:
    kwait.rolling_update("rc/web", strict=True)

    ((_, _, options),) = calls
    assert (options["strict"], options["mode"], options["poll"]) == (True, "watch", 5.0)
    assert options["within"] is None


def test_rolling_update_ends_before_the_test_timeout(calls: list[Call]) -> None:
    left = [TimeBudget(80.06, "the test's own timeout of 1m30s (pytest-timeout)")]
    kwait = make_kwait(Settings(), lambda: left[0])
    kwait.rolling_update("rc/web")
    kwait.rolling_update("rc/web", within="20s")
    kwait.rolling_update("rc/web", within="200s")

    assert [(each["within"], each["timeout"]) for _, _, each in calls] == [
        (80.0, 80.0),
        (20.0, 80.0),
        (80.0, 80.0),
    ]


def test_rolling_update_error_names_the_test_timeout(
    calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "the test's own timeout of 10m0s (pytest-timeout)"
    left = [TimeBudget(590.0, reason)]

    def take_long(*_: Any, **__: Any) -> None:
        left[0] = TimeBudget(0.0, reason)
        raise WaitTimeout("not back")

    monkeypatch.setattr(import_module(VERBS["rolling_update"].module), "rolling_update", take_long)
    with pytest.raises(WaitTimeout) as caught:
        make_kwait(Settings(), lambda: left[0]).rolling_update("rc/web")

    assert caught.value.__notes__ == [f"all of it had to end before {reason}"]


def test_created_object_is_awaited_in_its_namespace(kwait: Kwait, calls: list[Call]) -> None:
    elsewhere = {**POD, "metadata": {"name": "b", "namespace": "other"}}
    kwait.create_and_wait(POD, elsewhere, grace=1)

    made = [(args[0], args[1]["metadata"]["name"], args[2]) for _, args, _ in calls]
    assert made == [("ci-1", "a", None), ("other", "b", None)]
    assert [each["grace"] for _, _, each in calls] == [1, 1]


def test_kinds_without_a_wait_are_refused_before_creation(kwait: Kwait, calls: list[Call]) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    with pytest.raises(InvalidArgument, match=r"^condition=None is not valid: say what is awaited"):
        kwait.create_and_wait(POD, config_map)

    assert calls == []
    assert kwait.list("pods") == []
