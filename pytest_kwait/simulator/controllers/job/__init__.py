"""The Job controller: runs pods to completion, counts them, retries by policy.

What may enter: the controller and the pure functions it decides by. Nothing here runs a pod.

Source: kube-controller-manager, pkg/controller/job.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.job.controller import JobController

__all__ = ["JobController"]
