"""The options on the command line and in the ini file, made from the definitions of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.suite.settings import DEFINITIONS, TIMEOUTS

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option and an ini name for each setting; values of all places are read later."""
    group = parser.getgroup("kwait", "Kubernetes end-to-end waits (pytest-kwait)")
    for definition in (*DEFINITIONS.values(), TIMEOUTS):
        if not definition.option:
            continue
        default = "" if definition.default in (None, {}) else f" [{_shown(definition.default)}]"
        text = f"{definition.help}{default}".replace("%", "%%")
        group.addoption(
            definition.flag,
            dest=definition.ini,
            action="append" if definition is TIMEOUTS else "store",
            metavar=definition.metavar,
            help=f"{text}; also {definition.env} and ini {definition.ini}",
        )
        parser.addini(definition.ini, definition.help, type="string", default=None)


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)
