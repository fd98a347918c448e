"""CustomResourceDefinitions: what keeps the served kinds in step with them comes with the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.custom_resources.serving import Serving
    from pytest_kwait.simulator.objects import Obj

__all__ = ["Definitions"]

CRDS = "customresourcedefinitions.apiextensions.k8s.io"


class Definitions:
    """Keeps the registry of kinds in step with the definitions.

    Args:
        api: the cluster.
    """

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._serving: Serving | None = None
        api.subscribe(CRDS, self._on_change)

    def _on_change(self, event: str, new: Obj, old: Obj | None) -> None:
        if self._serving is None:
            # Not at import: a cluster starts sooner without it, and most have no definitions.
            from pytest_kwait.simulator.custom_resources.serving import Serving

            self._serving = Serving(self._api)
        if self._api.clock.may_wait():
            # Nobody sees any change as long as those who are told of this one wait for webhooks.
            self._api.clock.call_soon(self._serving.on_change, event, new, old)
        else:
            self._serving.on_change(event, new, old)
