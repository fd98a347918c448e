"""The StatefulSet controller: ordered pods with stable names and claims.

The volume controllers bind the claims.

Source: kube-controller-manager, pkg/controller/statefulset.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.statefulset.controller import StatefulSetController

__all__ = ["StatefulSetController"]
