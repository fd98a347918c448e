"""Generate the tables and sections of docs/ from the code: `python -m tools.tables`.

A test keeps them current.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
from collections import Counter
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from conformance.faults.answer_families import ANSWER_FAMILIES
from conformance.faults.cluster_families import CLUSTER_FAMILIES
from conformance.faults.core_families import CORE_FAMILIES
from conformance.faults.storage_families import STORAGE_FAMILIES
from conformance.faults.workload_families import WORKLOAD_FAMILIES
from pytest_kwait import Kwait
from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.engine.options import TIMEOUTS
from pytest_kwait.framework.registry import WAITS
from pytest_kwait.plugin import startup
from pytest_kwait.simulator.protocol.perturbations import LEVELS, PERTURBATIONS, Perturbation
from pytest_kwait.suite.config.options import OPTION_GROUPS
from tools.fault_proxy.faults import ALL_FAULTS
from tools.reference import (
    RESULTS,
    VERBS,
    WAIT_PAGES,
    result_section,
    verb_section,
    wait_section,
    waits_of,
)
from tools.upstream_suite.results import count_tests, get_sig, read_not_passing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

FOLDER = Path(__file__).parents[1] / "docs"
PLUGIN = FOLDER.parent / "pytest_kwait" / "plugin"
HOME = "/home-of-the-user"
API_MODULES = ("wait", "cache", "leaderelection", "scheduler", "scheduler.algorithm", "testing")
"""Modules for people who build on the package."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def wait_index() -> str:
    """Return the waits of each page, with links to their sections."""
    rows = []
    for page in WAIT_PAGES:
        path = f"reference/{page}.md"
        title = (FOLDER / path).read_text().partition("\n")[0].removeprefix("# Waits for ")
        links = (f"[{wait.name}]({path}#{wait.name})" for wait in waits_of(page))
        rows.append((f"[{title}]({path})", ", ".join(links)))
    return table(("waits for", "names"), rows)


def waits(page: str) -> str:
    """Return the table of the waits of a page."""
    rows = [
        (f"[`{wait.name}`](#{wait.name})", wait.summary, f"`{wait.timeout}`")
        for wait in waits_of(page)
    ]
    return table(("wait", "waits for", "default limit"), rows)


def wait_sections(page: str) -> str:
    """Return the sections of the waits of a page."""
    return "\n\n".join(wait_section(wait) for wait in waits_of(page))


def verbs() -> str:
    """Return the table of verbs."""
    rows = [
        (f"[`{name}`](#{name})", _first_sentence(inspect.getdoc(getattr(Kwait, name)) or ""))
        for names in VERBS.values()
        for name in names
    ]
    return table(("verb", "what it does"), rows)


def verb_sections() -> str:
    """Return the sections of the verbs, in groups."""
    return "\n\n".join(
        "\n\n".join((f"## {title}", *map(verb_section, names))) for title, names in VERBS.items()
    )


def results() -> str:
    """Return the types of what verbs return."""
    return "\n\n".join(map(result_section, RESULTS))


def timeouts() -> str:
    """Return the timeout table."""
    rows = [
        (f"`{entry.name}`", format_duration(entry.seconds), entry.kind, entry.source)
        for entry in TIMEOUTS.values()
    ]
    return table(("name", "default", "kind", "source"), rows)


def settings() -> str:
    """Return the settings by their options, in the groups of `pytest --help`."""
    rows: list[tuple[str, str, str]] = []
    for title, definitions in OPTION_GROUPS:
        rows.append((f"**{title}**", "", ""))
        rows += [
            (
                f"`{each.usage}`".replace("|", "\\|"),
                "test" if each.scope == "test" else "run",
                each.reference,
            )
            for each in definitions
        ]
    return table(("option", "per", "meaning"), rows)


def faults() -> str:
    """Return the table of faults and the reactions of waits."""
    rows = [(fault.title, fault.watching, fault.polling, fault.takes) for fault in ALL_FAULTS]
    return table(("fault", "in watch mode a wait", "in poll mode a wait", "that takes"), rows)


