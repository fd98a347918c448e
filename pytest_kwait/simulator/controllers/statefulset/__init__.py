"""StatefulSets: pods with names, in order, and claims that stay theirs.

What may enter: the stateful set controller and what it decides by. It makes pods and claims;
binding them is for others.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.statefulset.controller import StatefulSetController

__all__ = ["StatefulSetController"]
