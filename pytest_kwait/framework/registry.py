"""The one list of waits: fixtures, markers and documentation are made from it.

Reading the list imports no wait: a wait's module is imported when its function is first asked for.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.cluster_catalogue import CLUSTER_WAITS, NAMESPACE_WAITS
from pytest_kwait.framework.job_catalogue import JOB_WAITS
from pytest_kwait.framework.node_catalogue import NODE_POD_WAITS, NODE_WAITS
from pytest_kwait.framework.pod_catalogue import POD_WAITS
from pytest_kwait.framework.service_catalogue import SERVICE_WAITS
from pytest_kwait.framework.set_catalogue import SET_WAITS, VERB_ROWS
from pytest_kwait.framework.storage_catalogue import CLAIM_WAITS, VOLUME_WAITS
from pytest_kwait.framework.workload_catalogue import WORKLOAD_WAITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["VERBS", "WAITS", "Wait"]


class Wait(NamedTuple):
    """One wait.

    Args:
        name: its name as function, fixture and marker.
        usage: its arguments after client and namespace, for the marker's help.
        summary: what it waits for, as a phrase.
        module: where its function lives.
        timeout: the name in the timeout table of its default limit.
        namespaced: whether the function takes `client, namespace` first; otherwise `client`.
        bound: whether the function takes a client at all; `wait_for_cache_sync` does not, and as
            a marker takes resource names instead of informers.
        condition: the name, in the same module, of the function that makes the condition out of
            the same arguments without any request; None where there is none.
    """

    name: str
    usage: str
    summary: str
    module: str
    timeout: str
    namespaced: bool = True
    bound: bool = True
    condition: str | None = None

    @property
    def function(self) -> Callable[..., Any]:
        """The wait itself; the first use imports its module."""
        return cast("Callable[..., Any]", getattr(import_module(self.module), self.name))

    def check(self, *args: object, **kwargs: object) -> None:
        """Raise what calling the wait with these arguments would refuse before any request.

        Args:
            *args: the arguments after client and namespace.
            **kwargs: the same, and the wait's options.

        Raises:
            InvalidArgument: an argument is missing, unknown or cannot be meant.
        """
        if self.condition is None:
            return
        from pytest_kwait.engine.options import WaitOptions, resolve_options

        options = {name: kwargs.pop(name) for name in WaitOptions.__annotations__ if name in kwargs}
        resolve_options(options, timeout=self.timeout)
        condition: Callable[..., Any] = getattr(import_module(self.module), self.condition)
        first = ("default",) if self.namespaced else ()
        try:
            bound = inspect.signature(condition).bind(*first, *args, **kwargs)
        except TypeError as error:
            given = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
            raise InvalidArgument(
                f"arguments of {self.name}",
                f"({', '.join(given)})",
                f"{error}; use {self.name}({self.usage}) and the options of every wait: "
                f"{', '.join(WaitOptions.__annotations__)}",
            ) from None
        condition(*bound.args, **bound.kwargs)


def _to_waits(
    rows: Iterable[tuple[str, str, str, str, str]], *, namespaced: bool = True
) -> list[Wait]:
    return [
        Wait(
            name,
            usage,
            summary,
            f"pytest_kwait.framework.{module}",
            timeout,
            namespaced=namespaced,
            condition=name.removeprefix("wait_for_"),
        )
        for name, usage, summary, module, timeout in rows
    ]


_JOBS = "pytest_kwait.framework.job.wait"

_WAITS = (
    Wait(
        "wait_for",
        "target, condition, *, selector=None, count=None",
        "any condition on any kind of object",
        "pytest_kwait.framework.objects.wait",
        "wait_for",
        condition="general_condition",
    ),
    Wait(
        "wait_for_cache_sync",
        "*resources",
        "informers that have seen their first list",
        "pytest_kwait.cache",
        "cache_sync",
        namespaced=False,
        bound=False,
    ),
    Wait(
        "wait_for_job_complete",
        "job, reason=None, completions=None",
        "a job that is complete",
        _JOBS,
        "job",
        condition="job_complete",
    ),
    Wait(
        "wait_for_job_failed", "job", "a job that has failed", _JOBS, "job", condition="job_failed"
    ),
    Wait(
        "wait_for_job_finish",
        "job",
        "a job that is complete or has failed",
        _JOBS,
        "job",
        condition="job_finish",
    ),
    Wait(
        "wait_for_job_pods_running",
        "job, expected_count",
        "a number of a job's pods in phase Running",
        _JOBS,
        "job",
        condition="job_pods_running",
    ),
    Wait(
        "wait_for_job_pods_succeeded",
        "job, expected_count",
        "a number of a job's pods in phase Succeeded",
        _JOBS,
        "job",
        condition="job_pods_succeeded",
    ),
    *_to_waits(JOB_WAITS),
    Wait(
        "wait_for_pods_on_minions",
        "controller=None, *, selector=None, pods=None, pod_info=None",
        "pods that have a host whose agent knows them",
        "pytest_kwait.framework.node.minions",
        "minions",
        condition="pods_on_minions",
    ),
    *_to_waits(POD_WAITS),
    *_to_waits(NODE_WAITS, namespaced=False),
    *_to_waits(NODE_POD_WAITS),
    *_to_waits(SET_WAITS),
    *_to_waits(WORKLOAD_WAITS),
    *_to_waits(SERVICE_WAITS),
    *_to_waits(CLUSTER_WAITS, namespaced=False),
    *_to_waits(NAMESPACE_WAITS),
    *_to_waits(CLAIM_WAITS),
    *_to_waits(VOLUME_WAITS, namespaced=False),
)

WAITS: Mapping[str, Wait] = MappingProxyType({wait.name: wait for wait in _WAITS})
"""Every wait by its name."""

VERBS: Mapping[str, Wait] = MappingProxyType(
    {verb.name: verb._replace(condition=None) for verb in _to_waits(VERB_ROWS)}
)
"""What does something and then waits, by name: functions, and verbs of the bench."""
