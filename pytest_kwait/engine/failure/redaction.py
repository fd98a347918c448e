"""Redaction: hide credentials, tokens and the data of Secrets in shown texts.

The package itself shows nothing read from Secrets, but logs, events, webhook messages and errors
may contain them. Secrets of a known form are hidden wherever they occur, and so are the credentials
of the run itself and the values of the Secrets in its namespaces (`SECRET_VALUES`).
"""

from __future__ import annotations

import base64
import json
import logging
import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus
from weakref import WeakKeyDictionary

from pytest_kwait.client.resource import SECRETS
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_kwait.client.session import Session

__all__ = [
    "HIDDEN",
    "SECRET_VALUES",
    "SecretValues",
    "learn_secrets",
    "make_redactor",
    "redact_object",
]

HIDDEN = "(hidden)"

_KEYS = (
    r"(?:[\w-]*(?:token|password|passwd|secret[_-]?key|api[_-]?key|client-key-data|private[_-]?key)"
    r"|(?:[\w-]*-)?pwd)"
)
# The start of a word with all its dashes, so that the search does not start within one.
_START = r"(?<![\w-])"

_FORMS = tuple(
    (re.compile(pattern, flags), rf"{kept}{HIDDEN}")
    for pattern, kept, flags in (
        # A private key; a truncated one extends to the end of the text.
        (
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            "",
            re.DOTALL,
        ),
        # Authorization: Bearer abc, as a header, in JSON, or as a debugging proxy prints it.
        (
            r"(authorization[\"']?\s*[:=]\s*[\[\"']*(?:basic|bearer|digest|negotiate|token)\s+)"
            r"[^\s\"',\]]+",
            r"\1",
            re.IGNORECASE,
        ),
        # A bearer token. An ordinary word in its place is short and has no digit.
        (r"(\bbearer\s+)(?=\S*\d|\S{24})[\w.~+/=-]{8,}", r"\1", re.IGNORECASE),
        (r"\beyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?", "", 0),
        # The same in base64.
        (r"\bZXlK[\w+/-]{24,}={0,2}", "", 0),
        (r"((?:set-)?cookie[\"']?\s*:\s*[\"']?)[^\"'\n]+", r"\1", re.IGNORECASE),
        # token=abc in a query, a command or an environment.
        (rf"({_START}{_KEYS}[\"']?\s*=\s*[\"']?)[^\s\"',;&]{{3,}}", r"\1", re.IGNORECASE),
        # token: abc in YAML or JSON. A colon may be followed by prose, which has no digits.
        (rf"({_START}{_KEYS}[\"']?\s*:\s*[\"']?)(?=\S*\d)[^\s\"',;&]{{6,}}", r"\1", re.IGNORECASE),
        (rf"({_START}{_KEYS}\"\s*:\s*\")[^\"]+", r"\1", re.IGNORECASE),
        # https://user:password@host
        (r"(\b\w+://[^\s/:@]*:)[^\s/@]+(?=@)", r"\1", 0),
    )
)

_HINTS = (
    "private key",
    "authoriz",
    "bearer",
    "eyj",
    "zxlk",
    "cookie",
    "token",
    "passw",
    "key",
    "pwd",
    "://",
)
"""Every form contains one of these; texts without any need no further search."""

# The data of a Secret as JSON, as Go prints maps, and as YAML.
_DATA = tuple(
    (re.compile(pattern, re.MULTILINE), rf"\1{HIDDEN}")
    for pattern in (
        r"(\b(?:data|stringData)\"\s*:\s*)\{[^{}]*(?:\}|\Z)",
        r"(\b(?:data|stringData):)map\[[^\]]*(?:\]|\Z)",
        r"(^[ \t]*(?:data|stringData):)[ \t]*\n(?:[ \t]+\S.*(?:\n|\Z))+",
    )
)
_SECRET = re.compile(r"kind\"?\s*:\s*\"?Secret\b")

_KEY = re.compile(_KEYS, re.IGNORECASE)
"""Object keys whose values are credentials."""

_VARIABLE = re.compile(rf"{_KEYS}|pgpass|\S*(?:passw|secret|credential|token)\S*", re.IGNORECASE)
"""Container variables whose values are, or lead to, credentials."""

_SHORTEST = 8
"""The minimum length of a credential; a shorter one may be an ordinary word."""

_SHORTEST_VALUE = 6
"""The minimum length of a Secret's value; values are looked up by their first characters."""

