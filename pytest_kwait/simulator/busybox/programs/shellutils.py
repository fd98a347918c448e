"""Programs that print, wait or report: `echo`, `printf`, `date`, `env`, `sleep` and others."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.applets import has_program, run_program
from pytest_kwait.simulator.busybox.libbb import (
    ESCAPES,
    UsageError,
    WorkMeter,
    parse_options,
    write_error,
    write_out,
)
from pytest_kwait.simulator.busybox.os.syscalls import (
    STEP,
    Process,
    ProcessCredentials,
    Sleep,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.os.syscalls import Effect, ProcessContext

_ESCAPE = re.compile(r"\\(c|x[0-9a-fA-F]{1,2}|0?[0-7]{1,3}|.)", re.DOTALL)
_OCTAL_OR_TEXT = re.compile(r"\\(c|x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_DIRECTIVE = re.compile(r"%(?:%|([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?([a-zA-Z]))")
_DIRECTIVE_WORK = 10
"""The work of a directive of `printf`."""
_DURATION_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_CLOCK_TIME = re.compile(r"(?P<hour>\d\d?):(?P<minute>\d\d)(:(?P<second>\d\d))?", re.ASCII)
_DIGITS = re.compile(
    r"(((((?P<year>(\d\d)?\d\d))?(?P<month>\d\d))?(?P<day>\d\d))?(?P<hour>\d\d))?(?P<minute>\d\d)"
    r"(\.(?P<second>\d\d))?",
    re.ASCII,
)
# The form of an operand without `-s`.
_OPERAND_DIGITS = re.compile(
    r"(?P<month>\d\d)(?P<day>\d\d)(?P<hour>\d\d)(?P<minute>\d\d)(?P<year>(\d\d)?\d\d)?"
    r"(\.(?P<second>\d\d))?",
    re.ASCII,
)


def process_escapes(
    text: str, meter: WorkMeter, *, echo: bool
) -> Generator[Effect, None, tuple[str, bool]]:
    """Return text with its escapes replaced, and whether an escape `c` ended it."""
    pieces: list[str] = []
    position = 0
    for match in (_ESCAPE if echo else _OCTAL_OR_TEXT).finditer(text):
        if meter.is_step_due(1):
            yield STEP
        pieces.append(text[position : match.start()])
        position, code = match.end(), match[1]
        if code == "c":
            return "".join(pieces), True
        if code in ESCAPES:
            pieces.append(ESCAPES[code])
        elif code[0] == "x" and len(code) > 1:
            pieces.append(_to_byte(int(code[1:], 16)))
        elif code[0] in "01234567":
            pieces.append(_to_byte(int(code, 8) & 255))
        else:
            pieces.append(f"\\{code}" if echo or code != '"' else code)
    return "".join(pieces) + text[position:], False


def _to_byte(value: int) -> str:
    return bytes([value]).decode(errors="surrogateescape")


def parse_number(text: str) -> int | None:
    """Parse a number as C does; None if it is invalid."""
    text = text.strip()
    if text[:1] in ("'", '"'):
        return ord(text[1:2] or "\0")
    try:
        if re.fullmatch(r"[-+]?0[0-7]+", text):
            return int(text, 8)
        return int(text, 0) if text else 0
    except ValueError:
        return None


def format_once(
    template: str, values: list[str], first: int, meter: WorkMeter
) -> Generator[Effect, None, tuple[str, int, list[tuple[int, str]], bool]]:
    """Apply a format once; return text, number of values used, errors, and whether it ended.

    Each error has the length of the text before it.

    Args:
        first: the index of the first value.
        meter: counts the work.
    """
    pieces: list[str] = []
    faults: list[tuple[int, str]] = []
    used = position = counted = length = 0

    def wrong(fault: str) -> None:
        nonlocal counted, length
        length += sum(map(len, pieces[counted:]))
        counted = len(pieces)
        faults.append((length, fault))

    def value() -> str | None:
        nonlocal used
        used += 1
        at = first + used - 1
        return values[at] if at < len(values) else None

    def number(text: str | None) -> int:
        parsed = parse_number(text) if text else None
        if parsed is None:
            wrong(f"invalid number '{(text or '').lstrip()}'")
            return 0
        return parsed

    while position < len(template):
        yield from meter.spend(_DIRECTIVE_WORK)
        start = template.find("%", position)
        plain, stopped = yield from process_escapes(
            template[position : start if start >= 0 else len(template)], meter, echo=False
        )
        pieces.append(plain)
        if stopped or start < 0:
            return "".join(pieces), min(used, len(values) - first), faults, stopped
        match = _DIRECTIVE.match(template, start)
        if match is None or (match[4] or "d") not in "diouxXcsbeEfgG":
            wrong(f"{template[start:]}: invalid format")
            return "".join(pieces), 0, faults, True
        position = match.end()
        if match[0] == "%%":
            pieces.append("%")
            continue
        flags, kind = match[1] or "", match[4]
        width = str(number(value())) if match[2] == "*" else match[2] or ""
        if width.startswith("-"):
            flags, width = flags + "-", width[1:]
        precision = match[3]
        if precision == "*":
            precision = str(number(value()))
        spec = f"%{flags}{width[:6]}" + (f".{precision[:6]}" if precision is not None else "")
        text = value()
        if kind in "sbc":
            ended = False
            text_value = text or ""
            if kind == "b":
                text_value, ended = yield from process_escapes(text_value, meter, echo=True)
            spec = spec.replace("0", "", 1) if "0" in flags else spec
            pieces.append(f"{spec}s" % (text_value[:1] if kind == "c" else text_value))
            if ended:
                return "".join(pieces), min(used, len(values) - first), faults, True
        elif kind in "eEfgG":
            try:
                pieces.append(f"{spec}{kind}" % float(text or "0"))
            except ValueError:
                wrong(f"invalid number '{(text or '').lstrip()}'")
                pieces.append(f"{spec}{kind}" % 0.0)
        else:
            integer = number(text)
            if kind in "ouxX" and integer < 0:
                integer += 1 << 64
            pieces.append(f"{spec}{'d' if kind in 'iu' else kind}" % integer)
    return "".join(pieces), min(used, len(values) - first), faults, False


def parse_duration(text: str) -> float | None:
    """Parse a duration as busybox does; None if it is invalid."""
    number, factor = (
        (text[:-1], _DURATION_UNITS[text[-1]]) if text[-1:] in _DURATION_UNITS else (text, 1)
    )
    if number in ("inf", "infinity"):
        return math.inf
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", number, re.ASCII):
        return None
    return float(number) * factor


def sleep(_: ProcessContext, args: list[str]) -> Process:
    """Sleep for the sum of the arguments."""
    if not args:
        yield write_error("BusyBox: usage: sleep [N]...")
        return 1
    total = 0.0
    meter = WorkMeter()
    for arg in args:
        yield from meter.spend(1)
        seconds = parse_duration(arg)
        if seconds is None:
            yield write_error(f"sleep: invalid number '{arg}'")
            return 1
        total += seconds
    yield Sleep(total)
    return 0


def usleep(_: ProcessContext, args: list[str]) -> Process:
    """Sleep for microseconds."""
    yield Sleep(float(args[0]) / 1e6 if args and args[0].isdigit() else 0.0)
    return 0


def true(_: ProcessContext, __: list[str]) -> Process:
    """Succeed."""
    yield from ()
    return 0


def false(_: ProcessContext, __: list[str]) -> Process:
    """Fail with 1."""
    yield from ()
    return 1


def forever(_: ProcessContext, __: list[str]) -> Process:
    """Run until killed."""
    yield Sleep(math.inf)
    return 0


def echo(_: ProcessContext, args: list[str]) -> Process:
    """Print the arguments; `-n` without newline, `-e` with escapes."""
    newline, escapes = "\n", False
    while args and args[0][:1] == "-" and args[0][1:] and set(args[0][1:]) <= set("neE"):
        newline = "" if "n" in args[0] else newline
        for letter in args[0][1:]:
            escapes = letter == "e" or (escapes and letter == "n")
        args = args[1:]
    text = " ".join(args)
    if escapes:
        text, stopped = yield from process_escapes(text, WorkMeter(), echo=True)
        newline = "" if stopped else newline
    yield from write_checked("echo", write_out(text + newline))
    return 0


def write_checked(program: str, effect: Write) -> Process:
    """Write, and report a failure."""
    yield effect
    if effect.error:
        yield write_error(f"{program}: write error: {effect.error}")
        return 1
    return 0


def printf(_: ProcessContext, args: list[str]) -> Process:
    """Print a format, repeated while arguments are left."""
    if args[:1] == ["--"]:
        args = args[1:]
    if not args:
        yield write_error("sh: usage: printf FORMAT [ARGUMENT...]")
        return 2
    code, template, values, first = 0, args[0], args[1:], 0
    meter = WorkMeter()
    while True:
        text, used, faults, stopped = yield from format_once(template, values, first, meter)
        written = 0
        for position, fault in faults:
            yield write_out(text[written:position])
            yield write_error(f"sh: {fault}")
            written, code = position, 1
        if text[written:]:
            yield write_out(text[written:])
        first += used
        if not used or first >= len(values) or stopped:
            return code


def _parse_date(text: str, now: float, digits: re.Pattern[str]) -> float:
    """Return a time in seconds since the epoch.

    Raises:
        ValueError: it has no known format.

    Source: libbb/time.c, `parse_datestr`.
    """
    if re.fullmatch(r"@-?\d+", text, re.ASCII):
        return float(text[1:])
    match = _CLOCK_TIME.fullmatch(text) or digits.fullmatch(text)
    if match is None:
        text = text.replace("T", " ").rstrip("Z")
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    fields = {name: int(value) for name, value in match.groupdict().items() if value is not None}
    stamp = datetime.fromtimestamp(now, UTC)
    year = fields.get("year", stamp.year)
    if year < 100:
        # The year that is less than 50 years away.
        year += stamp.year // 100 * 100
        year += 100 if year < stamp.year - 50 else -100 if year > stamp.year + 50 else 0
    return datetime(
        year, fields.get("month", stamp.month), fields.get("day", stamp.day),
        fields.get("hour", stamp.hour), fields["minute"], fields.get("second", 0), tzinfo=UTC,
    ).timestamp()  # fmt: skip


def date(context: ProcessContext, args: list[str]) -> Process:
    """Print the time, UTC: `+FORMAT`, `-d TIME`; setting it is not permitted in a container."""
    options, rest = yield from parse_options("date", args, "uI", "ds", "DrRk")
    pattern = "%a %b %e %H:%M:%S UTC %Y"
    if rest and rest[0].startswith("+"):
        pattern = rest.pop(0)[1:]
    when = options.get("d", options.get("s"))
    digits = _DIGITS
    if when is None and rest:
        when, digits = rest.pop(0), _OPERAND_DIGITS
    if rest:
        raise UsageError("BusyBox: usage: date [OPTIONS] [+FMT] [[-s] TIME]")
    moment = context.now()
    if when is not None:
        try:
            moment = _parse_date(when, moment, digits)
        except ValueError:
            yield write_error(f"date: invalid date '{when}'")
            return 1
        if "d" not in options:
            yield write_error("date: can't set date: Operation not permitted")
    if "I" in options:
        pattern = "%Y-%m-%d"
    stamp = datetime.fromtimestamp(moment, UTC)
    pattern = pattern.replace("%s", str(int(moment))).replace("%N", f"{int(moment % 1 * 1e9):09d}")
    yield write_out(stamp.strftime(pattern) + "\n")
    return 0


def env(context: ProcessContext, args: list[str]) -> Process:
    """Print all variables, or run a program with others: `-i`, `-u NAME`, `NAME=VALUE`."""
    options, rest = yield from parse_options("env", args, "i0", "u", mixed=False)
    variables = {} if "i" in options else dict(context.env)
    meter, count = WorkMeter(), 0
    for name in options.get("u", "").split("\n"):
        yield from meter.spend(1)
        variables.pop(name, None)
    while count < len(rest) and "=" in rest[count]:
        yield from meter.spend(1)
        name, _, value = rest[count].partition("=")
        variables[name] = value
        count += 1
    rest = rest[count:]
    if rest:
        if not has_program(context, rest[0]):
            yield write_error(f"env: can't execute '{rest[0]}': No such file or directory")
            return 127
        return (yield from run_program(context.with_env(variables), rest))
    end = "\0" if "0" in options else "\n"
    pieces = []
    for name, value in variables.items():
        yield from meter.spend(1)
        pieces.append(f"{name}={value}{end}")
    yield write_out("".join(pieces))
    return 0


def printenv(context: ProcessContext, args: list[str]) -> Process:
    """Print all variables, or the values of the named ones."""
    if not args:
        return (yield from env(context, []))
    code = 0
    for name in args:
        if name in context.env:
            yield write_out(context.env[name] + "\n")
        else:
            code = 1
    return code


def seq(_: ProcessContext, args: list[str]) -> Process:
    """Print the numbers from first (1) to last."""
    separator, wide = "\n", False
    while args and re.match(r"-[sw]", args[0]):
        word, args = args[0], args[1:]
        if word == "-w":
            wide = True
        else:
            separator = word[2:] or (args[0] if args else "\n")
            args = args if word[2:] else args[1:]
    if not 1 <= len(args) <= 3:
        yield write_error("BusyBox: usage: seq [-w] [-s SEP] [FIRST [INC]] LAST")
        return 1
    for arg in args:
        if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)", arg, re.ASCII):
            yield write_error(f"seq: invalid number '{arg}'")
            return 1
    places = max(len(arg.partition(".")[2]) for arg in args)
    numbers = [float(arg) for arg in args]
    first = numbers[0] if len(numbers) > 1 else 1.0
    step = numbers[1] if len(numbers) > 2 else 1.0
    width = max(len(f"{value:.{places}f}") for value in (first, numbers[-1])) if wide else 0
    index, pieces = 0, []
    while True:
        value = first + index * step
        if (value > numbers[-1] + 1e-9) if step >= 0 else (value < numbers[-1] - 1e-9):
            break
        pieces.append((separator if index else "") + f"{value:0{width}.{places}f}")
        index += 1
        if len(pieces) > 500:
            yield write_out("".join(pieces))
            pieces = []
    yield write_out("".join(pieces) + ("\n" if index else ""))
    return 0


def yes(_: ProcessContext, args: list[str]) -> Process:
    """Print a line endlessly."""
    line = (" ".join(args) or "y") + "\n"
    piece = line * max(1, 4096 // len(line))
    while True:
        effect = write_out(piece)
        yield effect
        if effect.error:
            yield write_error(f"yes: write error: {effect.error}")
            return 1


def hostname(context: ProcessContext, args: list[str]) -> Process:
    """Print the pod's host name; `-i` its address, `-s` without a domain."""
    options, rest = yield from parse_options("hostname", args, "is", "", "adfF")
    if rest:
        yield write_error("hostname: sethostname: Operation not permitted")
        return 1
    address = context.network.address if context.network is not None else ""
    name = context.hostname.partition(".")[0] if "s" in options else context.hostname
    yield write_out((address or "127.0.0.1" if "i" in options else name) + "\n")
    return 0


