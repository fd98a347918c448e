"""Kubernetes' own functions, each with the types it is checked by and the code that it runs.

Values of Kubernetes' own types (quantities, versions, addresses, URLs) run as maps with one field
that says what they are. The functions `format.*` and the conversion of addresses to strings are
not there.

Source: k8s.io/apiserver pkg/cel/library.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cel_expr_python import cel

from pytest_kwait.simulator.cel import (
    addresses,
    authorizations,
    lists,
    pointers,
    quantities,
    regexes,
    urls,
    versions,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["checked_functions", "named_type", "run_functions"]

_RUN = {
    "bool": cel.Type.BOOL,
    "double": cel.Type.DOUBLE,
    "duration": cel.Type.DURATION,
    "int": cel.Type.INT,
    "string": cel.Type.STRING,
    "timestamp": cel.Type.TIMESTAMP,
}
_OWN = {
    "Authorizer": "kubernetes.authorization.Authorizer",
    "CIDR": "net.CIDR",
    "Decision": "kubernetes.authorization.Decision",
    "GroupCheck": "kubernetes.authorization.GroupCheck",
    "IP": "net.IP",
    "PathCheck": "kubernetes.authorization.PathCheck",
    "Quantity": "kubernetes.Quantity",
    "ResourceCheck": "kubernetes.authorization.ResourceCheck",
    "Semver": "kubernetes.Semver",
    "URL": "kubernetes.URL",
}

Overload = tuple[str, tuple[str, ...], str]
"""Its name (with a dot in front for a member), the types of what it takes, and of what it gives."""

_FUNCTIONS: tuple[tuple[dict[Overload, Callable[..., Any]], str], ...] = tuple(
    (module.FUNCTIONS, module.__name__)
    for module in (
        addresses,
        authorizations,
        lists,
        pointers,
        quantities,
        regexes,
        urls,
        versions,
    )
)


def _overloads() -> dict[str, list[tuple[bool, tuple[str, ...], str, Callable[..., Any]]]]:
    found: dict[str, list[tuple[bool, tuple[str, ...], str, Callable[..., Any]]]] = {}
    for functions, _ in _FUNCTIONS:
        for (name, takes, gives), run in functions.items():
            member = name.startswith(".")
            found.setdefault(name.lstrip("."), []).append((member, takes, gives, run))
    return found


@lru_cache(maxsize=1)
def checked_functions() -> list[cel.FunctionDecl]:
    """The functions by their types, for checking."""
    declared = []
    for name, overloads in _overloads().items():
        declared.append(
            cel.FunctionDecl(
                name,
                [
                    cel.Overload(
                        f"{name}({','.join(takes)})",
                        return_type=named_type(gives),
                        parameters=[named_type(one) for one in takes],
                        is_member=member,
                    )
                    for member, takes, gives, _ in overloads
                ],
            )
        )
    return declared


@lru_cache(maxsize=1)
def run_functions() -> list[cel.FunctionDecl]:
    """The functions with their code, by what their values are made of."""
    declared = []
    for name, overloads in _overloads().items():
        runs: dict[tuple[bool, tuple[str, ...]], list[Callable[..., Any]]] = {}
        for member, takes, _, run in overloads:
            key = (member, tuple(_made_of(one) for one in takes))
            runs.setdefault(key, []).append(run)
        declared.append(
            cel.FunctionDecl(
                name,
                [
                    cel.Overload(
                        f"run-{name}({','.join(made)})",
                        return_type=cel.Type.DYN,
                        parameters=[_RUN.get(one) or _container(one) for one in made],
                        is_member=member,
                        impl=_chosen(name, candidates),
                    )
                    for (member, made), candidates in runs.items()
                ],
            )
        )
    return declared


def named_type(name: str) -> cel.Type:
    """A type by its name, as the language writes it or as Kubernetes' own are called here."""
    if name in _OWN:
        return cel.Type.AbstractType(_OWN[name])
    return cel.Type(name)


def _made_of(name: str) -> str:
    if name in _OWN or name.startswith("map"):
        return "map"
    return "list" if name.startswith("list") else name


def _container(name: str) -> cel.Type:
    return cel.Type.MAP if name == "map" else cel.Type.LIST


def _chosen(name: str, candidates: list[Callable[..., Any]]) -> Callable[..., Any]:
    """What calls the one of `candidates` that takes the first value's own type."""

    def call(*values: Any) -> Any:
        given = [_plain(value) for value in values]
        kind = given[0].get("@type") if isinstance(given[0], dict) else None
        for run in candidates:
            if kind is None or getattr(run, "of", kind) == kind:
                return run(*given)
        raise ValueError(f"no such overload: {name}")

    return call


def _plain(value: Any) -> Any:
    """A value without the library's wrapping of what is within it."""
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.plain_value() if isinstance(value, cel.Value) else value
