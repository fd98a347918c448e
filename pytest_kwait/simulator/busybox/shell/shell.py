"""The shell: runs the syntax tree of a script over the programs of `applets`.

It holds the state (arguments, options, functions, traps, jobs), applies redirections, runs
simple commands, and forks subshells, pipelines, substitutions and background jobs.
"""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING, Self

from pytest_kwait.simulator.busybox.applets import run_program
from pytest_kwait.simulator.busybox.libbb import WorkMeter, find_longest_number, write_error
from pytest_kwait.simulator.busybox.os.fds import (
    CaptureEnd,
    FileEnd,
    OpenFile,
    copy_fds,
    make_pipe,
    open_path,
)
from pytest_kwait.simulator.busybox.os.files import ENOENT, File, FileSystemError
from pytest_kwait.simulator.busybox.os.streams import Pipe
from pytest_kwait.simulator.busybox.os.syscalls import (
    SIGNALS,
    STEP,
    Await,
    Call,
    Effect,
    ForkError,
    Interrupted,
    NonlocalExit,
    Process,
    ProcessContext,
    Read,
    Task,
    Write,
)
from pytest_kwait.simulator.busybox.patterns import matches_glob
from pytest_kwait.simulator.busybox.shell.builtins import BUILTINS, SPECIAL
from pytest_kwait.simulator.busybox.shell.expansion import Expander
from pytest_kwait.simulator.busybox.shell.parser import make_parser, parse
from pytest_kwait.simulator.busybox.shell.tree import (
    AndOr,
    Background,
    Case,
    Command,
    For,
    Function,
    Grouping,
    If,
    Literal,
    Loop,
    Node,
    Not,
    Pipeline,
    Sequence,
    ShellSyntaxError,
    Word,
)
from pytest_kwait.simulator.busybox.shell.variables import (
    FunctionReturn,
    LoopControl,
    ReadOnlyVariableError,
    ShellExit,
    ShellVariables,
    measure_words,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.shell.tree import Redirect

_SIGNAL_MESSAGES = {
    1: "Hangup", 3: "Quit", 4: "Illegal instruction", 6: "Aborted", 9: "Killed",
    10: "User defined signal 1", 11: "Segmentation fault", 12: "User defined signal 2",
    14: "Alarm clock", 15: "Terminated",
}  # fmt: skip
_MAX_JOBS = 512
_TRACED_PLAIN = re.compile(r"[\w+=./:,@%^-]+")
# The work of a redirection, an assignment, and a pattern of `case`.
_REDIRECT_WORK = 20
_ASSIGNMENT_WORK = 5
_PATTERN_WORK = 5
_CAT_WORD = Word(((Literal("cat"), False),))
SavedFds = list[tuple[int, OpenFile | None]]
"""Changed file descriptors and their earlier files, in order of the changes."""

_MODES = {"<": "r", ">": "w", ">|": "w", ">>": "a", "<>": "+", "&>": "w"}


class Shell:
    """A shell process.

    Args:
        name: `$0`, the prefix of its messages.
        arguments: `$1` and so on.
        file: whether it runs a file; then messages have line numbers.
    """

    def __init__(
        self,
        context: ProcessContext,
        name: str = "sh",
        arguments: tuple[str, ...] = (),
        *,
        file: bool = False,
    ) -> None:
        self.context = context
        self.name = name
        self.arguments = arguments
        self.file = file
        self.status = 0
        self.line = 0
        self.reading = ""
        """The command whose script runs: `eval`, or the file of `.`."""
        self.pid = context.task.pid
        self.last_job = 0
        self.options: set[str] = set()
        self.functions: dict[str, Node] = {}
        self.traps: dict[str, str] = {}
        self.children: dict[int, Task] = {}
        self.loops = 0
        self.option_offset = 0
        self.variables = ShellVariables(context.env, context.tasks.account)
        self.meter = WorkMeter()
        self.expander = Expander(self)
        self._tested = 0
        self._pending: list[int] = []
        self.substituted = 0

    # -- signals

    def signal(self, number: int) -> bool:
        """Queue a signal for its trap; False if it has none."""
        name = next((name for name, known in SIGNALS.items() if known == number), "")
        if name not in self.traps:
            return False
        if self.traps[name]:
            self._pending.append(number)
        return True

    def handles(self, number: int) -> bool:
        """Return whether a signal has a trap."""
        return any(self.traps.get(name) for name, known in SIGNALS.items() if known == number)

    @property
    def interrupted(self) -> int:
        """The signal whose trap has yet to run; 0 without one."""
        return self._pending[0] if self._pending else 0

    def make_message(self, text: str, command: str = "") -> Write:
        """Return an error message with the prefix that `ash` gives it."""
        command = command or self.reading
        where = f"{self.name}: {command}: " if command else f"{self.name}: "
        if command or self.file:
            where += f"line {self.line}: "
        return Write(2, f"{where}{text}\n".encode(errors="surrogateescape"))

    def make_subshell(self, context: ProcessContext) -> Self:
        """Return a copy of the shell for a subshell."""
        inner = copy(self)
        inner.context = context
        inner.options = set(self.options)
        inner.functions = dict(self.functions)
        inner.traps = {name: "" for name, script in self.traps.items() if not script}
        inner.children = {}
        inner.variables = self.variables.copy()
        inner.expander = Expander(inner)
        inner._pending = []
        inner.substituted = 0
        return inner

    # -- processes

    def _run_exit_trap(self) -> Generator[Effect, None, None]:
        script = self.traps.pop("EXIT", None)
        if script:
            status = self.status
            try:
                yield from self.evaluate(script)
                self.status = status
            except ShellExit as end:
                self.status = end.code
            except (FunctionReturn, LoopControl):
                self.status = status

    def run_subshell(self, node: Node) -> Process:
        """Run a whole subshell and its exit trap."""
        try:
            try:
                yield from self.run_node(node)
            except (ShellExit, FunctionReturn) as end:
                self.status = end.code
            except LoopControl:
                pass
            yield from self._run_exit_trap()
        finally:
            self.variables.close()
        return self.status

    def run_in_place(self, node: Node) -> Generator[Effect, None, None]:
        """Run a subshell in this process, and restore its open files."""
        context = self.context
        saved_fds = copy_fds(context.fds)
        inner = self.make_subshell(context.with_env(context.env))
        call = Call(inner.run_subshell(node))
        try:
            yield call
        finally:
            inner.variables.close()
            for open_file in context.fds.values():
                open_file.release()
            context.fds.clear()
            context.fds.update(saved_fds)
        self.status = call.code

    def substitute(self, script: Node) -> Generator[Effect, None, str]:
        """Run a script and return its output without trailing newlines."""
        fds = self.context.fds
        if isinstance(script, Command) and not script.words and not script.assignments:
            # `$(<file)`.
            script = Command((_CAT_WORD,), (), script.redirects, script.line)
        capture = CaptureEnd(self.context.tasks.account)
        capture.retain()
        saved_stdout = fds.get(1)
        fds[1] = capture.retain()
        try:
            yield from self.run_in_place(script)
            capture.release()
            if saved_stdout is not None:
                fds[1] = saved_stdout
            else:
                del fds[1]
            saved_stdout = None
            if capture.refs > 1:
                # A background job may still write.
                yield Await(lambda: capture.refs == 1)
            text = capture.data.replace(b"\0", b"").decode(errors="surrogateescape")
        finally:
            if saved_stdout is not None:
                fds[1] = saved_stdout
            capture.release()
        self.substituted = self.status
        return text.rstrip("\n")

    def fork(self, node: Node, fds: dict[int, OpenFile]) -> Task:
        """Start a subshell as a process.

        Raises:
            ForkError: the container has too many processes.
        """

        def make(context: ProcessContext) -> Process:
            inner = self.make_subshell(context)
            # A process killed before its first step does not close anything itself.
            context.task.on_end.append(inner.variables.close)
            context.task.handler, context.task.traps = inner.signal, inner.handles
            return inner.run_subshell(node)

        context = self.context
        return context.tasks.start(make, context, self.name, fds, parent=context.task.pid)

    def _try_fork(self, node: Node, fds: dict[int, OpenFile]) -> Generator[Effect, None, Task]:
        try:
            return self.fork(node, fds)
        except ForkError:
            yield self.make_message("can't fork: Resource temporarily unavailable")
            raise ShellExit(2) from None

    def _run_pipeline(self, commands: tuple[Node, ...]) -> Generator[Effect, None, None]:
        members: list[Task] = []
        previous: OpenFile | None = None
        for command in commands:
            fds = copy_fds(self.context.fds)
            if previous is not None:
                _replace_fd(fds, 0, previous)
                previous.release()
                previous = None
            if command is not commands[-1]:
                reader, writer = make_pipe(Pipe())
                previous = reader.retain()
                _replace_fd(fds, 1, writer)
            try:
                members.append((yield from self._try_fork(command, fds)))
            except ShellExit:
                if previous is not None:
                    previous.release()
                raise
        yield Await(lambda: all(member.code is not None for member in members))
        codes = [member.code or 0 for member in members]
        self.status = codes[-1]
        if "pipefail" in self.options:
            self.status = next((code for code in reversed(codes) if code), 0)
        yield from self.report_signal_end(members[-1])

    def report_signal_end(self, task: Task) -> Generator[Effect, None, None]:
        """Report the signal that ended a process."""
        if task.signalled in _SIGNAL_MESSAGES:
            yield Write(2, f"{_SIGNAL_MESSAGES[task.signalled]}\n".encode())

    def _run_background(self, command: Node) -> Generator[Effect, None, None]:
        fds = copy_fds(self.context.fds)
        account = self.context.tasks.account
        null = open_path(self.context.files, "/dev/null", "r", account, self.context.now, {})
        _replace_fd(fds, 0, null)
        task = yield from self._try_fork(command, fds)
        self.children[task.pid] = task
        self.last_job = task.pid
        self.status = 0
        if len(self.children) > _MAX_JOBS:
            for pid in [pid for pid, child in self.children.items() if child.code is not None]:
                del self.children[pid]

    # -- commands

    def _assign(self, name: str, value: str) -> Generator[Effect, None, None]:
        try:
            self.variables.set(name, value)
        except ReadOnlyVariableError as fault:
            yield self.make_message(f"{fault.name}: is read only")
            raise ShellExit(2) from None

    def _run_command(self, node: Command) -> Generator[Effect, None, None]:
        self.line = node.line
        self.substituted = 0
        words: list[str] = []
        for word in node.words:
            words += yield from self.expander.expand_fields(word)
        function = self.functions.get(words[0]) if words else None
        special = bool(words) and function is None and words[0] in SPECIAL
        saved = yield from open_redirects(self, node.redirects)
        if saved is None:
            self.status = 1
            if special:
                raise ShellExit(1)
            return
        saved_variables: dict[str, tuple[str | None, bool]] | None = None
        if words and not special:
            saved_variables = {}
        account, held = self.context.tasks.account, measure_words(words)
        try:
            account.take(held)
            try:
                traced = yield from self._assign_all(node, saved_variables)
                if "x" in self.options and (words or traced):
                    yield from self._trace(traced, words)
                if words:
                    keeps = words[0] == "exec" and len(words) == 1 and function is None
                    yield from self._run_words(words, function)
                    if keeps:
                        for _, open_file in saved:
                            if open_file is not None:
                                open_file.release()
                        saved.clear()
                else:
                    self.status = self.substituted
            except NonlocalExit:
                yield from self._restore_variables(saved_variables)
                raise
            yield from self._restore_variables(saved_variables)
        finally:
            restore_fds(self, saved)
            account.give(held)

    def _assign_all(
        self, node: Command, saved: dict[str, tuple[str | None, bool]] | None
    ) -> Generator[Effect, None, list[str]]:
        """Make the assignments of a command, and return them as `set -x` prints them.

        Args:
            saved: the earlier values, for assignments that last as long as the command.
        """
        traced: list[str] = []
        for name, word in node.assignments:
            yield from self.meter.spend(_ASSIGNMENT_WORK)
            value = yield from self.expander.expand_text(word, assigned=True)
            traced.append(f"{name}={value}")
            if saved is not None:
                is_exported = name in self.variables.exported
                saved.setdefault(name, (self.variables.get(name), is_exported))
            yield from self._assign(name, value)
            if saved is not None:
                self.variables.export(name)
        return traced

    def _restore_variables(
        self, saved: dict[str, tuple[str | None, bool]] | None
    ) -> Generator[Effect, None, None]:
        for name, (value, is_exported) in (saved or {}).items():
            yield from self.meter.spend(_ASSIGNMENT_WORK)
            self.variables.unset(name)
            if value is not None:
                self.variables.set(name, value)
            if is_exported:
                self.variables.export(name)

    def _trace(self, traced: list[str], words: list[str]) -> Generator[Effect, None, None]:
        """Print a command as `set -x` does."""
        for word in words:
            yield from self.meter.spend(1)
            traced.append(_quote_traced(word))
        yield write_error(f"+ {' '.join(traced)}")

    def _run_words(self, words: list[str], function: Node | None) -> Generator[Effect, None, None]:
        if function is not None:
            yield from self._run_function(function, tuple(words[1:]))
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

    def _run_function(
        self, body: Node, arguments: tuple[str, ...]
    ) -> Generator[Effect, None, None]:
        saved_arguments, loops = self.arguments, self.loops
        self.arguments, self.loops = arguments, 0
        self.variables.enter_function()
        try:
            yield Call(self._run_function_body(body))
        except FunctionReturn as end:
            self.status = end.code
        finally:
            self.arguments, self.loops = self.variables.charge_arguments(saved_arguments), loops
            self.variables.leave_function()

    def _run_function_body(self, body: Node) -> Process:
        yield from self.run_node(body)
        return self.status

    def call(self, words: list[str]) -> Process:
        """Run a program, not a builtin."""
        self.context.env = self.variables.env
        return run_program(self.context, words, self.make_message)

    def evaluate_number(self, expression: str) -> Generator[Effect, None, int]:
        """Return the value of an arithmetic expression."""
        return self.expander.evaluate(expression)

    def _run_traps(self) -> Generator[Effect, None, None]:
        while self._pending:
            number = self._pending.pop(0)
            name = next(name for name, known in SIGNALS.items() if known == number)
            script = self.traps.get(name)
            if script:
                # A trap keeps the exit code, unless it exits.
                status = self.status
                yield from self.evaluate(script)
                self.status = status

    # -- running

    def run(self, script: str | None) -> Process:
        """Run a script, or stdin if it is None; return the exit code."""
        task = self.context.task
        task.handler, task.traps = self.signal, self.handles
        try:
            try:
                if script is None:
                    yield from self._read_interactively()
                else:
                    # The lines of `-c` count from 0.
                    yield from self.run_lines(script, int(self.file))
            except ShellExit as end:
                self.status = end.code
            except (FunctionReturn, LoopControl) as control:
                self.status = control.code if isinstance(control, FunctionReturn) else self.status
            yield from self._run_exit_trap()
        finally:
            self.variables.close()
        return self.status

    def run_lines(self, script: str, first: int) -> Generator[Effect, None, None]:
        """Run a script line by line, so that syntax errors show only when reached.

        Args:
            first: the number of its first line.

        Raises:
            ShellExit: a line has a syntax error.
        """
        parser = make_parser(script, first)
        ran = False
        while True:
            try:
                tree = yield from parser.parse_line()
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
                yield from self.run_node(tree)

    def evaluate(self, script: str, command: str = "") -> Generator[Effect, None, None]:
        """Run a script as `eval` and traps do: its line numbers continue the current one."""
        before, self.reading = self.reading, command
        try:
            yield from self.run_lines(script, self.line)
        finally:
            self.reading = before

    def _read_interactively(self) -> Generator[Effect, None, None]:
        text = ""
        while True:
            try:
                if self.context.tty:
                    prompt = "> " if text else f"{self.context.cwd} # "
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
                    yield from self.run_lines(text, 1)
                    return
                text += read.data.decode(errors="surrogateescape")
                tree = yield from parse(text)
                text = ""
                yield from self.run_node(tree)
            except ShellSyntaxError as error:
                incomplete = ("unexpected end of file", "unterminated", "missing '", "EOF in")
                if str(error).startswith(incomplete):
                    continue
                yield self.make_message(f"syntax error: {error}")
                text, self.status = "", 2
                if not self.context.tty:
                    raise ShellExit(2) from None
            except Interrupted:
                text, self.status = "", 130

    # -- nodes

    def run_node(self, node: Node) -> Generator[Effect, None, None]:
        """Run a node of the tree and set `status`."""
        match node:
            case Command():
                yield from self._run_command(node)
                yield STEP
                if self._pending:
                    yield from self._run_traps()
                self._check_errexit()
            case Sequence(commands):
                if not commands:
                    self.status = 0
                for command in commands:
                    yield from self.run_node(command)
            case AndOr(first, rest):
                yield from self._run_condition(first)
                for operator, command in rest:
                    if (self.status == 0) != (operator == "&&"):
                        continue
                    is_last = command is rest[-1][1]
                    yield from self.run_node(command) if is_last else self._run_condition(command)
            case Pipeline(commands):
                yield from self._run_pipeline(commands)
                if self._pending:
                    yield from self._run_traps()
                self._check_errexit()
            case Not(command):
                yield from self._run_condition(command)
                self.status = int(self.status == 0)
            case If():
                yield from self._run_if(node)
            case Loop():
                yield from self._run_loop(node)
            case For():
                yield from self._run_for(node)
            case Case():
                yield from self._run_case(node)
            case Function(name, body):
                self.functions[name] = body
                self.status = 0
            case Grouping():
                yield from self._run_group(node)
                if self._pending:
                    yield from self._run_traps()
                if node.subshell:
                    self._check_errexit()
            case Background(command):
                yield from self._run_background(command)

    def _check_errexit(self) -> None:
        """Exit under `set -e` after an untested failure."""
        if self.status and "e" in self.options and not self._tested:
            raise ShellExit(self.status)

    def _run_condition(self, node: Node) -> Generator[Effect, None, None]:
        """Run a condition, whose failure does not exit under `set -e`."""
        self._tested += 1
        try:
            yield from self.run_node(node)
        finally:
            self._tested -= 1

    def _run_if(self, node: If) -> Generator[Effect, None, None]:
        for condition, body in node.branches:
            yield from self._run_condition(condition)
            if self.status == 0:
                yield from self.run_node(body)
                return
        self.status = 0
        if node.otherwise is not None:
            yield from self.run_node(node.otherwise)

    def _run_body(self, body: Node) -> Generator[Effect, None, bool]:
        """Run the body of a loop once; True if it was left."""
        try:
            yield from self.run_node(body)
        except LoopControl as control:
            self.status = 0
            if control.loops > 1 and self.loops > 1:
                raise LoopControl(control.word, control.loops - 1) from None
            return control.word == "break"
        return False

    def _run_loop(self, node: Loop) -> Generator[Effect, None, None]:
        result = 0
        self.loops += 1
        try:
            while True:
                yield STEP
                if (yield from self._run_loop_condition(node.condition)):
                    self.status = 0
                    return
                if (self.status == 0) == node.until:
                    self.status = result
                    return
                if (yield from self._run_body(node.body)):
                    return
                result = self.status
        finally:
            self.loops -= 1

    def _run_loop_condition(self, condition: Node) -> Generator[Effect, None, bool]:
        self._tested += 1
        try:
            return (yield from self._run_body(condition))
        finally:
            self._tested -= 1

    def _run_for(self, node: For) -> Generator[Effect, None, None]:
        values: list[str] = []
        if node.words is None:
            values += self.arguments
        for word in node.words or ():
            values += yield from self.expander.expand_fields(word)
        self.status = 0
        self.loops += 1
        try:
            for value in values:
                yield STEP
                yield from self._assign(node.name, value)
                if (yield from self._run_body(node.body)):
                    return
        finally:
            self.loops -= 1

    def _run_case(self, node: Case) -> Generator[Effect, None, None]:
        text = yield from self.expander.expand_text(node.word)
        for patterns, body in node.branches:
            for case_pattern in patterns:
                yield from self.meter.spend(_PATTERN_WORK)
                pattern = yield from self.expander.expand_pattern(case_pattern)
                if (yield from matches_glob(pattern, text, self.meter)):
                    self.status = 0
                    yield from self.run_node(body)
                    return
        self.status = 0

    def _run_group(self, node: Grouping) -> Generator[Effect, None, None]:
        saved = yield from open_redirects(self, node.redirects)
        if saved is None:
            self.status = 1
            return
        try:
            if node.subshell:
                yield from self.run_in_place(node.body)
            else:
                yield from self.run_node(node.body)
        finally:
            restore_fds(self, saved)


def _replace_fd(fds: dict[int, OpenFile], number: int, opened: OpenFile) -> None:
    old = fds.pop(number, None)
    fds[number] = opened.retain()
    if old is not None:
        old.release()


def open_redirects(
    shell: Shell, redirects: tuple[Redirect, ...]
) -> Generator[Effect, None, SavedFds | None]:
    """Apply redirections and return the saved files; None if one failed."""
    saved: SavedFds = []
    for redirect in redirects:
        yield from shell.meter.spend(_REDIRECT_WORK)
        opened_one = yield from _open_redirect(shell, redirect)
        if opened_one is False:
            restore_fds(shell, saved)
            return None
        for stream in (1, 2) if redirect.operator == "&>" else (redirect.stream,):
            saved.append((stream, shell.context.fds.pop(stream, None)))
            if isinstance(opened_one, OpenFile):
                shell.context.fds[stream] = opened_one.retain()
    return saved


def restore_fds(shell: Shell, saved: SavedFds) -> None:
    """Restore the saved files."""
    fds = shell.context.fds
    for stream, before in reversed(saved):
        now = fds.pop(stream, None)
        if before is not None:
            fds[stream] = before
        if now is not None:
            now.release()
    saved.clear()


def _open_redirect(
    shell: Shell, redirect: Redirect
) -> Generator[Effect, None, OpenFile | bool | None]:
    """Return the opened file; None to close, False after a reported failure."""
    context, operator = shell.context, redirect.operator
    if operator in ("<<", "<<-"):
        try:
            text = yield from shell.expander.expand_text(redirect.target)
        except ShellExit:
            # An error that exits the shell elsewhere only fails the redirection here.
            return False
        data = text.encode(errors="surrogateescape")
        return FileEnd(File(data), None, context.now, "r")
    target = yield from shell.expander.expand_text(redirect.target)
    if operator in (">&", "<&"):
        if target == "-":
            return None
        if target.isdigit():
            open_file = context.fds.get(int(target))
            if open_file is None:
                yield shell.make_message(f"{target}: Bad file descriptor")
                return False
            return open_file
        if operator == "<&":
            yield shell.make_message("ambiguous redirect")
            return False
    mode = _MODES.get(operator, "w")
    exclusive = "C" in shell.options and operator == ">"
    path = context.resolve_path(target) if target else ""
    try:
        if not path:
            raise FileSystemError(ENOENT)
        return open_path(
            context.files, path, mode, context.tasks.account, context.now, context.fds,
            exclusive=exclusive,
        )  # fmt: skip
    except FileSystemError as fault:
        why = str(fault)
        if mode == "r":
            why = "no such file" if why == ENOENT else why
            yield shell.make_message(f"can't open {target}: {why}")
        else:
            why = "nonexistent directory" if why == ENOENT else why
            yield shell.make_message(f"can't create {target}: {why}")
        return False


def _quote_traced(word: str) -> str:
    """Quote a word as `set -x` does."""
    return word if _TRACED_PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'"


def sh(context: ProcessContext, argv: list[str]) -> Process:
    """Run `sh -c SCRIPT…`, `sh FILE` or `sh`; `args` begin with the shell's name."""
    flags, rest = "", argv[1:]
    named: list[str] = []
    while rest and rest[0][:1] in ("-", "+") and len(rest[0]) > 1:
        word = rest.pop(0)
        if word == "--":
            break
        flags += word[1:].replace("o", "")
        if "o" in word[1:] and rest:
            named.append(rest.pop(0))
    unknown = set(flags) - set("cefuxnsilC")
    if unknown or set(named) - {"pipefail", "errexit", "nounset", "xtrace"}:
        letter = next(iter(sorted(unknown)), None)
        yield write_error(
            f"{argv[0]}: illegal option {'-' + letter if letter else '-o ' + named[0]}"
        )
        return 2
    name, script, file = argv[0], None, False
    if "c" in flags:
        if not rest:
            yield write_error(f"{argv[0]}: -c requires an argument")
            return 2
        script, rest = rest[0], rest[1:]
        if rest:
            name, rest = rest[0], rest[1:]
    elif rest and "s" not in flags:
        name, rest, file = rest[0], rest[1:], True
        content = context.files.read(context.resolve_path(name))
        if content is None:
            yield write_error(f"{argv[0]}: can't open '{name}': No such file or directory")
            return 2
        script = content.decode(errors="surrogateescape")
    shell = Shell(context, name, tuple(rest), file=file)
    shell.options |= {letter for letter in flags if letter in "cefuxnC"}
    short = {"errexit": "e", "nounset": "u", "xtrace": "x"}
    shell.options |= {short.get(name, name) for name in named}
    saved_handler, traps = context.task.handler, context.task.traps
    fds = dict(context.fds)
    try:
        return (yield from shell.run(script))
    finally:
        context.task.handler, context.task.traps = saved_handler, traps
        for number in [fd for fd in context.fds if fd not in fds]:
            context.fds.pop(number).release()
