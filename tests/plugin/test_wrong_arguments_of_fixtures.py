"""Wrong values for each argument of the functions and objects that fixtures return."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

SUITE = """
import inspect
import pytest
from pytest_kwait import InvalidArgument
from pytest_kwait.suite.fixture_types import LeaderElectionFactory

class Wrong:
    def __repr__(self):
        return "<wrong>"

VALUES = {"args": "get", "change": dict, "command": "true", "replicas": 1, "taints": "a:NoSchedule",
          "target": "deployment/a", "source": "/tmp", "copy_to target": "/tmp/data"}
MAPPINGS = {"annotations": {"a": "b"}, "labels": {"a": "b"}, "patch": {"a": "b"}}
# What the plugin alone calls.
INTERNAL = {"close", "watch_sync", "audited", "step"}

def call(function, parameters, wrong):
    positional, named, left_out = [], {}, False
    for parameter in parameters:
        if parameter.name == wrong:
            value = Wrong()
        elif parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
            left_out = True
            continue
        elif parameter.kind is parameter.VAR_POSITIONAL and left_out:
            continue  # it would come in the place of another one
        elif parameter.name in MAPPINGS:
            value = MAPPINGS[parameter.name]
        else:
            value = VALUES.get(parameter.name, "pods")
            value = VALUES.get(f"{function.__name__} {parameter.name}", value)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            positional = [*named.values(), *positional, value]
            named = {}
        else:
            named[parameter.name] = value
    made = function(*positional, **named)
    if hasattr(made, "__enter__"):
        with made:
            pass

def find_error(function, parameters, wrong):
    try:
        call(function, parameters, wrong)
    except InvalidArgument as error:
        return "" if "<wrong>" in str(error) else str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"

def test_factories(kwait_informers, kwait_scheduler, kwait_leader_election, kwait_factory):
    election = inspect.signature(LeaderElectionFactory.__call__).parameters.values()
    rows = [
        (function, list(inspect.signature(function).parameters.values()))
        for function in (kwait_informers.__call__, kwait_scheduler.__call__, kwait_factory)
    ]
    rows.append((kwait_leader_election, list(election)[1:]))
    errors = {
        f"{function} {parameter.name}": error
        for function, parameters in rows
        for parameter in parameters
        if (error := find_error(function, parameters, parameter.name))
    }
    assert errors == {}

def test_namespaces(kwait):
    errors, count = {}, 0
    for name, function in inspect.getmembers(kwait, inspect.ismethod):
        parameters = list(inspect.signature(function).parameters.values())
        if name[0] == "_" or name in INTERNAL or name.startswith("wait_for"):
            continue
        for parameter in parameters:
            if parameter.name in ("namespace", "kind", "as_model") or (
                parameter.name == "name" and name.endswith(("cordon", "drain", "taint"))
            ):
                count += 1
                if error := find_error(function, parameters, parameter.name):
                    errors[f"{name}({parameter.name})"] = error
    assert count > 25
    assert errors == {}
"""


def test_arguments_of_wrong_types_are_named_with_their_value(
    pytester: pytest.Pytester, fake_cluster: object
) -> None:
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess("-q")
    result.assert_outcomes(passed=2)
