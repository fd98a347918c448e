"""Scenarios: objects, the steps applied to them, and the end condition."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from conformance.recordings import list_scripts

SCRIPTS = Path(__file__).with_name("scripts")


@dataclass(frozen=True)
class Scenario:
    """One scenario."""

    name: str
    about: str
    steps: tuple[dict[str, Any], ...]
    """The first creates the objects."""
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
    return [path.stem for path in list_scripts(SCRIPTS)]


def load_scenario(name: str) -> Scenario:
    """Return the scenario of that name."""
    content = yaml.safe_load((SCRIPTS / f"{name}.yaml").read_text())
    steps = ({"create": content["objects"]}, *content.get("steps", ()))
    return Scenario(
        name, content["about"], steps, tuple(content["over"]), content.get("first", False)
    )
