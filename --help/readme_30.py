import pytest

from pytest_kwait import Kwait


def test_workers_start(kwait: Kwait) -> None:
    kwait.apply("sleepers.yaml")  # beside the test; into a namespace of this test alone
    pods = kwait.wait_for_job_pods_running("sleepers", 3)
    assert all(pod["status"]["podIP"] for pod in pods)


@pytest.mark.kwait_manifests("sleepers.yaml")
@pytest.mark.wait_for_job_pods_running("sleepers", 3, timeout="2m")
def test_with_workers_running(kwait: Kwait) -> None:  # the body starts when the marker's wait holds
    assert kwait.get("job/sleepers")["status"]["active"] == 3
