"""Markers that skip a test on clusters that lack what it needs.

The cluster is asked before the test's other fixtures are made.

Source: kubernetes/test/e2e/framework/skipper/skipper.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.clock import Deadline
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.cluster import Cluster

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_REQUEST_TIMEOUT = 30.0
"""Seconds for an answer of the server."""


def _parse_version(text: object) -> tuple[int, int, int]:
    """Return major, minor and patch of a version; what follows is ignored."""
    match = _VERSION.match(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidArgument("version", text, "use a version, for example '1.30' or 'v1.30.2'")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def _check_version(version: str) -> None:
    _parse_version(version)


def _check_count(count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InvalidArgument("count", count, "use a number of nodes, 1 or more")


def _check_names(*names: object) -> None:
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidArgument("names", names, "name one or more, as texts")


def _version(cluster: Cluster, client: ApiClient, version: str) -> str:
    if _parse_version(cluster.version) >= _parse_version(version):
        return ""
    return f"Not supported for server versions before {version} (found {cluster.version})"


def _node_count(cluster: Cluster, client: ApiClient, count: int) -> str:
    total = len(cluster.nodes)
    return "" if total >= count else f"Requires at least {count} nodes (not {total})"


def _provider_is(cluster: Cluster, client: ApiClient, *names: str) -> str:
    if cluster.provider in names:
        return ""
    return f"Only supported for providers {', '.join(names)} (not {cluster.provider})"


def _provider_is_not(cluster: Cluster, client: ApiClient, *names: str) -> str:
    if cluster.provider not in names:
        return ""
    return f"Not supported for providers {', '.join(names)} (found {cluster.provider})"


def _resource(cluster: Cluster, client: ApiClient, *names: str) -> str:
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.engine.retry import request_with_retry

    session = ApiSession.of(client)
    deadline = Deadline.after(_REQUEST_TIMEOUT, session.clock)
    kinds = request_with_retry(
        lambda attempt_deadline: session.list_kinds(deadline=attempt_deadline), deadline
    )
    served = {name for kind in kinds for name in (kind.plural, kind.qualified)}
    missing = [name for name in names if name not in served]
    return f"Could not find {', '.join(missing)} resource" if missing else ""


def _feature_gate(cluster: Cluster, client: ApiClient, *names: str) -> str:
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.engine.retry import request_with_retry

    session = ApiSession.of(client)
    deadline = Deadline.after(_REQUEST_TIMEOUT, session.clock)
    answer = request_with_retry(
        lambda attempt_deadline: session.request(
            "GET", "/metrics", accept="text/plain", deadline=attempt_deadline
        ),
        deadline,
    )
    metrics = answer.data.decode("utf-8", "replace")
    for name in names:
        line = rf'^kubernetes_feature_enabled\{{name="{re.escape(name)}",[^}}]*\}} 1$'
        if not re.search(line, metrics, re.M):
            return f"Feature gate {name} is not enabled"
    return ""


def _check_parts(*parts: object) -> None:
    from pytest_kwait.simulator.protocol.options import ISOLATED_PARTS

    for part in parts:
        if part not in ISOLATED_PARTS:
            raise InvalidArgument("parts", part, f"use {', '.join(ISOLATED_PARTS)}")


def _programs_isolated(cluster: Cluster, client: ApiClient, *parts: str) -> str:
    refusal = cluster.find_isolation_refusal(*parts)
    return f"Requires isolated programs in pods: {refusal}" if refusal else ""


SKIPPERS: dict[str, tuple[Callable[..., None], Callable[..., str]]] = {
    "kwait_skip_if_missing_resource": (_check_names, _resource),
    "kwait_skip_if_provider_is": (_check_names, _provider_is_not),
    "kwait_skip_unless_feature_gate_enabled": (_check_names, _feature_gate),
    "kwait_skip_unless_node_count_is_at_least": (_check_count, _node_count),
    "kwait_skip_unless_programs_isolated": (_check_parts, _programs_isolated),
    "kwait_skip_unless_provider_is": (_check_names, _provider_is),
    "kwait_skip_unless_server_version_gte": (_check_version, _version),
}
"""By marker: the check of its arguments, and the reason to skip; empty for none."""


def check_skipper(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Check the arguments of a marker.

    Raises:
        InvalidArgument: one is invalid.
    """
    check, _ = SKIPPERS[name]
    try:
        check(*args, **kwargs)
    except TypeError:
        arguments_text = ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())])
        valid = f"see the usage of {name} in `pytest --markers`"
        raise InvalidArgument("arguments", f"({arguments_text})", valid) from None


def skip_reason(
    marks: Iterable[tuple[str, tuple[Any, ...], Mapping[str, Any]]],
    cluster: Cluster,
    client: ApiClient,
) -> str:
    """Return why the markers of a test skip it; empty if none does.

    Args:
        marks: name, arguments and keyword arguments of each marker, the nearest first.
        cluster: the cluster of the test.
        client: for questions that go to the API server.
    """
    for name, args, kwargs in marks:
        if name in SKIPPERS:
            _, reason = SKIPPERS[name]
            why = reason(cluster, client, *args, **kwargs)
            if why:
                return why
    return ""
