"""Flags in groups: parsed as Go's programs parse them, and shown group by group."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, cast

import click

from pytest_kwait.scheduler.command.config_errors import CommandError
from pytest_kwait.scheduler.command.flag_types import BOOL, DURATION, STRINGS, FlagType
from pytest_kwait.scheduler.command.go_values import quote_go
from pytest_kwait.wait import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Flag", "FlagCommand", "read_flags"]


class Flag(click.Option):
    """A flag of a group.

    Args:
        group: under which heading the help shows it.
        name: its name, with dashes; underscores mean the same.
        kind: the kind of its value.
        default: what holds where it is not given.
        help: what it does.
        short: a single letter that means the same; empty for none.
    """

    def __init__(
        self, group: str, name: str, kind: FlagType, default: Any, help: str, short: str = ""
    ) -> None:
        names = [f"--{name}", *([f"-{short}"] if short else [])]
        super().__init__(
            [*names, name.replace("-", "_")],
            type=kind,
            default=None if kind is STRINGS else default,
            multiple=kind is STRINGS,
            help=help,
        )
        self.group = group
        self.kind = kind
        self.otherwise = default

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Return its names with the kind of its value, and what it does."""
        names = ", ".join(sorted(self.opts, key=len))
        shown = names if self.kind is BOOL else f"{names} {self.kind.name}"
        default = self._shown_default()
        return shown, (self.help or "") + (f" (default {default})" if default else "")

    def _shown_default(self) -> str:
        value = self.otherwise
        if value in ("", 0, False, ()):
            return ""
        if self.kind is DURATION:
            return format_duration(value)
        if self.kind is BOOL:
            return "true"
        if isinstance(value, tuple):
            return f"[{','.join(value)}]"
        return (
            quote_go(value)
            if self.kind.name == "string"
            else f"{value:g}"
            if isinstance(value, float)
            else str(value)
        )


class FlagCommand(click.Command):
    """A command that takes flags alone.

    Args:
        name: the program's.
        flags: in the order of their groups.
        about: what it does, for the help.
    """

    def __init__(self, name: str, flags: Sequence[Flag], about: str) -> None:
        super().__init__(
            name,
            params=list(flags),
            help=about,
            add_help_option=False,
            options_metavar="[flags]",
            context_settings={
                "token_normalize_func": lambda token: token.replace("_", "-"),
                "allow_extra_args": True,
            },
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, with what a flag of yes or no means on its own."""
        return super().parse_args(ctx, self._spelled_out(args))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the flags group by group."""
        flags = cast("list[Flag]", self.params)
        for group in dict.fromkeys(flag.group for flag in flags):
            ours = sorted(
                (flag for flag in flags if flag.group == group), key=lambda f: f.name or ""
            )
            with formatter.section(f"{group[:1].upper()}{group[1:]} flags"):
                formatter.write_dl([flag.get_help_record(ctx) for flag in ours])

    def _spelled_out(self, args: Sequence[str]) -> list[str]:
        """Give flags of yes or no their value: Go's take none from the argument after them."""
        flags = {name: cast("Flag", flag) for flag in self.params for name in flag.opts}
        spelled: list[str] = []
        rest = iter(args)
        for arg in rest:
            if arg == "--":
                spelled += [arg, *rest]
                break
            name = arg if not arg.startswith("--") else f"--{arg[2:].replace('_', '-')}"
            flag = flags.get(name)
            if flag is not None and flag.kind is BOOL:
                spelled.append("--" + max(flag.opts, key=len)[2:] + "=true")
                continue
            spelled.append(arg)
            if flag is not None:
                # What follows is its value, whatever it looks like.
                spelled += [value for value in [next(rest, None)] if value is not None]
        return spelled


def read_flags(command: FlagCommand, argv: Sequence[str]) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the value of each flag by its name in Python, and which were given.

    Args:
        command: what they are for.
        argv: the arguments without the program's name.

    Raises:
        ProgramError: an unknown flag, a value that cannot be read, or arguments that are none.

    Source: the flag library of Go's programs, github.com/spf13/pflag (its wording), and
    component-base cli/flag/flags.go WordSepNormalizeFunc.
    """
    try:
        context = command.make_context(str(command.name), list(argv))
    except click.NoSuchOption as error:
        raise CommandError(_unknown_flag_error(command, error.option_name)) from None
    except click.BadOptionUsage as error:
        raise CommandError(_strip_dashes(error.option_name)) from None
    except click.UsageError as error:
        raise CommandError(error.message) from None
    if any(context.args):
        given = " ".join(map(quote_go, context.args))
        raise CommandError(
            f"{quote_go(str(command.name))} does not take any arguments, got [{given}]"
        )
    values: dict[str, Any] = {}
    named: set[str] = set()
    for flag in cast("list[Flag]", command.params):
        name = str(flag.name)
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            named.add(name)
        value = context.params[name]
        if flag.kind is STRINGS:
            parts = tuple(part for some in value or () for part in some)
            value = parts if name in named else flag.otherwise
        values[name] = value
    return values, frozenset(named)


def _unknown_flag_error(command: FlagCommand, name: str) -> str:
    if not name.startswith("--"):
        return f"unknown shorthand flag: '{name.lstrip('-')[:1]}' in {name}"
    known = [option for flag in command.params for option in flag.opts]
    near = difflib.get_close_matches(name.replace("_", "-"), known, n=1)
    return f"unknown flag: {name}" + (f" (did you mean {near[0]}?)" if near else "")


def _strip_dashes(name: str) -> str:
    if name.startswith("--"):
        return f"flag needs an argument: {name}"
    return f"flag needs an argument: '{name[1:]}' in {name}"
