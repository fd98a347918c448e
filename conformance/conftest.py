"""The `needs` marker and fixtures of `e2e/`, for suites that are compared and measured."""

from __future__ import annotations

from e2e.conftest import capable as capable
from e2e.conftest import kubelets as kubelets
from e2e.fault_injection.conftest import faults as faults
