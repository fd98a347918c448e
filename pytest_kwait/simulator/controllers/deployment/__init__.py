"""The Deployment controller: one ReplicaSet per pod template, rolled to the newest.

What may enter: the controller and the arithmetic of its rollouts. It never touches pods.

Source: kube-controller-manager, pkg/controller/deployment.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.deployment.controller import DeploymentController

__all__ = ["DeploymentController"]
