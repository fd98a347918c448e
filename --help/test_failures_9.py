import pytest

from pytest_kwait import ApiError, InvalidManifest, Kwait, WaitFailed, WaitTimeout

BROKEN = """
apiVersion: v1
kind: Pod
metadata: {name: broken}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: "busybox:1.36", command: [sh, -c, "echo no disk; exit 3"]}
"""


def test_pod_fails_with_exit_code_3(kwait: Kwait) -> None:
    kwait.apply(BROKEN)
    with pytest.raises(WaitFailed) as caught:
        kwait.wait_for_pod_success("broken")
    (pod,) = caught.value.evidence["pods"]
    (container,) = pod["containers"]
    assert container["exit_code"] == 3
    assert "no disk" in caught.value.evidence["logs"][0]["lines"]


def test_nothing_comes(kwait: Kwait) -> None:
    with pytest.raises(WaitTimeout) as caught:
        kwait.wait_for("configmap/late", "create", timeout="1s")
    assert caught.value.evidence["outcome"] == "timeout"


def test_object_is_refused(kwait: Kwait) -> None:
    with pytest.raises(ApiError) as caught:
        kwait.get("configmap/absent")
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")


def test_field_is_misspelt(kwait: Kwait) -> None:
    with pytest.raises(InvalidManifest) as caught:
        kwait.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dta: {}}")
    assert 'unknown field "dta"' in caught.value.problem


def test_command_fails(kwait: Kwait) -> None:
    with pytest.raises(WaitFailed):
        kwait.run("busybox:1.36", "sh", "-c", "exit 4")
    assert kwait.run("busybox:1.36", "sh", "-c", "exit 4", check=False).exit_code == 4
