"""The scheduler: selects a node for each pod and binds it.

- `algorithm`, `framework` and `plugins` decide; the embedded cluster shares them, so they do not
  depend on how objects are read or written.
- `scheduler` takes pods from the queue and runs the algorithm; `schedule_one` binds them.
- Event handlers fill the queue and the cache; other modules write bindings, conditions and events.
- `command` is the program.

Names resolve on first use, so that importing the algorithm alone does not import the rest.

Source: kube-scheduler (1.36).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.scheduler.algorithm import Algorithm, FitError, NodeLister, Rejection
    from pytest_kwait.scheduler.framework.node_info import NodeInfo
    from pytest_kwait.scheduler.framework.pod_info import DEFAULT_SCHEDULER
    from pytest_kwait.scheduler.metrics import SchedulerMetrics
    from pytest_kwait.scheduler.schedule_one import Binder
    from pytest_kwait.scheduler.scheduler import (
        Config,
        ConfigFactory,
        Scheduler,
        SchedulingAlgorithm,
    )

__all__ = [
    "DEFAULT_SCHEDULER",
    "Algorithm",
    "Binder",
    "Config",
    "ConfigFactory",
    "FitError",
    "NodeInfo",
    "NodeLister",
    "Rejection",
    "Scheduler",
    "SchedulerMetrics",
    "SchedulingAlgorithm",
]

_HOMES = {
    "DEFAULT_SCHEDULER": "scheduler",
    "Algorithm": "algorithm",
    "Binder": "schedule_one",
    "Config": "scheduler",
    "ConfigFactory": "scheduler",
    "FitError": "algorithm",
    "NodeInfo": "framework.node_info",
    "NodeLister": "algorithm",
    "Rejection": "algorithm",
    "SchedulingAlgorithm": "scheduler",
    "Scheduler": "scheduler",
    "SchedulerMetrics": "metrics",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
