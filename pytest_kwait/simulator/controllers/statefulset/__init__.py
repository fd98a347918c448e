"""The StatefulSet controller: ordered pods with stable names and claims.

What may enter: the controller and its pods and claims. It does not bind them.

Source: kube-controller-manager, pkg/controller/statefulset.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.statefulset.controller import StatefulSetController

__all__ = ["StatefulSetController"]
