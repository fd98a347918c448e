"""The shell of a container: runs a script's tree over the programs of `programs`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.inputs import read_line
from pytest_kwait.simulator.kubelet.processes import (
    Effect,
    Job,
    Pause,
    Pipe,
    Process,
    Surroundings,
    Write,
)
from pytest_kwait.simulator.kubelet.shell_arithmetic import evaluate
from pytest_kwait.simulator.kubelet.shell_builtins import BUILTINS, Exit, LoopControl
from pytest_kwait.simulator.kubelet.shell_syntax import parse
from pytest_kwait.simulator.kubelet.shell_tree import (
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
)

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Shell"]

# A loop whose turn took no time waits this long, so that `while true; do true; done` costs no core.
_IDLE_TURN = 0.01
_MAX_SUBSTITUTION = 1_000_000


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
    pending: list[str] = field(default_factory=list)
    errexit: bool = False

    def signal(self, signal: str) -> bool:
        """Note a signal; False where no trap waits for it, as process 1 then ignores it."""
        if signal not in self.traps:
            return False
        self.pending.append(signal)
        return True

    def run(self, script: str | Pipe) -> Process:
        """Run a script, at once or line by line as it comes.

        Its exit code is what its last command or `exit` said.
        """
        try:
            if isinstance(script, Pipe):
                yield from self._converse(script)
            else:
                try:
                    tree = parse(script)
                except ShellSyntaxError as error:
                    yield self._complain(f"syntax error: {error}")
                    return 2
                yield from self._node(tree)
        except Exit as end:
            self.status = end.code
        except LoopControl:
            pass
        if "EXIT" in self.traps:
            yield from self._trap("EXIT")
        return self.status

    def _converse(self, source: Pipe) -> Generator[Effect, None, None]:
        text = ""
        while True:
            if self.around.tty:
                yield Write(2, b"> " if text else b"/ # ")
            line = yield from read_line(source)
            if not line:
                return
            text += line.decode(errors="replace")
            try:
                tree = parse(text)
            except ShellSyntaxError as error:
                if "unexpected end of file" in str(error):
                    continue
                yield self._complain(f"syntax error: {error}")
                text, self.status = "", 2
                if not self.around.tty:
                    return
                continue
            text = ""
            yield from self._node(tree)

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
        except Exit as end:
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
                errexit, self.errexit = self.errexit, False
                yield from self._node(left)
                self.errexit = errexit
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
                if self.status and self.errexit:
                    raise Exit(self.status)

    def _react(self) -> Generator[Effect, None, None]:
        while self.pending:
            yield from self._trap(self.pending.pop(0))

    def _background(self, node: Node) -> Process:
        inner = self._subshell()
        try:
            yield from inner._node(node)
        except Exit as end:
            return end.code
        return inner.status

    def _subshell(self) -> Shell:
        return Shell(self.around.inner(), self.name, self.status, self.arguments)

    def _quietly(self, node: Node) -> Generator[Effect, None, None]:
        """Run a condition: its failure does not end a script under `set -e`."""
        errexit, self.errexit = self.errexit, False
        yield from self._node(node)
        self.errexit = errexit

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
                except LoopControl as control:
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
            except LoopControl as control:
                if control.word == "break":
                    return

    def _group(self, node: Group) -> Generator[Effect, None, None]:
        inner = self._subshell() if node.subshell else self
        yield from self._redirected(self._ended(inner, node), node.redirects)

    def _ended(self, inner: Shell, node: Group) -> Generator[Effect, None, None]:
        try:
            yield from inner._node(node.body)
        except Exit as end:
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
        builtin = BUILTINS.get(program)
        if builtin is not None:
            self.status = yield from builtin(self, args)
        else:
            self.status = yield from self.call(words)

    def call(self, words: list[str]) -> Process:
        """Run a program that is none of the shell's own commands."""
        # Programs may be shells: the two modules need each other.
        from pytest_kwait.simulator.kubelet.launching import run_program

        return run_program(self.around, words, self.name)

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
                    return str(evaluate(expression, self.around.env))
                except (SyntaxError, ValueError, ZeroDivisionError) as error:
                    fault = (
                        "divide by zero"
                        if isinstance(error, ZeroDivisionError)
                        else "arithmetic syntax error"
                    )
                    yield self._complain(fault)
                    raise Exit(2) from None
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
                    raise Exit(1)
                captured.append(effect.data)
            else:
                yield effect
        return b"".join(captured).decode(errors="replace").rstrip("\n")

    def _ended_group(self, script: Node) -> Generator[Effect, None, None]:
        yield from self._group(Group(script, subshell=True))
