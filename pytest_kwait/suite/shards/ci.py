"""Job index and job count from the environment of CI systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.shards.split import Shard

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class CISystem:
    """A CI system that runs a job several times in parallel.

    Args:
        index: the variable with the job's index.
        total: the variable with the number of jobs; empty if there is none.
        first: the index of the first job: 0 or 1.
    """

    name: str
    index: str
    total: str
    first: int


CI_SYSTEMS = (
    CISystem("GitLab", "CI_NODE_INDEX", "CI_NODE_TOTAL", 1),
    CISystem("CircleCI", "CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL", 0),
    CISystem("Buildkite", "BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT", 0),
    CISystem("Kubernetes Indexed Job", "JOB_COMPLETION_INDEX", "", 0),
)
"""The supported systems, with the documentation of their variables."""
_NO_CI_SYSTEM = "no CI system says which job this is: auto reads " + ", ".join(
    f"{system.index} and {system.total} ({system.name})"
    if system.total
    else f"{system.index} ({system.name}; use auto/N)"
    for system in CI_SYSTEMS
)


def read_ci_shard(
    environ: Mapping[str, str], total: int | None, text: str, source: str
) -> tuple[Shard, str]:
    """Return the shard given by the environment, and its source.

    Args:
        total: the required number of shards; None if the system gives it.
        text: the setting's value, for messages: `auto` or `auto/N`.
        source: the source of the setting.

    Raises:
        InvalidArgument: no system or several systems give a shard, or it is invalid.
    """
    speaking = [system for system in CI_SYSTEMS if _is_present(system, environ)]
    if len(speaking) > 1:
        several = " and ".join(
            f"{system.name} ({_format_variables(system, environ)})" for system in speaking
        )
        raise InvalidArgument(
            "shard",
            text,
            f"{several} each say which job this is; use I/N, for example 2/4",
            source,
        )
    if not speaking:
        if environ.get("CI_NODE_TOTAL") == "1" and total in (None, 1):
            # GitLab sets a total of 1 and no index for a job that is not parallel.
            return Shard(1, 1), "GitLab: CI_NODE_TOTAL=1"
        raise InvalidArgument(
            "shard", text, f"{_NO_CI_SYSTEM}; or use I/N, for example 2/4", source
        )
    system = speaking[0]
    source_text = f"{system.name}, as {source} asks for {text}"
    jobs = _read_total(system, environ, total, text, source, source_text)
    index = _read_number(
        system.index, environ, source_text, f"{system.name} counts from {system.first}"
    )
    if not system.first <= index < system.first + jobs:
        named = f"{system.total}={jobs}" if environ.get(system.total) else text
        raise InvalidArgument(
            system.index,
            environ[system.index],
            f"{system.name} counts from {system.first}, which makes "
            f"{system.first + jobs - 1} the last of {named}",
            source_text,
        )
    return Shard(
        index - system.first + 1, jobs
    ), f"{system.name}: {_format_variables(system, environ)}"


def _is_present(system: CISystem, environ: Mapping[str, str]) -> bool:
    total = environ.get(system.total, "") if system.total else ""
    if system.name == "GitLab" and not environ.get(system.index) and total == "1":
        return False
    return bool(environ.get(system.index) or total)


def _format_variables(system: CISystem, environ: Mapping[str, str]) -> str:
    names = filter(None, (system.index, system.total))
    return ", ".join(f"{name}={environ[name]}" for name in names if environ.get(name))


def _read_total(
    system: CISystem,
    environ: Mapping[str, str],
    total: int | None,
    text: str,
    source: str,
    source_text: str,
) -> int:
    if not environ.get(system.index):
        raise InvalidArgument(
            system.total,
            environ[system.total],
            f"{system.index} is not set, so the number of this job is unknown",
            source_text,
        )
    if not (system.total and environ.get(system.total)):
        if total is not None:
            return total
        missing = f"{system.total} is not set" if system.total else "it knows no total"
        raise InvalidArgument(
            system.index,
            environ[system.index],
            f"{missing}, so the number of jobs is unknown; use auto/N",
            source_text,
        )
    jobs = _read_number(system.total, environ, source_text, "the number of jobs is at least 1")
    if jobs < 1:
        raise InvalidArgument(
            system.total, environ[system.total], "the number of jobs is at least 1", source_text
        )
    if total is not None and jobs != total:
        raise InvalidArgument(
            "shard",
            text,
            f"{system.name} says {system.total}={jobs}; use auto, or auto/{jobs}",
            source,
        )
    return jobs


def _read_number(name: str, environ: Mapping[str, str], source_text: str, rule: str) -> int:
    text = environ[name].strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise InvalidArgument(name, environ[name], f"use a whole number; {rule}", source_text)
    return int(text)
