"""The simple commands of a shell: words, assignments, redirections, functions, programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.applets import run_program
from pytest_kwait.simulator.busybox.libbb import find_longest_number
from pytest_kwait.simulator.busybox.os.syscalls import Call, Effect, Process, Write
from pytest_kwait.simulator.busybox.shell.shell_builtins import BUILTINS, SPECIAL
from pytest_kwait.simulator.busybox.shell.shell_processes import ShellProcesses
from pytest_kwait.simulator.busybox.shell.shell_redirects import open_redirects, restore_fds
from pytest_kwait.simulator.busybox.shell.variables import (
    FunctionReturn,
    ReadOnlyVariableError,
    ShellExit,
    measure_words,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.shell.tree import Command, Node

__all__ = ["ShellCommands"]


class ShellCommands(ShellProcesses):
    """A shell that runs programs and its own commands."""

    def _assign(self, name: str, value: str) -> Generator[Effect, None, None]:
        try:
            self.variables.set(name, value)
        except ReadOnlyVariableError as fault:
            yield self.make_message(f"{fault.name}: is read only")
            raise ShellExit(2) from None

    def _command(self, node: Command) -> Generator[Effect, None, None]:
        self.line = node.line
        self.substituted = 0
        words: list[str] = []
        for word in node.words:
            words += yield from self.expander.fields(word)
        function = self.functions.get(words[0]) if words else None
        special = bool(words) and function is None and words[0] in SPECIAL
        saved = yield from open_redirects(self, node.redirects)
        if saved is None:
            self.status = 1
            if special:
                raise ShellExit(1)
            return
        kept: list[tuple[str, str | None, bool]] = []
        account, held = self.around.tasks.account, measure_words(words)
        try:
            account.take(held)
            traced: list[str] = []
            for name, word in node.assignments:
                value = yield from self.expander.text(word, assigned=True)
                traced.append(f"{name}={value}")
                if words and not special:
                    exported = name in self.variables.exported
                    kept.append((name, self.variables.get(name), exported))
                yield from self._assign(name, value)
                if words and not special:
                    self.variables.export(name)
            if "x" in self.options and (words or traced):
                yield Write(2, f"+ {' '.join([*traced, *map(_quote_traced, words)])}\n".encode())
            if words:
                keeps = words[0] == "exec" and len(words) == 1 and function is None
                yield from self._call(words, function)
                if keeps:
                    for _, one in saved:
                        if one is not None:
                            one.release()
                    saved.clear()
            else:
                self.status = self.substituted
        finally:
            for name, value_before, exported in reversed(kept):
                self.variables.unset(name)
                if value_before is not None:
                    self.variables.set(name, value_before)
                if exported:
                    self.variables.export(name)
            restore_fds(self, saved)
            account.give(held)

    def _call(self, words: list[str], function: Node | None) -> Generator[Effect, None, None]:
        if function is not None:
            yield from self._function(function, tuple(words[1:]))
            return
        builtin = BUILTINS.get(words[0])
        if builtin is not None:
            try:
                self.status = yield from builtin(self, words[1:])
            except (OverflowError, ValueError):
                yield self.make_message(f"Illegal number: {find_longest_number(words)}", words[0])
                self.status = 2
        else:
            self.status = yield from self.call(words)

    def _function(self, body: Node, arguments: tuple[str, ...]) -> Generator[Effect, None, None]:
        kept, loops = self.arguments, self.loops
        self.arguments, self.loops = arguments, 0
        self.variables.enter()
        try:
            yield Call(self._bodied(body))
        except FunctionReturn as end:
            self.status = end.code
        finally:
            self.arguments, self.loops = self.variables.charge_arguments(kept), loops
            self.variables.leave()

    def _bodied(self, body: Node) -> Process:
        yield from self.node(body)
        return self.status

    def call(self, words: list[str]) -> Process:
        """Run a program that is none of the shell's own commands."""
        self.around.env = self.variables.env
        return run_program(self.around, words, self.make_message)


def _quote_traced(word: str) -> str:
    """A word as `set -x` shows it."""
    plain = word and all(char.isalnum() or char in "_-+=./:,@%^" for char in word)
    return word if plain else "'" + word.replace("'", "'\\''") + "'"
