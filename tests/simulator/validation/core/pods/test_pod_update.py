from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.validation.core.pods.pod_update import (
    validate_pod_status_update,
    validate_pod_update,
)
from tests.objects import pod
from tests.simulator.cluster import new_cluster

Obj = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def terms(*keys: str) -> Obj:
    rules = [{"key": key, "operator": "Exists"} for key in keys]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": rules}]}}}


def texts(old: Obj, change: Obj, **metadata: Any) -> list[str]:
    """What is said of a change of fields of the spec, None for fields that go."""
    api = new_cluster()
    stored = api.create("pods", pod(**old), "default")
    new = clone(stored)
    for field, value in change.items():
        if value is None:
            del new["spec"][field]
        else:
            new["spec"][field] = value
    new["metadata"].update(metadata)
    found = validate_pod_update(new, stored)
    return [str(one) for one in found]


@pytest.mark.parametrize(
    ("old", "change", "found"),
    [
        (
            {},
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
            [
                "spec.tolerations: Forbidden: existing toleration can not be modified except its "
                "tolerationSeconds"
            ],
        ),
        (
            {"containers": [{"name": "c", "image": "a:1"}]},
            {"containers": []},
            [
                "spec.containers: Required value",
                "spec.containers: Forbidden: pod updates may not add or remove containers",
            ],
        ),
        ({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 4}, []),
        (
            {"activeDeadlineSeconds": 5},
            {"activeDeadlineSeconds": 6},
            [
                "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to "
                "previous value"
            ],
        ),
        (
            {"activeDeadlineSeconds": 5},
            {"activeDeadlineSeconds": None},
            [
                "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive "
                "integer to nil value"
            ],
        ),
        (
            {"schedulingGates": [{"name": "a"}, {"name": "b"}]},
            {"schedulingGates": [{"name": "b"}]},
            [],
        ),
        (
            {"schedulingGates": [{"name": "a"}]},
            {"schedulingGates": [{"name": "b"}]},
            [
                "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new "
                "scheduling gate 'b'"
            ],
        ),
        ({"schedulingGates": [{"name": "a"}]}, {"nodeSelector": {"x": "y"}}, []),
        (
            {"schedulingGates": [{"name": "a"}], "nodeSelector": {"x": "y"}},
            {"nodeSelector": {"x": "z"}},
            [
                'spec.nodeSelector: Invalid value: {"x":"z"}: only additions to spec.nodeSelector '
                "are allowed (no mutations or deletions)"
            ],
        ),
        (
            {"schedulingGates": [{"name": "a"}], "affinity": terms("a")},
            {"affinity": terms("a", "b")},
            [],
        ),
        (
            {"schedulingGates": [{"name": "a"}], "affinity": terms("a")},
            {"affinity": terms("b")},
            [
                f'{TERMS}[0]: Invalid value: {{"MatchExpressions":[{{"Key":"b","Operator":'
                '"Exists","Values":null}],"MatchFields":null}: only additions are allowed (no '
                "mutations or deletions)"
            ],
        ),
        (
            {"schedulingGates": [{"name": "a"}], "affinity": terms("a")},
            {"affinity": None},
            [
                f"{TERMS}: Invalid value: null: no additions/deletions to non-empty "
                "NodeSelectorTerms list are allowed"
            ],
        ),
    ],
)
def test_mutable_pod_fields(old: Obj, change: Obj, found: list[str]) -> None:
    assert texts(old, change) == found


def test_an_image_may_change() -> None:
    api = new_cluster()
    stored = api.create("pods", pod(), "default")
    new = clone(stored)
    new["spec"]["containers"][0]["image"] = "a:2"
    assert api.update("pods", new)["metadata"]["generation"] == 2


def test_an_immutable_change_is_reported_as_a_diff() -> None:
    assert texts({}, {"hostname": "h", "subdomain": "<s>"}) == [
        'spec.subdomain: Invalid value: "<s>": a lowercase RFC 1123 label must consist of lower '
        "case alphanumeric characters or '-', and must start and end with an alphanumeric "
        "character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        "spec: Forbidden: pod updates may not change fields other than "
        "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
        "`spec.tolerations` (only additions to existing tolerations),"
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
        "negative)\n"
        "@@ -162,8 +162,8 @@\n"
        '   "SELinuxChangePolicy": null\n'
        "  },\n"
        '  "ImagePullSecrets": null,\n'
        '- "Hostname": "",\n'
        '- "Subdomain": "",\n'
        '+ "Hostname": "h",\n'
        '+ "Subdomain": "\\u003cs\\u003e",\n'
        '  "SetHostnameAsFQDN": null,\n'
        '  "Affinity": null,\n'
        '  "SchedulerName": "default-scheduler",\n',
    ]


def test_immutable_pod_annotations() -> None:
    armor = "container.apparmor.security.beta.kubernetes.io/main"
    assert texts({}, {}, annotations={armor: "unconfined"}) == [
        f"metadata.annotations[{armor}]: Forbidden: may not add AppArmor annotations"
    ]


@pytest.mark.parametrize(
    ("status", "before", "found"),
    [
        (
            {"conditions": [{"type": "Ready"}, {"type": "e/a", "observedGeneration": -1}]},
            {},
            [
                "status.conditions[1].observedGeneration: Invalid value: -1: must be a "
                "non-negative integer"
            ],
        ),
        (
            {"qosClass": "Guaranteed"},
            {"qosClass": "BestEffort"},
            ['status.qosClass: Invalid value: "Guaranteed": field is immutable'],
        ),
        (
            {"podIPs": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.2"}]},
            {},
            [
                'status.podIPs: Invalid value: [{"IP":"1.1.1.1"},{"IP":"1.1.1.2"}]: may specify '
                "no more than one IP for each IP family"
            ],
        ),
        ({"podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]}, {}, []),
        (
            {"hostIP": "1.1.1.1", "hostIPs": [{"ip": "::1"}]},
            {},
            ['status.hostIPs[0].ip: Invalid value: "::1": must be equal to `hostIP`'],
        ),
    ],
)
def test_pod_status(status: Obj, before: Obj, found: list[str]) -> None:
    errors = validate_pod_status_update({"status": status}, {"status": before})
    assert [str(one) for one in errors] == found
