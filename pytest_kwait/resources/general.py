"""The general wait: any condition on any kind of object.

Source: kubectl pkg/cmd/wait, whose condition grammar and generation rule hold here. Missing and
deleted objects are judged as by every wait: not there yet is pending, gone after it was seen final.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.api.discovery import match_resource
from pytest_kwait.api.resource import BUILT_IN
from pytest_kwait.api.selectors import Selector, selector_text
from pytest_kwait.api.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.error_policy import retrying
from pytest_kwait.engine.options import (
    WaitOptions,
    check_count,
    check_name,
    check_namespace,
    resolve,
)
from pytest_kwait.engine.targets import Target, parse_target
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.resources.object_conditions import ListCondition, ManyObjects, OneObject
from pytest_kwait.resources.object_tests import ObjectTest, UserTest, parse_test

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.api.resource import Resource
    from pytest_kwait.engine.verdicts import Verdict

__all__ = ["GeneralCondition", "general_condition", "wait_for"]


@dataclass(frozen=True, slots=True)
class GeneralCondition:
    """What is awaited, before the server was asked what its kind is.

    Args:
        namespace: where the objects are; without meaning for cluster-scoped kinds.
        target: the kind, and the name of one object or none.
        test: what the objects are tested for.
        selector: which objects, where none is named.
        count: how many of them; None for all.
    """

    namespace: str
    target: Target
    test: ObjectTest
    selector: str | None
    count: int | None

    def on(self, resource: Resource) -> OneObject | ManyObjects | ListCondition:
        """Return the condition on objects of a kind."""
        namespace = self.namespace if resource.namespaced else None
        if self.target.name:
            return OneObject(resource, namespace, self.target.name, self.test)
        if isinstance(self.test, UserTest):
            return ListCondition(resource, namespace, self.selector, self.test)
        return ManyObjects(resource, namespace, self.selector, self.test, self.count)


def general_condition(
    namespace: str,
    target: str,
    condition: str | Callable[[Any], bool | Verdict],
    *,
    selector: Selector | None = None,
    count: int | None = None,
) -> GeneralCondition:
    """Return what `wait_for` awaits.

    Raises:
        InvalidArgument: an argument that cannot be meant.
    """
    check_namespace(namespace)
    parsed = parse_target("target", target)
    test = parse_test(condition)
    text = selector_text(selector)
    if parsed.name and (text is not None or count is not None):
        raise InvalidArgument(
            "target", target, "with a selector or a count name only the kind: 'pod'"
        )
    if not parsed.name and text is None:
        raise InvalidArgument("target", target, "name an object ('pod/web-0') or give a selector")
    if count is not None:
        check_count("count", count)
        if isinstance(test, UserTest):
            raise InvalidArgument(
                "count", count, "leave it out: the callable is given the whole list"
            )
    if parsed.name and match_resource(BUILT_IN.values(), parsed.kind, None) is not None:
        check_name("target", parsed.name)
    return GeneralCondition(namespace, parsed, test, text, count)


def wait_for(
    client: ApiClient,
    namespace: str,
    target: str,
    condition: str | Callable[[Any], bool | Verdict],
    *,
    selector: Selector | None = None,
    count: int | None = None,
    **options: Unpack[WaitOptions],
) -> dict[str, Any] | list[dict[str, Any]] | None:
    """Return what satisfies a condition once it does.

    Args:
        client: the official client.
        namespace: where to look; without meaning for cluster-scoped kinds.
        target: one object (`deployment/web`), or a kind (`pods`) together with `selector`. Kinds
            are named as for kubectl, custom ones too.
        condition: `create`, `delete`, `condition=Type` or `condition=Type=Value` as for kubectl,
            or a callable that is given the object, or the list of objects, and returns a bool or a
            verdict. A status of an older generation does not count.
        selector: a label selector, text or mapping.
        count: how many of the selected objects must satisfy it, exactly; all of them, and at least
            one, if not given.
        **options: `timeout` (default: `wait_for`, 5 minutes) and the other options of every wait.

    Returns:
        The object named by `target`, or the list of those that satisfy the condition; None for
        `delete`.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant, or a kind that the server does not have.
        WaitFailed: it can no longer come.
        WaitTimeout: it did not come within the limit.
    """
    general = general_condition(namespace, target, condition, selector=selector, count=count)
    settings = resolve(options, timeout="wait_for")
    session = Session.of(client)
    deadline = Deadline.after(settings.timeout, session.clock)
    resource = retrying(lambda left: session.resolve(general.target.kind, deadline=left), deadline)
    result: dict[str, Any] | list[dict[str, Any]] | None
    result = wait_for_condition(session, general.on(resource), settings, deadline)
    return result
