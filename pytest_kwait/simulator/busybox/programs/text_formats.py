"""The escapes of `echo` and the formats of `printf`."""

from __future__ import annotations

import re

__all__ = ["format_once", "parse_number", "process_escapes"]

_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
    "e": "\x1b",
}  # fmt: skip
_ESCAPE = re.compile(r"\\(c|x[0-9a-fA-F]{1,2}|0?[0-7]{1,3}|.)", re.DOTALL)
_OCTAL_OR_TEXT = re.compile(r"\\(c|x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_DIRECTIVE = re.compile(r"%(?:%|([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?([a-zA-Z]))")


def process_escapes(text: str, *, echo: bool) -> tuple[str, bool]:
    """Text with its escapes as what they stand for, and whether one of them ended it."""
    pieces: list[str] = []
    position = 0
    for match in (_ESCAPE if echo else _OCTAL_OR_TEXT).finditer(text):
        pieces.append(text[position : match.start()])
        position, code = match.end(), match[1]
        if code == "c":
            return "".join(pieces), True
        if code in _ESCAPES:
            pieces.append(_ESCAPES[code])
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
    """A number as C reads it; None where it is none."""
    text = text.strip()
    if text[:1] in ("'", '"'):
        return ord(text[1:2] or "\0")
    try:
        if re.fullmatch(r"[-+]?0[0-7]+", text):
            return int(text, 8)
        return int(text, 0) if text else 0
    except ValueError:
        return None


def format_once(template: str, values: list[str]) -> tuple[str, int, list[tuple[int, str]], bool]:
    """One use of a format: its text, how many values it took, what was wrong, whether it ended.

    What was wrong comes with the length of the text before it.
    """
    pieces: list[str] = []
    faults: list[tuple[int, str]] = []
    used = position = 0

    def wrong(what: str) -> None:
        faults.append((sum(map(len, pieces)), what))

    def value() -> str | None:
        nonlocal used
        used += 1
        return values[used - 1] if used <= len(values) else None

    def number(text: str | None) -> int:
        found = parse_number(text) if text else None
        if found is None:
            wrong(f"invalid number '{(text or '').lstrip()}'")
            return 0
        return found

    while position < len(template):
        start = template.find("%", position)
        plain, stopped = process_escapes(
            template[position : start if start >= 0 else len(template)], echo=False
        )
        pieces.append(plain)
        if stopped or start < 0:
            return "".join(pieces), min(used, len(values)), faults, stopped
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
            shown = text or ""
            if kind == "b":
                shown, ended = process_escapes(shown, echo=True)
            spec = spec.replace("0", "", 1) if "0" in flags else spec
            pieces.append(f"{spec}s" % (shown[:1] if kind == "c" else shown))
            if ended:
                return "".join(pieces), min(used, len(values)), faults, True
        elif kind in "eEfgG":
            try:
                pieces.append(f"{spec}{kind}" % float(text or "0"))
            except ValueError:
                wrong(f"invalid number '{(text or '').lstrip()}'")
                pieces.append(f"{spec}{kind}" % 0.0)
        else:
            found = number(text)
            if kind in "ouxX" and found < 0:
                found += 1 << 64
            pieces.append(f"{spec}{'d' if kind in 'iu' else kind}" % found)
    return "".join(pieces), min(used, len(values)), faults, False