def families() -> str:
    """Return the waits that are tested with every fault."""
    every = (
        *CORE_FAMILIES,
        *WORKLOAD_FAMILIES,
        *STORAGE_FAMILIES,
        *CLUSTER_FAMILIES,
        *ANSWER_FAMILIES,
    )
    rows = [(family.title, str(family.watches or "none")) for family in every]
    return table(("wait", "watches"), rows)


def fixtures() -> str:
    """Return the fixtures that are no waits."""
    functions = ast.parse((PLUGIN / "fixtures.py").read_text()).body
    rows = [
        (
            f"`{each.name}`",
            f"`{_given_type(each)}`",
            scope,
            _first_sentence(ast.get_docstring(each) or ""),
        )
        for each in functions
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
        if (scope := _fixture_scope(each))
    ]
    return table(("fixture", "type", "scope", "what it does"), rows)


def _given_type(function: ast.FunctionDef) -> str:
    """Return the type of what a fixture gives."""
    text = ast.unparse(function.returns) if function.returns else ""
    return text.removeprefix("Iterator[").removesuffix("]") if "Iterator[" in text else text


def _fixture_scope(function: ast.FunctionDef) -> str:
    """Return the scope of a fixture; empty for a function that is none."""
    for each in function.decorator_list:
        text = ast.unparse(each)
        if text.startswith("pytest.fixture"):
            if "_scope" in text:
                return "`--kwait-namespace-scope`"
            return "session" if "session" in text else "test"
    return ""


def markers() -> str:
    """Return the markers that are no waits, as pytest shows them."""
    lines = (startup.KWAIT_MARKER, *startup.MARKERS, *startup.SKIP_MARKERS)
    rows = [
        (f"`{usage}`", text[0].upper() + text[1:])
        for usage, text in (line.split(": ", 1) for line in lines)
    ]
    return table(("marker", "meaning"), rows)


def api(module_name: str) -> str:
    """Return the public names of a module that are no waits."""
    module = import_module(module_name)
    left_out = WAITS if module_name == "pytest_kwait" else ()
    values = {name: getattr(module, name) for name in module.__all__ if name not in left_out}
    docstrings = {
        name: inspect.getdoc(value)
        if inspect.isclass(value) or inspect.isfunction(value)
        else _assigned_docstring(module, name)
        for name, value in values.items()
    }
    rows = [(f"`{name}`", _first_sentence(text)) for name, text in docstrings.items() if text]
    return table(("name", "what it is"), rows)


