from __future__ import annotations

from pytest_kwait import Kwait
from pytest_kwait.framework.registry import WAITS
from tools.reference import (
    RESULTS,
    VERBS,
    WAIT_PAGES,
    result_section,
    verb_section,
    wait_section,
    waits_of,
)

STATE = {"aio", "informers", "settings", "timeouts"}
"""Attributes, which the Python API describes."""


def test_each_wait_has_one_page() -> None:
    listed = [wait.name for page in WAIT_PAGES for wait in waits_of(page)]

    assert sorted(listed) == sorted(WAITS)


def test_each_method_that_is_no_wait_is_a_verb() -> None:
    public = {name for name in vars(Kwait) if not name.startswith("_")}

    assert {name for names in VERBS.values() for name in names} == public - STATE - {"close"}


def test_results_have_their_attributes() -> None:
    sections = {kind.__name__: result_section(kind) for kind in RESULTS}

    assert "\n- `exit_code`: its exit code.\n" in sections["ExecResult"]
    assert "\n- `close()`: " in sections["PortForward"]


def test_a_wait_has_its_signature_arguments_and_errors() -> None:
    assert wait_section(WAITS["wait_for_hpa_replicas"]).startswith(
        "### `wait_for_hpa_replicas`\n\n"
        "```\n"
        "kwait.wait_for_hpa_replicas(\n"
        "    name: str | KubernetesObject,\n"
        "    min_replicas: int,\n"
        "    max_replicas: int | None = None,\n"
        "    *,\n"
        "    namespace: str | None = None,\n"
        "    **options,\n"
        ") -> dict[str, Any]\n"
        "```\n\n"
    )
    assert "\n- `min_replicas`: the minimum; 0 or more.\n" in wait_section(
        WAITS["wait_for_hpa_replicas"]
    )


def test_a_verb_shows_what_it_returns() -> None:
    assert "\n) -> list[dict[str, Any]]\n```\n\n" in verb_section("apply")
    assert verb_section("step").startswith(
        "### `step`\n\n```\nkwait.step(name: str) -> context manager\n```\n\n"
    )
