"""Claims and volumes: bound to each other, made where a class asks for it, kept while in use.

What may enter: the controllers of claims and volumes, and what the scheduler must know of them.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.volumes.binder import VolumeBinder
from pytest_kwait.simulator.controllers.volumes.protection import VolumeProtection

__all__ = ["VolumeBinder", "VolumeProtection"]
