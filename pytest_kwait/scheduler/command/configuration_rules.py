"""What a configuration must hold to: every violation at once, in the words of Kubernetes.

Source: component-base config/validation/validation.go and
pkg/scheduler/apis/config/validation/validation.go; a lease duration that is too short is shown
with its own value, where upstream shows the renew deadline's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.engine.options import check_name
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.command.config_errors import FieldError, invalid, required
from pytest_kwait.scheduler.command.configuration import JSON_CONTENT
from pytest_kwait.scheduler.command.profiles import validate_profiles
from pytest_kwait.wait import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.scheduler.command.configuration import (
        ClientConnection,
        Configuration,
        LeaderElection,
    )

__all__ = ["validate_configuration"]

_JITTER_FACTOR = 1.2


def validate_configuration(configuration: Configuration) -> list[FieldError]:
    """Return all that is wrong with a completed configuration, in the order of Kubernetes."""
    return list(_list_violations(configuration))


def _list_violations(config: Configuration) -> Iterator[FieldError]:
    yield from _check_connection(config.client_connection)
    yield from _check_election(config.leader_election)
    if config.parallelism <= 0:
        yield invalid(
            "parallelism", config.parallelism, "should be an integer value greater than zero"
        )
    yield from validate_profiles(config.profiles)
    yield from _check_percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    for index, profile in enumerate(config.profiles):
        path = f"profiles[{index}].percentageOfNodesToScore"
        yield from _check_percentage(path, profile.percentage_of_nodes_to_score)
    initial, most = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if most < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", most, detail)
    if config.extenders:
        detail = "this scheduler calls no extenders: leave them out"
        yield invalid("extenders", len(config.extenders), detail)
    for name, value in (
        ("enableProfiling", config.enable_profiling),
        ("enableContentionProfiling", config.enable_contention_profiling),
    ):
        if value:
            yield invalid(name, value, "this scheduler serves no profiles of itself: use false")


def _check_connection(connection: ClientConnection) -> Iterator[FieldError]:
    if connection.burst < 0:
        yield invalid("clientConnection.burst", connection.burst, "must be non-negative")
    if connection.burst == 0:
        yield invalid("clientConnection.burst", 0, "no request could be sent: use 1 or more")
    if connection.qps <= 0:
        detail = "this scheduler always keeps to a rate: use more than 0"
        yield invalid("clientConnection.qps", connection.qps, detail)
    for name, value in (
        ("contentType", connection.content_type),
        ("acceptContentTypes", connection.accept_content_types),
    ):
        if value not in ("", JSON_CONTENT):
            detail = f"this scheduler speaks {JSON_CONTENT}"
            yield invalid(f"clientConnection.{name}", value, detail)


def _check_election(election: LeaderElection) -> Iterator[FieldError]:
    if not election.leader_elect:
        return
    path = "leaderElection"
    lease, renew = election.lease_duration, election.renew_deadline
    retry = election.retry_period
    for name, value in (("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry)):
        if value <= 0:
            yield invalid(f"{path}.{name}", format_duration(value), "must be greater than zero")
    if lease <= renew:
        detail = "must be greater than `RenewDeadline`"
        yield invalid(f"{path}.leaseDuration", format_duration(lease), detail)
    if 0 < renew <= retry * _JITTER_FACTOR:
        # Kubernetes finds this only when it starts the election.
        detail = "must be greater than retryPeriod*JitterFactor"
        yield invalid(f"{path}.renewDeadline", format_duration(renew), detail)
    for name, text in (
        ("resourceLock", election.resource_lock),
        ("resourceNamespace", election.resource_namespace),
        ("resourceName", election.resource_name),
    ):
        if not text:
            yield required(f"{path}.{name}")
    yield from _check_lock_name(f"{path}.resourceNamespace", election.resource_namespace)
    yield from _check_lock_name(f"{path}.resourceName", election.resource_name)
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        yield invalid(f"{path}.resourceLock", election.resource_lock, detail)


def _check_lock_name(path: str, name: str) -> Iterator[FieldError]:
    if name:
        try:
            check_name(path, name)
        except InvalidArgument as error:
            yield invalid(path, name, error.valid)


def _check_percentage(path: str, percentage: int | None) -> Iterator[FieldError]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")
