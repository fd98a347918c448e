"""The lines in pytest's header: what differs from the default, and what is not used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.plugin.settings import ignores_kubeconfig, run_settings

if TYPE_CHECKING:
    import pytest


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name each setting that somebody gave, with its source; silent where there is none."""
    settings = run_settings(config)
    lines = []
    changed = [f"{name}={setting.given} ({setting.source})" for name, setting in settings.changed()]
    if changed:
        lines.append(f"kwait: {', '.join(changed)}")
    if ignores_kubeconfig(settings):
        lines.append("kwait: KUBECONFIG is set and not used; --kwait-cluster=existing uses it")
    return lines
