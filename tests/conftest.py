from __future__ import annotations

import pytest

from pytest_kwait.engine.failure.redaction import SECRET_VALUES, SecretValues


@pytest.fixture(autouse=True)
def forgotten_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test knows the Secrets of another."""
    for name, value in vars(SecretValues()).items():
        monkeypatch.setattr(SECRET_VALUES, name, value)
