"""Wrong values for each argument of what the ported packages export."""

from __future__ import annotations

import enum
import inspect
import threading
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import ApiClient

from pytest_kwait import cache, leaderelection, scheduler, wait
from pytest_kwait.client.resource import PODS
from pytest_kwait.clock import Deadline
from pytest_kwait.clusters.exploration import ExplorationControl
from pytest_kwait.clusters.faults import Faults, FaultScope
from pytest_kwait.clusters.images import Images
from pytest_kwait.clusters.scripted_pods import script_pods
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler import algorithm
from pytest_kwait.suite.schedulers import choose_algorithm
from pytest_kwait.testing import FakeClock
from tests.cache.fakes import pod_at
from tests.objects import node
from tests.rows import check_rows
from tests.scheduler.fakes import FakeApiServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MODULES = (wait, cache, leaderelection, scheduler, algorithm)


class Wrong:
    """A value of a type that no argument takes."""

    def __repr__(self) -> str:
        return "<wrong>"


async def answer_later(*_: object, **__: object) -> bool:
    return True


def succeed(*_: object, **__: object) -> bool:
    return True


def fail(*_: object) -> None:
    raise EndOfLoopError


class EndOfLoopError(Exception):
    pass


class Fake:
    """Has the methods of the objects that arguments take."""

    identity = name = "me"
    done = cache.Signal()
    backoff = get = create = update = add = delete = replace = bookmark = succeed
    on_add = on_update = on_delete = schedule = attempt = pod_scheduled = queue_length = succeed

    def describe(self) -> str:
        return "ci-1/lock"

    def list(self) -> list[scheduler.NodeInfo]:
        return [make_node()]


def make_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def make_node() -> scheduler.NodeInfo:
    return scheduler.NodeInfo(node("n1"))


def make_list_watch() -> cache.ListWatch:
    return cache.ListWatch(FakeApiServer(), PODS)


def make_informer() -> cache.SharedInformer:
    return cache.SharedInformer(make_list_watch())


def make_factory() -> cache.SharedInformerFactory:
    return cache.SharedInformerFactory(FakeApiServer())


