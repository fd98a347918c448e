"""The kinds of values that flags take, refused in the words of Go's flag library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pytest_kwait.scheduler.command.go_values import (
    INT32,
    parse_bool,
    parse_duration,
    parse_float,
    parse_int,
    parse_ip,
    quote_go,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    _Type = click.ParamType[Any]
else:
    _Type = click.ParamType  # generic only since 8.4

__all__ = ["BOOL", "DURATION", "FLOAT", "INT", "INT32_FLAG", "IP", "STRING", "STRINGS", "FlagType"]


class FlagType(_Type):
    """A kind of value.

    Args:
        name: what the help calls it.
        parse: makes the value of the text; ValueError says why not.
    """

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of the text; defaults are values already."""
        if not isinstance(value, str):
            return value
        text = value
        if param is not None and "-v" in param.opts and text.startswith("="):
            text = text[1:]  # `-v=2`: the flag library of Go takes short flags so, too
        try:
            return self._parse(text)
        except ValueError as error:
            names = [] if param is None else [*param.opts, *param.secondary_opts]
            flag = ", ".join(sorted(names, key=len))
            self.fail(f'invalid argument {quote_go(text)} for "{flag}" flag: {error}', param, ctx)


def _split_strings(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


STRING = FlagType("string", str)
STRINGS = FlagType("strings", _split_strings)
"""Separated by commas; given again, they add up."""
BOOL = FlagType("bool", parse_bool)
INT = FlagType("int", parse_int)
INT32_FLAG = FlagType("int32", lambda text: parse_int(text, INT32))
FLOAT = FlagType("float32", parse_float)
DURATION = FlagType("duration", parse_duration)
IP = FlagType("ip", parse_ip)
