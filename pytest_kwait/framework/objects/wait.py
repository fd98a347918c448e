"""`wait_for`: any condition on any kind of object, on one target or several.

The condition grammar and the generation rule are those of `kubectl wait`. Missing and deleted
objects are judged as by every wait: not there yet is pending, gone after it was seen is final.

Source: kubectl pkg/cmd/wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.apimachinery.labels import Selector, normalize_label_selector
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, SECRETS
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.condition import Condition, EvidenceScope, Timed
from pytest_kwait.engine.options import Target, WaitOptions, parse_target, resolve_options
from pytest_kwait.engine.retry import request_with_retry, within_deadline
from pytest_kwait.engine.verdicts import Failed, Met, Pending, Verdict
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.objects.conditions import ManyObjects, OneObject
from pytest_kwait.framework.objects.lists import (
    Count,
    EachObjectPredicate,
    ListCondition,
    parse_count,
)
from pytest_kwait.framework.predicates import (
    HeldPredicate,
    ObjectPredicate,
    UserPredicate,
    conceal_secret_values,
    parse_predicate,
    runs_user_code,
    with_timers,
)
from pytest_kwait.framework.registry import custom_wait
from pytest_kwait.framework.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.condition import Source
    from pytest_kwait.framework.objects.combinators import ConditionInput

__all__ = [
    "AllConditions",
    "GeneralWait",
    "HeldCondition",
    "TimedCondition",
    "general_condition",
    "wait_for",
]


class TimedCondition(Condition, Timed, Protocol):
    """A condition with times in it, perhaps."""


class HeldCondition:
    """A condition that must hold for a time.

    Args:
        inner: the condition.
        seconds: for how long, without a break.
        from_now: whether the first break ends the wait, instead of starting the time anew.
    """

    def __init__(self, inner: TimedCondition, seconds: float, *, from_now: bool) -> None:
        self._inner = inner
        self._seconds = seconds
        self._from_now = from_now
        self._timers = Timers()
        self._timer = self._timers.timer(seconds, from_now=from_now)

    @property
    def subject(self) -> str:
        """What the condition is about."""
        return self._inner.subject

    @property
    def goal(self) -> str:
        """The condition, and for how long."""
        held = format_duration(self._seconds)
        return f"{self._inner.goal} {f'from now for {held}' if self._from_now else f'for {held}'}"

    @property
    def runs_user_code(self) -> bool:
        """Whether the condition runs code of the user."""
        return self._inner.runs_user_code

    @property
    def due(self) -> float:
        """When a time is over, its own or one of a part; infinite while none runs."""
        return min(self._timer.due, self._inner.due)

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Note what time the next verdict is of."""
        self._timers.set_time(now, fresh=fresh)
        self._inner.set_time(now, fresh=fresh)

    def sources(self) -> Sequence[Source]:
        """Return what the condition looks at."""
        return self._inner.sources()

    def verdict(self) -> Verdict:
        """Judge by how long the condition has held."""
        return self._timer.judge(self._inner.verdict())

    def seen(self) -> str:
        """Sum up what is there."""
        return self._inner.seen()

    def result(self) -> Any:
        """Return what the condition returns."""
        return self._inner.result()

    def scope(self) -> EvidenceScope:
        """Return where the condition's evidence is."""
        return self._inner.scope()


