"""DaemonSets: one pod on every node that takes it.

What may enter: the daemon set controller and what it decides by. The scheduler binds its pods.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.daemon import DaemonSetController

__all__ = ["DaemonSetController"]
