"""Deployments: one ReplicaSet per pod template, rolled from the old ones to the newest.

What may enter: the deployment controller and what it decides by. It never touches pods: those are
the ReplicaSets' to make and remove.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.deployment.controller import DeploymentController

__all__ = ["DeploymentController"]