# Valid values by the names of arguments.
VALUES: dict[str, Callable[[], object]] = {
    "algorithm": Fake,
    "backoff": lambda: wait.Backoff(1, steps=2),
    "binder": lambda: succeed,
    "call": lambda: succeed,
    "cause": KeyError,
    "checker": Fake,
    "checkers": Fake,
    "client": ApiClient,
    "clock": FakeClock,
    "condition": lambda: succeed,
    "config": lambda: scheduler.ConfigFactory(FakeApiServer()).create(),
    "context": lambda: wait.background(FakeClock()),
    "ctx": lambda: wait.background(FakeClock()),
    "custom_resync": dict,
    "deadline": lambda: Deadline.after(1, FakeClock()),
    "delay": lambda: lambda: 1.0,
    "done": make_event,
    "duration": lambda: 1,
    "err": KeyError,
    "f": lambda: fail,
    "factor": lambda: 2.0,
    "field_selector": lambda: "metadata.name=a",
    "function": lambda: succeed,
    "handler": Fake,
    "handlers": lambda: succeed,
    "identity": lambda: "me",
    "immediate": lambda: True,
    "index_name": lambda: "by-name",
    "indexed_value": lambda: "a",
    "indexer": cache.Indexer,
    "indexers": lambda: {"by-name": succeed},
    "info": make_node,
    "informers": make_factory,
    "initial": lambda: 1,
    "interval": lambda: 1,
    "jitter": lambda: 1.0,
    "jitter_factor": lambda: 1.0,
    "key": lambda: "ci-1/a",
    "key_func": lambda: cache.meta_namespace_key_func,
    "label_selector": lambda: "app=web",
    "leads": lambda: succeed,
    "lister_watcher": make_list_watch,
    "lock": Fake,
    "max_factor": lambda: 1.0,
    "maximum": lambda: 2,
    "name": lambda: "a",
    "namespace": lambda: "ci-1",
    "node": lambda: node("n1"),
    "node_lister": Fake,
    "obj": lambda: pod_at("a"),
    "on_started_leading": lambda: succeed,
    "on_stopped_leading": lambda: succeed,
    "parent": lambda: wait.background(FakeClock()),
    "passes": lambda: succeed,
    "period": lambda: 1,
    "pod": lambda: pod_at("a"),
    "predicate": lambda: "NodeName",
    "predicates": lambda: ["NodeName"],
    "priorities": lambda: {"NodeAffinity": 1},
    "priority": lambda: "NodeAffinity",
    "reason": lambda: "busy",
    "reasons": lambda: ("busy",),
    "record": leaderelection.LeaderElectionRecord,
    "registration": lambda: make_informer().add_event_handler(add=succeed),
    "rejections": list,
    "reset": lambda: 1,
    "reset_interval": lambda: 1,
    "resource": lambda: PODS,
    "resync": lambda: 1,
    "selector": lambda: "app=web",
    "session": FakeApiServer,
    "sliding": lambda: True,
    "stop": make_event,
    "store": Fake,
    "synced": lambda: succeed,
    "timeout": lambda: 1,
    "tolerance": lambda: 1,
    "transform": lambda: dict,
    "tweak_list_options": lambda: succeed,
    "wait": lambda: wait.poller(1, 2),
    "what": lambda: "pods",
    "names": lambda: frozenset({"n1"}),
    "callback": lambda: succeed,
}
# Arguments with a value of their own in one function.
OWN_VALUES: dict[tuple[str, str], Callable[[], object]] = {
    ("FitError", "rejections"): lambda: "busy",
    ("Indexer.add_indexers", "indexers"): lambda: {"other": succeed},
    ("backoff_until", "backoff"): Fake,
    ("backoff_until_with_context", "backoff"): Fake,
}
INSTANCES: dict[str, Callable[[], object]] = {
    "Algorithm": scheduler.Algorithm,
    "Backoff": lambda: wait.Backoff(1, 2.0, steps=3),
    "Context": lambda: wait.background(FakeClock()),
    "DelayFunc": lambda: wait.DelayFunc(lambda: 1.0),
    "Group": wait.Group,
    "Indexer": lambda: cache.Indexer(indexers={"by-name": lambda obj: ["a"]}),
    "LeaderElector": lambda: make(leaderelection.LeaderElector),
    "LeaseLock": lambda: leaderelection.LeaseLock(ApiClient(), "ci-1", "lock", "me"),
    "Lister": lambda: cache.Lister(cache.Indexer(), PODS),
    "NamespaceLister": lambda: cache.NamespaceLister(cache.Indexer(), PODS, "ci-1"),
    "NodeInfo": make_node,
    "Scheduler": lambda: make(scheduler.Scheduler),
    "SharedInformer": make_informer,
    "SharedInformerFactory": make_factory,
    "Signal": cache.Signal,
    "Store": cache.Store,
}
# What the packages make themselves, and hand out or give to functions of users.
MADE_BY_THE_PACKAGES = {
    "AlgorithmError",
    "Config",
    "CycleState",
    "DeletedFinalStateUnknown",
    "Delta",
    "HandlerRegistration",
    "InvalidNode",
    "InvalidObject",
    "InvalidPod",
    "LeaderElectionRecord",
    "ListOptions",
    "TransformError",
    "VeryShortWatchError",
}
# Methods that the packages call; users implement them.
CALLED_BY_THE_PACKAGES = {
    "ListWatch",
    "FilteringResourceEventHandler",
    "FixedTimer",
    "NewLeaderNotifier",
    "NoopTimer",
    "Reflector",
    "ResourceEventHandlerFuncs",
    "VariableTimer",
}
ANY_VALUE = {
    # What the reflector gives to a store.
    *((f"Store.{method}", "raw") for method in ("add", "update", "delete")),
    ("Store.replace", "items"),
    ("Store.replace", "resource_version"),
    ("Store.bookmark", "resource_version"),
    # What predicates and priorities of the package give to a node.
    *((f"NodeInfo.{method}", "key") for method in ("count", "cache")),
    ("NodeInfo.count", "matches"),
    ("NodeInfo.cache", "number"),
    ("NodeInfo.selected", "namespace"),
    ("NodeInfo.selected", "selector"),
    # Compared with what was stored.
    ("Indexer.by_index", "indexed_value"),
    ("Indexer.index_keys", "indexed_value"),
    # A TypedDict, which is checked where it is used.
    ("ListWatch", "type"),
    # A Python int, str or None, which the package sets.
    ("Context", "at"),
    ("Context", "channel"),
    ("Context", "parent"),
    ("Context", "stop"),
    # The texts of errors.
    ("Canceled", "message"),
    ("DeadlineExceeded", "message"),
    ("ErrWaitTimeout", "message"),
}


def make(function: Callable[..., Any], owner: str = "", /, **given: object) -> Any:
    """Call a function with valid values for what it requires, and those that are given."""
    name = f"{owner}.{function.__name__}".lstrip(".")
    positional: list[object] = []
    named: dict[str, object] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in given:
            value = given[parameter.name]
        elif parameter.default is not parameter.empty:
            continue
        else:
            value = OWN_VALUES.get((name, parameter.name), VALUES.get(parameter.name, Wrong))()
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional, named = [*named.values(), value], {}
        else:
            named[parameter.name] = value
    return function(*positional, **named)


