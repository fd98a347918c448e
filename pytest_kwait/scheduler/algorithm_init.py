"""Pure answers on the API's JSON: does a pod fit a node, how well, and how to say that it does not.

What may enter: functions of pods and nodes as plain dicts, and the arithmetic they need. No I/O, no
clock, no state that outlives a call except what `NodeInfo` sums up for the caller, and where an
`Algorithm` looks first.
"""

from __future__ import annotations

from pytest_kwait.scheduler.algorithm import Algorithm
from pytest_kwait.scheduler.fit_errors import FitError
from pytest_kwait.scheduler.framework.cycle_state import (
    CycleState,
    NodeLister,
    NoNodeError,
    PerPod,
    PreFilterResult,
    Rejection,
)
from pytest_kwait.scheduler.framework.invalid_objects import InvalidNode, InvalidObject, InvalidPod
from pytest_kwait.scheduler.framework.node_info import NodeInfo
from pytest_kwait.scheduler.plugins.registry import (
    DEFAULT_PREDICATES,
    DEFAULT_PRIORITIES,
    predicate_names,
    priority_names,
    register_predicate,
    register_priority,
)

__all__ = [
    "DEFAULT_PREDICATES",
    "DEFAULT_PRIORITIES",
    "Algorithm",
    "CycleState",
    "FitError",
    "InvalidNode",
    "InvalidObject",
    "InvalidPod",
    "NoNodeError",
    "NodeInfo",
    "NodeLister",
    "PerPod",
    "PreFilterResult",
    "Rejection",
    "predicate_names",
    "priority_names",
    "register_predicate",
    "register_priority",
]
