"""The decisions of one seed, and what they hold back until it is due.

A decision depends on the seed, the perturbation and the text of its event alone, never on other
decisions. So equal events are perturbed equally, in whatever order they come.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict, deque
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_kwait.simulator.protocol.perturbations import LEVELS, PERTURBATIONS_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

MAX_SEED = 2**63 - 1

_MAX_RECORDED = 2000
"""Decisions that are recorded."""

_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED = re.compile(
    # A UUID, and hexadecimal digits as tests make them of one.
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?<=-)(?=[0-9a-f]*[0-9])[0-9a-f]{8,}(?![a-z0-9])"
    # The suffix of generateName and the hash of a template, and the minutes of a CronJob.
    rf"|(?<=-)[{_SAFE}]{{5}}(?=$|[ /])|(?<=-)[{_SAFE}]{{8,10}}(?=$|[- /])|(?<=-)\d{{8,}}"
)


class InvalidExploration(ValueError):
    """The seed, level or selection of an exploration is invalid."""


class Decision(NamedTuple):
    """One application of a perturbation to an event."""

    name: str
    event: str
    size: float
    """Seconds; 1.0 for a perturbation without a size."""


class ExplorationClock(Protocol):
    """The clock of an exploration."""

    scale: float

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""

    def call_later(
        self, seconds: float, call: Callable[..., object], *args: object, scaled: bool = True
    ) -> Cancellable:
        """Schedule a call after `seconds`."""


class Cancellable(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel it."""


@lru_cache(maxsize=4096)
def make_stable_name(name: str) -> str:
    """Return a name with `*` in place of its generated parts: `web-*-*` of a Deployment's pod."""
    return _GENERATED.sub("*", name)


class Held:
    """A call that an exploration holds back.

    Args:
        release: the call.
        drop: called with this when the call is made or cancelled.
    """

    __slots__ = ("_drop", "_release", "timer")

    def __init__(self, release: Callable[[], object], drop: Callable[[Held], object]) -> None:
        self._release = release
        self._drop = drop
        self.timer: Cancellable | None = None

    def release(self) -> None:
        """Make the call now."""
        self.cancel()
        self._release()

    def cancel(self) -> None:
        """Never make the call."""
        self._drop(self)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Exploration:
    """What a cluster perturbs under one seed.

    Args:
        clock: the cluster's time.
        seed: 0 or more.
        level: one of `LEVELS`.
        only: names of perturbations, and single decisions as `NAME@EVENT`; None for all of the
            level. A decision that the seed does not make is not made by naming it.
        client: the client whose events have no client in their text.
        ended: namespaces that were deleted before; what happens in them is left alone.

    Raises:
        InvalidExploration: the seed, the level or a name is invalid.
    """

    def __init__(
        self,
        clock: ExplorationClock,
        seed: int,
        level: object,
        only: Iterable[str] | None = None,
        *,
        client: str = "",
        ended: Collection[str] = (),
    ) -> None:
        if not 0 <= seed <= MAX_SEED:
            raise InvalidExploration(f"seed: {seed} is invalid: use 0 to {MAX_SEED}")
        if not isinstance(level, str) or level not in LEVELS:
            raise InvalidExploration(f"level: {level!r} is invalid: use {', '.join(LEVELS)}")
        self.seed = seed
        self.level = level
        self.only = None if only is None else tuple(only)
        self.applied: list[Decision] = []
        """The first decisions."""
        self.dropped = 0
        """The number of decisions that are not recorded any more."""
        self._clock = clock
        self._client = client
        self._ended = frozenset(ended)
        self._ended_watches: defaultdict[str, deque[str]] = defaultdict(deque)
        """Watches that this exploration has ended, by their text."""
        self._key = seed.to_bytes(8, "big")
        self._counts: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._held: dict[Held, None] = {}
        self.has_ended = False
        """True once nothing is perturbed any more."""
        self._chances = {
            name: perturbation.chance(level) for name, perturbation in PERTURBATIONS_BY_NAME.items()
        }
        self._names, self._decisions = _parse_selection(self.only or ())

    def event(self, text: str, *places: object) -> str:
        """Return `text` with its number: the first such event is 1.

        Args:
            places: the namespace of the event, among other parts of its key. In one that was
                deleted before, the event is empty, has no number and is left alone.
        """
        if not self._ended.isdisjoint(places):
            return ""
        self._counts[text] += 1
        return f"{text} {self._counts[text]}"

    def add_client(self, text: str, client: str) -> str:
        """Return the text of an event with its client, so that each client has its own numbers."""
        return text if client in ("", self._client) else f"{text} by {client}"

    def start_watch(self, text: str, namespace: str = "") -> tuple[str, str]:
        """Return the event of a watch, and that of its start.

        A watch that goes on after one that the exploration has ended is the same event.

        Args:
            namespace: its namespace, empty for all; in one that was deleted before, both are empty.
        """
        if namespace in self._ended or not self._ended_watches[text]:
            event = self.event(text, namespace)
            return event, event
        event = self._ended_watches[text].popleft()
        return event, self.event(f"{event} RESTARTED")

    def end_watch(self, text: str, event: str) -> None:
        """Note that the exploration has ended a watch: the client's next one goes on."""
        self._ended_watches[text].append(event)

    def decide(self, name: str, event: str) -> float | None:
        """Decide whether to perturb an event, and record it if so.

        Args:
            name: the perturbation.
            event: the numbered text of the event; empty to leave it.

        Returns:
            The size in real seconds, 1.0 for a perturbation without a size; None to leave it.
        """
        if self.has_ended or not event or not self._allows(name, event):
            return None
        chance = self._chances[name]
        digest = blake2b(f"{name}\0{event}".encode(), key=self._key, digest_size=8).digest()
        if int.from_bytes(digest[:4], "big") >= chance.probability * 2**32:
            return None
        share = int.from_bytes(digest[4:], "big") / 2**32
        size = chance.shortest + share * (chance.longest - chance.shortest)
        if PERTURBATIONS_BY_NAME[name].scaled:
            size *= self._clock.scale
        if len(self.applied) < _MAX_RECORDED:
            self.applied.append(Decision(name, event, size))
        else:
            self.dropped += 1
        return size

    def decide_refusal(self, name: str, event: str, subject: str) -> bool:
        """Decide whether to refuse a request, but not the same one again and again.

        Args:
            name: the perturbation.
            event: the numbered text of the event.
            subject: what is refused; its number of refusals in a row is limited.
        """
        most = 3 if self.level == "harsh" else 1
        if self._refused[subject] >= most or self.decide(name, event) is None:
            return False
        self._refused[subject] += 1
        return True

    def accept(self, subject: str) -> None:
        """Note that a request has been accepted: it may be refused again."""
        self._refused.pop(subject, None)

    def now(self) -> float:
        """Return the time in seconds from an arbitrary start."""
        return self._clock.monotonic()

    def hold(self, seconds: float, release: Callable[[], object]) -> Held:
        """Call `release` after `seconds`, or when the exploration ends."""
        held = Held(release, lambda call: self._held.pop(call, None))
        self._held[held] = None
        wait = 0.0 if self.has_ended else seconds
        held.timer = self._clock.call_later(wait, held.release, scaled=False)
        return held

    async def pause(self, seconds: float) -> None:
        """Wait for `seconds`, or until the exploration ends."""
        over = asyncio.Event()
        held = self.hold(seconds, over.set)
        try:
            await over.wait()
        finally:
            held.cancel()

    def end(self) -> None:
        """Decide nothing any more, and release what is held back in the order it was held."""
        self.has_ended = True
        for held in [*self._held]:
            if held.timer is not None:
                held.timer.cancel()
            held.timer = self._clock.call_later(0, held.release)

    def report(self) -> dict[str, object]:
        """Return the seed, the level, the selection and the decisions as JSON has them."""
        return {
            "seed": self.seed,
            "level": self.level,
            "only": None if self.only is None else [*self.only],
            "applied": [decision._asdict() for decision in self.applied],
            "dropped": self.dropped,
        }

    def _allows(self, name: str, event: str) -> bool:
        return self.only is None or name in self._names or (name, event) in self._decisions


