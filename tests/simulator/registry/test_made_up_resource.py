"""The steps by which CONTRIBUTING adds a built-in resource: each has the effect that it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def answers_after(*steps: str) -> dict[str, Any]:
    # PYTHONSAFEPATH keeps the working directory off the path.
    program = (
        "import sys; sys.path.append('.')\n"
        "from tests.simulator.registry.made_up_resource import STEPS, print_answers\n"
        f"for step in {steps!r}: STEPS[step]()\n"
        "print_answers()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def test_generated_data_alone_serve_a_resource() -> None:
    assert answers_after("data") == {
        "kind": ["example.k8s.io/v1", "GadgetClass", False],
        "handler": "",
        "labels": None,
        "fields": ["apiVersion", "handler", "kind", "metadata"],
        "columns": ["Name", "Created At"],
        "refusal": "",
        "selected": None,
    }


def test_rows_give_it_strategy_validation_storage_columns_and_fields() -> None:
    assert answers_after("data", "strategy", "storage", "columns", "fields") == {
        "kind": ["example.k8s.io/v1", "GadgetClass", False],
        "handler": "wheel",
        "labels": {"stored": "here"},
        "fields": ["apiVersion", "handler", "kind", "metadata"],
        "columns": ["Name", "Handler", "Age"],
        "refusal": (
            'GadgetClass.example.k8s.io "b" is invalid: handler: Invalid value: "broken": must work'
        ),
        "selected": True,
    }