def _read_names(context: ProcessContext, path: str) -> dict[int, str]:
    """Return the names in a file of users or groups by number."""
    lines = (context.files.read(path) or b"").decode(errors="replace").splitlines()
    rows = [line.split(":") for line in lines]
    return {int(row[2]): row[0] for row in rows if len(row) > 2 and row[2].isdigit()}


def whoami(context: ProcessContext, args: list[str]) -> Process:
    """Print the user's name."""
    if args:
        raise UsageError("BusyBox: usage: whoami")
    name = _read_names(context, "/etc/passwd").get(context.user.number)
    if name is None:
        yield write_error(f"whoami: unknown uid {context.user.number}")
        return 1
    yield write_out(f"{name}\n")
    return 0


def id(context: ProcessContext, args: list[str]) -> Process:
    """Print the user and its groups."""
    options, rest = yield from parse_options("id", args, "ugnG", "", "r")
    users, groups = (_read_names(context, f"/etc/{name}") for name in ("passwd", "group"))
    user = context.user
    if rest:
        number = next((number for number, name in users.items() if name == rest[0]), None)
        if number is None:
            yield write_error(f"id: unknown user {rest[0]}")
            return 1
        user = ProcessCredentials(number, number)
    every = sorted({user.group, *user.groups})
    if not any(letter in options for letter in "ugG"):
        rows = (
            ("uid", users, [user.number]), ("gid", groups, [user.group]), ("groups", groups, every)
        )  # fmt: skip
        parts = []
        for word, names, ids in rows:
            texts = [
                f"{number}({names[number]})" if number in names else str(number) for number in ids
            ]
            parts.append(f"{word}={','.join(texts)}")
        yield write_out(f"{' '.join(parts)}\n")
        return 0
    names = users if "u" in options else groups
    every.remove(user.group)
    numbers = [user.number if "u" in options else user.group, *(every if "G" in options else ())]
    texts = [
        names.get(number, str(number)) if "n" in options else str(number) for number in numbers
    ]
    yield write_out(f"{' '.join(texts)}\n")
    unknown = [number for number in numbers if "n" in options and number not in names]
    for unknown_id in unknown:
        yield write_error(f"id: unknown ID {unknown_id}")
    return 1 if unknown else 0


