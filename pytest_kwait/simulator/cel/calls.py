"""Functions by name, and which of those with one name is meant by the values.

Source: k8s.io/apiserver pkg/cel/environment/base.go (which libraries there are).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.library import LIBRARY_FUNCTIONS
from pytest_kwait.simulator.cel.stdlib.list_functions import LIST_FUNCTIONS
from pytest_kwait.simulator.cel.stdlib.operators import CONVERSIONS, OPERATORS
from pytest_kwait.simulator.cel.stdlib.strings import STRING_FUNCTIONS
from pytest_kwait.simulator.cel.values import NO_OVERLOAD, ErrorValue, get_kind

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTION_NAMES", "resolve_function"]

_STANDARD_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **CONVERSIONS,
    **OPERATORS,
    **STRING_FUNCTIONS,
    **LIST_FUNCTIONS,
}


def _group_library_overloads() -> dict[str, list[tuple[tuple[str, ...], Callable[..., Any]]]]:
    found: dict[str, list[tuple[tuple[str, ...], Callable[..., Any]]]] = {}
    for (name, takes, _), run in LIBRARY_FUNCTIONS.items():
        kinds = tuple(_strip_type_parameters(one) for one in takes)
        found.setdefault(name.lstrip("."), []).append((kinds, run))
    return found


def _strip_type_parameters(name: str) -> str:
    return name.partition("<")[0]


_LIBRARY_OVERLOADS = _group_library_overloads()
FUNCTION_NAMES = frozenset({*_STANDARD_FUNCTIONS, *_LIBRARY_OVERLOADS})
"""The names of all functions."""


def resolve_function(name: str) -> Callable[[list[Any]], Any]:
    """What a function does with the values that it is called with, a member's own first.

    Args:
        name: its name; one that there is none of has no value.
    """
    own, standard = _LIBRARY_OVERLOADS.get(name, []), _STANDARD_FUNCTIONS.get(name)

    def call(values: list[Any]) -> Any:
        if own:
            kinds = tuple(get_kind(value) for value in values)
            for takes, run in own:
                if takes == kinds:
                    try:
                        return run(*values)
                    except ValueError as error:
                        return ErrorValue(str(error))
        if standard is None:
            return NO_OVERLOAD
        try:
            return standard(*values)
        except TypeError:
            # Of what is not known before, any kind and any number may come.
            return NO_OVERLOAD

    return call
