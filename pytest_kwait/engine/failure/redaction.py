"""Redaction: hide credentials, tokens and the data of Secrets in shown texts.

The package itself shows nothing read from Secrets, but logs, events, webhook messages and errors
may contain them. Secrets of a known form are hidden wherever they occur, and so are the credentials
of the run itself and the values of the Secrets in all of its namespaces (`SECRET_VALUES`): the log
of an operator has those of many tests. Values that the test's source or its manifests have as names
stay readable, unless they are credentials.
"""

from __future__ import annotations

import ast
import base64
import logging
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pytest_kwait.apimachinery.secret_mask import (
    HIDDEN,
    MAX_SIZE,
    MAX_VALUE,
    SecretMask,
    names_credential,
)
from pytest_kwait.client.resource import NAMESPACES, SECRETS
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.failure.shortening import escape_control_characters
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

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

_CLEAR_FIELDS = frozenset(
    {"annotations", "args", "binaryData", "command", "data", "stringData", "value"}
)
"""Fields of manifests in which credentials may be given in clear."""

_MAX_NAME = 512
_NAMES = re.compile(r"[A-Za-z0-9][\w.-]*")
_NAME_PART = re.compile(r"[^._-]+")
_MAX_PARTS = 8
_IMAGE = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d+)?(?:/[a-z0-9._-]+)+(?::[\w.-]+)?")
"""An image with its registry, which is no path or connection of two words."""

_NAMING_CALL = re.compile(
    r"wait_for\w*|get|list|delete\w*|logs|exec|port_forward|url|events|patch|update|label|annotate|"
    r"scale|restart|rolling_update|evict|resize|rollout_undo"
)
"""Functions that take the name of an object first, or after a client."""
_TARGET = re.compile(r"(?:[\w.-]+/)?[a-z0-9][a-z0-9.-]*")
"""An object as KIND/NAME or NAME."""

_LOGGERS = (
    "pytest_kwait.cache",
    "pytest_kwait.client",
    "pytest_kwait.leaderelection",
    "pytest_kwait.suite.schedulers",
    "pytest_kwait.wait",
)

_log = logging.getLogger("pytest_kwait.wait")


class _LatestList:
    """The latest list of the Secrets of a namespace.

    Args:
        at: when it began, in seconds of the session's clock; None before the first.
    """

    __slots__ = ("at", "lock")

    def __init__(self) -> None:
        self.at: float | None = None
        self.lock = threading.Lock()


class SecretValues(SecretMask):
    """The values of the Secrets that this run has seen, hidden in names of objects too."""

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        super().__init__(max_size)
        self.run_selector = ""
        """The labels of the run's namespaces; empty for those of single waits alone."""
        self.exchange: Callable[[Sequence[str], int | None], Sequence[str]] | None = None
        """Sends values to the other processes of the run; returns theirs from a position on."""
        self.find_source: Callable[[], Path | None] = lambda: None
        """Returns the file of the running test."""
        self._sources: set[Path] = set()
        self._unsent: list[str] = []
        self._sent_names: frozenset[str] = frozenset()
        self._received = 0
        self._receiving = threading.Lock()
        self._lists: WeakKeyDictionary[ApiSession, dict[str, _LatestList]] = WeakKeyDictionary()
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

    def learn_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Hide the values of a Secret; show the names of any object that is not a credential's."""
        if manifest.get("kind") == "Secret":
            self.learn(manifest)
        self.learn_names(_find_names(manifest))

    def learn_source(self) -> None:
        """Show the names of the running test's file."""
        path = self.find_source()
        if path is None or path in self._sources:
            return
        self._sources.add(path)
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            # Not a file of Python: its names stay hidden.
            return
        self.learn_names(_find_source_names(path, tree))

    def learn_value(self, value: bytes, *, is_credential: bool = True) -> bool:
        """Hide a value from now on; return whether it is new."""
        is_new = super().learn_value(value, is_credential=is_credential)
        if is_new and self.exchange is not None:
            kind = "credential" if is_credential else "value"
            with self._lock:
                self._unsent.append(_encode(kind, value[:MAX_VALUE]))
        return is_new

    def learn_sent(self, words: Iterable[str]) -> None:
        """Hide values, and show names, that another process of the run has sent."""
        for word in words:
            kind, _, encoded = word.partition(":")
            text = base64.b64decode(encoded)
            if kind == "name":
                super().learn_names([text.decode()])
            else:
                super().learn_value(text, is_credential=kind == "credential")

    def receive(self) -> None:
        """Hide the values that the other processes of the run have seen by now."""
        if self.exchange is None:
            return
        with self._receiving:
            names, self._sent_names = self._shown - self._sent_names, self._shown
            words = [_encode("name", name.encode()) for name in sorted(names)]
            received = self.exchange(words, self._received)
            self.learn_sent(received)
            self._received += len(received)

    @contextmanager
    def listing(
        self, session: ApiSession, namespace: str, max_age: float | None, deadline: Deadline
    ) -> Iterator[bool]:
        """Yield whether the Secrets of a namespace are to be listed; one thread lists them.

        Args:
            namespace: the namespace; empty for the list of the run's namespaces.
            max_age: the age in seconds from which a list is outdated; None for never.
            deadline: how long the list of another thread is awaited.
        """
        with self._lock:
            latest = self._lists.setdefault(session, {}).setdefault(namespace, _LatestList())
        if not latest.lock.acquire(timeout=max(deadline.remaining, 0.0)):
            yield False
            return
        try:
            now = session.clock.monotonic()
            is_outdated = latest.at is None or (max_age is not None and now - latest.at >= max_age)
            if is_outdated:
                latest.at = now
            yield is_outdated
        finally:
            latest.lock.release()

    def list_run_namespaces(
        self, session: ApiSession, max_age: float | None, deadline: Deadline
    ) -> list[str]:
        """Return the present namespaces of the run, as far as they may be listed."""
        if not self.run_selector:
            return []
        with self.listing(session, "", max_age, deadline) as is_outdated:
            if is_outdated:
                try:
                    listed = session.list(
                        NAMESPACES, label_selector=self.run_selector, deadline=deadline
                    )
                except (ApiError, DeadlineExceeded):
                    # The test knows its own ones.
                    self._run_namespaces[session] = []
                else:
                    self._run_namespaces[session] = [
                        str(item.object["metadata"]["name"])
                        for item in listed.items
                        # Their values were learned before their deletion.
                        if "deletionTimestamp" not in item.object["metadata"]
                    ]
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