def _assigned_docstring(module: ModuleType, name: str) -> str:
    """Return the text below the assignment of a name, in the module that defines it."""
    body = ast.parse(inspect.getsource(module)).body
    for statement, following in pairwise(body):
        match statement, following:
            case (
                ast.Assign(targets=[ast.Name(id=target)]) | ast.AnnAssign(target=ast.Name(target)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if target == name:
                return inspect.cleandoc(text)
            case ast.ImportFrom(module=str(source), names=aliases), _:
                if name in {alias.asname or alias.name for alias in aliases}:
                    return _assigned_docstring(import_module(source), name)
    return ""


def command(name: str) -> str:
    """Return the arguments of a command of `kwait`, or of its subcommand."""
    first, *rest = name.split()
    parser = argparse.ArgumentParser(prog=f"kwait {first}")
    # Defaults are those of any user.
    with patch.dict(os.environ, HOME=HOME):
        os.environ.pop("XDG_STATE_HOME", None)
        import_module(f"pytest_kwait.cli.{first}").add_arguments(parser)
    for each in rest:
        choices = next(
            action.choices for action in parser._actions if isinstance(action.choices, dict)
        )
        parser = choices[each]
    rows = [
        (f"`{_usage(action)}`".replace("|", "\\|"), _help(action).replace("|", "\\|"))
        for action in parser._actions
        if action.help != argparse.SUPPRESS and "--help" not in action.option_strings
    ]
    return table(("argument", "meaning"), rows)


def _usage(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else str(action.metavar or action.dest)
    if action.choices and not action.metavar:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    return " ".join((", ".join(action.option_strings), value)).strip()


def _help(action: argparse.Action) -> str:
    text = " ".join((action.help or "").split()) % {**vars(action), "prog": "kwait"}
    return text.replace(HOME, "~")


def _command_table(name: str) -> Callable[[], str]:
    return lambda: command(name)


def _first_sentence(docstring: str) -> str:
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return paragraph.replace("|", "\\|")


def _api_table(module_name: str) -> Callable[[], str]:
    return lambda: api(module_name)


def conformance() -> str:
    """Return how many Conformance tests pass, by SIG."""
    missing = Counter(get_sig(name) for name in read_not_passing())
    rows = [
        (sig, str(total - missing[sig]), str(total)) for sig, total in sorted(count_tests().items())
    ]
    total = sum(count_tests().values())
    rows.append(("all", f"**{total - missing.total()}**", str(total)))
    return table(("SIG", "pass", "of"), rows)


def not_passing() -> str:
    """Return the Conformance tests that do not pass, with the reason."""
    rows = [(f"`{name}`", reason) for name, reason in read_not_passing().items()]
    return table(("test", "why"), rows)


def perturbations() -> str:
    """Return what each perturbation does to which events."""
    rows = [(f"`{each.name}`", each.summary, each.events) for each in PERTURBATIONS]
    return table(("perturbation", "what it does", "event"), rows)


def perturbation_chances() -> str:
    """Return the shares and sizes of perturbations by level."""
    rows = [
        (f"`{each.name}`", *(_chance(each, level) for level in LEVELS)) for each in PERTURBATIONS
    ]
    return table(("perturbation", *(f"`{level}`" for level in LEVELS)), rows)


def _chance(perturbation: Perturbation, level: str) -> str:
    """Return the share and size of a perturbation, as `6 %, 10 to 120 ms`."""
    chance = perturbation.chance(level)
    if not chance.probability:
        return "-"
    share = f"{chance.probability * 100:g} %"
    if not perturbation.has_size:
        return share
    if perturbation.scaled:
        return f"{share}, {chance.shortest:g} to {chance.longest:g} *s*"
    return f"{share}, {chance.shortest * 1000:g} to {chance.longest * 1000:g} ms"


def perturbation_reasons() -> str:
    """Return why each perturbation is legal, and where upstream does the same."""
    rows = [(f"`{each.name}`", each.reason, each.source) for each in PERTURBATIONS]
    return table(("perturbation", "reason", "upstream"), rows)


TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "conformance.md": {"conformance": conformance, "not passing": not_passing},
    "api.md": {"autodoc: pytest_kwait": _api_table("pytest_kwait")},
    "api-modules.md": {
        f"autodoc: pytest_kwait.{name}": _api_table(f"pytest_kwait.{name}") for name in API_MODULES
    },
    "commands.md": {
        f"kwait {name}": _command_table(name)
        for name in (
            "up",
            "down",
            "shards run",
            "janitor",
            *("report merge", "report audit", "report limits", "report flakes"),
            "replay",
        )
    },
    "fixtures.md": {"fixtures": fixtures, "markers": markers},
    "faults.md": {"faults": faults, "families": families},
    "perturbations.md": {
        "perturbations": perturbations,
        "chances": perturbation_chances,
        "reasons": perturbation_reasons,
    },
    "waits.md": {"index": wait_index},
    **{
        f"reference/{page}.md": {
            f"waits: {page}": partial(waits, page),
            f"sections: {page}": partial(wait_sections, page),
        }
        for page in WAIT_PAGES
    },
    "reference/verbs.md": {"verbs": verbs, "verb sections": verb_sections, "results": results},
    "settings.md": {"settings": settings, "timeouts": timeouts},
}


def render_page(page: str) -> str:
    """Return the page with current tables."""
    text = (FOLDER / page).read_text()
    for name, make in TABLES[page].items():
        start, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, _, after = text.partition(start)
        text = before + start + make() + "\n" + end + after.partition(end)[2]
    return text


def main() -> None:
    """Regenerate every page."""
    for page in TABLES:
        (FOLDER / page).write_text(render_page(page))


if __name__ == "__main__":
    main()
