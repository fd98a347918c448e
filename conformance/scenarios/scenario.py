"""Scenarios: objects, the steps applied to them, and the end condition."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

__all__ = ["RECORDINGS", "SCRIPTS", "Scenario", "list_names", "load_scenario"]

SCRIPTS = Path(__file__).with_name("scripts")
RECORDINGS = Path(__file__).with_name("recordings")


@dataclass(frozen=True)
class Scenario:
    """One scenario."""

    name: str
    about: str
    steps: tuple[dict[str, Any], ...]
    """The first makes the objects."""
    over: tuple[str, ...]
    first: bool

    def filled(self, step: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
        """Return a step with this cluster's names."""
        text = json.dumps(step)
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        filled: dict[str, Any] = json.loads(text)
        return filled


def list_names() -> list[str]:
    """Return the names of all scenarios."""
    return sorted(path.stem for path in SCRIPTS.glob("*.yaml"))


def load_scenario(name: str) -> Scenario:
    """Return the scenario of that name."""
    told = yaml.safe_load((SCRIPTS / f"{name}.yaml").read_text())
    steps = ({"create": told["objects"]}, *told.get("steps", ()))
    return Scenario(name, told["about"], steps, tuple(told["over"]), told.get("first", False))