def _encode(kind: str, text: bytes) -> str:
    return f"{kind}:{base64.b64encode(text).decode()}"


def _find_names(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names in a manifest, and their parts.

    Texts where credentials are given in clear are left out, and the schemas of definitions, whose
    words name nothing of a test.
    """
    if manifest.get("kind") in ("Secret", "CustomResourceDefinition"):
        manifest = {"metadata": manifest.get("metadata")}
    values: list[Any] = [manifest]
    while values:
        value = values.pop()
        if isinstance(value, str):
            yield from _split_name(value)
        elif isinstance(value, list):
            values += value
        elif isinstance(value, dict):
            for key, member in value.items():
                if key not in _CLEAR_FIELDS and not names_credential(str(key)):
                    values += (key, member)


def _find_source_names(path: Path, tree: ast.AST) -> Iterator[str]:
    """Yield the names in a test's file: identifiers, names of objects, images with their registry.

    Not other texts: a text may be the value of a Secret, or a command with a password.
    """
    yield from _split_name(path.stem)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for text in _list_targets(node):
                yield from _split_name(text)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and _IMAGE.fullmatch(node.value):
                yield from _split_name(node.value)
            continue
        for _, value in ast.iter_fields(node):
            if isinstance(value, str):
                yield from _split_name(value)


def _list_targets(call: ast.Call) -> list[str]:
    """Return the names of objects that a call of a wait or verb takes."""
    name = getattr(call.func, "attr", "") or getattr(call.func, "id", "")
    if not _NAMING_CALL.fullmatch(name):
        return []
    is_function = not isinstance(next(iter(call.args), None), ast.Constant)
    # A function takes a client, the namespace and the name.
    names = call.args[1:3] if is_function else call.args[:1]
    texts = [argument.value for argument in names if isinstance(argument, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and _TARGET.fullmatch(text)]


def _split_name(text: str) -> Iterator[str]:
    """Yield the names within a text: `acid`, `acid-team` and others of `x/acid-team-db`."""
    for name in _NAMES.findall(text) if len(text) <= _MAX_NAME else ():
        spans = [part.span() for part in _NAME_PART.finditer(name)]
        for first, (start, _) in enumerate(spans):
            for _, end in spans[first : first + _MAX_PARTS]:
                yield name[start:end]


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
    forbidden in one of the given namespaces.

    Args:
        namespaces: the namespaces to begin with, of the run or not; None is left out.
        max_age: the age in seconds from which an earlier list is outdated; None for never.
        limit: maximum seconds of all lists; None for 2 s each, and for the other namespaces of the
            run together.
    """
    end = None if limit is None else Deadline.after(limit, session.clock)
    own = dict.fromkeys(filter(None, namespaces))
    for namespace in own:
        error = learn_namespace(session, namespace, max_age, end)
        if isinstance(error, ApiError) and error.status in (401, 403):
            SECRET_VALUES.warn_once(
                "values of Secrets that this run has neither read nor written may be shown: "
                "Secrets cannot be listed (forbidden)"
            )
    seconds = _LIST_TIMEOUT if end is None else min(_LIST_TIMEOUT, end.remaining)
    others = Deadline.after(seconds, session.clock)
    for namespace in SECRET_VALUES.list_run_namespaces(session, max_age, others):
        if namespace not in own and not others.expired:
            learn_namespace(session, namespace, max_age, others)
    SECRET_VALUES.learn_source()
    if max_age is not None:
        # Last: who deletes a namespace that was not found any more has sent its values before.
        SECRET_VALUES.receive()


def learn_namespace(
    session: ApiSession,
    namespace: str,
    max_age: float | None = 1.0,
    deadline: Deadline | None = None,
    *,
    resource_version: str | None = None,
) -> ApiError | DeadlineExceeded | None:
    """Mask the values of the Secrets of a namespace; return the error of their list, if any.

    Args:
        max_age: the age in seconds from which an earlier list is outdated; None for never.
        deadline: the deadline of the list, which takes at most 2 s.
        resource_version: as of `ApiSession.list`.
    """
    seconds = _LIST_TIMEOUT if deadline is None else min(_LIST_TIMEOUT, deadline.remaining)
    end = Deadline.after(seconds, session.clock)
    with SECRET_VALUES.listing(session, namespace, max_age, end) as is_outdated:
        if is_outdated:
            try:
                listed = session.list(
                    SECRETS, namespace, resource_version=resource_version, deadline=end
                )
            except (ApiError, DeadlineExceeded) as error:
                return error
            for item in listed.items:
                SECRET_VALUES.learn(item.object)
    return None


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


def redact_log(text: str, redact: Callable[[str], str]) -> str:
    """Return a redacted text of lines, without sequences that control a terminal.

    Args:
        redact: the redactor of texts, from `make_redactor`.
    """
    text = redact(text)
    shown = escape_control_characters(text)
    # A style may have stood within a value.
    return text if shown == text else redact(shown)


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
