"""Rules of scripted pods: requests and invalid arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.clusters.scripted_pods import script_pods
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.container_scripts import script_from_mapping

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.clusters.faults import Faults
    from pytest_kwait.clusters.scripted_pods import ScriptedPods


class _Sent:
    """Takes what is made, in place of a cluster's faults."""

    def __init__(self) -> None:
        self.rules: list[tuple[dict[str, Any], str | None]] = []

    def rule(self, asked: dict[str, Any], namespace: str | None) -> None:
        self.rules.append((asked, namespace))


def _rules(sent: _Sent, **selection: Any) -> ScriptedPods:
    given = {"label": "", "name": "", "container": "", "namespace": None, **selection}
    return script_pods(cast("Faults", sent), **given)


@pytest.mark.parametrize(
    ("make", "script"),
    [
        (lambda rules: rules.run(), {"run": "forever", "exit": 0}),
        (lambda rules: rules.run(for_=2, exit=3), {"run": 2.0, "exit": 3}),
        (
            lambda rules: rules.run(for_="500ms", reason="Boom", message="bye"),
            {"run": 0.5, "exit": 0, "reason": "Boom", "message": "bye"},
        ),
        (lambda rules: rules.crash_loop(), {"run": 0.0, "exit": 1}),
        (lambda rules: rules.hold_pending(), {"start": "never"}),
        (lambda rules: rules.start(after="1s"), {"start": 1.0}),
        (lambda rules: rules.pull(for_=3), {"pull": 3.0}),
        (lambda rules: rules.pull_error(), {"pull_error": "not found"}),
        (lambda rules: rules.ready(after=2), {"ready": 2.0}),
        (lambda rules: rules.never_ready(), {"ready": "never"}),
        (lambda rules: rules.logs(["a b", "c"]), {"log": ["a b", "c"]}),
    ],
)
def test_each_rule_is_a_script(
    make: Callable[[ScriptedPods], object], script: dict[str, Any]
) -> None:
    sent = _Sent()
    make(_rules(sent, label="app=web", container="c", namespace="n"))
    selection = {"label": "app=web", "pod": "", "container": "c"}
    assert sent.rules == [({"kind": "script", **selection, "script": script}, "n")]
    # The cluster understands it.
    script_from_mapping(script)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda rules: rules.run(for_="soon"),
            "for_='soon' is not valid: use seconds (90), a timedelta, or a Go duration",
        ),
        (lambda rules: rules.run(for_=1, exit=256), "a whole number from 0 to 255"),
        (lambda rules: rules.run(for_=1, exit=True), "a whole number from 0 to 255"),
        (lambda rules: rules.run(exit=3), "a duration, as there is an exit code to end with"),
        (lambda rules: rules.crash_loop(-1), "a whole number from 0 to 255"),
        (lambda rules: rules.pull_error(""), "a text that is not empty"),
        (lambda rules: rules.run(for_=1, reason=""), "a text that is not empty"),
        (lambda rules: rules.ready(after=-1), "not below zero"),
        (lambda rules: rules.logs("abc"), "a list of lines"),
        (lambda rules: rules.logs(["a\nb"]), "a list of lines"),
    ],
)
def test_invalid_arguments_are_refused_before_any_request(
    make: Callable[[ScriptedPods], object], told: str
) -> None:
    sent = _Sent()
    with pytest.raises(InvalidArgument) as refused:
        make(_rules(sent))
    assert told in str(refused.value) or told.partition(": ")[2] in str(refused.value)
    assert not sent.rules


@pytest.mark.parametrize(
    ("selection", "what"),
    [({"label": "a b="}, "label"), ({"name": 3}, "name"), ({"container": None}, "container")],
)
def test_invalid_selections_are_refused(selection: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidArgument, match=what):
        _rules(_Sent(), **selection)
