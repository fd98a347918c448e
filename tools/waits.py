"""Generate code from the declarations of waits: `python -m tools.waits`.

Written are the names in `pytest_kwait.framework.wait_names`, and the imports for type checkers and
`__all__` of `pytest_kwait`. A test keeps both current.
"""

from __future__ import annotations

import json
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_kwait
from pytest_kwait import framework
from pytest_kwait.framework.registry import DECLARED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NAMES = Path(framework.__file__).with_name("wait_names.py")
PACKAGE = Path(pytest_kwait.__file__)
START = "# Written by `python -m tools.waits` from _HOMES and the declared waits.\n"
END = "# End of the written part.\n"

_HEAD = '''"""Modules of waits and verbs by name, written by `python -m tools.waits`.

Data alone: pytest knows fixtures and markers by these names, without importing a wait.
"""

from __future__ import annotations

__all__ = ["VERB_MODULES", "WAIT_MODULES", "WAIT_NAMES"]
'''


def render_names() -> str:
    """Return the text of `wait_names`."""
    waits, verbs = modules()
    return (
        f"{_HEAD}\n"
        f"WAIT_MODULES = {_table(waits)}\n\n"
        f"WAIT_NAMES = frozenset(WAIT_MODULES)\n\n"
        f"VERB_MODULES = {_table(verbs)}\n"
    )


def render_package() -> str:
    """Return the text of `pytest_kwait/__init__.py`."""
    before, _, rest = PACKAGE.read_text().partition(START)
    after = rest.partition(END)[2]
    homes = dict(pytest_kwait._HOME_OF) | modules()[0]
    by_module: dict[str, list[str]] = {}
    for name, module in homes.items():
        by_module.setdefault(f"pytest_kwait.{module}", []).append(name)
    imports = [_import(module, sort_names(by_module[module])) for module in sorted(by_module)]
    names = "".join(f'    "{name}",\n' for name in sort_names(homes))
    written = f"if TYPE_CHECKING:\n{''.join(imports)}\n__all__ = [\n{names}]\n"
    return before + START + written + END + after


def modules() -> tuple[dict[str, str], dict[str, str]]:
    """Return the modules of all waits and of all verbs, by name, in the order of the docs."""
    for found in pkgutil.walk_packages(framework.__path__, f"{framework.__name__}."):
        import_module(found.name)
    places = {
        wait.name: wait.module.removeprefix("pytest_kwait.")
        for wait in sorted(DECLARED.values(), key=lambda wait: wait.module)
    }
    verbs = {name: module for name, module in places.items() if DECLARED[name].is_verb}
    return {name: places[name] for name in places if name not in verbs}, verbs


def sort_names(names: Iterable[str]) -> list[str]:
    """Return names as ruff sorts them: constants, classes, functions."""
    return sorted(names, key=lambda name: (name[0].islower(), not name.isupper(), name))


def _table(rows: Mapping[str, str]) -> str:
    lines = "".join(f"    {json.dumps(name)}: {json.dumps(rows[name])},\n" for name in rows)
    return f"{{\n{lines}}}"


def _import(module: str, names: list[str]) -> str:
    line = f"    from {module} import {', '.join(names)}\n"
    if len(line) <= 101:
        return line
    listed = "".join(f"        {name},\n" for name in names)
    return f"    from {module} import (\n{listed}    )\n"


def main() -> None:
    """Write both files."""
    NAMES.write_text(render_names())
    PACKAGE.write_text(render_package())


if __name__ == "__main__":
    main()
