"""What was seen of one scenario: for each object its milestones in their order, and its events.

Objects are named alike on every cluster: `replicaset/web-1` is the first of a deployment's,
`pod/web-1-*` is any of its pods. Pods that cannot be told apart share a name: each is an instance.
The node that a scenario makes for itself is `node/{ns}`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.scenarios.milestones import Obj, list_milestones, parse_count

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["GONE", "Instance", "Timeline"]

GONE = "gone"
_ANSWERS = "answers/steps"
_NODE = "node/{ns}"
_NOISE = frozenset({"serviceaccount/default", "configmap/kube-root-ca.crt"})
"""What each namespace has, whatever happens in it."""


@dataclass
class Instance:
    """One object, from its first sight to its last."""

    kind: str
    name: str
    owner: str
    """As `kind/name`; empty without a controller."""
    index: str
    """The completion index of a job's pod; empty elsewhere."""
    revision: int
    """Of the cluster, when the object was first seen."""
    now: frozenset[str] = frozenset()
    seen: dict[str, int] = field(default_factory=dict)
    """Each milestone, and at which of the object's changes it was first seen."""
    changes: int = 0
    events: set[str] = field(default_factory=set)

    def observe(self, told: frozenset[str]) -> None:
        """Take over what is said of the object now."""
        self.now = told
        self.changes += 1
        for milestone in told:
            self.seen.setdefault(milestone, self.changes)


class Timeline:
    """One scenario as it is lived through."""

    def __init__(self) -> None:
        self._instances: dict[str, Instance] = {}
        self._events: dict[str, set[str]] = {}
        self._answers = Instance("answers", "steps", "", "", 0)
        self.ready: set[str] = set()
        """What each namespace has, as far as it was seen."""

    def observe(self, change: str, obj: Obj) -> None:
        """Take over one change of a watch."""
        if obj["kind"] == "Event":
            about = obj["involvedObject"]
            key = f"{about.get('kind', '').lower()}/{about.get('name', '')}"
            self._events.setdefault(key, set()).add(f"{obj.get('type')} {obj.get('reason')}")
            return
        metadata = obj["metadata"]
        key = f"{obj['kind'].lower()}/{metadata['name']}"
        if key in _NOISE:
            self.ready.add(key)
            return
        uid = metadata["uid"]
        if uid not in self._instances:
            self._instances[uid] = _instance(obj)
        told = frozenset({GONE}) if change == "DELETED" else list_milestones(obj)
        self._instances[uid].observe(told)

    def answered(self, text: str) -> None:
        """Take over what the server said to an action."""
        self._answers.observe(self._answers.now | {text})

    @property
    def set_up(self) -> bool:
        """Whether the namespace has what controllers make in each."""
        return self.ready == _NOISE

    def objects(self) -> dict[str, list[Instance]]:
        """Every instance, by the name that it has on every cluster."""
        sets = _numbered([each for each in self._instances.values() if each.kind == "replicaset"])
        owners = {f"{each.kind}/{each.name}": each for each in self._instances.values()}
        found: dict[str, list[Instance]] = {}
        for instance in self._instances.values():
            found.setdefault(_key(instance, owners, sets), []).append(instance)
        if self._answers.changes:
            found[_ANSWERS] = [self._answers]
        return found

    def events(self) -> dict[str, set[str]]:
        """The types and reasons of what was told of each object."""
        told: dict[str, set[str]] = {}
        names = {
            f"{instance.kind}/{instance.name}": key
            for key, instances in self.objects().items()
            for instance in instances
        }
        for key, reasons in self._events.items():
            told.setdefault(names.get(key, key), set()).update(reasons)
        return told

    def name_of(self, key: str) -> str:
        """The name, on this cluster, of a living object that is `key` on every cluster."""
        kind, _, name = key.partition("/")
        if not name.endswith("*") and kind != "replicaset":
            return name
        living = (each for each in self.objects().get(key, ()) if GONE not in each.now)
        return min((each.name for each in living), default=name)

    def holds(self, wish: str) -> bool:
        """Whether what a scenario waits for was seen.

        Args:
            wish: `[now] [NUMBER] KIND/NAME MILESTONE[, MILESTONE...]`: that so many instances (one)
                have seen, or have at present, all of the milestones, a condition with any reason
                where none is given, a count of at least so many for `restarts>=2`;
                `KIND/NAME event TYPE REASON`: that it was told.
        """
        first, _, rest = wish.partition(" ")
        present = first == "now"
        if present:
            first, _, rest = rest.partition(" ")
        number = 1
        if first.isdigit():
            number = int(first)
            first, _, rest = rest.partition(" ")
        if rest.startswith("event "):
            return rest.removeprefix("event ") in self.events().get(first, ())
        wanted = rest.split(", ")
        return number <= sum(
            all(_among(each.now if present else each.seen, one) for one in wanted)
            for each in self.objects().get(first, ())
        )

    def as_json(self) -> dict[str, Any]:
        """Everything that is compared."""
        return {
            "objects": {
                key: [
                    {"seen": each.seen, "now": sorted(each.now)}
                    for each in sorted(instances, key=lambda one: one.revision)
                ]
                for key, instances in sorted(self.objects().items())
            },
            "events": {key: sorted(told) for key, told in sorted(self.events().items())},
        }


def _among(milestones: Iterable[str], wanted: str) -> bool:
    """Whether the milestone is there, whatever its reason where none is wanted."""
    counted, at_least, number = wanted.partition(">=")
    if at_least:
        counts = filter(None, map(parse_count, milestones))
        return any(name == counted and int(number) <= count for name, count in counts)
    return any(each == wanted or each.startswith(f"{wanted} ") for each in milestones)


def _instance(obj: Obj) -> Instance:
    metadata = obj["metadata"]
    owner = next(
        (
            f"{each['kind'].lower()}/{each['name']}"
            for each in metadata.get("ownerReferences") or ()
            if each.get("controller")
        ),
        "",
    )
    index = (metadata.get("annotations") or {}).get("batch.kubernetes.io/job-completion-index", "")
    revision = int(metadata["resourceVersion"])
    return Instance(obj["kind"].lower(), metadata["name"], owner, index, revision)


def _numbered(sets: list[Instance]) -> dict[str, int]:
    """Which of its deployment's replica sets each is."""
    numbers: dict[str, int] = {}
    by_owner: dict[str, int] = {}
    for each in sorted(sets, key=lambda one: one.revision):
        by_owner[each.owner] = numbers[each.name] = by_owner.get(each.owner, 0) + 1
    return numbers


def _key(instance: Instance, owners: dict[str, Instance], sets: dict[str, int]) -> str:
    if instance.kind == "node":
        return _NODE
    kind, _, owner = instance.owner.partition("/")
    if not kind or kind == "statefulset":
        return f"{instance.kind}/{instance.name}"
    if instance.kind == "replicaset":
        return f"replicaset/{owner}-{sets[instance.name]}"
    above = owners.get(instance.owner)
    if above is not None:
        owner = _key(above, owners, sets).partition("/")[2]
    index = f"-{instance.index}" if instance.index else ""
    return f"{instance.kind}/{owner}{index}-*"