def get_value(value: Any) -> Any:
    return value


def get_method(name: str, method: str) -> Any:
    return getattr(INSTANCES[name](), method)


def list_functions() -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """Yield what the modules export and takes arguments, by name, with a function that gets it."""
    exported = {name: getattr(module, name) for module in MODULES for name in module.__all__}
    exported |= {"cache.wait_for": cache.wait_for, "choose_algorithm": choose_algorithm}
    for name, value in exported.items():
        if inspect.isfunction(value):
            yield name, partial(get_value, value)
        if (
            not inspect.isclass(value)
            or getattr(value, "_is_protocol", False)
            or issubclass(value, enum.Enum)
            or name in MADE_BY_THE_PACKAGES
        ):
            continue
        yield name, partial(get_value, value)
        if name in CALLED_BY_THE_PACKAGES:
            continue
        for method, function in vars(value).items():
            if (
                not method.startswith("_")
                and inspect.isfunction(function)
                and len(inspect.signature(function).parameters) > 1
            ):
                yield f"{name}.{method}", partial(get_method, name, method)


def list_arguments() -> Iterator[tuple[str, str, Callable[[], Callable[..., Any]]]]:
    """Yield each argument of each function."""
    for name, get in list_functions():
        for argument in inspect.signature(get()).parameters:
            if (name, argument) not in ANY_VALUE:
                yield name, argument, get


def find_error(*function: Any, **given: object) -> Exception | None:
    """Return the error of a call; None without one."""
    try:
        make(*function, **given)
    except Exception as error:
        return error
    return None


ARGUMENTS = list(list_arguments())


def test_an_argument_of_a_wrong_type_is_named_with_its_value() -> None:
    def check(row: tuple[str, str, Callable[[], Callable[..., Any]]]) -> None:
        name, argument, get = row
        error = find_error(get(), name.rpartition(".")[0], **{argument: Wrong()})
        assert isinstance(error, InvalidArgument), repr(error)
        assert argument in error.what or error.what in argument, error
        assert "<wrong>" in str(error)

    check_rows(ARGUMENTS, check, name=lambda row: f"{row[0]}({row[1]}=…)")


def test_an_async_function_is_refused_where_nothing_awaits_it() -> None:
    functions = [
        row
        for row in ARGUMENTS
        if OWN_VALUES.get(row[:2], VALUES.get(row[1], Wrong))() in (succeed, fail)
    ] + [
        (name, argument, get)
        for name, argument, get in ARGUMENTS
        if argument in ("add", "update", "delete", "on_error", "on_new_leader", "send_list")
    ]

    def check(row: tuple[str, str, Callable[[], Callable[..., Any]]]) -> None:
        name, argument, get = row
        with pytest.raises(InvalidArgument) as caught:
            make(get(), name.rpartition(".")[0], **{argument: answer_later})
        assert caught.value.what == argument
        assert caught.value.valid == "use a function that is not async: its result is not awaited"

    assert len(functions) > 50
    check_rows(functions, check, name=lambda row: f"{row[0]}({row[1]}=…)")


def refuse_requests() -> Any:
    raise AssertionError("the cluster is asked with a wrong argument")


def list_controls() -> list[tuple[str, Any]]:
    """Return what the fixture `kwait_cluster` has, with the method `pods` of the cluster itself."""
    faults = Faults(refuse_requests, "fake", lambda: FaultScope("ci-1", alone=True))
    return [
        ("faults", faults),
        ("images", Images(refuse_requests, "fake")),
        ("exploration", ExplorationControl(refuse_requests, "fake")),
        ("scripts", script_pods(faults, "app=web", "", "", None)),
    ]


# Valid values by the names of arguments of the controls.
CONTROL_VALUES: dict[str, object] = {
    "command": ["true"],
    "level": "usual",
    "lines": ["a"],
    "resource": "disk",
    "seconds": 1,
    "seed": 1,
    "status": 429,
}
# What the controls hand on, or the server checks.
UNCHECKED_CONTROLS = {
    ("exploration.start", "level"),
    ("exploration.start", "seed"),
    ("faults.rule", "fault"),
    ("faults.rule", "namespace"),
}


