"""Generate code from the declarations of waits: `python -m tools.waits`.

Written are the names in `pytest_kwait.framework.wait_names`, the methods of `Kwait` and
`AsyncKwait`, the types of fixtures in `pytest_kwait.typing`, and the imports for type checkers and
`__all__` of `pytest_kwait.public_names`. A test keeps them current.
"""

from __future__ import annotations

import json
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait import framework, public_names
from pytest_kwait.framework.registry import DECLARED
from tools.wait_methods import render_methods, render_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NAMES = Path(framework.__file__).with_name("wait_names.py")
PUBLIC_NAMES = Path(public_names.__file__)
METHODS = PUBLIC_NAMES.parent / "suite" / "wait_methods.py"
TYPES = PUBLIC_NAMES.with_name("typing.py")
START = "# Written by `python -m tools.waits` from HOMES and the declared waits.\n"
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


def render_public_names() -> str:
    """Return the text of `public_names`."""
    before, _, rest = PUBLIC_NAMES.read_text().partition(START)
    after = rest.partition(END)[2]
    waits = modules()[0]
    others = {name: home for home, names in public_names.HOMES.items() for name in names}
    homes = others | waits
    by_module: dict[str, list[str]] = {}
    for name, module in homes.items():
        by_module.setdefault(f"pytest_kwait.{module}", []).append(name)
    imports = [
        _import(module, sort_names(by_module[module], imported=True))
        for module in sorted(by_module)
    ]
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


def sort_names(names: Iterable[str], *, imported: bool = False) -> list[str]:
    """Return names as ruff sorts them in `__all__`: constants, classes, functions.

    Args:
        names: the names.
        imported: as in an import, where case does not count otherwise.
    """

    def place(name: str) -> tuple[bool, bool, str, str]:
        return name[0].islower(), not name.isupper(), name.lower() if imported else "", name

    return sorted(names, key=place)


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
    """Write the files."""
    NAMES.write_text(render_names())
    PUBLIC_NAMES.write_text(render_public_names())
    METHODS.write_text(render_methods())
    TYPES.write_text(render_types())


if __name__ == "__main__":
    main()
