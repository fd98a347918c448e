"""What all tests share; only here may pytest be told which plugins to load."""

from __future__ import annotations

pytest_plugins = ["pytester"]
