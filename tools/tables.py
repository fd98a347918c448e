"""Generate the tables of docs/ from the code: `python -m tools.tables`.

A test keeps them current.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from e2e.faults.answer_families import ANSWER_FAMILIES
from e2e.faults.cluster_families import CLUSTER_FAMILIES
from e2e.faults.core_families import CORE_FAMILIES
from e2e.faults.storage_families import STORAGE_FAMILIES
from e2e.faults.workload_families import WORKLOAD_FAMILIES
from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.engine.timeouts import TIMEOUTS
from pytest_kwait.framework.registry import WAITS
from pytest_kwait.suite.config.settings import SETTING_DEFINITIONS
from pytest_kwait.suite.config.settings import TIMEOUTS as TIMEOUT_SETTING
from tools.fault_proxy.faults import ALL_FAULTS

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path(__file__).parents[1] / "docs"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def waits() -> str:
    """Return the catalogue."""
    rows = [
        (f"`{wait.name}({wait.usage})`", wait.summary, f"`{wait.timeout}`")
        for wait in WAITS.values()
    ]
    return table(("wait", "waits for", "default limit"), rows)


def timeouts() -> str:
    """Return the timeout table."""
    rows = [
        (f"`{entry.name}`", format_duration(entry.seconds), entry.kind, entry.source)
        for entry in TIMEOUTS.values()
    ]
    return table(("name", "default", "kind", "source"), rows)


def settings() -> str:
    """Return the settings with their three names."""
    rows = [
        (
            f"`{each.flag} {each.metavar}`".replace("|", "\\|"),
            f"`{each.env}`",
            f"`{each.ini}`",
            "test" if each.scope == "test" else "run",
            each.help,
        )
        for each in (*SETTING_DEFINITIONS.values(), TIMEOUT_SETTING)
        if each.option
    ]
    return table(("option", "environment", "ini", "per", "meaning"), rows)


def faults() -> str:
    """Return what becomes of a wait that meets a fault."""
    rows = [(fault.title, fault.watching, fault.polling, fault.takes) for fault in ALL_FAULTS]
    return table(("fault", "in watch mode a wait", "in poll mode a wait", "that takes"), rows)


def families() -> str:
    """Return the waits that are put to every fault."""
    every = (
        *CORE_FAMILIES,
        *WORKLOAD_FAMILIES,
        *STORAGE_FAMILIES,
        *CLUSTER_FAMILIES,
        *ANSWER_FAMILIES,
    )
    rows = [(family.title, str(family.watches or "none")) for family in every]
    return table(("wait", "watches"), rows)


TABLES = {
    "faults.md": {"faults": faults, "families": families},
    "waits.md": {"waits": waits},
    "settings.md": {"settings": settings, "timeouts": timeouts},
}


def render_page(page: str) -> str:
    """Return the page with its tables as the code has them now."""
    text = (FOLDER / page).read_text()
    for name, make in TABLES[page].items():
        start, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, _, after = text.partition(start)
        text = before + start + make() + "\n" + end + after.partition(end)[2]
    return text


def main() -> None:
    """Write every page anew."""
    for page in TABLES:
        (FOLDER / page).write_text(render_page(page))


if __name__ == "__main__":
    main()
