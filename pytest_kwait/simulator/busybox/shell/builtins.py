"""The commands of a shell that set its variables, its arguments and its options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.syscalls import Effect, Process, Read, Write
from pytest_kwait.simulator.busybox.shell.shell_tokens import is_name
from pytest_kwait.simulator.busybox.shell.variables import ReadOnlyVariableError, ShellExit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_kwait.simulator.busybox.shell.shell_state import ShellState

__all__ = ["VARIABLE_BUILTINS"]

_OPTIONS = {
    "errexit": "e", "noglob": "f", "nounset": "u", "xtrace": "x", "noexec": "n", "noclobber": "C",
    "allexport": "a", "verbose": "v", "pipefail": "pipefail",
}  # fmt: skip
_ACCEPTED_LETTERS = "efuxnC"


def _set(shell: ShellState, args: list[str]) -> Process:
    if not args:
        for name in sorted(shell.variables.values):
            value = shell.variables.values[name].replace("'", "'\"'\"'")
            yield Write(1, f"{name}='{value}'\n".encode(errors="surrogateescape"))
        return 0
    rest = list(args)
    while rest and rest[0][:1] in ("-", "+") and len(rest[0]) > 1:
        word = rest.pop(0)
        if word == "--":
            shell.arguments = shell.variables.charge_arguments(tuple(rest))
            return 0
        for letter in word[1:]:
            option = letter
            if letter == "o":
                name = rest.pop(0) if rest else ""
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
    if rest:
        shell.arguments = shell.variables.charge_arguments(tuple(rest))
    return 0


def _shift(shell: ShellState, args: list[str]) -> Process:
    if args and not args[0].isdigit():
        yield shell.make_message(f"Illegal number: {args[0]}", "shift")
        raise ShellExit(2)
    count = int(args[0]) if args else 1
    if count > len(shell.arguments):
        return 1
    shell.arguments = shell.variables.charge_arguments(shell.arguments[count:])
    return 0


def _assign(
    shell: ShellState, command: str, arg: str, before: Callable[[str], None]
) -> Generator[Effect, None, str]:
    """Set what `NAME=VALUE` says after `before`, and return the name.

    Raises:
        Exit: it is no name, or may not be changed.
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


def _export(shell: ShellState, args: list[str]) -> Process:
    names = [arg for arg in args if not arg.startswith("-")]
    unexported = "-n" in args
    if not names:
        for name in sorted(shell.variables.exported):
            value = shell.variables.get(name)
            shown = "" if value is None else "='" + value.replace("'", "'\"'\"'") + "'"
            yield Write(1, f"export {name}{shown}\n".encode(errors="surrogateescape"))
    for arg in names:
        name = yield from _assign(shell, "export", arg, lambda _: None)
        shell.variables.export(name)
        if unexported:
            shell.variables.exported.discard(name)
            shell.variables.export("PATH")
    return 0


def _readonly(shell: ShellState, args: list[str]) -> Process:
    for arg in args:
        if arg != "-p":
            name = yield from _assign(shell, "readonly", arg, lambda _: None)
            shell.variables.read_only.add(name)
    return 0


def _local(shell: ShellState, args: list[str]) -> Process:
    if not shell.variables.local:
        yield shell.make_message("not in a function", "local")
        raise ShellExit(2)
    for arg in args:
        yield from _assign(shell, "local", arg, shell.variables.make_local)
    return 0


def _unset(shell: ShellState, args: list[str]) -> Process:
    functions = "-f" in args[:1]
    for name in args[1:] if args[:1] in (["-f"], ["-v"]) else args:
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


def _read(shell: ShellState, args: list[str]) -> Process:
    names, raw, seconds, rest = [], False, None, list(args)
    prompt = ""
    while rest:
        word = rest.pop(0)
        if word == "-r":
            raw = True
        elif word in ("-t", "-p") and rest:
            value = rest.pop(0)
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
        if not is_name(name):
            yield shell.make_message(f"{name}: bad variable name", "read")
            raise ShellExit(2)
    if prompt and shell.around.tty:
        yield Write(2, prompt.encode())
    data, code = yield from _read_line(shell, raw=raw, seconds=seconds)
    text = data.decode(errors="surrogateescape")
    names = names or ["REPLY"]
    if raw:
        characters = [(char, False) for char in text]
    else:
        # What a backslash protects separates nothing.
        marks = re.findall(r"\\(.)|([^\\])|\\$", text, re.DOTALL)
        characters = [(one or other, bool(one)) for one, other in marks if one or other]
    plain = "".join(char for char, _ in characters)
    values = (
        [plain]
        if names == ["REPLY"]
        else _split_fields(characters, len(names), shell.variables.ifs)
    )
    for name, value in zip(names, [*values, *[""] * len(names)], strict=False):
        yield from _assign(shell, "read", f"{name}={value}", lambda _: None)
    return code


def _read_line(
    shell: ShellState, *, raw: bool, seconds: float | None
) -> Generator[Effect, None, tuple[bytes, int]]:
    """A line without its end, and the exit code of `read`."""
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


def _split_fields(text: list[tuple[str, bool]], most: int, separators: str) -> list[str]:
    """The fields of a line, the last one with all that is left.

    Args:
        text: its characters, and whether each is protected.
        most: how many fields there are.
        separators: what is between them.
    """

    def blank(index: int) -> bool:
        char, protected = text[index]
        return not protected and char in separators and char in " \t\n"

    def ends(index: int) -> bool:
        char, protected = text[index]
        return not protected and char in separators

    position, end = 0, len(text)
    while position < end and blank(position):
        position += 1
    while end > position and blank(end - 1):
        end -= 1
    values: list[str] = []
    while position < end and len(values) < most - 1:
        start = position
        while position < end and not ends(position):
            position += 1
        values.append("".join(char for char, _ in text[start:position]))
        while position < end and blank(position):
            position += 1
        if position < end and ends(position):
            position += 1
            while position < end and blank(position):
                position += 1
    if position < end:
        rest = range(position, end)
        # One separator at the very end belongs to nothing.
        if ends(end - 1) and not any(ends(index) for index in rest[:-1]):
            end -= 1
        values.append("".join(char for char, _ in text[position:end]))
    return values


def _getopts(shell: ShellState, args: list[str]) -> Process:
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
    found = letter != ":" and letter in known
    takes = found and known[known.index(letter) + 1 : known.index(letter) + 2] == ":"
    quiet = known.startswith(":")
    variables.unset("OPTARG")
    result = letter if found else "?"
    if not found:
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


VARIABLE_BUILTINS: dict[str, Callable[[ShellState, list[str]], Process]] = {
    "export": _export, "getopts": _getopts, "local": _local, "read": _read,
    "readonly": _readonly, "set": _set, "shift": _shift, "unset": _unset,
}  # fmt: skip
