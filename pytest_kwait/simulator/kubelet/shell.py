"""The shell of a container: runs a script's tree over the programs of `programs`."""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.programs import (
    APPLETS,
    UNSIMULATED,
    Effect,
    Job,
    Pause,
    Process,
    Surroundings,
    Write,
)
from pytest_kwait.simulator.kubelet.shell_syntax import (
    AndOr,
    Arithmetic,
    Background,
    Command,
    For,
    Group,
    If,
    Literal,
    Loop,
    Node,
    Not,
    Part,
    Redirect,
    Sequence,
    ShellSyntaxError,
    Substitution,
    Variable,
    Word,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["SHELLS", "Shell", "run_program", "shell_of"]

SHELLS = frozenset({"ash", "bash", "sh"})

# A loop whose turn took no time waits this long, so that `while true; do true; done` costs no core.
_IDLE_TURN = 0.01
# How often `wait` looks.
_WAIT_TURN = 0.05
_MAX_SUBSTITUTION = 1_000_000


class _Exit(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _LoopControl(Exception):
    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


@dataclass(slots=True)
class Shell:
    """One shell process.

    Args:
        around: the container it runs in; assignments change its `env`.
        name: what its messages begin with.
    """

    around: Surroundings
    name: str = "sh"
    status: int = 0
    arguments: tuple[str, ...] = ()
    traps: dict[str, str] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    _pending: list[str] = field(default_factory=list)
    _errexit: bool = False

    def signal(self, signal: str) -> bool:
        """Note a signal; False where no trap waits for it, as process 1 then ignores it."""
        if signal not in self.traps:
            return False
        self._pending.append(signal)
        return True

    def run(self, script: str) -> Process:
        """Run a whole script; its exit code is what its last command or `exit` said."""
        try:
            try:
                tree = parse(script)
            except ShellSyntaxError as error:
                yield self._complain(f"syntax error: {error}")
                return 2
            yield from self._node(tree)
        except _Exit as end:
            self.status = end.code
        except _LoopControl:
            pass
        if "EXIT" in self.traps:
            yield from self._trap("EXIT")
        return self.status

    def _complain(self, text: str) -> Write:
        return Write(2, f"{self.name}: {text}\n".encode())

    def _trap(self, signal: str) -> Generator[Effect, None, None]:
        script = self.traps.pop(signal) if signal == "EXIT" else self.traps[signal]
        # What a handler does leaves the exit code as it was, unless it exits itself.
        status = self.status
        try:
            yield from self._node(parse(script))
            self.status = status
        except ShellSyntaxError as error:
            yield self._complain(f"syntax error: {error}")
        except _Exit as end:
            if signal != "EXIT":
                raise
            self.status = end.code

    def _node(self, node: Node) -> Generator[Effect, None, None]:
        """Run `node`, leaving its exit code in `status`."""
        match node:
            case Sequence(commands):
                for command in commands:
                    yield from self._node(command)
            case AndOr(left, joint, right):
                errexit, self._errexit = self._errexit, False
                yield from self._node(left)
                self._errexit = errexit
                if (self.status == 0) == (joint == "&&"):
                    yield from self._node(right)
            case Not(command):
                yield from self._quietly(command)
                self.status = int(self.status == 0)
            case If():
                yield from self._if(node)
            case Loop():
                yield from self._loop(node)
            case For():
                yield from self._for(node)
            case Group():
                yield from self._group(node)
            case Background(command):
                job = Job(self._background(command))
                self.jobs.append(job)
                yield job
                self.status = 0
            case Command():
                yield from self._command(node)
                yield from self._react()
                if self.status and self._errexit:
                    raise _Exit(self.status)

    def _react(self) -> Generator[Effect, None, None]:
        while self._pending:
            yield from self._trap(self._pending.pop(0))

    def _background(self, node: Node) -> Process:
        inner = self._subshell()
        try:
            yield from inner._node(node)
        except _Exit as end:
            return end.code
        return inner.status

    def _subshell(self) -> Shell:
        around = Surroundings(
            self.around.now, dict(self.around.env), self.around.files, self.around.hostname
        )
        return Shell(around, self.name, self.status, self.arguments)

    def _quietly(self, node: Node) -> Generator[Effect, None, None]:
        """Run a condition: its failure does not end a script under `set -e`."""
        errexit, self._errexit = self._errexit, False
        yield from self._node(node)
        self._errexit = errexit

    def _if(self, node: If) -> Generator[Effect, None, None]:
        for condition, body in node.branches:
            yield from self._quietly(condition)
            if self.status == 0:
                yield from self._node(body)
                return
        self.status = 0
        if node.otherwise is not None:
            yield from self._node(node.otherwise)

    def _loop(self, node: Loop) -> Generator[Effect, None, None]:
        result = 0
        while True:
            paused = False
            for step in (self._quietly(node.condition), None):
                if step is None:
                    if (self.status == 0) == node.until:
                        self.status = result
                        return
                    step = self._node(node.body)
                try:
                    for effect in step:
                        paused = paused or (isinstance(effect, Pause) and effect.seconds > 0)
                        yield effect
                except _LoopControl as control:
                    if control.word == "break":
                        self.status = 0
                        return
            result = self.status
            if not paused:
                yield Pause(_IDLE_TURN)

    def _for(self, node: For) -> Generator[Effect, None, None]:
        values: list[str] = []
        for word in node.words:
            values.extend((yield from self._expand(word)))
        for value in values:
            self.around.env[node.name] = value
            try:
                yield from self._node(node.body)
            except _LoopControl as control:
                if control.word == "break":
                    return

    def _group(self, node: Group) -> Generator[Effect, None, None]:
        inner = self._subshell() if node.subshell else self
        yield from self._redirected(self._ended(inner, node), node.redirects)

    def _ended(self, inner: Shell, node: Group) -> Generator[Effect, None, None]:
        try:
            yield from inner._node(node.body)
        except _Exit as end:
            if not node.subshell:
                raise
            inner.status = end.code
        self.status = inner.status

    def _command(self, node: Command) -> Generator[Effect, None, None]:
        words: list[str] = []
        for word in node.words:
            words.extend((yield from self._expand(word)))
        for name, word in node.assignments:
            values = yield from self._expand(word)
            self.around.env[name] = "".join(values)
        if not words:
            if node.assignments and not node.redirects:
                self.status = 0
                return
            yield from self._redirected(self._nothing(), node.redirects)
            return
        yield from self._redirected(self._call(words), node.redirects)

    def _nothing(self) -> Generator[Effect, None, None]:
        yield from ()
        self.status = 0

    def _call(self, words: list[str]) -> Generator[Effect, None, None]:
        program, args = words[0], words[1:]
        builtin = _BUILTINS.get(program)
        if builtin is not None:
            self.status = yield from builtin(self, args)
        else:
            self.status = yield from run_program(self.around, words, self.name)

    def _redirected(
        self, effects: Generator[Effect, None, None], redirects: tuple[Redirect, ...]
    ) -> Generator[Effect, None, None]:
        """Pass effects on, writes going where the redirections say."""
        streams: dict[int, int | str] = {1: 1, 2: 2}
        stdin = self.around.stdin
        for redirect in redirects:
            target = "".join((yield from self._expand(redirect.target)))
            if redirect.operator == ">&":
                streams[redirect.stream] = (
                    streams.get(int(target), 1) if target.isdigit() else target
                )
            elif redirect.operator == "<":
                if target not in self.around.files and target != "/dev/null":
                    yield self._complain(f"can't open {target}: no such file")
                    self.status = 1
                    return
                self.around.stdin = self.around.files.get(target, b"")
            else:
                special = {"/dev/stdout": 1, "/dev/stderr": 2, "/proc/1/fd/1": 1, "/proc/1/fd/2": 2}
                streams[redirect.stream] = special.get(target, target)
                if target not in special and target != "/dev/null":
                    kept = self.around.files.get(target, b"") if redirect.operator == ">>" else b""
                    self.around.files[target] = kept
        for effect in effects:
            if not isinstance(effect, Write):
                yield effect
                continue
            where = streams[effect.stream]
            if isinstance(where, int):
                yield Write(where, effect.data)
            elif where != "/dev/null":
                self.around.files[where] = self.around.files.get(where, b"") + effect.data
        self.around.stdin = stdin

    def _expand(self, word: Word) -> Generator[Effect, None, list[str]]:
        """Return the arguments that a word becomes: unquoted expansions are split at blanks."""
        pieces: list[str] = []
        open_piece: str | None = None
        for part, quoted in word.parts:
            text = yield from self._part(part)
            if quoted or isinstance(part, Literal):
                open_piece = (open_piece or "") + text
                continue
            split = text.split()
            if text[:1].isspace() and open_piece is not None:
                pieces.append(open_piece)
                open_piece = None
            for index, piece in enumerate(split):
                open_piece = (open_piece or "") + piece
                if index < len(split) - 1 or text[-1:].isspace():
                    pieces.append(open_piece)
                    open_piece = None
        if open_piece is not None:
            pieces.append(open_piece)
        return pieces

    def _part(self, part: Part) -> Generator[Effect, None, str]:
        match part:
            case Literal(text):
                return text
            case Variable("?", _):
                return str(self.status)
            case Variable("$" | "!", _):
                return "1"
            case Variable("0", _):
                return self.name
            case Variable("#", _):
                return str(len(self.arguments))
            case Variable("@" | "*", _):
                return " ".join(self.arguments)
            case Variable(name, default):
                return self.around.env.get(name) or default or ""
            case Arithmetic(expression):
                try:
                    return str(_evaluate(expression, self.around.env))
                except (SyntaxError, ValueError, ZeroDivisionError) as error:
                    fault = (
                        "divide by zero"
                        if isinstance(error, ZeroDivisionError)
                        else "arithmetic syntax error"
                    )
                    yield self._complain(fault)
                    raise _Exit(2) from None
            case Substitution(script):
                return (yield from self._substitute(script))

    def _substitute(self, script: Node) -> Generator[Effect, None, str]:
        captured: list[bytes] = []
        size = 0
        for effect in self._ended_group(script):
            if isinstance(effect, Write) and effect.stream == 1:
                size += len(effect.data)
                if size > _MAX_SUBSTITUTION:
                    yield self._complain("out of memory")
                    raise _Exit(1)
                captured.append(effect.data)
            else:
                yield effect
        return b"".join(captured).decode(errors="replace").rstrip("\n")

    def _ended_group(self, script: Node) -> Generator[Effect, None, None]:
        yield from self._group(Group(script, subshell=True))


def _exit(shell: Shell, args: list[str]) -> Process:
    if args and not args[0].isdigit():
        yield Write(2, f"{shell.name}: exit: line 0: Illegal number: {args[0]}\n".encode())
        raise _Exit(2)
    raise _Exit(int(args[0]) % 256 if args else shell.status)


def _trap_builtin(shell: Shell, args: list[str]) -> Process:
    yield from ()
    if len(args) < 2:
        return 0
    for name in args[1:]:
        signal = {"15": "TERM", "0": "EXIT"}.get(name, name.removeprefix("SIG"))
        if args[0] == "-":
            shell.traps.pop(signal, None)
        else:
            shell.traps[signal] = args[0]
    return 0


def _set(shell: Shell, args: list[str]) -> Process:
    yield from ()
    for arg in args:
        if arg[:1] in ("-", "+") and "e" in arg[1:]:
            shell._errexit = arg[0] == "-"
    return 0


def _loop_word(word: str) -> Callable[[Shell, list[str]], Process]:
    def leave(_: Shell, __: list[str]) -> Process:
        yield from ()
        raise _LoopControl(word)

    return leave


def _export(shell: Shell, args: list[str]) -> Process:
    yield from ()
    for arg in args:
        name, separator, value = arg.partition("=")
        if separator:
            shell.around.env[name] = value
    return 0


def _exec(shell: Shell, args: list[str]) -> Process:
    if not args:
        return 0
    # The program takes the shell's place, its traps with it.
    shell.traps.clear()
    raise _Exit((yield from run_program(shell.around, args, shell.name)))


def _wait(shell: Shell, _: list[str]) -> Process:
    # A trapped signal ends a `wait` at once, unlike a program in the foreground.
    while any(job.code is None for job in shell.jobs):
        yield Pause(_WAIT_TURN)
        if shell._pending:
            return 143
    return shell.jobs[-1].code or 0 if shell.jobs else 0


def _nothing(_: Shell, __: list[str]) -> Process:
    yield from ()
    return 0


_BUILTINS: dict[str, Callable[[Shell, list[str]], Process]] = {
    ":": _nothing, "break": _loop_word("break"), "cd": _nothing, "continue": _loop_word("continue"),
    "exec": _exec, "exit": _exit, "export": _export, "return": _exit, "set": _set,
    "trap": _trap_builtin, "umask": _nothing, "wait": _wait,
}  # fmt: skip

_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: int(left / right),
    ast.Mod: lambda left, right: left - right * int(left / right),
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def _evaluate(expression: str, env: dict[str, str]) -> int:
    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(int() as number):
                return int(number)
            case ast.Name(name):
                return int(env.get(name) or 0)
            case ast.BinOp(left, joint, right) if type(joint) in _OPERATIONS:
                return _OPERATIONS[type(joint)](value(left), value(right))
            case ast.UnaryOp(ast.USub(), operand):
                return -value(operand)
            case ast.Compare(left, [comparison], [right]) if type(comparison) in _COMPARISONS:
                return int(_COMPARISONS[type(comparison)](value(left), value(right)))
        raise ValueError(expression)

    return value(ast.parse(expression.replace("$", "").strip(), mode="eval").body)


def run_program(around: Surroundings, argv: list[str], complainer: str = "sh") -> Process:
    """Run a program by its arguments as a shell would; 127 where there is none of that name."""
    name = argv[0].rpartition("/")[2]
    if name in SHELLS:
        shell, script = shell_of(around, argv)
        return (yield from shell.run(script))
    if name == "busybox" and len(argv) > 1:
        return (yield from run_program(around, argv[1:], complainer))
    applet = APPLETS.get(name)
    if applet is not None:
        return (yield from applet(around, argv[1:]))
    if name in UNSIMULATED:
        yield Write(2, f"{name}: not simulated by the embedded kubelet\n".encode())
        return 1
    yield Write(2, f"{complainer}: {argv[0]}: not found\n".encode())
    return 127


def shell_of(around: Surroundings, argv: list[str]) -> tuple[Shell, str]:
    """Return the shell that `sh -c SCRIPT…`, `sh FILE` or `sh` starts, and its script."""
    flags, rest = "", argv[1:]
    while rest and rest[0].startswith("-"):
        flags += rest.pop(0)[1:]
    around = Surroundings(around.now, dict(around.env), around.files, around.hostname, around.stdin)
    if "c" in flags:
        script = rest[0] if rest else ""
        shell = Shell(around, rest[1] if len(rest) > 1 else argv[0], arguments=tuple(rest[2:]))
    else:
        script = (around.files.get(rest[0], b"") if rest else around.stdin).decode()
        shell = Shell(around, argv[0], arguments=tuple(rest[1:]))
    shell._errexit = "e" in flags
    for index, value in enumerate(shell.arguments, start=1):
        around.env[str(index)] = value
    return shell, script
