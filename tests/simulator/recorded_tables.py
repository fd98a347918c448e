"""Tables of manifests with what a real server says of them: its causes, warnings and defaults.

What a real server adds by admission alone (tokens, tolerations, accounts) is not in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.request_info import Caller

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.simulator.cluster import SimulatedCluster

Obj = dict[str, Any]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

UNPROCESSABLE = 422
_BY_ADMISSION = (
    "serviceAccount",
    "serviceAccountName",
    "priority",
    "preemptionPolicy",
    "schedulerName",
)


def tables(folder: Path) -> list[Any]:
    """Return the paths of the tables of a folder, each as a parameter."""
    return [pytest.param(path, id=path.stem) for path in sorted(folder.glob("tables/*.yaml"))]


def check_table(api: SimulatedCluster, table: Path) -> None:
    """Send the manifest of each row and compare what comes back."""
    rows = yaml.load(table.read_text(), Loader=_LOADER)
    answers = [_answer(api, row) for row in rows]
    wrong = [
        f"{row['what']}: {field}\n  recorded: {row.get(field)}\n  here:     {answer[field]}"
        for row, answer in zip(rows, answers, strict=True)
        for field in answer
        if answer[field] != row.get(field, [])
    ]
    assert rows
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def _answer(api: SimulatedCluster, row: Obj) -> Obj:
    """Send a row's manifest; return what is refused, warned of and, where recorded, stored."""
    kind = api.kind_of(row["kind"])
    if "version" in row:
        served = api.kinds.served(kind.group, row["version"]) or {}
        kind = served[kind.plural]
    caller = Caller(dry_run=True, field_validation="Warn")
    refused: list[str] = []
    created: Obj = {}
    try:
        created = api.create(kind, clone(row["body"]), "default", caller=caller)
    except StatusError as error:
        if error.code != UNPROCESSABLE:
            error.add_note(row["what"])
            raise
        causes = (error.details or {}).get("causes", ())
        refused = [f"{cause['field']}: {cause['message']}" for cause in causes]
    answer: Obj = {"refused": refused, "warned": caller.warnings}
    if "stored" in row:
        stored: Any = created.get("spec", created.get("template"))
        answer["stored"] = _of_the_manifest(stored) if row["kind"] == "pods" else stored
    return answer


def _of_the_manifest(spec: Obj) -> Obj:
    """A pod's spec without what admission adds."""
    spec = {field: value for field, value in clone(spec).items() if field not in _BY_ADMISSION}
    for field in ("containers", "initContainers"):
        for container in spec.get(field, ()):
            _without(container, "volumeMounts", lambda one: "kube-api-access" in one["name"])
    _without(spec, "volumes", lambda one: "kube-api-access" in one["name"])
    _without(spec, "tolerations", lambda one: "tolerationSeconds" in one)
    return spec


def _without(holder: Obj, field: str, added: Any) -> None:
    if field in holder:
        holder[field] = [one for one in holder[field] if not added(one)]
        if not holder[field]:
            del holder[field]
