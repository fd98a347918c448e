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


def rows(folder: Path) -> list[Any]:
    """The rows of all tables of a folder, each as a parameter."""
    return [
        pytest.param(row, id=f"{path.stem}-{row['what']}")
        for path in sorted(folder.glob("tables/*.yaml"))
        for row in yaml.load(path.read_text(), Loader=_LOADER)
    ]


def check_row(api: SimulatedCluster, row: Obj) -> None:
    """Send the row's manifest and compare what comes back."""
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
            raise
        causes = (error.details or {}).get("causes", ())
        refused = [f"{cause['field']}: {cause['message']}" for cause in causes]
    assert refused == row.get("refused", [])
    assert caller.warnings == row.get("warned", [])
    if "stored" in row:
        stored: Any = created.get("spec", created.get("template"))
        assert (_of_the_manifest(stored) if row["kind"] == "pods" else stored) == row["stored"]


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
