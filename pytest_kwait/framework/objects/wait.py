"""`wait_for`: any condition on any kind of object, on one target or several.

The condition grammar and the generation rule are those of `kubectl wait`. Missing and deleted
objects are treated as by every wait: a missing object is pending, a deleted one is final.

Source: kubectl pkg/cmd/wait.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from pytest_kwait.apimachinery.selectors import Selector, normalize_label_selector
from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, SECRETS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.condition import (
    Condition,
    EvidenceScope,
    Failed,
    Met,
    Pending,
    Verdict,
)
from pytest_kwait.engine.options import Target, WaitOptions, parse_target, resolve_options
from pytest_kwait.engine.retry import request_with_retry, within_deadline
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.objects.conditions import (
    ManyObjects,
    OneObject,
    detect_terminal_failure,
)
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

    from pytest_kwait.apimachinery.matching import Difference
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.condition import Source
    from pytest_kwait.framework.named_objects import KubernetesObject, ObjectListModel
    from pytest_kwait.framework.objects.combinators import ConditionInput


class HeldCondition(Condition):
    """A condition that must hold for a duration.

    Args:
        seconds: the duration without a break.
        from_now: whether the first break fails the wait, instead of restarting the timer.
    """

    def __init__(self, inner: Condition, seconds: float, *, from_now: bool) -> None:
        self._inner = inner
        self.parts = (inner,)
        self.runs_user_code = inner.runs_user_code
        self._seconds = seconds
        self._from_now = from_now
        self._timers = Timers()
        self._timer = self._timers.timer(seconds, from_now=from_now)

    @property
    def subject(self) -> str:
        """The subject of the condition."""
        return self._inner.subject

    @property
    def goal(self) -> str:
        """The goal of the condition and the duration."""
        held = format_duration(self._seconds)
        return f"{self._inner.goal} {f'from now for {held}' if self._from_now else f'for {held}'}"

    @property
    def due(self) -> float:
        """The time at which the first timer ends; infinite while none runs."""
        return min(self._timer.due, self._inner.due)

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Set the time of the next verdict."""
        self._timers.set_time(now, fresh=fresh)
        self._inner.set_time(now, fresh=fresh)

    def sources(self) -> Sequence[Source]:
        """Return the condition's sources."""
        return self._inner.sources()

    def verdict(self) -> Verdict:
        """Decide by how long the condition has held."""
        return self._timer.evaluate(self._inner.verdict())

    def summarize(self) -> str:
        """Return the condition's summary."""
        return self._inner.summarize()

    def differences(self) -> Sequence[Difference]:
        """Return the condition's differences."""
        return self._inner.differences()

    def result(self) -> Any:
        """Return the condition's result."""
        return self._inner.result()

    def scope(self) -> EvidenceScope:
        """Return the condition's evidence scope."""
        return self._inner.scope()