def uname(context: ProcessContext, args: list[str]) -> Process:
    """Print the system's name."""
    options, rest = yield from parse_options("uname", args, "asnrmpvio")
    if rest:
        raise UsageError("BusyBox: usage: uname [-amnrspvio]")
    parts = {
        "s": "Linux", "n": context.hostname, "r": "6.12.0", "v": "#1 SMP", "m": "x86_64",
        "o": "GNU/Linux", "p": "unknown", "i": "unknown",
    }  # fmt: skip
    letters = (
        "snrvmo"
        if "a" in options
        else "".join(letter for letter in "snrvmpio" if letter in options) or "s"
    )
    yield write_out(" ".join(parts[letter] for letter in letters) + "\n")
    return 0


def basename(_: ProcessContext, args: list[str]) -> Process:
    """Print the last component of a path, without a suffix."""
    words = (yield from parse_options("basename", args, "", mixed=False))[1]
    if not words or len(words) > 2:
        raise UsageError("BusyBox: usage: basename FILE [SUFFIX]")
    name = words[0].rstrip("/").rpartition("/")[2] or ("/" if words[0].startswith("/") else "")
    if len(words) > 1 and name != words[1]:
        name = name.removesuffix(words[1])
    yield write_out(name + "\n")
    return 0


def dirname(_: ProcessContext, args: list[str]) -> Process:
    """Print a path without its last component."""
    if len(args) != 1:
        raise UsageError("BusyBox: usage: dirname FILENAME")
    head, slash, _last = args[0].rstrip("/").rpartition("/")
    root = bool(slash) or args[0].startswith("/")
    yield write_out((head.rstrip("/") or ("/" if root else ".")) + "\n")
    return 0


def pwd(context: ProcessContext, _: list[str]) -> Process:
    """Print the working directory."""
    yield write_out(context.cwd + "\n")
    return 0


def nproc(_: ProcessContext, args: list[str]) -> Process:
    """Print the number of CPUs of a node."""
    yield from parse_options("nproc", args, "")
    yield write_out("8\n")
    return 0


def clear(_: ProcessContext, __: list[str]) -> Process:
    """Clear the screen."""
    yield write_out("\x1b[H\x1b[J")
    return 0
