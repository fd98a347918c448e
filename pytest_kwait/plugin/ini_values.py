"""Values of the configuration file, of the types that a TOML file gives them.

Settings are registered as strings. pytest refuses a value of another type in `[tool.pytest]`, and
changes it to text in `[tool.pytest.ini_options]`; such a value is read from the file.
"""

from __future__ import annotations

import tomllib
import warnings
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def read_ini_values(config: pytest.Config, names: Iterable[str]) -> dict[str, Any]:
    """Return values of the configuration file or of `--override-ini`; None for one not given.

    Args:
        config: the configuration.
        names: names of settings that are registered as strings without a default.
    """
    table: Mapping[str, Any] | None = None
    values: dict[str, Any] = dict.fromkeys(names)
    with warnings.catch_warnings():
        # Since pytest 9.2 for a list in `ini_options`, of which each setting takes care itself.
        warnings.simplefilter("ignore", pytest.PytestDeprecationWarning)
        for name in values:
            try:
                text = config.getini(name)
            except (TypeError, pytest.UsageError):
                # The value is no string: pytest 9.0 raises the first, 9.2 the second.
                table = _read_toml(config) if table is None else table
                values[name] = table[name]
                continue
            if text is None or text == "":
                continue
            table = _read_toml(config) if table is None else table
            # Text that is not the file's comes from `--override-ini`.
            values[name] = table[name] if str(table.get(name, ...)) == text else text
    return values


def _read_toml(config: pytest.Config) -> Mapping[str, Any]:
    """Return the table that pytest reads; it refuses a file that has several."""
    if config.inipath is None or config.inipath.suffix != ".toml":
        return {}
    document = tomllib.loads(config.inipath.read_text("utf-8"))
    tool = document.get("tool", {}).get("pytest", {})
    table: Mapping[str, Any] = tool.get("ini_options") or tool or document.get("pytest", {})
    return table
