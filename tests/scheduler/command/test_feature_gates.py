from __future__ import annotations

import pytest

from pytest_kwait.scheduler.command import CommandError
from pytest_kwait.scheduler.command.feature_gates import GATES, FeatureGates, describe_gates


def test_gates_have_their_defaults() -> None:
    gates = FeatureGates()

    assert [on for _, _, on in gates.states()] == [gate.default for gate in GATES.values()]
    assert list(GATES) == sorted(GATES)


@pytest.mark.parametrize(
    ("pairs", "on"),
    [
        (["ComponentFlagz=false"], False),
        (["kube:ComponentFlagz=false"], False),
        (["ComponentFlagz=false", "ComponentFlagz=true"], True),
        ([" ComponentFlagz = F "], False),
        (["GangScheduling=false"], True),
    ],
)
def test_gate_can_be_set(pairs: list[str], on: bool) -> None:
    assert FeatureGates.parse(pairs).enabled("ComponentFlagz") is on


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        (["Bogus=true"], "unrecognized feature gate: Bogus"),
        (
            ["GangScheduling=true"],
            "cannot set feature gate GangScheduling to true, feature is locked to false",
        ),
        (
            ["GangScheduling=true", "Bogus=false"],
            "[cannot set feature gate GangScheduling to true, feature is locked to false,"
            " unrecognized feature gate: Bogus]",
        ),
        (["ComponentFlagz"], "missing bool value for ComponentFlagz"),
        (
            ["ComponentFlagz=maybe"],
            "invalid value of ComponentFlagz=maybe, err: "
            'strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (["wardle:A=true"], "component not registered: wardle"),
        (
            ["ComponentFlagz=true", "kube:ComponentFlagz=true"],
            "set kube feature gates with default empty prefix or kube: prefix consistently,"
            " do not mix use",
        ),
    ],
)
def test_gate_is_refused(pairs: list[str], error: str) -> None:
    with pytest.raises(CommandError) as caught:
        FeatureGates.parse(pairs)
    assert str(caught.value) == error


def test_help_lists_gates_that_can_be_set() -> None:
    assert describe_gates() == [
        "kube:ComponentFlagz=true|false (BETA - default=true)",
        "kube:SchedulerPopFromBackoffQ=true|false (BETA - default=true)",
    ]
