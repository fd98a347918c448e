"""All functions of the libraries, and their declarations for the checker."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from cel_expr_python import cel

from pytest_kwait.simulator.cel.library.authz import AUTHZ_FUNCTIONS
from pytest_kwait.simulator.cel.library.format import FORMAT_FUNCTIONS
from pytest_kwait.simulator.cel.library.ip_cidr import IP_CIDR_FUNCTIONS
from pytest_kwait.simulator.cel.library.jsonpatch import JSON_PATCH_FUNCTIONS
from pytest_kwait.simulator.cel.library.lists import LIST_FUNCTIONS
from pytest_kwait.simulator.cel.library.quantity import QUANTITY_FUNCTIONS
from pytest_kwait.simulator.cel.library.regex import REGEX_FUNCTIONS
from pytest_kwait.simulator.cel.library.semver import SEMVER_FUNCTIONS
from pytest_kwait.simulator.cel.library.urls import URL_FUNCTIONS
from pytest_kwait.simulator.cel.values import OPAQUE_TYPE_NAMES

if TYPE_CHECKING:
    from pytest_kwait.simulator.cel.library.overloads import Overload, Overloads


STAND_IN_NAMES = {"indexOf": "indexOF", "lastIndexOf": "lastIndexOF", "string": "strinG"}
"""Stand-in names of functions that the library declares with fewer overloads."""

_STRING_CONVERSIONS: dict[Overload, str] = {
    ("string", (kind,), "string"): overload
    for kind, overload in (
        ("bool", "bool_to_string"),
        ("bytes", "bytes_to_string"),
        ("double", "double_to_string"),
        ("duration", "duration_to_string"),
        ("int", "int64_to_string"),
        ("string", "string_to_string"),
        ("timestamp", "timestamp_to_string"),
        ("uint", "uint64_to_string"),
    )
}

LIBRARY_FUNCTIONS: Overloads = {
    **REGEX_FUNCTIONS,
    **LIST_FUNCTIONS,
    **QUANTITY_FUNCTIONS,
    **SEMVER_FUNCTIONS,
    **IP_CIDR_FUNCTIONS,
    **URL_FUNCTIONS,
    **FORMAT_FUNCTIONS,
    **JSON_PATCH_FUNCTIONS,
    **AUTHZ_FUNCTIONS,
}
"""All functions and their implementations."""


@lru_cache(maxsize=1)
def declare_functions() -> list[cel.FunctionDecl]:
    """Return the declarations of the functions, except those of `describe_functions`."""
    known: dict[str, list[cel.Overload]] = {}
    for overload in (*LIBRARY_FUNCTIONS, *_STRING_CONVERSIONS):
        name, takes, gives = overload
        bare = name.lstrip(".")
        if _needs_description(overload):
            continue
        function_name = STAND_IN_NAMES.get(bare, bare)
        known.setdefault(function_name, []).append(
            cel.Overload(
                _STRING_CONVERSIONS.get(overload, f"{function_name}({','.join(takes)})"),
                return_type=resolve_type(gives),
                parameters=[resolve_type(parameter) for parameter in takes],
                is_member=name.startswith("."),
            )
        )
    return [cel.FunctionDecl(name, overloads) for name, overloads in known.items()]


def _needs_description(overload: Overload) -> bool:
    _, takes, gives = overload
    return "Format" in (*takes, gives) or gives.startswith("optional<")


@lru_cache(maxsize=1)
def describe_functions() -> str:
    """Return the part of an environment's description with functions that return optionals.

    The library accepts such types only there.
    """
    return "functions:\n" + "".join(
        _describe_overload(*overload)
        for overload in LIBRARY_FUNCTIONS
        if _needs_description(overload)
    )


def _describe_overload(name: str, takes: tuple[str, ...], gives: str) -> str:
    bare, member = name.lstrip("."), name.startswith(".")
    overload = [f"id: {bare}", f"return: {describe_type(gives)}"]
    arguments = [describe_type(parameter) for parameter in takes]
    if member:
        overload.append(f"target: {arguments.pop(0)}")
    overload.append(f"args: [{', '.join(arguments)}]")
    return f"- {{name: {bare}, overloads: [{{{', '.join(overload)}}}]}}\n"


def describe_type(name: str) -> str:
    """Return a type, by name, as the description of an environment writes it."""
    outer, _, inner = name.partition("<")
    outer = {"optional": "optional_type", **OPAQUE_TYPE_NAMES}.get(outer, outer)
    if not inner:
        return f"{{type_name: {outer}}}"
    parts = inner[:-1].split(",", 1) if outer == "map" else [inner[:-1]]
    parameter_texts = ", ".join(describe_type(part.strip()) for part in parts)
    return f"{{type_name: {outer}, params: [{parameter_texts}]}}"


def resolve_type(name: str) -> cel.Type:
    """Return a type by its name in CEL syntax, or by the name of one of Kubernetes' types."""
    return (
        cel.Type.AbstractType(OPAQUE_TYPE_NAMES[name])
        if name in OPAQUE_TYPE_NAMES
        else cel.Type(name)
    )
