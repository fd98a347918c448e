from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.cluster import SimulatedCluster
from pytest_kwait.simulator.kubelet.cri import ContainerConfigError
from pytest_kwait.simulator.kubelet.environment import (
    expand,
    find_oom_score,
    get_sub_path,
    make_environment,
)
from pytest_kwait.simulator.kubelet.volumes import find_missing_volume, make_volume_files
from tests.objects import pod
from tests.simulator.cluster import NAMESPACE, Cluster, pod_spec
from tests.simulator.manual_clock import ManualClock
from tests.simulator.runtimes.interpreted.container_harness import take_output

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


def _labelled_pod(**spec: Any) -> Obj:
    metadata = {"namespace": NAMESPACE, "uid": "u", "labels": {"a/b": "c"}}
    return pod(**{"containers": [], "metadata": metadata, **spec})


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
    assert make_environment(api, _labelled_pod(), container, _NODE, {}).get("X") == value


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
        make_environment(api, _labelled_pod(), part, _NODE, {})
    assert str(missing.value) == message


def test_single_variables_override_env_from_with_prefix(api: SimulatedCluster) -> None:
    sources = [
        {"configMapRef": {"name": "m"}, "prefix": "P_"},
        {"secretRef": {"name": "s"}},
        {"configMapRef": {"name": "nope", "optional": True}},
    ]
    container = {"envFrom": sources, "env": [{"name": "k", "value": "mine"}]}
    env = make_environment(api, _labelled_pod(hostname="h"), container, _NODE, {})
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
    return _labelled_pod(containers=[container], volumes=[{"name": "v", **volume}])


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
        find_missing_volume(
            api, _labelled_pod(volumes=[{"name": "v", "configMap": {"name": "nope"}}])
        )
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


def _start(resources: Obj, **fields: object) -> Cluster:
    cluster = Cluster()
    container = {"resources": resources}
    cluster.create("pods", "p", pod_spec("sleep", "999", container=container, **fields))
    cluster.run(5)
    return cluster


def _sh(cluster: Cluster, script: str) -> str:
    node = cluster.get("pods", "p")["spec"]["nodeName"]
    kubelet = cluster.api.kubelets[node]
    session = kubelet.run("t", "p", "c", ["sh", "-c", f"({script}) 2>&1"], stdin=False, tty=False)
    cluster.run(1)
    return take_output(session)[1].decode()


@pytest.mark.parametrize(
    ("resources", "shown"),
    [
        ({}, ["max 100000", "1", "max"]),
        ({"requests": {"cpu": "1"}}, ["max 100000", "100", "max"]),
        (
            {"limits": {"cpu": "250m", "memory": "64Mi"}},
            ["25000 100000", "35", "67108864"],
        ),
        ({"limits": {"cpu": "5m"}, "requests": {"cpu": "1m"}}, ["1000 100000", "1", "max"]),
    ],
)
def test_the_cgroup_has_the_containers_resources(resources: Obj, shown: list[str]) -> None:
    lines = _sh(_start(resources), "cd /sys/fs/cgroup; cat cpu.max cpu.weight memory.max")
    assert lines.splitlines() == shown


def test_a_resize_shows_in_the_cgroup() -> None:
    cluster = _start({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})

    def change(pod: Obj) -> None:
        pod["spec"]["containers"][0]["resources"] = {kind: {"cpu": "2"} for kind in kinds}

    kinds = ("requests", "limits")
    cluster.api.modify("pods", "p", NAMESPACE, change, subresource="resize")
    cluster.run(5)
    assert _sh(cluster, "cat /sys/fs/cgroup/cpu.max") == "200000 100000\n"


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        (
            "mount -t cgroup2",
            "cgroup on /sys/fs/cgroup type cgroup2 (ro,nosuid,nodev,noexec,relatime)\n",
        ),
        ("mount | grep -c overlay", "1\n"),
        ("mount /dev/vda1 /mnt", "mount: permission denied (are you root?)\n"),
        (
            "echo 1 > /sys/fs/cgroup/cpu.max",
            "sh: can't create /sys/fs/cgroup/cpu.max: Read-only file system\n",
        ),
        ("cat /proc/1/oom_score_adj", "1000\n"),
        ("sysctl kernel.shm_rmid_forced", "kernel.shm_rmid_forced = 1\n"),
        ("sysctl -n net.ipv4.tcp_syncookies", "1\n"),
        ("sysctl kernel.none", "sysctl: error: 'kernel.none' is an unknown key\n"),
        ("ip link add dummy0 type dummy", "ip: RTNETLINK answers: Operation not permitted\n"),
        ("ip addr", "ip: not simulated by the embedded kubelet\n"),
        (
            "printf 'ab\\001' | hexdump -C",
            "00000000  61 62 01                                          |ab.|\n00000003\n",
        ),
        ("printf abc | hexdump", "0000000 6261 0063                              \n0000003\n"),
        (
            "yes | head -c 50 | hexdump -C -s 2",
            "00000002  79 0a 79 0a 79 0a 79 0a  79 0a 79 0a 79 0a 79 0a  |y.y.y.y.y.y.y.y.|\n"
            "*\n00000032\n",
        ),
        ("printf '' | hexdump -C", ""),
    ],
)  # fmt: skip
def test_programs_about_the_kernel(script: str, shown: str) -> None:
    sysctls = [{"name": "kernel.shm_rmid_forced", "value": "1"}]
    assert _sh(_start({}, securityContext={"sysctls": sysctls}), script) == shown


_GIB = 1 << 30


@pytest.mark.parametrize(
    ("quality", "request_", "more", "score"),
    [
        ("Guaranteed", "1Gi", {}, -997),
        ("BestEffort", "0", {}, 1000),
        ("Burstable", "1Gi", {}, 900),
        ("Burstable", "0", {}, 999),
        ("Burstable", "10Gi", {}, 3),
        ("Burstable", "0", {"restartPolicy": "Always"}, 800),
    ],
)
def test_the_oom_score_follows_the_quality_of_service(
    quality: str, request_: str, more: Obj, score: int
) -> None:
    main = {"name": "main", "resources": {"requests": {"memory": "2Gi"}}}
    pod: Obj = {"spec": {"containers": [main]}, "status": {"qosClass": quality}}
    container = {"name": "c", "resources": {"requests": {"memory": request_}}, **more}
    assert find_oom_score(pod, container, 10 * _GIB) == score
    critical = {**pod, "spec": {**pod["spec"], "priorityClassName": "system-node-critical"}}
    assert find_oom_score(critical, container, 10 * _GIB) == -997


def test_a_termination_message_from_the_log_ends_as_the_output() -> None:
    cluster = Cluster()
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    for name, script in (("whole", "echo a; echo b"), ("part", "echo a; printf b")):
        spec = pod_spec("sh", "-c", f"{script}; exit 1", container=fallback)
        cluster.create("pods", name, {**spec, "restartPolicy": "Never"})
    cluster.run(5)
    statuses = [
        cluster.get("pods", name)["status"]["containerStatuses"][0] for name in ("whole", "part")
    ]
    assert [one["state"]["terminated"]["message"] for one in statuses] == ["a\nb\n", "a\nb"]
