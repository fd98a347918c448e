"""Leader election: at most one of several candidates acts, by the lease it holds.

The package has the lock, its record, and the loop that acquires and renews it; it does not depend
on the leader's work.

Source: k8s.io/client-go/tools/leaderelection (1.36).
"""

from __future__ import annotations

from pytest_kwait.leaderelection.leader_elector import JITTER_FACTOR, LeaderElector
from pytest_kwait.leaderelection.lease_lock import LeaseLock
from pytest_kwait.leaderelection.resource_lock import LeaderElectionRecord, ResourceLock

__all__ = ["JITTER_FACTOR", "LeaderElectionRecord", "LeaderElector", "LeaseLock", "ResourceLock"]