class AllConditions(Condition):
    """Conditions that must hold at the same time, each on its own objects.

    Args:
        parts: the conditions, at least one.
    """

    def __init__(self, parts: Sequence[Condition]) -> None:
        self.parts = parts
        self.runs_user_code = any(part.runs_user_code for part in parts)

    @property
    def subject(self) -> str:
        """The subjects of all parts."""
        return ", ".join(part.subject for part in self.parts)

    @property
    def goal(self) -> str:
        """The goals of all parts."""
        return self.parts[0].goal

    @property
    def due(self) -> float:
        """The time at which the first timer ends; infinite while none runs."""
        return min(part.due for part in self.parts)

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Set the time of the next verdict."""
        for part in self.parts:
            part.set_time(now, fresh=fresh)

    def sources(self) -> Sequence[Source]:
        """Return the sources of all parts."""
        sources = tuple(chain.from_iterable(part.sources() for part in self.parts))
        if sources != self._sources:
            self._sources = sources
        return self._sources

    def verdict(self) -> Verdict:
        """Decide by the worst verdict of the parts."""
        pending = []
        absent, settled = False, True
        # Each part is evaluated, so that no timer of a later one stays due.
        verdicts = [part.verdict() for part in self.parts]
        for part, verdict in zip(self.parts, verdicts, strict=True):
            if isinstance(verdict, Failed):
                reason = f"{part.subject}: {verdict.reason}"
                return Failed(reason, verdict.grace, verdict.since)
            if isinstance(verdict, Pending):
                pending.append(f"{part.subject}: {verdict.reason}")
                absent = absent or verdict.absent
            else:
                settled = settled and verdict.settled
        if pending:
            return Pending("; ".join(pending), absent=absent)
        return Met(settled=settled)

    def summarize(self) -> str:
        """Return the summaries of all parts."""
        return "; ".join(f"{part.subject}: {part.summarize() or 'nothing'}" for part in self.parts)

    def differences(self) -> list[Difference]:
        """Return the differences of all parts, each after its subject."""
        return [
            replace(each, path=f"{part.subject}: {each.path}")
            for part in self.parts
            for each in part.differences()
        ]

    def result(self) -> list[Any]:
        """Return the results of all parts, in their order."""
        return [part.result() for part in self.parts]

    def scope(self) -> EvidenceScope:
        """Return the evidence scope of all parts."""
        scopes = [part.scope() for part in self.parts]
        return EvidenceScope(
            scopes[0].namespace,
            objects=tuple(chain.from_iterable(scope.objects for scope in scopes)),
            pods=next((scope.pods for scope in scopes if scope.pods is not None), None),
            pod_names=tuple(chain.from_iterable(scope.pod_names for scope in scopes)),
            suspects=tuple(chain.from_iterable(scope.suspects for scope in scopes)),
        )


@dataclass(frozen=True, slots=True)
class GeneralWait:
    """The arguments of `wait_for`, before the server resolves the kinds.

    Args:
        namespace: the namespace of the objects; ignored for cluster-scoped kinds.
        targets: the kind of each target, and the name of one object or none.
        test: the test of the objects; an outermost duration applies to all of them together.
        selector: the label selector of targets without a name.
        count: how many objects; None for all.
        several: whether a list of targets was given, so that the result is a list.
    """

    namespace: str
    targets: tuple[Target, ...]
    test: ObjectPredicate
    selector: str | None
    count: Count | None
    several: bool = False

    def on(self, resources: Sequence[Resource]) -> Condition:
        """Return the condition on objects of these kinds, one for each target."""
        test = self.test.test if isinstance(self.test, HeldPredicate) else self.test
        parts = [
            self._part(target, resource, test)
            for target, resource in zip(self.targets, resources, strict=True)
        ]
        condition: Condition = AllConditions(parts) if self.several else parts[0]
        if isinstance(self.test, HeldPredicate):
            return HeldCondition(condition, self.test.seconds, from_now=self.test.from_now)
        return condition

    def _part(self, target: Target, resource: Resource, test: ObjectPredicate) -> Condition:
        namespace = self.namespace if resource.namespaced else None
        if resource == SECRETS:
            test = conceal_secret_values(test)
        timers = Timers()
        test = with_timers(test, timers)
        if target.name:
            return OneObject(resource, namespace, target.name, test, timers, target.uid)
        if isinstance(test, UserPredicate):
            return ListCondition(resource, namespace, self.selector, test)
        if runs_user_code(test):
            predicate = EachObjectPredicate(
                test,
                self.count,
                timers,
                lambda obj: detect_terminal_failure(resource, test, obj, None),
            )
            return ListCondition(resource, namespace, self.selector, predicate, timers)
        return ManyObjects(resource, namespace, self.selector, test, self.count, timers)


def general_condition(
    namespace: str,
    target: str | Sequence[str],
    condition: ConditionInput | HeldPredicate,
    *,
    selector: Selector | None = None,
    count: int | Count | None = None,
) -> GeneralWait:
    """Return the condition that the arguments of `wait_for` specify."""
    check_namespace(namespace)
    several = isinstance(target, list | tuple)
    targets = tuple(
        parse_target("target", target_text) for target_text in (target if several else [target])
    )
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


# Several targets.
@overload
def wait_for(  # type: ignore[overload-overlap] # a list's model is a model, too
    client: ApiClient,
    namespace: str,
    target: ObjectListModel | list[Any] | tuple[Any, ...],
    condition: ConditionInput | HeldPredicate,
    **options: Unpack[WaitOptions],
) -> list[Any]: ...
# Deletion.
@overload
def wait_for(  # type: ignore[overload-overlap] # a variable may have this value
    client: ApiClient,
    namespace: str,
    target: str | KubernetesObject,
    condition: Literal["delete"],
    *,
    selector: Selector | None = None,
    count: int | Count | None = None,
    **options: Unpack[WaitOptions],
) -> None: ...
# One object.
@overload
def wait_for(
    client: ApiClient,
    namespace: str,
    target: str | KubernetesObject,
    condition: ConditionInput | HeldPredicate,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]: ...
# Objects of a kind.
@overload
def wait_for(
    client: ApiClient,
    namespace: str,
    target: str,
    condition: ConditionInput | HeldPredicate,
    *,
    selector: Selector,
    count: int | Count | None = None,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]: ...
@custom_wait(
    limit="wait_for",
    kinds={"target": None},
    summary="any condition on any kind of object",
    condition=general_condition,
)
def wait_for(
    client: ApiClient,
    namespace: str,
    target: str | KubernetesObject | Sequence[str | KubernetesObject],
    condition: ConditionInput | HeldPredicate,
    *,
    selector: Selector | None = None,
    count: int | Count | None = None,
    **options: Unpack[WaitOptions],
) -> Any:
    """Return the objects that satisfy a condition, once they do.

    It reads these objects only. Once it is stuck it lists what the waits of their kinds read: the
    pods of controllers, and the events of pods and claims.

    Args:
        client: the official client.
        namespace: the namespace of the objects; ignored for cluster-scoped kinds.
        target: one object (`deployment/web`), or a kind (`pods`) together with `selector`. Kinds
            are named as for kubectl, custom ones too. A list sets one limit for several targets:
            each must satisfy the condition, all at the same moment. The deletion of an object that
            is given itself is that of its UID.
        condition: `create`, `delete`, `condition=Type`, `condition=Type=Value`, `jsonpath={.path}`
            or `jsonpath={.path}=value` as for kubectl; or a callable that receives the object, or
            the list of objects, and returns a bool or a verdict; or a combinator: `all_of`,
            `any_of`, `not_`, `stable_for`, `consistently`. A status of an older generation does
            not count.
        selector: a label selector, text or mapping.
        count: how many of the selected objects must satisfy it: a number for exactly so many,
            `at_least(n)` or `at_most(n)`; by default all of them, and at least one.
        **options: `timeout` (default: `wait_for`, 5 minutes) and the rest of `WaitOptions`.

    Returns:
        The object named by `target`, or the list of those that satisfy the condition; None for
        `delete`. For a list of targets, the list of their results.

    Raises:
        ApiError: the server refuses a request.
        InvalidArgument: an argument is invalid, or the server does not have the kind.
        WaitFailed: the condition can no longer come true.
        WaitTimeout: the condition did not come true within the limit.
    """
    # Objects are names by now.
    names = cast("str | Sequence[str]", target)
    general = general_condition(namespace, names, condition, selector=selector, count=count)
    __tracebackhide__ = True
    session = ApiSession.of(client)
    settings = resolve_options(options, timeout="wait_for", session=session)
    deadline = Deadline.after(settings.timeout, session.clock)
    try:
        with within_deadline(deadline, "what kinds the server has could not be found out"):
            resources = [
                request_with_retry(partial(_resolve, session, parsed_target.kind), deadline)
                for parsed_target in general.targets
            ]
        return wait_for_condition(
            session, general.on(resources), settings, deadline, name="wait_for"
        )
    except Exception as error:
        # Errors of user code show their traceback from the first frame of that code.
        raise error.with_traceback(_trim_to_user_code(error.__traceback__)) from error.__cause__


def _resolve(session: ApiSession, kind: str, attempt_deadline: Deadline) -> Resource:
    return session.resolve(kind, deadline=attempt_deadline)


def _trim_to_user_code(traceback: TracebackType | None) -> TracebackType | None:
    """Return the user code's part of a traceback; the whole traceback if there is none."""
    step = traceback
    while step is not None:
        if step.tb_frame.f_code is UserPredicate.ask.__code__ and step.tb_next is not None:
            return step.tb_next
        step = step.tb_next
    return traceback
