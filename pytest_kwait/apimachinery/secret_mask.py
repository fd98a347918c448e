"""A mask for values of Secrets: hide them in other texts, in every form that they are printed in.

Written once for all texts that the package shows, and for the recordings of clusters.

A value is hidden as its key says. That of a key that names a user, host or database stays readable
if it looks like a name. The value of a credential's key, such as `password`, is hidden whatever
else it is. Any other is hidden unless it is known as a name from elsewhere (`learn_names`).
"""

from __future__ import annotations

import base64
import codecs
import json
import re
import sys
import threading
from array import array
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

HIDDEN = "(hidden)"

MAX_SIZE = 64 * 1024 * 1024
"""Characters of all masked texts; further values are not masked."""

_SHORTEST = 6
"""The minimum length of a masked text; texts are looked up by their first characters."""

MAX_VALUE = 32 * 1024
"""Bytes of a value that are masked, from its start."""

_MAX_SHIFTED = 4096
"""The longest value that is also masked within longer texts in base64."""

_LINE = 1024
_BASE64_LINE = 76
"""Longer texts are masked in parts; `base64` wraps its lines."""

_PUBLIC_KEYS = {"kubernetes.io/service-account-token": frozenset({"namespace", "ca.crt"})}
"""Data of Secrets that is public, by the type of the Secret."""

_KEY_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_CREDENTIAL_KEY = re.compile(
    r"pass|pwd|token|secret|key|cred|auth|priv|cert|cookie|session|salt|seed|sign|pin|otp|bearer|"
    r"connection|conn|dsn|ur[il]|jdbc|config|conf|ssh|pgp|gpg|htpasswd|jwt|saml|code"
)
"""Words in keys of credentials, or of texts that may contain some."""

_NAME_KEY = re.compile(r".*(?:user|login|host|database|dbname)(?:name)?|db|port")
"""The last word, or the last two, of keys that name users, hosts and databases."""

_NAME = re.compile(r"[\w.+-]+(?:@[\w.-]+)?")
_HOST_AND_PORT = re.compile(r"[\w.-]+:\d{1,5}")

MAX_NAMES = 100_000
"""Names that are known from elsewhere; values that equal further ones are hidden."""

_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_GO_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""Characters that Go's encoder escapes within JSON."""

_FEW = 24
"""Texts that are searched for one by one; it takes as long as a look at all words."""

_MANY = 16
"""Characters that are looked through in the time of one search."""

_WORD = 4
"""Bytes of a word, as `array("I")` reads them."""

_ANCHOR = 2 * _WORD - 1
"""The length from which a text has a whole word wherever it stands."""

_UNESCAPED = re.compile("[ !#-%'-;=?-\\[\\]-~\u00a0-\u2027\u202a-\ud7ff\ue000-\U0010ffff]+")
"""Characters that stay as they are in JSON, also within JSON in a JSON string."""


def names_credential(key: str) -> bool:
    """Return whether a key names a credential, or a text that may contain one."""
    return bool(_CREDENTIAL_KEY.search(key.lower()))


