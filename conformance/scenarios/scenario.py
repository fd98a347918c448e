"""Scenarios: objects, what is done to them when they have come so far, and when it is over.

A scenario is a YAML mapping, in a namespace of its own:

    about: what it is that it shows
    objects: [...]                      made in this order
    steps:                              each done when all that it waits for was seen
    - when: [pod/web Ready=True]        what must have been seen (`Timeline.holds` has the grammar)
      delete: pod/web                   what is done: one of these, with what belongs to it
      grace: 0                          - delete: grace, propagation
    - patch: deployment/web             - patch: body, type (merge | strategic | json), subresource
      body: {spec: {replicas: 2}}
    - evict: pod/web                    - evict: grace
    - create: [...]                     - create: objects
    over: [pod/web gone]                when all has been seen that matters

`{ns}` is the namespace, `{node}` a node. What is the whole cluster's has the namespace in its name;
a node that a scenario makes for itself has it as its name. Long ones are marked `first: true` and
begin first.
"""

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
    """One scenario as it is written."""

    name: str
    about: str
    steps: tuple[dict[str, Any], ...]
    """The first makes the objects."""
    over: tuple[str, ...]
    first: bool

    def filled(self, step: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
        """A step of it with the names that this cluster has."""
        text = json.dumps(step)
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        filled: dict[str, Any] = json.loads(text)
        return filled


def list_names() -> list[str]:
    """The names of all scenarios."""
    return sorted(path.stem for path in SCRIPTS.glob("*.yaml"))


def load_scenario(name: str) -> Scenario:
    """The scenario of that name."""
    told = yaml.safe_load((SCRIPTS / f"{name}.yaml").read_text())
    steps = ({"create": told["objects"]}, *told.get("steps", ()))
    return Scenario(name, told["about"], steps, tuple(told["over"]), told.get("first", False))
