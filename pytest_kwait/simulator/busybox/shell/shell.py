"""The shell of a container: runs a script's tree over the programs of `programs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.process_table import SIGNALS, Interrupted
from pytest_kwait.simulator.busybox.os.syscalls import STEP, Effect, Process, Read, Write
from pytest_kwait.simulator.busybox.patterns import matches_glob
from pytest_kwait.simulator.busybox.shell.parser import ShellSyntaxError, make_parser, parse
from pytest_kwait.simulator.busybox.shell.shell_commands import ShellCommands
from pytest_kwait.simulator.busybox.shell.shell_redirects import open_redirects, restore_fds
from pytest_kwait.simulator.busybox.shell.tree import (
    AndOr,
    Background,
    Case,
    Command,
    For,
    Function,
    Group,
    If,
    Loop,
    Node,
    Not,
    Pipeline,
    Sequence,
)
from pytest_kwait.simulator.busybox.shell.variables import FunctionReturn, LoopControl, ShellExit

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Shell"]


class Shell(ShellCommands):
    """One shell process."""

    def _run_traps(self) -> Generator[Effect, None, None]:
        while self._pending:
            number = self._pending.pop(0)
            name = next(name for name, known in SIGNALS.items() if known == number)
            script = self.traps.get(name)
            if script:
                # What a handler does leaves the exit code as it was, unless it exits itself.
                status = self.status
                yield from self.evaluate(script)
                self.status = status

    # -- running

    def run(self, script: str | None) -> Process:
        """Run a script, or what comes at stdin; its exit code is its last command's."""
        task = self.around.task
        task.handler, task.traps = self.signal, self.handles
        try:
            try:
                if script is None:
                    yield from self._read_interactively()
                else:
                    # The first line of `-c` is no line of a file.
                    yield from self.lines(script, int(self.file))
            except ShellExit as end:
                self.status = end.code
            except (FunctionReturn, LoopControl) as control:
                self.status = control.code if isinstance(control, FunctionReturn) else self.status
            yield from self._leave()
        finally:
            self.variables.close()
        return self.status

    def lines(self, script: str, first: int) -> Generator[Effect, None, None]:
        """Run a script line by line: what is wrong further on is only seen there.

        Args:
            script: the script.
            first: the number of its first line.

        Raises:
            Exit: it is no shell.
        """
        parser = make_parser(script, first)
        ran = False
        while True:
            try:
                tree = parser.line()
            except ShellSyntaxError as error:
                self.line = parser.line_number
                yield self.make_message(f"syntax error: {error}")
                raise ShellExit(2) from None
            if tree is None:
                if not ran:
                    self.status = 0
                return
            if "n" not in self.options:
                ran = True
                yield from self.node(tree)

    def evaluate(self, script: str, command: str = "") -> Generator[Effect, None, None]:
        """Run a script as `eval` and traps do: its lines go on from the one that it stands on."""
        before, self.reading = self.reading, command
        try:
            yield from self.lines(script, self.line)
        finally:
            self.reading = before

    def _read_interactively(self) -> Generator[Effect, None, None]:
        text = ""
        while True:
            try:
                if self.around.tty:
                    prompt = "> " if text else f"{self.around.cwd} # "
                    yield Write(2, prompt.encode())
                read = Read(0, line=True)
                yield read
                while read.data and not read.data.endswith(b"\n"):
                    more = Read(0, line=True)
                    yield more
                    if not more.data:
                        break
                    read.data += more.data
                if not read.data:
                    if not text:
                        return
                    read.data = b"\n"
                    text = text.rstrip("\n")
                    yield from self.lines(text, 1)
                    return
                text += read.data.decode(errors="surrogateescape")
                tree = parse(text)
                text = ""
                yield from self.node(tree)
            except ShellSyntaxError as error:
                incomplete = ("unexpected end of file", "unterminated", "missing '", "EOF in")
                if str(error).startswith(incomplete):
                    continue
                yield self.make_message(f"syntax error: {error}")
                text, self.status = "", 2
                if not self.around.tty:
                    raise ShellExit(2) from None
            except Interrupted:
                text, self.status = "", 130

    # -- nodes

    def node(self, node: Node) -> Generator[Effect, None, None]:
        """Run `node`, leaving its exit code in `status`."""
        match node:
            case Command():
                yield from self._command(node)
                yield STEP
                if self._pending:
                    yield from self._run_traps()
                self._check()
            case Sequence(commands):
                if not commands:
                    self.status = 0
                for command in commands:
                    yield from self.node(command)
            case AndOr(left, joint, right):
                yield from self._run_condition(left)
                if (self.status == 0) == (joint == "&&"):
                    yield from self.node(right)
            case Pipeline(commands):
                yield from self._pipeline(commands)
                if self._pending:
                    yield from self._run_traps()
                self._check()
            case Not(command):
                yield from self._run_condition(command)
                self.status = int(self.status == 0)
            case If():
                yield from self._if(node)
            case Loop():
                yield from self._loop(node)
            case For():
                yield from self._for(node)
            case Case():
                yield from self._case(node)
            case Function(name, body):
                self.functions[name] = body
                self.status = 0
            case Group():
                yield from self._group(node)
                if self._pending:
                    yield from self._run_traps()
                if node.subshell:
                    self._check()
            case Background(command):
                yield from self._background(command)

    def _check(self) -> None:
        """End under `set -e` where a command failed that nobody tests."""
        if self.status and "e" in self.options and not self._tested:
            raise ShellExit(self.status)

    def _run_condition(self, node: Node) -> Generator[Effect, None, None]:
        """Run a condition: its failure does not end a script under `set -e`."""
        self._tested += 1
        try:
            yield from self.node(node)
        finally:
            self._tested -= 1

    def _if(self, node: If) -> Generator[Effect, None, None]:
        for condition, body in node.branches:
            yield from self._run_condition(condition)
            if self.status == 0:
                yield from self.node(body)
                return
        self.status = 0
        if node.otherwise is not None:
            yield from self.node(node.otherwise)

    def _body(self, body: Node) -> Generator[Effect, None, bool]:
        """One turn of a loop; whether it was the last one."""
        try:
            yield from self.node(body)
        except LoopControl as control:
            self.status = 0
            if control.loops > 1 and self.loops > 1:
                raise LoopControl(control.word, control.loops - 1) from None
            return control.word == "break"
        return False

    def _loop(self, node: Loop) -> Generator[Effect, None, None]:
        result = 0
        self.loops += 1
        try:
            while True:
                yield STEP
                if (yield from self._body_of_condition(node.condition)):
                    self.status = 0
                    return
                if (self.status == 0) == node.until:
                    self.status = result
                    return
                if (yield from self._body(node.body)):
                    return
                result = self.status
        finally:
            self.loops -= 1

    def _body_of_condition(self, condition: Node) -> Generator[Effect, None, bool]:
        self._tested += 1
        try:
            return (yield from self._body(condition))
        finally:
            self._tested -= 1

    def _for(self, node: For) -> Generator[Effect, None, None]:
        values: list[str] = []
        if node.words is None:
            values += self.arguments
        for word in node.words or ():
            values += yield from self.expander.fields(word)
        self.status = 0
        self.loops += 1
        try:
            for value in values:
                yield STEP
                yield from self._assign(node.name, value)
                if (yield from self._body(node.body)):
                    return
        finally:
            self.loops -= 1

    def _case(self, node: Case) -> Generator[Effect, None, None]:
        text = yield from self.expander.text(node.word)
        for patterns, body in node.branches:
            for one in patterns:
                pattern = yield from self.expander.pattern(one)
                if matches_glob(pattern, text):
                    self.status = 0
                    yield from self.node(body)
                    return
        self.status = 0

    def _group(self, node: Group) -> Generator[Effect, None, None]:
        saved = yield from open_redirects(self, node.redirects)
        if saved is None:
            self.status = 1
            return
        try:
            if node.subshell:
                yield from self.within(node.body)
            else:
                yield from self.node(node.body)
        finally:
            restore_fds(self, saved)
