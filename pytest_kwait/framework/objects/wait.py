"""The general wait: any condition on any kind of object.

Source: kubectl pkg/cmd/wait, whose condition grammar and generation rule hold here. Missing and
deleted objects are judged as by every wait: not there yet is pending, gone after it was seen final.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.selectors import Selector, normalize_label_selector
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, SECRETS
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.options import WaitOptions, check_name, check_namespace, resolve_options
from pytest_kwait.engine.retry import request_with_retry, within_deadline
from pytest_kwait.engine.targets import Target, parse_target
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.held_tests import HeldPredicate
from pytest_kwait.framework.nested_tests import conceal_secret_values, runs_user_code, with_timers
from pytest_kwait.framework.objects.conditions import ManyObjects, OneObject
from pytest_kwait.framework.objects.held_conditions import AllConditions, HeldCondition
from pytest_kwait.framework.objects.lists import EachObjectPredicate, ListCondition
from pytest_kwait.framework.objects.object_counts import Count, parse_count
from pytest_kwait.framework.predicates import ObjectPredicate, UserPredicate, parse_predicate
from pytest_kwait.framework.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.framework.objects.combinators import ConditionInput
    from pytest_kwait.framework.objects.held_conditions import TimedCondition

__all__ = ["GeneralWait", "general_condition", "wait_for"]


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