_MAX_VALUE = 32 * 1024
"""Bytes of a value that are masked, from its start."""

_MAX_SIZE = 16 * 1024 * 1024
"""Characters of all masked texts; further values are not masked."""

_MAX_SHIFTED = 4096
"""The longest value that is also masked within longer texts in base64."""

_LINE = 1024
_BASE64_LINE = 76
"""Longer texts are masked in parts; `base64` wraps its lines."""

_LIST_TIMEOUT = 2.0
"""Maximum seconds of a list of Secrets."""

_PUBLIC_KEYS = {"kubernetes.io/service-account-token": frozenset({"namespace", "ca.crt"})}
"""Data of Secrets that is public, by the type of the Secret."""

_ESCAPE = re.compile(r"%[0-9A-F]{2}")

_LOGGERS = (
    "pytest_kwait.cache",
    "pytest_kwait.client",
    "pytest_kwait.leaderelection",
    "pytest_kwait.suite.schedulers",
    "pytest_kwait.wait",
)

_log = logging.getLogger("pytest_kwait.wait")


class SecretValues:
    """The values of the Secrets that this process has seen; safe to use from any thread.

    Masked are values of 6 characters and more, each line of a value with several lines, and their
    base64, URL-encoded and JSON-escaped forms, in names of objects too.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Read without the lock, also by signal handlers.
        self._parts: dict[str, tuple[str, ...]] = {}
        self._values: set[bytes] = set()
        self._size = 0
        self._listed: WeakKeyDictionary[Session, dict[str, float]] = WeakKeyDictionary()
        self._warnings: set[str] = set()

    def learn(self, secret: Mapping[str, Any]) -> None:
        """Mask the values of a Secret from now on, those of `data` and of `stringData`.

        Args:
            secret: the Secret as a manifest or the API has it; invalid data is left out.
        """
        public = _PUBLIC_KEYS.get(str(secret.get("type")), frozenset())
        for field in ("data", "stringData"):
            values = secret.get(field)
            for key, value in values.items() if isinstance(values, dict) else ():
                if isinstance(value, str) and key not in public:
                    self._learn_value(_decode(value) if field == "data" else _encode(value))

    def mark_listed(self, session: Session, namespace: str, max_age: float | None) -> bool:
        """Mark the Secrets of a namespace as listed; return whether they were to be listed.

        Args:
            session: the session of the cluster.
            namespace: the namespace.
            max_age: the age in seconds from which a list is outdated; None for never.
        """
        now = session.clock.monotonic()
        with self._lock:
            times = self._listed.setdefault(session, {})
            if namespace in times and (max_age is None or now - times[namespace] < max_age):
                return False
            times[namespace] = now
            return True

    def warn_once(self, text: str) -> None:
        """Log a warning; no-op for one that was logged before."""
        with self._lock:
            known = text in self._warnings
            self._warnings.add(text)
        if not known:
            _log.warning("%s", text)

    def mask(self, text: str) -> str:
        """Return a text with every known value hidden."""
        parts = self._parts
        if not parts:
            return text
        spans: list[list[int]] = []
        for start in range(len(text) - _SHORTEST_VALUE + 1):
            found = parts.get(text[start : start + _SHORTEST_VALUE])
            if found is None:
                continue
            end = next((start + len(part) for part in found if text.startswith(part, start)), 0)
            if not end:
                continue
            if spans and start <= spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], end)
            else:
                spans.append([start, end])
        if not spans:
            return text
        shown: list[str] = []
        last = 0
        for start, end in spans:
            shown += (text[last:start], HIDDEN)
            last = end
        return "".join((*shown, text[last:]))

    def mask_record(self, record: logging.LogRecord) -> bool:
        """Mask the message of a log record, as a filter of a logger."""
        if self._parts:
            message = record.getMessage()
            masked = self.mask(message)
            if masked != message:
                record.msg, record.args = masked, ()
        return True

    def _learn_value(self, value: bytes) -> None:
        value = value[:_MAX_VALUE]
        with self._lock:
            if value in self._values:
                return
            parts = {part for part in _make_forms(value) if len(part) >= _SHORTEST_VALUE}
            size = sum(map(len, parts))
            full = self._size + size > _MAX_SIZE
            if not full:
                self._values.add(value)
                self._size += size
                for part in parts:
                    head = part[:_SHORTEST_VALUE]
                    found = {*self._parts.get(head, ()), part}
                    # The longest first: the first that matches is hidden.
                    self._parts[head] = tuple(sorted(found, key=len, reverse=True))
        if full:
            self.warn_once("values of further Secrets are not masked: there are too many")


SECRET_VALUES = SecretValues()
"""The values that this process hides wherever it writes."""

for _name in _LOGGERS:
    logging.getLogger(_name).addFilter(SECRET_VALUES.mask_record)


def learn_secrets(
    session: Session,
    namespaces: Iterable[str | None],
    max_age: float | None = 1.0,
    limit: float | None = None,
) -> None:
    """List the Secrets of namespaces and mask their values; log once if that is forbidden.

    No error is raised: a namespace whose Secrets cannot be listed is left out.

    Args:
        session: the session of the requests.
        namespaces: the namespaces; None is left out.
        max_age: the age in seconds from which an earlier list is outdated; None for never.
        limit: maximum seconds of all lists; None for 2 s each.
    """
    end = None if limit is None else Deadline.after(limit, session.clock)
    for namespace in dict.fromkeys(namespaces):
        if not namespace or not SECRET_VALUES.mark_listed(session, namespace, max_age):
            continue
        seconds = _LIST_TIMEOUT if end is None else min(_LIST_TIMEOUT, end.remaining)
        deadline = Deadline.after(seconds, session.clock)
        try:
            listed = session.list(SECRETS, namespace, deadline=deadline)
        except ApiError as error:
            if error.status in (401, 403):
                SECRET_VALUES.warn_once(
                    "values of Secrets are masked only where this run has read or written them: "
                    "Secrets cannot be listed (forbidden)"
                )
        except DeadlineExceeded:
            continue
        else:
            for item in listed.items:
                SECRET_VALUES.learn(item.object)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "ignore")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""


def _make_forms(value: bytes) -> Iterator[str]:
    """Yield the texts in which a value may be printed."""
    text = value.decode("utf-8", "ignore").strip()
    printed = _encode(text)
    if len(printed) < _SHORTEST_VALUE:
        # Not a text, or too short.
        if printed != value.strip():
            yield from _encode_base64(value)
        return
    lines = text.splitlines()
    for line in lines if len(lines) < 2 else (text, *map(str.strip, lines)):
        for part in _split(line, _LINE):
            yield part
            yield repr(part)[1:-1]
            yield json.dumps(part)[1:-1]
            yield json.dumps(part, ensure_ascii=False)[1:-1]
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


def make_redactor(credentials: Iterable[str]) -> Callable[[str], str]:
    """Return the function that redacts secrets in a text.

    Args:
        credentials: the secrets of the run itself, redacted everywhere.
    """
    own = sorted({text for text in credentials if len(text) >= _SHORTEST}, key=len, reverse=True)

    def redacted(text: str) -> str:
        text = SECRET_VALUES.mask(text)
        for credential in own:
            text = text.replace(credential, HIDDEN)
        if _SECRET.search(text):
            for pattern, kept in _DATA:
                text = pattern.sub(kept, text)
        lowered = text.lower()
        if any(hint in lowered for hint in _HINTS):
            for pattern, kept in _FORMS:
                text = pattern.sub(kept, text)
        return text

    return redacted


def redact_object(obj: dict[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    """Return a copy of an object without the data of Secrets and without tokens.

    Managed fields are left out, and so is the annotation in which `kubectl apply` keeps the whole
    object. Other objects keep their data, except values under the name of a credential.

    Args:
        obj: the object, with its kind.
        redact: the redactor of texts, from `make_redactor`.
    """
    shown: dict[str, Any] = _redact_value(obj, redact)
    if obj.get("kind") == "Secret":
        for field in ("data", "stringData"):
            if isinstance(obj.get(field), dict):
                shown[field] = dict.fromkeys(obj[field], HIDDEN)
    metadata = shown.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    return shown


def _redact_value(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redact_value(each, redact) for each in value]
    if not isinstance(value, dict):
        return value
    shown = {key: _redact_member(key, each, redact) for key, each in value.items()}
    # An object with `name` and `value`, such as a container's variable.
    name = value.get("name")
    if isinstance(name, str) and value.get("value") and _VARIABLE.fullmatch(name):
        shown["value"] = HIDDEN
    return shown


def _redact_member(key: str, value: Any, redact: Callable[[str], str]) -> Any:
    if value and isinstance(value, str) and _KEY.fullmatch(key):
        return HIDDEN
    return _redact_value(value, redact)
