"""A made-up built-in resource, `gadgetclasses.example.k8s.io`, added as CONTRIBUTING says.

Its generated data is that of RuntimeClass under other names. A process of its own imports this
module before any that reads the data.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.field_errors import ErrorList
from pytest_kwait.simulator import generated_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj

RESOURCE = "gadgetclasses.example.k8s.io"
RENAMED = (
    ("RuntimeClass", "GadgetClass"),
    ("runtimeclass", "gadgetclass"),
    ("api.node.v1", "api.example.v1"),
    ("node.k8s.io", "example.k8s.io"),
)


def rename(value: Any) -> Any:
    text = json.dumps(value)
    for old, new in RENAMED:
        text = text.replace(old, new)
    return json.loads(text)


def add_copies(data: Any) -> None:
    """Add a copy under the other names to each table that has the original."""
    if not isinstance(data, dict):
        return
    for key, value in [*data.items()]:
        if rename(key) != key:
            data.setdefault(rename(key), rename(value))
        else:
            add_copies(value)


def add_data() -> None:
    """Step 1: what `tools.simulator_data` generates from a server that has the resource."""
    read_data: Callable[[str], Any] = generated_data.read_data

    def read(name: str) -> Any:
        data = read_data(name)
        add_copies(data)
        if name == "resources.json.gz":
            groups = data["groups"]
            groups.append(rename(next(one for one in groups if one["name"] == "node.k8s.io")))
        return data

    generated_data.read_data = read


def add_strategy() -> None:
    """Steps 2 and 3: a strategy, its row and its validation."""
    from pytest_kwait.simulator.registry import core, strategy

    def validate_gadget_class(obj: Obj) -> ErrorList:
        errors = ErrorList()
        if obj.get("handler") == "broken":
            errors.invalid("handler", "broken", "must work")
        return errors

    class GadgetClassStrategy(strategy.Strategy):
        validate_create = staticmethod(validate_gadget_class)

        def prepare_for_create(self, obj: Obj) -> None:
            super().prepare_for_create(obj)
            obj["handler"] = obj.get("handler") or "wheel"

    core.GadgetClassStrategy = GadgetClassStrategy  # type: ignore[attr-defined]
    strategy._STRATEGIES[RESOURCE] = ("registry.core", "GadgetClassStrategy")


def add_storage() -> None:
    """Step 4: a REST storage of its own."""
    from pytest_kwait.simulator.registry import core, generic_store, rest_storages

    class GadgetClassREST(generic_store.GenericStore):
        def begin_create(self, new: Obj, caller: Any) -> Callable[[], None]:
            new["metadata"].setdefault("labels", {})["stored"] = "here"
            return super().begin_create(new, caller)

    core.GadgetClassREST = GadgetClassREST  # type: ignore[attr-defined]
    rest_storages._STORAGES[RESOURCE, ""] = ("registry.core", "GadgetClassREST")


def add_columns() -> None:
    """Step 5: the columns of `kubectl get`."""
    from pytest_kwait.simulator.protocol.printers import cluster_cells, columns

    columns.BUILT_IN_COLUMNS[RESOURCE] = columns._parse_columns(
        cluster_cells.runtime_class_cells, "Name|Handler|Age"
    )


def add_fields() -> None:
    """Step 6: the fields that selectors may name."""
    from pytest_kwait.simulator import selectors

    selectors._FIELDS[RESOURCE] = ("handler",)


def print_answers() -> None:
    """Print what a cluster does with the resource."""
    from pytest_kwait.simulator.api_errors import StatusError
    from pytest_kwait.simulator.apiserver.tables import to_table
    from pytest_kwait.simulator.selectors import parse_fields
    from tests.simulator.cluster import new_cluster

    api = new_cluster()
    kind = api.kind_of(RESOURCE)
    created = api.create(RESOURCE, {"metadata": {"name": "a"}, "handler": "", "unknown": 1})
    table = to_table(kind, [created], {}, {})
    try:
        api.create(RESOURCE, {"metadata": {"name": "b"}, "handler": "broken"})
        refusal = ""
    except StatusError as error:
        refusal = error.message
    try:
        selected = parse_fields("handler=wheel", kind).matches(created)
    except StatusError:
        selected = None
    answers = {
        "kind": [kind.api_version, kind.kind, kind.namespaced],
        "handler": created["handler"],
        "labels": created["metadata"].get("labels"),
        "fields": sorted(created),
        "columns": [column["name"] for column in table["columnDefinitions"]],
        "refusal": refusal,
        "selected": selected,
    }
    print(json.dumps(answers))


STEPS = {
    "data": add_data,
    "strategy": add_strategy,
    "storage": add_storage,
    "columns": add_columns,
    "fields": add_fields,
}
