"""The Deployment controller: one ReplicaSet per pod template, rolled to the newest.

The controller never writes pods; the arithmetic of its rollouts is in `deployment_util`.

Source: kube-controller-manager, pkg/controller/deployment.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.deployment.controller import DeploymentController

__all__ = ["DeploymentController"]
