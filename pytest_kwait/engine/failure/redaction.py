"""Redaction: hide credentials, tokens and the data of Secrets in shown texts.

The package itself shows nothing read from Secrets, but logs, events, webhook messages and errors
may contain them. Secrets of a known form are hidden wherever they occur, and so are the credentials
of the run itself and the values of the Secrets in all of its namespaces (`SECRET_VALUES`): the log
of an operator has those of many tests.
"""

from __future__ import annotations

import base64
import logging
import re
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pytest_kwait.apimachinery.secret_mask import HIDDEN, MAX_SIZE, SecretMask
from pytest_kwait.client.resource import NAMESPACES, SECRETS
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_kwait.client.session import ApiSession

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

_LIST_TIMEOUT = 2.0
"""Maximum seconds of a list of Secrets, and of the lists in the other namespaces of the run."""

_LOGGERS = (
    "pytest_kwait.cache",
    "pytest_kwait.client",
    "pytest_kwait.leaderelection",
    "pytest_kwait.suite.schedulers",
    "pytest_kwait.wait",
)

_log = logging.getLogger("pytest_kwait.wait")


class SecretValues(SecretMask):
    """The values of the Secrets that this run has seen, hidden in names of objects too."""

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        super().__init__(max_size)
        self.run_selector = ""
        """The labels of the run's namespaces; empty for those of single waits alone."""
        self.exchange: Callable[[Sequence[str], int | None], Sequence[str]] | None = None
        """Sends values to the other processes of the run; returns theirs from a position on."""
        self._unsent: list[str] = []
        self._received = 0
        self._listed: WeakKeyDictionary[ApiSession, dict[str, float]] = WeakKeyDictionary()
        self._run_namespaces: WeakKeyDictionary[ApiSession, list[str]] = WeakKeyDictionary()
        self._warnings: set[str] = set()

    def learn(self, secret: Mapping[str, Any]) -> None:
        """Hide the values of a Secret in all processes of the run; log once if there are too many.

        The other processes hide them from their next failure on.
        """
        super().learn(secret)
        with self._lock:
            values, self._unsent = self._unsent, []
        if values and self.exchange is not None:
            self.exchange(values, None)
        if self.is_full:
            self.warn_once("values of further Secrets are not masked: there are too many")

    def learn_value(self, value: bytes) -> bool:
        """Hide a value from now on; return whether it is new."""
        is_new = super().learn_value(value)
        if is_new and self.exchange is not None:
            with self._lock:
                self._unsent.append(base64.b64encode(value).decode())
        return is_new

    def learn_sent(self, values: Iterable[str]) -> None:
        """Hide values that another process of the run has sent."""
        for value in values:
            super().learn_value(base64.b64decode(value))

    def receive(self) -> None:
        """Hide the values that the other processes of the run have seen by now."""
        if self.exchange is not None:
            received = self.exchange((), self._received)
            self.learn_sent(received)
            self._received += len(received)

    def mark_listed(self, session: ApiSession, namespace: str, max_age: float | None) -> bool:
        """Mark the Secrets of a namespace as listed; return whether they were to be listed.

        Args:
            max_age: the age in seconds from which a list is outdated; None for never.
        """
        now = session.clock.monotonic()
        with self._lock:
            times = self._listed.setdefault(session, {})
            if namespace in times and (max_age is None or now - times[namespace] < max_age):
                return False
            times[namespace] = now
            return True

    def list_run_namespaces(
        self, session: ApiSession, max_age: float | None, deadline: Deadline
    ) -> list[str]:
        """Return the present namespaces of the run, as far as they may be listed."""
        if self.run_selector and self.mark_listed(session, "", max_age):
            try:
                listed = session.list(
                    NAMESPACES, label_selector=self.run_selector, deadline=deadline
                )
            except (ApiError, DeadlineExceeded):
                # The run knows its own ones.
                return []
            names = [str(item.object["metadata"]["name"]) for item in listed.items]
            self._run_namespaces[session] = names
        return self._run_namespaces.get(session, [])

    def warn_once(self, text: str) -> None:
        """Log a warning; no-op for one that was logged before."""
        with self._lock:
            known = text in self._warnings
            self._warnings.add(text)
        if not known:
            _log.warning("%s", text)

    def mask_record(self, record: logging.LogRecord) -> bool:
        """Mask the message of a log record, as a filter of a logger."""
        if self._parts:
            message = record.getMessage()
            masked = self.mask(message)
            if masked != message:
                record.msg, record.args = masked, ()
        return True


SECRET_VALUES = SecretValues()
"""The values that this process hides wherever it writes."""

for _name in _LOGGERS:
    logging.getLogger(_name).addFilter(SECRET_VALUES.mask_record)


def learn_secrets(
    session: ApiSession,
    namespaces: Iterable[str | None],
    max_age: float | None = 1.0,
    limit: float | None = None,
) -> None:
    """Mask the values of all Secrets of the run: its other processes' and namespaces' too.

    No error is raised: a namespace whose Secrets cannot be listed is left out; log once if that is
    forbidden.

    Args:
        namespaces: the namespaces to begin with, of the run or not; None is left out.
        max_age: the age in seconds from which an earlier list is outdated; None for never.
        limit: maximum seconds of all lists; None for 2 s each, and for the other namespaces of the
            run together.
    """
    end = None if limit is None else Deadline.after(limit, session.clock)
    own = dict.fromkeys(filter(None, namespaces))
    for namespace in own:
        learn_namespace(session, namespace, max_age, end)
    seconds = _LIST_TIMEOUT if end is None else min(_LIST_TIMEOUT, end.remaining)
    others = Deadline.after(seconds, session.clock)
    for namespace in SECRET_VALUES.list_run_namespaces(session, max_age, others):
        if namespace not in own and not others.expired:
            learn_namespace(session, namespace, max_age, others)
    if max_age is not None:
        # Last: who deletes a namespace that was not found any more has sent its values before.
        SECRET_VALUES.receive()


def learn_namespace(
    session: ApiSession,
    namespace: str,
    max_age: float | None = 1.0,
    deadline: Deadline | None = None,
) -> None:
    """Mask the values of the Secrets of a namespace, as `learn_secrets`."""
    if not SECRET_VALUES.mark_listed(session, namespace, max_age):
        return
    seconds = _LIST_TIMEOUT if deadline is None else min(_LIST_TIMEOUT, deadline.remaining)
    try:
        listed = session.list(SECRETS, namespace, deadline=Deadline.after(seconds, session.clock))
    except ApiError as error:
        if error.status in (401, 403):
            SECRET_VALUES.warn_once(
                "values of Secrets are masked only where this run has read or written them: "
                "Secrets cannot be listed (forbidden)"
            )
    except DeadlineExceeded:
        return
    else:
        for item in listed.items:
            SECRET_VALUES.learn(item.object)


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
        return [_redact_value(member, redact) for member in value]
    if not isinstance(value, dict):
        return value
    shown = {key: _redact_member(key, member, redact) for key, member in value.items()}
    # An object with `name` and `value`, such as a container's variable.
    name = value.get("name")
    if isinstance(name, str) and value.get("value") and _VARIABLE.fullmatch(name):
        shown["value"] = HIDDEN
    return shown


def _redact_member(key: str, value: Any, redact: Callable[[str], str]) -> Any:
    if value and isinstance(value, str) and _KEY.fullmatch(key):
        return HIDDEN
    return _redact_value(value, redact)
