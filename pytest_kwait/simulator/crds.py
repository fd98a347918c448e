"""CustomResourceDefinitions: what keeps the served kinds in step with them comes with the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiextensions.controller import DefinitionController
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["DefinitionController"]

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class DefinitionController:
    """Keeps the registry of kinds in step with the definitions.

    Args:
        api: the cluster.
    """

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._serving: DefinitionController | None = None
        api.subscribe(_DEFINITIONS, self._on_change)

    def _on_change(self, event: str, new: Obj, old: Obj | None) -> None:
        if self._serving is None:
            # Not at import: a cluster starts sooner without it, and most have no definitions.
            from pytest_kwait.simulator.apiextensions.controller import DefinitionController

            self._serving = DefinitionController(self._api)
        if self._api.clock.may_suspend():
            # Nobody sees any change as long as those who are told of this one wait for webhooks.
            self._api.clock.call_soon(self._serving.on_change, event, new, old)
        else:
            self._serving.on_change(event, new, old)
