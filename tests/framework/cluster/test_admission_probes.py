from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.framework.cluster.admission_probes import build_probe

RULE = {
    "operations": ["CREATE", "UPDATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"resources": ["*"], "apiGroups": ["*"]}, "ConfigMap"),
        ({"resources": ["*/*"], "operations": ["*"], "apiVersions": ["*"]}, "ConfigMap"),
        ({"resources": ["pods"]}, "Pod"),
        ({"resources": ["services", "pods"]}, "Service"),
        ({"resources": ["deployments"], "apiGroups": ["apps"]}, None),
        ({"resources": ["pods/exec"]}, None),
        ({"scope": "Cluster"}, None),
        ({"scope": "Namespaced"}, "ConfigMap"),
        ({"apiVersions": ["v2"]}, None),
    ],
)
def test_what_is_made_up(rule: Any, kind: str | None) -> None:
    found = build_probe([{"rules": [{**RULE, **rule}]}])

    assert (found[1]["kind"] if found else None) == kind
