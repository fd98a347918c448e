"""What a run may not touch, and what it could not do anyway: said before anything is made."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait.clusters.provider import Cluster, Provider
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.namespaces.permissions import MissingRights

__all__ = ["check_context", "missing_rights"]


def check_context(provider: Provider, settings: Settings) -> None:
    """Return if tests may run on what a provider gives.

    Args:
        provider: where the cluster will come from.
        settings: the settings of the run.

    Raises:
        InvalidArgument: its context is none of those that are allowed.
    """
    allowed = settings.setting("allowed_contexts")
    if allowed.value is None:
        return
    context = provider.context
    if context is None or any(fnmatchcase(context, pattern) for pattern in allowed.value):
        return
    given = settings.setting("context")
    source = given.source if given.value is not None else "the kubeconfig's current context"
    patterns = ", ".join(allowed.value)
    raise InvalidArgument(
        "context",
        context,
        f"tests may run on {patterns} (allowed_contexts from {allowed.source}) and on the embedded "
        "cluster",
        source,
    )


def missing_rights(cluster: Cluster, settings: Settings) -> MissingRights:
    """Return what the run's identity may not do, of what a run does by itself.

    Args:
        cluster: the cluster of the run; the embedded one refuses nobody anything.
        settings: the settings of the run.
    """
    from pytest_kwait.suite.namespaces.permissions import (
        MissingRights,
        find_missing_rights,
        needed_rights,
    )

    if cluster.provider == "embedded":
        return MissingRights()
    from pytest_kwait.client.session import Session

    client = cluster.client()
    try:
        context = f"context {cluster.context!r} in " if cluster.context else ""
        place = f"{context}kubeconfig {cluster.kubeconfig}"
        return find_missing_rights(Session.of(client), needed_rights(settings), place)
    finally:
        client.close()  # type: ignore[no-untyped-call] # the official client has no types here
