from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from tests.objects import pod

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

Obj = dict[str, Any]


def limit(api: SimulatedCluster, kind: str, name: str = "l", **fields: Obj) -> Obj:
    spec = {"limits": [{"type": kind, **fields}]}
    made = api.create("limitranges", {"metadata": {"name": name}, "spec": spec}, "default")
    (stored,) = made["spec"]["limits"]
    return dict(stored)


def limited(name: str = "c", **resources: Obj) -> Obj:
    return {"name": name, "image": "x", "resources": resources}


def refused(api: SimulatedCluster, *containers: Obj, **spec: Any) -> str:
    with pytest.raises(StatusError) as error:
        api.create("pods", pod(containers=list(containers), **spec), "default")
    assert (error.value.code, error.value.reason) == (403, "Forbidden")
    return error.value.message.removeprefix('pods "p" is forbidden: ')


def test_limit_range_defaults_follow_from_bounds(api: SimulatedCluster) -> None:
    stored = limit(api, "Container", min={"cpu": "1", "memory": "1Mi"}, max={"cpu": "2"})
    assert stored["default"] == {"cpu": "2"}
    assert stored["defaultRequest"] == {"cpu": "2", "memory": "1Mi"}


def test_containers_get_default_requests_and_limits(api: SimulatedCluster) -> None:
    limit(api, "Container", default={"cpu": "1", "memory": "1Gi"}, defaultRequest={"cpu": "500m"})
    made = pod(containers=[limited(limits={"cpu": "2"})], initContainers=[limited("i")])
    stored = api.create("pods", made, "default")
    (main,), (start,) = stored["spec"]["containers"], stored["spec"]["initContainers"]
    assert main["resources"] == {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "2", "memory": "1Gi"},
    }
    assert start["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert stored["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: memory request for container c; "
        "memory limit for container c; cpu, memory request for init container i; cpu, memory limit "
        "for init container i"
    }


def test_pod_templates_get_no_defaults(api: SimulatedCluster) -> None:
    limit(api, "Container", default={"cpu": "1"})
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [limited()]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    made = api.create("deployments.apps", {"metadata": {"name": "d"}, "spec": spec}, "default")
    assert made["spec"]["template"]["spec"]["containers"][0]["resources"] == {}


@pytest.mark.parametrize(
    ("bounds", "resources", "why"),
    [
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "999m"}},
            "minimum cpu usage per Container is 1, but request is 999m",
        ),
        (
            {"max": {"memory": "1Gi"}},
            {"limits": {"memory": "1025Mi"}},
            "maximum memory usage per Container is 1Gi, but limit is 1025Mi",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "100m"}, "limits": {"cpu": "250m"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"memory": "1Mi"}},
            "cpu max limit to request ratio per Container is 2, but no request is specified or "
            "request is 0",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit "
            "is 0",
        ),
        (
            {"max": {"cpu": "1", "memory": "1Gi"}},
            {"limits": {"cpu": "2", "memory": "2Gi"}},
            "[maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per "
            "Container is 1Gi, but limit is 2Gi]",
        ),
    ],
)
def test_container_limits_are_enforced(
    api: SimulatedCluster, bounds: Obj, resources: Obj, why: str
) -> None:
    limit(api, "Container", **bounds)
    assert refused(api, limited(**resources)) == why


def test_pod_limits_are_enforced(api: SimulatedCluster) -> None:
    limit(api, "Pod", max={"cpu": "1"}, min={"memory": "2Mi"})
    half = {"cpu": "600m", "memory": "1Mi"}
    both = [limited("c", limits=half), limited("d", limits=half)]
    assert refused(api, *both) == "maximum cpu usage per Pod is 1, but limit is 1200m"
    assert refused(api, limited(limits={"memory": "2Mi"})) == (
        "maximum cpu usage per Pod is 1.  No limit is specified"
    )
    assert refused(api, limited(limits={"cpu": "1"})) == (
        "minimum memory usage per Pod is 2Mi.  No request is specified"
    )
    whole = {"limits": {"cpu": "1"}, "requests": {"memory": "2Mi"}}
    assert api.create("pods", pod(containers=[limited()], resources=whole), "default")


def test_claim_limits_are_enforced(api: SimulatedCluster) -> None:
    limit(api, "PersistentVolumeClaim", max={"storage": "2Gi"}, min={"storage": "1Gi"})

    def claim(size: str) -> str:
        resources = {"requests": {"storage": size}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
        made = {"metadata": {"name": "c"}, "spec": spec}
        with pytest.raises(StatusError) as error:
            api.create("persistentvolumeclaims", made, "default")
        return error.value.message.partition(" is forbidden: ")[2]

    end = "usage per PersistentVolumeClaim is"
    assert claim("3Gi") == f"maximum storage {end} 2Gi, but request is 3Gi"
    assert claim("3Mi") == f"minimum storage {end} 1Gi, but request is 3Mi"


def test_existing_pods_are_not_checked(api: SimulatedCluster) -> None:
    api.create("pods", pod(), "default")
    limit(api, "Pod", max={"cpu": "1"})

    def mark(changed: Obj) -> None:
        changed["metadata"]["labels"] = {"a": "b"}

    assert api.modify("pods", "p", "default", mark)["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (
            [{"type": "Odd"}],
            'spec.limits[0].type: Invalid value: "Odd": must be a standard limit type or fully '
            "qualified",
        ),
        ([{"type": "Pod"}, {"type": "Pod"}], 'spec.limits[1].type: Duplicate value: "Pod"'),
        (
            [{"type": "Pod", "default": {"cpu": "1"}}],
            "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
        ),
        (
            [{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}}],
            'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
        ),
        (
            [{"type": "PersistentVolumeClaim"}],
            "spec.limits[0].limits: Required value: either minimum or maximum storage value is "
            "required, but neither was provided",
        ),
        (
            [{"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}}],
            'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less '
            "than 1",
        ),
    ],
)
def test_contradictory_limit_ranges_are_rejected(
    api: SimulatedCluster, limits: list[Obj], why: str
) -> None:
    made = {"metadata": {"name": "l"}, "spec": {"limits": limits}}
    with pytest.raises(StatusError) as error:
        api.create("limitranges", made, "default")
    assert (error.value.code, error.value.message) == (422, f'LimitRange "l" is invalid: {why}')
