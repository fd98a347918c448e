"""The Job controller: runs pods to completion, counts them, retries by policy.

The package has the controller and its pure functions; kubelets run the pods.

Source: kube-controller-manager, pkg/controller/job.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.job.controller import JobController

__all__ = ["JobController"]
