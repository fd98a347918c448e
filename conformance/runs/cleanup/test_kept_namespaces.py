"""Namespaces kept on purpose are removed before they expire on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.runs.cleanup.test_killed_runs import look_alikes, namespaces

if TYPE_CHECKING:
    from conformance.runs.cleanup.conftest import Runs
    from pytest_kwait import Kwait


def test_janitor_deletes_kept_namespaces_of_one_run(kwait: Kwait, runs: Runs) -> None:
    """Objects with copied annotations of a kept namespace stay."""
    output = runs.start("--kwait-keep=always", end="pass").until_over()
    kept = runs.left()
    # A namespace, two objects outside of it, and the Lease that lists their kinds.
    assert len(kept) == 4
    assert f"kwait janitor --run-id {runs.id} --kept " in output
    foreign = look_alikes(kwait, namespaces(kept)[0])
    everything = sorted(runs.left())

    status, said = runs.janitor("--no-wait")
    assert (status, sorted(runs.left())) == (0, everything), said
    assert any(line.startswith(f"left {namespaces(kept)[0]}: kept, expires ") for line in said)

    status, said = runs.janitor("--kept", "--no-wait")
    assert (status, sorted(runs.left())) == (0, sorted(foreign)), said
    assert "removed 1 namespace, 2 other objects and 1 Lease of 1 run" in said