class LateCalls:
    """Calls in their order, some of them late: those behind a late one wait, too."""

    def __init__(self, exploration: Exploration) -> None:
        self._exploration = exploration
        self._calls: deque[tuple[Callable[[], object], float]] = deque()
        self._waiting: Held | None = None

    def __len__(self) -> int:
        """Return the number of calls that are held back."""
        return len(self._calls)

    def add(self, seconds: float, call: Callable[[], object]) -> None:
        """Make a call after `seconds` and after those before it; at once if none waits."""
        if not seconds and not self._calls:
            call()
            return
        self._calls.append((call, self._exploration.now() + seconds))
        if self._waiting is None:
            self._waiting = self._exploration.hold(seconds, self._flush)

    def clear(self) -> None:
        """Drop the calls that are held back."""
        self._calls.clear()
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _flush(self) -> None:
        """Make the first call, and those behind it that are due."""
        self._waiting = None
        now = self._exploration.now()
        while self._calls:
            call, _ = self._calls.popleft()
            call()
            if not self._calls or self._waiting is not None:
                return
            remaining_seconds = self._calls[0][1] - now
            if remaining_seconds > 0 and not self._exploration.has_ended:
                self._waiting = self._exploration.hold(remaining_seconds, self._flush)
                return


def _parse_selection(only: Iterable[str]) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """Return the names and the decisions of a selection.

    Raises:
        InvalidExploration: a name is unknown.
    """
    names, decisions = set(), set()
    for text in only:
        name, at, event = text.partition("@")
        if name not in PERTURBATIONS_BY_NAME:
            known = ", ".join(PERTURBATIONS_BY_NAME)
            raise InvalidExploration(f"only: {name!r} is unknown: use one of {known}")
        if at:
            decisions.add((name, event))
        else:
            names.add(name)
    return frozenset(names), frozenset(decisions)