class AllConditions:
    """Conditions that must hold at the same time, each of its own objects.

    Args:
        parts: the conditions, at least one.
    """

    def __init__(self, parts: Sequence[TimedCondition]) -> None:
        self._parts = parts
        self._sources = tuple(chain.from_iterable(part.sources() for part in parts))

    @property
    def subject(self) -> str:
        """All of them."""
        return ", ".join(part.subject for part in self._parts)

    @property
    def goal(self) -> str:
        """What each is tested for."""
        return self._parts[0].goal

    @property
    def due(self) -> float:
        """When the first of their times is over; infinite while none runs."""
        return min(part.due for part in self._parts)

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Note what time the next verdict is of."""
        for part in self._parts:
            part.set_time(now, fresh=fresh)

    @property
    def runs_user_code(self) -> bool:
        """Whether one of them runs code of the user."""
        return any(part.runs_user_code for part in self._parts)

    def sources(self) -> Sequence[Source]:
        """Return what they look at."""
        return self._sources

    def verdict(self) -> Verdict:
        """Judge by the one that is worst off."""
        pending = []
        absent = False
        for part in self._parts:
            verdict = part.verdict()
            if isinstance(verdict, Failed):
                reason = f"{part.subject}: {verdict.reason}"
                return Failed(reason, verdict.patience, verdict.since)
            if isinstance(verdict, Pending):
                pending.append(f"{part.subject}: {verdict.reason}")
                absent = absent or verdict.absent
        return Pending("; ".join(pending), absent=absent) if pending else Met()

    def seen(self) -> str:
        """Say of each what is there."""
        return "; ".join(f"{part.subject}: {part.seen() or 'nothing'}" for part in self._parts)

    def result(self) -> list[Any]:
        """Return what each of them returns, in their order."""
        return [part.result() for part in self._parts]

    def scope(self) -> EvidenceScope:
        """Return where the evidence of all of them is."""
        scopes = [part.scope() for part in self._parts]
        return EvidenceScope(
            scopes[0].namespace,
            objects=tuple(chain.from_iterable(scope.objects for scope in scopes)),
            pods=next((scope.pods for scope in scopes if scope.pods is not None), None),
            pod_names=tuple(chain.from_iterable(scope.pod_names for scope in scopes)),
            suspects=tuple(chain.from_iterable(scope.suspects for scope in scopes)),
        )


@dataclass(frozen=True, slots=True)
class GeneralWait:
    """What is awaited, before the server was asked what its kinds are.

    Args:
        namespace: where the objects are; without meaning for cluster-scoped kinds.
        targets: of each the kind, and the name of one object or none.
        test: what the objects are tested for; outermost a time is that of all of them.
        selector: which objects, where none is named.
        count: how many of them; None for all.
        several: whether a list of targets was given, so that a list is the result.
    """

    namespace: str
    targets: tuple[Target, ...]
    test: ObjectPredicate
    selector: str | None
    count: Count | None
    several: bool = False

    def on(self, resources: Sequence[Resource]) -> TimedCondition:
        """Return the condition on objects of these kinds, one for each target."""
        test = self.test.test if isinstance(self.test, HeldPredicate) else self.test
        parts = [
            self._part(target, resource, test)
            for target, resource in zip(self.targets, resources, strict=True)
        ]
        condition: TimedCondition = AllConditions(parts) if self.several else parts[0]
        if isinstance(self.test, HeldPredicate):
            return HeldCondition(condition, self.test.seconds, from_now=self.test.from_now)
        return condition

    def _part(self, target: Target, resource: Resource, test: ObjectPredicate) -> TimedCondition:
        namespace = self.namespace if resource.namespaced else None
        if resource == SECRETS:
            test = conceal_secret_values(test)
        timers = Timers()
        test = with_timers(test, timers)
        if target.name:
            return OneObject(resource, namespace, target.name, test, timers)
        if isinstance(test, UserPredicate):
            return ListCondition(resource, namespace, self.selector, test)
        if runs_user_code(test):
            each = EachObjectPredicate(test, self.count, timers)
            return ListCondition(resource, namespace, self.selector, each, timers)
        return ManyObjects(resource, namespace, self.selector, test, self.count, timers)


def general_condition(
    namespace: str,
    target: str | Sequence[str],
    condition: ConditionInput | HeldPredicate,
    *,
    selector: Selector | None = None,
    count: int | Count | None = None,
) -> GeneralWait:
    """Return what `wait_for` awaits.

    Raises:
        InvalidArgument: an argument that cannot be meant.
    """
    check_namespace(namespace)
    several = isinstance(target, list | tuple)
    targets = tuple(parse_target("target", one) for one in (target if several else [target]))
    if not targets or len(set(targets)) < len(targets):
        raise InvalidArgument("target", target, "name each object once, and at least one")
    test = parse_predicate(condition)
    text = normalize_label_selector(selector)
    bound = parse_count(count)
    for parsed in targets:
        _check_target(parsed, target, selected=text is not None, counted=count is not None)
    if bound is not None and isinstance(
        test.test if isinstance(test, HeldPredicate) else test, UserPredicate
    ):
        raise InvalidArgument("count", count, "leave it out: the callable is given the whole list")
    return GeneralWait(namespace, targets, test, text, bound, several)


def _check_target(parsed: Target, target: object, *, selected: bool, counted: bool) -> None:
    if parsed.name and (selected or counted):
        raise InvalidArgument(
            "target", target, "with a selector or a count name only the kind: 'pod'"
        )
    if not parsed.name and not selected:
        raise InvalidArgument("target", target, "name an object ('pod/web-0') or give a selector")
    if parsed.name and match_resource(BUILT_IN.values(), parsed.kind, None) is not None:
        check_name("target", parsed.name)


@custom_wait(
    limit="wait_for", summary="any condition on any kind of object", condition=general_condition
)
def wait_for(
    client: ApiClient,
    namespace: str,
    target: str | Sequence[str],
    condition: ConditionInput | HeldPredicate,
    *,
    selector: Selector | None = None,
    count: int | Count | None = None,
    **options: Unpack[WaitOptions],
) -> Any:
    """Return what satisfies a condition once it does.

    It looks at nothing but these objects, and can tell only by them that it can no longer come: the
    waits that know a kind look at its pods and events as well.

    Args:
        client: the official client.
        namespace: where to look; without meaning for cluster-scoped kinds.
        target: one object (`deployment/web`), or a kind (`pods`) together with `selector`. Kinds
            are named as for kubectl, custom ones too. A list of them for several under one limit:
            each must satisfy the condition, all at the same moment.
        condition: `create`, `delete`, `condition=Type`, `condition=Type=Value`, `jsonpath={.path}`
            or `jsonpath={.path}=value` as for kubectl; or a callable that is given the object, or
            the list of objects, and returns a bool or a verdict; or a combinator: `all_of`,
            `any_of`, `not_`, `stable_for`, `consistently`. A status of an older generation does
            not count.
        selector: a label selector, text or mapping.
        count: how many of the selected objects must satisfy it: a number for exactly so many,
            `at_least(n)` or `at_most(n)`; all of them, and at least one, if not given.
        **options: `timeout` (default: `wait_for`, 5 minutes) and the other options of every wait.

    Returns:
        The object named by `target`, or the list of those that satisfy the condition; None for
        `delete`. For a list of targets, the list of what each of them would return.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant, or a kind that the server does not have.
        WaitFailed: it can no longer come.
        WaitTimeout: it did not come within the limit.
    """
    general = general_condition(namespace, target, condition, selector=selector, count=count)
    __tracebackhide__ = True
    settings = resolve_options(options, timeout="wait_for")
    session = Session.of(client)
    deadline = Deadline.after(settings.timeout, session.clock)
    try:
        with within_deadline(deadline, "what kinds the server has could not be found out"):
            resources = [
                request_with_retry(partial(_resolve, session, one.kind), deadline)
                for one in general.targets
            ]
        return wait_for_condition(session, general.on(resources), settings, deadline)
    except Exception as error:
        # Whatever code of the user raises is shown from where that code begins.
        raise error.with_traceback(_trim_to_user_code(error.__traceback__)) from error.__cause__


def _resolve(session: Session, kind: str, left: Deadline) -> Resource:
    return session.resolve(kind, deadline=left)


def _trim_to_user_code(traceback: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that is the user's; all of it where no part is."""
    step = traceback
    while step is not None:
        if step.tb_frame.f_code is UserPredicate.judge.__code__ and step.tb_next is not None:
            return step.tb_next
        step = step.tb_next
    return traceback
