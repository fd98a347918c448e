from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from pytest_kwait.engine.failure.redaction import SECRET_VALUES, SecretValues

# How fast a busy machine makes or runs an example says nothing about the code.
settings.register_profile("kwait", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kwait")


@pytest.fixture(autouse=True)
def forgotten_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test knows the Secrets of another."""
    for name, value in vars(SecretValues()).items():
        monkeypatch.setattr(SECRET_VALUES, name, value)
