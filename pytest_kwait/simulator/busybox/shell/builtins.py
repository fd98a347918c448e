"""The builtins of the shell: commands that change the shell itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.applets import has_program
from pytest_kwait.simulator.busybox.libbb import NOT_SIMULATED, WorkMeter
from pytest_kwait.simulator.busybox.os.files import Directory, File
from pytest_kwait.simulator.busybox.os.syscalls import (
    SIGNALS,
    Await,
    Call,
    Effect,
    Process,
    Read,
    Write,
    parse_signal,
)
from pytest_kwait.simulator.busybox.shell.lexer import is_name
from pytest_kwait.simulator.busybox.shell.variables import (
    FunctionReturn,
    LoopControl,
    ReadOnlyVariableError,
    ShellExit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_kwait.simulator.busybox.os.syscalls import Task
    from pytest_kwait.simulator.busybox.shell.variables import ShellContext

SPECIAL = frozenset(
    {
        ".", ":", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return",
        "set", "shift", "source", "times", "trap", "unset",
    }
)  # fmt: skip

_OPTIONS = {
    "errexit": "e", "noglob": "f", "nounset": "u", "xtrace": "x", "noexec": "n", "noclobber": "C",
    "allexport": "a", "verbose": "v", "pipefail": "pipefail",
}  # fmt: skip
_ACCEPTED_LETTERS = "efuxnC"

_MAX_DIGITS = 19
_NAME_WORK = 5
"""The work of a variable that is assigned, exported or unset."""
_ESCAPED = re.compile(r"\\(.?)", re.DOTALL)
_KEYWORDS = frozenset(
    "! case do done elif else esac fi for function if in then until while { }".split()  # noqa: SIM905
)


def _trap(shell: ShellContext, args: list[str]) -> Process:
    args = args[1:] if args[:1] == ["--"] else args
    if not args:
        order = {"EXIT": 0, **SIGNALS}
        for name in sorted(shell.traps, key=lambda trap: order.get(trap, 0)):
            script = shell.traps[name].replace("'", "'\"'\"'")
            yield Write(1, f"trap -- '{script}' {name}\n".encode())
        return 0
    # With a number first, all operands are signals to reset.
    all_back = args[0].isdigit() or len(args) == 1
    script = "-" if all_back else args[0]
    names = args if all_back else args[1:]
    code = 0
    for name in names:
        number = 0 if name.upper() == "EXIT" else parse_signal(name)
        if number is None:
            yield shell.make_message(f"{name}: invalid signal specification", "trap")
            code = 1
            continue
        signal = next((known for known, value in SIGNALS.items() if value == number), "EXIT")
        if script == "-":
            shell.traps.pop(signal, None)
        else:
            shell.traps[signal] = script
    return code


def _find_job(shell: ShellContext, text: str) -> Task | None:
    """Return the background process of `%1` or a number; None if there is none."""
    if text.startswith("%"):
        jobs = list(shell.children.values())
        if text in ("%", "%%", "%+"):
            return jobs[-1] if jobs else None
        number = int(text[1:]) if text[1:].isdigit() else 0
        return jobs[number - 1] if 0 < number <= len(jobs) else None
    return shell.children.get(int(text)) if text.isdigit() else None


def _wait(shell: ShellContext, args: list[str]) -> Process:
    if not args:
        yield Await(
            lambda: all(child.code is not None for child in shell.children.values()), signals=True
        )
        if shell.interrupted:
            return 128 + shell.interrupted
        shell.children.clear()
        return 0
    code = 0
    for arg in args:
        yield from shell.meter.spend(1)
        task = _find_job(shell, arg)
        if task is None:
            code = 127
            continue
        yield Await(task.ended, signals=True)
        if shell.interrupted and not task.ended():
            return 128 + shell.interrupted
        code = task.code or 0
        yield from shell.report_signal_end(task)
        shell.children.pop(task.pid, None)
    return code


def _kill(shell: ShellContext, args: list[str]) -> Process:
    number, rest = 15, list(args)
    if rest and rest[0] == "-l":
        return (yield from _list_traps(shell, rest[1:]))
    if rest and rest[0] == "-s" and len(rest) > 1:
        rest = ["-" + rest[1], *rest[2:]]
    if rest and rest[0].startswith("-") and rest[0] != "--":
        name = rest.pop(0)[1:]
        signal = parse_signal(name)
        if signal is None:
            yield shell.make_message(f"bad signal name '{name}'")
            return 1
        number = signal
    rest = rest[1:] if rest[:1] == ["--"] else rest
    if not rest:
        yield shell.make_message("you need to specify whom to kill")
        return 1
    code = 0
    for target in rest:
        task = _find_job(shell, target) if target.startswith("%") else None
        text = str(task.pid) if task is not None else target
        if not text.lstrip("-").isdigit():
            yield shell.make_message(f"invalid number '{target}'")
            code = 1
            continue
        sent = shell.context.tasks.signal(abs(int(text)), number)
        if not sent and (task is None or task.code is None):
            yield shell.make_message(f"can't kill pid {text}: No such process")
            code = 1
    return code


def _list_traps(shell: ShellContext, names: list[str]) -> Process:
    if not names:
        for name, number in SIGNALS.items():
            yield Write(1, f"{number:2}) {name}\n".encode())
    for name in names:
        if name.isdigit():
            number = int(name) - 128 if int(name) > 128 else int(name)
            text = next((known for known, value in SIGNALS.items() if value == number), name)
        else:
            text = str(parse_signal(name) or "")
        if not text:
            yield shell.make_message(f"unknown signal '{name}'")
            return 1
        yield Write(1, f"{text}\n".encode())
    return 0


def _jobs(shell: ShellContext, args: list[str]) -> Process:
    running = [child for child in shell.children.values() if child.code is None]
    for number, task in enumerate(running, start=1):
        mark = "+" if task is running[-1] else "-" if task is running[-2] else " "
        text = f"{task.pid}" if args == ["-p"] else f"[{number}]{mark}  Running                    "
        yield Write(1, f"{text}\n".encode())
    return 0


JOB_BUILTINS: dict[str, Callable[[ShellContext, list[str]], Process]] = {
    "jobs": _jobs, "kill": _kill, "trap": _trap, "wait": _wait,
}  # fmt: skip


def _set(shell: ShellContext, args: list[str]) -> Process:
    if not args:
        for name in sorted(shell.variables.values):
            value = shell.variables.values[name].replace("'", "'\"'\"'")
            yield Write(1, f"{name}='{value}'\n".encode(errors="surrogateescape"))
        return 0
    position = 0
    while args[position : position + 1] and args[position][:1] in ("-", "+"):
        word = args[position]
        if len(word) == 1:
            break
        position += 1
        if word == "--":
            shell.arguments = shell.variables.charge_arguments(tuple(args[position:]))
            return 0
        for letter in word[1:]:
            yield from shell.meter.spend(1)
            option = letter
            if letter == "o":
                name = args[position] if position < len(args) else ""
                position += 1
                option = _OPTIONS.get(name, "")
                if not option or (len(option) == 1 and option not in _ACCEPTED_LETTERS):
                    yield shell.make_message(f"illegal option {word[0]}o {name}", "set")
                    raise ShellExit(1)
            elif letter not in _ACCEPTED_LETTERS:
                yield shell.make_message(f"illegal option {word[0]}{letter}", "set")
                raise ShellExit(2)
            if word[0] == "-":
                shell.options.add(option)
            else:
                shell.options.discard(option)
    if position < len(args):
        shell.arguments = shell.variables.charge_arguments(tuple(args[position:]))
    return 0


def _shift(shell: ShellContext, args: list[str]) -> Process:
    if args and not args[0].isdigit():
        yield shell.make_message(f"Illegal number: {args[0]}", "shift")
        raise ShellExit(2)
    count = int(args[0]) if args else 1
    if count > len(shell.arguments):
        return 1
    shell.arguments = shell.variables.charge_arguments(shell.arguments[count:])
    return 0


def _assign(
    shell: ShellContext, command: str, arg: str, before: Callable[[str], None]
) -> Generator[Effect, None, str]:
    """Assign `NAME=VALUE` after calling `before`, and return the name.

    Raises:
        ShellExit: the name is invalid or read-only.
    """
    name, separator, value = arg.partition("=")
    if not is_name(name):
        yield shell.make_message(f"{name}: bad variable name", command)
        raise ShellExit(2)
    try:
        before(name)
        if separator:
            shell.variables.set(name, value)
    except ReadOnlyVariableError:
        yield shell.make_message(f"{name}: is read only", command)
        raise ShellExit(2) from None
    return name


def _export(shell: ShellContext, args: list[str]) -> Process:
    names = [arg for arg in args if not arg.startswith("-")]
    unexported = "-n" in args
    if not names:
        for name in sorted(shell.variables.exported):
            value = shell.variables.get(name)
            assignment = "" if value is None else "='" + value.replace("'", "'\"'\"'") + "'"
            yield Write(1, f"export {name}{assignment}\n".encode(errors="surrogateescape"))
    for arg in names:
        yield from shell.meter.spend(_NAME_WORK)
        name = yield from _assign(shell, "export", arg, lambda _: None)
        shell.variables.export(name)
        if unexported:
            shell.variables.exported.discard(name)
            shell.variables.export("PATH")
    return 0


def _readonly(shell: ShellContext, args: list[str]) -> Process:
    for arg in args:
        yield from shell.meter.spend(_NAME_WORK)
        if arg != "-p":
            name = yield from _assign(shell, "readonly", arg, lambda _: None)
            shell.variables.read_only.add(name)
    return 0


def _local(shell: ShellContext, args: list[str]) -> Process:
    if not shell.variables.is_in_function:
        yield shell.make_message("not in a function", "local")
        raise ShellExit(2)
    for arg in args:
        yield from shell.meter.spend(_NAME_WORK)
        yield from _assign(shell, "local", arg, shell.variables.make_local)
    return 0


def _unset(shell: ShellContext, args: list[str]) -> Process:
    functions = "-f" in args[:1]
    for name in args[1:] if args[:1] in (["-f"], ["-v"]) else args:
        yield from shell.meter.spend(_NAME_WORK)
        if functions:
            shell.functions.pop(name, None)
            continue
        if not is_name(name):
            yield shell.make_message(f"{name}: bad variable name", "unset")
            raise ShellExit(2)
        try:
            shell.variables.unset(name)
        except ReadOnlyVariableError:
            yield shell.make_message(f"{name}: is read only", "unset")
            raise ShellExit(2) from None
    return 0


def _read(shell: ShellContext, args: list[str]) -> Process:
    names, raw, seconds, rest = [], False, None, iter(args)
    prompt = ""
    for word in rest:
        yield from shell.meter.spend(1)
        value = next(rest, None) if word in ("-t", "-p") else None
        if word == "-r":
            raw = True
        elif value is not None:
            if word == "-p":
                prompt = value
            else:
                try:
                    seconds = float(value)
                except ValueError:
                    yield shell.make_message("invalid timeout", "read")
                    return 2
        elif word.startswith("-") and len(word) > 1:
            yield shell.make_message(f"illegal option {word}", "read")
            raise ShellExit(2)
        else:
            names.append(word)
    for name in names:
        yield from shell.meter.spend(1)
        if not is_name(name):
            yield shell.make_message(f"{name}: bad variable name", "read")
            raise ShellExit(2)
    if prompt and shell.context.tty:
        yield Write(2, prompt.encode())
    data, code = yield from _read_line(shell, raw=raw, seconds=seconds)
    text = data.decode(errors="surrogateescape")
    names = names or ["REPLY"]
    meter = WorkMeter()
    escaped: set[int] = set()
    if not raw:
        text, escaped = yield from _unescape_line(text, meter)
    if names == ["REPLY"]:
        values = [text]
    else:
        separators = shell.variables.ifs
        values = yield from _FieldSplitter(text, escaped, separators, meter).split(len(names))
    for name, value in zip(names, [*values, *[""] * len(names)], strict=False):
        yield from meter.spend(_NAME_WORK)
        yield from _assign(shell, "read", f"{name}={value}", lambda _: None)
    return code


def _read_line(
    shell: ShellContext, *, raw: bool, seconds: float | None
) -> Generator[Effect, None, tuple[bytes, int]]:
    """Return a line without its newline, and the exit code of `read`."""
    line = bytearray()
    while True:
        read = Read(0, line=True, signals=True, seconds=seconds)
        yield read
        if read.interrupted:
            return bytes(line), 128 + shell.interrupted
        if read.late:
            return bytes(line), 142
        if not read.data:
            return bytes(line), 1
        line += read.data
        if not line.endswith(b"\n"):
            continue
        if raw:
            return bytes(line[:-1]), 0
        body = bytes(line[:-1])
        slashes = len(body) - len(body.rstrip(b"\\"))
        if slashes % 2:
            line = bytearray(body[:-1])
            continue
        return body, 0


def _unescape_line(text: str, meter: WorkMeter) -> Generator[Effect, None, tuple[str, set[int]]]:
    """Return a line without its backslashes, and where it has escaped characters."""
    pieces: list[str] = []
    escaped: set[int] = set()
    position = size = 0
    for match in _ESCAPED.finditer(text):
        yield from meter.spend(1)
        pieces += (text[position : match.start()], match[1])
        size += match.start() - position
        if match[1]:
            # Escaped characters do not separate fields.
            escaped.add(size)
        size += len(match[1])
        position = match.end()
    return "".join(pieces) + text[position:], escaped


class _FieldSplitter:
    """Splits a line into fields.

    Args:
        text: the line.
        escaped: the positions of its escaped characters.
        separators: the value of IFS.
    """

    def __init__(self, text: str, escaped: set[int], separators: str, meter: WorkMeter) -> None:
        self._text, self._escaped, self._meter = text, escaped, meter
        self._separators = separators
        self._blanks = "".join(char for char in separators if char in " \t\n")
        classes = re.escape(separators).replace("]", "\\]")
        self._expression = re.compile(f"[{classes}]" if separators else r"(?!)")

    def _is_blank(self, position: int) -> bool:
        return position not in self._escaped and self._text[position] in self._blanks

    def _find_separator(self, position: int, end: int) -> Generator[Effect, None, int]:
        """Return the position of the next separator, or the end."""
        while match := self._expression.search(self._text, position, end):
            yield from self._meter.spend(1)
            if match.start() not in self._escaped:
                return match.start()
            position = match.end()
        return end

    def _skip_blanks(self, position: int, end: int) -> Generator[Effect, None, int]:
        while position < end and self._is_blank(position):
            yield from self._meter.spend(1)
            position += 1
        return position

    def split(self, most: int) -> Generator[Effect, None, list[str]]:
        """Return at most so many fields; the last one gets the rest."""
        text, end = self._text, len(self._text)
        position = yield from self._skip_blanks(0, end)
        while end > position and self._is_blank(end - 1):
            yield from self._meter.spend(1)
            end -= 1
        values: list[str] = []
        while position < end and len(values) < most - 1:
            start = position
            position = yield from self._find_separator(position, end)
            values.append(text[start:position])
            position = yield from self._skip_blanks(position, end)
            if position < end and (yield from self._find_separator(position, end)) == position:
                position = yield from self._skip_blanks(position + 1, end)
        if position < end:
            # A single trailing separator is dropped.
            if (yield from self._find_separator(position, end)) == end - 1:
                end -= 1
            values.append(text[position:end])
        return values


def _getopts(shell: ShellContext, args: list[str]) -> Process:
    if len(args) < 2:
        yield shell.make_message("usage: getopts optstring var [arg]", "getopts")
        raise ShellExit(2)
    known, name = args[0], args[1]
    words = args[2:] or list(shell.arguments)
    variables = shell.variables
    try:
        index = max(int(variables.get("OPTIND") or 1), 1)
    except ValueError:
        index = 1
    offset = shell.option_offset if index > 1 or shell.option_offset else 0
    word = words[index - 1] if index <= len(words) else ""
    if not offset:
        if not word.startswith("-") or word in ("-", "--"):
            variables.set("OPTIND", str(index + (word == "--")))
            variables.set(name, "?")
            return 1
        offset = 1
    letter = word[offset : offset + 1]
    offset += 1
    is_known = letter != ":" and letter in known
    takes = is_known and known[known.index(letter) + 1 : known.index(letter) + 2] == ":"
    quiet = known.startswith(":")
    variables.unset("OPTARG")
    result = letter if is_known else "?"
    if not is_known:
        if quiet:
            variables.set("OPTARG", letter)
        else:
            yield Write(2, f"Illegal option -{letter}\n".encode())
    if takes:
        if offset < len(word):
            variables.set("OPTARG", word[offset:])
        elif index < len(words):
            index += 1
            variables.set("OPTARG", words[index - 1])
        elif quiet:
            variables.set("OPTARG", letter)
            result = ":"
        else:
            yield Write(2, f"No arg for -{letter} option\n".encode())
            result = "?"
        offset = len(word)
    if offset >= len(word):
        index, offset = index + 1, 0
    shell.option_offset = offset
    variables.set("OPTIND", str(index))
    variables.set(name, result)
    return 0


VARIABLE_BUILTINS: dict[str, Callable[[ShellContext, list[str]], Process]] = {
    "export": _export, "getopts": _getopts, "local": _local, "read": _read,
    "readonly": _readonly, "set": _set, "shift": _shift, "unset": _unset,
}  # fmt: skip


def _parse_exit_code(digits: str) -> int:
    """Return an exit code modulo 256; 0 if it exceeds 64 bits."""
    return int(digits) % 256 if len(digits.lstrip("0")) < _MAX_DIGITS else 0


def _exit(shell: ShellContext, args: list[str]) -> Process:
    if args and not args[0].isdigit():
        yield shell.make_message(f"Illegal number: {args[0]}", "exit")
        raise ShellExit(2)
    raise ShellExit(_parse_exit_code(args[0]) if args else shell.status)


def _return(shell: ShellContext, args: list[str]) -> Process:
    if args and not args[0].isdigit():
        yield shell.make_message(f"Illegal number: {args[0]}", "return")
        raise ShellExit(2)
    raise FunctionReturn(_parse_exit_code(args[0]) if args else shell.status)


def _make_loop_control(word: str) -> Callable[[ShellContext, list[str]], Process]:
    def leave(shell: ShellContext, args: list[str]) -> Process:
        if args and (not args[0].isdigit() or not int(args[0])):
            yield shell.make_message(f"Illegal number: {args[0]}", word)
            raise ShellExit(2)
        if shell.loops:
            raise LoopControl(word, int(args[0]) if args else 1)
        return 0

    return leave


def _eval(shell: ShellContext, args: list[str]) -> Process:
    def run() -> Process:
        yield from shell.evaluate(" ".join(args), "eval")
        return shell.status

    call = Call(run())
    yield call
    return call.code


def _dot(shell: ShellContext, args: list[str]) -> Process:
    if not args:
        return 0
    path = args[0]
    where = [path] if "/" in path else [
        *(f"{folder}/{path}" for folder in (shell.variables.get("PATH") or "").split(":")), path,
    ]  # fmt: skip
    files = shell.context.files
    contents = (files.read(shell.context.resolve_path(path)) for path in where)
    script_data = next((data for data in contents if data is not None), None)
    if script_data is None:
        yield shell.make_message(f"can't open '{path}': No such file or directory", ".")
        raise ShellExit(2)
    script = script_data.decode(errors="surrogateescape")
    saved_arguments, before = shell.arguments, shell.reading
    shell.reading = path
    if args[1:]:
        shell.arguments = tuple(args[1:])

    def run() -> Process:
        yield from shell.run_lines(script, 1)
        return shell.status

    call = Call(run())
    try:
        yield call
    except FunctionReturn as end:
        return end.code
    finally:
        shell.arguments, shell.reading = saved_arguments, before
    return call.code


def _exec(shell: ShellContext, args: list[str]) -> Process:
    if not args:
        return 0
    if not has_program(shell.context, args[0]):
        yield shell.make_message(f"{args[0]}: not found", "exec")
        raise ShellExit(127)
    # The program replaces the shell and its traps.
    shell.traps.clear()
    shell.context.task.handler = shell.context.task.traps = None
    raise ShellExit((yield from shell.call(args)))


def _cd(shell: ShellContext, args: list[str]) -> Process:
    args = [arg for arg in args if arg not in ("-P", "-L", "--")]
    target = args[0] if args else shell.variables.get("HOME") or ""
    if target == "-":
        target = shell.variables.get("OLDPWD") or shell.context.cwd
        yield Write(1, f"{target}\n".encode())
    path = shell.context.resolve_path(target).rstrip("/") or "/"
    node = shell.context.files.find(path)
    if not isinstance(node, Directory):
        why = "No such file or directory" if node is None else "Not a directory"
        yield shell.make_message(f"can't cd to {target}: {why}", "cd")
        return 2
    shell.variables.set("OLDPWD", shell.context.cwd)
    shell.context.cwd = path
    shell.variables.set("PWD", path)
    return 0


def _pwd(shell: ShellContext, _: list[str]) -> Process:
    yield Write(1, f"{shell.context.cwd}\n".encode())
    return 0


def _type(shell: ShellContext, args: list[str]) -> Process:
    code = 0
    for name in args:
        description = _describe_command(shell, name)
        if not description:
            yield Write(1, f"{name}: not found\n".encode())
            code = 127
        else:
            yield Write(1, f"{name} is {description}\n".encode())
    return code


def _describe_command(shell: ShellContext, name: str) -> str:
    """Return what `type` prints about a name; empty if it is unknown."""
    if name in _KEYWORDS:
        return "a shell keyword"
    if name in shell.functions:
        return "a function"
    if name in BUILTINS:
        return "a special shell builtin" if name in SPECIAL else "a shell builtin"
    if "/" in name:
        node = shell.context.files.find(shell.context.resolve_path(name))
        return name if isinstance(node, File) else ""
    return name if has_program(shell.context, name) else ""


def _command(shell: ShellContext, args: list[str]) -> Process:
    if args and args[0] in ("-v", "-V"):
        code = 0
        for name in args[1:2]:
            description = _describe_command(shell, name)
            code = 0 if description else 127
            if description:
                text = name if args[0] == "-v" else f"{name} is {description}"
                yield Write(1, f"{text}\n".encode())
            elif args[0] == "-V":
                yield Write(2, f"{name}: not found\n".encode())
        return code
    if not args:
        return 0
    builtin = BUILTINS.get(args[0])
    if builtin is not None:
        return (yield from builtin(shell, args[1:]))
    return (yield from shell.call(args))


def _let(shell: ShellContext, args: list[str]) -> Process:
    value = 0
    if not args:
        yield shell.make_message("expression expected", "let")
        return 1
    for arg in args:
        value = yield from shell.evaluate_number(arg)
    return int(not value)


def _do_nothing(_: ShellContext, __: list[str]) -> Process:
    yield from ()
    return 0


def _umask(_: ShellContext, args: list[str]) -> Process:
    if not args:
        yield Write(1, b"0022\n")
    return 0


def _refuse(name: str) -> Callable[[ShellContext, list[str]], Process]:
    def refuse(shell: ShellContext, _: list[str]) -> Process:
        yield shell.make_message(NOT_SIMULATED, name)
        return 2

    return refuse


BUILTINS: dict[str, Callable[[ShellContext, list[str]], Process]] = {
    ":": _do_nothing, "break": _make_loop_control("break"), "cd": _cd, "command": _command,
    "continue": _make_loop_control("continue"), "eval": _eval, "exec": _exec, "exit": _exit,
   "hash": _do_nothing, "let": _let,
    "pwd": _pwd,   "return": _return,
  "source": _dot, ".": _dot, "type": _type, "umask": _umask,
    **{name: _refuse(name) for name in ("alias", "unalias", "ulimit", "fg", "bg", "times")},
    **JOB_BUILTINS,
    **VARIABLE_BUILTINS,
}  # fmt: skip