class SecretMask:
    """Hides the values of Secrets in texts; safe to use from any thread.

    Hidden are values of 6 characters and more, each line of a value with several lines, and their
    base64, URL-encoded and JSON-escaped forms. Values that are names are shown, see the module.

    Args:
        max_size: characters of all hidden forms; values beyond are not hidden.
    """

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        self.is_full = False
        """True if values were left out: there are too many."""
        self.readable_keys: tuple[str, ...] = ()
        """Patterns of further keys, KEY or SECRET/KEY, whose values stay readable."""
        self._max_size = max_size
        self._lock = threading.Lock()
        # Read without the lock, also by signal handlers.
        self._parts: dict[str, tuple[str, ...]] = {}
        self._anchors: list[bytes] = []
        self._words: set[int] = set()
        self._values: dict[bytes, bool] = {}
        """The hidden values, each with whether it is a credential."""
        self._known: set[str] = set()
        self._credentials: set[str] = set()
        """The parts of credentials, which no name makes readable."""
        self._names: set[str] = set()
        self._shown: frozenset[str] = frozenset()
        """Parts that are names, and of no credential."""
        self._size = 0

    def learn(self, secret: Mapping[str, Any]) -> None:
        """Hide the values of a Secret from now on, those of `data` and of `stringData`.

        Args:
            secret: the Secret as a manifest or the API has it; invalid data is left out.
        """
        public = _PUBLIC_KEYS.get(str(secret.get("type")), frozenset())
        metadata = secret.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        for field in ("data", "stringData"):
            values = secret.get(field)
            for key, value in values.items() if isinstance(values, dict) else ():
                if not isinstance(value, str) or key in public:
                    continue
                data = _decode(value) if field == "data" else _encode(value)
                if self._is_readable(str(name), str(key), data):
                    self.learn_names([data.decode("utf-8", "replace").strip()])
                else:
                    self.learn_value(data, is_credential=names_credential(str(key)))

    def learn_names(self, names: Iterable[str]) -> None:
        """Show texts that are names, unless they are credentials; texts in base64 stay hidden."""
        with self._lock:
            new = {name for name in names if len(name) >= _SHORTEST} - self._names
            if len(self._names) + len(new) > MAX_NAMES:
                return
            self._names |= new
            self._shown |= (new & self._known) - self._credentials

    def may_match(self, data: bytes) -> bool:
        """Return False if a text, or JSON with such texts, certainly has no value.

        The time hardly depends on the number of values.
        """
        if any(anchor in data for anchor in self._anchors):
            return True
        if not self._words:
            return False
        return not self._words.isdisjoint(array("I", data[: len(data) // _WORD * _WORD]))

    def mask(self, text: str) -> str:
        """Return a text with every known value hidden."""
        parts, shown = self._parts, self._shown
        if not parts:
            return text
        # A short text is looked through more quickly than all anchors.
        if len(text) > _MANY * len(self._anchors) and not self.may_match(
            text.encode("utf-8", "surrogatepass")
        ):
            return text
        spans: list[list[int]] = []
        for start in range(len(text) - _SHORTEST + 1):
            secret_parts = parts.get(text[start : start + _SHORTEST])
            if secret_parts is None:
                continue
            end = next(
                (
                    start + len(part)
                    for part in secret_parts
                    if text.startswith(part, start) and part not in shown
                ),
                0,
            )
            if not end:
                continue
            if spans and start <= spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], end)
            else:
                spans.append([start, end])
        if not spans:
            return text
        pieces: list[str] = []
        last = 0
        for start, end in spans:
            pieces += (text[last:start], HIDDEN)
            last = end
        return "".join((*pieces, text[last:]))

    def learn_value(self, value: bytes, *, is_credential: bool = True) -> bool:
        """Hide a value from now on; return whether it is new.

        Args:
            is_credential: whether it is hidden even if it is known as a name.
        """
        value = value[:MAX_VALUE]
        with self._lock:
            known = self._values.get(value)
            if known is not None and known >= is_credential:
                return False
            parts = {part for part in _make_forms(value) if len(part) >= _SHORTEST}
            if is_credential:
                self._credentials |= parts
                self._shown -= parts
            parts -= self._known
            size = sum(map(len, parts))
            if self._size + size > self._max_size:
                self.is_full = True
                return False
            self._values[value] = is_credential
            self._known |= parts
            self._size += size
            for anchor in {_find_anchor(part) for part in parts}:
                self._add_anchor(anchor)
            heads: dict[str, list[str]] = {}
            for part in parts:
                heads.setdefault(part[:_SHORTEST], []).append(part)
            for head, head_parts in heads.items():
                # The longest first: the first that matches is hidden.
                head_parts += self._parts.get(head, ())
                self._parts[head] = tuple(sorted(head_parts, key=len, reverse=True))
            self._shown |= (parts & self._names) - self._credentials
            return True

    def _is_readable(self, secret: str, key: str, value: bytes) -> bool:
        """Return whether the key of a value says that it is no secret."""
        for pattern in self.readable_keys:
            if fnmatchcase(f"{secret}/{key}" if "/" in pattern else key, pattern):
                return True
        words = _split_key(key)
        # The last word says what it is: `auth-user` names a user, `user-auth` a credential.
        nouns = [noun for noun in (*words[-1:], "".join(words[-2:])) if _NAME_KEY.fullmatch(noun)]
        if not nouns or names_credential(words[-1]):
            return False
        text = value.decode("utf-8", "replace").strip()
        is_host = "host" in nouns[0] and _HOST_AND_PORT.fullmatch(text)
        return bool(is_host or _NAME.fullmatch(text))

    def _add_anchor(self, anchor: bytes) -> None:
        if len(anchor) < _ANCHOR or len(self._anchors) < _FEW:
            if anchor not in self._anchors:
                self._anchors.append(anchor)
            return
        # From the middle: many values begin alike. One of four words is read, wherever it stands.
        middle = (len(anchor) - _ANCHOR) // 2
        for start in range(middle, middle + _WORD):
            self._words.add(int.from_bytes(anchor[start : start + _WORD], sys.byteorder))


def _split_key(key: str) -> list[str]:
    return [word.lower() for word in _KEY_WORD.findall(key)]


def _find_anchor(text: str) -> bytes:
    """Return the longest part of a text that is the same in JSON; empty without one."""
    return max((part.encode() for part in _UNESCAPED.findall(text)), key=len, default=b"")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "ignore")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""


def _make_forms(value: bytes) -> Iterator[str]:
    """Yield the texts in which a value may be printed."""
    try:
        # A long value is cut, perhaps within its last character.
        text = codecs.getincrementaldecoder("utf-8")().decode(value).strip()
    except UnicodeDecodeError:
        # Not a text, so it is not printed as one.
        yield from _encode_base64(value)
        return
    printed = _encode(text)
    if len(printed) < _SHORTEST:
        # Not a text, or too short.
        if printed != value.strip():
            yield from _encode_base64(value)
        return
    lines = text.splitlines()
    for line in lines if len(lines) < 2 else (text, *map(str.strip, lines)):
        for part in _split(line, _LINE):
            yield part
            yield repr(part)[1:-1]
            for quoted in (json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1]):
                yield quoted
                yield quoted.translate(_GO_ESCAPES)
            for encoded in (quote(part), quote(part, safe=""), quote_plus(part)):
                yield encoded
                yield _ESCAPE.sub(lambda escape: escape[0].lower(), encoded)
    for raw in {value, printed}:
        yield from _encode_base64(raw)


def _encode_base64(value: bytes) -> Iterator[str]:
    """Yield a value in base64, also as it stands within a longer text."""
    forms = [base64.b64encode(value).decode()]
    for before in range(3) if len(value) <= _MAX_SHIFTED else ():
        encoded = base64.b64encode(bytes(before) + value).decode()
        # The characters at either end may also depend on the neighbouring bytes.
        forms.append(encoded[(before * 8 + 5) // 6 : (before + len(value)) * 8 // 6])
    for form in forms:
        yield from _split(form, _BASE64_LINE)
        yield from _split(form.replace("+", "-").replace("/", "_"), _BASE64_LINE)


def _split(text: str, length: int) -> Iterator[str]:
    """Yield the parts of a text, and its end, which may be too short as a part."""
    for start in range(0, len(text), length):
        yield text[start : start + length]
    yield text[-length:]
