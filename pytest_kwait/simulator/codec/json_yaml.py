"""What Go says of a text that is no JSON: the first sign that cannot stand where it stands.

Source: encoding/json/scanner.go of Go.
"""

from __future__ import annotations

import json
import re

__all__ = ["find_json_error", "quote_character"]

_SPACE = b" \t\r\n"
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"
_ESCAPES = b'bfnrt\\/"'
_STRING_END = re.compile(rb'[\x00-\x1f"\\]')


class _SyntaxError(Exception):
    pass


def find_json_error(data: bytes) -> str:
    """Why `data` is no JSON, in Go's words; empty if it is JSON."""
    scanner = _Scanner(data)
    try:
        scanner.value()
        scanner.space()
        if scanner.at < len(data):
            scanner.wrong("after top-level value")
    except _SyntaxError as error:
        return str(error)
    return ""


def quote_character(code: int) -> str:
    """A character as Go quotes it in errors."""
    if code == ord("'"):
        return r"'\''"
    if code == ord('"'):
        return "'\"'"
    sign = chr(code)
    if 0x7F <= code < 0xA0 or code == 0xAD:
        return f"'\\u{code:04x}'" if code > 0x7F else "'\\x7f'"
    if code < 0x20:
        named = {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r"}
        return f"'{named.get(code, f'{chr(92)}x{code:02x}')}'"
    return f"'{json.dumps(sign, ensure_ascii=False)[1:-1]}'"


class _Scanner:
    """Reads one value without keeping it; nesting is followed without recursion."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def wrong(self, where: str) -> None:
        """Refuse the sign at hand.

        Raises:
            _Wrong: always.
        """
        raise _SyntaxError(f"invalid character {quote_character(self.look())} {where}")

    def look(self) -> int:
        """The sign at hand.

        Raises:
            _Wrong: there is none.
        """
        if self.at >= len(self.data):
            raise _SyntaxError("unexpected end of JSON input")
        return self.data[self.at]

    def space(self) -> None:
        """Go on to what is no space."""
        while self.at < len(self.data) and self.data[self.at] in _SPACE:
            self.at += 1

    def value(self) -> None:
        """Read a value with everything in it."""
        open_: list[int] = []
        while True:
            self.space()
            sign = self.look()
            if sign in b"{[":
                self.at += 1
                open_.append(sign)
                self.space()
                if self.look() == sign + 2:  # "}" follows "{", and "]" "[", two signs later
                    self.at += 1
                    open_.pop()
                else:
                    if sign == ord("{"):
                        self._key()
                    continue
            else:
                self._scalar(sign)
            if not self._next(open_):
                return

    def _next(self, open_: list[int]) -> bool:
        """Go on to the next value of what is open; returns whether there is one."""
        while open_:
            self.space()
            sign, inside = self.look(), open_[-1]
            if sign == ord(","):
                self.at += 1
                if inside == ord("{"):
                    self.space()
                    self._key()
                return True
            if sign != inside + 2:
                self.wrong(
                    "after object key:value pair" if inside == ord("{") else "after array element"
                )
            self.at += 1
            open_.pop()
        return False

    def _key(self) -> None:
        if self.look() != ord('"'):
            self.wrong("looking for beginning of object key string")
        self._string()
        self.space()
        if self.look() != ord(":"):
            self.wrong("after object key")
        self.at += 1

    def _scalar(self, sign: int) -> None:
        if sign == ord('"'):
            self._string()
        elif sign in _LITERALS:
            self._literal(_LITERALS[sign])
        elif sign == ord("-") or sign in _DIGITS:
            self._number()
        else:
            self.wrong("looking for beginning of value")

    def _literal(self, word: bytes) -> None:
        for expected in word:
            if self.look() != expected:
                self.wrong(f"in literal {word.decode()} (expecting '{chr(expected)}')")
            self.at += 1

    def _string(self) -> None:
        self.at += 1
        while True:
            found = _STRING_END.search(self.data, self.at)
            self.at = len(self.data) if found is None else found.start()
            sign = self.look()
            if sign < 0x20:
                self.wrong("in string literal")
            self.at += 1
            if sign == ord('"'):
                return
            escape = self.look()
            if escape == ord("u"):
                for _ in range(4):
                    self.at += 1
                    if self.look() not in _HEX:
                        self.wrong("in \\u hexadecimal character escape")
            elif escape not in _ESCAPES:
                self.wrong("in string escape code")
            self.at += 1

    def _number(self) -> None:
        if self.look() == ord("-"):
            self.at += 1
            if self.look() not in _DIGITS:
                self.wrong("in numeric literal")
        if self.look() == ord("0"):
            self.at += 1
        else:
            self._digits()
        if self.at < len(self.data) and self.data[self.at] == ord("."):
            self.at += 1
            if self.look() not in _DIGITS:
                self.wrong("after decimal point in numeric literal")
            self._digits()
        if self.at < len(self.data) and self.data[self.at] in b"eE":
            self.at += 1
            if self.look() in b"+-":
                self.at += 1
            if self.look() not in _DIGITS:
                self.wrong("in exponent of numeric literal")
            self._digits()

    def _digits(self) -> None:
        while self.at < len(self.data) and self.data[self.at] in _DIGITS:
            self.at += 1
