"""Jobs: pods run to completion, counted without loss, retried and given up by rules.

What may enter: the job controller, and the pure rules it decides by. Nothing here knows how a pod
is run.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.job.controller import JobController
from pytest_kwait.simulator.controllers.ttl_after_finished import TTLAfterFinishedController

__all__ = ["JobController", "TTLAfterFinishedController"]