def test_an_argument_of_a_control_of_the_cluster_is_named_with_its_value() -> None:
    rows: list[tuple[str, str, Callable[..., Any]]] = [
        (f"{owner}.{name}", argument, method)
        for owner, control in list_controls()
        for name, method in inspect.getmembers(control, inspect.ismethod)
        if not name.startswith("_")
        for argument in inspect.signature(method).parameters
        if (f"{owner}.{name}", argument) not in UNCHECKED_CONTROLS
    ]
    rows += [("script_pods", name, script_pods) for name in ("label", "name", "container")]
    rows.append(("script_pods", "namespace", script_pods))

    def check(row: tuple[str, str, Callable[..., Any]]) -> None:
        _, argument, function = row
        required = {
            name: CONTROL_VALUES.get(name, "a")
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.default is parameter.empty or name == "namespace"
        }
        if function is script_pods:
            required |= {"faults": None, "label": "app=web"}
        elif argument != "namespace":
            required.pop("namespace", None)
        with pytest.raises(InvalidArgument, match="<wrong>") as caught:
            function(**required | {argument: Wrong()})
        named = "image" if argument == "pattern" else argument
        assert caught.value.what.split()[-1] == named

    assert len(rows) > 40
    check_rows(rows, check, name=lambda row: f"{row[0]}({row[1]}=…)")


SCHEDULER_NAMES = "use one or more names, or names to algorithms"


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (
            choose_algorithm,
            {"priorities": ["NodeAffinity"]},
            "priorities=['NodeAffinity'] is not valid: use a mapping of names or functions to "
            "weights: {'NodeAffinity': 2}",
        ),
        (
            choose_algorithm,
            {"predicates": 3},
            "predicates=3 is not valid: use a list of names or functions: ['NodeName']",
        ),
        (
            choose_algorithm,
            {"algorithm": answer_later},
            f"algorithm={answer_later} is not valid: use a function that is not async: its result "
            "is not awaited",
        ),
        (
            scheduler.ConfigFactory,
            {"binder": 3},
            "binder=3 is not valid: use a function binder(pod, node, deadline=…)",
        ),
        (
            scheduler.ConfigFactory,
            {"algorithm": 3},
            "algorithm=3 is not valid: use an object with schedule(pod, node_lister)",
        ),
        (
            scheduler.ConfigFactory,
            {"scheduler_names": 3},
            f"scheduler_names=3 is not valid: {SCHEDULER_NAMES}",
        ),
        (
            scheduler.ConfigFactory,
            {"scheduler_names": [3]},
            f"scheduler_names=[3] is not valid: {SCHEDULER_NAMES}",
        ),
        (
            scheduler.ConfigFactory,
            {"scheduler_names": {"mine": 3}},
            "scheduler_names['mine']=3 is not valid: use an object with schedule(pod, node_lister)",
        ),
        (
            scheduler.ConfigFactory,
            {"request_timeout": 0},
            "request_timeout=0 is not valid: use seconds (90), a timedelta, or a Go duration "
            "('500ms', '90s', '1m30s'), above zero",
        ),
        (
            scheduler.ConfigFactory,
            {"informers": 3},
            "informers=3 is not valid: use a SharedInformerFactory, or None for own informers",
        ),
        (
            make_factory().informer_for,
            {"resource": 3},
            "resource=3 is not valid: use a resource, or its name as in kubectl: 'pods', "
            "'jobs.batch'",
        ),
        (
            cache.SharedInformerFactory,
            {"namespace": ""},
            "namespace='' is not valid: use the name of a namespace, or None for all",
        ),
        (
            scheduler.Rejection,
            {"reasons": "busy"},
            "reasons='busy' is not valid: use a tuple of texts: ('busy',)",
        ),
        (wait.poll, {"condition": 3}, "condition=3 is not valid: use a function"),
        (
            wait.poll_until_context_cancel,
            {"immediate": "yes"},
            "immediate='yes' is not valid: use True or False",
        ),
        (wait.until_with_context, {"ctx": 3}, "ctx=3 is not valid: use a wait.Context"),
        (
            wait.wait_for,
            {"wait": lambda ctx: 3, "done": wait.NEVER_STOP},
            "answer of wait=3 is not valid: return an iterable of ticks",
        ),
        (wait.Backoff, {"factor": "2"}, "factor='2' is not valid: use a number"),
        (wait.jitter, {"max_factor": None}, "max_factor=None is not valid: use a number"),
        (
            wait.background,
            {"clock": 3},
            "clock=3 is not valid: use a Clock, as pytest_kwait.testing.FakeClock()",
        ),
        (
            cache.SharedInformer,
            {"relist_interval": 0},
            "relist_interval=0 is not valid: use seconds (90), a timedelta, or a Go duration "
            "('500ms', '90s', '1m30s'), above zero",
        ),
        (
            leaderelection.LeaderElector,
            {"lock": 3},
            "lock=3 is not valid: use a LeaseLock, or an object with identity, get, create, update "
            "and describe",
        ),
    ],
    ids=count(),
)
def test_the_text_of_a_wrong_argument(
    function: Callable[..., Any], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make(function, **arguments)
    assert str(caught.value) == message
