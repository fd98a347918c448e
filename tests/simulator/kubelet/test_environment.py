from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.kubelet.environment import (
    ContainerConfigError,
    expand,
    get_sub_path,
    make_environment,
)
from pytest_kwait.simulator.kubelet.volumes import find_missing_volume, make_volume_files
from tests.simulator.controllers.cluster import NAMESPACE
from tests.simulator.manual_clock import ManualClock

Obj = dict[str, Any]
_NODE = {"spec.nodeName": "n1", "status.podIP": "10.0.0.1"}
# "secret" in base64.
_SECRET = "c2VjcmV0"


@pytest.fixture
def api() -> SimulatedCluster:
    made = SimulatedCluster(ManualClock())
    made.bootstrap()
    made.create("namespaces", {"metadata": {"name": NAMESPACE}})
    made.create("configmaps", {"metadata": {"name": "m"}, "data": {"k": "v", "l": "w"}}, NAMESPACE)
    made.create("secrets", {"metadata": {"name": "s"}, "data": {"k": _SECRET}}, NAMESPACE)
    return made


def _pod(**spec: Any) -> Obj:
    metadata = {"name": "p", "namespace": NAMESPACE, "uid": "u", "labels": {"a/b": "c"}}
    return {"metadata": metadata, "spec": {"containers": [], **spec}}


def _from(**origin: Any) -> Obj:
    return {"name": "X", "valueFrom": origin}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ({"name": "X", "value": "1"}, "1"),
        ({"name": "X", "value": "$(HOSTNAME)-$$(HOSTNAME)-$(NOPE)"}, "p-$(HOSTNAME)-$(NOPE)"),
        ({"name": "X"}, ""),
        (_from(configMapKeyRef={"name": "m", "key": "k"}), "v"),
        (_from(secretKeyRef={"name": "s", "key": "k"}), "secret"),
        (_from(configMapKeyRef={"name": "nope", "key": "k", "optional": True}), None),
        (_from(secretKeyRef={"name": "s", "key": "nope", "optional": True}), None),
        (_from(fieldRef={"fieldPath": "metadata.name"}), "p"),
        (_from(fieldRef={"fieldPath": "metadata.labels['a/b']"}), "c"),
        (_from(fieldRef={"fieldPath": "spec.nodeName"}), "n1"),
        (_from(fieldRef={"fieldPath": "status.podIP"}), "10.0.0.1"),
        (_from(resourceFieldRef={"resource": "limits.cpu"}), "2"),
    ],
)
def test_variables_from_all_sources(
    api: SimulatedCluster, variable: Obj, value: str | None
) -> None:
    container = {"env": [variable], "resources": {"limits": {"cpu": "2"}}}
    assert make_environment(api, _pod(), container, _NODE).get("X") == value


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            {"env": [_from(configMapKeyRef={"name": "nope", "key": "k"})]},
            'configmap "nope" not found',
        ),
        ({"env": [_from(secretKeyRef={"name": "nope", "key": "k"})]}, 'secret "nope" not found'),
        (
            {"env": [_from(configMapKeyRef={"name": "m", "key": "z"})]},
            "couldn't find key z in ConfigMap t/m",
        ),
        (
            {"env": [_from(secretKeyRef={"name": "s", "key": "z"})]},
            "couldn't find key z in Secret t/s",
        ),
        ({"envFrom": [{"configMapRef": {"name": "nope"}}]}, 'configmap "nope" not found'),
        ({"envFrom": [{"secretRef": {"name": "nope"}}]}, 'secret "nope" not found'),
    ],
)
def test_missing_references_are_named(api: SimulatedCluster, part: Obj, message: str) -> None:
    with pytest.raises(ContainerConfigError) as missing:
        make_environment(api, _pod(), part, _NODE)
    assert str(missing.value) == message


def test_single_variables_override_env_from_with_prefix(api: SimulatedCluster) -> None:
    sources = [
        {"configMapRef": {"name": "m"}, "prefix": "P_"},
        {"secretRef": {"name": "s"}},
        {"configMapRef": {"name": "nope", "optional": True}},
    ]
    container = {"envFrom": sources, "env": [{"name": "k", "value": "mine"}]}
    env = make_environment(api, _pod(hostname="h"), container, _NODE)
    assert {name: env[name] for name in ("P_k", "P_l", "k", "HOSTNAME")} == {
        "P_k": "v",
        "P_l": "w",
        "k": "mine",
        "HOSTNAME": "h",
    }


def test_commands_expand_variables() -> None:
    assert expand("a $(X) $(Y) $$(X)", {"X": "1"}) == "a 1 $(Y) $(X)"


def _mounting(volume: Obj, **mount: str) -> Obj:
    container = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/etc/v", **mount}]}
    return _pod(containers=[container], volumes=[{"name": "v", **volume}])


@pytest.mark.parametrize(
    ("volume", "missing"),
    [
        ({"configMap": {"name": "m"}}, None),
        ({"emptyDir": {}}, None),
        ({"configMap": {"name": "nope"}}, ("v", 'configmap "nope" not found')),
        ({"configMap": {"name": "nope", "optional": True}}, None),
        ({"secret": {"secretName": "nope"}}, ("v", 'secret "nope" not found')),
        (
            {"configMap": {"name": "m", "items": [{"key": "z", "path": "z"}]}},
            ("v", "configmap references non-existent config key: z"),
        ),
        (
            {"secret": {"secretName": "s", "items": [{"key": "z", "path": "z"}]}},
            ("v", "references non-existent secret key: z"),
        ),
    ],
)
def test_mount_errors_name_the_volume(
    api: SimulatedCluster, volume: Obj, missing: tuple[str, str] | None
) -> None:
    assert find_missing_volume(api, _mounting(volume)) == missing


def test_an_unmounted_volume_is_not_checked(api: SimulatedCluster) -> None:
    assert (
        find_missing_volume(api, _pod(volumes=[{"name": "v", "configMap": {"name": "nope"}}]))
        is None
    )


def test_volumes_become_files(api: SimulatedCluster) -> None:
    pod = _mounting({"configMap": {"name": "m"}})
    assert make_volume_files(api, pod, pod["spec"]["containers"][0], {}, _NODE) == {
        "/etc/v/k": b"v",
        "/etc/v/l": b"w",
    }
    items = [{"key": "k", "path": "sub/k"}]
    pod = _mounting({"secret": {"secretName": "s", "items": items}})
    assert make_volume_files(api, pod, pod["spec"]["containers"][0], {}, _NODE) == {
        "/etc/v/sub/k": b"secret"
    }
    pod = _mounting({"configMap": {"name": "m"}}, subPath="l")
    assert make_volume_files(api, pod, pod["spec"]["containers"][0], {}, _NODE) == {"/etc/v": b"w"}


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("/$(A)", "error SubPath `/x` must not be an absolute path"),
        ("$(EMPTY)/$(A)", "error SubPath `/x` must not be an absolute path"),
        ("$(A)/../..", "unable to provision SubPath `x/../..`: must not contain '..'"),
        ("$(B)", "missing value for B"),
    ],
)
def test_a_sub_path_stays_in_its_volume(expression: str, why: str) -> None:
    with pytest.raises(ContainerConfigError) as error:
        get_sub_path({"subPathExpr": expression}, {"A": "x", "EMPTY": ""})
    assert str(error.value) == why


def test_a_sub_path_has_variables() -> None:
    assert get_sub_path({"subPathExpr": "$(A)/..y"}, {"A": "x"}) == "x/..y"
    assert get_sub_path({"subPath": "$(A)"}, {}) == "$(A)"
    assert get_sub_path({}, {}) == ""
