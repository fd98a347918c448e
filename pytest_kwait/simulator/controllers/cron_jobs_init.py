"""CronJobs: Jobs that are made at times.

What may enter: the cron job controller, and schedules. It makes and removes Jobs, never pods.
"""

from __future__ import annotations

from pytest_kwait.simulator.controllers.cronjob import CronJobController

__all__ = ["CronJobController"]
