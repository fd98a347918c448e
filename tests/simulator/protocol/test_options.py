from __future__ import annotations

from typing import get_args

from pytest_kwait.simulator.protocol.options import RequestedIsolation
from pytest_kwait.suite.config.options import EmbeddedSettings


def test_the_setting_has_every_isolation() -> None:
    definition = EmbeddedSettings.isolation
    assert definition.kind == get_args(RequestedIsolation)
    assert definition.metavar == f"{{{','.join(definition.kind)}}}"
